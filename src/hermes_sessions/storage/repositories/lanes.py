"""Lanes: the session that each conversation key points at, and the state of the lane.

Every method takes a transaction, so that a lane changes together with the rows that depend on it.
Transactions that change a lane lock its row first and run with ``isolated=False``, so that rivals
wait instead of failing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.lane import Lane, LaneKey, LaneNotice, SessionKey, digests_of, parse_key
from hermes_sessions.model.source import SessionSource
from hermes_sessions.storage.codec import encode_text, to_json
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import ReadTransaction, Row, WriteTransaction, placeholders
from hermes_sessions.storage.repositories import lane_transitions
from hermes_sessions.storage.repositories.lane_transitions import Transition
from hermes_sessions.storage.store_context import StoreContext

logger = Logger(__name__)

_KEY: Final = ("profile", "platform", "chat_type", "chat_id", "thread_id", "participant_id")
_STATE: Final = (
    "session_key",
    "session_id",
    "created_at",
    "updated_at",
    "status",
    "status_reason",
    "status_at",
    "origin",
    "display_name",
    "notice",
    "last_prompt_tokens",
    "unfinished_starts",
    "finalized_at",
    "finalize_attempts",
    "finalize_error",
)
#: The columns of a lane in the order in which `lane_of` reads them.
LANE_COLUMNS: Final = ("id", "namespace", *_KEY, *_STATE)
_SELECT: Final = f"SELECT {', '.join(LANE_COLUMNS)} FROM lanes"
_INSERTED: Final = (
    "namespace",
    "key_hash",
    "session_key",
    *_KEY,
    "session_id",
    "created_at",
    "updated_at",
    "status",
    "origin",
    "display_name",
)
#: Instead of a session id: the lane has input waiting, but no session yet.
NO_SESSION: Final = ""


class Lanes:
    """The rows of ``lanes``. A key is a `LaneKey` or its rendered string. If a string can mean
    two keys, the likelier one that has a lane is used.
    """

    def __init__(self, store: StoreContext) -> None:
        self._dialect = store.provider.dialect

    # ── one ───────────────────────────────────────────────────────────────────────────────────

    def find(self, tx: ReadTransaction, namespace: str, key: LaneKey | str) -> Lane | None:
        """Return the lane, or None."""
        return self._by_key(tx, namespace, key)

    def lock(self, tx: WriteTransaction, namespace: str, key: LaneKey | str) -> Lane | None:
        """Return the lane, locked until the transaction ends, or None."""
        return self._by_key(tx, namespace, key, self._dialect.for_update)

    def find_by_id(self, tx: ReadTransaction, lane_id: int) -> Lane | None:
        """Return the lane with this number, or None."""
        return self._one(tx, "id = ?", lane_id)

    def lock_by_id(self, tx: WriteTransaction, lane_id: int) -> Lane | None:
        """Return the lane with this number, locked as by `lock`."""
        return self._one(tx, f"id = ?{self._dialect.for_update}", lane_id)

    def by_session(self, tx: ReadTransaction, namespace: str, session_id: str) -> Lane | None:
        """Return the lane that points at a session, the latest used if several do."""
        # Sort here: with ORDER BY, a database may scan all lanes instead of using the index.
        found = [lane_of(row) for row in tx.all(f"{_SELECT} WHERE session_id = ?", (session_id,))]
        ours = [lane for lane in found if lane.namespace == namespace]
        return max(ours, key=lambda lane: (lane.updated_at, lane.id), default=None)

    def ensure(
        self,
        tx: WriteTransaction,
        namespace: str,
        key: LaneKey | str,
        *,
        now: float,
        origin: SessionSource | None = None,
    ) -> Lane:
        """Return the lane, locked as by `lock`; create it without a session if it is missing.

        Raises:
            InvalidInput: the string is not a valid key.
        """
        found = self.lock(tx, namespace, key)
        if found is not None:
            return found
        rendered = key if isinstance(key, str) else key.render()
        parsed = rendered.key if isinstance(rendered, SessionKey) else parse_key(rendered)
        # On every database, the second of two rivals waits for the first and changes nothing.
        tx.run(
            self._dialect.upsert("lanes", _INSERTED, ("namespace", "key_hash"), ("namespace",)),
            (
                namespace,
                parsed.digest,
                rendered,
                *(getattr(parsed, name) for name in _KEY),
                NO_SESSION,
                now,
                now,
                "active",
                _origin_text(origin),
                origin.chat_name if origin else None,
            ),
        )
        made = self.lock(tx, namespace, parsed)
        if made is None:
            raise AssertionError(f"lane {rendered!r} vanished inside its transaction")
        return made

    def change(self, tx: WriteTransaction, lane: Lane, **changes: Any) -> Lane:
        """Update fields of a locked lane and return the new lane."""
        columns = {name: _column(name, value) for name, value in changes.items()}
        names = ", ".join(f"{name} = ?" for name in columns)
        tx.run(f"UPDATE lanes SET {names} WHERE id = ?", (*columns.values(), lane.id))
        return lane._replace(**changes)

    def remove(self, tx: WriteTransaction, lane: Lane) -> None:
        """Delete a locked lane and its history."""
        lane_transitions.forget(tx, lane.id)
        tx.run("DELETE FROM lanes WHERE id = ?", (lane.id,))

    def record(self, tx: WriteTransaction, transition: Transition) -> int:
        """Record a transition and return its id."""
        return lane_transitions.record(tx, transition)

    # ── many ──────────────────────────────────────────────────────────────────────────────────

    def page(
        self,
        tx: ReadTransaction,
        namespace: str,
        *,
        limit: int,
        before: Lane | None = None,
        since: float | None = None,
    ) -> list[Lane]:
        """Return a page of lanes that have a session, latest used first: those that follow
        *before* and were used at *since* or later.
        """
        conditions, params = ["namespace = ?", "session_id <> ?"], [namespace, NO_SESSION]
        return self._several(tx, conditions, params, limit, before, since)

    def page_older(
        self,
        tx: ReadTransaction,
        namespace: str,
        *,
        limit: int,
        until: float,
        after: Lane | None = None,
        unfinalized_only: bool = False,
    ) -> list[Lane]:
        """Return a page of lanes last used before *until*, longest unused first: those that follow
        *after*; with *unfinalized_only*, those that the expiry watcher has not finalized.
        """
        conditions, params = ["namespace = ?", "updated_at < ?"], list[Any]([namespace, until])
        if unfinalized_only:
            conditions.append("finalized_at IS NULL")
        if after is not None:
            # The first condition is redundant, but lets the database start inside the index.
            conditions.append("updated_at >= ? AND (updated_at > ? OR id > ?)")
            params += [after.updated_at, after.updated_at, after.id]
        rows = tx.all(
            f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY updated_at, id LIMIT ?",
            (*params, limit),
        )
        return [lane_of(row) for row in rows]

    def with_status(self, tx: ReadTransaction, namespace: str, status: str) -> list[Lane]:
        """Return the lanes in this state."""
        rows = tx.all(
            f"{_SELECT} WHERE namespace = ? AND status = ? ORDER BY id", (namespace, status)
        )
        return [lane_of(row) for row in rows]

    def with_key(self, tx: ReadTransaction, key: str) -> list[Lane]:
        """Return the lanes of all namespaces that this key can mean, latest used first."""
        if not (digests := digests_of(key)):
            return []
        rows = tx.all(
            f"{_SELECT} WHERE key_hash IN ({placeholders(len(digests))}) "
            f"ORDER BY updated_at DESC, id",
            digests,
        )
        return [lane_of(row) for row in rows]

    def with_key_prefix(self, tx: ReadTransaction, prefix: str, limit: int) -> list[Lane]:
        """Return the lanes of all namespaces whose key starts with *prefix*, latest used first."""
        rows = tx.all(
            f"{_SELECT} WHERE substr(session_key, 1, ?) = ? ORDER BY updated_at DESC, id LIMIT ?",
            # In the database, an escaped character counts as several.
            (len(encode_text(prefix)), prefix, limit),
        )
        return [lane_of(row) for row in rows]

    def with_session_prefix(self, tx: ReadTransaction, prefix: str, limit: int) -> list[Lane]:
        """Return the lanes of all namespaces whose session id starts so, latest used first."""
        if not prefix:
            return []
        rows = tx.all(
            f"{_SELECT} WHERE substr(session_id, 1, ?) = ? ORDER BY updated_at DESC, id LIMIT ?",
            (len(encode_text(prefix)), prefix, limit),
        )
        return [lane_of(row) for row in rows]

    def in_sessions(self, tx: ReadTransaction, ids: Sequence[str], limit: int) -> list[Lane]:
        """Return the lanes of all namespaces that point at one of these sessions."""
        rows = tx.all(
            f"{_SELECT} WHERE session_id IN ({placeholders(len(ids))}) "
            f"ORDER BY updated_at DESC, id LIMIT ?",
            (*ids, limit),
        )
        return [lane_of(row) for row in rows]

    def _several(
        self,
        tx: ReadTransaction,
        conditions: list[str],
        params: list[Any],
        limit: int,
        before: Lane | None,
        since: float | None,
    ) -> list[Lane]:
        if since is not None:
            conditions.append("updated_at >= ?")
            params.append(since)
        if before is not None:
            conditions.append("updated_at <= ? AND (updated_at < ? OR id < ?)")
            params += [before.updated_at, before.updated_at, before.id]
        rows = tx.all(
            f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY updated_at DESC, id DESC LIMIT ?",
            (*params, limit),
        )
        return [lane_of(row) for row in rows]

    @staticmethod
    def _by_key(
        tx: ReadTransaction, namespace: str, key: LaneKey | str, for_update: str = ""
    ) -> Lane | None:
        if not (digests := digests_of(key)):
            return None
        marks = placeholders(len(digests))
        rows = tx.all(
            f"{_SELECT} WHERE namespace = ? AND key_hash IN ({marks}){for_update}",
            (namespace, *digests),
        )
        found = [lane_of(row) for row in rows]
        return min(found, key=lambda lane: digests.index(lane.key.digest), default=None)

    @staticmethod
    def _one(tx: ReadTransaction, condition: str, *params: Any) -> Lane | None:
        row = tx.one(f"{_SELECT} WHERE {condition}", params)
        return None if row is None else lane_of(row)


def lane_of(row: Row) -> Lane:
    """Return the lane that a row of `LANE_COLUMNS` holds."""
    state = dict(zip(LANE_COLUMNS, row, strict=True))
    key = LaneKey(*(state.pop(name) for name in _KEY))
    state |= {
        "id": int(state["id"]),
        "session_key": SessionKey(state["session_key"], key),
        "origin": _origin(state),
        "notice": _notice(state),
    }
    return Lane(key=key, **state)


def _column(name: str, value: Any) -> Any:
    if name == "origin":
        return _origin_text(value)
    if name == "notice":
        return None if value is None else value.to_json()
    return value


def _origin_text(origin: SessionSource | None) -> str | None:
    return None if origin is None else to_json(origin.to_dict())


def _origin(state: dict[str, Any]) -> SessionSource | None:
    if state["origin"] is None:
        return None
    try:
        return SessionSource.from_dict(json.loads(state["origin"]))
    except (InvalidInput, ValueError) as error:
        # The platform belongs to a plug-in that this process has not loaded: it cannot send there.
        logger.info("cannot use the origin of lane %s: %s", state["session_key"], error)
        return None


def _notice(state: dict[str, Any]) -> LaneNotice | None:
    if state["notice"] is None:
        return None
    try:
        return LaneNotice.from_json(state["notice"])
    except InvalidInput as error:
        logger.warning("dropped the unreadable notice of lane %s: %s", state["session_key"], error)
        return None

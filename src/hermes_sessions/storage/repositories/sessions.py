"""Sessions: create, end, update, and look up by id."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from os import fspath
from typing import TYPE_CHECKING, Any, Final

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.ids import (
    ascii_lower,
    new_session_id,
    require_bounded,
    require_id,
    require_new_id,
)
from hermes_sessions.model.lineage import (
    COMPRESSION,
    LISTED_KINDS,
    edge_kind_at_creation,
    require_edge_kind,
)
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.codec import encode_text, from_json, to_json
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories.leases import lock_session, require_free
from hermes_sessions.storage.repositories.lineage import adopt, place_family
from hermes_sessions.storage.repositories.parent_edge import ParentEdge, edge_to
from hermes_sessions.storage.repositories.rows import (
    PLACE_COLUMNS,
    SELECT_SESSION,
    THREAD_COLUMNS,
    VISIBLE,
    scope_condition,
    session_record,
)
from hermes_sessions.storage.repositories.stale_sessions import settled_read
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from os import PathLike

    from hermes_sessions.model.workspace import Place
    from hermes_sessions.storage.records import SessionRecord

logger = Logger(__name__)

#: Where a session came from: what a later `create` fills in, too.
ORIGIN_COLUMNS: Final = (
    "session_key",
    "chat_id",
    "chat_type",
    "thread_id",
    "profile_name",
)
_INDEXED_ORIGIN: Final = ("session_key", "chat_id", "thread_id")
#: Columns that a later `create` fills in if they are NULL.
_FILLED_LATER: Final = (
    "model",
    "model_config",
    "system_prompt",
    "user_id",
    "metadata",
    "tags",
    *PLACE_COLUMNS,
    *ORIGIN_COLUMNS,
)
_CREATED: Final = [
    "id",
    "source",
    "user_id",
    "model",
    "model_config",
    "system_prompt",
    "parent_session_id",
    "started_at",
    "conversation_id",
    "edge_kind",
    "chain_id",
    "tip_id",
    "listed",
    "last_active",
    *THREAD_COLUMNS,
    *ORIGIN_COLUMNS,
]
ACCIDENTAL_ENDS: Final = ("agent_close", "ws_orphan_reap")


class Sessions:
    """Single rows of ``sessions``."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def create(
        self,
        session_id: str | None,
        source: str,
        *,
        model: str | None = None,
        model_config: Mapping[str, Any] | None = None,
        system_prompt: str | None = None,
        user_id: str | None = None,
        parent_session_id: str | None = None,
        edge_kind: str | None = None,
        started_at: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] | None = None,
        cwd: str | PathLike[str] | None = None,
        fence: int | None = None,
        **origin: str | None,
    ) -> str:
        """See `SessionDB.create_session`; *origin* has values of `ORIGIN_COLUMNS`."""
        if session_id is not None:
            require_id(session_id)
        if not isinstance(source, str) or not source:
            raise InvalidInput("A session needs a source, such as 'cli' or 'telegram'.")
        if edge_kind is not None:
            require_edge_kind(edge_kind)
            if parent_session_id is None:
                raise InvalidInput("An edge kind needs a parent_session_id.")
        values = {
            "id": session_id,
            "source": source,
            "user_id": user_id,
            "model": model,
            "model_config": _config_text(model_config),
            "system_prompt": system_prompt,
            "started_at": self._store.clock() if started_at is None else require_time(started_at),
            **_label_texts(metadata, tags),
            **checked_origin(origin),
        }
        config = dict(model_config) if model_config else None
        place = self._place(session_id, cwd)
        return self._store.provider.write(
            lambda tx: self._create(
                tx,
                values | _located(tx, cwd, place, self._store.clock()),
                parent_session_id,
                edge_kind,
                config,
                fence,
            )
        )

    def _place(self, session_id: str | None, cwd: str | PathLike[str] | None) -> Place | None:
        """Return the place of a directory; None without one, and if the session has one already:
        some programs create their session again before every turn.
        """
        if not cwd:
            return None
        if session_id is not None:
            with self._store.provider.read() as tx:
                row = tx.one("SELECT workspace_id, cwd FROM sessions WHERE id = ?", (session_id,))
            if row is not None and row[0] is not None:
                return None
            # A directory that was recorded without a workspace stays.
            cwd = row[1] or cwd if row is not None else cwd
        from hermes_sessions.storage.repositories.workspaces import Workspaces

        return Workspaces(self._store).locate(cwd)

    def _create(
        self,
        tx: WriteTransaction,
        given: dict[str, Any],
        parent_id: str | None,
        edge_kind: str | None,
        config: dict[str, Any] | None,
        fence: int | None,
    ) -> str:
        # The transaction may be retried, so *given* must not change.
        values = {**given, "id": given["id"] or self._unused_id(tx)}
        session_id: str = values["id"]
        existing = tx.one(
            "SELECT trashed_at, parent_session_id, source FROM sessions WHERE id = ?", (session_id,)
        )
        if existing is None:
            if parent_id is not None:
                edge = edge_to(tx, parent_id, edge_kind, config, values["source"])
                if edge.kind == COMPRESSION:
                    lock_session(tx, self._store, parent_id, fence)
            self.insert(tx, values, parent_id, edge_kind, config)
            return session_id
        trashed_at, stored_parent, source = existing
        if trashed_at is not None:
            raise InvalidInput(
                f"Session {session_id!r} is in the trash. Restore it with restore_sessions(), or "
                f"purge the trash, or use another id."
            )
        filled = {name: values[name] for name in _FILLED_LATER if values.get(name) is not None}
        if filled:
            changes = ", ".join(f"{name} = COALESCE({name}, ?)" for name in filled)
            tx.run(f"UPDATE sessions SET {changes} WHERE id = ?", (*filled.values(), session_id))
        if stored_parent is None and parent_id is not None and parent_id != session_id:
            edge = edge_to(tx, parent_id, edge_kind, config, source)
            if edge.kind == COMPRESSION:
                lock_session(tx, self._store, parent_id, fence)
                require_free(tx, self._store, [session_id])
            adopt(tx, session_id, parent_id, edge.kind)
            tx.run(
                "UPDATE sessions SET user_id = COALESCE(user_id, ?) WHERE id = ? "
                "AND parent_session_id = ?",
                (edge.user_id, session_id, parent_id),
            )
        return session_id

    def _unused_id(self, tx: WriteTransaction) -> str:
        """Return an id that is not in use. Two ids of the same second can be equal, and then the
        second session must not be taken as the first.
        """
        session_id = new_session_id(self._store.clock())
        while tx.one("SELECT 1 FROM sessions WHERE id = ?", (session_id,)) is not None:
            session_id = new_session_id(self._store.clock())
        return session_id

    @staticmethod
    def insert(
        tx: WriteTransaction,
        values: dict[str, Any],
        parent_id: str | None,
        edge_kind: str | None,
        config: dict[str, Any] | None = None,
    ) -> None:
        """Insert a new session below its parent, if it has one.

        For a continuation, the caller makes sure that no other holder leases the parent's chain.
        """
        session_id = require_new_id(values["id"])
        edge = ParentEdge(session_id)
        if parent_id is not None:
            edge = edge_to(tx, parent_id, edge_kind, config, values["source"])
        listed = parent_id is None or edge.kind in LISTED_KINDS
        row = (
            dict.fromkeys(ORIGIN_COLUMNS)
            | values
            | {
                "user_id": edge.user_id if values["user_id"] is None else values["user_id"],
                "parent_session_id": parent_id,
                "conversation_id": edge.conversation_id,
                "edge_kind": edge.kind,
                "chain_id": session_id,
                "tip_id": session_id if listed else None,
                "listed": int(listed),
                "last_active": values["started_at"],
            }
        )
        row = edge.complete(row)
        marks = ", ".join("?" * len(_CREATED))
        tx.run(
            f"INSERT INTO sessions ({', '.join(_CREATED)}) VALUES ({marks})",
            [row[name] for name in _CREATED],
        )
        if edge.kind == COMPRESSION:
            place_family(tx, edge.conversation_id)

    def ensure(self, tx: WriteTransaction, session_id: str, model: str | None, now: float) -> None:
        """Create a session whose usage was reported before it was created, if it does not exist."""
        require_id(session_id)
        values = dict.fromkeys(_FILLED_LATER) | {
            "id": session_id,
            "source": "unknown",
            "model": model,
            "started_at": now,
        }
        self._create(tx, values, None, None, None, None)

    def find(self, session_id: str, scope: Scope = OWNER) -> SessionRecord | None:
        """See `SessionDB.get_session`."""
        with self._store.provider.read() as tx:
            return find_session(tx, session_id, scope)

    def end(self, session_id: str, end_reason: str) -> None:
        """See `SessionDB.end_session`."""
        now = self._store.clock()

        def work(tx: WriteTransaction) -> bool:
            changed = tx.run(
                f"UPDATE sessions SET ended_at = ?, end_reason = ? "
                f"WHERE id = ? AND ended_at IS NULL AND {VISIBLE}",
                (now, end_reason, session_id),
            )
            return bool(changed) or find_session(tx, session_id) is not None

        if not self._store.provider.write(work):
            logger.warning("end_session: unknown session %r", session_id)

    def reopen(self, session_id: str) -> None:
        """See `SessionDB.reopen_session`."""
        self.set_columns(session_id, ended_at=None, end_reason=None)

    def promote_to_session_reset(self, session_id: str, reason: str | None) -> bool:
        """See `SessionDB.promote_to_session_reset`."""
        marks = ", ".join("?" * len(ACCIDENTAL_ENDS))
        is_open = "1 = 0" if reason is None else "ended_at IS NULL"
        now = self._store.clock()
        return bool(
            self._store.provider.write(
                lambda tx: tx.run(
                    f"UPDATE sessions SET ended_at = COALESCE(ended_at, ?), end_reason = ? "
                    f"WHERE id = ? AND (end_reason IN ({marks}) OR {is_open}) AND {VISIBLE}",
                    (now, reason or "session_reset", session_id, *ACCIDENTAL_ENDS),
                )
            )
        )

    def set_columns(self, session_id: str, **values: Any) -> None:
        """Overwrite columns of a session; log and ignore an unknown id."""
        if not self.try_set_columns(session_id, **values):
            logger.warning("update of %s: unknown session %r", ", ".join(values), session_id)

    def try_set_columns(self, session_id: str, **values: Any) -> bool:
        """Overwrite columns of a session; return whether it exists."""
        changes = ", ".join(f"{name} = ?" for name in values)
        return bool(
            self._store.provider.write(
                lambda tx: tx.run(
                    f"UPDATE sessions SET {changes} WHERE id = ? AND {VISIBLE}",
                    (*values.values(), session_id),
                )
            )
        )

    def set_config(self, session_id: str, model_config: str | None, model: str | None) -> None:
        """See `SessionDB.update_session_meta`."""
        if model_config is not None and not isinstance(model_config, str):
            raise InvalidInput(
                f"model_config_json must be text, not {type(model_config).__name__}."
            )
        values = {"model_config": model_config}
        self.set_columns(session_id, **(values if model is None else values | {"model": model}))
        config = from_json(model_config, None)
        kind = edge_kind_at_creation(None, config) if isinstance(config, dict) else None
        if kind is not None:
            self._store.provider.write(lambda tx: _explain_edge(tx, session_id, kind))

    def set_billing_route(
        self, session_id: str, provider: str | None, base_url: str | None, mode: str | None
    ) -> None:
        """See `SessionDB.update_session_billing_route`."""
        values = {
            "billing_provider": provider,
            "billing_base_url": base_url,
            # It named the model that was in use.
            "system_prompt": None,
        }
        self.set_columns(
            session_id, **(values if mode is None else values | {"billing_mode": mode})
        )

    def resolve_prefix(self, prefix: str) -> str | None:
        """See `SessionDB.resolve_session_id`."""
        if not isinstance(prefix, str):
            raise InvalidInput(f"A session id must be text, not {type(prefix).__name__}.")
        if not prefix:
            return None
        with self._store.provider.read() as tx:
            if tx.one(f"SELECT 1 FROM sessions WHERE id = ? AND {VISIBLE}", (prefix,)):
                return prefix
            matches = self._with_prefix(tx, prefix)
        return matches[0] if len(matches) == 1 else None

    def ids_with_prefix(self, prefix: str, limit: int) -> list[str]:
        """See `SessionDB.find_session_ids`."""
        with settled_read(self._store) as tx:
            return self._with_prefix(tx, prefix)[:limit]

    def _with_prefix(self, tx: ReadTransaction, prefix: str) -> list[str]:
        wanted = ascii_lower(prefix)
        beginning = self._store.provider.dialect.ascii_lower("substr(id, 1, ?)")
        rows = tx.all(
            f"SELECT id FROM sessions WHERE {beginning} = ? AND {VISIBLE} "
            f"ORDER BY last_active DESC, id DESC",
            # In the database, an escaped character counts as several.
            (len(encode_text(prefix)), wanted),
        )
        return [row[0] for row in rows]


def find_session(
    tx: ReadTransaction, session_id: str, scope: Scope = OWNER
) -> SessionRecord | None:
    """Return the record of a session that is in scope and not in the trash, or None."""
    seen, params = scope_condition(scope)
    row = tx.one(f"{SELECT_SESSION} WHERE id = ? AND {VISIBLE} AND {seen}", (session_id, *params))
    return session_record(row) if row else None


def checked_origin(origin: Mapping[str, Any]) -> dict[str, str | None]:
    """Return a value for each of `ORIGIN_COLUMNS`; ids that are numbers become text.

    Raises:
        InvalidInput: a value is not text, or too long to be indexed.
    """
    checked: dict[str, str | None] = {}
    for name in ORIGIN_COLUMNS:
        value = origin.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if value is not None and not isinstance(value, str):
            raise InvalidInput(f"{name} must be text, not {type(value).__name__}.")
        if value is not None and name in _INDEXED_ORIGIN:
            require_bounded(value, name)
        checked[name] = value
    return checked


def require_time(value: float) -> float:
    """Return a time that can be stored, or raise `InvalidInput`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InvalidInput(f"A time must be seconds since the epoch, not {value!r}.")
    return float(value)


def _explain_edge(tx: WriteTransaction, session_id: str, kind: str) -> None:
    """Set the edge kind of a child that has none."""
    row = tx.one(
        "SELECT conversation_id FROM sessions WHERE id = ? AND edge_kind IS NULL "
        "AND parent_session_id IS NOT NULL",
        (session_id,),
    )
    if row is not None:
        tx.run("UPDATE sessions SET edge_kind = ? WHERE id = ?", (kind, session_id))
        place_family(tx, row[0])


def _config_text(model_config: Mapping[str, Any] | None) -> str | None:
    if not model_config:
        return None
    try:
        return to_json(dict(model_config))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"model_config cannot be stored as JSON: {error}.") from error


def _located(
    tx: WriteTransaction, cwd: str | PathLike[str] | None, place: Place | None, now: float
) -> dict[str, str | None]:
    if place is None or not cwd:
        return {}
    from hermes_sessions.storage.repositories.workspaces import workspace_of

    return {
        "cwd": fspath(cwd),
        "git_branch": place.branch,
        "git_repo_root": place.repo_root,
        "workspace_id": workspace_of(tx, place, now),
    }


def _label_texts(
    metadata: Mapping[str, Any] | None, tags: Iterable[str] | None
) -> dict[str, str | None]:
    if metadata is None and tags is None:
        return {"metadata": None, "tags": None}
    from hermes_sessions.model import labels  # Most sessions start without.

    return {
        "metadata": labels.metadata_text(metadata or {}),
        "tags": labels.tags_text(labels.normalize_tags(tags or ())),
    }

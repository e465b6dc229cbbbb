"""Messages around one of them: what a search hit is shown with."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.message import text_of
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.provider import ReadTransaction, placeholders
from hermes_sessions.storage.repositories.rows import (
    SELECT_MESSAGE,
    VISIBLE,
    Record,
    message_record,
)
from hermes_sessions.storage.repositories.scoping import scope_condition
from hermes_sessions.storage.store import Store

_SHOWN = "session_id = ? AND active = 1"


class Anchors:
    """Windows into a transcript; their cost does not depend on its length."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def around(self, session_id: str, message_id: int, window: int, scope: Scope = OWNER) -> Record:
        """See `SessionDB.get_messages_around`."""
        _require_count("window", window)
        with self._store.provider.read() as tx:
            return _window(tx, session_id, message_id, window, None, scope)

    def view(
        self,
        session_id: str,
        message_id: int,
        window: int,
        bookend: int,
        keep_roles: Sequence[str] | None,
        scope: Scope = OWNER,
    ) -> Record:
        """See `SessionDB.get_anchored_view`."""
        _require_count("window", window)
        _require_count("bookend", bookend)
        with self._store.provider.read() as tx:
            found = _window(tx, session_id, message_id, window, keep_roles, scope)
            shown: list[Record] = found["window"]
            if not shown:
                return found | {"bookend_start": [], "bookend_end": []}
            first, last = shown[0]["ordinal"], shown[-1]["ordinal"]
            start = _with_text(tx, session_id, "ordinal < ?", first, "ASC", bookend, keep_roles)
            end = _with_text(tx, session_id, "ordinal > ?", last, "DESC", bookend, keep_roles)
        return found | {"bookend_start": start, "bookend_end": end[::-1]}


def _window(
    tx: ReadTransaction,
    session_id: str,
    message_id: int,
    window: int,
    keep_roles: Sequence[str] | None,
    scope: Scope,
) -> Record:
    seen, params = scope_condition(scope)
    anchor = tx.one(
        f"{SELECT_MESSAGE} WHERE id = ? AND {_SHOWN} "
        f"AND EXISTS (SELECT 1 FROM sessions WHERE id = ? AND {VISIBLE} AND {seen})",
        (message_id, session_id, session_id, *params),
    )
    if anchor is None:
        return {"window": [], "messages_before": 0, "messages_after": 0}
    middle = message_record(anchor)
    at = middle["ordinal"]
    roles, role_params = _roles(keep_roles)
    before = tx.all(
        f"{SELECT_MESSAGE} WHERE {_SHOWN} AND ordinal < ?{roles} ORDER BY ordinal DESC LIMIT ?",
        (session_id, at, *role_params, window),
    )
    after = tx.all(
        f"{SELECT_MESSAGE} WHERE {_SHOWN} AND ordinal > ?{roles} ORDER BY ordinal LIMIT ?",
        (session_id, at, *role_params, window),
    )
    shown = [*map(message_record, reversed(before)), middle, *map(message_record, after)]
    return {
        "window": shown,
        "messages_before": _count(tx, session_id, "ordinal < ?", shown[0]["ordinal"]),
        "messages_after": _count(tx, session_id, "ordinal > ?", shown[-1]["ordinal"]),
    }


def _count(tx: ReadTransaction, session_id: str, beyond: str, ordinal: int) -> int:
    row = tx.one(
        f"SELECT COUNT(*) FROM messages WHERE {_SHOWN} AND {beyond}", (session_id, ordinal)
    )
    return int(row[0]) if row else 0


def _with_text(
    tx: ReadTransaction,
    session_id: str,
    beyond: str,
    ordinal: int,
    direction: str,
    wanted: int,
    keep_roles: Sequence[str] | None,
) -> list[Record]:
    """Return up to *wanted* messages with readable text, from the session's edge inwards."""
    roles, role_params = _roles(keep_roles)
    found: list[Record] = []
    if wanted == 0:
        return found
    for row in tx.stream(
        f"{SELECT_MESSAGE} WHERE {_SHOWN} AND {beyond}{roles} AND content IS NOT NULL "
        f"ORDER BY ordinal {direction}",
        (session_id, ordinal, *role_params),
    ):
        message = message_record(row)
        if text_of(message["content"]).strip():
            found.append(message)
            if len(found) == wanted:
                break
    return found


def _roles(keep_roles: Sequence[str] | None) -> tuple[str, Sequence[str]]:
    if not keep_roles:
        return "", ()
    return f" AND role IN ({placeholders(len(keep_roles))})", keep_roles


def _require_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(f"{name} must be a whole number of 0 or more, not {value!r}.")

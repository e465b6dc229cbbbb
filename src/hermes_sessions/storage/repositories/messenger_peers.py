"""The messenger chats that sessions belong to: recording them, and finding sessions by them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.ids import ascii_lower
from hermes_sessions.storage.provider import ReadTransaction
from hermes_sessions.storage.repositories.rows import (
    SELECT_SESSION,
    SESSION_COLUMNS,
    VISIBLE,
    names,
    session_record,
    session_values,
)
from hermes_sessions.storage.repositories.sessions import (
    ACCIDENTAL_ENDS,
    Sessions,
    checked_origin,
)
from hermes_sessions.storage.repositories.stale_sessions import settled_read
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import RecentSession, SessionRecord

_PEER: Final = ("source", "user_id", "chat_id", "chat_type", "thread_id")
#: Open, or ended by accident, with a message; takes these ends.
_RECOVERABLE: Final = (
    f"(ended_at IS NULL OR end_reason IN ({', '.join('?' * len(ACCIDENTAL_ENDS))})) "
    f"AND (message_count > 0 "
    f"OR EXISTS (SELECT 1 FROM messages m WHERE m.session_id = sessions.id)) AND {VISIBLE}"
)


class MessengerPeers:
    """The columns of ``sessions`` that say with whom it is."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store
        self._sessions = Sessions(store)

    def record(
        self,
        session_id: str,
        source: str,
        *,
        user_id: str | None,
        session_key: str | None,
        chat_id: str | None,
        chat_type: str | None,
        thread_id: str | None,
        display_name: str | None,
        origin_json: str | None,
    ) -> None:
        """See `SessionDB.record_gateway_session_peer`."""
        if not session_id or not session_key:
            return
        if not isinstance(source, str) or not source:
            raise InvalidInput("A session needs a source, such as 'telegram'.")
        peer = {
            "session_key": session_key,
            "chat_id": chat_id,
            "chat_type": chat_type,
            "thread_id": thread_id,
        }
        checked = checked_origin(peer)
        values: dict[str, Any] = {name: checked[name] for name in peer}
        values |= {"source": source, "user_id": None if user_id is None else str(user_id)}
        shown = {"display_name": display_name, "origin_json": origin_json}
        values |= {name: value for name, value in shown.items() if value is not None}
        self._sessions.try_set_columns(session_id, **values)

    def set_finalized(self, session_id: str, *, finalized: bool) -> None:
        """See `SessionDB.set_expiry_finalized`."""
        self._sessions.try_set_columns(session_id, expiry_finalized=int(finalized))

    def latest(
        self,
        source: str,
        *,
        user_id: str | None,
        session_key: str | None,
        chat_id: str | None,
        chat_type: str | None,
        thread_id: str | None,
    ) -> SessionRecord | None:
        """See `SessionDB.find_latest_gateway_session_for_peer`."""
        if not session_key:
            return None
        with self._store.provider.read() as tx:
            found = _newest(tx, "session_key = ? AND source = ?", (session_key, source))
            if found is None and chat_id and chat_type:
                same = " AND ".join(f"COALESCE({name}, ?) = ?" for name in _PEER)
                peer = (source, user_id, chat_id, chat_type, thread_id)
                params = [part for value in peer for part in ("", _text(value))]
                found = _newest(tx, same, params)
        return found

    def listed(self, platform: str | None, *, active_only: bool) -> list[RecentSession]:
        """See `SessionDB.list_gateway_sessions`."""
        where, params = self._of_platform(platform)
        if active_only:
            where += " AND ended_at IS NULL"
        columns = (*SESSION_COLUMNS, "last_active")
        with settled_read(self._store) as tx:
            rows = tx.all(
                f"SELECT {names(columns)} FROM sessions WHERE {where} "
                f"ORDER BY started_at DESC, id DESC",
                params,
            )
        newest: dict[str, RecentSession] = {}
        for row in rows:
            record = cast("RecentSession", session_values(columns, row))
            newest.setdefault(record["session_key"] or "", record)
        return sorted(newest.values(), key=lambda one: (-one["last_active"], one["id"]))

    def by_origin(
        self, platform: str, chat_id: str | int, thread_id: str | None, user_id: str | None
    ) -> str | None:
        """See `SessionDB.find_session_by_origin`."""
        if not platform or not _text(chat_id):
            return None
        where, params = self._of_platform(platform)
        where += " AND ended_at IS NULL AND chat_id = ?"
        params.append(_text(chat_id))
        if thread_id is not None:
            where += " AND COALESCE(thread_id, ?) = ?"
            params += ["", _text(thread_id)]
        with self._store.provider.read() as tx:
            rows = tx.all(
                f"SELECT id, user_id FROM sessions WHERE {where} ORDER BY started_at DESC, id DESC",
                params,
            )
        return _chosen(rows, user_id)

    def _of_platform(self, platform: str | None) -> tuple[str, list[Any]]:
        where = f"session_key IS NOT NULL AND {VISIBLE}"
        if not platform:
            return where, []
        source = self._store.provider.dialect.ascii_lower("source")
        return f"{where} AND {source} = ?", [ascii_lower(platform)]


def _newest(tx: ReadTransaction, condition: str, params: Iterable[Any]) -> SessionRecord | None:
    row = tx.one(
        f"{SELECT_SESSION} WHERE {condition} AND {_RECOVERABLE} "
        f"ORDER BY started_at DESC, id DESC LIMIT 1",
        (*params, *ACCIDENTAL_ENDS),
    )
    return session_record(row) if row else None


def _chosen(rows: Iterable[tuple[Any, ...]], user_id: str | None) -> str | None:
    """Return the session to deliver to, of (id, user) pairs from the newest start on; None if it
    could be that of another user.
    """
    found = list(rows)
    wanted = _text(user_id).strip()
    own = [session_id for session_id, user in found if wanted and _text(user) == wanted]
    if own:
        return str(own[0])
    if wanted:
        return str(found[0][0]) if len(found) == 1 else None
    users = {_text(user).strip() for _, user in found} - {""}
    return str(found[0][0]) if found and len(users) <= 1 else None


def _text(value: object) -> str:
    return "" if value is None else str(value)

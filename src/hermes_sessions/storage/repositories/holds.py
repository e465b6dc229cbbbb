"""Holds: conversations that nothing may delete, with the reason, until the hold is lifted.

A pin protects a conversation from pruning, but not from deletion by id; a hold protects it from
both. A hold is stored with one session and applies to its whole conversation.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from hermes_sessions.errors import InvalidInput, OnHold
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction, placeholders
from hermes_sessions.storage.repositories.rows import VISIBLE
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import HoldRecord

STEP: Final = "0007_holds"
_LONGEST_REASON: Final = 1000
_CHUNK: Final = 500


class Holds:
    """See `SessionDB.hold_session`."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def put(self, session_id: str, reason: str) -> bool:
        """See `SessionDB.hold_session`."""
        if not isinstance(reason, str) or not reason.strip():
            raise InvalidInput("A hold needs a reason.")
        if len(reason) > _LONGEST_REASON:
            raise InvalidInput(f"A reason can have at most {_LONGEST_REASON} characters.")
        dialect = self._store.provider.dialect
        now = self._store.clock()

        def work(tx: WriteTransaction) -> bool:
            if not _is_visible(tx, session_id):
                return False
            columns = ("session_id", "reason", "held_at")
            tx.run(
                dialect.upsert("holds", columns, ("session_id",), ("reason",)),
                (session_id, reason.strip(), now),
            )
            return True

        return self._store.provider.write(work)

    def lift(self, session_id: str) -> bool:
        """See `SessionDB.lift_hold`."""

        def work(tx: WriteTransaction) -> bool:
            conversation_id = _conversation(tx, session_id)
            held = [h.session_id for h in _held(tx) if h.conversation_id == conversation_id]
            for one in held:
                tx.run("DELETE FROM holds WHERE session_id = ?", (one,))
            return bool(held)

        return self._store.provider.write(work)

    def list(self) -> list[HoldRecord]:
        """See `SessionDB.list_holds`."""
        with self._store.provider.read() as tx:
            if not _exist(self._store):
                return []
            rows = tx.all(
                f"SELECT h.session_id, h.reason, h.held_at, s.title, s.conversation_id "
                f"FROM holds h JOIN sessions s ON s.id = h.session_id WHERE s.{VISIBLE} "
                f"ORDER BY h.held_at, h.session_id"
            )
        names = ("session_id", "reason", "held_at", "title", "conversation_id")
        return [cast("HoldRecord", dict(zip(names, row, strict=True))) for row in rows]


def conversations_on_hold(tx: ReadTransaction, store: StoreContext) -> set[str]:
    """Return the conversations that nothing may delete."""
    if not _exist(store):
        return set()
    return {hold.conversation_id for hold in _held(tx)}


def require_no_hold(tx: ReadTransaction, session_ids: Collection[str]) -> None:
    """Raise if one of these sessions must not be deleted.

    Raises:
        OnHold: one of them belongs to a conversation that is on hold.
    """
    held = {hold.conversation_id: (hold.session_id, hold.reason) for hold in _held(tx)}
    if not held:
        return
    wanted = list(session_ids)
    for start in range(0, len(wanted), _CHUNK):
        chunk = wanted[start : start + _CHUNK]
        for session_id, conversation_id in tx.all(
            f"SELECT id, conversation_id FROM sessions WHERE id IN ({placeholders(len(chunk))})",
            chunk,
        ):
            if conversation_id in held:
                raise OnHold(session_id, *held[conversation_id])


class _Hold(NamedTuple):
    session_id: str
    conversation_id: str
    reason: str


def _held(tx: ReadTransaction) -> list[_Hold]:
    rows = tx.all(
        "SELECT h.session_id, s.conversation_id, h.reason FROM holds h "
        "JOIN sessions s ON s.id = h.session_id"
    )
    return [_Hold._make(row) for row in rows]


def _is_visible(tx: ReadTransaction, session_id: str) -> bool:
    return tx.one(f"SELECT 1 FROM sessions WHERE id = ? AND {VISIBLE}", (session_id,)) is not None


def _conversation(tx: ReadTransaction, session_id: str) -> str | None:
    row = tx.one("SELECT conversation_id FROM sessions WHERE id = ?", (session_id,))
    return row[0] if row else None


def _exist(store: StoreContext) -> bool:
    """Return whether the store has the table; an older store that is only read may lack it."""
    return not store.provider.read_only or STEP not in store.provider.steps().waiting

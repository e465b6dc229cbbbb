"""Handoffs: sessions that continue on another platform, and the state of each handoff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories.rows import (
    SELECT_SESSION,
    VISIBLE,
    session_record,
)
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import HandoffState, SessionRecord

_PENDING: Final = "pending"
_RUNNING: Final = "running"
_COMPLETED: Final = "completed"
_FAILED: Final = "failed"
_MAX_ERROR: Final = 500
_WAITS: Final = f"id = ? AND {VISIBLE} AND handoff_state = ? AND lower(handoff_platform) = ?"


def _waits(session_id: str, platform: str) -> tuple[str, str, str]:
    return session_id, _PENDING, platform.lower()


class Handoffs:
    """The handoff columns of ``sessions``.

    Every change is one statement, so that exactly one of several rivals succeeds.
    """

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def request(self, session_id: str, platform: str) -> bool:
        """See `SessionDB.request_handoff`."""
        if not isinstance(platform, str) or not platform:
            raise InvalidInput("A handoff needs a platform, such as 'telegram'.")
        return self._change(
            "handoff_state = ?, handoff_platform = ?, handoff_error = NULL",
            (_PENDING, platform),
            session_id,
            "AND (handoff_state IS NULL OR handoff_state IN (?, ?))",
            (_COMPLETED, _FAILED),
        )

    def state(self, session_id: str) -> HandoffState | None:
        """See `SessionDB.get_handoff_state`."""
        with self._store.provider.read() as tx:
            row = tx.one(
                f"SELECT handoff_state, handoff_platform, handoff_error FROM sessions "
                f"WHERE id = ? AND {VISIBLE}",
                (session_id,),
            )
        if row is None:
            return None
        state, platform, error = row
        return {"state": state, "platform": platform, "error": error}

    def pending(self) -> list[SessionRecord]:
        """See `SessionDB.list_pending_handoffs`."""
        with self._store.provider.read() as tx:
            rows = tx.all(
                f"{SELECT_SESSION} WHERE handoff_state = ? AND {VISIBLE} ORDER BY started_at, id",
                (_PENDING,),
            )
        return [session_record(row) for row in rows]

    def claim(self, session_id: str) -> bool:
        """See `SessionDB.claim_handoff`."""
        return self._change(
            "handoff_state = ?", (_RUNNING,), session_id, "AND handoff_state = ?", (_PENDING,)
        )

    @staticmethod
    def is_pending(tx: ReadTransaction, session_id: str, platform: str) -> bool:
        """Return whether a session waits for a handoff to a platform."""
        row = tx.one(f"SELECT 1 FROM sessions WHERE {_WAITS}", _waits(session_id, platform))
        return row is not None

    @staticmethod
    def accept(tx: WriteTransaction, session_id: str, platform: str) -> bool:
        """Complete a waiting handoff to a platform; return False if there is none."""
        return bool(
            tx.run(
                f"UPDATE sessions SET handoff_state = ?, handoff_error = NULL WHERE {_WAITS}",
                (_COMPLETED, *_waits(session_id, platform)),
            )
        )

    def complete(self, session_id: str) -> None:
        """See `SessionDB.complete_handoff`."""
        self._change("handoff_state = ?, handoff_error = NULL", (_COMPLETED,), session_id)

    def fail(self, session_id: str, error: str) -> None:
        """See `SessionDB.fail_handoff`."""
        self._change(
            "handoff_state = ?, handoff_error = ?", (_FAILED, str(error)[:_MAX_ERROR]), session_id
        )

    def _change(
        self,
        changes: str,
        values: tuple[str, ...],
        session_id: str,
        condition: str = "",
        params: tuple[str, ...] = (),
    ) -> bool:
        def work(tx: WriteTransaction) -> bool:
            return bool(
                tx.run(
                    f"UPDATE sessions SET {changes} WHERE id = ? AND {VISIBLE} {condition}",
                    (*values, session_id, *params),
                )
            )

        return self._store.provider.write(work, isolated=False)

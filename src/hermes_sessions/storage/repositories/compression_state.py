"""State of compression between turns: the pause after a failure, and the streak of fallbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.repositories.rows import VISIBLE
from hermes_sessions.storage.repositories.sessions import Sessions, require_time
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import CompressionCooldown


class CompressionState:
    """The columns ``compression_*`` of ``sessions``."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store
        self._sessions = Sessions(store)

    def cooldown(self, session_id: str) -> CompressionCooldown | None:
        """See `SessionDB.get_compression_failure_cooldown`."""
        if not session_id:
            return None
        with self._store.provider.read() as tx:
            row = tx.one(
                f"SELECT compression_failure_cooldown_until, compression_failure_error "
                f"FROM sessions WHERE id = ? AND {VISIBLE}",
                (session_id,),
            )
        if row is None or row[0] is None:
            return None
        until, error = row
        remaining = until - self._store.clock()
        if remaining <= 0:
            return None
        return {"cooldown_until": until, "remaining_seconds": remaining, "error": error}

    def set_cooldown(self, session_id: str, until: float | None, error: str | None) -> None:
        """See `SessionDB.record_compression_failure_cooldown`; None ends it."""
        if session_id:
            self._sessions.try_set_columns(
                session_id,
                compression_failure_cooldown_until=None if until is None else require_time(until),
                compression_failure_error=error,
            )

    def streak(self, session_id: str) -> int:
        """See `SessionDB.get_compression_fallback_streak`."""
        if not session_id:
            return 0
        with self._store.provider.read() as tx:
            row = tx.one(
                f"SELECT compression_fallback_streak FROM sessions WHERE id = ? AND {VISIBLE}",
                (session_id,),
            )
        return int(row[0] or 0) if row else 0

    def set_streak(self, session_id: str, streak: int) -> None:
        """See `SessionDB.set_compression_fallback_streak`."""
        try:
            count = int(streak)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"A streak must be a whole number, not {streak!r}.") from error
        if session_id:
            self._sessions.try_set_columns(session_id, compression_fallback_streak=max(0, count))

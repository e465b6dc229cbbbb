"""Finalize hooks for sessions that a message ended before the expiry watcher did.

A message to an expired lane gets a new session at once and does not wait for hooks. The watcher
finds the old session in the lane's transitions, in their order, and remembers its position. One
process at a time works on it. A failed hook is called again in a later pass and given up after the
third attempt.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from hermes_sessions.lifecycle.lane_decision import Decision
from hermes_sessions.lifecycle.lane_dependencies import LaneDependencies
from hermes_sessions.lifecycle.session_finalization import ATTEMPTS, FinalizationClaim
from hermes_sessions.model.ids import MAX_ID_LENGTH, stored_length
from hermes_sessions.model.lane import Lane, key_hash
from hermes_sessions.storage.batches import stuck_message
from hermes_sessions.storage.codec import from_json, to_json
from hermes_sessions.storage.host_processes import has_ended
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories import lane_sessions
from hermes_sessions.storage.repositories.meta import Meta

logger = Logger(__name__)

#: After this many seconds transitions are visible in the order of their ids on any database.
_SETTLED_AFTER: Final = 60.0
_PAGE: Final = 200
#: Reasons for which sessions end automatically.
_AUTOMATIC: Final = frozenset({"idle", "daily", "suspended"})


class _Progress(NamedTuple):
    """The state kept between passes."""

    #: Transitions up to this id are processed.
    through: int
    #: Attempts at the next one.
    attempts: int = 0
    claimed_by: str | None = None
    until: float = 0.0


def _key(namespace: str) -> str:
    """Return the key of a bot's progress, for any name of the bot."""
    plain = f"lifecycle.left_behind:{namespace}"
    if stored_length(plain) <= MAX_ID_LENGTH:
        return plain
    return f"lifecycle.left_behind:sha256-{key_hash(namespace)}"


class OrphanedSessions:
    """Claims orphaned sessions one after the other."""

    def __init__(self, deps: LaneDependencies, who: str, claim_seconds: float) -> None:
        """*who* is the claimant; a claim lasts *claim_seconds*."""
        self._deps = deps
        self._who = who
        self._claim_seconds = claim_seconds
        self._meta = Meta(deps.store)
        self._key = _key(deps.namespace)
        self._claimed = self._closed = 0

    def claim(self, now: float) -> FinalizationClaim | None:
        """Claim the next orphaned session.

        None if there is none, if another process holds the claim, or if the last one is claimed
        again because its end was rolled back.
        """

        def work(tx: WriteTransaction) -> tuple[int, FinalizationClaim | None]:
            progress = self._progress(tx)
            if progress is None:
                # Hooks are not owed for the time before the first watcher.
                newest = tx.one("SELECT MAX(id) FROM lane_transitions")
                self._note(tx, _Progress(int(newest[0] or 0) if newest else 0))
                return 0, None
            if (
                progress.claimed_by is not None
                and 0 < progress.until - now <= self._claim_seconds
                and not has_ended(progress.claimed_by)
            ):
                return 0, None
            found, seen = self._next(tx, progress, now)
            if found is None:
                if seen != progress.through:
                    self._note(tx, _Progress(seen))
                return 0, None
            number, claim = found
            if number <= self._closed:
                logger.warning("%s", stuck_message("Finalizing orphaned sessions", 1))
                return 0, None
            attempts = progress.attempts if seen == progress.through else 0
            self._note(tx, _Progress(seen, attempts + 1, self._who, now + self._claim_seconds))
            return number, claim._replace(attempt=attempts + 1)

        self._claimed, claim = self._deps.store.provider.write(work)
        return claim

    def close(self, claim: FinalizationClaim, *, error: str | None = None) -> bool:
        """Record that the hooks of the last claim were called; with an *error* only after the last
        attempt. Returns whether the session is finished.
        """
        is_done = error is None or claim.attempt >= ATTEMPTS

        def work(tx: WriteTransaction) -> bool:
            progress = self._progress(tx)
            if progress is None or progress.claimed_by != self._who:
                return False
            later = _Progress(self._claimed) if is_done else progress._replace(claimed_by=None)
            self._note(tx, later)
            return is_done

        is_noted = self._deps.store.provider.write(work)
        if is_noted:
            self._closed = self._claimed
        return is_noted

    def _next(
        self, tx: ReadTransaction, progress: _Progress, now: float
    ) -> tuple[tuple[int, FinalizationClaim] | None, int]:
        """Return the next transition that orphaned a session, and the last id that is done."""
        seen = progress.through
        while rows := tx.all(
            "SELECT id, lane_id, at, action, reason, from_session_id FROM lane_transitions "
            "WHERE id > ? ORDER BY id LIMIT ?",
            (seen, _PAGE),
        ):
            for number, lane_id, at, action, reason, session_id in rows:
                # In either direction, because the writer's clock may be ahead.
                if abs(now - at) < _SETTLED_AFTER:
                    return None, seen
                if action == "reset" and reason in _AUTOMATIC and session_id:
                    claim = self._owed(tx, lane_id, session_id, reason)
                    if claim is not None:
                        return (int(number), claim), seen
                seen = int(number)
        return None, seen

    def _owed(
        self, tx: ReadTransaction, lane_id: int, session_id: str, reason: str
    ) -> FinalizationClaim | None:
        lane: Lane | None = self._deps.lanes.find_by_id(tx, lane_id)
        session = lane_sessions.find(tx, session_id)
        if lane is None or lane.namespace != self._deps.namespace or session is None:
            return None
        finalized = tx.one(
            "SELECT 1 FROM lane_transitions WHERE lane_id = ? AND action = ? "
            "AND from_session_id = ? LIMIT 1",
            (lane_id, "finalize", session_id),
        )
        if finalized is not None:
            return None
        left = lane._replace(session_id=session_id)
        return FinalizationClaim(left, Decision("reset", reason, {}), 1, session.message_count)

    def _progress(self, tx: WriteTransaction) -> _Progress | None:
        for_update = self._deps.store.provider.dialect.for_update
        row = tx.one(f'SELECT value FROM state_meta WHERE "key" = ?{for_update}', (self._key,))
        stored: Any = from_json(row[0], None) if row else None
        return _Progress(**stored) if isinstance(stored, dict) else None

    def _note(self, tx: WriteTransaction, progress: _Progress) -> None:
        self._meta.put(tx, self._key, to_json(progress._asdict()))

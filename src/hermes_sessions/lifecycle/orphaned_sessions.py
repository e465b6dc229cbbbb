"""Sessions that a message left behind before the watcher came by: their hooks are owed, too.

Whoever writes to an expired lane gets a new session at once and does not wait for hooks. The
watcher finds the old session in the lane's transitions, in their order, and remembers up to which
one it has seen. One process at a time is at it; a hook that fails is called again in a later pass,
and given up after the third time.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from hermes_sessions.lifecycle.decide import Decision
from hermes_sessions.lifecycle.lane_engine import LaneEngine
from hermes_sessions.lifecycle.session_finalization import ATTEMPTS, Claim
from hermes_sessions.model.ids import MAX_ID_LENGTH, stored_length
from hermes_sessions.model.lane import Lane, key_hash
from hermes_sessions.storage.batched_work import stuck_message
from hermes_sessions.storage.codec import from_json, to_json
from hermes_sessions.storage.host_processes import has_ended
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories import lane_sessions
from hermes_sessions.storage.repositories.meta import Meta

logger = Logger(__name__)

#: Transitions become visible in the order of their numbers after so many seconds, on any database.
_SETTLED_AFTER: Final = 60.0
_PAGE: Final = 200
#: Why sessions are left without anybody having asked for it.
_AUTOMATIC: Final = frozenset({"idle", "daily", "suspended"})


class _Progress(NamedTuple):
    """What is remembered between passes."""

    #: Transitions up to this one are seen to.
    through: int
    #: How often the next one was tried.
    attempts: int = 0
    claimed_by: str | None = None
    until: float = 0.0


def _key(namespace: str) -> str:
    """Return under which name the progress of a bot is kept, whatever the bot is called."""
    plain = f"lifecycle.left_behind:{namespace}"
    if stored_length(plain) <= MAX_ID_LENGTH:
        return plain
    return f"lifecycle.left_behind:sha256-{key_hash(namespace)}"


class OrphanedSessions:
    """Claims sessions that were left behind, one after the other."""

    def __init__(self, engine: LaneEngine, who: str, claim_seconds: float) -> None:
        """*who* claims, for *claim_seconds*."""
        self._engine = engine
        self._who = who
        self._claim_seconds = claim_seconds
        self._meta = Meta(engine.store)
        self._key = _key(engine.namespace)
        self._claimed = self._closed = 0

    def claim(self, now: float) -> Claim | None:
        """Claim the next session that was left behind; None when there is none, when another
        process is at it, or when the last one is claimed again because its end was undone.
        """

        def work(tx: WriteTransaction) -> tuple[int, Claim | None]:
            progress = self._progress(tx)
            if progress is None:
                # Nothing is owed for the time before the first watcher.
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
                logger.warning("%s", stuck_message("Finalizing sessions that were left", 1))
                return 0, None
            attempts = progress.attempts if seen == progress.through else 0
            self._note(tx, _Progress(seen, attempts + 1, self._who, now + self._claim_seconds))
            return number, claim._replace(attempt=attempts + 1)

        self._claimed, claim = self._engine.store.provider.write(work)
        return claim

    def close(self, claim: Claim, *, error: str | None = None) -> bool:
        """Note that the hooks of what was claimed last were called; with an *error* only after the
        last attempt. Return whether it is done with.
        """
        is_done = error is None or claim.attempt >= ATTEMPTS

        def work(tx: WriteTransaction) -> bool:
            progress = self._progress(tx)
            if progress is None or progress.claimed_by != self._who:
                return False
            later = _Progress(self._claimed) if is_done else progress._replace(claimed_by=None)
            self._note(tx, later)
            return is_done

        is_noted = self._engine.store.provider.write(work)
        if is_noted:
            self._closed = self._claimed
        return is_noted

    def _next(
        self, tx: ReadTransaction, progress: _Progress, now: float
    ) -> tuple[tuple[int, Claim] | None, int]:
        """Return the next transition that left a session behind, and up to which all are seen."""
        seen = progress.through
        while rows := tx.all(
            "SELECT id, lane_id, at, action, reason, from_session_id FROM lane_transitions "
            "WHERE id > ? ORDER BY id LIMIT ?",
            (seen, _PAGE),
        ):
            for number, lane_id, at, action, reason, session_id in rows:
                # Either way: the clock of who wrote it may be ahead of this one.
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
    ) -> Claim | None:
        lane: Lane | None = self._engine.lanes.find_by_id(tx, lane_id)
        session = lane_sessions.find(tx, session_id)
        if lane is None or lane.namespace != self._engine.namespace or session is None:
            return None
        finalized = tx.one(
            "SELECT 1 FROM lane_transitions WHERE lane_id = ? AND action = ? "
            "AND from_session_id = ? LIMIT 1",
            (lane_id, "finalize", session_id),
        )
        if finalized is not None:
            return None
        left = lane._replace(session_id=session_id)
        return Claim(left, Decision("reset", reason, {}), 1, session.message_count)

    def _progress(self, tx: WriteTransaction) -> _Progress | None:
        for_update = self._engine.store.provider.dialect.for_update
        row = tx.one(f'SELECT value FROM state_meta WHERE "key" = ?{for_update}', (self._key,))
        stored: Any = from_json(row[0], None) if row else None
        return _Progress(**stored) if isinstance(stored, dict) else None

    def _note(self, tx: WriteTransaction, progress: _Progress) -> None:
        self._meta.put(tx, self._key, to_json(progress._asdict()))

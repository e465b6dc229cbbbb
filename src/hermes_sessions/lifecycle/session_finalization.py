"""Ends the session of an expired lane exactly once, with hooks that may fail.

A lane is claimed in the transaction that decides about it. Claims expire, so that a dead process
blocks no other; on the same host they expire at once. Hooks run outside any transaction and at
least once: after a failure a later pass calls them again. After the third failure the lane is
finalised nevertheless, which is recorded and reported.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from hermes_sessions.lifecycle.lane_decision import Decision, decide
from hermes_sessions.lifecycle.lane_dependencies import LaneDependencies
from hermes_sessions.lifecycle.lane_updates import SESSION_RESET, TransitionCause, follow, record
from hermes_sessions.model.lane import Lane
from hermes_sessions.storage.codec import from_json
from hermes_sessions.storage.host_processes import has_ended
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories import lane_sessions
from hermes_sessions.storage.repositories.lanes import NO_SESSION
from hermes_sessions.storage.repositories.mailbox import Mailbox

ATTEMPTS: Final = 3
_ACTOR: Final = "expiry"


class FinalizationClaim(NamedTuple):
    """A lane whose session this process may end."""

    lane: Lane
    decision: Decision
    #: Starts at 1.
    attempt: int
    message_count: int

    @property
    def session_id(self) -> str:
        """The session that ends."""
        return self.lane.session_id

    @property
    def reason(self) -> str:
        """``idle``, ``daily`` or ``suspended``."""
        return self.decision.reason or "expired"


class SessionFinalizer:
    """Claims lanes and closes them, one transaction each."""

    def __init__(self, deps: LaneDependencies, who: str, claim_seconds: float) -> None:
        """*who* is the claimant; a claim lasts *claim_seconds*."""
        self._deps = deps
        self._who = who
        self._claim_seconds = claim_seconds

    def claim(self, seen: Lane, now: float, *, has_processes: bool) -> FinalizationClaim | None:
        """Decide about a lane and claim it.

        None if its session continues, if a turn, process or message of it is pending, or if another
        process holds the claim.
        """

        def work(tx: WriteTransaction) -> FinalizationClaim | None:
            lane = self._deps.lanes.lock_by_id(tx, seen.id)
            if lane is None or lane.finalized_at is not None or lane.session_id == NO_SESSION:
                return None
            if self._is_claimed(lane, now):
                return None
            found = lane_sessions.find(tx, lane.session_id)
            session = found if found is not None and found.is_there else None
            busy = has_processes or self._is_busy(tx, lane, session, now)
            decision = decide(
                lane,
                self._deps.policy_for(lane.key),
                now,
                busy=busy,
                freshness=self._deps.config.auto_continue_freshness,
                session_exists=session is not None,
            )
            if session is None:
                # The session was deleted: there is nothing to save and nothing to end.
                self._close(
                    tx, lane, TransitionCause("finalize", "session_missing", _ACTOR), now, None
                )
                return None
            if decision.action != "reset" or busy:
                return None
            # The continuation ends: it has the latest messages, and it is the session that a
            # message would leave.
            as_it_was = lane
            lane, session, followed = follow(tx, lane, session)
            if followed:
                cause = TransitionCause("follow", "compaction", _ACTOR)
                record(tx, self._deps, as_it_was, cause, now, to_session_id=lane.session_id)
            attempt = lane.finalize_attempts + 1
            claim = {"claimed_by": self._who, "until": now + self._claim_seconds}
            changes = {"finalize_attempts": attempt, "finalize_error": json.dumps(claim)}
            lane = self._deps.lanes.change(tx, lane, **followed, **changes)
            return FinalizationClaim(lane, decision, attempt, session.message_count)

        return self._deps.store.provider.write(work, isolated=False)

    def close(self, claim: FinalizationClaim, now: float, *, error: str | None = None) -> bool:
        """End the claimed session; with an *error* only after the last attempt.

        Returns whether the lane is finalised: not if it was used meanwhile, or will be tried again.
        """

        def work(tx: WriteTransaction) -> bool:
            lane = self._deps.lanes.lock_by_id(tx, claim.lane.id)
            if (
                lane is None
                or lane.session_id != claim.session_id
                or lane.finalize_attempts != claim.attempt
            ):
                return False
            if error is not None and claim.attempt < ATTEMPTS:
                self._deps.lanes.change(tx, lane, finalize_error=error)
                return False
            facts = {**claim.decision.facts, "attempt": claim.attempt, "error": error}
            self._close(
                tx, lane, TransitionCause("finalize", claim.reason, _ACTOR, facts), now, error
            )
            return True

        return self._deps.store.provider.write(work, isolated=False)

    def _close(
        self,
        tx: WriteTransaction,
        lane: Lane,
        cause: TransitionCause,
        now: float,
        error: str | None,
    ) -> None:
        session = lane_sessions.find(tx, lane.session_id)
        if session is not None:
            # After compaction, the earlier sessions of the chain have already ended.
            tip = lane_sessions.tip_of(tx, session)
            lane_sessions.end(tx, tip.id, SESSION_RESET, now=now, left_by=lane.id)
        record(tx, self._deps, lane, cause, now)
        self._deps.lanes.change(tx, lane, finalized_at=now, finalize_error=error)

    def _is_claimed(self, lane: Lane, now: float) -> bool:
        claim: Any = from_json(lane.finalize_error, None)
        if not isinstance(claim, dict) or claim.get("claimed_by") is None:
            return False
        if has_ended(str(claim["claimed_by"])):
            return False
        # A clock that was set back must not make a claim last forever.
        return 0 < float(claim["until"]) - now <= self._claim_seconds

    @staticmethod
    def _is_busy(
        tx: ReadTransaction, lane: Lane, session: lane_sessions.LaneSession | None, now: float
    ) -> bool:
        if Mailbox.has_any(tx, lane.id):
            return True
        return session is not None and lane_sessions.is_running(tx, session.chain_id, now)

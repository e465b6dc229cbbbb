"""One rule for turns that will not be finished.

The input waits again at its position, and the lane is marked for resuming. After three unfinished
turns without a successful one in between, the lane is suspended, so that a message that kills its
gateway does so three times and not forever. That input is then dropped, the user is told, and the
messages after it are answered in a new session.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hermes_sessions.lifecycle.lane_decision import AUTO_RESUME_REASONS
from hermes_sessions.lifecycle.lane_dependencies import LaneDependencies
from hermes_sessions.lifecycle.lane_updates import TransitionCause, record, set_status
from hermes_sessions.model.lane import Lane
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.mailbox import Mailbox
from hermes_sessions.storage.repositories.turns import Turn, Turns

#: The number of unfinished turns in a row after which a lane is suspended.
STUCK_AFTER: Final = 3
STUCK: Final = "stuck_loop"
INTERRUPTED: Final = "restart_interrupted"


class AbandonedTurn(NamedTuple):
    """A turn that was ended on behalf of a dead process."""

    turn: Turn
    #: The lane afterwards; None if it was deleted.
    lane: Lane | None
    #: Mailbox items that wait again.
    returned: int = 0
    #: Items dropped because the lane is stuck or deleted.
    dropped: int = 0
    #: The lane was suspended because of this turn.
    is_stuck: bool = False


class UnfinishedTurns:
    """Sets turns aside inside the caller's transaction."""

    def __init__(self, deps: LaneDependencies) -> None:
        self._deps = deps
        self._clock = deps.store.clock
        self._turns = Turns(deps.store)
        self._mailbox = Mailbox(deps.store)

    def set_aside(
        self,
        tx: WriteTransaction,
        lane: Lane | None,
        turn: Turn,
        *,
        detail: str | None = None,
        actor: str,
    ) -> AbandonedTurn | None:
        """End a turn that will not be finished, on its locked lane; None if it had already ended.

        The lane is marked with *detail* if that allows an automatic resume, otherwise as
        interrupted. A lane marked by a drain keeps its reason and time, one marked before the turn
        its reason, and a suspended one stays suspended.
        """
        if not self._turns.end(turn, "abandoned", detail, tx=tx):
            return None
        reason = detail if detail in AUTO_RESUME_REASONS else INTERRUPTED
        now = self._clock()
        if lane is None:
            dropped = self._mailbox.drop_turn(tx, turn.id, now, reason="lane_gone")
            return AbandonedTurn(turn, None, dropped=dropped)
        starts = lane.unfinished_starts + 1
        facts = {
            "turn": turn.id,
            "turn_started_at": turn.started_at,
            "attempt": turn.attempt,
            "process": turn.process_id,
            "detail": detail,
            "unfinished_starts": starts,
        }
        if starts >= STUCK_AFTER and lane.status != "suspended":
            dropped = self._mailbox.drop_turn(tx, turn.id, now, reason=STUCK)
            cause = TransitionCause("suspend", STUCK, actor, facts)
            lane = set_status(tx, self._deps, lane, "suspended", cause, now)
            # The next session starts without earlier failures.
            lane = self._deps.lanes.change(tx, lane, unfinished_starts=0)
            return AbandonedTurn(turn, lane, dropped=dropped, is_stuck=True)
        returned = self._mailbox.give_back(tx, turn.id)
        if lane.status == "active":
            cause = TransitionCause("mark", reason, actor, facts)
            lane = set_status(tx, self._deps, lane, "resume_pending", cause, now)
        elif lane.status == "resume_pending":
            cause = TransitionCause("mark", lane.status_reason, actor, facts)
            if lane.status_at is None or turn.started_at > lane.status_at:
                # It was resumed and interrupted again; the time of the latest interruption counts.
                lane = set_status(tx, self._deps, lane, "resume_pending", cause, now)
            else:
                # A drain marked it while the turn was running.
                record(tx, self._deps, lane, cause, now)
        lane = self._deps.lanes.change(tx, lane, unfinished_starts=starts)
        return AbandonedTurn(turn, lane, returned)


def resume_dedupe_key(lane: Lane) -> str:
    """Return the dedupe key of one interruption of a lane.

    A mailbox item with this key resumes the lane, or records that it was resumed.
    """
    return f"resume:{lane.id}:{lane.status_at!r}"

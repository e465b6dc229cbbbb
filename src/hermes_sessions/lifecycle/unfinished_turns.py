"""What becomes of a turn that nobody will finish: one rule, whoever finds it.

Its input waits again, in its place, and the lane is to be resumed. A lane that was found so three
times without a good turn in between is suspended, so that a message that kills its gateway does so
three times and not for ever: then that input is dropped, the user is told, and what waits behind it
is answered in a new session.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hermes_sessions.lifecycle.decide import AUTO_RESUME_REASONS
from hermes_sessions.lifecycle.lane_engine import LaneEngine
from hermes_sessions.lifecycle.lane_updates import TransitionCause, record, set_status
from hermes_sessions.model.lane import Lane
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.mailbox import Mailbox
from hermes_sessions.storage.repositories.turns import Turn, Turns

#: So many times a lane may be found with an unfinished turn.
STUCK_AFTER: Final = 3
STUCK: Final = "stuck_loop"
INTERRUPTED: Final = "restart_interrupted"


class AbandonedTurn(NamedTuple):
    """A turn that was ended for a process that cannot."""

    turn: Turn
    #: As it is afterwards; None when it is gone.
    lane: Lane | None
    #: How many items of the mailbox wait again.
    returned: int = 0
    #: How many were dropped, because the lane is stuck or gone.
    dropped: int = 0
    #: The lane was suspended because of it.
    is_stuck: bool = False


class UnfinishedTurns:
    """Sets turns aside, in somebody's transaction."""

    def __init__(self, engine: LaneEngine) -> None:
        self._engine = engine
        self._clock = engine.store.clock
        self._turns = Turns(engine.store)
        self._mailbox = Mailbox(engine.store)

    def set_aside(
        self,
        tx: WriteTransaction,
        lane: Lane | None,
        turn: Turn,
        *,
        detail: str | None = None,
        actor: str,
    ) -> AbandonedTurn | None:
        """End a turn that nobody will finish, on its lane, which is locked; None when it had ended.

        The lane is marked with *detail*, if that is a reason to go on by itself, and otherwise as
        interrupted. One that a drain marked keeps its reason and time, one that was marked before
        the turn its reason, and a suspended one stays so.
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
            lane = set_status(tx, self._engine, lane, "suspended", cause, now)
            # The next session begins with a clean slate.
            lane = self._engine.lanes.change(tx, lane, unfinished_starts=0)
            return AbandonedTurn(turn, lane, dropped=dropped, is_stuck=True)
        returned = self._mailbox.give_back(tx, turn.id)
        if lane.status == "active":
            cause = TransitionCause("mark", reason, actor, facts)
            lane = set_status(tx, self._engine, lane, "resume_pending", cause, now)
        elif lane.status == "resume_pending":
            cause = TransitionCause("mark", lane.status_reason, actor, facts)
            if lane.status_at is None or turn.started_at > lane.status_at:
                # It went on, and was interrupted again: what counts is how long ago that was.
                lane = set_status(tx, self._engine, lane, "resume_pending", cause, now)
            else:
                # A drain marked it while the turn ran.
                record(tx, self._engine, lane, cause, now)
        lane = self._engine.lanes.change(tx, lane, unfinished_starts=starts)
        return AbandonedTurn(turn, lane, returned)


def resume_dedupe_key(lane: Lane) -> str:
    """Return what tells one interruption of a lane from the next, for the mailbox: what is there
    under this mark goes on after it, or says that somebody did.
    """
    return f"resume:{lane.id}:{lane.status_at!r}"

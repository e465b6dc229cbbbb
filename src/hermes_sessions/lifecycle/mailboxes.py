"""Mailboxes: received messages of lanes, processed as turns that each finish once.

Every operation is one transaction that locks the lane's row first. A message is received once, is
in one turn at a time, and has one committed turn, however often it is tried. The row of a turn, and
the token of the lease under which it runs, decide whether it is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hermes_sessions.errors import ConstraintViolated, NotFound, StaleFence, UnknownSession
from hermes_sessions.lifecycle.lane_dependencies import LaneDependencies
from hermes_sessions.lifecycle.lane_updates import TransitionCause, set_status
from hermes_sessions.lifecycle.turn_input import TurnInput, next_input
from hermes_sessions.lifecycle.unfinished_turns import UnfinishedTurns, resume_dedupe_key
from hermes_sessions.model.lane import Lane, LaneKey
from hermes_sessions.model.source import SessionSource
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories.lanes import NO_SESSION
from hermes_sessions.storage.repositories.leases import Lease, chain_of, require_lease
from hermes_sessions.storage.repositories.mailbox import (
    TOLD,
    EnqueueResult,
    Kind,
    Mailbox,
    WaitingLane,
)
from hermes_sessions.storage.repositories.turns import Outcome, Turn, Turns

#: How long an answered message is remembered, to recognise repeated delivery.
DEFAULT_REMEMBERED_DAYS: Final = 30.0
_DAY: Final = 86_400.0
_ACTOR: Final = "mailbox"

#: An additional write in the same transaction.
ExtraWrite = Callable[[WriteTransaction], None]


class StartedTurn(NamedTuple):
    """A turn that has begun, and its input."""

    turn: Turn
    input: TurnInput
    lane: Lane

    @property
    def is_resumed(self) -> bool:
        """Whether a previous turn was interrupted: the transcript may then end in the middle."""
        return self.input.is_retry or self.lane.status == "resume_pending"


class TurnEnding(NamedTuple):
    """The result of ending a turn."""

    #: The turn still owned the lane and ended as requested. Otherwise its reply must not be sent.
    is_accepted: bool
    #: The recorded outcome, whichever process recorded it.
    outcome: str | None
    #: Number of waiting items in the lane.
    depth: int
    #: The third unfinished turn in a row: its input was dropped, the user should be told, and the
    #: next message starts a new session.
    is_stuck: bool = False


class StopResult(NamedTuple):
    """What was stopped in a lane."""

    #: The turn that was running.
    turn: Turn | None
    #: Number of waiting items that were dropped.
    dropped: int


class Mailboxes:
    """The mailboxes of one bot's lanes."""

    def __init__(
        self, deps: LaneDependencies, *, remembered_days: float = DEFAULT_REMEMBERED_DAYS
    ) -> None:
        """At most ``mailbox_limit`` items wait in a lane. Answered messages are remembered for
        *remembered_days*, so that a repeated delivery is not answered again.
        """
        self._deps = deps
        self._store = deps.store
        self._remembered_days = remembered_days
        self._rows = Mailbox(deps.store)
        self._lanes = deps.lanes
        self._turns = Turns(deps.store)
        self._unfinished = UnfinishedTurns(deps)

    # Receiving

    def put(
        self,
        lane: Lane | int,
        kind: Kind,
        sender: str | None,
        text: str | None,
        payload: Mapping[str, Any] | None = None,
        dedupe: str | None = None,
    ) -> EnqueueResult:
        """Add an item to a lane's mailbox; durable when it returns.

        *dedupe* is the `dedupe_mark` of a platform's message id. A full mailbox refuses everything
        but ``resume``; the result says so.

        Raises:
            NotFound: the lane does not exist.
            MessageTooLarge, InvalidInput: it cannot be stored.
        """
        return self._put(
            lambda tx: self._lock(tx, _id_of(lane)), kind, sender, text, payload, dedupe
        )

    def receive(
        self,
        key: LaneKey | str,
        *,
        kind: Kind = "message",
        sender: str | None = None,
        text: str | None = None,
        payload: Mapping[str, Any] | None = None,
        dedupe: str | None = None,
        also: Sequence[str | None] = (),
        origin: SessionSource | None = None,
    ) -> EnqueueResult:
        """Add an item to the mailbox of the lane with a key; creates the lane if needed.

        The lane gets a session when one is requested. *also* are the marks of further messages that
        this one contains: when one of them arrives by itself, it is a duplicate.
        """
        now = self._store.clock()
        return self._put(
            lambda tx: self._lanes.ensure(tx, self._deps.namespace, key, now=now, origin=origin),
            kind,
            sender,
            text,
            payload,
            dedupe,
            also,
        )

    def _put(
        self,
        lock: Callable[[WriteTransaction], Lane],
        kind: Kind,
        sender: str | None,
        text: str | None,
        payload: Mapping[str, Any] | None,
        dedupe: str | None,
        also: Sequence[str | None] = (),
    ) -> EnqueueResult:
        def work(tx: WriteTransaction) -> EnqueueResult:
            lane_id = lock(tx).id
            put = self._rows.put(
                tx,
                lane_id,
                kind=kind,
                sender=sender,
                text=text,
                payload=payload,
                dedupe=dedupe,
                limit=None if kind == "resume" else self._deps.config.mailbox_limit,
            )
            if not (put.is_duplicate or put.is_refused):
                for mark in also:
                    self._rows.note(tx, lane_id, mark, reason="part", kind=kind)
            return put

        try:
            return self._store.provider.write(work, isolated=False)
        except ConstraintViolated:
            # The same message was stored for another lane at the same moment; that one wins.
            with self._store.provider.read() as tx:
                if (known := self._rows.find_duplicate(tx, dedupe)) is None:
                    raise
            return EnqueueResult(known, 0, is_duplicate=True)

    # Turns

    def take(self, lane: Lane | int, lease: Lease) -> StartedTurn | None:
        """Begin the next turn of a lane under a lease on its session; `next_input` selects its
        input.

        Returns None if nothing waits, if the same lease already runs a turn, or if the lane is
        suspended and needs a new session first. A turn that another holder left unfinished is set
        aside, and its input is taken again.

        Raises:
            NotFound: the lane does not exist.
            StaleFence: the lease does not hold the session that the lane points at now.
        """
        lane_id = _id_of(lane)

        def work(tx: WriteTransaction) -> StartedTurn | None:
            found = self._lock(tx, lane_id)
            if self._chain(tx, found) != lease.chain_id:
                raise StaleFence(
                    f"Lane {found.session_key} now points at session {found.session_id!r}, which "
                    f"this lease does not hold. Get the lane's session and take its lease."
                )
            while (turn := self._turns.running_on(lane_id=found.id, tx=tx)) is not None:
                if (turn.chain_id, turn.token) == (lease.chain_id, lease.token):
                    return None
                found = self._take_over(tx, found, turn, lease)
            taken = next_input(self._rows.waiting(tx, found.id))
            if taken is None or found.status == "suspended":
                return None
            turn = self._turns.start(
                found.id, lease, found.session_id, attempt=self._attempt(tx, taken), tx=tx
            )
            self._rows.give_to(tx, turn.id, taken.item_ids)
            if not taken.is_retry and list(taken.item_ids) != sorted(taken.item_ids):
                # A retry must see the same order.
                for place, item in enumerate(taken.items):
                    self._rows.change_payload(tx, item.id, {**item.payload, "place": place})
            return StartedTurn(turn, taken, found)

        return self._store.provider.write(work, isolated=False)

    def _take_over(self, tx: WriteTransaction, lane: Lane, turn: Turn, lease: Lease) -> Lane:
        if turn.chain_id != lease.chain_id:
            # It runs in the previous session, where no reply is expected.
            self._supersede(tx, turn)
            return lane
        aside = self._unfinished.set_aside(tx, lane, turn, actor=_ACTOR)
        return lane if aside is None or aside.lane is None else aside.lane

    def _attempt(self, tx: ReadTransaction, taken: TurnInput) -> int:
        before = taken.items[0].turn_id
        turn = None if before is None else self._turns.find(before, tx=tx)
        return 1 if turn is None else turn.attempt + 1

    def finish(
        self,
        turn: Turn,
        outcome: Outcome,
        *,
        detail: str | None = None,
        again: bool = False,
        unused: Iterable[int] = (),
        also: ExtraWrite | None = None,
    ) -> TurnEnding:
        """End a turn and settle its input, together with what *also* writes.

        ``completed``: the input is done, and the lane is active again. ``interrupted`` and
        ``failed``: the input is done too, because the sender was told; with *again* it waits for
        another attempt. ``abandoned``: it waits, see `UnfinishedTurns`. *unused* are items that
        were steered into the turn but not seen by it: they wait again.

        Of an answered message only the fact is kept; its text is in the transcript.

        The end is accepted once, and only while the turn owns the lane: not after the lane moved to
        another session, was stopped, or its lease was lost. Then *also* is not called, and the
        reply must not be sent.
        """
        given_back = list(unused)

        def work(tx: WriteTransaction) -> TurnEnding:
            lane = None
            if turn.lane_id is not None:
                lane = self._lanes.lock_by_id(tx, turn.lane_id)
            stored = self._turns.find(turn.id, tx=tx)
            if stored is None or stored.ended_at is not None:
                return self._finished(tx, turn, accepted=False)
            if turn.lane_id is not None and self._chain(tx, lane) != turn.chain_id:
                self._supersede(tx, turn)
                return self._finished(tx, turn, accepted=False)
            self._rows.give_back(tx, turn.id, given_back)
            is_stuck = False
            if not self._holds(tx, turn):
                # The lease was lost and not taken over yet, so the turn's own outcome does not
                # count.
                is_stuck = self._set_aside(tx, lane, turn, "lease_lost")
                return self._finished(tx, turn, accepted=False)._replace(is_stuck=is_stuck)
            if outcome == "abandoned":
                is_stuck = self._set_aside(tx, lane, turn, detail)
            else:
                self._turns.end(turn, outcome, detail, tx=tx)
                self._settle(tx, turn, outcome, again=again)
                if lane is not None:
                    self._note_end(tx, lane, turn, outcome, again=again)
            if also is not None:
                also(tx)
            return self._finished(tx, turn, accepted=True)._replace(is_stuck=is_stuck)

        finished = self._store.provider.write(work, isolated=False)
        self._deps.changed()
        return finished

    def _set_aside(
        self, tx: WriteTransaction, lane: Lane | None, turn: Turn, detail: str | None
    ) -> bool:
        aside = self._unfinished.set_aside(tx, lane, turn, detail=detail, actor=_ACTOR)
        return aside is not None and aside.is_stuck

    def _holds(self, tx: WriteTransaction, turn: Turn) -> bool:
        try:
            require_lease(tx, self._store, turn.chain_id, turn.session_id, turn.token)
        except StaleFence:
            return False
        return True

    def _settle(self, tx: WriteTransaction, turn: Turn, outcome: Outcome, *, again: bool) -> None:
        if again:
            self._rows.give_back(tx, turn.id)
        else:
            now, keep_text = self._store.clock(), outcome != "completed"
            self._rows.settle(tx, turn.id, now, reason=outcome, keep_text=keep_text)

    def _note_end(
        self, tx: WriteTransaction, lane: Lane, turn: Turn, outcome: Outcome, *, again: bool
    ) -> None:
        now = self._store.clock()
        if outcome != "completed" and not again:
            self._cancel_auto_resume(tx, lane)
        elif outcome == "completed" and lane.status == "resume_pending":
            facts = {"turn": turn.id, "attempt": turn.attempt}
            cause = TransitionCause("unmark", "completed", _ACTOR, facts)
            lane = set_status(tx, self._deps, lane, "active", cause, now)
        starts = 0 if outcome == "completed" else lane.unfinished_starts
        self._lanes.change(tx, lane, updated_at=max(lane.updated_at, now), unfinished_starts=starts)

    def _cancel_auto_resume(self, tx: WriteTransaction, lane: Lane) -> None:
        """Prevent an automatic resume of the lane: the user was told how the last attempt ended, or
        ended it, and decides how to continue.
        """
        if lane.status == "resume_pending":
            self._rows.note(tx, lane.id, resume_dedupe_key(lane), reason=TOLD, kind="resume")

    def _supersede(self, tx: WriteTransaction, turn: Turn) -> None:
        self._turns.end(turn, "interrupted", "superseded", tx=tx)
        self._rows.settle(tx, turn.id, self._store.clock(), reason="superseded", keep_text=True)

    def _finished(self, tx: ReadTransaction, turn: Turn, *, accepted: bool) -> TurnEnding:
        stored = self._turns.find(turn.id, tx=tx)
        depth = 0 if turn.lane_id is None else self._rows.depth(tx, turn.lane_id)
        return TurnEnding(accepted, stored.outcome if stored else None, depth)

    def steer(self, turn: Turn, item_id: int) -> bool:
        """Pass a waiting plain message to the running turn.

        False if it must wait: the turn has ended, or another plain message was before it.
        """
        lane_id = turn.lane_id
        if lane_id is None:
            return False

        def work(tx: WriteTransaction) -> bool:
            self._lock(tx, lane_id)
            stored = self._turns.find(turn.id, tx=tx)
            if stored is None or stored.ended_at is not None:
                return False
            plain = (item for item in self._rows.waiting(tx, lane_id) if item.kind == "message")
            first = next(plain, None)
            if first is None or first.id != item_id or first.turn_id is not None:
                return False
            self._rows.give_to(tx, turn.id, [item_id])
            return True

        return self._store.provider.write(work, isolated=False)

    # Stopping

    def clear(self, lane: Lane | int, reason: str) -> int:
        """Drop the waiting items of a lane; return how many, to tell the user."""
        lane_id = _id_of(lane)

        def work(tx: WriteTransaction) -> int:
            self._lock(tx, lane_id)
            return self._rows.drop(tx, lane_id, self._store.clock(), reason=reason)

        return self._store.provider.write(work, isolated=False)

    def stop(
        self, lane: Lane | int, reason: str, *, tx: WriteTransaction | None = None
    ) -> StopResult:
        """End the running turn of a lane and drop the waiting items; with *tx*, in that
        transaction.

        The turn's own end is not accepted afterwards.
        """
        lane_id = _id_of(lane)

        def work(tx: WriteTransaction) -> StopResult:
            self._cancel_auto_resume(tx, self._lock(tx, lane_id))
            now = self._store.clock()
            stopped = None
            while (turn := self._turns.running_on(lane_id=lane_id, tx=tx)) is not None:
                self._turns.end(turn, "interrupted", reason, tx=tx)
                self._rows.settle(tx, turn.id, now, reason=reason, keep_text=True)
                stopped = turn
            return StopResult(stopped, self._rows.drop(tx, lane_id, now, reason=reason))

        return work(tx) if tx is not None else self._store.provider.write(work, isolated=False)

    # Reading

    def depth(self, lane: Lane | int) -> int:
        """Return the number of items waiting in a lane."""
        with self._store.provider.read() as tx:
            return self._rows.depth(tx, _id_of(lane))

    def waiting_lanes(self, *, limit: int = 1_000) -> list[WaitingLane]:
        """Return this bot's lanes with waiting items, longest waiting first."""
        with self._store.provider.read() as tx:
            return self._rows.waiting_lanes(tx, self._deps.namespace, limit)

    def forget(self, now: float | None = None) -> int:
        """Delete items that finished before the remembered period; return how many."""
        moment = self._store.clock() if now is None else now
        oldest = moment - self._remembered_days * _DAY
        return self._rows.forget(self._deps.namespace, oldest)

    def _lock(self, tx: WriteTransaction, lane_id: int) -> Lane:
        lane = self._lanes.lock_by_id(tx, lane_id)
        if lane is None:
            raise NotFound(f"There is no lane {lane_id}. Start it with get_or_create_session().")
        return lane

    @staticmethod
    def _chain(tx: ReadTransaction, lane: Lane | None) -> str | None:
        if lane is None or lane.session_id == NO_SESSION:
            return None
        try:
            return chain_of(tx, lane.session_id).id
        except UnknownSession:
            return None


def _id_of(lane: Lane | int) -> int:
    return lane if isinstance(lane, int) else lane.id

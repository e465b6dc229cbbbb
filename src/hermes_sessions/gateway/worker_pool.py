"""The worker pool: one turn at a time in each lane, many lanes at once.

The code that stores something for a lane wakes it. A worker then takes the lease of the lane, runs
turns until the mailbox is empty, and releases the lease. `TurnRunner` decides what happens in a
turn. A lane that another process holds is checked again later: that process runs its messages, or
has died.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from hermes_sessions.errors import ConversationHeld, StaleFence, StoreError
from hermes_sessions.gateway.active_turns import ActiveTurn, Cause
from hermes_sessions.lifecycle.busy_input import BusyAction, BusyMode, RunningTurn, on_message
from hermes_sessions.lifecycle.mailboxes import Mailboxes, StartedTurn
from hermes_sessions.lifecycle.session_entry import SessionEntry
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.lifecycle.turn_input import next_input
from hermes_sessions.model.lane import Lane
from hermes_sessions.model.source import SessionSource
from hermes_sessions.storage.logs import Logger, where
from hermes_sessions.storage.repositories.leases import Holder, Lease
from hermes_sessions.storage.repositories.mailbox import Mailbox, MailboxItem
from hermes_sessions.storage.repositories.turns import Turns
from hermes_sessions.storage.store_context import LEASE_SECONDS

logger = Logger(__name__)

#: Delay until a held lane is checked again.
LOOK_AGAIN: Final = 2.0
#: Pauses after failures double up to this.
LONGEST_PAUSE: Final = 60.0
#: Turns in a row after which a lane pauses, in case another process keeps undoing their ends.
MOST_ROUNDS: Final = 200


@dataclass(slots=True, eq=False)
class LaneWorker:
    """A lane with a worker in this process."""

    lane_id: int
    #: Something was stored since the worker last looked.
    woken: bool = False
    lease: Lease | None = None
    turn: ActiveTurn | None = None


#: Runs a turn and stores its end; returns whether to try its input again after a pause. See
#: `turn_runner.TurnRunner`.
RunTurn = Callable[[ActiveTurn, SessionEntry], bool]


class BusyAnswer(NamedTuple):
    """The effect of a message that arrived during a turn."""

    answer: BusyAction
    #: When the turn started.
    since: float


class WorkerThreads:
    """Calls functions in threads, up to *at_once* in parallel, the rest in order. Thread-safe.

    A thread exists only while there is work. The C library keeps the memory that a thread has freed
    as long as the thread lives; in a pool of idle threads this adds up and looks like a leak.
    """

    def __init__(self, at_once: int, *, name: str) -> None:
        self._at_once = at_once
        self._name = name
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], object]] = deque()
        self._threads = 0
        self._is_closed = False

    def call(self, do: Callable[[], object]) -> None:
        """Call a function soon. After `close`, nothing is called.

        Raises:
            RuntimeError: no thread is running, and the system cannot start one.
        """
        with self._lock:
            if self._is_closed:
                return
            if self._threads >= self._at_once:
                self._waiting.append(do)
                return
            self._threads += 1
        try:
            threading.Thread(target=self._work, args=(do,), name=self._name).start()
        except RuntimeError:
            with self._lock:
                self._threads -= 1
                if not self._threads:
                    raise
                # A running thread takes it.
                self._waiting.append(do)

    def close(self) -> None:
        """Call nothing more; running calls are not waited for."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()

    def _work(self, do: Callable[[], object] | None) -> None:
        while do is not None:
            try:
                do()
            except Exception as error:  # noqa: BLE001 - waiting calls must still run
                logger.warning("a thread failed unexpectedly: %s", where(error))
            do = self._next()

    def _next(self) -> Callable[[], object] | None:
        """Return the next function; None ends this thread."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._threads -= 1
            return None


class WorkerPool:
    """The lanes that this process works on. Thread-safe."""

    def __init__(
        self,
        store: SessionStore,
        mailboxes: Mailboxes,
        holder: Callable[[], Holder],
        run_turn: RunTurn,
        *,
        at_once: int,
        later: Callable[[float, Callable[[], None]], object],
        on_stuck: Callable[[Lane], object] = lambda _lane: None,
        lease_seconds: float = LEASE_SECONDS,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        """*later* calls a function after some seconds, without using a thread. *on_stuck* is called
        with lanes that were suspended because their turns never finish.
        """
        self._store = store
        self._db = store.db
        self._clock = store.engine.store.clock
        self._mailboxes = mailboxes
        self._mailbox = Mailbox(store.engine.store)
        self._turns = Turns(store.engine.store)
        self._holder = holder
        self._run_turn = run_turn
        self._later = later
        self._on_stuck = on_stuck
        self._lease_seconds = lease_seconds
        #: The clock that measures turns; see `ActiveTurn`.
        self.stopwatch = stopwatch
        self._threads = WorkerThreads(at_once, name="lane")
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._workers: dict[int, LaneWorker] = {}
        self._served = 0
        #: Consecutive failures by lane.
        self._failures: dict[int, int] = {}
        #: Leases, by session, that could not be released and would block this process, too.
        self._unreleased: dict[str, Lease] = {}
        self._is_draining = False
        #: Lanes to wake at the end of `deferring_wakes`; None outside it.
        self._held_back: set[int] | None = None

    # ── waking and interrupting ───────────────────────────────────────────────────────────────

    def wake(self, lane_id: int) -> None:
        """Start a worker for a lane in which something waits."""
        with self._lock:
            if self._is_draining:
                return
            if self._held_back is not None:
                self._held_back.add(lane_id)
                return
            work = self._workers.get(lane_id)
            if work is not None:
                work.woken = True
                return
            self._workers[lane_id] = work = LaneWorker(lane_id)
            self._served += 1
        try:
            self._threads.call(partial(self._serve, work))
        except RuntimeError as error:
            # The message is stored, and every heartbeat looks for it.
            logger.warning("lane %s waits for a thread: %s", lane_id, error)
            with self._idle:
                del self._workers[lane_id]
                self._idle.notify_all()

    @contextmanager
    def deferring_wakes(self) -> Iterator[None]:
        """Wake no lane before the end of the block, so that a worker sees all messages together."""
        with self._lock:
            self._held_back = set()
        try:
            yield
        finally:
            with self._lock:
                woken, self._held_back = self._held_back or set(), None
            for lane_id in woken:
                self.wake(lane_id)

    def wake_waiting(self) -> int:
        """Wake every lane in which something waits; return how many. Called at the start and at
        heartbeats, because other processes may store messages and die.
        """
        waiting = self._mailboxes.waiting_lanes()
        for lane in waiting:
            self.wake(lane.lane_id)
        return len(waiting)

    def apply_busy_mode(
        self, lane_id: int, item_id: int, mode: BusyMode, *, has_media: bool, wants: BusyMode | None
    ) -> BusyAnswer | None:
        """Apply the busy mode of the lane to a stored message; None if no turn runs there."""
        with self._lock:
            work = self._workers.get(lane_id)
            turn = None if work is None else work.turn
        busy = None
        if turn is not None and not turn.is_over and item_id not in turn.taken.input.item_ids:
            busy = self._affect_turn(turn, item_id, mode, has_media=has_media, wants=wants)
        self.wake(lane_id)
        return busy

    def _affect_turn(
        self,
        turn: ActiveTurn,
        item_id: int,
        mode: BusyMode,
        *,
        has_media: bool,
        wants: BusyMode | None,
    ) -> BusyAnswer:
        running = RunningTurn(age=turn.age, can_steer=True, is_draining=self._is_draining)
        answer = on_message(mode, running, has_media=has_media, wants=wants)
        turn.seen.add(item_id)
        if answer.action == "interrupt":
            turn.end("message")
        elif answer.action == "steer":
            turn.steered.append(item_id)
        return BusyAnswer(answer, turn.started_at)

    def interrupt(self, lane_id: int, cause: Cause) -> bool:
        """End the running turn of a lane; return whether one runs in this process."""
        with self._lock:
            work = self._workers.get(lane_id)
            turn = None if work is None else work.turn
        if turn is None:
            return False
        turn.end(cause)
        return True

    def running(self) -> list[ActiveTurn]:
        """Return the turns that run in this process."""
        with self._lock:
            return [work.turn for work in self._workers.values() if work.turn is not None]

    def served(self) -> int | None:
        """Return how many times lanes were served; None while one is."""
        with self._lock:
            return None if self._workers else self._served

    @property
    def is_draining(self) -> bool:
        """Whether no more turns are started."""
        return self._is_draining

    # ── heartbeat ─────────────────────────────────────────────────────────────────────────────

    def beat(self) -> None:
        """Renew the leases; a turn that lost its lease is ended without a reply."""
        with self._lock:
            held = [(work, work.lease) for work in self._workers.values() if work.lease is not None]
            unreleased = list(self._unreleased)
        for session_id in unreleased:
            self._release_leftover(session_id)
        for work, lease in held:
            try:
                renewed = self._db.renew_lease(lease, ttl=self._lease_seconds)
            except StaleFence as error:
                self._on_lease_lost(work, lease, error)
            else:
                # Unless the worker has released it meanwhile.
                with self._lock:
                    if work.lease is lease:
                        work.lease = renewed

    def _on_lease_lost(self, work: LaneWorker, lease: Lease, error: StaleFence) -> None:
        with self._lock:
            if work.lease is not lease:
                # The worker itself released it just now.
                return
            work.lease = None
            turn = work.turn
        logger.warning("lane %s was taken over by another process: %s", work.lane_id, error)
        if turn is not None:
            turn.end("lost")

    def poll_messages(self, mode: BusyMode) -> None:
        """Call `apply_busy_mode` for messages that other processes received, and end turns that
        were stopped there.
        """
        for turn in self.running():
            if turn.is_over:
                continue
            lane_id = turn.taken.lane.id
            with self._store.engine.store.provider.read() as tx:
                stored = self._turns.find(turn.taken.turn.id, tx=tx)
                waiting = self._mailbox.waiting(tx, lane_id)
            if stored is None or stored.ended_at is not None:
                turn.end("stop")
                continue
            for item in waiting:
                if _came_during(turn, item):
                    self._affect_turn(
                        turn,
                        item.id,
                        mode,
                        has_media=bool(item.payload.get("media")),
                        wants=item.payload.get("wants"),
                    )

    # ── drain ─────────────────────────────────────────────────────────────────────────────────

    def begin_drain(self) -> None:
        """Start no more turns."""
        with self._lock:
            self._is_draining = True

    def wait_idle(self, seconds: float) -> bool:
        """Wait until no lane has a worker; return whether that happened in time."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._workers, seconds)

    def close(self) -> None:
        """End the threads; running turns are not waited for."""
        self.begin_drain()
        self._threads.close()

    # ── the worker of a lane ──────────────────────────────────────────────────────────────────

    def _serve(self, work: LaneWorker) -> None:
        again: float | None = None
        try:
            while again is None:
                again = self._serve_once(work)
                with self._lock:
                    if again is None and not work.woken:
                        break
                    work.woken = False
        except Exception as error:  # noqa: BLE001 - waiting messages must not be forgotten
            again = self._pause_after_failure(work.lane_id)
            logger.warning(
                "lane %s stopped, next look in %g s: %s", work.lane_id, again, where(error)
            )
        finally:
            self._release_lease(work)
            with self._idle:
                # Woken after the last check: the caller relied on this worker.
                late = work.woken
                del self._workers[work.lane_id]
                self._idle.notify_all()
            if late:
                self.wake(work.lane_id)
            elif again is not None:
                self._later(again, lambda: self.wake(work.lane_id))

    def _serve_once(self, work: LaneWorker) -> float | None:
        """Run turns until nothing waits; return the seconds until the next check, or None."""
        try:
            for _ in range(MOST_ROUNDS):
                source = None if self._is_draining else self._next_source(work.lane_id)
                if source is None:
                    return None
                if pause := self._take_turn(work, source):
                    return pause
        except ConversationHeld as error:
            logger.debug("lane %s waits: %s", work.lane_id, error)
            return LOOK_AGAIN
        except StoreError as error:
            pause = self._pause_after_failure(work.lane_id)
            logger.warning("lane %s failed, retrying in %g s: %s", work.lane_id, pause, error)
            return pause
        logger.info(
            "lane %s is not done after %s rounds, next look in %g s",
            work.lane_id,
            MOST_ROUNDS,
            LOOK_AGAIN,
        )
        return LOOK_AGAIN

    def _pause_after_failure(self, lane_id: int) -> float:
        with self._lock:
            count = self._failures[lane_id] = self._failures.get(lane_id, 0) + 1
        return float(min(LONGEST_PAUSE, LOOK_AGAIN * 2 ** min(count - 1, 10)))

    def _next_source(self, lane_id: int) -> SessionSource | None:
        """Return the source of the next input; None if nothing waits."""
        deps = self._store.engine
        with deps.store.provider.read() as tx:
            waiting = next_input(self._mailbox.waiting(tx, lane_id))
            lane = None if waiting is None else deps.lanes.find_by_id(tx, lane_id)
        if waiting is None or lane is None:
            return None
        return _source_of(waiting.items[0], lane)

    def _take_turn(self, work: LaneWorker, source: SessionSource) -> float:
        """Run the next turn; return the seconds to wait before the one after it."""
        entry = self._store.get_or_create_session(source)
        lease = self._hold(work, entry.session_id)
        try:
            taken = self._mailboxes.take(work.lane_id, lease)
        except StaleFence:
            # The lane has switched to another session.
            self._release_lease(work)
            return 0.0
        if taken is None:
            return self._after_nothing(work)
        turn = self._begin(work, taken, source)
        try:
            is_tried_again = self._run_turn(turn, entry)
        except BaseException:
            # Its end could not be stored. Its input is taken again under a new token.
            self._release_lease(work)
            raise
        finally:
            with self._lock:
                work.turn = None
        if is_tried_again:
            return self._pause_after_failure(work.lane_id)
        with self._lock:
            self._failures.pop(work.lane_id, None)
        return 0.0

    def _begin(self, work: LaneWorker, taken: StartedTurn, source: SessionSource) -> ActiveTurn:
        # Something else may have come first since the mailbox was read.
        source = _source_of(taken.input.items[0], taken.lane) or source
        turn = ActiveTurn(taken, source, self._clock(), self.stopwatch)
        with self._lock:
            work.turn = turn
        return turn

    def _after_nothing(self, work: LaneWorker) -> float:
        """Continue if the lane was suspended just now; otherwise check again later."""
        deps = self._store.engine
        with deps.store.provider.read() as tx:
            lane = deps.lanes.find_by_id(tx, work.lane_id)
        if lane is not None and lane.status == "suspended":
            self._on_stuck(lane)
            return 0.0
        self._release_lease(work)
        return LOOK_AGAIN

    def _hold(self, work: LaneWorker, session_id: str) -> Lease:
        """Hold the lease of this session, and no other."""
        with self._lock:
            lease = work.lease
        if lease is not None and lease.session_id == session_id:
            return lease
        self._release_lease(work)
        self._release_leftover(session_id)
        lease = self._db.take_lease(session_id, self._holder(), ttl=self._lease_seconds)
        with self._lock:
            work.lease = lease
        return lease

    def _release_lease(self, work: LaneWorker) -> None:
        with self._lock:
            lease, work.lease = work.lease, None
        if lease is None:
            return
        try:
            self._db.release_lease(lease)
        except StoreError as error:
            logger.info("could not release a lease yet: %s", error)
            with self._lock:
                self._unreleased[lease.session_id] = lease

    def _release_leftover(self, session_id: str) -> None:
        """Release a lease that could not be released before.

        Raises:
            StoreError: it still cannot.
        """
        with self._lock:
            lease = self._unreleased.get(session_id)
        if lease is None:
            return
        self._db.release_lease(lease)
        with self._lock:
            if self._unreleased.get(session_id) is lease:
                del self._unreleased[session_id]


def _source_of(item: MailboxItem, lane: Lane) -> SessionSource | None:
    described = item.payload.get("source")
    return SessionSource.from_dict(described) if described else lane.origin


def _came_during(turn: ActiveTurn, item: MailboxItem) -> bool:
    return (
        item.kind == "message"
        and item.turn_id is None
        and item.id not in turn.seen
        and item.received_at >= turn.started_at
    )

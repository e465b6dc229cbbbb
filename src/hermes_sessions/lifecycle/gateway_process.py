"""A gateway process: registered, heard of, drained, ended; and what the dead left unfinished.

What a process was doing is in its turns. So recovery touches what a dead process had begun and
nothing else: no lane of a living peer, and no lane that was merely used shortly before. Marks by
the time of last use are for the first start on a store that knows no process yet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeVar

from hermes_sessions.lifecycle.decide import resumes_automatically
from hermes_sessions.lifecycle.host_files import HostFiles
from hermes_sessions.lifecycle.lane_engine import LaneEngine
from hermes_sessions.lifecycle.lane_operations import LaneSweeps
from hermes_sessions.lifecycle.lane_updates import TransitionCause, set_status
from hermes_sessions.lifecycle.liveness import Liveness
from hermes_sessions.lifecycle.unfinished_turns import (
    INTERRUPTED,
    AbandonedTurn,
    UnfinishedTurns,
    resume_dedupe_key,
)
from hermes_sessions.model.lane import Lane
from hermes_sessions.storage.host_processes import host_name, is_running, new_process_id
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.leases import Holder, LeaseRow, Leases, lease_row
from hermes_sessions.storage.repositories.mailbox import Mailbox
from hermes_sessions.storage.repositories.outbox import Outbox
from hermes_sessions.storage.repositories.processes import Process, Processes
from hermes_sessions.storage.repositories.turns import Turn, TurnRecovery, Turns

logger = Logger(__name__)
T = TypeVar("T")

DrainReason = Literal["restart", "shutdown"]

#: A process that was not heard of for so many seconds is dead to the others.
DEAD_AFTER: Final = 60.0
#: Lanes used so many seconds before the first start were probably interrupted.
RECENTLY: Final = 120.0
_ACTOR: Final = "recovery"

#: Rows that this program wrote: they share its process number and are not dead for that.
_ours: set[str] = set()


class Recovery(NamedTuple):
    """What was found, and what became of it."""

    #: Processes that were found dead now.
    dead: list[Process]
    #: Turns that they, or others before them, had left unfinished.
    set_aside: list[AbandonedTurn]
    #: Lanes that were marked by their time of last use alone, without knowing any process.
    guessed: int = 0
    #: Replies that they had begun to send: others may now.
    freed_replies: int = 0

    @property
    def stuck(self) -> list[AbandonedTurn]:
        """Those whose lane was suspended, so that somebody can be told."""
        return [one for one in self.set_aside if one.is_stuck]


class Drained(NamedTuple):
    """How a drain went."""

    #: Lanes that finished in time.
    finished: list[Lane]
    #: Lanes that still run a turn: they go on after the next start.
    unfinished: list[Lane]


class GatewayProcess:
    """This process, as the others see it."""

    def __init__(
        self,
        engine: LaneEngine,
        *,
        kind: str = "gateway",
        home: Path | None = None,
        version: str | None = None,
        dead_after: float = DEAD_AFTER,
        pid: int | None = None,
        runs_here: Callable[[Process], bool] = is_running,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        """*home* is where a single host's files are. *runs_here* tells whether one that registered
        on this host is alive, so that nobody waits for the heartbeat of one that is gone.
        *stopwatch* goes on as before when a clock is set.
        """
        self._engine = engine
        self._kind = kind
        self._files = HostFiles(home)
        self._version = version
        self._dead_after = dead_after
        self._pid = pid
        self._runs_here = runs_here
        self._stopwatch = stopwatch
        self._liveness = Liveness(engine.store.clock, stopwatch, dead_after)
        #: Heartbeats from times that are still to come, and when each was first seen.
        self._ahead: dict[str, tuple[float, float]] = {}
        self._host = host_name()
        self._processes = Processes(engine.store)
        self._turns = Turns(engine.store)
        self._leases = Leases(engine.store)
        self._mailbox = Mailbox(engine.store)
        self._rows = TurnRecovery(engine.store)
        self._outbox = Outbox(engine.store, engine.namespace)
        self._unfinished = UnfinishedTurns(engine)
        self._row: Process | None = None
        #: Lanes that the drain marked, with the reason.
        self._marked: dict[int, str] = {}
        self._is_overdue = False

    @property
    def id(self) -> str:
        """The process's row; it has one once it was started."""
        if self._row is None:
            raise RuntimeError("start() comes first")
        return self._row.id

    def holder(self, words: str | None = None) -> Holder:
        """Return who takes leases for this process."""
        where = self._host.partition("#")[0]
        pid = self._row.pid if self._row else None
        return Holder(self.id, words or f"the {self._kind} on {where} (process {pid})")

    # ── start, heartbeat, end ─────────────────────────────────────────────────────────────────

    def start(self) -> Recovery:
        """Register, and see to what dead processes of the same bot left unfinished.

        The lanes that should go on are then asked for with `resume`.
        """
        engine = self._engine
        was_clean = self._files.pop_clean_shutdown_mark()
        is_first = self._processes.newest(engine.namespace, self._kind) is None
        pid = os.getpid() if self._pid is None else self._pid
        self._row = self._processes.register(
            engine.namespace,
            self._kind,
            process_id=new_process_id(pid),
            host=self._host,
            pid=pid,
            version=self._version,
        )
        _ours.add(self._row.id)
        found = self.recover()
        if is_first and not was_clean:
            # Nobody wrote down what ran: an older version was here, or nothing was.
            found = found._replace(guessed=LaneSweeps(engine).mark_recent(RECENTLY, INTERRUPTED))
        self._show_counts()
        return found

    def beat(self) -> bool:
        """Say that this process is alive. False: the others took it for dead, and what it runs is
        theirs; it has to stop its turns and start again.
        """
        with self._liveness.timing_heartbeat():
            return self._processes.beat(self.id)

    def end(self) -> bool:
        """Say goodbye; return whether everything was finished.

        What was not is left to the next start, which finds it as after a crash; but nobody has to
        wait until the leases expire.
        """
        clean = not (self._is_overdue or self._turns.unfinished([self.id]))
        self._leases.revoke(self.id)
        self._processes.end(self.id, clean)
        _ours.discard(self.id)
        if clean:
            self._files.write_clean_shutdown_mark()
        self._show_counts()
        return clean

    # ── recovery ──────────────────────────────────────────────────────────────────────────────

    def recover(self) -> Recovery:
        """See to what dead processes left unfinished, and to turns that were given up without an
        end: at the start, and at every heartbeat, because peers die. Several processes may do it at
        once; each turn is set aside by one of them.
        """
        dead = [process for process in self._silent() if self._declare_dead(process)]
        namespace = self._engine.namespace
        living = self._processes.living(namespace, self._dead_after)
        set_aside = []
        for turn in (
            *self._turns.unfinished(self._rows.processes_with_unfinished_turns(namespace)),
            *self._turns_without_lease(process.id for process in living),
        ):
            found = self._write(partial(self._set_aside, turn=turn))
            if found is not None:
                set_aside.append(found)
        if set_aside:
            self._engine.changed()
        for one in set_aside:
            logger.info("turn %s of process %s was set aside", one.turn.id, one.turn.process_id)
        freed = self._outbox.release_claims_of_ended_processes()
        return Recovery(dead, set_aside, freed_replies=freed)

    def _turns_without_lease(self, process_ids: Iterable[str]) -> list[Turn]:
        """Return turns that living processes began and let go of without saying how they ended:
        the store could not be reached, or a program forgot. Their leases are gone.
        """
        unfinished = self._turns.unfinished(process_ids)
        now = self._engine.store.clock()
        with self._engine.store.provider.read() as tx:
            leases = {turn.chain_id: lease_row(tx, turn.chain_id) for turn in unfinished}
        # After the times were read: a clock may jump at any moment.
        is_trusted = self._liveness.can_trust_heartbeats()
        return [
            turn
            for turn in unfinished
            if _has_lost_lease(turn, lease := leases[turn.chain_id])
            # Whoever is only slow may renew it as long as nobody else wants it.
            or (is_trusted and self._is_long_expired(lease, now))
        ]

    def _is_long_expired(self, lease: LeaseRow | None, now: float) -> bool:
        return lease is not None and (lease.expires_at or 0) + self._dead_after <= now

    def _silent(self) -> list[Process]:
        """Return processes that are silent for too long, and those of this host that are gone."""
        namespace = self._engine.namespace
        # Whoever looks is alive, also after a long sleep and before its next heartbeat.
        silent = [
            process
            for process in self._processes.dead(namespace, self._dead_after)
            if self._row is None or process.id != self._row.id
        ]
        if not self._liveness.can_trust_heartbeats():
            # Nobody had the time to be heard of since.
            silent = [process for process in silent if self._is_gone(process)]
        living = self._processes.living(namespace, self._dead_after)
        return silent + [
            process
            for process, is_stale in zip(living, self._are_stale(living), strict=True)
            if (is_stale and process.id not in _ours) or self._is_gone(process)
        ]

    def _are_stale(self, processes: Sequence[Process]) -> list[bool]:
        """Tell for each whether its last heartbeat is of a time to come, and stays so: a clock was
        put back, and it was not heard of since. One whose clock is only ahead goes on.
        """
        now, watch = self._engine.store.clock(), self._stopwatch()
        before, self._ahead = self._ahead, {}
        stale = []
        for process in processes:
            heartbeat, seen_at = before.get(process.id, (process.heartbeat_at, watch))
            if heartbeat != process.heartbeat_at:
                heartbeat, seen_at = process.heartbeat_at, watch
            if heartbeat > now:
                self._ahead[process.id] = (heartbeat, seen_at)
            stale.append(heartbeat > now and watch - seen_at >= self._dead_after)
        return stale

    def _is_gone(self, process: Process) -> bool:
        """Tell whether a process is known to have ended: one of this host that nobody sees."""
        if process.id in _ours or process.host != self._host or process.pid is None:
            return False
        # Whoever had the number that is ours now does not have it any more.
        ours = self._row.pid if self._row else None
        return process.pid == ours or not self._runs_here(process)

    def _declare_dead(self, process: Process) -> bool:
        """End a process for the others, unless it has been heard of meanwhile; return whether."""
        is_buried = self._processes.end(process.id, False, silent_since=process.heartbeat_at)
        if is_buried:
            self._leases.revoke(process.id)
        return is_buried

    def _set_aside(self, tx: WriteTransaction, turn: Turn) -> AbandonedTurn | None:
        lane = None if turn.lane_id is None else self._engine.lanes.lock_by_id(tx, turn.lane_id)
        return self._unfinished.set_aside(tx, lane, turn, actor=_ACTOR)

    def _show_counts(self) -> None:
        self._files.show_counts(self._rows.unfinished_starts(self._engine.namespace))

    def _write(self, work: Callable[[WriteTransaction], T]) -> T:
        return self._engine.store.provider.write(work, isolated=False)

    # ── drain ─────────────────────────────────────────────────────────────────────────────────

    def begin_drain(self, reason: DrainReason) -> list[Lane]:
        """Mark the lanes that this process runs turns on, so that not even a kill in the middle of
        the drain leaves them without a mark; return them.
        """
        mark = f"{reason}_timeout"
        marked = []
        for lane_id in _lanes_of(self._turns.unfinished([self.id])):
            lane = self._write(partial(self._mark, lane_id=lane_id, mark=mark))
            if lane is not None:
                self._marked[lane.id] = mark
                marked.append(lane)
        self._engine.changed()
        return marked

    def _mark(self, tx: WriteTransaction, lane_id: int, mark: str) -> Lane | None:
        lane = self._engine.lanes.lock_by_id(tx, lane_id)
        running = self._turns.running_on(lane_id=lane_id, tx=tx)
        if lane is None or running is None or lane.status != "active":
            return None
        cause = TransitionCause("mark", mark, "drain", {"turn": running.id, "process": self.id})
        return set_status(
            tx, self._engine, lane, "resume_pending", cause, self._engine.store.clock()
        )

    def end_drain(self) -> Drained:
        """Clear the marks of lanes that finished meanwhile, however; the others keep theirs."""
        finished: list[Lane] = []
        unfinished: list[Lane] = []
        for lane_id, mark in self._marked.items():
            lane, still_runs = self._write(partial(self._clear, lane_id=lane_id, mark=mark))
            if lane is not None:
                (unfinished if still_runs else finished).append(lane)
        self._marked.clear()
        self._is_overdue = bool(unfinished)
        self._engine.changed()
        return Drained(finished, unfinished)

    def _clear(self, tx: WriteTransaction, lane_id: int, mark: str) -> tuple[Lane | None, bool]:
        lane = self._engine.lanes.lock_by_id(tx, lane_id)
        if lane is None:
            return None, False
        if self._turns.running_on(lane_id=lane_id, tx=tx) is not None:
            return lane, True
        if (lane.status, lane.status_reason) == ("resume_pending", mark):
            if self._is_tried_again(tx, lane):
                return lane, True
            now = self._engine.store.clock()
            lane = set_status(
                tx, self._engine, lane, "active", TransitionCause("unmark", "drained", "drain"), now
            )
        return lane, False

    # ── going on ──────────────────────────────────────────────────────────────────────────────

    def resumable(self, lanes: Iterable[Lane], freshness: float) -> list[Lane]:
        """Return those of *lanes* in which the agent goes on although nobody wrote: interrupted by
        the end of a gateway, recently enough, known where to answer, and nobody runs them.
        """
        now = self._engine.store.clock()
        return [
            lane
            for lane in lanes
            if resumes_automatically(lane, now, freshness)
            and self._turns.running_on(lane_id=lane.id) is None
        ]

    def resume(self, *, platform: str | None = None) -> list[Lane]:
        """Give every lane that should go on something to go on with, at the head of its mailbox;
        return them. With *platform*, those of a platform that has just been connected.

        Where the interrupted input waits again, that is it. Asked twice, or by two processes, it
        is the same item; and a lane that was tried, and whose user was told how that ended, is not
        asked again for the same interruption. Other lanes are not delayed by any of this.
        """
        engine = self._engine
        with engine.store.provider.read() as tx:
            marked = engine.lanes.with_status(tx, engine.namespace, "resume_pending")
        wanted = [lane for lane in marked if platform in {None, lane.key.platform}]
        going_on = self.resumable(wanted, engine.config.auto_continue_freshness)
        with engine.store.provider.read() as tx:
            # At every heartbeat the same lanes are found, and need nothing more.
            asked = {
                lane.id
                for lane in going_on
                if self._mailbox.find_duplicate(tx, resume_dedupe_key(lane))
            }
        for lane in going_on:
            if lane.id not in asked:
                self._write(partial(self._enqueue_resume, seen=lane))
        return going_on

    def _enqueue_resume(self, tx: WriteTransaction, seen: Lane) -> None:
        lane = self._engine.lanes.lock_by_id(tx, seen.id)
        if lane is None or lane.status != "resume_pending" or self._is_tried_again(tx, lane):
            return
        if self._turns.running_on(lane_id=lane.id, tx=tx) is not None:
            # Somebody took it since it was looked at: the lane goes on already.
            return
        self._mailbox.put(tx, lane.id, kind="resume", dedupe=resume_dedupe_key(lane), limit=None)

    def _is_tried_again(self, tx: WriteTransaction, lane: Lane) -> bool:
        return any(item.turn_id is not None for item in self._mailbox.waiting(tx, lane.id))


def _has_lost_lease(turn: Turn, lease: LeaseRow | None) -> bool:
    return lease is None or lease.token != turn.token or lease.holder is None


def _lanes_of(turns: Iterable[Turn]) -> list[int]:
    return sorted({turn.lane_id for turn in turns if turn.lane_id is not None})

"""A gateway process: registration, heartbeat, drain and end; recovery after dead processes.

The turns of a process record what it was doing. So recovery touches only what a dead process had
begun: no lane of a living process, and no lane that was merely used recently. Marking by time of
last use is only for the first start on a store that has no process records yet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeVar

from hermes_sessions.lifecycle.host_files import HostFiles
from hermes_sessions.lifecycle.lane_decision import resumes_automatically
from hermes_sessions.lifecycle.lane_dependencies import LaneDependencies
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

#: A process without a heartbeat for this many seconds is considered dead.
DEAD_AFTER: Final = 60.0
#: Lanes used within this many seconds before the first start were probably interrupted.
RECENTLY: Final = 120.0
_ACTOR: Final = "recovery"

#: Rows written by this program: they share its process id and are not dead because of that.
_ours: set[str] = set()


class RecoveryReport(NamedTuple):
    """The result of a recovery."""

    #: Processes that were found dead.
    dead: list[Process]
    #: Turns that these or earlier processes had left unfinished.
    set_aside: list[AbandonedTurn]
    #: Number of lanes marked only by their time of last use, without process records.
    guessed: int = 0
    #: Number of replies they had begun to send, which others may send now.
    freed_replies: int = 0

    @property
    def stuck(self) -> list[AbandonedTurn]:
        """The turns whose lane was suspended; their users should be told."""
        return [one for one in self.set_aside if one.is_stuck]


#: The former name.
Recovery = RecoveryReport


class DrainReport(NamedTuple):
    """The result of a drain."""

    #: Lanes whose turn finished in time.
    finished: list[Lane]
    #: Lanes whose turn is still running; they continue after the next start.
    unfinished: list[Lane]


class GatewayProcess:
    """This process, as other processes see it."""

    def __init__(
        self,
        deps: LaneDependencies,
        *,
        kind: str = "gateway",
        home: Path | None = None,
        version: str | None = None,
        dead_after: float = DEAD_AFTER,
        pid: int | None = None,
        runs_here: Callable[[Process], bool] = is_running,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        """*home* is the directory of files for a single host.

        *runs_here* tells whether a process registered on this host is alive, so that recovery need
        not wait for the missing heartbeat of a dead one. *stopwatch* is a monotonic clock.
        """
        self._deps = deps
        self._kind = kind
        self._files = HostFiles(home)
        self._version = version
        self._dead_after = dead_after
        self._pid = pid
        self._runs_here = runs_here
        self._stopwatch = stopwatch
        self._liveness = Liveness(deps.store.clock, stopwatch, dead_after)
        #: Heartbeats with timestamps in the future, and when each was first seen.
        self._ahead: dict[str, tuple[float, float]] = {}
        self._host = host_name()
        self._processes = Processes(deps.store)
        self._turns = Turns(deps.store)
        self._leases = Leases(deps.store)
        self._mailbox = Mailbox(deps.store)
        self._rows = TurnRecovery(deps.store)
        self._outbox = Outbox(deps.store, deps.namespace)
        self._unfinished = UnfinishedTurns(deps)
        self._row: Process | None = None
        #: Lanes that the drain marked, with the reason.
        self._marked: dict[int, str] = {}
        self._is_overdue = False

    @property
    def id(self) -> str:
        """The id of the process's row; available after `start`."""
        if self._row is None:
            raise RuntimeError("start() comes first")
        return self._row.id

    def holder(self, words: str | None = None) -> Holder:
        """Return the lease holder for this process."""
        where = self._host.partition("#")[0]
        pid = self._row.pid if self._row else None
        return Holder(self.id, words or f"the {self._kind} on {where} (process {pid})")

    # Start, heartbeat, end

    def start(self) -> RecoveryReport:
        """Register, and recover what dead processes of the same bot left unfinished.

        Call `resume` afterwards for the lanes that should continue.
        """
        deps = self._deps
        was_clean = self._files.pop_clean_shutdown_mark()
        is_first = self._processes.newest(deps.namespace, self._kind) is None
        pid = os.getpid() if self._pid is None else self._pid
        self._row = self._processes.register(
            deps.namespace,
            self._kind,
            process_id=new_process_id(pid),
            host=self._host,
            pid=pid,
            version=self._version,
        )
        _ours.add(self._row.id)
        found = self.recover()
        if is_first and not was_clean:
            # No process records: an older version ran here, or none.
            found = found._replace(guessed=LaneSweeps(deps).mark_recent(RECENTLY, INTERRUPTED))
        self._show_counts()
        return found

    def beat(self) -> bool:
        """Send a heartbeat. False means that other processes declared this one dead and took over
        its turns; it must stop them and start again.
        """
        with self._liveness.timing_heartbeat():
            return self._processes.beat(self.id)

    def end(self) -> bool:
        """Deregister; return whether everything was finished.

        The next start recovers the rest as after a crash, but without waiting for leases to expire.
        """
        clean = not (self._is_overdue or self._turns.unfinished([self.id]))
        self._leases.revoke(self.id)
        self._processes.end(self.id, clean)
        _ours.discard(self.id)
        if clean:
            self._files.write_clean_shutdown_mark()
        self._show_counts()
        return clean

    # Recovery

    def recover(self) -> RecoveryReport:
        """Recover turns that dead processes left unfinished or that living ones gave up.

        Called at the start and at every heartbeat, because other processes may die. Several
        processes may do it concurrently; each turn is set aside by one of them.
        """
        dead = [process for process in self._silent() if self._declare_dead(process)]
        namespace = self._deps.namespace
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
            self._deps.changed()
        for one in set_aside:
            logger.info("Turn %s of process %s was set aside", one.turn.id, one.turn.process_id)
        freed = self._outbox.release_claims_of_ended_processes()
        return RecoveryReport(dead, set_aside, freed_replies=freed)

    def _turns_without_lease(self, process_ids: Iterable[str]) -> list[Turn]:
        """Return turns of living processes that lost their lease without recording an end.

        The store was unreachable, or a program forgot to end them.
        """
        unfinished = self._turns.unfinished(process_ids)
        now = self._deps.store.clock()
        with self._deps.store.provider.read() as tx:
            leases = {turn.chain_id: lease_row(tx, turn.chain_id) for turn in unfinished}
        # Read the clock first: it may jump at any moment.
        is_trusted = self._liveness.can_trust_heartbeats()
        return [
            turn
            for turn in unfinished
            if _has_lost_lease(turn, lease := leases[turn.chain_id])
            # A process that is merely slow may renew its lease until another one takes it.
            or (is_trusted and self._is_long_expired(lease, now))
        ]

    def _is_long_expired(self, lease: LeaseRow | None, now: float) -> bool:
        return lease is not None and (lease.expires_at or 0) + self._dead_after <= now

    def _silent(self) -> list[Process]:
        """Return processes that missed their heartbeats, and those of this host that are gone."""
        namespace = self._deps.namespace
        # This process is alive, even after a long sleep and before its next heartbeat.
        silent = [
            process
            for process in self._processes.dead(namespace, self._dead_after)
            if self._row is None or process.id != self._row.id
        ]
        if not self._liveness.can_trust_heartbeats():
            # After a clock jump or an outage the others had no chance to send a heartbeat.
            silent = [process for process in silent if self._is_gone(process)]
        living = self._processes.living(namespace, self._dead_after)
        return silent + [
            process
            for process, is_stale in zip(living, self._are_stale(living), strict=True)
            if (is_stale and process.id not in _ours) or self._is_gone(process)
        ]

    def _are_stale(self, processes: Sequence[Process]) -> list[bool]:
        """Tell for each process whether its last heartbeat lies in the future and stays the same.

        Then a clock was set back and the process has been silent since. A process whose clock is
        merely ahead keeps sending heartbeats.
        """
        now, watch = self._deps.store.clock(), self._stopwatch()
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
        """Tell whether a process of this host is known to have ended."""
        if process.id in _ours or process.host != self._host or process.pid is None:
            return False
        # Our own process id proves that an earlier process with the same id has ended.
        ours = self._row.pid if self._row else None
        return process.pid == ours or not self._runs_here(process)

    def _declare_dead(self, process: Process) -> bool:
        """Mark a process dead unless it has sent a heartbeat meanwhile; return True if marked."""
        is_buried = self._processes.end(process.id, False, silent_since=process.heartbeat_at)
        if is_buried:
            self._leases.revoke(process.id)
        return is_buried

    def _set_aside(self, tx: WriteTransaction, turn: Turn) -> AbandonedTurn | None:
        lane = None if turn.lane_id is None else self._deps.lanes.lock_by_id(tx, turn.lane_id)
        return self._unfinished.set_aside(tx, lane, turn, actor=_ACTOR)

    def _show_counts(self) -> None:
        self._files.show_counts(self._rows.unfinished_starts(self._deps.namespace))

    def _write(self, work: Callable[[WriteTransaction], T]) -> T:
        return self._deps.store.provider.write(work, isolated=False)

    # Drain

    def begin_drain(self, reason: DrainReason) -> list[Lane]:
        """Mark and return the lanes that this process runs turns on.

        The marks exist before the drain, so that even a kill during the drain leaves them.
        """
        mark = f"{reason}_timeout"
        marked = []
        for lane_id in _lanes_of(self._turns.unfinished([self.id])):
            lane = self._write(partial(self._mark, lane_id=lane_id, mark=mark))
            if lane is not None:
                self._marked[lane.id] = mark
                marked.append(lane)
        self._deps.changed()
        return marked

    def _mark(self, tx: WriteTransaction, lane_id: int, mark: str) -> Lane | None:
        lane = self._deps.lanes.lock_by_id(tx, lane_id)
        running = self._turns.running_on(lane_id=lane_id, tx=tx)
        if lane is None or running is None or lane.status != "active":
            return None
        cause = TransitionCause("mark", mark, "drain", {"turn": running.id, "process": self.id})
        return set_status(tx, self._deps, lane, "resume_pending", cause, self._deps.store.clock())

    def end_drain(self) -> DrainReport:
        """Clear the marks of lanes whose turns have ended in any way; the others keep theirs."""
        finished: list[Lane] = []
        unfinished: list[Lane] = []
        for lane_id, mark in self._marked.items():
            lane, still_runs = self._write(partial(self._clear, lane_id=lane_id, mark=mark))
            if lane is not None:
                (unfinished if still_runs else finished).append(lane)
        self._marked.clear()
        self._is_overdue = bool(unfinished)
        self._deps.changed()
        return DrainReport(finished, unfinished)

    def _clear(self, tx: WriteTransaction, lane_id: int, mark: str) -> tuple[Lane | None, bool]:
        lane = self._deps.lanes.lock_by_id(tx, lane_id)
        if lane is None:
            return None, False
        if self._turns.running_on(lane_id=lane_id, tx=tx) is not None:
            return lane, True
        if (lane.status, lane.status_reason) == ("resume_pending", mark):
            if self._is_tried_again(tx, lane):
                return lane, True
            now = self._deps.store.clock()
            lane = set_status(
                tx, self._deps, lane, "active", TransitionCause("unmark", "drained", "drain"), now
            )
        return lane, False

    # Resuming

    def resumable(self, lanes: Iterable[Lane], freshness: float) -> list[Lane]:
        """Return those of *lanes* in which the agent continues without a new message.

        A gateway's end interrupted them recently enough, the reply address is known, and no process
        runs them.
        """
        now = self._deps.store.clock()
        return [
            lane
            for lane in lanes
            if resumes_automatically(lane, now, freshness)
            and self._turns.running_on(lane_id=lane.id) is None
        ]

    def resume(self, *, platform: str | None = None) -> list[Lane]:
        """Put a resume item at the head of the mailbox of every lane that should continue; return
        them.

        With *platform*, only lanes of a platform that has just connected. If the interrupted input
        waits again, that is the item. Calling this twice, or from two processes, adds the item
        once. A lane that was tried, and whose user was told the outcome, is not resumed again for
        the same interruption. Other lanes are not delayed.
        """
        deps = self._deps
        with deps.store.provider.read() as tx:
            marked = deps.lanes.with_status(tx, deps.namespace, "resume_pending")
        wanted = [lane for lane in marked if platform in {None, lane.key.platform}]
        going_on = self.resumable(wanted, deps.config.auto_continue_freshness)
        with deps.store.provider.read() as tx:
            # Every heartbeat finds the same lanes; they need nothing more.
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
        lane = self._deps.lanes.lock_by_id(tx, seen.id)
        if lane is None or lane.status != "resume_pending" or self._is_tried_again(tx, lane):
            return
        if self._turns.running_on(lane_id=lane.id, tx=tx) is not None:
            # It was taken since the lane was read, so the lane continues already.
            return
        self._mailbox.put(tx, lane.id, kind="resume", dedupe=resume_dedupe_key(lane), limit=None)

    def _is_tried_again(self, tx: WriteTransaction, lane: Lane) -> bool:
        return any(item.turn_id is not None for item in self._mailbox.waiting(tx, lane.id))


def _has_lost_lease(turn: Turn, lease: LeaseRow | None) -> bool:
    return lease is None or lease.token != turn.token or lease.holder is None


def _lanes_of(turns: Iterable[Turn]) -> list[int]:
    return sorted({turn.lane_id for turn in turns if turn.lane_id is not None})

"""The engine against what must always hold: any sequence of messages, commands, crashes, restarts.

Two gateway processes on one store, three lanes. Processes are killed, paused until the others take
them for dead, and started again; what a dead one still tries to say is tried, too.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from hermes_sessions import SessionDB
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.errors import ConversationHeld
from hermes_sessions.lifecycle.expiry_watcher import ExpiryWatcher
from hermes_sessions.lifecycle.gateway_process import GatewayProcess
from hermes_sessions.lifecycle.mailboxes import Mailboxes, StartedTurn
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.lifecycle.turn_input import dedupe_mark
from hermes_sessions.model.lane import Lane
from hermes_sessions.model.reset_policy import SessionResetPolicy
from hermes_sessions.storage.repositories.lane_transitions import history
from hermes_sessions.storage.repositories.leases import Lease, Leases
from hermes_sessions.storage.repositories.mailbox import TOLD
from hermes_sessions.storage.repositories.turns import Outcome
from hermes_sessions_testing.clock import FrozenClock
from tests.lifecycle.harness import source

LANES = ("1", "2", "3")
TTL = 45.0
LIMIT = 6

lanes = st.sampled_from(LANES)
both = st.sampled_from((0, 1))
#: Picks one of the existing items, for any number of them.
some = st.integers(0, 11)
#: A burst: who sends what.
words = st.lists(
    st.tuples(
        st.sampled_from(["ann", "ann", "bob", None]),
        st.sampled_from(["message", "message", "message", "queue", "command"]),
    ),
    min_size=1,
    max_size=4,
)


class Gateway:
    """One process, and the turns that it runs: at most one on each lane."""

    def __init__(self, process: GatewayProcess) -> None:
        self.process = process
        self.running: dict[str, tuple[StartedTurn, Lease]] = {}


class LifecycleMachine(RuleBasedStateMachine):
    """Drives the engine; remembers what was received, taken and finished."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FrozenClock()
        self.folder = TemporaryDirectory(prefix="hermes-lifecycle-")
        self.db = SessionDB(":memory:", clock=self.clock)
        config = GatewayConfig(
            reset_policy=SessionResetPolicy("idle", idle_minutes=60),
            mailbox_limit=LIMIT,
            write_sessions_json=False,
        )
        self.sessions = SessionStore(Path(self.folder.name), config, db=self.db)
        self.mail = Mailboxes(self.sessions.engine)
        self.leases = Leases(self.db.store)
        self.gateways = [self.started(), self.started()]
        #: Turns of processes that are dead to the others, and may not know it.
        self.stale: list[StartedTurn] = []
        #: The lane and the id of every message.
        self.received: dict[int, tuple[str, str]] = {}
        self.sent = 0
        self.committed: Counter[int] = Counter()
        #: Hooks called for a session that ended.
        self.finalized: Counter[str] = Counter()

    def started(self) -> Gateway:
        process = GatewayProcess(
            self.sessions.engine,
            dead_after=60.0,
            runs_here=lambda _: True,
            stopwatch=self.clock,
        )
        process.start()
        return Gateway(process)

    def teardown(self) -> None:
        try:
            self.settle_everything()
        finally:
            self.db.close()
            self.folder.cleanup()

    @initialize(words=words)
    def begin(self, words: list[tuple[str | None, Any]]) -> None:
        self.say("1", words)

    # ── what is received ──────────────────────────────────────────────────────────────────────

    @rule(lane=lanes, words=words)
    def say(self, lane: str, words: list[tuple[str | None, Any]]) -> None:
        for sender, kind in words:
            self.sent += 1
            put = self.put(lane, sender, kind, str(self.sent))
            assert not put.is_duplicate
            if put.is_refused:
                # What comes back from a turn is never refused, so there may be more.
                assert put.depth >= LIMIT
                continue
            assert put.item_id is not None
            assert put.item_id > max(self.received, default=0)
            self.received[put.item_id] = (lane, str(self.sent))

    @precondition(lambda self: self.received)
    @rule(place=some)
    def deliver_again(self, place: int) -> None:
        item_id = list(self.received)[-1 - place % len(self.received)]
        lane, message_id = self.received[item_id]
        put = self.put(lane, "ann", "message", message_id)
        assert (put.is_duplicate, put.item_id) == (True, item_id)

    def put(self, lane: str, sender: str | None, kind: Any, message_id: str) -> Any:
        return self.mail.receive(
            self.sessions.session_key(source(lane)),
            kind=kind,
            sender=sender,
            text=message_id,
            dedupe=dedupe_mark("default", "telegram", lane, message_id),
            origin=source(lane),
        )

    # ── turns ─────────────────────────────────────────────────────────────────────────────────

    @rule(which=both, place=some)
    def take_something(self, which: int, place: int) -> None:
        waiting = [lane for lane in LANES if self.waiting(lane)] or LANES
        self.take(which, waiting[place % len(waiting)])

    def take(self, which: int, lane: str) -> None:
        gateway, other = self.gateways[which], self.gateways[1 - which]
        if lane in gateway.running:
            # The same lease runs one turn at a time.
            assert self.mail.take(self.lane(lane), gateway.running[lane][1]) is None
            return
        session_id = self.sessions.get_or_create_session(source(lane)).session_id
        try:
            lease = self.leases.take(session_id, gateway.process.holder(), TTL)
        except ConversationHeld:
            assert lane in other.running or self.stale
            return
        waiting = self.waiting(lane)
        taken = self.mail.take(self.lane(lane), lease)
        if taken is None:
            assert not waiting or self.lane(lane).status == "suspended"
            self.leases.release(lease)
            return
        if lane in other.running:
            # The lease of the other one had expired, or it runs in a session that was left.
            self.stale.append(other.running.pop(lane)[0])
        self.check_order(taken)
        gateway.running[lane] = (taken, lease)

    def check_order(self, taken: StartedTurn) -> None:
        """Nothing that came later was taken first; one sender a turn, one turn for an item."""
        items = taken.input.items
        if taken.input.is_retry:
            assert len({item.turn_id for item in items}) == 1
            return
        if taken.input.kind != "resume":
            left = self.waiting_untried(items[0].lane_id)
            assert all(item.id < other for item in items for other in left)
        assert len({(item.kind, item.sender) for item in items}) == 1
        assert len(items) == 1 or (items[0].kind == "message" and items[0].sender is not None)

    def runs_something(self) -> bool:
        return any(gateway.running for gateway in self.gateways)

    def chosen(self, place: int) -> tuple[int, str]:
        """One of the turns that run: its process and its lane."""
        running = [
            (which, lane) for which, gateway in enumerate(self.gateways) for lane in gateway.running
        ]
        return running[place % len(running)]

    @precondition(runs_something)
    @rule(
        place=some,
        outcome=st.sampled_from(["completed"] * 4 + ["failed", "interrupted", "abandoned"]),
        again=st.sampled_from([False, False, False, True]),
    )
    def finish(self, place: int, outcome: Outcome, again: bool) -> None:
        which, lane = self.chosen(place)
        taken, lease = self.gateways[which].running.pop(lane)
        self.end(taken, outcome, again=again and outcome != "completed")
        self.leases.release(lease)

    @precondition(lambda self: self.stale)
    @rule(place=some, outcome=st.sampled_from(["completed", "failed"]))
    def a_stale_one_finishes(self, place: int, outcome: Outcome) -> None:
        self.end(self.stale.pop(place % len(self.stale)), outcome)

    def end(self, taken: StartedTurn, outcome: Outcome, *, again: bool = False) -> None:
        with self.db.provider.read() as tx:
            had = [
                row[0]
                for row in tx.all(
                    "SELECT id FROM mailbox WHERE turn_id = ? AND status = ?",
                    (taken.turn.id, "running"),
                )
            ]
        finished = self.mail.finish(taken.turn, outcome, again=again)
        if finished.is_accepted and outcome != "abandoned" and not again:
            assert set(had) >= set(taken.input.item_ids)
            self.committed.update(had)

    @precondition(runs_something)
    @rule(place=some)
    def lose_the_lease(self, place: int) -> None:
        """Too slow: the other one gets the lease, and what the slow one says does not count."""
        which, lane = self.chosen(place)
        other = self.gateways[1 - which]
        slow, lease = self.gateways[which].running.pop(lane)
        self.clock.advance(TTL + 1)
        self.beat()
        taken_over = self.leases.take(lease.session_id, other.process.holder(), TTL)
        assert not self.mail.finish(slow.turn, "completed").is_accepted
        self.leases.release(taken_over)

    @precondition(runs_something)
    @rule(place=some)
    def steer(self, place: int) -> None:
        which, lane = self.chosen(place)
        for item_id in self.waiting(lane)[:1]:
            self.mail.steer(self.gateways[which].running[lane][0].turn, item_id)

    # ── commands ──────────────────────────────────────────────────────────────────────────────

    @rule(lane=lanes)
    def new(self, lane: str) -> None:
        before, found = self.waiting(lane), self.sessions.peek(source(lane))
        if found is None:
            return
        assert self.mail.stop(self.lane(lane), "new").dropped == len(before)
        entry = self.sessions.reset_session(found.session_key)
        assert entry is not None
        assert entry.session_id != found.session_id
        self.stopped(lane)

    @rule(lane=lanes)
    def stop(self, lane: str) -> None:
        before, found = self.waiting(lane), self.sessions.peek(source(lane))
        if found is None:
            return
        assert self.mail.stop(self.lane(lane), "stopped").dropped == len(before)
        assert self.sessions.suspend_session(found.session_key)
        self.stopped(lane)
        assert self.sessions.get_or_create_session(source(lane)).session_id != found.session_id

    def stopped(self, lane: str) -> None:
        for gateway in self.gateways:
            if lane in gateway.running:
                self.stale.append(gateway.running.pop(lane)[0])

    # ── time, crashes, restarts ───────────────────────────────────────────────────────────────

    @rule(seconds=st.sampled_from([0.5, 20, 40, 3_700, -10]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.beat()

    def beat(self) -> None:
        for gateway in self.gateways:
            assert gateway.process.beat()
            for lane, (taken, lease) in gateway.running.items():
                gateway.running[lane] = (taken, self.leases.renew(lease, TTL))

    @rule(which=both)
    def crash(self, which: int) -> None:
        """Killed, and found dead by the other one, or by the next start."""
        dead, other = self.gateways[which], self.gateways[1 - which]
        self.stale += [taken for taken, _ in dead.running.values()]
        self.clock.advance(61)
        other.process.beat()
        for lane, (taken, lease) in other.running.items():
            other.running[lane] = (taken, self.leases.renew(lease, TTL))
        other.process.recover()
        assert not dead.process.beat()
        self.gateways[which] = self.started()
        self.gateways[which].process.resume()

    @rule(which=both, reason=st.sampled_from(["restart", "shutdown"]))
    def restart(self, which: int, reason: Any) -> None:
        """Drained; what does not finish in time is left."""
        gateway = self.gateways[which]
        gateway.process.begin_drain(reason)
        for lane in list(gateway.running)[:1]:
            taken, lease = gateway.running.pop(lane)
            self.end(taken, "completed")
            self.leases.release(lease)
        drained = gateway.process.end_drain()
        assert gateway.process.end() == (not gateway.running)
        assert len(drained.unfinished) <= len(gateway.running)
        self.stale += [taken for taken, _ in gateway.running.values()]
        self.gateways[which] = self.started()
        self.gateways[which].process.resume()

    @rule()
    def watch(self) -> None:
        def hook(claim: Any) -> None:
            self.finalized[claim.session_id] += 1

        ExpiryWatcher(self.sessions, hooks=[hook]).run_pass()

    # ── looking ───────────────────────────────────────────────────────────────────────────────

    def lane(self, name: str) -> Lane:
        with self.db.provider.read() as tx:
            found = self.sessions.engine.lanes.find(
                tx, "default", self.sessions.session_key(source(name))
            )
        assert found is not None
        return found

    def waiting(self, name: str) -> list[int]:
        key = self.sessions.session_key(source(name))
        with self.db.provider.read() as tx:
            rows = tx.all(
                "SELECT m.id FROM mailbox m JOIN lanes l ON l.id = m.lane_id "
                "WHERE l.session_key = ? AND m.status = ? ORDER BY m.id",
                (key, "waiting"),
            )
        return [row[0] for row in rows]

    def waiting_untried(self, lane_id: int) -> list[int]:
        with self.db.provider.read() as tx:
            rows = tx.all(
                "SELECT id FROM mailbox WHERE lane_id = ? AND status = ? AND turn_id IS NULL "
                "AND kind <> ?",
                (lane_id, "waiting", "resume"),
            )
        return [row[0] for row in rows]

    # ── what must hold after every step ───────────────────────────────────────────────────────

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        with self.db.provider.read() as tx:
            rows = tx.all("SELECT id, kind, status, reason, turn_id FROM mailbox")
            unfinished = {row[0] for row in tx.all("SELECT id FROM turns WHERE ended_at IS NULL")}
        stored = {row[0] for row in rows if row[1] != "resume"}
        assert stored == self.received.keys()
        for item_id, _, status, reason, turn_id in rows:
            assert (status == "running") == (turn_id in unfinished)
            assert self.committed[item_id] <= 1
            told = status == "done" and reason in {"completed", "failed", "interrupted"}
            assert self.committed[item_id] == int(told)
            if status in {"done", "dropped"}:
                assert reason

    @invariant()
    def one_runner_per_lane(self) -> None:
        with self.db.provider.read() as tx:
            running = tx.all(
                "SELECT lane_id, COUNT(*) FROM turns WHERE ended_at IS NULL GROUP BY lane_id"
            )
        assert all(count == 1 for _, count in running)

    @invariant()
    def every_change_of_session_is_explained(self) -> None:
        for name in LANES:
            if self.sessions.peek(source(name)) is None:
                continue
            lane = self.lane(name)
            with self.db.provider.read() as tx:
                told = history(tx, lane.id)
            assert told[0].action == "create"
            assert told[-1].to_session_id == lane.session_id
            for before, after in pairwise(told):
                assert after.from_session_id == before.to_session_id
                if after.from_session_id != after.to_session_id:
                    assert (after.action, bool(after.reason)) in {
                        ("reset", True),
                        ("create", True),
                    }
                if after.reason in {"idle", "daily"}:
                    assert after.policy is not None
            assert self.sessions.explain(lane.session_key) is not None

    @invariant()
    def sessions_are_finalised_once(self) -> None:
        assert all(times == 1 for times in self.finalized.values())

    def settle_everything(self) -> None:
        """In the end everything that was received has been answered, or dropped for a reason."""
        for which in (0, 1):
            self.crash(which)
        for lane in LANES:
            for _ in range(100):
                if not self.waiting(lane):
                    break
                self.take(0, lane)
                for taken, lease in self.gateways[0].running.values():
                    self.end(taken, "completed")
                    self.leases.release(lease)
                self.gateways[0].running.clear()
            assert self.waiting(lane) == []
        self.nothing_is_lost_or_doubled()
        with self.db.provider.read() as tx:
            rows = tx.all("SELECT id, status, reason FROM mailbox")
        for item_id, status, reason in rows:
            assert status in {"done", "dropped"}
            if not self.committed[item_id]:
                assert reason in {"new", "stopped", "superseded", "stuck_loop", "completed", TOLD}


BUDGET = settings.default.max_examples if settings.default else 100
TestLifecycle = LifecycleMachine.TestCase
TestLifecycle.settings = settings(max_examples=max(BUDGET // 4, 1), stateful_step_count=60)

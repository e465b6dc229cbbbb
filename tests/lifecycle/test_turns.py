"""The rows of turns and of the processes that run them."""

from __future__ import annotations

import pytest

from hermes_sessions.errors import ConversationHeld, InvalidInput, StaleFence
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.leases import Holder, Lease, Leases
from hermes_sessions.storage.repositories.processes import Processes
from hermes_sessions.storage.repositories.turns import Outcome, Turns
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from tests.servers.stores import OpenStore


def held(db: SessionDB, session_id: str, process_id: str = "p1") -> Lease:
    db.ensure_session(session_id, "telegram")
    return db.take_lease(session_id, Holder(process_id, "the gateway"))


class TestTurns:
    def test_a_turn_begins_and_ends(self, db: SessionDB, clock: FrozenClock) -> None:
        turns = Turns(db.store)
        lease = held(db, "s")
        turn = turns.start(7, lease, "s", attempt=2)
        assert turn[1:8] == (7, "s", "s", "p1", lease.token, 2, clock())
        assert turns.find(turn.id) == turn
        assert turns.unfinished() == [turn]
        assert turns.running_on(lane_id=7) == turns.running_on(chain_id="s") == turn
        clock.advance(5)
        assert turns.end(turn, "completed", "well done")
        ended = turn._replace(ended_at=clock(), outcome="completed", detail="well done")
        assert turns.find(turn.id) == ended
        assert turns.unfinished() == []
        assert turns.running_on(lane_id=7) is turns.running_on(chain_id="s") is None

    def test_the_latest_turn_of_a_lane_is_the_one_that_runs(self, db: SessionDB) -> None:
        turns = Turns(db.store)
        lease = held(db, "s")
        for _ in range(3):
            turns.end(turns.start(7, lease, "s"), "completed")
        running = turns.start(7, lease, "s")
        turns.start(8, lease, "s")
        assert turns.running_on(lane_id=7) == running

    def test_the_first_end_counts(self, db: SessionDB) -> None:
        turns = Turns(db.store)
        turn = turns.start(None, held(db, "s"), "s")
        assert turns.end(turn, "abandoned")
        assert not turns.end(turn, "completed")
        found = turns.find(turn.id)
        assert found is not None
        assert found.outcome == "abandoned"

    def test_what_processes_left_unfinished(self, db: SessionDB) -> None:
        turns = Turns(db.store)
        started = [
            turns.start(number, held(db, f"s{number}", process), f"s{number}")
            for number, process in enumerate(("p1", "p2", "p1"))
        ]
        turns.end(started[2], "failed", "it broke")
        assert turns.unfinished() == started[:2]
        assert turns.unfinished(["p1"]) == started[:1]
        assert turns.unfinished(["p1", "p2", "p3"]) == started[:2]
        assert turns.unfinished([]) == []

    def test_only_the_holder_begins_and_completes(self, db: SessionDB, clock: FrozenClock) -> None:
        turns = Turns(db.store)
        lease = held(db, "s")
        turn = turns.start(1, lease, "s")
        clock.advance(60)
        newer = held(db, "s", "p2")
        with pytest.raises(StaleFence):
            turns.end(turn, "completed")
        with pytest.raises(StaleFence):
            turns.start(1, lease, "s")
        assert turns.unfinished() == [turn]
        assert turns.end(turn, "interrupted", "was too slow")
        db.release_lease(newer)
        with pytest.raises(StaleFence):
            turns.start(1, newer, "s")

    def test_a_deleted_session(self, db: SessionDB) -> None:
        turns = Turns(db.store)
        lease = held(db, "s")
        over, running = turns.start(1, lease, "s"), turns.start(1, lease, "s")
        turns.end(over, "completed")
        db.release_lease(lease)
        db.delete_session("s")
        assert turns.find(over.id) is None
        assert turns.find(running.id) == running
        with pytest.raises(StaleFence):
            turns.end(running, "completed")
        assert turns.end(running, "abandoned")

    def test_what_cannot_be(self, db: SessionDB) -> None:
        turns = Turns(db.store)
        db.create_session("s", "cli")
        unregistered = db.take_lease("s", "a chat")
        with pytest.raises(InvalidInput, match="registered process"):
            turns.start(1, unregistered, "s")
        turn = turns.start(1, unregistered._replace(process_id="p"), "s")
        unknown: Outcome = "done"  # type: ignore[assignment]
        with pytest.raises(InvalidInput, match="completed, interrupted, failed, abandoned"):
            turns.end(turn, unknown)
        with pytest.raises(InvalidInput, match="either"):
            turns.running_on()

    def test_lease_and_turn_in_one_transaction(self, db: SessionDB) -> None:
        turns, leases = Turns(db.store), Leases(db.store)
        db.create_session("s", "cli")

        def work(tx: WriteTransaction) -> None:
            lease = leases.take("s", Holder("p1", "the gateway"), 60, tx=tx)
            turns.start(1, lease, "s", tx=tx)
            raise RuntimeError("something else went wrong")

        with pytest.raises(RuntimeError):
            db.provider.write(work, isolated=False)
        assert db.lease_of("s") is None
        assert turns.unfinished() == []


class TestRevoking:
    def test_every_lease_of_a_dead_process(self, db: SessionDB) -> None:
        old = [held(db, "a", "p1"), held(db, "b", "p1")]
        other = held(db, "c", "p2")
        assert Leases(db.store).revoke("p1") == ["a", "b"]
        assert Leases(db.store).revoke("p1") == []
        for lease in old:
            with pytest.raises(StaleFence):
                db.append_message(lease.session_id, "user", "late", fence=lease.token)
            assert held(db, lease.session_id, "p2").token > lease.token
        db.append_message("c", "user", "mine", fence=other.token)

    def test_who_took_it_over_keeps_it(self, db: SessionDB, clock: FrozenClock) -> None:
        held(db, "a", "p1")
        clock.advance(60)
        held(db, "a", "p2")
        assert Leases(db.store).revoke("p1") == []
        with pytest.raises(ConversationHeld):
            db.append_message("a", "user", "no")


class TestProcesses:
    def test_who_is_alive(self, db: SessionDB, clock: FrozenClock) -> None:
        processes = Processes(db.store)
        first = processes.register("bot", "gateway", version="1.2", host="h", pid=1)
        clock.advance(10)
        second = processes.register("bot", "gateway")
        processes.register("other bot", "gateway")
        assert processes.living("bot", 30) == [first, second]
        clock.advance(20)
        assert processes.living("bot", 30) == [second]
        assert processes.dead("bot", 30) == [first]
        assert processes.beat(first.id)
        assert processes.living("bot", 30) == [first._replace(heartbeat_at=clock()), second]
        assert processes.newest("bot", "gateway") == second
        assert processes.newest("bot", "cli") is None

    def test_a_process_ends_once(self, db: SessionDB, clock: FrozenClock) -> None:
        processes = Processes(db.store)
        process = processes.register("bot", "gateway")
        assert processes.end(process.id, clean=True)
        assert not processes.end(process.id, clean=False)
        assert not processes.beat(process.id)
        clock.advance(60)
        assert processes.living("bot", 30) == processes.dead("bot", 30) == []
        assert processes.newest("bot", "gateway") == process._replace(
            ended_at=process.started_at, clean=1
        )

    def test_one_finds_it_dead_unless_it_was_heard_of(
        self, db: SessionDB, clock: FrozenClock, open_another: OpenStore
    ) -> None:
        processes, others = Processes(db.store), Processes(open_another().store)
        process = processes.register("bot", "gateway")
        clock.advance(60)
        silent_since = clock() - 30
        processes.beat(process.id)
        assert not others.end(process.id, clean=False, silent_since=silent_since)
        clock.advance(60)
        silent_since = clock() - 30
        found = [
            p.end(process.id, clean=False, silent_since=silent_since) for p in (others, others)
        ]
        assert found == [True, False]
        assert not processes.beat(process.id)

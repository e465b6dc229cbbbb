"""Processes that die, and what becomes of what they were doing, on every database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import NotFound, StoreUnavailable
from hermes_sessions.lifecycle import gateway_process as running
from hermes_sessions.lifecycle.expiry import ExpiryWatcher
from hermes_sessions.lifecycle.gateway_process import Recovery
from hermes_sessions.lifecycle.mailboxes import Taken
from hermes_sessions.model.lane import Lane
from hermes_sessions.storage.host_processes import host_name, is_running
from hermes_sessions.storage.repositories.outbox import NewReply, Outbox
from hermes_sessions.storage.repositories.processes import Processes
from hermes_sessions.storage.repositories.turns import Outcome, RecoveryRows
from hermes_sessions.testing.clock import FrozenClock
from tests.lifecycle.harness import House, lease_of
from tests.servers.stores import OpenStore


@pytest.fixture
def house(open_store: OpenStore, tmp_path: Path) -> Iterator[House]:
    clock = FrozenClock()
    with open_store(clock=clock) as db:
        yield House(db, clock, tmp_path / "home")


def begun(house: House, name: str = "1") -> Taken:
    taken = house.begin(name)
    assert taken is not None
    return taken


class TestCrash:
    def test_a_turn_of_any_age_is_found(self, house: House) -> None:
        """Acceptance 28, 29: also one that began ten minutes ago; an idle lane is left alone."""
        house.say("long", to="1")
        house.say("done", to="2")
        begun(house, "1")
        house.clock.advance(minutes=10)
        house.run_all("2")
        [found] = house.crash(after=61).set_aside
        assert (found.returned, found.is_stuck) == (1, False)
        lane = house.seen("1")
        assert (lane.status, lane.status_reason) == ("resume_pending", "restart_interrupted")
        assert lane.status_at == house.clock()
        assert house.seen("2").status == "active"
        assert ("mark", "restart_interrupted") in house.explained("1")

    def test_the_turn_is_taken_again(self, house: House) -> None:
        """Acceptance 45: and what waited behind it runs after it."""
        house.say("a")
        lost = begun(house)
        house.say("b", kind="queue")
        house.say("c", kind="queue")
        session = house.seen().session_id
        house.crash()
        assert [lane.id for lane in house.process.resume()] == [house.seen().id]
        assert house.run_all() == ["a", "b", "c"]
        assert house.seen().session_id == session
        assert house.seen().status == "active"
        assert not house.mail.finish(lost.turn, "completed").is_accepted

    def test_a_lane_that_goes_on_already_is_not_asked_to(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another gateway takes the turn between the look at the lanes and the asking."""
        house.say("a")
        begun(house)
        house.crash()
        looked = house.process.resumable
        again: list[Taken] = []

        def resumable(lanes: Iterable[Lane], freshness: float) -> list[Lane]:
            found = looked(lanes, freshness)
            again.append(begun(house))
            return found

        monkeypatch.setattr(house.process, "resumable", resumable)
        house.process.resume()
        assert house.answer(again[0]).is_accepted
        assert house.run_all() == [], "nobody asked for anything after that"

    def test_nobody_waits_for_leases_of_the_dead(self, house: House) -> None:
        house.say("a")
        taken = begun(house)
        house.leases.renew(lease_of(taken), 1_000_000)
        house.crash()
        assert house.run_all() == ["a"]

    def test_a_living_peer_is_left_alone(self, house: House) -> None:
        house.say("a")
        running = begun(house)
        house.clock.advance(59)
        peer = house.new_process()
        assert peer.start() == Recovery([], [])
        assert house.seen().status == "active"
        assert house.answer(running).is_accepted

    def test_a_peer_that_dies_later_is_noticed(self, house: House) -> None:
        house.say("a")
        begun(house)
        peer = house.new_process()
        peer.start()
        house.clock.advance(30)
        peer.beat()
        assert peer.recover().set_aside == []
        house.clock.advance(31)
        assert peer.beat()
        found = peer.recover()
        assert [process.id for process in found.dead] == [house.process.id]
        assert len(found.set_aside) == 1
        assert peer.recover() == Recovery([], [])

    def test_a_clock_that_is_put_back_keeps_nobody_alive(self, house: House) -> None:
        """A peer whose last heartbeat is of a time to come, and stays it."""
        house.say("a")
        begun(house)
        watch = FrozenClock(0)
        peer = house.new_process(pid=1, stopwatch=watch)
        peer.start()
        house.clock.advance(days=-1)
        peer.beat()
        assert peer.recover().dead == []
        watch.advance(59)
        assert peer.recover().dead == []
        watch.advance(1)
        running._ours.discard(house.process.id)
        found = peer.recover()
        assert [process.id for process in found.dead] == [house.process.id]
        assert len(found.set_aside) == 1

    def test_a_peer_whose_clock_is_ahead_is_alive(self, house: House) -> None:
        watch = FrozenClock(0)
        peer = house.new_process(pid=1, stopwatch=watch)
        peer.start()
        running._ours.discard(house.process.id)
        for _ in range(10):
            house.clock.advance(7200)
            house.process.beat()
            house.clock.advance(-7190)
            watch.advance(30)
            peer.beat()
            assert peer.recover().dead == []

    def test_what_the_dead_began_to_send_is_free_at_once(self, house: House) -> None:
        outbox = Outbox(house.db.store, house.engine.namespace)
        outbox.put(NewReply("telegram", "1", "{}", "half sent"))
        (claimed,) = outbox.claim(["telegram"], house.process.id, seconds=900, limit=10)
        peer = house.new_process()
        assert peer.start().freed_replies == 0
        assert outbox.claim(["telegram"], peer.id, seconds=900, limit=10) == []
        house.clock.advance(61)
        assert peer.beat()
        assert peer.recover().freed_replies == 1
        (again,) = outbox.claim(["telegram"], peer.id, seconds=900, limit=10)
        assert (again.text, again.claimed_by) == ("half sent", peer.id)
        with pytest.raises(NotFound):
            outbox.part_sent(claimed, "m1", seconds=900)
        assert peer.recover().freed_replies == 0

    def test_what_a_process_left_that_ended_is_free_at_once(self, house: House) -> None:
        outbox = Outbox(house.db.store, house.engine.namespace)
        outbox.put(NewReply("telegram", "1", "{}", "half sent"))
        outbox.claim(["telegram"], house.process.id, seconds=900, limit=10)
        assert house.restart().freed_replies == 1
        assert len(outbox.claim(["telegram"], house.process.id, seconds=900, limit=10)) == 1

    def test_who_was_taken_for_dead_learns_it(self, house: House) -> None:
        house.say("a")
        running = begun(house)
        house.clock.advance(61)
        house.new_process().start()
        assert not house.process.beat()
        assert not house.mail.finish(running.turn, "completed").is_accepted

    def test_nobody_takes_oneself_for_dead(self, house: House) -> None:
        """After the machine slept, whoever looks before its next heartbeat."""
        house.say("a")
        taken = begun(house)
        house.clock.advance(3600)
        assert house.process.recover() == Recovery([], [])
        assert house.process.beat()
        assert house.answer(taken).is_accepted

    def test_nobody_gives_up_ones_own_turns_after_a_sleep(self, house: House) -> None:
        """The first heartbeat came, and the leases are about to be renewed."""
        watch = FrozenClock(0)
        house.process = house.new_process(stopwatch=watch)
        house.process.start()
        house.say("a")
        taken = begun(house)
        house.clock.advance(3600)
        assert house.process.beat()
        assert house.process.recover() == Recovery([], [])
        assert house.answer(taken).is_accepted

    def test_peers_have_time_to_be_heard_of_after_a_sleep(self, house: House) -> None:
        house.say("a")
        taken = begun(house)
        watch = FrozenClock(0)
        peer = house.new_process(pid=1, stopwatch=watch)
        peer.start()
        house.clock.advance(3600)
        assert peer.beat()
        assert peer.recover() == Recovery([], [])
        for _ in range(2):
            house.clock.advance(30)
            watch.advance(30)
            assert peer.beat()
            found = peer.recover()
        assert [process.id for process in found.dead] == [house.process.id]
        assert [one.turn.id for one in found.set_aside] == [taken.turn.id]

    @pytest.mark.parametrize("is_late", [False, True], ids=["refused", "late"])
    def test_peers_have_time_to_be_heard_of_after_the_store_was_away(
        self, house: House, monkeypatch: pytest.MonkeyPatch, is_late: bool
    ) -> None:
        peer = house.new_process(pid=1)
        peer.start()
        works = Processes.beat

        def beat(processes: Processes, process_id: str) -> bool:
            house.clock.advance(61)
            if not is_late:
                raise StoreUnavailable("The database is away.")
            return works(processes, process_id)

        with monkeypatch.context() as away, suppress(StoreUnavailable):
            away.setattr(Processes, "beat", beat)
            peer.beat()
        assert peer.recover().dead == []
        assert house.process.beat()
        for seconds in (29, 30):
            house.clock.advance(seconds)
            assert peer.beat()
            assert peer.recover().dead == []
        house.clock.advance(1)
        assert [process.id for process in peer.recover().dead] == [house.process.id]

    def test_who_is_gone_is_not_waited_for_after_a_sleep(self, house: House) -> None:
        house.say("a")
        begun(house)
        gone = house.process
        peer = house.new_process(
            pid=1, stopwatch=FrozenClock(0), runs_here=lambda process: process.id != gone.id
        )
        peer.start()
        house.clock.advance(3600)
        running._ours.discard(gone.id)
        assert [process.id for process in peer.recover().dead] == [gone.id]

    def test_a_process_that_is_gone_is_not_waited_for(self, house: House) -> None:
        """Restarted at once: on the same host one can see that the other is gone."""
        house.say("a")
        begun(house)
        peer = house.new_process(pid=1, runs_here=lambda one: one.pid != 2**22 + 1)
        # This test is one program that plays both.
        running._ours.discard(house.process.id)
        found = peer.start()
        assert [process.id for process in found.dead] == [house.process.id]
        assert house.seen().status == "resume_pending"

    def test_a_number_that_another_program_has_now(self, house: House) -> None:
        """Whoever had it before is not waited for."""
        before = Processes(house.db.store).register(
            house.engine.namespace,
            "gateway",
            process_id="1.started-never",
            host=host_name(),
            pid=os.getpid(),
        )
        found = house.new_process(runs_here=is_running).start()
        assert [process.id for process in found.dead] == [before.id]

    def test_a_turn_that_its_process_forgot(self, house: House) -> None:
        """Its lease was given back, and nobody said how it ended."""
        house.say("a")
        forgotten = begun(house)
        house.say("b", to="2")
        running = begun(house, "2")
        assert house.process.recover().set_aside == []
        house.leases.release(lease_of(forgotten))
        [found] = house.process.recover().set_aside
        assert found.turn.id == forgotten.turn.id
        assert [one.session_key for one in house.mail.waiting_lanes()] == [house.seen().session_key]
        assert house.run_all() == ["a"]
        assert house.answer(running).is_accepted

    def test_one_that_is_only_slow_may_go_on(self, house: House) -> None:
        house.say("a")
        slow = begun(house)
        house.clock.advance(61)
        house.process.beat()
        assert house.process.recover().set_aside == []
        assert house.answer(slow).is_accepted

    def test_one_that_is_too_slow_may_not(self, house: House) -> None:
        house.say("a")
        slow = begun(house)
        for _ in range(3):
            house.clock.advance(40)
            house.process.beat()
        assert len(house.process.recover().set_aside) == 1
        assert not house.mail.finish(slow.turn, "completed").is_accepted

    def test_two_recover_at_once(self, house: House) -> None:
        house.say("a")
        begun(house)
        house.clock.advance(61)
        peers = [house.new_process(), house.new_process()]
        found = [peer.start() for peer in peers]
        assert sum(len(one.set_aside) for one in found) == 1
        assert house.seen().unfinished_starts == 1

    def test_a_suspended_lane_stays_so(self, house: House) -> None:
        """Acceptance 24, 25."""
        house.say("a")
        begun(house)
        house.sessions.suspend_session(house.seen().session_key, "stop")
        house.crash()
        lane = house.seen()
        assert (lane.status, lane.status_reason) == ("suspended", "stop")
        assert house.process.resume() == []

    def test_another_bots_process_is_none_of_ours(
        self, house: House, open_store: OpenStore
    ) -> None:
        house.say("a")
        begun(house)
        house.clock.advance(3600)
        with open_store(clock=house.clock) as db:
            other = House(db, house.clock, house.home, namespace="other")
            assert other.recovered == Recovery([], [])
        assert house.seen().status == "active"


def test_the_export_follows(tmp_path: Path) -> None:
    """``sessions.json`` shows what recovery, turns and the watcher change."""
    clock = FrozenClock()
    with SessionDB(tmp_path / "state.db", clock=clock) as db:
        house = House(db, clock, tmp_path, write_sessions_json=True)

        def shown() -> dict[str, Any]:
            house.sessions.flush()
            entries = json.loads((tmp_path / "sessions" / "sessions.json").read_text())
            found: dict[str, Any] = entries["agent:main:telegram:dm:1"]
            return found

        house.say("a")
        begun(house)
        assert not shown()["resume_pending"]
        house.crash(after=61)
        assert shown()["resume_reason"] == "restart_interrupted"
        taken = begun(house)
        shown()
        house.answer(taken)
        assert not shown()["resume_pending"]
        clock.advance(days=2)
        ExpiryWatcher(house.sessions).run_pass()
        assert shown()["expiry_finalized"]
        house.sessions.close()


class TestThreeStarts:
    def test_at_the_third_the_lane_is_suspended(self, house: House) -> None:
        """Acceptance 32."""
        house.say("poison")
        house.say("behind it", kind="queue")
        session = house.lane().session_id
        counts = house.home / "restart_counts.json"
        key = house.seen().session_key
        for start in (1, 2):
            begun(house)
            found = house.crash()
            assert not found.stuck
            assert json.loads(counts.read_text()) == {key: start}
            assert house.lane().session_id == session
        begun(house)
        [stuck] = house.crash().stuck
        assert stuck.dropped == 1
        assert stuck.lane is not None
        assert stuck.lane.origin is not None
        assert not counts.exists()
        assert house.process.resume() == []
        assert house.run_all() == ["behind it"]
        assert house.seen().session_id != session
        notice = house.seen().notice
        assert notice is not None
        assert (notice.kind, notice.reason) == ("auto_reset", "suspended")

    def test_one_good_turn_in_between(self, house: House) -> None:
        for _ in range(2):
            for _ in range(2):
                house.say("a")
                begun(house)
                house.crash()
            assert house.run_all() == ["a", "a"]
        assert house.seen().status == "active"
        assert house.process.end()
        assert not (house.home / "restart_counts.json").exists()

    def test_a_turn_without_a_mailbox_counts_too(self, house: House) -> None:
        for _ in range(3):
            lease = house.hold()
            house.turns.start(house.seen().id, lease, lease.session_id)
            found = house.crash(after=61)
        assert [one.is_stuck for one in found.set_aside] == [True]
        assert house.seen().status == "suspended"


class TestCleanEnd:
    def test_nothing_is_marked(self, house: House) -> None:
        """Acceptance 30."""
        house.say("a")
        house.run_all()
        marker = house.home / ".clean_shutdown"
        assert house.process.end()
        assert marker.exists()
        house.process = house.new_process()
        assert house.process.start() == Recovery([], [])
        assert not marker.exists()
        assert house.seen().status == "active"

    def test_what_was_left_is_found_at_once(self, house: House) -> None:
        house.say("a")
        begun(house)
        assert not house.process.end()
        assert not (house.home / ".clean_shutdown").exists()
        house.process = house.new_process()
        assert len(house.process.start().set_aside) == 1
        assert house.run_all() == ["a"]

    def test_without_a_home_there_are_no_files(self, house: House) -> None:
        peer = house.new_process(home=None)
        peer.start()
        assert peer.end()
        assert not (house.home / ".clean_shutdown").exists()


class TestDrain:
    @pytest.mark.parametrize("reason", ["restart", "shutdown"])
    def test_what_does_not_finish_in_time(self, house: House, reason: str) -> None:
        """Acceptance 31."""
        house.say("a")
        begun(house)
        [marked] = house.process.begin_drain(reason)  # type: ignore[arg-type]
        assert marked.status_reason == f"{reason}_timeout"
        drained = house.process.end_drain()
        assert ([], [marked.id]) == (drained.finished, [lane.id for lane in drained.unfinished])
        assert not house.process.end()
        assert not (house.home / ".clean_shutdown").exists()
        house.process = house.new_process()
        house.process.start()
        lane = house.seen()
        assert (lane.status, lane.status_reason) == ("resume_pending", f"{reason}_timeout")
        assert lane.unfinished_starts == 1
        assert [one.id for one in house.process.resume()] == [lane.id]
        assert house.run_all() == ["a"]

    @pytest.mark.parametrize("outcome", ["completed", "failed", "interrupted"])
    def test_what_finishes_in_time(self, house: House, outcome: str) -> None:
        house.say("a")
        taken = begun(house)
        house.process.begin_drain("restart")
        assert house.seen().status == "resume_pending"
        house.answer(taken, outcome)  # type: ignore[arg-type]
        drained = house.process.end_drain()
        assert [lane.id for lane in drained.finished] == [house.seen().id]
        assert house.seen().status == "active"
        assert house.process.end()
        assert (house.home / ".clean_shutdown").exists()

    def test_turns_that_the_gateway_gave_up(self, house: House) -> None:
        house.say("a")
        taken = begun(house)
        house.process.begin_drain("restart")
        house.process.end_drain()
        house.answer(taken, "abandoned")
        assert not house.process.end()
        lane = house.seen()
        assert (lane.status_reason, lane.unfinished_starts) == ("restart_timeout", 1)

    def test_a_kill_in_the_middle(self, house: House) -> None:
        house.say("a")
        begun(house)
        house.process.begin_drain("restart")
        house.crash()
        assert house.seen().status_reason == "restart_timeout"

    def test_a_mark_from_before_is_not_cleared(self, house: House) -> None:
        house.say("a")
        begun(house)
        house.crash()
        again = begun(house)
        assert house.process.begin_drain("restart") == []
        house.answer(again, "failed")
        house.process.end_drain()
        lane = house.seen()
        assert (lane.status, lane.status_reason) == ("resume_pending", "restart_interrupted")

    def test_what_waits_during_the_drain_runs_afterwards(self, house: House) -> None:
        """Acceptance 45."""
        house.say("a")
        taken = begun(house)
        house.process.begin_drain("restart")
        assert house.say("b").depth == 1
        house.answer(taken)
        house.process.end_drain()
        house.restart()
        assert [one.session_key for one in house.mail.waiting_lanes()] == [house.seen().session_key]
        assert house.run_all() == ["b"]


class TestGoingOn:
    def interrupted(self, house: House, name: str = "1") -> None:
        """A turn that no message of the mailbox began."""
        lease = house.hold(name)
        house.turns.start(house.seen(name).id, lease, lease.session_id)

    def test_something_to_go_on_with(self, house: House) -> None:
        self.interrupted(house)
        house.crash()
        for _ in range(2):
            assert len(house.process.resume()) == 1
        taken = begun(house)
        assert (taken.input.kind, taken.input.text, taken.is_resumed) == ("resume", "", True)
        assert taken.lane.origin is not None
        house.answer(taken)
        assert house.begin() is None
        assert house.process.resume() == []

    def test_a_turn_that_fails_is_not_begun_again_by_itself(self, house: House) -> None:
        self.interrupted(house)
        house.crash()
        house.process.resume()
        house.answer(begun(house), "failed")
        assert house.seen().status == "resume_pending"
        house.process.resume()
        assert house.begin() is None

    @pytest.mark.parametrize("outcome", ["failed", "interrupted"])
    def test_nor_is_an_input_that_was_tried_again(self, house: House, outcome: Outcome) -> None:
        house.say("a")
        begun(house)
        house.crash()
        house.process.resume()
        house.answer(begun(house), outcome)
        for _ in range(2):
            house.process.resume()
            assert house.begin() is None
            house.restart()
        assert house.seen().status == "resume_pending"
        house.say("b")
        begun(house)
        house.crash()
        house.process.resume()
        assert house.run_all() == ["b"]

    def test_one_that_waits_for_the_store_is_tried_again(self, house: House) -> None:
        house.say("a")
        begun(house)
        house.crash()
        house.answer(begun(house), "interrupted", again=True)
        house.process.resume()
        assert house.run_all() == ["a"]

    def test_what_somebody_stopped_does_not_go_on(self, house: House) -> None:
        house.say("a")
        begun(house)
        house.crash()
        assert house.mail.stop(house.seen(), "stop").dropped == 1
        house.process.resume()
        assert house.begin() is None

    def test_what_failed_in_a_drain_that_was_killed_is_over(self, house: House) -> None:
        house.say("a")
        taken = begun(house)
        house.process.begin_drain("restart")
        house.answer(taken, "failed")
        house.crash(after=61)
        house.process.resume()
        assert house.begin() is None

    def test_it_comes_before_what_arrived_meanwhile(self, house: House) -> None:
        """Acceptance 33: and other lanes do not wait for it."""
        self.interrupted(house)
        house.crash()
        house.say("meanwhile")
        house.say("elsewhere", to="2")
        house.process.resume()
        taken = begun(house)
        assert taken.input.kind == "resume"
        assert house.run_all("2") == ["elsewhere"]
        house.answer(taken)
        assert house.run_all() == ["meanwhile"]

    def test_a_mark_that_is_too_old(self, house: House) -> None:
        """Acceptance 34."""
        self.interrupted(house)
        house.crash()
        house.clock.advance(3600)
        assert len(house.process.resumable([house.seen()], 3600)) == 1
        house.clock.advance(1)
        assert house.process.resume() == []
        assert house.mail.depth(house.seen()) == 0

    def test_one_that_went_on_and_was_interrupted_again(self, house: House) -> None:
        """However long ago the first time was, it goes on in its session."""
        house.say("a long task")
        session = begun(house).turn.session_id
        house.crash()
        house.clock.advance(1)
        begun(house)
        # Longer than the mark would be fresh, and than a session may be idle.
        house.crash(after=25 * 3600)
        lane = house.seen()
        assert (lane.status, lane.status_at) == ("resume_pending", house.clock())
        assert house.process.resume() == [lane]
        again = begun(house)
        assert (again.input.text, again.turn.session_id) == ("a long task", session)

    def test_a_drain_of_long_ago(self, house: House) -> None:
        """A drain knows when it was: the mark is as old as that, whenever it is found."""
        house.say("a long task")
        begun(house)
        house.process.begin_drain("shutdown")
        marked_at = house.clock()
        house.process.end_drain()
        house.process.end()
        house.clock.advance(3601)
        house.restart()
        assert house.seen().status_at == marked_at
        assert house.process.resume() == []

    def test_without_a_limit_any_age_is_fresh(self, house: House) -> None:
        """Acceptance 35."""
        self.interrupted(house)
        house.crash()
        house.clock.advance(days=400)
        assert house.process.resumable([house.seen()], 0) != []
        assert house.process.resumable([house.seen()], -1) != []

    def test_a_lane_that_runs_is_left_alone(self, house: House) -> None:
        self.interrupted(house)
        house.crash()
        self.interrupted(house)
        assert house.process.resume() == []

    def test_one_platform_after_the_other(self, house: House) -> None:
        self.interrupted(house)
        house.crash()
        assert house.process.resume(platform="discord") == []
        assert len(house.process.resume(platform="telegram")) == 1

    def test_a_lane_that_nobody_can_be_answered_in(self, house: House) -> None:
        self.interrupted(house)
        house.crash()
        house.db.provider.write(lambda tx: tx.run("UPDATE lanes SET origin = NULL"))
        assert house.process.resume() == []


class TestFirstStart:
    def prepare(self, house: House) -> None:
        """Three lanes, and no process that anybody wrote down."""
        house.lane("old")
        house.clock.advance(minutes=10)
        house.lane("1")
        house.clock.advance(60)
        house.db.provider.write(lambda tx: tx.run("DELETE FROM processes"))

    def test_lanes_used_just_before_are_marked(self, house: House) -> None:
        self.prepare(house)
        assert house.new_process().start() == Recovery([], [], 1)
        lane = house.seen("1")
        assert (lane.status, lane.status_reason) == ("resume_pending", "restart_interrupted")
        assert house.seen("old").status == "active"
        assert house.new_process().start().guessed == 0

    def test_unless_the_last_one_ended_well(self, house: House) -> None:
        self.prepare(house)
        house.home.mkdir(exist_ok=True)
        (house.home / ".clean_shutdown").touch()
        assert house.new_process().start() == Recovery([], [])
        assert not (house.home / ".clean_shutdown").exists()


class TestForgetting:
    def test_turns_and_processes_of_long_ago(self, house: House) -> None:
        for _ in range(3):
            house.say("a")
            house.run_all()
            house.restart()
        house.say("a")
        begun(house)
        house.clock.advance(days=40)
        rows = RecoveryRows(house.db.store)
        assert rows.forget("another", house.clock() + 1) == 0
        assert rows.forget("default", house.clock() - 30 * 86_400, batch=2) == 3 + 3
        with house.db.provider.read() as tx:
            assert tx.one("SELECT COUNT(*) FROM turns") == (1,)
            assert tx.one("SELECT id FROM processes") == (house.process.id,)


def test_a_host_has_one_name() -> None:
    elsewhere = subprocess.run(
        [
            sys.executable,
            "-c",
            "from hermes_sessions.storage.host_processes import host_name; print(host_name())",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert elsewhere.stdout.strip() == host_name()

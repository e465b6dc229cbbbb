"""Crashed processes and recovery of their turns, on every database."""

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
from hermes_sessions.lifecycle.expiry_watcher import ExpiryWatcher
from hermes_sessions.lifecycle.gateway_process import RecoveryReport
from hermes_sessions.lifecycle.mailboxes import StartedTurn
from hermes_sessions.model.lane import Lane
from hermes_sessions.storage.host_processes import host_name, is_running
from hermes_sessions.storage.repositories.outbox import NewReply, Outbox
from hermes_sessions.storage.repositories.processes import Processes
from hermes_sessions.storage.repositories.turns import Outcome, TurnRecovery
from hermes_sessions_testing.clock import FrozenClock
from tests.lifecycle.harness import LifecycleHarness, lease_of
from tests.servers.stores import OpenStore


@pytest.fixture
def harness(open_store: OpenStore, tmp_path: Path) -> Iterator[LifecycleHarness]:
    clock = FrozenClock()
    with open_store(clock=clock) as db:
        yield LifecycleHarness(db, clock, tmp_path / "home")


def begun(harness: LifecycleHarness, name: str = "1") -> StartedTurn:
    taken = harness.begin(name)
    assert taken is not None
    return taken


class TestCrash:
    def test_a_turn_of_any_age_is_found(self, harness: LifecycleHarness) -> None:
        """Acceptance 28, 29: also one that began ten minutes ago; an idle lane is left alone."""
        harness.say("long", to="1")
        harness.say("done", to="2")
        begun(harness, "1")
        harness.clock.advance(minutes=10)
        harness.run_all("2")
        [found] = harness.crash(after=61).set_aside
        assert (found.returned, found.is_stuck) == (1, False)
        lane = harness.seen("1")
        assert (lane.status, lane.status_reason) == ("resume_pending", "restart_interrupted")
        assert lane.status_at == harness.clock()
        assert harness.seen("2").status == "active"
        assert ("mark", "restart_interrupted") in harness.explained("1")

    def test_the_turn_is_taken_again(self, harness: LifecycleHarness) -> None:
        """Acceptance 45: and what waited behind it runs after it."""
        harness.say("a")
        lost = begun(harness)
        harness.say("b", kind="queue")
        harness.say("c", kind="queue")
        session = harness.seen().session_id
        harness.crash()
        assert [lane.id for lane in harness.process.resume()] == [harness.seen().id]
        assert harness.run_all() == ["a", "b", "c"]
        assert harness.seen().session_id == session
        assert harness.seen().status == "active"
        assert not harness.mail.finish(lost.turn, "completed").is_accepted

    def test_a_lane_that_goes_on_already_is_not_asked_to(
        self, harness: LifecycleHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another gateway takes the turn between the look at the lanes and the asking."""
        harness.say("a")
        begun(harness)
        harness.crash()
        looked = harness.process.resumable
        again: list[StartedTurn] = []

        def resumable(lanes: Iterable[Lane], freshness: float) -> list[Lane]:
            found = looked(lanes, freshness)
            again.append(begun(harness))
            return found

        monkeypatch.setattr(harness.process, "resumable", resumable)
        harness.process.resume()
        assert harness.answer(again[0]).is_accepted
        assert harness.run_all() == [], "there was no later message"

    def test_leases_of_dead_processes_are_not_waited_for(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        taken = begun(harness)
        harness.leases.renew(lease_of(taken), 1_000_000)
        harness.crash()
        assert harness.run_all() == ["a"]

    def test_a_living_peer_is_left_alone(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        running = begun(harness)
        harness.clock.advance(59)
        peer = harness.new_process()
        assert peer.start() == RecoveryReport([], [])
        assert harness.seen().status == "active"
        assert harness.answer(running).is_accepted

    def test_a_peer_that_dies_later_is_noticed(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        begun(harness)
        peer = harness.new_process()
        peer.start()
        harness.clock.advance(30)
        peer.beat()
        assert peer.recover().set_aside == []
        harness.clock.advance(31)
        assert peer.beat()
        found = peer.recover()
        assert [process.id for process in found.dead] == [harness.process.id]
        assert len(found.set_aside) == 1
        assert peer.recover() == RecoveryReport([], [])

    def test_a_clock_set_back_does_not_keep_a_dead_peer_alive(
        self, harness: LifecycleHarness
    ) -> None:
        """The last heartbeat of the peer stays in the future."""
        harness.say("a")
        begun(harness)
        watch = FrozenClock(0)
        peer = harness.new_process(pid=1, stopwatch=watch)
        peer.start()
        harness.clock.advance(days=-1)
        peer.beat()
        assert peer.recover().dead == []
        watch.advance(59)
        assert peer.recover().dead == []
        watch.advance(1)
        running._ours.discard(harness.process.id)
        found = peer.recover()
        assert [process.id for process in found.dead] == [harness.process.id]
        assert len(found.set_aside) == 1

    def test_a_peer_whose_clock_is_ahead_is_alive(self, harness: LifecycleHarness) -> None:
        watch = FrozenClock(0)
        peer = harness.new_process(pid=1, stopwatch=watch)
        peer.start()
        running._ours.discard(harness.process.id)
        for _ in range(10):
            harness.clock.advance(7200)
            harness.process.beat()
            harness.clock.advance(-7190)
            watch.advance(30)
            peer.beat()
            assert peer.recover().dead == []

    def test_what_the_dead_began_to_send_is_free_at_once(self, harness: LifecycleHarness) -> None:
        outbox = Outbox(harness.db.store, harness.engine.namespace)
        outbox.put(NewReply("telegram", "1", "{}", "half sent"))
        (claimed,) = outbox.claim(["telegram"], harness.process.id, seconds=900, limit=10)
        peer = harness.new_process()
        assert peer.start().freed_replies == 0
        assert outbox.claim(["telegram"], peer.id, seconds=900, limit=10) == []
        harness.clock.advance(61)
        assert peer.beat()
        assert peer.recover().freed_replies == 1
        (again,) = outbox.claim(["telegram"], peer.id, seconds=900, limit=10)
        assert (again.text, again.claimed_by) == ("half sent", peer.id)
        with pytest.raises(NotFound):
            outbox.part_sent(claimed, "m1", seconds=900)
        assert peer.recover().freed_replies == 0

    def test_what_a_process_left_that_ended_is_free_at_once(
        self, harness: LifecycleHarness
    ) -> None:
        outbox = Outbox(harness.db.store, harness.engine.namespace)
        outbox.put(NewReply("telegram", "1", "{}", "half sent"))
        outbox.claim(["telegram"], harness.process.id, seconds=900, limit=10)
        assert harness.restart().freed_replies == 1
        assert len(outbox.claim(["telegram"], harness.process.id, seconds=900, limit=10)) == 1

    def test_who_was_taken_for_dead_learns_it(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        running = begun(harness)
        harness.clock.advance(61)
        harness.new_process().start()
        assert not harness.process.beat()
        assert not harness.mail.finish(running.turn, "completed").is_accepted

    def test_a_process_never_declares_itself_dead(self, harness: LifecycleHarness) -> None:
        """It may recover others after the machine slept, before its own next heartbeat."""
        harness.say("a")
        taken = begun(harness)
        harness.clock.advance(3600)
        assert harness.process.recover() == RecoveryReport([], [])
        assert harness.process.beat()
        assert harness.answer(taken).is_accepted

    def test_a_process_keeps_its_own_turns_after_a_sleep(self, harness: LifecycleHarness) -> None:
        """The first heartbeat came, and the leases are about to be renewed."""
        watch = FrozenClock(0)
        harness.process = harness.new_process(stopwatch=watch)
        harness.process.start()
        harness.say("a")
        taken = begun(harness)
        harness.clock.advance(3600)
        assert harness.process.beat()
        assert harness.process.recover() == RecoveryReport([], [])
        assert harness.answer(taken).is_accepted

    def test_peers_have_time_to_be_heard_of_after_a_sleep(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        taken = begun(harness)
        watch = FrozenClock(0)
        peer = harness.new_process(pid=1, stopwatch=watch)
        peer.start()
        harness.clock.advance(3600)
        assert peer.beat()
        assert peer.recover() == RecoveryReport([], [])
        for _ in range(2):
            harness.clock.advance(30)
            watch.advance(30)
            assert peer.beat()
            found = peer.recover()
        assert [process.id for process in found.dead] == [harness.process.id]
        assert [one.turn.id for one in found.set_aside] == [taken.turn.id]

    @pytest.mark.parametrize("is_late", [False, True], ids=["refused", "late"])
    def test_peers_have_time_to_be_heard_of_after_the_store_was_unavailable(
        self, harness: LifecycleHarness, monkeypatch: pytest.MonkeyPatch, is_late: bool
    ) -> None:
        peer = harness.new_process(pid=1)
        peer.start()
        works = Processes.beat

        def beat(processes: Processes, process_id: str) -> bool:
            harness.clock.advance(61)
            if not is_late:
                raise StoreUnavailable("The database is unavailable.")
            return works(processes, process_id)

        with monkeypatch.context() as outage, suppress(StoreUnavailable):
            outage.setattr(Processes, "beat", beat)
            peer.beat()
        assert peer.recover().dead == []
        assert harness.process.beat()
        for seconds in (29, 30):
            harness.clock.advance(seconds)
            assert peer.beat()
            assert peer.recover().dead == []
        harness.clock.advance(1)
        assert [process.id for process in peer.recover().dead] == [harness.process.id]

    def test_who_is_gone_is_not_waited_for_after_a_sleep(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        begun(harness)
        gone = harness.process
        peer = harness.new_process(
            pid=1, stopwatch=FrozenClock(0), runs_here=lambda process: process.id != gone.id
        )
        peer.start()
        harness.clock.advance(3600)
        running._ours.discard(gone.id)
        assert [process.id for process in peer.recover().dead] == [gone.id]

    def test_a_process_that_is_gone_is_not_waited_for(self, harness: LifecycleHarness) -> None:
        """Restarted at once: on the same host one can see that the other is gone."""
        harness.say("a")
        begun(harness)
        peer = harness.new_process(pid=1, runs_here=lambda one: one.pid != 2**22 + 1)
        # This test is one program that plays both.
        running._ours.discard(harness.process.id)
        found = peer.start()
        assert [process.id for process in found.dead] == [harness.process.id]
        assert harness.seen().status == "resume_pending"

    def test_a_number_that_another_program_has_now(self, harness: LifecycleHarness) -> None:
        """The process that had the number before is not waited for."""
        before = Processes(harness.db.store).register(
            harness.engine.namespace,
            "gateway",
            process_id="1.started-never",
            host=host_name(),
            pid=os.getpid(),
        )
        found = harness.new_process(runs_here=is_running).start()
        assert [process.id for process in found.dead] == [before.id]

    def test_a_turn_that_its_process_forgot(self, harness: LifecycleHarness) -> None:
        """Its lease was released, but no outcome was recorded."""
        harness.say("a")
        forgotten = begun(harness)
        harness.say("b", to="2")
        running = begun(harness, "2")
        assert harness.process.recover().set_aside == []
        harness.leases.release(lease_of(forgotten))
        [found] = harness.process.recover().set_aside
        assert found.turn.id == forgotten.turn.id
        assert [one.session_key for one in harness.mail.waiting_lanes()] == [
            harness.seen().session_key
        ]
        assert harness.run_all() == ["a"]
        assert harness.answer(running).is_accepted

    def test_a_slow_turn_may_continue(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        slow = begun(harness)
        harness.clock.advance(61)
        harness.process.beat()
        assert harness.process.recover().set_aside == []
        assert harness.answer(slow).is_accepted

    def test_one_that_is_too_slow_may_not(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        slow = begun(harness)
        for _ in range(3):
            harness.clock.advance(40)
            harness.process.beat()
        assert len(harness.process.recover().set_aside) == 1
        assert not harness.mail.finish(slow.turn, "completed").is_accepted

    def test_two_recover_at_once(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        begun(harness)
        harness.clock.advance(61)
        peers = [harness.new_process(), harness.new_process()]
        found = [peer.start() for peer in peers]
        assert sum(len(one.set_aside) for one in found) == 1
        assert harness.seen().unfinished_starts == 1

    def test_a_suspended_lane_stays_so(self, harness: LifecycleHarness) -> None:
        """Acceptance 24, 25."""
        harness.say("a")
        begun(harness)
        harness.sessions.suspend_session(harness.seen().session_key, "stop")
        harness.crash()
        lane = harness.seen()
        assert (lane.status, lane.status_reason) == ("suspended", "stop")
        assert harness.process.resume() == []

    def test_another_bots_process_is_none_of_ours(
        self, harness: LifecycleHarness, open_store: OpenStore
    ) -> None:
        harness.say("a")
        begun(harness)
        harness.clock.advance(3600)
        with open_store(clock=harness.clock) as db:
            other = LifecycleHarness(db, harness.clock, harness.home, namespace="other")
            assert other.recovered == RecoveryReport([], [])
        assert harness.seen().status == "active"


def test_the_export_follows(tmp_path: Path) -> None:
    """``sessions.json`` shows what recovery, turns and the watcher change."""
    clock = FrozenClock()
    with SessionDB(tmp_path / "state.db", clock=clock) as db:
        harness = LifecycleHarness(db, clock, tmp_path, write_sessions_json=True)

        def shown() -> dict[str, Any]:
            harness.sessions.flush()
            entries = json.loads((tmp_path / "sessions" / "sessions.json").read_text())
            found: dict[str, Any] = entries["agent:main:telegram:dm:1"]
            return found

        harness.say("a")
        begun(harness)
        assert not shown()["resume_pending"]
        harness.crash(after=61)
        assert shown()["resume_reason"] == "restart_interrupted"
        taken = begun(harness)
        shown()
        harness.answer(taken)
        assert not shown()["resume_pending"]
        clock.advance(days=2)
        ExpiryWatcher(harness.sessions).run_pass()
        assert shown()["expiry_finalized"]
        harness.sessions.close()


class TestThreeStarts:
    def test_at_the_third_the_lane_is_suspended(self, harness: LifecycleHarness) -> None:
        """Acceptance 32."""
        harness.say("poison")
        harness.say("behind it", kind="queue")
        session = harness.lane().session_id
        counts = harness.home / "restart_counts.json"
        key = harness.seen().session_key
        for start in (1, 2):
            begun(harness)
            found = harness.crash()
            assert not found.stuck
            assert json.loads(counts.read_text()) == {key: start}
            assert harness.lane().session_id == session
        begun(harness)
        [stuck] = harness.crash().stuck
        assert stuck.dropped == 1
        assert stuck.lane is not None
        assert stuck.lane.origin is not None
        assert not counts.exists()
        assert harness.process.resume() == []
        assert harness.run_all() == ["behind it"]
        assert harness.seen().session_id != session
        notice = harness.seen().notice
        assert notice is not None
        assert (notice.kind, notice.reason) == ("auto_reset", "suspended")

    def test_one_good_turn_in_between(self, harness: LifecycleHarness) -> None:
        for _ in range(2):
            for _ in range(2):
                harness.say("a")
                begun(harness)
                harness.crash()
            assert harness.run_all() == ["a", "a"]
        assert harness.seen().status == "active"
        assert harness.process.end()
        assert not (harness.home / "restart_counts.json").exists()

    def test_a_turn_without_a_mailbox_counts_too(self, harness: LifecycleHarness) -> None:
        for _ in range(3):
            lease = harness.hold()
            harness.turns.start(harness.seen().id, lease, lease.session_id)
            found = harness.crash(after=61)
        assert [one.is_stuck for one in found.set_aside] == [True]
        assert harness.seen().status == "suspended"


class TestCleanEnd:
    def test_nothing_is_marked(self, harness: LifecycleHarness) -> None:
        """Acceptance 30."""
        harness.say("a")
        harness.run_all()
        marker = harness.home / ".clean_shutdown"
        assert harness.process.end()
        assert marker.exists()
        harness.process = harness.new_process()
        assert harness.process.start() == RecoveryReport([], [])
        assert not marker.exists()
        assert harness.seen().status == "active"

    def test_what_was_left_is_found_at_once(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        begun(harness)
        assert not harness.process.end()
        assert not (harness.home / ".clean_shutdown").exists()
        harness.process = harness.new_process()
        assert len(harness.process.start().set_aside) == 1
        assert harness.run_all() == ["a"]

    def test_without_a_home_there_are_no_files(self, harness: LifecycleHarness) -> None:
        peer = harness.new_process(home=None)
        peer.start()
        assert peer.end()
        assert not (harness.home / ".clean_shutdown").exists()


class TestDrain:
    @pytest.mark.parametrize("reason", ["restart", "shutdown"])
    def test_what_does_not_finish_in_time(self, harness: LifecycleHarness, reason: str) -> None:
        """Acceptance 31."""
        harness.say("a")
        begun(harness)
        [marked] = harness.process.begin_drain(reason)  # type: ignore[arg-type]
        assert marked.status_reason == f"{reason}_timeout"
        drained = harness.process.end_drain()
        assert ([], [marked.id]) == (drained.finished, [lane.id for lane in drained.unfinished])
        assert not harness.process.end()
        assert not (harness.home / ".clean_shutdown").exists()
        harness.process = harness.new_process()
        harness.process.start()
        lane = harness.seen()
        assert (lane.status, lane.status_reason) == ("resume_pending", f"{reason}_timeout")
        assert lane.unfinished_starts == 1
        assert [one.id for one in harness.process.resume()] == [lane.id]
        assert harness.run_all() == ["a"]

    @pytest.mark.parametrize("outcome", ["completed", "failed", "interrupted"])
    def test_what_finishes_in_time(self, harness: LifecycleHarness, outcome: str) -> None:
        harness.say("a")
        taken = begun(harness)
        harness.process.begin_drain("restart")
        assert harness.seen().status == "resume_pending"
        harness.answer(taken, outcome)  # type: ignore[arg-type]
        drained = harness.process.end_drain()
        assert [lane.id for lane in drained.finished] == [harness.seen().id]
        assert harness.seen().status == "active"
        assert harness.process.end()
        assert (harness.home / ".clean_shutdown").exists()

    def test_turns_that_the_gateway_gave_up(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        taken = begun(harness)
        harness.process.begin_drain("restart")
        harness.process.end_drain()
        harness.answer(taken, "abandoned")
        assert not harness.process.end()
        lane = harness.seen()
        assert (lane.status_reason, lane.unfinished_starts) == ("restart_timeout", 1)

    def test_a_kill_in_the_middle(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        begun(harness)
        harness.process.begin_drain("restart")
        harness.crash()
        assert harness.seen().status_reason == "restart_timeout"

    def test_a_mark_from_before_is_not_cleared(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        begun(harness)
        harness.crash()
        again = begun(harness)
        assert harness.process.begin_drain("restart") == []
        harness.answer(again, "failed")
        harness.process.end_drain()
        lane = harness.seen()
        assert (lane.status, lane.status_reason) == ("resume_pending", "restart_interrupted")

    def test_what_waits_during_the_drain_runs_afterwards(self, harness: LifecycleHarness) -> None:
        """Acceptance 45."""
        harness.say("a")
        taken = begun(harness)
        harness.process.begin_drain("restart")
        assert harness.say("b").depth == 1
        harness.answer(taken)
        harness.process.end_drain()
        harness.restart()
        assert [one.session_key for one in harness.mail.waiting_lanes()] == [
            harness.seen().session_key
        ]
        assert harness.run_all() == ["b"]


class TestGoingOn:
    def interrupted(self, harness: LifecycleHarness, name: str = "1") -> None:
        """A turn that no message of the mailbox began."""
        lease = harness.hold(name)
        harness.turns.start(harness.seen(name).id, lease, lease.session_id)

    def test_something_to_go_on_with(self, harness: LifecycleHarness) -> None:
        self.interrupted(harness)
        harness.crash()
        for _ in range(2):
            assert len(harness.process.resume()) == 1
        taken = begun(harness)
        assert (taken.input.kind, taken.input.text, taken.is_resumed) == ("resume", "", True)
        assert taken.lane.origin is not None
        harness.answer(taken)
        assert harness.begin() is None
        assert harness.process.resume() == []

    def test_a_turn_that_fails_is_not_begun_again_by_itself(
        self, harness: LifecycleHarness
    ) -> None:
        self.interrupted(harness)
        harness.crash()
        harness.process.resume()
        harness.answer(begun(harness), "failed")
        assert harness.seen().status == "resume_pending"
        harness.process.resume()
        assert harness.begin() is None

    @pytest.mark.parametrize("outcome", ["failed", "interrupted"])
    def test_nor_is_an_input_that_was_tried_again(
        self, harness: LifecycleHarness, outcome: Outcome
    ) -> None:
        harness.say("a")
        begun(harness)
        harness.crash()
        harness.process.resume()
        harness.answer(begun(harness), outcome)
        for _ in range(2):
            harness.process.resume()
            assert harness.begin() is None
            harness.restart()
        assert harness.seen().status == "resume_pending"
        harness.say("b")
        begun(harness)
        harness.crash()
        harness.process.resume()
        assert harness.run_all() == ["b"]

    def test_one_that_waits_for_the_store_is_tried_again(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        begun(harness)
        harness.crash()
        harness.answer(begun(harness), "interrupted", again=True)
        harness.process.resume()
        assert harness.run_all() == ["a"]

    def test_a_stopped_turn_does_not_resume(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        begun(harness)
        harness.crash()
        assert harness.mail.stop(harness.seen(), "stop").dropped == 1
        harness.process.resume()
        assert harness.begin() is None

    def test_what_failed_in_a_drain_that_was_killed_is_over(
        self, harness: LifecycleHarness
    ) -> None:
        harness.say("a")
        taken = begun(harness)
        harness.process.begin_drain("restart")
        harness.answer(taken, "failed")
        harness.crash(after=61)
        harness.process.resume()
        assert harness.begin() is None

    def test_it_comes_before_what_arrived_meanwhile(self, harness: LifecycleHarness) -> None:
        """Acceptance 33: and other lanes do not wait for it."""
        self.interrupted(harness)
        harness.crash()
        harness.say("meanwhile")
        harness.say("elsewhere", to="2")
        harness.process.resume()
        taken = begun(harness)
        assert taken.input.kind == "resume"
        assert harness.run_all("2") == ["elsewhere"]
        harness.answer(taken)
        assert harness.run_all() == ["meanwhile"]

    def test_a_mark_that_is_too_old(self, harness: LifecycleHarness) -> None:
        """Acceptance 34."""
        self.interrupted(harness)
        harness.crash()
        harness.clock.advance(3600)
        assert len(harness.process.resumable([harness.seen()], 3600)) == 1
        harness.clock.advance(1)
        assert harness.process.resume() == []
        assert harness.mail.depth(harness.seen()) == 0

    def test_one_that_went_on_and_was_interrupted_again(self, harness: LifecycleHarness) -> None:
        """It continues in its session, however long ago the first attempt was."""
        harness.say("a long task")
        session = begun(harness).turn.session_id
        harness.crash()
        harness.clock.advance(1)
        begun(harness)
        # Longer than the mark would be fresh, and than a session may be idle.
        harness.crash(after=25 * 3600)
        lane = harness.seen()
        assert (lane.status, lane.status_at) == ("resume_pending", harness.clock())
        assert harness.process.resume() == [lane]
        again = begun(harness)
        assert (again.input.text, again.turn.session_id) == ("a long task", session)

    def test_a_drain_of_long_ago(self, harness: LifecycleHarness) -> None:
        """A drain knows when it was: the mark is as old as that, whenever it is found."""
        harness.say("a long task")
        begun(harness)
        harness.process.begin_drain("shutdown")
        marked_at = harness.clock()
        harness.process.end_drain()
        harness.process.end()
        harness.clock.advance(3601)
        harness.restart()
        assert harness.seen().status_at == marked_at
        assert harness.process.resume() == []

    def test_without_a_limit_any_age_is_fresh(self, harness: LifecycleHarness) -> None:
        """Acceptance 35."""
        self.interrupted(harness)
        harness.crash()
        harness.clock.advance(days=400)
        assert harness.process.resumable([harness.seen()], 0) != []
        assert harness.process.resumable([harness.seen()], -1) != []

    def test_a_lane_that_runs_is_left_alone(self, harness: LifecycleHarness) -> None:
        self.interrupted(harness)
        harness.crash()
        self.interrupted(harness)
        assert harness.process.resume() == []

    def test_one_platform_after_the_other(self, harness: LifecycleHarness) -> None:
        self.interrupted(harness)
        harness.crash()
        assert harness.process.resume(platform="discord") == []
        assert len(harness.process.resume(platform="telegram")) == 1

    def test_a_lane_without_a_reply_address(self, harness: LifecycleHarness) -> None:
        self.interrupted(harness)
        harness.crash()
        harness.db.provider.write(lambda tx: tx.run("UPDATE lanes SET origin = NULL"))
        assert harness.process.resume() == []


class TestFirstStart:
    def prepare(self, harness: LifecycleHarness) -> None:
        """Make two lanes, used at different times, and no registered process."""
        harness.lane("old")
        harness.clock.advance(minutes=10)
        harness.lane("1")
        harness.clock.advance(60)
        harness.db.provider.write(lambda tx: tx.run("DELETE FROM processes"))

    def test_lanes_used_just_before_are_marked(self, harness: LifecycleHarness) -> None:
        self.prepare(harness)
        assert harness.new_process().start() == RecoveryReport([], [], 1)
        lane = harness.seen("1")
        assert (lane.status, lane.status_reason) == ("resume_pending", "restart_interrupted")
        assert harness.seen("old").status == "active"
        assert harness.new_process().start().guessed == 0

    def test_unless_the_last_one_ended_well(self, harness: LifecycleHarness) -> None:
        self.prepare(harness)
        harness.home.mkdir(exist_ok=True)
        (harness.home / ".clean_shutdown").touch()
        assert harness.new_process().start() == RecoveryReport([], [])
        assert not (harness.home / ".clean_shutdown").exists()


class TestForgetting:
    def test_turns_and_processes_of_long_ago(self, harness: LifecycleHarness) -> None:
        for _ in range(3):
            harness.say("a")
            harness.run_all()
            harness.restart()
        harness.say("a")
        begun(harness)
        harness.clock.advance(days=40)
        rows = TurnRecovery(harness.db.store)
        assert rows.forget("another", harness.clock() + 1) == 0
        assert rows.forget("default", harness.clock() - 30 * 86_400, batch=2) == 3 + 3
        with harness.db.provider.read() as tx:
            assert tx.one("SELECT COUNT(*) FROM turns") == (1,)
            assert tx.one("SELECT id FROM processes") == (harness.process.id,)


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

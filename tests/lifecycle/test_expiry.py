"""The expiry watcher, on every database."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.lifecycle import expiry
from hermes_sessions.lifecycle.agent_cache import AgentCache
from hermes_sessions.lifecycle.expiry import ExpiryWatcher
from hermes_sessions.lifecycle.orphaned_sessions import LeftBehind
from hermes_sessions.lifecycle.session_finalization import Claim
from hermes_sessions.model.reset_policy import SessionResetPolicy
from hermes_sessions.storage.repositories.outbox import NewReply, Outbox
from hermes_sessions.testing.clock import FrozenClock
from hermes_sessions.testing.conformance.leases import ended_processes
from tests.lifecycle.harness import House
from tests.servers.stores import OpenStore

IDLE = SessionResetPolicy("idle", idle_minutes=60)
MakeHouse = Callable[..., House]


@pytest.fixture
def make_house(open_store: OpenStore, tmp_path: Path) -> Iterator[MakeHouse]:
    clock = FrozenClock()
    with open_store(clock=clock) as db:
        yield lambda **options: House(
            db,
            clock,
            tmp_path,
            **{"reset_policy": IDLE, "session_store_max_age_days": 0, **options},
        )


@pytest.fixture
def house(make_house: MakeHouse) -> House:
    return make_house()


class Agents:
    """A cache of agents, which remembers those that were closed."""

    def __init__(self, house: House) -> None:
        self.closed: list[str] = []
        self.cache = AgentCache[str](clock=house.clock, close=self.closed.append)

    def use(self, session_key: str) -> None:
        with self.cache.using(session_key, "as configured", lambda: session_key):
            pass


class Hook:
    """A hook that remembers its calls, and fails as often as it is told."""

    def __init__(self, failures: int = 0) -> None:
        self.calls: list[Claim] = []
        self.failures = failures

    def __call__(self, claim: Claim) -> None:
        self.calls.append(claim)
        if len(self.calls) <= self.failures:
            raise RuntimeError("no memory provider")


def interrupted(_claim: Claim) -> None:
    """A hook in which the process ends."""
    raise KeyboardInterrupt


def watcher(house: House, *hooks: Hook, **options: Any) -> ExpiryWatcher:
    return ExpiryWatcher(house.sessions, hooks=hooks, **options)


class TestFinalizing:
    def test_an_expired_lane_is_finalised_once(self, house: House) -> None:
        """Acceptance 46."""
        house.say("a", to="1")
        house.run_all("1")
        session = house.seen("1").session_id
        house.clock.advance(3601)
        house.lane("2")
        key = house.seen("1").session_key
        hook, agents = Hook(), Agents(house)
        agents.use(key)
        watching = watcher(house, hook, agents=agents.cache)
        done = watching.run_pass()
        assert (done.finalized, done.failures) == ([key], [])
        assert [(call.session_id, call.reason) for call in hook.calls] == [(session, "idle")]
        assert agents.closed == [key]
        row = house.db.get_session(session)
        assert row is not None
        assert (row["ended_at"], row["end_reason"]) == (house.clock(), "session_reset")
        assert house.seen("1").finalized_at == house.clock()
        assert house.explained("1")[-1] == ("finalize", "idle")
        assert watching.run_pass().finalized == []
        assert watcher(house, hook).run_pass().finalized == []
        assert len(hook.calls) == 1
        assert house.seen("2").finalized_at is None

    def test_at_the_limit_it_lives(self, house: House) -> None:
        house.lane()
        house.clock.advance(3600)
        assert watcher(house).run_pass().finalized == []
        house.clock.advance(0.001)
        assert len(watcher(house).run_pass().finalized) == 1

    def test_policies_of_their_own(self, make_house: MakeHouse) -> None:
        house = make_house(
            reset_policy=SessionResetPolicy("none"),
            reset_by_platform={"telegram": {"mode": "daily", "at_hour": 4, "timezone": "UTC"}},
        )
        house.lane()
        assert watcher(house).run_pass(house.clock() + 15 * 3600).finalized == []
        assert len(watcher(house).run_pass(house.clock() + 16 * 3600).finalized) == 1

    def test_a_later_message_starts_anew(self, house: House) -> None:
        house.say("a")
        house.run_all()
        before = house.seen().session_id
        house.clock.advance(3601)
        watcher(house).run_pass()
        lane = house.lane()
        assert lane.session_id != before
        assert (lane.finalized_at, lane.finalize_attempts) == (None, 0)
        assert lane.notice is not None
        assert lane.notice.reason == "idle"
        house.clock.advance(3601)
        assert len(watcher(house).run_pass().finalized) == 1

    def test_a_stopped_lane_is_finalised_too(self, house: House) -> None:
        house.lane()
        house.sessions.suspend_session(house.seen().session_key)
        hook = Hook()
        watcher(house, hook).run_pass()
        assert [call.reason for call in hook.calls] == ["suspended"]

    def test_a_lane_that_goes_on_by_itself_is_not(self, house: House) -> None:
        house.lane()
        house.clock.advance(3601)
        house.sessions.mark_resume_pending(house.seen().session_key, "restart_interrupted")
        assert watcher(house).run_pass().finalized == []

    def test_a_session_that_somebody_deleted(self, house: House) -> None:
        house.db.delete_session(house.lane().session_id)
        house.clock.advance(3601)
        hook = Hook()
        assert watcher(house, hook).run_pass().finalized == []
        assert hook.calls == []
        assert house.seen().finalized_at is not None

    def test_a_lane_without_a_session(self, house: House) -> None:
        house.say("a")
        house.clock.advance(days=2)
        assert watcher(house).run_pass() == ([], [], [], 0, 0, 0)


class TestBusy:
    def test_a_turn_is_not_disturbed(self, house: House) -> None:
        """Acceptance 48."""
        house.process = house.new_process(pid=os.getpid())
        house.process.start()
        lease = house.hold()
        turn = house.turns.start(house.seen().id, lease, lease.session_id)
        lease = house.leases.renew(lease, 10_000)
        house.clock.advance(3601)
        hook = Hook()
        assert watcher(house, hook).run_pass().finalized == []
        house.mail.finish(turn, "completed")
        house.leases.release(lease)
        # The end of the turn was use of the lane.
        assert watcher(house, hook).run_pass().finalized == []
        house.clock.advance(3601)
        assert len(watcher(house, hook).run_pass().finalized) == 1

    def test_what_waits_is_not_given_up(self, house: House) -> None:
        house.lane()
        house.say("a")
        house.clock.advance(3601)
        assert watcher(house).run_pass().finalized == []

    def test_processes_of_the_lane(self, make_house: MakeHouse) -> None:
        """Acceptance 18."""
        running = {"agent:main:telegram:dm:1"}
        house = make_house(active_processes=lambda key: key in running)
        house.lane("1")
        house.lane("2")
        house.clock.advance(3601)
        assert watcher(house).run_pass().finalized == ["agent:main:telegram:dm:2"]
        running.clear()
        assert watcher(house).run_pass().finalized == ["agent:main:telegram:dm:1"]

    def test_who_cannot_tell_might_have_processes(self, make_house: MakeHouse) -> None:
        def fail(_key: str) -> bool:
            raise OSError("no answer")

        house = make_house(active_processes=fail)
        house.lane()
        house.clock.advance(3601)
        assert watcher(house).run_pass().finalized == []


class TestFailures:
    def test_three_times_and_no_more(self, house: House) -> None:
        """Acceptance 47."""
        session = house.lane().session_id
        house.clock.advance(3601)
        hook, agents = Hook(failures=99), Agents(house)
        agents.use(house.seen().session_key)
        watching = watcher(house, hook, agents=agents.cache)
        for attempt in (1, 2, 3, 4):
            done = watching.run_pass()
            assert bool(done.finalized) == (attempt == 3)
            if attempt <= 3:
                [failure] = done.failures
                assert (failure.session_id, failure.attempt) == (session, attempt)
                assert failure.is_final == (attempt == 3)
                assert failure.error == "RuntimeError: no memory provider"
        assert len(hook.calls) == 3
        lane = house.seen()
        assert lane.finalized_at is not None
        assert lane.finalize_error == "RuntimeError: no memory provider"
        assert agents.closed == [lane.session_key]
        row = house.db.get_session(session)
        assert row is not None
        assert row["ended_at"] is not None

    def test_one_that_succeeds_in_the_end(self, house: House) -> None:
        house.lane()
        house.clock.advance(3601)
        flaky, other = Hook(failures=1), Hook()
        watching = watcher(house, flaky, other)
        assert watching.run_pass().finalized == []
        assert len(watching.run_pass().finalized) == 1
        assert (len(flaky.calls), len(other.calls)) == (2, 2)
        assert house.seen().finalize_error is None

    def test_another_watcher_leaves_it_alone_meanwhile(self, house: House) -> None:
        house.lane()
        house.clock.advance(3601)
        inner: list[Any] = []

        def at_the_same_time(_claim: Claim) -> None:
            inner.append(watcher(house, Hook()).run_pass())

        done = ExpiryWatcher(house.sessions, hooks=[at_the_same_time]).run_pass()
        assert len(done.finalized) == 1
        assert [one.finalized for one in inner] == [[]]

    def test_another_leaves_it_alone_also_late_in_a_long_pass(self, house: House) -> None:
        for name in ("1", "2"):
            house.lane(name)
        house.clock.advance(2 * 3600)
        hook = Hook()
        others: list[str] = []

        def slow(claim: Claim) -> None:
            house.clock.advance(1200)
            if claim.lane.key.chat_id == "2":
                house.clock.advance(-1100)
                others.extend(watcher(house, hook).run_pass().finalized)

        watching = ExpiryWatcher(house.sessions, hooks=[slow])
        assert len(watching.run_pass().finalized) == 2
        assert (others, hook.calls) == ([], [])

    def test_a_watcher_that_died_is_not_waited_for(self, house: House) -> None:
        house.lane()
        house.clock.advance(3601)

        with pytest.raises(KeyboardInterrupt):
            ExpiryWatcher(house.sessions, hooks=[interrupted]).run_pass()
        hook = Hook()
        assert watcher(house, hook).run_pass().finalized == []
        house.clock.advance(1100)
        assert len(watcher(house, hook).run_pass().finalized) == 1
        assert [call.attempt for call in hook.calls] == [2]

    def test_a_watcher_of_this_host_that_was_killed(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another goes on at once."""
        house.lane()
        house.clock.advance(3601)
        with monkeypatch.context() as killed:
            killed.setattr(expiry, "this_process", lambda: ended_processes()[0])
            with pytest.raises(KeyboardInterrupt):
                ExpiryWatcher(house.sessions, hooks=[interrupted]).run_pass()
        assert len(watcher(house, Hook()).run_pass().finalized) == 1

    def test_a_message_in_the_middle(self, house: House) -> None:
        """The lane goes on with a new session, and keeps it."""
        house.lane()
        house.clock.advance(3601)
        placed: list[str] = []

        def meanwhile(_claim: Claim) -> None:
            placed.append(house.lane().session_id)

        done = ExpiryWatcher(house.sessions, hooks=[meanwhile]).run_pass()
        assert done.finalized == []
        lane = house.seen()
        assert (lane.session_id, lane.finalized_at) == (placed[0], None)
        row = house.db.get_session(placed[0])
        assert row is not None
        assert row["ended_at"] is None


class TestLeftBehind:
    """A message came before the watcher did."""

    def left(self, house: House, name: str = "1") -> str:
        """Let a lane expire and write to it; return the session that it left."""
        session = house.lane(name).session_id
        house.db.append_message(session, "user", "remember this")
        house.clock.advance(3601)
        assert house.lane(name).session_id != session
        return session

    def test_the_hooks_are_called_all_the_same(self, house: House) -> None:
        hook, saved = Hook(), list[str]()
        watching = watcher(house, hook, save=lambda claim, _: saved.append(claim.session_id))
        watching.run_pass()
        sessions = [self.left(house), self.left(house)]
        # Just written: other transactions may still be on their way.
        assert watching.run_pass().left_behind == sessions[:1]
        house.clock.advance(61)
        done = watching.run_pass()
        assert (done.left_behind, done.finalized) == (sessions[1:], [])
        assert [(call.session_id, call.reason) for call in hook.calls] == [
            (session, "idle") for session in sessions
        ]
        assert saved == sessions
        assert hook.calls[0].message_count == 1
        assert watching.run_pass().left_behind == []
        assert watcher(house, hook).run_pass().left_behind == []

    def test_an_end_that_another_program_undoes(
        self, house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        hook, close = Hook(), LeftBehind.close
        watching = watcher(house, hook)
        watching.run_pass()
        session = self.left(house)
        house.clock.advance(61)

        def undone(left: LeftBehind, claim: Claim, *, error: str | None = None) -> bool:
            is_done = close(left, claim, error=error)
            house.db.provider.write(
                lambda tx: tx.run(
                    """UPDATE state_meta SET value = '{"through": 0}' WHERE "key" LIKE ?""",
                    ("lifecycle.left_behind:%",),
                )
            )
            return is_done

        monkeypatch.setattr(LeftBehind, "close", undone)
        assert watching.run_pass().left_behind == [session]
        assert len(hook.calls) == 1
        assert "Another program undoes the work" in caplog.text

    def test_a_host_whose_clock_is_ahead(self, house: House) -> None:
        """What it wrote last may be seen before what others wrote earlier."""
        watching = watcher(house, Hook())
        watching.run_pass()
        session = self.left(house)
        house.clock.advance(-5)
        assert watching.run_pass().left_behind == []
        house.clock.advance(66)
        assert watching.run_pass().left_behind == [session]

    def test_a_bot_with_a_long_name(self, make_house: MakeHouse) -> None:
        house = make_house(namespace="b" * 191)
        watching = watcher(house, Hook())
        watching.run_pass()
        session = self.left(house)
        house.clock.advance(61)
        assert watching.run_pass().left_behind == [session]

    def test_what_the_watcher_ended_is_not_owed(self, house: House) -> None:
        hook = Hook()
        watching = watcher(house, hook)
        watching.run_pass()
        house.lane()
        house.clock.advance(3601)
        assert len(watching.run_pass().finalized) == 1
        house.lane()
        house.clock.advance(61)
        assert watching.run_pass().left_behind == []
        assert len(hook.calls) == 1

    def test_nor_what_was_compacted_in_the_last_turn(self, house: House) -> None:
        """One thread: it is ended and saved once, where it goes on."""
        hook, saved = Hook(), list[str]()
        watching = watcher(house, hook, save=lambda claim, _: saved.append(claim.session_id))
        watching.run_pass()
        head = house.lane().session_id
        house.db.append_message(head, "user", "remember this")
        summary = [{"role": "user", "content": "what was said"}] * 3
        tip = house.db.continue_session(head, "20250115_120001_1a2b3c4d", summary)
        house.clock.advance(3601)
        assert len(watching.run_pass().finalized) == 1
        house.lane()
        house.clock.advance(61)
        assert watching.run_pass().left_behind == []
        assert [(call.session_id, call.message_count) for call in hook.calls] == [(tip, 3)]
        assert saved == [tip]
        done = [action for action, _ in house.explained()]
        assert done == ["create", "follow", "finalize", "reset"]

    def test_nor_what_somebody_asked_for(self, house: House) -> None:
        watching = watcher(house)
        watching.run_pass()
        house.sessions.reset_session(house.lane().session_key)
        house.clock.advance(61)
        assert watching.run_pass().left_behind == []

    def test_nor_what_came_before_the_first_watcher(self, house: House) -> None:
        self.left(house)
        house.clock.advance(61)
        watching = watcher(house)
        assert watching.run_pass().left_behind == []
        assert watching.run_pass().left_behind == []

    def test_nor_what_was_deleted(self, house: House) -> None:
        watching = watcher(house)
        watching.run_pass()
        house.db.delete_session(self.left(house))
        house.clock.advance(61)
        assert watching.run_pass().left_behind == []

    def test_three_times_and_no_more(self, house: House) -> None:
        hook = Hook(failures=3)
        watching = watcher(house, hook)
        watching.run_pass()
        first, second = self.left(house), self.left(house)
        house.clock.advance(61)
        for attempt in (1, 2, 3):
            done = watching.run_pass()
            [failure] = done.failures
            assert (failure.session_id, failure.attempt) == (first, attempt)
            assert done.left_behind == ([first, second] if attempt == 3 else [])
        assert [call.session_id for call in hook.calls] == [first, first, first, second]

    def test_one_watcher_at_a_time(self, house: House) -> None:
        inner: list[list[str]] = []

        def at_the_same_time(_claim: Claim) -> None:
            inner.append(watcher(house).run_pass().left_behind)

        watching = ExpiryWatcher(house.sessions, hooks=[at_the_same_time])
        watching.run_pass()
        session = self.left(house)
        house.clock.advance(61)
        assert watching.run_pass().left_behind == [session]
        assert inner == [[]]

    def test_a_watcher_that_died_is_not_waited_for(self, house: House) -> None:
        dying = ExpiryWatcher(house.sessions, hooks=[interrupted])
        dying.run_pass()
        session = self.left(house)
        house.clock.advance(61)
        with pytest.raises(KeyboardInterrupt):
            dying.run_pass()
        hook = Hook()
        assert watcher(house, hook).run_pass().left_behind == []
        house.clock.advance(1100)
        assert watcher(house, hook).run_pass().left_behind == [session]
        assert [call.attempt for call in hook.calls] == [2]

    def test_a_watcher_of_this_host_that_was_killed(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another goes on at once."""
        with monkeypatch.context() as killed:
            killed.setattr(expiry, "this_process", lambda: ended_processes()[1])
            dying = ExpiryWatcher(house.sessions, hooks=[interrupted])
        dying.run_pass()
        session = self.left(house)
        house.clock.advance(61)
        with pytest.raises(KeyboardInterrupt):
            dying.run_pass()
        assert watcher(house, Hook()).run_pass().left_behind == [session]


class TestSaving:
    def spoken(self, house: House) -> None:
        house.db.append_message(house.lane().session_id, "user", "remember this")
        house.clock.advance(3601)

    def test_the_agent_gets_one_turn_before_the_hooks(self, house: House) -> None:
        self.spoken(house)
        order: list[str] = []
        hook = Hook(failures=1)

        def note(claim: Claim) -> None:
            order.append("hook")
            hook(claim)

        def save(claim: Claim, seconds: float) -> None:
            assert (claim.message_count, seconds) == (1, 120.0)
            row = house.db.get_session(claim.session_id)
            assert row is not None
            assert row["ended_at"] is None
            order.append("save")

        watching = ExpiryWatcher(house.sessions, hooks=[note], save=save)
        watching.run_pass()
        watching.run_pass()
        assert order == ["save", "hook", "hook"]

    def test_a_session_without_messages_has_nothing_to_save(self, house: House) -> None:
        house.lane()
        house.clock.advance(3601)
        watching = watcher(house, save=lambda _claim, _seconds: pytest.fail("asked"))
        assert len(watching.run_pass().finalized) == 1

    def test_it_can_be_turned_off(self, make_house: MakeHouse) -> None:
        house = make_house(finalize_turn=False)
        self.spoken(house)
        watching = watcher(house, save=lambda _claim, _seconds: pytest.fail("asked"))
        assert len(watching.run_pass().finalized) == 1

    def test_one_that_takes_too_long_is_not_waited_for(self, make_house: MakeHouse) -> None:
        house = make_house(finalize_timeout=0.01)
        self.spoken(house)
        may_end = threading.Event()
        watching = watcher(house, save=lambda _claim, _seconds: may_end.wait() and None)
        [failure] = watching.run_pass().failures
        assert "took over" in failure.error
        may_end.set()
        assert len(watching.run_pass().finalized) == 1

    def test_one_that_fails_is_reported(self, house: House) -> None:
        self.spoken(house)

        def save(_claim: Claim, _seconds: float) -> None:
            raise OSError("no model")

        [failure] = watcher(house, save=save).run_pass().failures
        assert failure.error == "OSError: no model"


class TestForgetting:
    def test_idle_agents_go_in_every_pass(self, make_house: MakeHouse) -> None:
        """Acceptance 50: whatever the policy, and the lane stays."""
        house = make_house(reset_policy=SessionResetPolicy("none"))
        session, agents = house.lane().session_id, Agents(house)
        agents.use(house.seen().session_key)
        watching = watcher(house, agents=agents.cache)
        house.clock.advance(3600)
        watching.run_pass()
        assert agents.closed == []
        house.clock.advance(1)
        watching.run_pass()
        assert agents.closed == [house.seen().session_key]
        assert house.lane().session_id == session

    def test_what_is_finished_is_kept_as_long_as_configured(self, make_house: MakeHouse) -> None:
        house = make_house(keep_days=2)
        outbox = Outbox(house.db.store, house.engine.namespace)
        house.say("answered")
        house.run_all()
        outbox.put(NewReply("telegram", "1", "{}", "sent"))
        outbox.sent(outbox.claim(["telegram"], house.process.id, seconds=60, limit=1)[0])
        outbox.put(NewReply("telegram", "1", "{}", "waiting"))
        house.say("unfinished")
        assert house.begin() is not None
        watching = watcher(house)
        house.clock.advance(days=1)
        assert watching.run_pass().forgotten == 0
        house.clock.advance(days=2)
        # A message, its turn and its reply.
        assert watching.run_pass().forgotten == 3
        assert outbox.counts() == {"waiting": 1}
        assert [status for _, status, _ in house.rows()] == ["running"]
        assert len(house.turns.unfinished()) == 1

    def test_old_lanes_once_an_hour(self, make_house: MakeHouse) -> None:
        """Acceptance 52."""
        house = make_house(session_store_max_age_days=7)
        house.lane("old")
        house.clock.advance(days=6)
        house.lane("young")
        watching = watcher(house)
        assert watching.run_pass().pruned == 0
        house.clock.advance(days=2)
        assert watching.run_pass().pruned == 1
        house.clock.advance(days=6)
        watching._pruned_at = house.clock() - 3599
        assert watching.run_pass().pruned == 0
        house.clock.advance(1)
        assert watching.run_pass().pruned == 1
        assert house.sessions.list_sessions() == []

    def test_what_was_answered_long_ago(self, house: House) -> None:
        house.say("a", message_id="1")
        house.run_all()
        watching = watcher(house)
        house.clock.advance(days=29)
        assert watching.run_pass().forgotten == 0
        house.clock.advance(days=2)
        # The item and its turn.
        assert watching.run_pass().forgotten == 2
        assert not house.say("a", message_id="1").is_duplicate


class TestRunning:
    def test_the_first_pass_is_soon_and_the_others_are_not(self, house: House) -> None:
        pauses: list[float] = []
        hook = Hook()
        house.lane()

        def wait(seconds: float) -> bool:
            pauses.append(seconds)
            house.clock.advance(seconds)
            return len(pauses) > 13

        watcher(house, hook).run(wait)
        assert pauses == [60.0] + [300.0] * 13
        assert len(hook.calls) == 1

    def test_a_pass_that_fails_is_made_up_for(self, house: House) -> None:
        house.lane()
        house.clock.advance(3601)
        passes = iter([False, False, True])
        made: list[int] = []

        class Failing(AgentCache[str]):
            def sweep(self, _now: float | None = None) -> int:
                made.append(len(made))
                if len(made) == 1:
                    raise StoreUnavailable("the server is being restarted")
                return 0

        watching = watcher(house, agents=Failing(clock=house.clock))
        watching.run(lambda _: next(passes))
        assert made == [0, 1]


def test_two_watchers_at_once(make_house: MakeHouse) -> None:
    """Every lane's hook is called once, by one of them."""
    house = make_house()
    for number in range(12):
        house.lane(str(number))
    house.clock.advance(3601)
    calls: list[str] = []
    start = threading.Barrier(2)

    def work() -> None:
        watching = ExpiryWatcher(
            house.sessions, hooks=[lambda claim: calls.append(claim.session_id)]
        )
        start.wait()
        watching.run_pass()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == len(set(calls)) == 12

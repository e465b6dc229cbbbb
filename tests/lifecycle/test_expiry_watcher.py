"""The expiry watcher, on every database."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.lifecycle import expiry_watcher
from hermes_sessions.lifecycle.agent_cache import AgentCache
from hermes_sessions.lifecycle.expiry_watcher import ExpiryWatcher
from hermes_sessions.lifecycle.orphaned_sessions import OrphanedSessions
from hermes_sessions.lifecycle.session_finalization import FinalizationClaim
from hermes_sessions.model.reset_policy import SessionResetPolicy
from hermes_sessions.storage.repositories.outbox import NewReply, Outbox
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.leases import ended_processes
from tests.lifecycle.harness import LifecycleHarness
from tests.servers.stores import ONCE, OpenStore

IDLE = SessionResetPolicy("idle", idle_minutes=60)
MakeHarness = Callable[..., LifecycleHarness]


@pytest.fixture
def make_harness(open_store: OpenStore, tmp_path: Path) -> Iterator[MakeHarness]:
    clock = FrozenClock()
    with open_store(clock=clock) as db:
        yield lambda **options: LifecycleHarness(
            db,
            clock,
            tmp_path,
            **{"reset_policy": IDLE, "session_store_max_age_days": 0, **options},
        )


@pytest.fixture
def harness(make_harness: MakeHarness) -> LifecycleHarness:
    return make_harness()


class Agents:
    """A cache of agents, which remembers those that were closed."""

    def __init__(self, harness: LifecycleHarness) -> None:
        self.closed: list[str] = []
        self.cache = AgentCache[str](clock=harness.clock, close=self.closed.append)

    def use(self, session_key: str) -> None:
        with self.cache.using(session_key, "as configured", lambda: session_key):
            pass


class Hook:
    """A hook that remembers its calls, and fails as often as it is told."""

    def __init__(self, failures: int = 0) -> None:
        self.calls: list[FinalizationClaim] = []
        self.failures = failures

    def __call__(self, claim: FinalizationClaim) -> None:
        self.calls.append(claim)
        if len(self.calls) <= self.failures:
            raise RuntimeError("no memory provider")


def interrupted(_claim: FinalizationClaim) -> None:
    """A hook in which the process ends."""
    raise KeyboardInterrupt


def watcher(harness: LifecycleHarness, *hooks: Hook, **options: Any) -> ExpiryWatcher:
    return ExpiryWatcher(harness.sessions, hooks=hooks, **options)


class TestFinalizing:
    def test_an_expired_lane_is_finalised_once(self, harness: LifecycleHarness) -> None:
        """Acceptance 46."""
        harness.say("a", to="1")
        harness.run_all("1")
        session = harness.seen("1").session_id
        harness.clock.advance(3601)
        harness.lane("2")
        key = harness.seen("1").session_key
        hook, agents = Hook(), Agents(harness)
        agents.use(key)
        watching = watcher(harness, hook, agents=agents.cache)
        done = watching.run_pass()
        assert (done.finalized, done.failures) == ([key], [])
        assert [(call.session_id, call.reason) for call in hook.calls] == [(session, "idle")]
        assert agents.closed == [key]
        row = harness.db.get_session(session)
        assert row is not None
        assert (row["ended_at"], row["end_reason"]) == (harness.clock(), "session_reset")
        assert harness.seen("1").finalized_at == harness.clock()
        assert harness.explained("1")[-1] == ("finalize", "idle")
        assert watching.run_pass().finalized == []
        assert watcher(harness, hook).run_pass().finalized == []
        assert len(hook.calls) == 1
        assert harness.seen("2").finalized_at is None

    @ONCE
    def test_at_the_limit_it_lives(self, harness: LifecycleHarness) -> None:
        harness.lane()
        harness.clock.advance(3600)
        assert watcher(harness).run_pass().finalized == []
        harness.clock.advance(0.001)
        assert len(watcher(harness).run_pass().finalized) == 1

    @ONCE
    def test_policies_of_their_own(self, make_harness: MakeHarness) -> None:
        harness = make_harness(
            reset_policy=SessionResetPolicy("none"),
            reset_by_platform={"telegram": {"mode": "daily", "at_hour": 4, "timezone": "UTC"}},
        )
        harness.lane()
        assert watcher(harness).run_pass(harness.clock() + 15 * 3600).finalized == []
        assert len(watcher(harness).run_pass(harness.clock() + 16 * 3600).finalized) == 1

    def test_a_later_message_starts_a_new_session(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        harness.run_all()
        before = harness.seen().session_id
        harness.clock.advance(3601)
        watcher(harness).run_pass()
        lane = harness.lane()
        assert lane.session_id != before
        assert (lane.finalized_at, lane.finalize_attempts) == (None, 0)
        assert lane.notice is not None
        assert lane.notice.reason == "idle"
        harness.clock.advance(3601)
        assert len(watcher(harness).run_pass().finalized) == 1

    def test_a_stopped_lane_is_finalised_too(self, harness: LifecycleHarness) -> None:
        harness.lane()
        harness.sessions.suspend_session(harness.seen().session_key)
        hook = Hook()
        watcher(harness, hook).run_pass()
        assert [call.reason for call in hook.calls] == ["suspended"]

    def test_a_lane_that_goes_on_by_itself_is_not(self, harness: LifecycleHarness) -> None:
        harness.lane()
        harness.clock.advance(3601)
        harness.sessions.mark_resume_pending(harness.seen().session_key, "restart_interrupted")
        assert watcher(harness).run_pass().finalized == []

    def test_a_deleted_session(self, harness: LifecycleHarness) -> None:
        harness.db.delete_session(harness.lane().session_id)
        harness.clock.advance(3601)
        hook = Hook()
        assert watcher(harness, hook).run_pass().finalized == []
        assert hook.calls == []
        assert harness.seen().finalized_at is not None

    def test_a_lane_without_a_session(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        harness.clock.advance(days=2)
        assert watcher(harness).run_pass() == ([], [], [], 0, 0, 0)


class TestBusy:
    def test_a_turn_is_not_disturbed(self, harness: LifecycleHarness) -> None:
        """Acceptance 48."""
        harness.process = harness.new_process(pid=os.getpid())
        harness.process.start()
        lease = harness.hold()
        turn = harness.turns.start(harness.seen().id, lease, lease.session_id)
        lease = harness.leases.renew(lease, 10_000)
        harness.clock.advance(3601)
        hook = Hook()
        assert watcher(harness, hook).run_pass().finalized == []
        harness.mail.finish(turn, "completed")
        harness.leases.release(lease)
        # The end of the turn was use of the lane.
        assert watcher(harness, hook).run_pass().finalized == []
        harness.clock.advance(3601)
        assert len(watcher(harness, hook).run_pass().finalized) == 1

    def test_what_waits_is_not_given_up(self, harness: LifecycleHarness) -> None:
        harness.lane()
        harness.say("a")
        harness.clock.advance(3601)
        assert watcher(harness).run_pass().finalized == []

    @ONCE
    def test_processes_of_the_lane(self, make_harness: MakeHarness) -> None:
        """Acceptance 18."""
        running = {"agent:main:telegram:dm:1"}
        harness = make_harness(active_processes=lambda key: key in running)
        harness.lane("1")
        harness.lane("2")
        harness.clock.advance(3601)
        assert watcher(harness).run_pass().finalized == ["agent:main:telegram:dm:2"]
        running.clear()
        assert watcher(harness).run_pass().finalized == ["agent:main:telegram:dm:1"]

    @ONCE
    def test_who_cannot_tell_might_have_processes(self, make_harness: MakeHarness) -> None:
        def fail(_key: str) -> bool:
            raise OSError("no answer")

        harness = make_harness(active_processes=fail)
        harness.lane()
        harness.clock.advance(3601)
        assert watcher(harness).run_pass().finalized == []


class TestFailures:
    def test_three_times_and_no_more(self, harness: LifecycleHarness) -> None:
        """Acceptance 47."""
        session = harness.lane().session_id
        harness.clock.advance(3601)
        hook, agents = Hook(failures=99), Agents(harness)
        agents.use(harness.seen().session_key)
        watching = watcher(harness, hook, agents=agents.cache)
        for attempt in (1, 2, 3, 4):
            done = watching.run_pass()
            assert bool(done.finalized) == (attempt == 3)
            if attempt <= 3:
                [failure] = done.failures
                assert (failure.session_id, failure.attempt) == (session, attempt)
                assert failure.is_final == (attempt == 3)
                assert failure.error == "RuntimeError: no memory provider"
        assert len(hook.calls) == 3
        lane = harness.seen()
        assert lane.finalized_at is not None
        assert lane.finalize_error == "RuntimeError: no memory provider"
        assert agents.closed == [lane.session_key]
        row = harness.db.get_session(session)
        assert row is not None
        assert row["ended_at"] is not None

    def test_one_that_succeeds_in_the_end(self, harness: LifecycleHarness) -> None:
        harness.lane()
        harness.clock.advance(3601)
        flaky, other = Hook(failures=1), Hook()
        watching = watcher(harness, flaky, other)
        assert watching.run_pass().finalized == []
        assert len(watching.run_pass().finalized) == 1
        assert (len(flaky.calls), len(other.calls)) == (2, 2)
        assert harness.seen().finalize_error is None

    def test_another_watcher_leaves_it_alone_meanwhile(self, harness: LifecycleHarness) -> None:
        harness.lane()
        harness.clock.advance(3601)
        inner: list[Any] = []

        def at_the_same_time(_claim: FinalizationClaim) -> None:
            inner.append(watcher(harness, Hook()).run_pass())

        done = ExpiryWatcher(harness.sessions, hooks=[at_the_same_time]).run_pass()
        assert len(done.finalized) == 1
        assert [one.finalized for one in inner] == [[]]

    def test_another_leaves_it_alone_also_late_in_a_long_pass(
        self, harness: LifecycleHarness
    ) -> None:
        for name in ("1", "2"):
            harness.lane(name)
        harness.clock.advance(2 * 3600)
        hook = Hook()
        others: list[str] = []

        def slow(claim: FinalizationClaim) -> None:
            harness.clock.advance(1200)
            if claim.lane.key.chat_id == "2":
                harness.clock.advance(-1100)
                others.extend(watcher(harness, hook).run_pass().finalized)

        watching = ExpiryWatcher(harness.sessions, hooks=[slow])
        assert len(watching.run_pass().finalized) == 2
        assert (others, hook.calls) == ([], [])

    def test_a_watcher_that_died_is_not_waited_for(self, harness: LifecycleHarness) -> None:
        harness.lane()
        harness.clock.advance(3601)

        with pytest.raises(KeyboardInterrupt):
            ExpiryWatcher(harness.sessions, hooks=[interrupted]).run_pass()
        hook = Hook()
        assert watcher(harness, hook).run_pass().finalized == []
        harness.clock.advance(1100)
        assert len(watcher(harness, hook).run_pass().finalized) == 1
        assert [call.attempt for call in hook.calls] == [2]

    def test_a_watcher_of_this_host_that_was_killed(
        self, harness: LifecycleHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another process continues at once."""
        harness.lane()
        harness.clock.advance(3601)
        with monkeypatch.context() as killed:
            killed.setattr(expiry_watcher, "this_process_mark", lambda: ended_processes()[0])
            with pytest.raises(KeyboardInterrupt):
                ExpiryWatcher(harness.sessions, hooks=[interrupted]).run_pass()
        assert len(watcher(harness, Hook()).run_pass().finalized) == 1

    def test_a_message_in_the_middle(self, harness: LifecycleHarness) -> None:
        """The lane continues in a new session and keeps it."""
        harness.lane()
        harness.clock.advance(3601)
        placed: list[str] = []

        def meanwhile(_claim: FinalizationClaim) -> None:
            placed.append(harness.lane().session_id)

        done = ExpiryWatcher(harness.sessions, hooks=[meanwhile]).run_pass()
        assert done.finalized == []
        lane = harness.seen()
        assert (lane.session_id, lane.finalized_at) == (placed[0], None)
        row = harness.db.get_session(placed[0])
        assert row is not None
        assert row["ended_at"] is None


class TestLeftBehind:
    """A message came before the watcher did."""

    def left(self, harness: LifecycleHarness, name: str = "1") -> str:
        """Let a lane expire and write to it; return the session that it left."""
        session = harness.lane(name).session_id
        harness.db.append_message(session, "user", "remember this")
        harness.clock.advance(3601)
        assert harness.lane(name).session_id != session
        return session

    def test_the_hooks_are_called_all_the_same(self, harness: LifecycleHarness) -> None:
        hook, saved = Hook(), list[str]()
        watching = watcher(harness, hook, save=lambda claim, _: saved.append(claim.session_id))
        watching.run_pass()
        sessions = [self.left(harness), self.left(harness)]
        # Just written: other transactions may still be on their way.
        assert watching.run_pass().orphaned == sessions[:1]
        harness.clock.advance(61)
        done = watching.run_pass()
        assert (done.orphaned, done.finalized) == (sessions[1:], [])
        assert [(call.session_id, call.reason) for call in hook.calls] == [
            (session, "idle") for session in sessions
        ]
        assert saved == sessions
        assert hook.calls[0].message_count == 1
        assert watching.run_pass().orphaned == []
        assert watcher(harness, hook).run_pass().orphaned == []

    def test_an_end_that_another_program_undoes(
        self,
        harness: LifecycleHarness,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        hook, close = Hook(), OrphanedSessions.close
        watching = watcher(harness, hook)
        watching.run_pass()
        session = self.left(harness)
        harness.clock.advance(61)

        def undone(
            left: OrphanedSessions, claim: FinalizationClaim, *, error: str | None = None
        ) -> bool:
            is_done = close(left, claim, error=error)
            harness.db.provider.write(
                lambda tx: tx.run(
                    """UPDATE state_meta SET value = '{"through": 0}' WHERE "key" LIKE ?""",
                    ("lifecycle.left_behind:%",),
                )
            )
            return is_done

        monkeypatch.setattr(OrphanedSessions, "close", undone)
        assert watching.run_pass().orphaned == [session]
        assert len(hook.calls) == 1
        assert "Another program undoes the work" in caplog.text

    def test_a_host_whose_clock_is_ahead(self, harness: LifecycleHarness) -> None:
        """What it wrote last may be seen before what others wrote earlier."""
        watching = watcher(harness, Hook())
        watching.run_pass()
        session = self.left(harness)
        harness.clock.advance(-5)
        assert watching.run_pass().orphaned == []
        harness.clock.advance(66)
        assert watching.run_pass().orphaned == [session]

    def test_a_bot_with_a_long_name(self, make_harness: MakeHarness) -> None:
        harness = make_harness(namespace="b" * 191)
        watching = watcher(harness, Hook())
        watching.run_pass()
        session = self.left(harness)
        harness.clock.advance(61)
        assert watching.run_pass().orphaned == [session]

    def test_what_the_watcher_ended_is_not_owed(self, harness: LifecycleHarness) -> None:
        hook = Hook()
        watching = watcher(harness, hook)
        watching.run_pass()
        harness.lane()
        harness.clock.advance(3601)
        assert len(watching.run_pass().finalized) == 1
        harness.lane()
        harness.clock.advance(61)
        assert watching.run_pass().orphaned == []
        assert len(hook.calls) == 1

    def test_nor_what_was_compacted_in_the_last_turn(self, harness: LifecycleHarness) -> None:
        """A single thread ends and saves it once, where the conversation continues."""
        hook, saved = Hook(), list[str]()
        watching = watcher(harness, hook, save=lambda claim, _: saved.append(claim.session_id))
        watching.run_pass()
        head = harness.lane().session_id
        harness.db.append_message(head, "user", "remember this")
        summary = [{"role": "user", "content": "what was said"}] * 3
        tip = harness.db.continue_session(head, "20250115_120001_1a2b3c4d", summary)
        harness.clock.advance(3601)
        assert len(watching.run_pass().finalized) == 1
        harness.lane()
        harness.clock.advance(61)
        assert watching.run_pass().orphaned == []
        assert [(call.session_id, call.message_count) for call in hook.calls] == [(tip, 3)]
        assert saved == [tip]
        done = [action for action, _ in harness.explained()]
        assert done == ["create", "follow", "finalize", "reset"]

    def test_nor_a_reset_that_the_user_asked_for(self, harness: LifecycleHarness) -> None:
        watching = watcher(harness)
        watching.run_pass()
        harness.sessions.reset_session(harness.lane().session_key)
        harness.clock.advance(61)
        assert watching.run_pass().orphaned == []

    def test_nor_what_came_before_the_first_watcher(self, harness: LifecycleHarness) -> None:
        self.left(harness)
        harness.clock.advance(61)
        watching = watcher(harness)
        assert watching.run_pass().orphaned == []
        assert watching.run_pass().orphaned == []

    def test_nor_what_was_deleted(self, harness: LifecycleHarness) -> None:
        watching = watcher(harness)
        watching.run_pass()
        harness.db.delete_session(self.left(harness))
        harness.clock.advance(61)
        assert watching.run_pass().orphaned == []

    def test_three_times_and_no_more(self, harness: LifecycleHarness) -> None:
        hook = Hook(failures=3)
        watching = watcher(harness, hook)
        watching.run_pass()
        first, second = self.left(harness), self.left(harness)
        harness.clock.advance(61)
        for attempt in (1, 2, 3):
            done = watching.run_pass()
            [failure] = done.failures
            assert (failure.session_id, failure.attempt) == (first, attempt)
            assert done.orphaned == ([first, second] if attempt == 3 else [])
        assert [call.session_id for call in hook.calls] == [first, first, first, second]

    def test_one_watcher_at_a_time(self, harness: LifecycleHarness) -> None:
        inner: list[list[str]] = []

        def at_the_same_time(_claim: FinalizationClaim) -> None:
            inner.append(watcher(harness).run_pass().orphaned)

        watching = ExpiryWatcher(harness.sessions, hooks=[at_the_same_time])
        watching.run_pass()
        session = self.left(harness)
        harness.clock.advance(61)
        assert watching.run_pass().orphaned == [session]
        assert inner == [[]]

    def test_a_watcher_that_died_is_not_waited_for(self, harness: LifecycleHarness) -> None:
        dying = ExpiryWatcher(harness.sessions, hooks=[interrupted])
        dying.run_pass()
        session = self.left(harness)
        harness.clock.advance(61)
        with pytest.raises(KeyboardInterrupt):
            dying.run_pass()
        hook = Hook()
        assert watcher(harness, hook).run_pass().orphaned == []
        harness.clock.advance(1100)
        assert watcher(harness, hook).run_pass().orphaned == [session]
        assert [call.attempt for call in hook.calls] == [2]

    def test_a_watcher_of_this_host_that_was_killed(
        self, harness: LifecycleHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another process continues at once."""
        with monkeypatch.context() as killed:
            killed.setattr(expiry_watcher, "this_process_mark", lambda: ended_processes()[1])
            dying = ExpiryWatcher(harness.sessions, hooks=[interrupted])
        dying.run_pass()
        session = self.left(harness)
        harness.clock.advance(61)
        with pytest.raises(KeyboardInterrupt):
            dying.run_pass()
        assert watcher(harness, Hook()).run_pass().orphaned == [session]


class TestSaving:
    def spoken(self, harness: LifecycleHarness) -> None:
        harness.db.append_message(harness.lane().session_id, "user", "remember this")
        harness.clock.advance(3601)

    def test_the_agent_gets_one_turn_before_the_hooks(self, harness: LifecycleHarness) -> None:
        self.spoken(harness)
        order: list[str] = []
        hook = Hook(failures=1)

        def note(claim: FinalizationClaim) -> None:
            order.append("hook")
            hook(claim)

        def save(claim: FinalizationClaim, seconds: float) -> None:
            assert (claim.message_count, seconds) == (1, 120.0)
            row = harness.db.get_session(claim.session_id)
            assert row is not None
            assert row["ended_at"] is None
            order.append("save")

        watching = ExpiryWatcher(harness.sessions, hooks=[note], save=save)
        watching.run_pass()
        watching.run_pass()
        assert order == ["save", "hook", "hook"]

    @ONCE
    def test_a_session_without_messages_has_nothing_to_save(
        self, harness: LifecycleHarness
    ) -> None:
        harness.lane()
        harness.clock.advance(3601)
        watching = watcher(harness, save=lambda _claim, _seconds: pytest.fail("asked"))
        assert len(watching.run_pass().finalized) == 1

    @ONCE
    def test_it_can_be_turned_off(self, make_harness: MakeHarness) -> None:
        harness = make_harness(finalize_turn=False)
        self.spoken(harness)
        watching = watcher(harness, save=lambda _claim, _seconds: pytest.fail("asked"))
        assert len(watching.run_pass().finalized) == 1

    @ONCE
    def test_one_that_takes_too_long_is_not_waited_for(self, make_harness: MakeHarness) -> None:
        harness = make_harness(finalize_timeout=0.01)
        self.spoken(harness)
        may_end = threading.Event()
        watching = watcher(harness, save=lambda _claim, _seconds: may_end.wait() and None)
        [failure] = watching.run_pass().failures
        assert "took over" in failure.error
        may_end.set()
        assert len(watching.run_pass().finalized) == 1

    @ONCE
    def test_one_that_fails_is_reported(self, harness: LifecycleHarness) -> None:
        self.spoken(harness)

        def save(_claim: FinalizationClaim, _seconds: float) -> None:
            raise OSError("no model")

        [failure] = watcher(harness, save=save).run_pass().failures
        assert failure.error == "OSError: no model"


class TestForgetting:
    @ONCE
    def test_idle_agents_go_in_every_pass(self, make_harness: MakeHarness) -> None:
        """Acceptance 50: whatever the policy, and the lane stays."""
        harness = make_harness(reset_policy=SessionResetPolicy("none"))
        session, agents = harness.lane().session_id, Agents(harness)
        agents.use(harness.seen().session_key)
        watching = watcher(harness, agents=agents.cache)
        harness.clock.advance(3600)
        watching.run_pass()
        assert agents.closed == []
        harness.clock.advance(1)
        watching.run_pass()
        assert agents.closed == [harness.seen().session_key]
        assert harness.lane().session_id == session

    def test_what_is_finished_is_kept_as_long_as_configured(
        self, make_harness: MakeHarness
    ) -> None:
        harness = make_harness(keep_days=2)
        outbox = Outbox(harness.db.store, harness.engine.namespace)
        harness.say("answered")
        harness.run_all()
        outbox.put(NewReply("telegram", "1", "{}", "sent"))
        outbox.sent(outbox.claim(["telegram"], harness.process.id, seconds=60, limit=1)[0])
        outbox.put(NewReply("telegram", "1", "{}", "waiting"))
        harness.say("unfinished")
        assert harness.begin() is not None
        watching = watcher(harness)
        harness.clock.advance(days=1)
        assert watching.run_pass().forgotten == 0
        harness.clock.advance(days=2)
        # A message, its turn and its reply.
        assert watching.run_pass().forgotten == 3
        assert outbox.counts() == {"waiting": 1}
        assert [status for _, status, _ in harness.rows()] == ["running"]
        assert len(harness.turns.unfinished()) == 1

    def test_old_lanes_once_an_hour(self, make_harness: MakeHarness) -> None:
        """Acceptance 52."""
        harness = make_harness(session_store_max_age_days=7)
        harness.lane("old")
        harness.clock.advance(days=6)
        harness.lane("young")
        watching = watcher(harness)
        assert watching.run_pass().pruned == 0
        harness.clock.advance(days=2)
        assert watching.run_pass().pruned == 1
        harness.clock.advance(days=6)
        watching._pruned_at = harness.clock() - 3599
        assert watching.run_pass().pruned == 0
        harness.clock.advance(1)
        assert watching.run_pass().pruned == 1
        assert harness.sessions.list_sessions() == []

    def test_what_was_answered_long_ago(self, harness: LifecycleHarness) -> None:
        harness.say("a", message_id="1")
        harness.run_all()
        watching = watcher(harness)
        harness.clock.advance(days=29)
        assert watching.run_pass().forgotten == 0
        harness.clock.advance(days=2)
        # The item and its turn.
        assert watching.run_pass().forgotten == 2
        assert not harness.say("a", message_id="1").is_duplicate


class TestRunning:
    @ONCE
    def test_the_first_pass_is_soon_and_the_others_are_not(self, harness: LifecycleHarness) -> None:
        pauses: list[float] = []
        hook = Hook()
        harness.lane()

        def wait(seconds: float) -> bool:
            pauses.append(seconds)
            harness.clock.advance(seconds)
            return len(pauses) > 13

        watcher(harness, hook).run(wait)
        assert pauses == [60.0] + [300.0] * 13
        assert len(hook.calls) == 1

    @ONCE
    def test_a_pass_that_fails_is_made_up_for(self, harness: LifecycleHarness) -> None:
        harness.lane()
        harness.clock.advance(3601)
        passes = iter([False, False, True])
        made: list[int] = []

        class Failing(AgentCache[str]):
            def sweep(self, _now: float | None = None) -> int:
                made.append(len(made))
                if len(made) == 1:
                    raise StoreUnavailable("the server is being restarted")
                return 0

        watching = watcher(harness, agents=Failing(clock=harness.clock))
        watching.run(lambda _: next(passes))
        assert made == [0, 1]


def test_two_watchers_at_once(make_harness: MakeHarness) -> None:
    """Every lane's hook is called once, by one of them."""
    harness = make_harness()
    for number in range(12):
        harness.lane(str(number))
    harness.clock.advance(3601)
    calls: list[str] = []
    start = threading.Barrier(2)

    def work() -> None:
        watching = ExpiryWatcher(
            harness.sessions, hooks=[lambda claim: calls.append(claim.session_id)]
        )
        start.wait()
        watching.run_pass()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == len(set(calls)) == 12

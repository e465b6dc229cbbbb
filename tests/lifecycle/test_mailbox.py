"""Mailboxes on every database: nothing lost, nothing twice, in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hermes_sessions.errors import InvalidInput, MessageTooLarge, NotFound, StaleFence
from hermes_sessions.lifecycle.mailboxes import Mailboxes, StartedTurn, StopResult, TurnEnding
from hermes_sessions.lifecycle.session_routing import route_to_session
from hermes_sessions_testing.clock import FrozenClock
from tests.lifecycle.harness import LifecycleHarness, lease_of, source
from tests.servers.stores import OpenStore


@pytest.fixture
def harness(open_store: OpenStore, tmp_path: Path) -> Iterator[LifecycleHarness]:
    clock = FrozenClock()
    with open_store(clock=clock) as db:
        yield LifecycleHarness(db, clock, tmp_path, mailbox_limit=8)


def begun(harness: LifecycleHarness, name: str = "1") -> StartedTurn:
    taken = harness.begin(name)
    assert taken is not None
    return taken


class TestReceiving:
    def test_what_is_received_waits(self, harness: LifecycleHarness) -> None:
        first, second = harness.say("a"), harness.say("b")
        assert (first.depth, second.depth) == (1, 2)
        assert first.item_id is not None
        assert second.item_id is not None
        assert first.item_id < second.item_id
        assert harness.mail.depth(harness.seen()) == 2
        assert harness.rows() == [("a", "waiting", None), ("b", "waiting", None)]

    def test_a_message_is_received_once(self, harness: LifecycleHarness) -> None:
        first = harness.say("a", message_id="7")
        again = harness.say("a", message_id="7")
        assert (again.item_id, again.is_duplicate, again.depth) == (first.item_id, True, 1)
        assert not harness.say("a", message_id="8").is_duplicate
        assert not harness.say("a", to="2", message_id="7").is_duplicate
        harness.run_all()
        assert harness.say("a", message_id="7").is_duplicate
        assert harness.begin() is None

    def test_the_same_message_received_by_many(self, harness: LifecycleHarness) -> None:
        start = threading.Barrier(6)

        def receive(number: int) -> bool:
            start.wait()
            return harness.say("a", to=str(number % 2), message_id=None, sender="ann").is_refused

        def deliver(_: int) -> bool:
            start.wait()
            return harness.say("b", to="9", message_id="7").is_duplicate

        with ThreadPoolExecutor(6) as pool:
            assert not any(pool.map(receive, range(6)))
            assert sorted(pool.map(deliver, range(6))) == [False] + [True] * 5
        assert harness.mail.depth(harness.seen("0")) == 3
        assert harness.mail.depth(harness.seen("9")) == 1

    def test_a_full_mailbox_says_so(self, harness: LifecycleHarness) -> None:
        for number in range(8):
            assert not harness.say(str(number), kind="queue").is_refused
        refused = harness.say("one more", message_id="9")
        assert (refused.item_id, refused.depth, refused.is_refused) == (None, 8, True)
        harness.begin()
        assert not harness.say("one more", message_id="9").is_refused

    def test_what_cannot_be_stored(self, harness: LifecycleHarness) -> None:
        lane = harness.lane()
        with pytest.raises(NotFound, match="get_or_create_session"):
            harness.mail.put(lane.id + 1, "message", "ann", "a")
        with pytest.raises(InvalidInput, match="use one of"):
            harness.mail.put(lane, "shout", "ann", "a")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="JSON"):
            harness.mail.put(lane, "message", "ann", "a", {"media": object()})
        with pytest.raises(MessageTooLarge):
            harness.mail.put(lane, "message", "ann", "x" * 9_000_000)
        assert harness.rows() == []

    def test_any_text_comes_back(self, harness: LifecycleHarness) -> None:
        text = "nul \0, lone \ud800, 漢字 🙂"
        harness.say(text, media=[{"file": text}])
        taken = begun(harness)
        assert taken.input.text == text
        assert taken.input.media == [{"file": text}]


class TestTaking:
    def test_three_texts_are_one_turn(self, harness: LifecycleHarness) -> None:
        """Acceptance 38."""
        harness.say("first")
        running = begun(harness)
        for text in "abc":
            harness.say(text)
        harness.answer(running)
        assert harness.run_all() == ["a\nb\nc"]

    def test_six_queue_items_are_six_turns(self, harness: LifecycleHarness) -> None:
        """Acceptance 37."""
        harness.say("first")
        running = begun(harness)
        for text in "ABCDEF":
            harness.say(text, kind="queue")
        harness.answer(running)
        assert harness.run_all() == list("ABCDEF")

    def test_an_album_is_one_turn(self, harness: LifecycleHarness) -> None:
        """Acceptance 39."""
        harness.say("first")
        running = begun(harness)
        for number, caption in enumerate(["look", None, None]):
            harness.say(caption, media=[f"{number}.jpg"])
        harness.answer(running)
        follow_up = begun(harness)
        assert follow_up.input.text == "look"
        assert follow_up.input.media == ["0.jpg", "1.jpg", "2.jpg"]

    def test_two_senders_are_not_merged(self, harness: LifecycleHarness) -> None:
        """Acceptance 40."""
        harness.say("first")
        running = begun(harness)
        for text, sender in [("a", "ann"), ("b", "bob"), ("c", "bob"), ("d", "ann")]:
            harness.say(text, sender=sender)
        harness.answer(running)
        assert harness.run_all() == ["a", "b\nc", "d"]

    def test_an_item_for_an_idle_lane_runs_at_once(self, harness: LifecycleHarness) -> None:
        """Acceptance 41."""
        harness.say("X", kind="queue")
        taken = begun(harness)
        assert (taken.input.text, taken.turn.attempt, taken.is_resumed) == ("X", 1, False)

    def test_one_turn_at_a_time(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        lease = harness.hold()
        assert harness.begin(lease=lease) is not None
        harness.say("b")
        assert harness.begin(lease=lease) is None

    def test_a_lease_on_another_session_takes_nothing(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        other = harness.hold("2")
        harness.lane()
        with pytest.raises(StaleFence, match="points at session"):
            harness.mail.take(harness.seen(), other)
        lease = harness.hold()
        harness.leases.release(lease)
        with pytest.raises(StaleFence):
            harness.mail.take(harness.seen(), lease)
        assert harness.rows() == [("a", "waiting", None)]

    def test_a_lane_without_a_session(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        with pytest.raises(StaleFence):
            harness.mail.take(harness.seen(), harness.hold("2"))

    def test_lanes_that_wait_longest_come_first(self, harness: LifecycleHarness) -> None:
        for name in ("3", "1", "2", "3"):
            harness.say("a", to=name)
        waiting = harness.mail.waiting_lanes()
        assert [one.lane_id for one in waiting] == [harness.seen(name).id for name in "312"]
        assert [one.depth for one in waiting] == [2, 1, 1]
        begun(harness, "3")
        assert [one.lane_id for one in harness.mail.waiting_lanes()] == [
            harness.seen(name).id for name in "12"
        ]

    def test_another_bot_has_its_own_lanes(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        other = Mailboxes(
            harness.engine._replace(config=type(harness.engine.config)(namespace="other"))
        )
        assert other.waiting_lanes() == []


class TestFinishing:
    def test_what_was_answered_is_done(self, harness: LifecycleHarness) -> None:
        harness.say("a", message_id="1")
        finished = harness.answer(begun(harness))
        assert finished == TurnEnding(True, "completed", 0)
        assert harness.rows() == [(None, "done", "completed")]

    def test_a_turn_ends_once(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        taken = begun(harness)
        assert harness.mail.finish(taken.turn, "completed").is_accepted
        again = harness.mail.finish(taken.turn, "failed")
        assert (again.is_accepted, again.outcome) == (False, "completed")

    def test_the_reply_is_written_with_the_end(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        taken = begun(harness)
        harness.db.set_meta("reply", "none")

        def fail(_: object) -> None:
            raise OSError("not now")

        with pytest.raises(OSError, match="not now"):
            harness.mail.finish(taken.turn, "completed", also=fail)
        assert harness.rows() == [("a", "running", None)]
        harness.mail.finish(
            taken.turn,
            "completed",
            also=lambda tx: (
                tx.run("UPDATE state_meta SET value = ? WHERE 1 = 1", ("said",)) and None
            ),
        )
        assert harness.db.get_meta("reply") == "said"

    @pytest.mark.parametrize("outcome", ["interrupted", "failed"])
    def test_a_turn_whose_failure_was_reported_is_done(
        self, harness: LifecycleHarness, outcome: str
    ) -> None:
        harness.say("a")
        harness.answer(begun(harness), outcome)  # type: ignore[arg-type]
        assert harness.rows() == [("a", "done", outcome)]
        assert harness.begin() is None

    def test_another_attempt_keeps_the_order_of_the_chat(self, harness: LifecycleHarness) -> None:
        """Also when something with an earlier place comes meanwhile."""
        here = {"platform": "telegram", "chat_id": "1"}
        harness.say("second", source=here, order=11)
        harness.say("first", source=here, order=10)
        taken = harness.begin()
        assert taken is not None
        assert taken.input.text == "first\nsecond"
        late = harness.say("late", source=here, order=9)
        assert late.item_id is not None
        assert harness.mail.steer(taken.turn, late.item_id)
        harness.crash()
        again = harness.begin()
        assert again is not None
        assert again.input.text == "first\nsecond\nlate"

    def test_another_attempt(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        first = begun(harness)
        harness.say("b")
        harness.answer(first, "failed", again=True)
        second = begun(harness)
        assert (second.input.text, second.turn.attempt, second.is_resumed) == ("a", 2, True)
        harness.answer(second)
        assert harness.run_all() == ["b"]

    def test_an_abandoned_turn_is_taken_again_as_it_was(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        harness.say("b")
        first = begun(harness)
        harness.say("c")
        harness.answer(first, "abandoned")
        assert harness.seen().status == "resume_pending"
        assert harness.run_all() == ["a\nb", "c"]
        lane = harness.seen()
        assert (lane.status, lane.unfinished_starts) == ("active", 0)

    @pytest.mark.parametrize(
        ("detail", "reason"),
        [
            ("shutdown_timeout", "shutdown_timeout"),
            ("the disk is full", "restart_interrupted"),
            (None, "restart_interrupted"),
        ],
    )
    def test_why_a_turn_was_abandoned(
        self, harness: LifecycleHarness, detail: str | None, reason: str
    ) -> None:
        harness.say("a")
        taken = begun(harness)
        harness.answer(taken, "abandoned", detail=detail)
        assert harness.seen().status_reason == reason
        turn = harness.turns.find(taken.turn.id)
        assert turn is not None
        assert turn.detail == detail

    def test_the_end_of_a_turn_is_use_of_its_lane(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        taken = begun(harness)
        harness.clock.advance(30)
        harness.answer(taken)
        assert harness.seen().updated_at == harness.clock()
        harness.clock.advance(-60)
        harness.say("b")
        used = harness.seen().updated_at
        harness.answer(begun(harness))
        assert harness.seen().updated_at >= min(used, harness.clock())

    def test_a_stale_run_after_a_new_session(self, harness: LifecycleHarness) -> None:
        """Acceptance 44: its reply is not delivered."""
        harness.say("a")
        stale = begun(harness)
        route_to_session(harness.engine, source(), force_new=True)
        harness.say("b")
        fresh = begun(harness)
        assert fresh.turn.session_id != stale.turn.session_id
        late = harness.mail.finish(stale.turn, "completed", also=lambda _: pytest.fail("delivered"))
        assert (late.is_accepted, late.outcome) == (False, "interrupted")
        assert harness.answer(fresh).is_accepted
        assert [row[1:] for row in harness.rows()] == [
            ("done", "superseded"),
            ("done", "completed"),
        ]

    def test_a_run_that_lost_its_lease(self, harness: LifecycleHarness) -> None:
        """The outcome it reports does not count; another worker runs the turn."""
        harness.say("a")
        slow = begun(harness)
        harness.clock.advance(61)
        lease = harness.hold()
        late = harness.mail.finish(slow.turn, "failed")
        assert (late.is_accepted, late.outcome) == (False, "abandoned")
        again = harness.begin(lease=lease)
        assert again is not None
        assert (again.input.text, again.turn.attempt) == ("a", 2)

    def test_the_next_lease_holder_takes_over(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        slow = begun(harness)
        harness.clock.advance(61)
        again = begun(harness)
        assert (again.input.text, again.turn.attempt, again.is_resumed) == ("a", 2, True)
        assert not harness.mail.finish(slow.turn, "completed").is_accepted
        assert harness.answer(again).is_accepted
        assert [row[1] for row in harness.rows()] == ["done"]

    def test_a_turn_whose_lane_is_gone(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        taken = begun(harness)
        harness.db.provider.write(lambda tx: tx.run("DELETE FROM lanes"))
        assert not harness.mail.finish(taken.turn, "completed").is_accepted

    def test_a_turn_without_a_lane(self, harness: LifecycleHarness) -> None:
        lease = harness.hold()
        turn = harness.turns.start(None, lease, lease.session_id)
        assert harness.mail.finish(turn, "completed") == TurnEnding(True, "completed", 0)


class TestStuck:
    def test_what_kills_three_times_is_dropped(self, harness: LifecycleHarness) -> None:
        harness.say("poison")
        for attempt in (1, 2):
            taken = begun(harness)
            assert taken.turn.attempt == attempt
            if attempt == 1:
                harness.say("behind it")
            assert not harness.answer(taken, "abandoned").is_stuck
            assert harness.seen().unfinished_starts == attempt
        session = harness.seen().session_id
        assert harness.answer(begun(harness), "abandoned").is_stuck
        lane = harness.seen()
        assert (lane.status, lane.status_reason) == ("suspended", "stuck_loop")
        assert harness.rows()[0] == ("poison", "dropped", "stuck_loop")
        assert harness.run_all() == ["behind it"]
        assert harness.seen().session_id != session
        assert ("suspend", "stuck_loop") in harness.explained()
        # A user who missed it learns it from the notice of the next session.
        notice = harness.sessions.take_notice(harness.lane().session_key)
        assert notice is not None
        assert (notice.reason, notice.suspended_for) == ("suspended", "stuck_loop")

    def test_a_lane_that_is_stuck_because_leases_are_lost(self, harness: LifecycleHarness) -> None:
        harness.say("slow")
        stuck = []
        for _ in range(3):
            taken = begun(harness)
            harness.leases.revoke(harness.process.id)
            stuck.append(harness.answer(taken).is_stuck)
        assert stuck == [False, False, True]
        assert harness.rows()[0] == ("slow", "dropped", "stuck_loop")

    def test_a_good_turn_clears_the_suspicion(self, harness: LifecycleHarness) -> None:
        for _ in range(2):
            for _ in range(2):
                harness.say("a")
                harness.answer(begun(harness), "abandoned")
            harness.run_all()
            assert harness.seen().unfinished_starts == 0
        assert harness.seen().status == "active"

    def test_a_failed_turn_does_not(self, harness: LifecycleHarness) -> None:
        """Acceptance 27: the mark stays, too."""
        harness.say("a")
        harness.answer(begun(harness), "abandoned")
        for outcome in ("failed", "interrupted"):
            harness.answer(begun(harness), outcome, again=True)  # type: ignore[arg-type]
            lane = harness.seen()
            assert (lane.status, lane.unfinished_starts) == ("resume_pending", 1)


class TestSteering:
    def test_a_message_joins_the_turn(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        taken = begun(harness)
        put = harness.say("b")
        assert put.item_id is not None
        assert harness.mail.steer(taken.turn, put.item_id)
        assert not harness.mail.steer(taken.turn, put.item_id)
        assert harness.mail.depth(harness.seen()) == 0
        harness.answer(taken)
        assert [row[1] for row in harness.rows()] == ["done", "done"]

    def test_what_the_turn_did_not_see_is_the_next_one(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        taken = begun(harness)
        put = harness.say("b")
        assert put.item_id is not None
        harness.mail.steer(taken.turn, put.item_id)
        harness.say("c")
        harness.answer(taken, unused=[put.item_id])
        assert harness.run_all() == ["b\nc"]

    def test_messages_are_steered_in_order(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        taken = begun(harness)
        first, second = harness.say("b"), harness.say("c")
        assert second.item_id is not None
        assert first.item_id is not None
        assert not harness.mail.steer(taken.turn, second.item_id)
        assert harness.mail.steer(taken.turn, first.item_id)
        assert harness.mail.steer(taken.turn, second.item_id)

    def test_a_turn_that_has_ended_takes_nothing(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        taken = begun(harness)
        harness.answer(taken)
        put = harness.say("b")
        assert put.item_id is not None
        assert not harness.mail.steer(taken.turn, put.item_id)

    def test_a_crash_takes_them_together_again(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        taken = begun(harness)
        put = harness.say("b")
        assert put.item_id is not None
        harness.mail.steer(taken.turn, put.item_id)
        harness.say("c")
        harness.answer(taken, "abandoned")
        assert harness.run_all() == ["a\nb", "c"]


class TestStopping:
    def test_what_waits_is_dropped_and_counted(self, harness: LifecycleHarness) -> None:
        harness.say("a")
        running = begun(harness)
        for text in "bcd":
            harness.say(text, kind="queue")
        assert harness.mail.clear(harness.seen(), "new") == 3
        assert harness.mail.clear(harness.seen(), "new") == 0
        assert harness.answer(running).is_accepted
        assert harness.begin() is None
        assert {row[1:] for row in harness.rows()[1:]} == {("dropped", "new")}

    def test_the_turn_that_runs_ends(self, harness: LifecycleHarness) -> None:
        """Acceptance 42, 43."""
        harness.say("a")
        running = begun(harness)
        harness.say("b", kind="queue")
        stopped = harness.mail.stop(harness.seen(), "stop")
        assert (stopped.turn, stopped.dropped) == (running.turn, 1)
        late = harness.mail.finish(running.turn, "completed")
        assert (late.is_accepted, late.outcome) == (False, "interrupted")
        harness.leases.release(lease_of(running))
        assert harness.begin() is None
        assert harness.mail.stop(harness.seen(), "stop") == StopResult(None, 0)

    def test_nothing_of_before_runs_in_a_new_session(self, harness: LifecycleHarness) -> None:
        """Acceptance 42."""
        harness.say("a")
        running = begun(harness)
        harness.say("b", kind="queue")
        harness.mail.stop(harness.seen(), "new")
        harness.sessions.reset_session(harness.seen().session_key)
        harness.say("c")
        assert harness.run_all() == ["c"]
        assert not harness.mail.finish(running.turn, "completed").is_accepted

    def test_after_a_stop_the_next_message_starts_a_new_session(
        self, harness: LifecycleHarness
    ) -> None:
        """Acceptance 43."""
        harness.say("a")
        running = begun(harness)
        for text in "bc":
            harness.say(text, kind="queue")
        assert harness.mail.stop(harness.seen(), "stop").dropped == 2
        harness.sessions.suspend_session(harness.seen().session_key)
        harness.leases.release(lease_of(running))
        harness.say("d")
        taken = begun(harness)
        assert taken.input.text == "d"
        assert taken.turn.session_id != running.turn.session_id

    def test_a_suspended_lane_takes_nothing_before(self, harness: LifecycleHarness) -> None:
        lease = harness.hold()
        harness.say("a")
        harness.sessions.suspend_session(harness.seen().session_key)
        assert harness.mail.take(harness.seen(), lease) is None
        harness.leases.release(lease)
        assert harness.run_all() == ["a"]

    def test_a_dropped_message_is_not_received_again(self, harness: LifecycleHarness) -> None:
        harness.say("a", message_id="1")
        harness.mail.clear(harness.seen(), "new")
        assert harness.say("a", message_id="1").is_duplicate


class TestRemembering:
    def test_for_thirty_days(self, harness: LifecycleHarness) -> None:
        harness.say("a", message_id="1")
        harness.run_all()
        harness.say("b", message_id="2")
        harness.mail.clear(harness.seen(), "new")
        harness.say("c", message_id="3")
        harness.clock.advance(days=29)
        assert harness.mail.forget() == 0
        assert harness.say("a", message_id="1").is_duplicate
        harness.clock.advance(days=2)
        assert harness.mail.forget() == 2
        assert not harness.say("a", message_id="1").is_duplicate
        assert harness.say("c", message_id="3").is_duplicate

    def test_in_short_steps(self, harness: LifecycleHarness) -> None:
        for number in range(7):
            harness.say(str(number), kind="queue")
        harness.mail.clear(harness.seen(), "new")
        rows = harness.mail._rows
        assert rows.forget("default", harness.clock() + 1, batch=3) == 7

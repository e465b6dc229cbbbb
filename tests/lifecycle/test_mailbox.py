"""Mailboxes on every database: nothing lost, nothing twice, in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hermes_sessions.errors import InvalidInput, MessageTooLarge, NotFound, StaleFence
from hermes_sessions.lifecycle.mailboxes import Finished, Mailboxes, Stopped, Taken
from hermes_sessions.lifecycle.session_routing import place
from hermes_sessions.testing.clock import FrozenClock
from tests.lifecycle.harness import House, lease_of, source
from tests.servers.stores import OpenStore


@pytest.fixture
def house(open_store: OpenStore, tmp_path: Path) -> Iterator[House]:
    clock = FrozenClock()
    with open_store(clock=clock) as db:
        yield House(db, clock, tmp_path, mailbox_limit=8)


def begun(house: House, name: str = "1") -> Taken:
    taken = house.begin(name)
    assert taken is not None
    return taken


class TestReceiving:
    def test_what_is_received_waits(self, house: House) -> None:
        first, second = house.say("a"), house.say("b")
        assert (first.depth, second.depth) == (1, 2)
        assert first.item_id is not None
        assert second.item_id is not None
        assert first.item_id < second.item_id
        assert house.mail.depth(house.seen()) == 2
        assert house.rows() == [("a", "waiting", None), ("b", "waiting", None)]

    def test_a_message_is_received_once(self, house: House) -> None:
        first = house.say("a", message_id="7")
        again = house.say("a", message_id="7")
        assert (again.item_id, again.is_duplicate, again.depth) == (first.item_id, True, 1)
        assert not house.say("a", message_id="8").is_duplicate
        assert not house.say("a", to="2", message_id="7").is_duplicate
        house.run_all()
        assert house.say("a", message_id="7").is_duplicate
        assert house.begin() is None

    def test_the_same_message_received_by_many(self, house: House) -> None:
        start = threading.Barrier(6)

        def receive(number: int) -> bool:
            start.wait()
            return house.say("a", to=str(number % 2), message_id=None, sender="ann").is_refused

        def deliver(_: int) -> bool:
            start.wait()
            return house.say("b", to="9", message_id="7").is_duplicate

        with ThreadPoolExecutor(6) as pool:
            assert not any(pool.map(receive, range(6)))
            assert sorted(pool.map(deliver, range(6))) == [False] + [True] * 5
        assert house.mail.depth(house.seen("0")) == 3
        assert house.mail.depth(house.seen("9")) == 1

    def test_a_full_mailbox_says_so(self, house: House) -> None:
        for number in range(8):
            assert not house.say(str(number), kind="queue").is_refused
        refused = house.say("one more", message_id="9")
        assert (refused.item_id, refused.depth, refused.is_refused) == (None, 8, True)
        house.begin()
        assert not house.say("one more", message_id="9").is_refused

    def test_what_cannot_be_stored(self, house: House) -> None:
        lane = house.lane()
        with pytest.raises(NotFound, match="get_or_create_session"):
            house.mail.put(lane.id + 1, "message", "ann", "a")
        with pytest.raises(InvalidInput, match="known are"):
            house.mail.put(lane, "shout", "ann", "a")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="JSON"):
            house.mail.put(lane, "message", "ann", "a", {"media": object()})
        with pytest.raises(MessageTooLarge):
            house.mail.put(lane, "message", "ann", "x" * 9_000_000)
        assert house.rows() == []

    def test_any_text_comes_back(self, house: House) -> None:
        text = "nul \0, lone \ud800, 漢字 🙂"
        house.say(text, media=[{"file": text}])
        taken = begun(house)
        assert taken.input.text == text
        assert taken.input.media == [{"file": text}]


class TestTaking:
    def test_three_texts_are_one_turn(self, house: House) -> None:
        """Acceptance 38."""
        house.say("first")
        running = begun(house)
        for text in "abc":
            house.say(text)
        house.answer(running)
        assert house.run_all() == ["a\nb\nc"]

    def test_six_queue_items_are_six_turns(self, house: House) -> None:
        """Acceptance 37."""
        house.say("first")
        running = begun(house)
        for text in "ABCDEF":
            house.say(text, kind="queue")
        house.answer(running)
        assert house.run_all() == list("ABCDEF")

    def test_an_album_is_one_turn(self, house: House) -> None:
        """Acceptance 39."""
        house.say("first")
        running = begun(house)
        for number, caption in enumerate(["look", None, None]):
            house.say(caption, media=[f"{number}.jpg"])
        house.answer(running)
        follow_up = begun(house)
        assert follow_up.input.text == "look"
        assert follow_up.input.media == ["0.jpg", "1.jpg", "2.jpg"]

    def test_two_senders_are_not_merged(self, house: House) -> None:
        """Acceptance 40."""
        house.say("first")
        running = begun(house)
        for text, sender in [("a", "ann"), ("b", "bob"), ("c", "bob"), ("d", "ann")]:
            house.say(text, sender=sender)
        house.answer(running)
        assert house.run_all() == ["a", "b\nc", "d"]

    def test_an_item_for_an_idle_lane_runs_at_once(self, house: House) -> None:
        """Acceptance 41."""
        house.say("X", kind="queue")
        taken = begun(house)
        assert (taken.input.text, taken.turn.attempt, taken.is_resumed) == ("X", 1, False)

    def test_one_turn_at_a_time(self, house: House) -> None:
        house.say("a")
        lease = house.hold()
        assert house.begin(lease=lease) is not None
        house.say("b")
        assert house.begin(lease=lease) is None

    def test_a_lease_on_another_session_takes_nothing(self, house: House) -> None:
        house.say("a")
        other = house.hold("2")
        house.lane()
        with pytest.raises(StaleFence, match="points at session"):
            house.mail.take(house.seen(), other)
        lease = house.hold()
        house.leases.release(lease)
        with pytest.raises(StaleFence):
            house.mail.take(house.seen(), lease)
        assert house.rows() == [("a", "waiting", None)]

    def test_a_lane_without_a_session(self, house: House) -> None:
        house.say("a")
        with pytest.raises(StaleFence):
            house.mail.take(house.seen(), house.hold("2"))

    def test_lanes_that_wait_longest_come_first(self, house: House) -> None:
        for name in ("3", "1", "2", "3"):
            house.say("a", to=name)
        waiting = house.mail.waiting_lanes()
        assert [one.lane_id for one in waiting] == [house.seen(name).id for name in "312"]
        assert [one.depth for one in waiting] == [2, 1, 1]
        begun(house, "3")
        assert [one.lane_id for one in house.mail.waiting_lanes()] == [
            house.seen(name).id for name in "12"
        ]

    def test_another_bot_has_its_own_lanes(self, house: House) -> None:
        house.say("a")
        other = Mailboxes(
            house.engine._replace(config=type(house.engine.config)(namespace="other"))
        )
        assert other.waiting_lanes() == []


class TestFinishing:
    def test_what_was_answered_is_done(self, house: House) -> None:
        house.say("a", message_id="1")
        finished = house.answer(begun(house))
        assert finished == Finished(True, "completed", 0)
        assert house.rows() == [(None, "done", "completed")]

    def test_a_turn_ends_once(self, house: House) -> None:
        house.say("a")
        taken = begun(house)
        assert house.mail.finish(taken.turn, "completed").is_accepted
        again = house.mail.finish(taken.turn, "failed")
        assert (again.is_accepted, again.outcome) == (False, "completed")

    def test_the_reply_is_written_with_the_end(self, house: House) -> None:
        house.say("a")
        taken = begun(house)
        house.db.set_meta("reply", "none")

        def fail(_: object) -> None:
            raise OSError("not now")

        with pytest.raises(OSError, match="not now"):
            house.mail.finish(taken.turn, "completed", also=fail)
        assert house.rows() == [("a", "running", None)]
        house.mail.finish(
            taken.turn,
            "completed",
            also=lambda tx: (
                tx.run("UPDATE state_meta SET value = ? WHERE 1 = 1", ("said",)) and None
            ),
        )
        assert house.db.get_meta("reply") == "said"

    @pytest.mark.parametrize("outcome", ["interrupted", "failed"])
    def test_an_end_that_somebody_was_told_of(self, house: House, outcome: str) -> None:
        house.say("a")
        house.answer(begun(house), outcome)  # type: ignore[arg-type]
        assert house.rows() == [("a", "done", outcome)]
        assert house.begin() is None

    def test_another_attempt_keeps_the_order_of_the_chat(self, house: House) -> None:
        """Also when something with an earlier place comes meanwhile."""
        here = {"platform": "telegram", "chat_id": "1"}
        house.say("second", source=here, order=11)
        house.say("first", source=here, order=10)
        taken = house.begin()
        assert taken is not None
        assert taken.input.text == "first\nsecond"
        late = house.say("late", source=here, order=9)
        assert late.item_id is not None
        assert house.mail.steer(taken.turn, late.item_id)
        house.crash()
        again = house.begin()
        assert again is not None
        assert again.input.text == "first\nsecond\nlate"

    def test_another_attempt(self, house: House) -> None:
        house.say("a")
        first = begun(house)
        house.say("b")
        house.answer(first, "failed", again=True)
        second = begun(house)
        assert (second.input.text, second.turn.attempt, second.is_resumed) == ("a", 2, True)
        house.answer(second)
        assert house.run_all() == ["b"]

    def test_an_abandoned_turn_is_taken_again_as_it_was(self, house: House) -> None:
        house.say("a")
        house.say("b")
        first = begun(house)
        house.say("c")
        house.answer(first, "abandoned")
        assert house.seen().status == "resume_pending"
        assert house.run_all() == ["a\nb", "c"]
        lane = house.seen()
        assert (lane.status, lane.unfinished_starts) == ("active", 0)

    @pytest.mark.parametrize(
        ("detail", "reason"),
        [
            ("shutdown_timeout", "shutdown_timeout"),
            ("the disk is full", "restart_interrupted"),
            (None, "restart_interrupted"),
        ],
    )
    def test_why_a_turn_was_abandoned(self, house: House, detail: str | None, reason: str) -> None:
        house.say("a")
        taken = begun(house)
        house.answer(taken, "abandoned", detail=detail)
        assert house.seen().status_reason == reason
        turn = house.turns.find(taken.turn.id)
        assert turn is not None
        assert turn.detail == detail

    def test_the_end_of_a_turn_is_use_of_its_lane(self, house: House) -> None:
        house.say("a")
        taken = begun(house)
        house.clock.advance(30)
        house.answer(taken)
        assert house.seen().updated_at == house.clock()
        house.clock.advance(-60)
        house.say("b")
        used = house.seen().updated_at
        house.answer(begun(house))
        assert house.seen().updated_at >= min(used, house.clock())

    def test_a_stale_run_after_a_new_session(self, house: House) -> None:
        """Acceptance 44: its reply is not delivered."""
        house.say("a")
        stale = begun(house)
        place(house.engine, source(), force_new=True)
        house.say("b")
        fresh = begun(house)
        assert fresh.turn.session_id != stale.turn.session_id
        late = house.mail.finish(stale.turn, "completed", also=lambda _: pytest.fail("delivered"))
        assert (late.is_accepted, late.outcome) == (False, "interrupted")
        assert house.answer(fresh).is_accepted
        assert [row[1:] for row in house.rows()] == [("done", "superseded"), ("done", "completed")]

    def test_a_run_that_lost_its_lease(self, house: House) -> None:
        """It does not count what it says of itself; somebody else does the work."""
        house.say("a")
        slow = begun(house)
        house.clock.advance(61)
        lease = house.hold()
        late = house.mail.finish(slow.turn, "failed")
        assert (late.is_accepted, late.outcome) == (False, "abandoned")
        again = house.begin(lease=lease)
        assert again is not None
        assert (again.input.text, again.turn.attempt) == ("a", 2)

    def test_whoever_has_the_lease_takes_over(self, house: House) -> None:
        house.say("a")
        slow = begun(house)
        house.clock.advance(61)
        again = begun(house)
        assert (again.input.text, again.turn.attempt, again.is_resumed) == ("a", 2, True)
        assert not house.mail.finish(slow.turn, "completed").is_accepted
        assert house.answer(again).is_accepted
        assert [row[1] for row in house.rows()] == ["done"]

    def test_a_turn_whose_lane_is_gone(self, house: House) -> None:
        house.say("a")
        taken = begun(house)
        house.db.provider.write(lambda tx: tx.run("DELETE FROM lanes"))
        assert not house.mail.finish(taken.turn, "completed").is_accepted

    def test_a_turn_without_a_lane(self, house: House) -> None:
        lease = house.hold()
        turn = house.turns.start(None, lease, lease.session_id)
        assert house.mail.finish(turn, "completed") == Finished(True, "completed", 0)


class TestStuck:
    def test_what_kills_three_times_is_dropped(self, house: House) -> None:
        house.say("poison")
        for attempt in (1, 2):
            taken = begun(house)
            assert taken.turn.attempt == attempt
            if attempt == 1:
                house.say("behind it")
            assert not house.answer(taken, "abandoned").is_stuck
            assert house.seen().unfinished_starts == attempt
        session = house.seen().session_id
        assert house.answer(begun(house), "abandoned").is_stuck
        lane = house.seen()
        assert (lane.status, lane.status_reason) == ("suspended", "stuck_loop")
        assert house.rows()[0] == ("poison", "dropped", "stuck_loop")
        assert house.run_all() == ["behind it"]
        assert house.seen().session_id != session
        assert ("suspend", "stuck_loop") in house.explained()
        # Whoever was not there to hear it learns it from the next session's notice.
        notice = house.sessions.take_notice(house.lane().session_key)
        assert notice is not None
        assert (notice.reason, notice.suspended_for) == ("suspended", "stuck_loop")

    def test_a_lane_that_is_stuck_because_leases_are_lost(self, house: House) -> None:
        house.say("slow")
        stuck = []
        for _ in range(3):
            taken = begun(house)
            house.leases.revoke(house.process.id)
            stuck.append(house.answer(taken).is_stuck)
        assert stuck == [False, False, True]
        assert house.rows()[0] == ("slow", "dropped", "stuck_loop")

    def test_a_good_turn_clears_the_suspicion(self, house: House) -> None:
        for _ in range(2):
            for _ in range(2):
                house.say("a")
                house.answer(begun(house), "abandoned")
            house.run_all()
            assert house.seen().unfinished_starts == 0
        assert house.seen().status == "active"

    def test_a_failed_turn_does_not(self, house: House) -> None:
        """Acceptance 27: the mark stays, too."""
        house.say("a")
        house.answer(begun(house), "abandoned")
        for outcome in ("failed", "interrupted"):
            house.answer(begun(house), outcome, again=True)  # type: ignore[arg-type]
            lane = house.seen()
            assert (lane.status, lane.unfinished_starts) == ("resume_pending", 1)


class TestSteering:
    def test_a_message_joins_the_turn(self, house: House) -> None:
        house.say("a")
        taken = begun(house)
        put = house.say("b")
        assert put.item_id is not None
        assert house.mail.steer(taken.turn, put.item_id)
        assert not house.mail.steer(taken.turn, put.item_id)
        assert house.mail.depth(house.seen()) == 0
        house.answer(taken)
        assert [row[1] for row in house.rows()] == ["done", "done"]

    def test_what_the_turn_did_not_see_is_the_next_one(self, house: House) -> None:
        house.say("a")
        taken = begun(house)
        put = house.say("b")
        assert put.item_id is not None
        house.mail.steer(taken.turn, put.item_id)
        house.say("c")
        house.answer(taken, unused=[put.item_id])
        assert house.run_all() == ["b\nc"]

    def test_nobody_is_passed(self, house: House) -> None:
        house.say("a")
        taken = begun(house)
        first, second = house.say("b"), house.say("c")
        assert second.item_id is not None
        assert first.item_id is not None
        assert not house.mail.steer(taken.turn, second.item_id)
        assert house.mail.steer(taken.turn, first.item_id)
        assert house.mail.steer(taken.turn, second.item_id)

    def test_a_turn_that_has_ended_takes_nothing(self, house: House) -> None:
        house.say("a")
        taken = begun(house)
        house.answer(taken)
        put = house.say("b")
        assert put.item_id is not None
        assert not house.mail.steer(taken.turn, put.item_id)

    def test_a_crash_takes_them_together_again(self, house: House) -> None:
        house.say("a")
        taken = begun(house)
        put = house.say("b")
        assert put.item_id is not None
        house.mail.steer(taken.turn, put.item_id)
        house.say("c")
        house.answer(taken, "abandoned")
        assert house.run_all() == ["a\nb", "c"]


class TestStopping:
    def test_what_waits_is_dropped_and_counted(self, house: House) -> None:
        house.say("a")
        running = begun(house)
        for text in "bcd":
            house.say(text, kind="queue")
        assert house.mail.clear(house.seen(), "new") == 3
        assert house.mail.clear(house.seen(), "new") == 0
        assert house.answer(running).is_accepted
        assert house.begin() is None
        assert {row[1:] for row in house.rows()[1:]} == {("dropped", "new")}

    def test_the_turn_that_runs_ends(self, house: House) -> None:
        """Acceptance 42, 43."""
        house.say("a")
        running = begun(house)
        house.say("b", kind="queue")
        stopped = house.mail.stop(house.seen(), "stop")
        assert (stopped.turn, stopped.dropped) == (running.turn, 1)
        late = house.mail.finish(running.turn, "completed")
        assert (late.is_accepted, late.outcome) == (False, "interrupted")
        house.leases.release(lease_of(running))
        assert house.begin() is None
        assert house.mail.stop(house.seen(), "stop") == Stopped(None, 0)

    def test_nothing_of_before_runs_in_a_new_session(self, house: House) -> None:
        """Acceptance 42."""
        house.say("a")
        running = begun(house)
        house.say("b", kind="queue")
        house.mail.stop(house.seen(), "new")
        house.sessions.reset_session(house.seen().session_key)
        house.say("c")
        assert house.run_all() == ["c"]
        assert not house.mail.finish(running.turn, "completed").is_accepted

    def test_after_a_stop_the_next_message_starts_anew(self, house: House) -> None:
        """Acceptance 43."""
        house.say("a")
        running = begun(house)
        for text in "bc":
            house.say(text, kind="queue")
        assert house.mail.stop(house.seen(), "stop").dropped == 2
        house.sessions.suspend_session(house.seen().session_key)
        house.leases.release(lease_of(running))
        house.say("d")
        taken = begun(house)
        assert taken.input.text == "d"
        assert taken.turn.session_id != running.turn.session_id

    def test_a_suspended_lane_takes_nothing_before(self, house: House) -> None:
        lease = house.hold()
        house.say("a")
        house.sessions.suspend_session(house.seen().session_key)
        assert house.mail.take(house.seen(), lease) is None
        house.leases.release(lease)
        assert house.run_all() == ["a"]

    def test_a_dropped_message_is_not_received_again(self, house: House) -> None:
        house.say("a", message_id="1")
        house.mail.clear(house.seen(), "new")
        assert house.say("a", message_id="1").is_duplicate


class TestRemembering:
    def test_for_thirty_days(self, house: House) -> None:
        house.say("a", message_id="1")
        house.run_all()
        house.say("b", message_id="2")
        house.mail.clear(house.seen(), "new")
        house.say("c", message_id="3")
        house.clock.advance(days=29)
        assert house.mail.forget() == 0
        assert house.say("a", message_id="1").is_duplicate
        house.clock.advance(days=2)
        assert house.mail.forget() == 2
        assert not house.say("a", message_id="1").is_duplicate
        assert house.say("c", message_id="3").is_duplicate

    def test_in_short_steps(self, house: House) -> None:
        for number in range(7):
            house.say(str(number), kind="queue")
        house.mail.clear(house.seen(), "new")
        rows = house.mail._rows
        assert rows.forget("default", house.clock() + 1, batch=3) == 7

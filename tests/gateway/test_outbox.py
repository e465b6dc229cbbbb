"""The outbox: replies are delivered in order per chat, by one process at a time."""

from __future__ import annotations

import pytest

from hermes_sessions.errors import NotFound
from hermes_sessions.storage.repositories.outbox import NewReply, Outbox, Outgoing
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock

ON = ["telegram"]


def put(outbox: Outbox, text: str, chat: str = "1", platform: str = "telegram") -> int:
    return outbox.put(NewReply(platform, chat, f'{{"chat_id": "{chat}"}}', text))


def claim(outbox: Outbox, by: str = "a", seconds: float = 60) -> list[Outgoing]:
    return outbox.claim(ON, by, seconds=seconds, limit=10)


def texts(found: list[Outgoing]) -> list[str]:
    return [outgoing.text for outgoing in found]


@pytest.fixture
def outbox(db: SessionDB) -> Outbox:
    return Outbox(db.store, "main")


def test_a_chat_is_served_in_order(outbox: Outbox) -> None:
    for text in ("one", "two"):
        put(outbox, text)
    put(outbox, "elsewhere", chat="2")
    found = claim(outbox)
    assert texts(found) == ["one", "elsewhere"]
    assert claim(outbox) == []
    outbox.sent(found[0])
    assert texts(claim(outbox)) == ["two"]


def test_what_is_given_up_lets_the_next_go(outbox: Outbox) -> None:
    put(outbox, "one")
    put(outbox, "two")
    outbox.give_up(claim(outbox)[0], "blocked")
    assert texts(claim(outbox)) == ["two"]
    (dead,) = outbox.list(["dead"])
    assert (dead.text, dead.error, dead.attempts) == ("one", "blocked", 1)


def test_only_the_platforms_asked_for(outbox: Outbox) -> None:
    put(outbox, "one", platform="matrix")
    assert claim(outbox) == []
    assert outbox.claim([], "a", seconds=1, limit=1) == []


def test_only_the_own_namespace(db: SessionDB, outbox: Outbox) -> None:
    put(Outbox(db.store, "other"), "theirs")
    assert claim(outbox) == []
    assert outbox.counts() == {}


def test_postponed_is_due_later(outbox: Outbox, clock: FrozenClock) -> None:
    put(outbox, "one")
    outbox.postpone(claim(outbox)[0], 30, "busy", failed=True)
    assert claim(outbox) == []
    assert outbox.list(["waiting"])[0].next_at == clock() + 30
    clock.advance(30)
    (again,) = claim(outbox)
    assert (again.attempts, again.error) == (1, "busy")


def test_being_asked_to_wait_is_no_failure(outbox: Outbox, clock: FrozenClock) -> None:
    put(outbox, "one")
    outbox.postpone(claim(outbox)[0], 5, "too many requests", failed=False)
    clock.advance(5)
    assert claim(outbox)[0].attempts == 0


def test_the_claim_of_a_dead_process_runs_out(outbox: Outbox, clock: FrozenClock) -> None:
    put(outbox, "one")
    (stale,) = claim(outbox, "a", seconds=60)
    clock.advance(61)
    (taken,) = claim(outbox, "b")
    for late in (outbox.sent, lambda it: outbox.part_sent(it, "m", seconds=1)):
        with pytest.raises(NotFound, match="another process"):
            late(stale)
    outbox.sent(taken)
    assert outbox.counts() == {"sent": 1}


def test_what_its_sender_still_sends_is_not_taken_again(outbox: Outbox, clock: FrozenClock) -> None:
    number = put(outbox, "one")
    put(outbox, "two")
    put(outbox, "three", chat="2")
    one = claim(outbox, seconds=60)[0]
    clock.advance(61)
    again = outbox.claim(ON, "a", seconds=60, limit=10, besides=[number])
    assert texts(again) == ["three"], "nor what comes after it in its chat"
    outbox.sent(one)


def test_sent_parts_are_remembered_and_keep_the_claim(outbox: Outbox, clock: FrozenClock) -> None:
    put(outbox, "long")
    (mine,) = claim(outbox, "a", seconds=60)
    clock.advance(50)
    mine = outbox.part_sent(mine, "m1", seconds=60)
    clock.advance(50)
    assert claim(outbox, "b") == []
    clock.advance(11)
    (theirs,) = claim(outbox, "b")
    assert (theirs.parts_sent, theirs.sent_ids) == (1, ("m1",))


def test_what_is_to_be_sent_at_once_is_due_by_every_clock(
    outbox: Outbox, clock: FrozenClock
) -> None:
    """One that was put back meanwhile, or that of another host."""
    number = put(outbox, "one")
    clock.advance(-3600)
    (one,) = claim(outbox)
    outbox.give_up(one, "blocked")
    outbox.revive(number)
    clock.advance(-3600)
    assert texts(claim(outbox)) == ["one"]


def test_a_dead_reply_can_be_revived(outbox: Outbox) -> None:
    number = put(outbox, "one")
    outbox.give_up(claim(outbox)[0], "blocked")
    outbox.revive(number)
    (again,) = claim(outbox)
    assert (again.attempts, again.finished_at) == (0, None)
    with pytest.raises(NotFound, match="hermes gateway queue"):
        outbox.revive(number)


def test_what_is_finished_is_forgotten_after_a_while(outbox: Outbox, clock: FrozenClock) -> None:
    put(outbox, "one")
    put(outbox, "two")
    outbox.sent(claim(outbox)[0])
    clock.advance(100)
    assert outbox.forget(clock() - 10) == 1
    assert texts(outbox.list(["waiting", "sending", "sent"])) == ["two"]


def test_forgetting_takes_many_steps_and_nothing_that_is_not_finished(
    db: SessionDB, outbox: Outbox, clock: FrozenClock
) -> None:
    others = Outbox(db.store, "other")
    put(others, "theirs")
    others.sent(others.claim(ON, "a", seconds=60, limit=1)[0])
    for number in range(7):
        put(outbox, f"sent {number}", chat=f"s{number}")
    for each in claim(outbox):
        outbox.sent(each)
    put(outbox, "given up", chat="d")
    outbox.give_up(claim(outbox)[0], "blocked")
    put(outbox, "postponed", chat="p")
    outbox.postpone(claim(outbox)[0], 5, "busy", failed=True)
    put(outbox, "being sent", chat="b")
    claim(outbox)
    clock.advance(days=400)
    assert outbox.forget(clock(), batch=3) == 8
    assert outbox.counts() == {"waiting": 1, "sending": 1}
    assert others.counts() == {"sent": 1}


def test_texts_and_targets_come_back_unchanged(outbox: Outbox) -> None:
    target = '{"chat_id": "ü\\u0000", "thread_id": null}'
    text = "naïve \x00 \ud83d 🙂\r\n"
    outbox.put(NewReply("telegram", "c", target, text, lane_id=3, turn_id=4, draft_id="d"))
    (found,) = claim(outbox)
    assert (found.target, found.text) == (target, text)
    assert (found.lane_id, found.turn_id, found.draft_id) == (3, 4, "d")


class TestWhatThePlatformTookAndDidNotDeliver:
    def sent(self, outbox: Outbox, *parts: str) -> Outgoing:
        put(outbox, "a long reply")
        (outgoing,) = claim(outbox)
        for message_id in parts:
            outgoing = outbox.part_sent(outgoing, message_id, seconds=60)
        return outgoing

    def test_the_reply_is_dead_and_says_why(self, outbox: Outbox, clock: FrozenClock) -> None:
        outgoing = self.sent(outbox, "m1")
        outbox.sent(outgoing)
        assert outbox.undelivered(outgoing.id, 0, "m1", "The number is not on WhatsApp.")
        (dead,) = outbox.list(["dead"])
        assert (dead.error, dead.finished_at) == ("The number is not on WhatsApp.", clock())
        assert not outbox.undelivered(outgoing.id, 0, "m1", "It is said twice.")

    def test_it_is_sent_again_from_the_part_that_failed(self, outbox: Outbox) -> None:
        outgoing = self.sent(outbox, "m1", "m2", "m3")
        outbox.sent(outgoing)
        assert outbox.undelivered(outgoing.id, 1, "m2", "no")
        outbox.revive(outgoing.id)
        (again,) = claim(outbox)
        assert (again.parts_sent, again.sent_ids) == (1, ("m1",))

    def test_before_it_is_remembered_that_it_was_sent(self, outbox: Outbox) -> None:
        outgoing = self.sent(outbox, "m1")
        assert outbox.undelivered(outgoing.id, 1, "m2", "no")
        with pytest.raises(NotFound):
            outbox.part_sent(outgoing, "m2", seconds=60)
        assert outbox.list(["dead"])[0].sent_ids == ("m1",)

    def test_an_unknown_reply(self, db: SessionDB, outbox: Outbox) -> None:
        outgoing = self.sent(outbox, "m1")
        outbox.sent(outgoing)
        assert not outbox.undelivered(outgoing.id, 0, "m9", "no")
        assert not outbox.undelivered(outgoing.id, 7, "m1", "no")
        assert not outbox.undelivered(outgoing.id + 1, 0, "m1", "no")
        assert not Outbox(db.store, "other").undelivered(outgoing.id, 0, "m1", "no")
        assert outbox.counts() == {"sent": 1}

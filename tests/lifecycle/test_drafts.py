"""Drafts that people see, remembered for whoever goes on, on every database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions.lifecycle.mailboxes import Taken
from hermes_sessions.storage.repositories.outbox import Drafts, NewReply, Outbox
from hermes_sessions.testing.clock import FrozenClock
from tests.lifecycle.harness import House
from tests.servers.stores import OpenStore


@pytest.fixture
def house(open_store: OpenStore, tmp_path: Path) -> Iterator[House]:
    clock = FrozenClock()
    with open_store(clock=clock) as db:
        yield House(db, clock, tmp_path)


@pytest.fixture
def drafts(house: House) -> Drafts:
    return Drafts(house.db.store, house.engine.namespace)


@pytest.fixture
def outbox(house: House) -> Outbox:
    return Outbox(house.db.store, house.engine.namespace)


def begun(house: House) -> Taken:
    taken = house.begin()
    assert taken is not None
    return taken


def shown(house: House, drafts: Drafts, message_id: str = "m1") -> Taken:
    """A turn has begun, and something of it is shown."""
    house.say("Tell me", message_id="1")
    taken = begun(house)
    assert drafts.note(draft(taken, message_id))
    return taken


def draft(taken: Taken, message_id: str) -> NewReply:
    turn = taken.turn
    return NewReply("telegram", "1", "{}", "", turn.lane_id, turn.id, message_id)


def test_a_draft_is_no_reply(house: House, drafts: Drafts, outbox: Outbox) -> None:
    taken = shown(house, drafts)
    assert drafts.of_turn(taken.turn.id) == "m1"
    assert outbox.claim(["telegram"], "p", seconds=60, limit=10) == []
    outbox.put(NewReply("telegram", "1", "{}", "said meanwhile"))
    assert len(outbox.claim(["telegram"], "p", seconds=60, limit=10)) == 1
    assert drafts.finish_left("left") == 0


def test_the_next_attempt_goes_on_with_it(house: House, drafts: Drafts) -> None:
    first = shown(house, drafts)
    house.crash()
    again = begun(house)
    assert again.input.items[0].turn_id == first.turn.id
    assert drafts.adopt(first.turn.id, again.turn.id) == "m1"
    assert drafts.adopt(first.turn.id, again.turn.id) is None
    assert drafts.of_turn(first.turn.id) is None
    assert not drafts.forget(first.turn.id)
    assert drafts.finish_left("left") == 0
    assert drafts.forget(again.turn.id)


def test_between_two_attempts_it_waits(house: House, drafts: Drafts) -> None:
    shown(house, drafts)
    house.crash()
    assert drafts.finish_left("left") == 0


def test_one_that_nobody_goes_on_with(house: House, drafts: Drafts, outbox: Outbox) -> None:
    shown(house, drafts)
    house.crash()
    house.mail.stop(house.seen(), "stop")
    assert drafts.finish_left("I was interrupted.") == 0
    house.clock.advance(6)
    assert drafts.finish_left("I was interrupted.") == 1
    assert drafts.finish_left("I was interrupted.") == 0
    house.clock.advance(-3600)
    (reply,) = outbox.claim(["telegram"], "p", seconds=60, limit=10)
    assert (reply.text, reply.draft_id) == ("I was interrupted.", "m1")


def test_a_turn_that_has_ended_has_none(house: House, drafts: Drafts) -> None:
    """What is remembered too late would replace what was said."""
    house.say("Tell me")
    taken = begun(house)
    house.answer(taken)
    assert not drafts.note(draft(taken, "m1"))
    assert drafts.finish_left("left") == 0

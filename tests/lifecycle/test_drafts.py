"""Visible drafts are stored, so that another process can continue them, on every database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions.lifecycle.mailboxes import StartedTurn
from hermes_sessions.storage.repositories.outbox import Drafts, NewReply, Outbox
from hermes_sessions_testing.clock import FrozenClock
from tests.lifecycle.harness import LifecycleHarness
from tests.servers.stores import OpenStore


@pytest.fixture
def harness(open_store: OpenStore, tmp_path: Path) -> Iterator[LifecycleHarness]:
    clock = FrozenClock()
    with open_store(clock=clock) as db:
        yield LifecycleHarness(db, clock, tmp_path)


@pytest.fixture
def drafts(harness: LifecycleHarness) -> Drafts:
    return Drafts(harness.db.store, harness.engine.namespace)


@pytest.fixture
def outbox(harness: LifecycleHarness) -> Outbox:
    return Outbox(harness.db.store, harness.engine.namespace)


def begun(harness: LifecycleHarness) -> StartedTurn:
    taken = harness.begin()
    assert taken is not None
    return taken


def shown(harness: LifecycleHarness, drafts: Drafts, message_id: str = "m1") -> StartedTurn:
    """A turn has begun, and something of it is shown."""
    harness.say("Tell me", message_id="1")
    taken = begun(harness)
    assert drafts.note(draft(taken, message_id))
    return taken


def draft(taken: StartedTurn, message_id: str) -> NewReply:
    turn = taken.turn
    return NewReply("telegram", "1", "{}", "", turn.lane_id, turn.id, message_id)


def test_a_draft_is_not_a_reply(harness: LifecycleHarness, drafts: Drafts, outbox: Outbox) -> None:
    taken = shown(harness, drafts)
    assert drafts.of_turn(taken.turn.id) == "m1"
    assert outbox.claim(["telegram"], "p", seconds=60, limit=10) == []
    outbox.put(NewReply("telegram", "1", "{}", "said meanwhile"))
    assert len(outbox.claim(["telegram"], "p", seconds=60, limit=10)) == 1
    assert drafts.finish_left("left") == 0


def test_the_next_attempt_goes_on_with_it(harness: LifecycleHarness, drafts: Drafts) -> None:
    first = shown(harness, drafts)
    harness.crash()
    again = begun(harness)
    assert again.input.items[0].turn_id == first.turn.id
    assert drafts.adopt(first.turn.id, again.turn.id) == "m1"
    assert drafts.adopt(first.turn.id, again.turn.id) is None
    assert drafts.of_turn(first.turn.id) is None
    assert not drafts.forget(first.turn.id)
    assert drafts.finish_left("left") == 0
    assert drafts.forget(again.turn.id)


def test_between_two_attempts_it_waits(harness: LifecycleHarness, drafts: Drafts) -> None:
    shown(harness, drafts)
    harness.crash()
    assert drafts.finish_left("left") == 0


def test_a_draft_whose_turn_was_stopped_after_a_crash(
    harness: LifecycleHarness, drafts: Drafts, outbox: Outbox
) -> None:
    shown(harness, drafts)
    harness.crash()
    harness.mail.stop(harness.seen(), "stop")
    assert drafts.finish_left("I was interrupted.") == 0
    harness.clock.advance(6)
    assert drafts.finish_left("I was interrupted.") == 1
    assert drafts.finish_left("I was interrupted.") == 0
    harness.clock.advance(-3600)
    (reply,) = outbox.claim(["telegram"], "p", seconds=60, limit=10)
    assert (reply.text, reply.draft_id) == ("I was interrupted.", "m1")


def test_a_turn_that_has_ended_has_none(harness: LifecycleHarness, drafts: Drafts) -> None:
    """What is remembered too late would replace what was said."""
    harness.say("Tell me")
    taken = begun(harness)
    harness.answer(taken)
    assert not drafts.note(draft(taken, "m1"))
    assert drafts.finish_left("left") == 0

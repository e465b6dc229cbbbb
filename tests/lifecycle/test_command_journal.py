"""Received commands are carried out once, across crashes, on every database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hermes_sessions.errors import MessageTooLarge
from hermes_sessions.lifecycle.command_journal import CommandJournal
from hermes_sessions.storage.repositories.mailbox import EnqueueResult
from hermes_sessions_testing.clock import FrozenClock
from tests.lifecycle.harness import LifecycleHarness, source
from tests.servers.stores import OpenStore


@pytest.fixture
def harness(open_store: OpenStore, tmp_path: Path) -> Iterator[LifecycleHarness]:
    clock = FrozenClock()
    with open_store(clock=clock, max_message_bytes=10_000) as db:
        yield LifecycleHarness(db, clock, tmp_path)


@pytest.fixture
def notes(harness: LifecycleHarness) -> CommandJournal:
    return CommandJournal(harness.engine)


def begin(
    harness: LifecycleHarness, notes: CommandJournal, mark: str | None = "m-1", text: str = "/new"
) -> EnqueueResult:
    key = harness.engine.key_of(source("1"))
    return notes.begin(key, harness.process.id, name="/new", payload={"text": text}, dedupe=mark)


def item_of(put: EnqueueResult) -> int:
    assert put.item_id is not None
    return put.item_id


def test_a_command_is_noted_once(harness: LifecycleHarness, notes: CommandJournal) -> None:
    noted, again = begin(harness, notes), begin(harness, notes)
    assert (noted.is_duplicate, again.is_duplicate) == (False, True)
    assert again.item_id == noted.item_id
    assert harness.mail.depth(harness.seen()) == 0
    assert harness.begin() is None


def test_it_ends_once(harness: LifecycleHarness, notes: CommandJournal) -> None:
    item_id = item_of(begin(harness, notes))
    written: list[int] = []
    assert notes.end(item_id, lambda _tx: written.append(1))
    assert not notes.end(item_id, lambda _tx: written.append(2))
    assert written == [1]
    assert begin(harness, notes).is_duplicate
    harness.crash()
    assert notes.take_over(harness.process.id) == []


def test_one_that_cannot_be_stored(harness: LifecycleHarness, notes: CommandJournal) -> None:
    with pytest.raises(MessageTooLarge):
        begin(harness, notes, text="/title " + "x" * 20_000)
    assert not begin(harness, notes).is_duplicate


def test_a_living_process_keeps_its_own(harness: LifecycleHarness, notes: CommandJournal) -> None:
    begin(harness, notes)
    peer = harness.new_process()
    peer.start()
    assert notes.take_over(peer.id) == []
    assert notes.take_over(harness.process.id) == []


def test_what_a_dead_process_left_is_taken_over(
    harness: LifecycleHarness, notes: CommandJournal
) -> None:
    item_id = item_of(begin(harness, notes))
    harness.crash()
    (left,) = notes.take_over(harness.process.id)
    assert left == (item_id, {"text": "/new"}, False, False)
    assert notes.take_over(harness.process.id) == []
    assert notes.end(item_id)


def test_whether_it_has_happened_is_known(harness: LifecycleHarness, notes: CommandJournal) -> None:
    item_id = item_of(begin(harness, notes))
    harness.db.provider.write(lambda tx: notes.happened(tx, item_id))
    harness.crash()
    (left,) = notes.take_over(harness.process.id)
    assert left.has_happened
    assert notes.end(item_id)


def test_a_change_that_was_not_made_has_not_happened(
    harness: LifecycleHarness, notes: CommandJournal
) -> None:
    item_id = item_of(begin(harness, notes))

    def fail(tx: object) -> None:
        notes.happened(tx, item_id)  # type: ignore[arg-type] - it is one
        raise RuntimeError

    with pytest.raises(RuntimeError):
        harness.db.provider.write(fail)
    harness.crash()
    (left,) = notes.take_over(harness.process.id)
    assert not left.has_happened


def test_what_was_said_since_makes_it_too_late(
    harness: LifecycleHarness, notes: CommandJournal
) -> None:
    begin(harness, notes)
    harness.say("and then?")
    harness.crash()
    (left,) = notes.take_over(harness.process.id)
    assert left.is_too_late


def test_going_on_after_a_crash_does_not(harness: LifecycleHarness, notes: CommandJournal) -> None:
    harness.say("a", message_id="1")
    assert harness.begin() is not None
    begin(harness, notes)
    harness.crash()
    harness.process.resume()
    (left,) = notes.take_over(harness.process.id)
    assert not left.is_too_late


def test_one_that_processes_die_of_is_not_tried_for_ever(
    harness: LifecycleHarness, notes: CommandJournal
) -> None:
    begin(harness, notes)
    too_late = []
    for _ in range(3):
        harness.crash()
        (left,) = notes.take_over(harness.process.id)
        too_late.append(left.is_too_late)
    assert too_late == [False, True, True]


def test_of_many_who_come_one_gets_it(harness: LifecycleHarness, notes: CommandJournal) -> None:
    begin(harness, notes)
    harness.crash()
    peers = [harness.new_process() for _ in range(4)]
    for peer in peers:
        peer.start()
    start = threading.Barrier(len(peers))

    def come(process_id: str) -> int:
        start.wait()
        return len(notes.take_over(process_id))

    with ThreadPoolExecutor(len(peers)) as pool:
        assert sum(pool.map(come, [peer.id for peer in peers])) == 1


def test_a_lane_whose_command_is_left_is_not_forgotten(
    harness: LifecycleHarness, notes: CommandJournal
) -> None:
    harness.lane("1")
    begin(harness, notes)
    harness.clock.advance(1000 * 86_400)
    assert harness.sessions.prune_old_entries(30) == 0

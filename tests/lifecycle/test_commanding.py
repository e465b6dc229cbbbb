"""Commands that were received: carried out once, whoever dies meanwhile, on every database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hermes_sessions.errors import MessageTooLarge
from hermes_sessions.lifecycle.command_journal import CommandNotes
from hermes_sessions.storage.repositories.mailbox import Put
from hermes_sessions.testing.clock import FrozenClock
from tests.lifecycle.harness import House, source
from tests.servers.stores import OpenStore


@pytest.fixture
def house(open_store: OpenStore, tmp_path: Path) -> Iterator[House]:
    clock = FrozenClock()
    with open_store(clock=clock, max_message_bytes=10_000) as db:
        yield House(db, clock, tmp_path)


@pytest.fixture
def notes(house: House) -> CommandNotes:
    return CommandNotes(house.engine)


def begin(house: House, notes: CommandNotes, mark: str | None = "m-1", text: str = "/new") -> Put:
    key = house.engine.key_of(source("1"))
    return notes.begin(key, house.process.id, name="/new", payload={"text": text}, dedupe=mark)


def item_of(put: Put) -> int:
    assert put.item_id is not None
    return put.item_id


def test_a_command_is_noted_once(house: House, notes: CommandNotes) -> None:
    noted, again = begin(house, notes), begin(house, notes)
    assert (noted.is_duplicate, again.is_duplicate) == (False, True)
    assert again.item_id == noted.item_id
    assert house.mail.depth(house.seen()) == 0
    assert house.begin() is None


def test_it_ends_once(house: House, notes: CommandNotes) -> None:
    item_id = item_of(begin(house, notes))
    written: list[int] = []
    assert notes.end(item_id, lambda _tx: written.append(1))
    assert not notes.end(item_id, lambda _tx: written.append(2))
    assert written == [1]
    assert begin(house, notes).is_duplicate
    house.crash()
    assert notes.take_over(house.process.id) == []


def test_one_that_cannot_be_stored(house: House, notes: CommandNotes) -> None:
    with pytest.raises(MessageTooLarge):
        begin(house, notes, text="/title " + "x" * 20_000)
    assert not begin(house, notes).is_duplicate


def test_a_living_process_keeps_its_own(house: House, notes: CommandNotes) -> None:
    begin(house, notes)
    peer = house.new_process()
    peer.start()
    assert notes.take_over(peer.id) == []
    assert notes.take_over(house.process.id) == []


def test_what_a_dead_process_left_is_taken_over(house: House, notes: CommandNotes) -> None:
    item_id = item_of(begin(house, notes))
    house.crash()
    (left,) = notes.take_over(house.process.id)
    assert left == (item_id, {"text": "/new"}, False, False)
    assert notes.take_over(house.process.id) == []
    assert notes.end(item_id)


def test_whether_it_has_happened_is_known(house: House, notes: CommandNotes) -> None:
    item_id = item_of(begin(house, notes))
    house.db.provider.write(lambda tx: notes.happened(tx, item_id))
    house.crash()
    (left,) = notes.take_over(house.process.id)
    assert left.has_happened
    assert notes.end(item_id)


def test_a_change_that_was_not_made_has_not_happened(house: House, notes: CommandNotes) -> None:
    item_id = item_of(begin(house, notes))

    def fail(tx: object) -> None:
        notes.happened(tx, item_id)  # type: ignore[arg-type] - it is one
        raise RuntimeError

    with pytest.raises(RuntimeError):
        house.db.provider.write(fail)
    house.crash()
    (left,) = notes.take_over(house.process.id)
    assert not left.has_happened


def test_what_was_said_since_makes_it_too_late(house: House, notes: CommandNotes) -> None:
    begin(house, notes)
    house.say("and then?")
    house.crash()
    (left,) = notes.take_over(house.process.id)
    assert left.is_too_late


def test_going_on_after_a_crash_does_not(house: House, notes: CommandNotes) -> None:
    house.say("a", message_id="1")
    assert house.begin() is not None
    begin(house, notes)
    house.crash()
    house.process.resume()
    (left,) = notes.take_over(house.process.id)
    assert not left.is_too_late


def test_one_that_processes_die_of_is_not_tried_for_ever(house: House, notes: CommandNotes) -> None:
    begin(house, notes)
    too_late = []
    for _ in range(3):
        house.crash()
        (left,) = notes.take_over(house.process.id)
        too_late.append(left.is_too_late)
    assert too_late == [False, True, True]


def test_of_many_who_come_one_gets_it(house: House, notes: CommandNotes) -> None:
    begin(house, notes)
    house.crash()
    peers = [house.new_process() for _ in range(4)]
    for peer in peers:
        peer.start()
    start = threading.Barrier(len(peers))

    def come(process_id: str) -> int:
        start.wait()
        return len(notes.take_over(process_id))

    with ThreadPoolExecutor(len(peers)) as pool:
        assert sum(pool.map(come, [peer.id for peer in peers])) == 1


def test_a_lane_whose_command_is_left_is_not_forgotten(house: House, notes: CommandNotes) -> None:
    house.lane("1")
    begin(house, notes)
    house.clock.advance(1000 * 86_400)
    assert house.sessions.prune_old_entries(30) == 0

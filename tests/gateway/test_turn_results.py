"""A client that waits for a message gets its result, whichever gateway ran it, and at any time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.errors import StoreUnreachable
from hermes_sessions.gateway.delivery import reply_to
from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.message_progress import (
    StoredOutcomes,
    live_or_stored_progress,
    progress_watcher,
)
from hermes_sessions.gateway.overview import ended_elsewhere
from hermes_sessions.gateway.platforms.port import Progress
from hermes_sessions.lifecycle.gateway_process import GatewayProcess
from hermes_sessions.lifecycle.mailboxes import Mailboxes, StartedTurn
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.repositories.leases import Lease
from hermes_sessions.storage.repositories.outbox import Outbox
from hermes_sessions_testing.platforms import RecordingServices

ANNA = SessionSource(Platform.API_SERVER, "anna")
TARGET = Target("api_server", "anna")


class Lane:
    """A lane in which turns begin and end."""

    def __init__(self, db: SessionDB, folder: Path) -> None:
        self.sessions = SessionStore(folder, GatewayConfig(write_sessions_json=False), db=db)
        self.mailboxes = Mailboxes(self.sessions.engine)
        self.outbox = Outbox(db.store, "default")
        self.endings = StoredOutcomes(db.store)
        self._process = GatewayProcess(self.sessions.engine)
        self._process.start()
        self._entry = self.sessions.get_or_create_session(ANNA)
        self._lease: Lease | None = None

    def receive(self, text: str) -> int:
        key = self.sessions.engine.key_of(ANNA)
        put = self.mailboxes.receive(key, sender="anna", text=text, origin=ANNA)
        assert put.item_id is not None
        return put.item_id

    def begin(self) -> StartedTurn:
        if self._lease is None:
            self._lease = self.sessions.db.take_lease(
                self._entry.session_id, self._process.holder()
            )
        (waiting,) = self.mailboxes.waiting_lanes()
        taken = self.mailboxes.take(waiting.lane_id, self._lease)
        assert taken is not None
        return taken

    def end(self, taken: StartedTurn, outcome: str, reply: str | None = None) -> None:
        def also(tx: object) -> None:
            if reply is not None:
                self.outbox.put_in(tx, reply_to(TARGET, reply, turn_id=taken.turn.id))  # type: ignore[arg-type]

        self.mailboxes.finish(taken.turn, outcome, also=also)  # type: ignore[arg-type]


@pytest.fixture
def lane(db: SessionDB, tmp_path: Path) -> Lane:
    return Lane(db, tmp_path)


def test_a_message_from_its_arrival_to_its_end(lane: Lane) -> None:
    item_id = lane.receive("Hi")
    assert lane.endings.find(item_id) is None
    taken = lane.begin()
    assert lane.endings.find(item_id) is None
    lane.end(taken, "completed", "Hello")
    assert lane.endings.find(item_id) == Progress("ended", "Hello", outcome="completed")


def test_a_message_that_was_answered_long_ago(lane: Lane) -> None:
    """The replies of others are not taken for its own."""
    first = lane.receive("One")
    lane.end(lane.begin(), "completed", "First")
    second = lane.receive("Two")
    lane.end(lane.begin(), "completed", "Second")
    assert lane.endings.find(first) == Progress("ended", "First", outcome="completed")
    assert lane.endings.find(second) == Progress("ended", "Second", outcome="completed")


def test_messages_without_an_answer(lane: Lane) -> None:
    failed = lane.receive("One")
    lane.end(lane.begin(), "failed", "It failed.")
    interrupted = lane.receive("Two")
    lane.end(lane.begin(), "interrupted")
    dropped = lane.receive("Three")
    (waiting,) = lane.mailboxes.waiting_lanes()
    lane.mailboxes.clear(waiting.lane_id, "stopped")
    assert lane.endings.find(failed) == Progress("ended", "It failed.", outcome="failed")
    assert lane.endings.find(interrupted) == Progress("ended", outcome="interrupted")
    assert lane.endings.find(dropped) == Progress("ended", outcome="dropped")
    assert lane.endings.find(999) == Progress("ended", outcome="dropped")


def test_messages_that_were_stopped(lane: Lane) -> None:
    """A client that waits gets the same outcome, however it came about."""
    stopped = lane.receive("One")
    taken = lane.begin()
    lane.mailboxes.stop(taken.lane, "stop")
    assert lane.endings.find(stopped) == Progress("ended", outcome="interrupted")
    assert ended_elsewhere(lane.sessions.engine.store, [stopped]) == [
        (stopped, Progress("ended", outcome="interrupted"))
    ]


async def nothing() -> AsyncIterator[Progress]:
    await asyncio.Event().wait()
    yield Progress("text", "never")


async def heard(progress: AsyncIterator[Progress]) -> list[Progress]:
    return [each async for each in progress]


def test_the_end_is_found_when_nothing_is_heard() -> None:
    ended = Progress("ended", "Hello", outcome="completed")
    answers = [None, StoreUnreachable("no"), None, ended]

    def find() -> Progress | None:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert asyncio.run(heard(live_or_stored_progress(nothing(), find, every=0.0))) == [ended]
    assert answers == []


def test_what_is_heard_is_told_as_it_is() -> None:
    happened = [Progress("text", "He"), Progress("ended", "Hello", outcome="completed")]

    async def speak() -> AsyncIterator[Progress]:
        for progress in [*happened, Progress("text", "too late")]:
            yield progress

    assert asyncio.run(heard(live_or_stored_progress(speak(), lambda: None))) == happened


def test_without_a_store_there_is_only_what_is_heard() -> None:
    services = RecordingServices()
    assert progress_watcher(services) == services.watch

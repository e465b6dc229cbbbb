"""Lease renewal during long work, on every database."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import pytest

from hermes_sessions.errors import ConversationHeld, StaleFence, UnknownSession
from hermes_sessions.lifecycle.conversation_lease import ConversationLease
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from tests.servers.stores import OpenStore


class Beats:
    """Lets the renewal thread continue when a test says so, and reports when it waits again."""

    def __init__(self) -> None:
        self._go: SimpleQueue[bool] = SimpleQueue()
        self._waits: SimpleQueue[float] = SimpleQueue()

    def wait(self, ending: threading.Event, seconds: float) -> bool:
        self._waits.put(seconds)
        return self._go.get() or ending.is_set()

    def waited(self) -> float:
        """Return for how long the thread wants to wait, once it does."""
        return self._waits.get(timeout=60)

    def beat(self) -> None:
        self._go.put(False)

    def end(self) -> None:
        self._go.put(True)


def test_held_and_given_back(db: SessionDB) -> None:
    db.create_session("s", "cli")
    with ConversationLease(db, "s", "a chat") as held:
        assert held.lease.session_id == "s"
        db.append_message("s", "user", "mine", fence=held.token)
        with pytest.raises(ConversationHeld, match="a chat"):
            db.append_message("s", "user", "no")
        with pytest.raises(ConversationHeld), ConversationLease(db, "s", "another"):
            pass
    assert db.lease_of("s") is None
    held.stop()
    with ConversationLease(db, "s", "another") as other:
        assert other.token > held.token
    assert not held.lost.is_set()


def test_given_back_when_something_goes_wrong(db: SessionDB) -> None:
    db.create_session("s", "cli")
    with pytest.raises(ZeroDivisionError), ConversationLease(db, "s", "a chat"):
        _ = 1 / 0
    assert db.lease_of("s") is None
    with pytest.raises(UnknownSession), ConversationLease(db, "missing", "a chat"):
        pass
    with pytest.raises(RuntimeError, match="No lease is held"):
        _ = ConversationLease(db, "s", "a chat").token


def test_kept_alive(db: SessionDB, clock: FrozenClock) -> None:
    db.create_session("s", "cli")
    beats = Beats()
    with ConversationLease(db, "s", "a chat", ttl=30, wait=beats.wait) as held:
        assert beats.waited() == 10
        for _ in range(5):
            clock.advance(20)
            beats.beat()
            beats.waited()
            assert held.lease.expires_at == clock() + 30
        with pytest.raises(ConversationHeld):
            db.take_lease("s", "another")
        beats.end()
    assert db.lease_of("s") is None


def test_it_follows_the_conversation(db: SessionDB) -> None:
    db.create_session("s", "cli")
    with ConversationLease(db, "s", "a chat") as held:
        db.continue_session("s", "t", fence=held.token)
        assert held.renew()
        with pytest.raises(ConversationHeld):
            db.append_message("t", "user", "no")
    db.append_message("t", "user", "free")


def test_a_loss_is_noticed(db: SessionDB, clock: FrozenClock) -> None:
    db.create_session("s", "cli")
    beats, told = Beats(), threading.Event()
    with ConversationLease(db, "s", "a chat", ttl=30, on_lost=told.set, wait=beats.wait) as held:
        beats.waited()
        clock.advance(30)
        other = db.take_lease("s", "another", ttl=600)
        beats.beat()
        assert told.wait(timeout=60)
        assert held.lost.is_set()
        assert not held.renew()
        with pytest.raises(StaleFence):
            db.append_message("s", "user", "late", fence=held.token)
    # Ending does not take from the other what it has.
    db.append_message("s", "user", "mine", fence=other.token)
    with pytest.raises(ConversationHeld):
        db.append_message("s", "user", "no")


def test_a_store_that_was_unavailable(
    db: SessionDB, open_another: OpenStore, clock: FrozenClock
) -> None:
    """The lease is renewed when the store is back, unless another holder took it, or it expires."""
    db.create_session("s", "cli")
    beats, own = Beats(), open_another()
    held = ConversationLease(own, "s", "a chat", ttl=30, wait=beats.wait).start()
    beats.waited()
    own.close()
    beats.beat()
    beats.waited()
    assert not held.lost.is_set()
    beats.end()
    held.stop()
    with pytest.raises(ConversationHeld):
        db.append_message("s", "user", "not yet")
    clock.advance(30)
    db.append_message("s", "user", "free")

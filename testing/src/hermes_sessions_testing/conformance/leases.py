"""Leases: one holder at a time, for a limited time, with a unique token."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from hermes_sessions.errors import ConversationHeld, InvalidInput, StaleFence
from hermes_sessions.storage.host_processes import host_name, this_process_mark
from hermes_sessions.storage.repositories.leases import Holder, Lease
from hermes_sessions.storage.repositories.processes import Processes
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.concurrency import THREADS, at_once
from hermes_sessions_testing.conformance.fixtures import OpenStore
from hermes_sessions_testing.conformance.helpers import contents, say

# Locks: one holder at a time may compact a session.


class TestCompressionLocks:
    """The compression lock is exclusive, can be renewed, and expires."""

    def test_one_holder(self, db: SessionDB) -> None:
        """Behaviour 94: a second holder is refused, the first can acquire it again."""
        db.create_session("s", "cli")
        assert db.get_compression_lock_holder("s") is None
        assert db.try_acquire_compression_lock("s", "a") is True
        assert db.try_acquire_compression_lock("s", "b") is False
        assert db.try_acquire_compression_lock("s", "a") is True
        assert db.get_compression_lock_holder("s") == "a"

    def test_locks_of_different_sessions(self, db: SessionDB) -> None:
        """Behaviour 94: locks of different sessions are independent."""
        for name in ("s", "t"):
            db.create_session(name, "cli")
        assert db.try_acquire_compression_lock("s", "a") is True
        assert db.try_acquire_compression_lock("t", "b") is True
        assert db.get_compression_lock_holder("t") == "b"

    def test_an_expired_lock_is_free(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 94: the lock of a dead holder expires."""
        db.create_session("s", "cli")
        assert db.try_acquire_compression_lock("s", "a", ttl_seconds=60) is True
        clock.advance(59)
        assert db.try_acquire_compression_lock("s", "b") is False
        clock.advance(2)
        assert db.get_compression_lock_holder("s") is None
        assert db.refresh_compression_lock("s", "a") is False
        assert db.try_acquire_compression_lock("s", "b") is True
        assert db.get_compression_lock_holder("s") == "b"

    def test_the_lock_of_a_process_that_ended_is_free(self, db: SessionDB) -> None:
        """At once if the holder's name shows that its process has ended on this host."""
        db.create_session("s", "cli")
        for ended in ended_processes():
            assert db.try_acquire_compression_lock("s", f"a chat {ended}") is True
            assert db.get_compression_lock_holder("s") is None
            assert db.try_acquire_compression_lock("s", "b") is True
            assert db.release_compression_lock("s", f"a chat {ended}") is False
            assert db.release_compression_lock("s", "b") is True
        for alive in processes_that_may_live():
            assert db.try_acquire_compression_lock("s", f"a chat {alive}") is True
            assert db.try_acquire_compression_lock("s", "b") is False
            assert db.release_compression_lock("s", f"a chat {alive}") is True

    def test_asking_again_extends(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 94: a refresh extends the lock for a long compaction."""
        db.create_session("s", "cli")
        db.try_acquire_compression_lock("s", "a", ttl_seconds=60)
        clock.advance(50)
        assert db.try_acquire_compression_lock("s", "a", ttl_seconds=60) is True
        clock.advance(50)
        assert db.refresh_compression_lock("s", "a", ttl_seconds=60) is True
        clock.advance(50)
        assert db.get_compression_lock_holder("s") == "a"

    def test_others_cannot_touch_it(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 94: a foreign refresh or release has no effect."""
        db.create_session("s", "cli")
        db.try_acquire_compression_lock("s", "a", ttl_seconds=60)
        assert db.release_compression_lock("s", "b") is False
        assert db.refresh_compression_lock("s", "b", ttl_seconds=600) is False
        assert db.get_compression_lock_holder("s") == "a"
        clock.advance(61)
        assert db.get_compression_lock_holder("s") is None

    def test_a_released_lock_is_free(self, db: SessionDB) -> None:
        """Behaviour 94: and can be released once."""
        db.create_session("s", "cli")
        db.try_acquire_compression_lock("s", "a")
        assert db.release_compression_lock("s", "a") is True
        assert db.release_compression_lock("s", "a") is False
        assert db.get_compression_lock_holder("s") is None
        assert db.try_acquire_compression_lock("s", "b") is True


class TestLeases:
    """Exclusive leases on conversations."""

    def test_taken_and_given_back(self, db: SessionDB, clock: FrozenClock) -> None:
        """Every handle sees who holds a lease."""
        say(db, "s", "one")
        assert db.lease_of("s") is None
        lease = db.take_lease("s", Holder("p1", "the gateway"), ttl=60)
        assert lease[:2] == ("s", "s")
        assert lease[3:] == ("the gateway", "p1", clock() + 60)
        assert db.lease_of("s") == ("s", lease.token, "the gateway", "p1", clock(), clock() + 60)
        db.release_lease(lease)
        db.release_lease(lease)
        assert db.lease_of("s") is None

    def test_one_holder(self, db: SessionDB, clock: FrozenClock) -> None:
        """A second request raises an error with the holder, also for the same holder."""
        say(db, "s", "one")
        db.take_lease("s", "a chat", ttl=60)
        clock.advance(59)
        for words in ("another chat", "a chat"):
            with pytest.raises(ConversationHeld, match="held by a chat since 2025-01-15 12:00:00"):
                db.take_lease("s", words)

    def test_an_expired_lease_is_taken_over(self, db: SessionDB, clock: FrozenClock) -> None:
        """Afterwards the first holder can neither write, renew nor release."""
        say(db, "s", "one")
        old = db.take_lease("s", "a chat", ttl=60)
        clock.advance(60)
        assert db.lease_of("s") is None
        new = db.take_lease("s", "another chat", ttl=60)
        assert new.token > old.token
        with pytest.raises(StaleFence, match="another chat"):
            db.append_message("s", "user", "late", fence=old.token)
        with pytest.raises(StaleFence):
            db.renew_lease(old)
        db.release_lease(old)
        db.append_message("s", "user", "mine", fence=new.token)
        held = db.lease_of("s")
        assert held is not None
        assert held.holder == "another chat"
        assert contents(db.get_messages("s")) == ["one", "mine"]

    def test_renewing_extends(self, db: SessionDB, clock: FrozenClock) -> None:
        """A renewal keeps the token, also across continuations."""
        say(db, "s", "one")
        lease = db.take_lease("s", "a chat", ttl=60)
        db.continue_session("s", "t", fence=lease.token)
        clock.advance(50)
        longer = db.renew_lease(lease, ttl=60)
        assert longer == lease._replace(expires_at=clock() + 60)
        clock.advance(50)
        with pytest.raises(ConversationHeld):
            db.take_lease("t", "another")
        db.append_message("t", "user", "mine", fence=lease.token)

    def test_a_clock_that_is_put_back_keeps_no_dead_holder(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """Otherwise the lease would last until the old time is reached again."""
        db.create_session("s", source="cli")
        gone = db.take_lease("s", "the first", ttl=60)
        clock.advance(3600)
        gone = db.renew_lease(gone, ttl=60)
        clock.advance(-1800)
        assert db.lease_of("s") is None
        lease = db.take_lease("s", "the second", ttl=60)
        assert lease.token > gone.token
        with pytest.raises(StaleFence):
            db.renew_lease(gone, ttl=60)

    def test_a_clock_that_is_put_back_takes_nothing_from_the_living(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """A small clock jump has no effect; after a larger one, a live holder can renew first."""
        db.create_session("s", source="cli")
        lease = db.take_lease("s", "the first", ttl=60)
        clock.advance(-50)
        with pytest.raises(ConversationHeld):
            db.take_lease("s", "the second", ttl=60)
        clock.advance(-3600)
        lease = db.renew_lease(lease, ttl=60)
        with pytest.raises(ConversationHeld):
            db.take_lease("s", "the second", ttl=60)
        held = db.lease_of("s")
        assert held is not None
        assert (held.token, held.expires_at) == (lease.token, clock() + 60)

    def test_since_when_it_is_held(self, db: SessionDB, clock: FrozenClock) -> None:
        """However often it was renewed."""
        db.create_session("s", source="cli")
        begun = clock()
        lease = db.take_lease("s", "the first", ttl=60)
        for _ in range(3):
            clock.advance(30)
            lease = db.renew_lease(lease, ttl=60)
        with pytest.raises(ConversationHeld) as error:
            db.take_lease("s", "the second", ttl=60)
        assert abs(error.value.since - begun) < 0.001
        held = db.lease_of("s")
        assert held is not None
        assert abs(held.taken_at - begun) < 0.001

    def test_tokens_only_grow(self, db: SessionDB, clock: FrozenClock) -> None:
        """Also where the clock stands still or is set back."""
        say(db, "s", "one")
        tokens = []
        for _ in range(5):
            lease = db.take_lease("s", "a chat")
            tokens.append(lease.token)
            db.release_lease(lease)
            clock.advance(days=-1)
        assert tokens == sorted(set(tokens))

    @pytest.mark.parametrize("ttl", [0, -1, float("inf"), float("nan"), True, "60"])
    def test_how_long(self, db: SessionDB, ttl: float) -> None:
        """The duration must be positive and finite."""
        say(db, "s", "one")
        with pytest.raises(InvalidInput, match="more than 0 seconds"):
            db.take_lease("s", "a chat", ttl=ttl)
        with pytest.raises(InvalidInput):
            db.take_lease("s", "")
        assert db.lease_of("s") is None

    def test_sessions_in_the_trash(self, db: SessionDB) -> None:
        """Trashed sessions cannot be held; a released lease does not return on restore."""
        say(db, "s", "one")
        lease = db.take_lease("s", "a chat")
        db.release_lease(lease)
        db.trash_sessions(["s"])
        db.release_lease(lease)
        assert db.lease_of("s") is None
        db.restore_sessions(["s"])
        db.append_message("s", "user", "free")


#: No process has this number.
_NOBODY: Final = 2**22 + 1


def ended_processes() -> list[str]:
    """Return the marks of processes of this host that are gone: nothing has the number, or another
    program does.
    """
    host = host_name()
    return [f"os-process:{host}:{_NOBODY}:1", f"os-process:{host}:{os.getpid()}:0"]


def processes_that_may_live() -> list[str]:
    """Return the marks of processes that may be alive: this one; one whose start is unknown; others
    on hosts that are not this one, however similar their names; and what is no mark at all.
    """
    host = host_name()
    elsewhere = [f"{host}0", host.partition("#")[0], "elsewhere#0123456789ab", ""]
    return [
        this_process_mark(),
        f"os-process:{host}:{os.getpid()}:",
        *(f"os-process:{each}:{_NOBODY}:1" for each in elsewhere),
        f"os-process:{host}:{_NOBODY}",
        f"os-process:{host}:one:1",
        f"{host}:{_NOBODY}:1",
    ]


class TestHoldersThatEnded:
    """A process of this host that was killed holds nothing, however long its lease lasts."""

    def test_its_lease_is_free(self, db: SessionDB) -> None:
        """The next holder gets a new token."""
        say(db, "s", "one")
        for ended in ended_processes():
            old = db.take_lease("s", Holder(ended, "a chat"), ttl=3600)
            assert db.lease_of("s") is None
            new = db.take_lease("s", "another chat")
            assert new.token > old.token
            with pytest.raises(StaleFence):
                db.append_message("s", "user", "late", fence=old.token)
            with pytest.raises(StaleFence):
                db.renew_lease(old)
            db.release_lease(new)

    def test_writes_without_a_lease(self, db: SessionDB) -> None:
        """Writes without a token succeed, as do ending and deleting the conversation."""
        for number, ended in enumerate(ended_processes()):
            name = f"s{number}"
            say(db, name, "one")
            db.take_lease(name, Holder(ended, "a chat"), ttl=3600)
            db.append_message(name, "user", "two")
            assert contents(db.get_messages(name)) == ["one", "two"]
            db.take_lease(name, Holder(ended, "a chat"), ttl=3600)
            assert db.delete_session(name)

    def test_nothing_is_taken_from_the_living(self, db: SessionDB) -> None:
        """Nor from processes that this host cannot check."""
        say(db, "s", "one")
        for alive in processes_that_may_live():
            lease = db.take_lease("s", Holder(alive, "a chat"), ttl=60)
            with pytest.raises(ConversationHeld):
                db.take_lease("s", "another chat")
            with pytest.raises(ConversationHeld):
                db.append_message("s", "user", "two")
            db.release_lease(lease)

    def test_a_registered_process(self, db: SessionDB) -> None:
        """Is found by its row."""
        say(db, "s", "one")
        processes = Processes(db.store)
        for host, is_free in ((host_name(), True), ("elsewhere#0123456789ab", False)):
            row = processes.register("bot", "gateway", host=host, pid=_NOBODY)
            lease = db.take_lease("s", Holder(row.id, "the gateway"), ttl=3600)
            assert (db.lease_of("s") is None) == is_free
            db.release_lease(lease)

    def test_whose_lease_it_is(self, db: SessionDB) -> None:
        """A holder without a process id gets the caller's; it is not shown to users."""
        say(db, "s", "one")
        lease = db.take_lease("s", "a chat")
        held = db.lease_of("s")
        assert held is not None
        assert (lease.process_id, held.process_id) == (None, None)


class TestLeasesAtOnce:
    """Many threads request the same conversation at once."""

    def test_one_gets_it(self, db: SessionDB, open_another: OpenStore) -> None:
        """One gets the lease; the others get an error."""
        say(db, "s", "one")
        handles = [open_another() for _ in range(THREADS)]

        def take(number: int) -> Lease | str:
            try:
                return handles[number].take_lease("s", f"chat {number}")
            except ConversationHeld as error:
                return error.holder

        got = at_once(take)
        [winner] = [lease for lease in got if isinstance(lease, Lease)]
        assert [one for one in got if one != winner] == [winner.holder] * (THREADS - 1)

    def test_no_write_of_the_old_holder_follows_the_take_over(
        self, db: SessionDB, clock: FrozenClock, open_another: OpenStore
    ) -> None:
        """The new holder sees every write of the old one, which can write no more."""
        say(db, "s", "one")
        for round_ in range(4):
            old = db.take_lease("s", "old", ttl=60)
            clock.advance(60)
            writer, taker = open_another(), open_another()
            wrote_some = threading.Event()

            def write(
                writer: SessionDB = writer, old: Lease = old, begun: threading.Event = wrote_some
            ) -> int:
                for number in range(1_000_000):
                    try:
                        writer.append_message("s", "user", number, fence=old.token)
                    except StaleFence:
                        return number
                    if number == 3:
                        begun.set()
                raise AssertionError("the old holder was never refused")

            with ThreadPoolExecutor(1) as pool:
                writing = pool.submit(write)
                wrote_some.wait()
                new = taker.take_lease("s", f"new {round_}")
                seen = taker.message_count("s")
                written = writing.result()
                assert written >= 4
                assert taker.message_count("s") == seen
            taker.release_lease(new)

    def test_one_writer_takes_an_expired_lease_away(
        self, db: SessionDB, clock: FrozenClock, open_another: OpenStore
    ) -> None:
        """And all of them write."""
        say(db, "s", "one")
        db.take_lease("s", "gone", ttl=60)
        clock.advance(60)
        handles = [open_another() for _ in range(THREADS)]
        at_once(lambda number: handles[number].append_message("s", "user", f"m{number}"))
        assert sorted(contents(db.get_messages("s"))[1:]) == [f"m{n}" for n in range(THREADS)]

    def test_taking_while_it_is_continued(self, db: SessionDB, open_another: OpenStore) -> None:
        """Either the lease covers the whole chain, or the continuation is refused."""
        for round_ in range(5):
            head = f"s{round_}"
            say(db, head, "one")
            taker, other = open_another(), open_another()

            def work(
                number: int, head: str = head, taker: SessionDB = taker, other: SessionDB = other
            ) -> Lease | None:
                if number:
                    return taker.take_lease(head, "a chat")
                try:
                    other.continue_session(head, f"{head} on")
                except ConversationHeld:
                    return None
                return None

            lease = at_once(work, 2)[1]
            assert lease is not None
            for name in db.get_compression_lineage(head):
                with pytest.raises(ConversationHeld):
                    db.append_message(name, "user", "no")
                db.append_message(name, "user", "yes", fence=lease.token)

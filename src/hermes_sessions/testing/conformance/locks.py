"""Locks: one holder at a time may compact a session."""

from __future__ import annotations

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.testing.clock import FrozenClock
from hermes_sessions.testing.conformance.leases import ended_processes, processes_that_may_live


class TestCompressionLocks:
    """The right to compact is exclusive, renewable and ends by itself."""

    def test_one_holder(self, db: SessionDB) -> None:
        """Behaviour 94: the second holder waits, the first may ask again."""
        db.create_session("s", "cli")
        assert db.get_compression_lock_holder("s") is None
        assert db.try_acquire_compression_lock("s", "a") is True
        assert db.try_acquire_compression_lock("s", "b") is False
        assert db.try_acquire_compression_lock("s", "a") is True
        assert db.get_compression_lock_holder("s") == "a"

    def test_locks_of_different_sessions(self, db: SessionDB) -> None:
        """Behaviour 94: one does not know of the other."""
        for name in ("s", "t"):
            db.create_session(name, "cli")
        assert db.try_acquire_compression_lock("s", "a") is True
        assert db.try_acquire_compression_lock("t", "b") is True
        assert db.get_compression_lock_holder("t") == "b"

    def test_an_expired_lock_is_free(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 94: whoever died does not block for ever."""
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
        """At once, where the name of the holder tells that it has ended on this host."""
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
        """Behaviour 94: so does a refresh, for a compaction that takes long."""
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

"""The right to compact a session: one holder at a time, for a limited time.

A holder whose name ends with the mark of a process (``host_processes.this_process``) has the lock
no longer than that process lives, where that can be told.
"""

from __future__ import annotations

from hermes_sessions.model.ids import require_bounded
from hermes_sessions.storage.host_processes import has_ended
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.store import Store


class CompressionLocks:
    """The rows of ``compression_locks``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def acquire(self, session_id: str, holder: str, ttl_seconds: float) -> bool:
        """See `SessionDB.try_acquire_compression_lock`."""
        require_bounded(session_id, "session id")
        now = self._store.clock()
        dialect = self._store.provider.dialect

        def work(tx: WriteTransaction) -> bool:
            row = tx.one("SELECT holder FROM compression_locks WHERE session_id = ?", (session_id,))
            ended = row[0] if row is not None and has_ended(row[0]) else holder
            # Taking over the lock of a holder that ended or was too slow, or renewing one's own,
            # changes the row; an insert succeeds only for the first. The row's lock decides
            # between rivals.
            if tx.run(
                "UPDATE compression_locks SET holder = ?, acquired_at = ?, expires_at = ? "
                "WHERE session_id = ? AND (holder IN (?, ?) OR expires_at <= ?)",
                (holder, now, now + ttl_seconds, session_id, holder, ended, now),
            ):
                return True
            return bool(
                tx.run(
                    dialect.insert_if_absent(
                        "compression_locks",
                        ("session_id", "holder", "acquired_at", "expires_at"),
                        ("session_id",),
                    ),
                    (session_id, holder, now, now + ttl_seconds),
                )
            )

        return self._store.provider.write(work)

    def refresh(self, session_id: str, holder: str, ttl_seconds: float) -> bool:
        """See `SessionDB.refresh_compression_lock`."""
        now = self._store.clock()
        return bool(
            self._store.provider.write(
                lambda tx: tx.run(
                    "UPDATE compression_locks SET expires_at = ? "
                    "WHERE session_id = ? AND holder = ? AND expires_at > ?",
                    (now + ttl_seconds, session_id, holder, now),
                )
            )
        )

    def release(self, session_id: str, holder: str) -> bool:
        """See `SessionDB.release_compression_lock`."""
        return bool(
            self._store.provider.write(
                lambda tx: tx.run(
                    "DELETE FROM compression_locks WHERE session_id = ? AND holder = ?",
                    (session_id, holder),
                )
            )
        )

    def holder(self, session_id: str) -> str | None:
        """See `SessionDB.get_compression_lock_holder`."""
        with self._store.provider.read() as tx:
            row = tx.one(
                "SELECT holder FROM compression_locks WHERE session_id = ? AND expires_at > ?",
                (session_id, self._store.clock()),
            )
        return row[0] if row and not has_ended(row[0]) else None

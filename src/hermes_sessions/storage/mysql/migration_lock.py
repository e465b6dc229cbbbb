"""The lock of a process that changes the tables.

On one server it is the server's own named lock. That is local to a node of a Galera cluster, so
there it is a row, which the cluster gives to one of several that insert it. The holder changes the
row before each statement. A dead holder no longer changes it, and after some time another
process takes the row over. This needs no clock that nodes share.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

import pymysql

from hermes_sessions.errors import StoreLocked
from hermes_sessions.storage.mysql.error_translation import number_of
from hermes_sessions.storage.mysql.server_session import ServerSession
from hermes_sessions.storage.mysql.transaction import with_values

logger = logging.getLogger(__name__)
T = TypeVar("T")

_DEADLOCK: Final = 1213
_NO_TABLE: Final = 1146
_KEY_EXISTS: Final = 1062
#: Attempts at a statement that conflicts with another node, and seconds between two.
_ATTEMPTS: Final = 20
_PAUSE: Final = 0.25
#: How often a waiting process finds the row unchanged before it takes it over. It counts checks,
#: not seconds: while tables are changed, nodes do not respond, and the holder cannot change it.
_LOOKS: Final = 120
#: Seconds between two changes of the row while the holder does something else for long.
_KEPT_EVERY: Final = 5.0
#: A row of ``write_marks``, with what its holder wrote last in the place of a message's id.
_ROW: Final = "migration"


@contextmanager
def migration_lock(
    session: ServerSession, seconds: int, create_table: Callable[[], None]
) -> Iterator[MigrationLock | None]:
    """Hold the lock in the block; None if other processes held it for all of *seconds*. *session*
    must not be in a transaction. *create_table* creates ``write_marks``.
    """
    lock = (_ClusterLock if session.is_galera else MigrationLock)(session, create_table)
    if not lock.is_acquired(seconds):
        yield None
        return
    try:
        yield lock
    finally:
        if session.connection.open:
            lock.release()


class MigrationLock:
    """The server's own lock."""

    def __init__(self, session: ServerSession, create_table: Callable[[], None]) -> None:
        self._session = session
        self._create_table = create_table
        [(database,)] = session.execute("SELECT DATABASE()").fetchall()
        # Lock names are shared by the whole server, and limited in length.
        digest = hashlib.sha256(str(database).encode()).hexdigest()[:32]
        self._name = f"hermes-sessions:{digest}"

    def is_acquired(self, seconds: int) -> bool:
        """Wait for the lock; return whether it is held now."""
        [(locked,)] = self._execute("SELECT GET_LOCK(?, ?)", self._name, seconds).fetchall()
        return bool(locked == 1)

    def renew(self) -> None:
        """Show that the holder is alive; call this before each change.

        Raises:
            StoreLocked: another process has taken the lock over.
        """

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Renew the lock regularly during the block, which must not use the session."""
        yield

    def release(self) -> None:
        """Give the lock back."""
        self._execute("SELECT RELEASE_LOCK(?)", self._name)

    def _execute(self, sql: str, *params: object) -> pymysql.cursors.Cursor:
        return self._session.execute(with_values(self._session.connection, sql, params))


class _ClusterLock(MigrationLock):
    """A row in the cluster."""

    _token = 0

    def is_acquired(self, seconds: int) -> bool:
        until = time.monotonic() + seconds
        seen: int | None = None
        looks = 0
        while not persistently(self._is_inserted):
            found = persistently(self._read)
            looks = looks + 1 if found == seen else 0
            seen = found
            if found is not None and looks >= _LOOKS and persistently(partial(self._swap, found)):
                logger.warning(
                    "a process that was changing the tables is gone; continuing its work"
                )
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(_PAUSE)
        return True

    def _is_inserted(self) -> bool:
        token = secrets.randbits(62)
        try:
            self._execute(
                "INSERT INTO write_marks (mark, message_id, marked_at) VALUES (?, ?, ?)",
                *(_ROW, token, time.time()),
            )
        except pymysql.Error as error:
            if number_of(error) == _NO_TABLE:
                self._create_table()
                return False
            if number_of(error) == _KEY_EXISTS:
                return False
            raise
        self._token = token
        return True

    def _read(self) -> int | None:
        row = self._execute("SELECT message_id FROM write_marks WHERE mark = ?", _ROW).fetchone()
        return None if row is None else int(row[0])

    def _swap(self, before: int) -> bool:
        token = secrets.randbits(62)
        cursor = self._execute(
            "UPDATE write_marks SET message_id = ?, marked_at = ? "
            "WHERE mark = ? AND message_id = ?",
            *(token, time.time(), _ROW, before),
        )
        if cursor.rowcount != 1:
            return False
        self._token = token
        return True

    def renew(self) -> None:
        if not persistently(partial(self._swap, self._token)):
            raise StoreLocked(
                "Another process has taken over the change of this store's tables. Open the store "
                "again."
            )

    @contextmanager
    def kept(self) -> Iterator[None]:
        is_over = threading.Event()

        def keep() -> None:
            while not is_over.wait(_KEPT_EVERY):
                try:
                    self.renew()
                except (StoreLocked, pymysql.Error) as error:
                    # The holder finds out with its next statement.
                    logger.warning("the lock of a migration was not renewed: %s", error)
                    return

        keeper = threading.Thread(target=keep, name="hermes-migration-lock", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            is_over.set()
            keeper.join()

    def release(self) -> None:
        persistently(
            lambda: self._execute(
                "DELETE FROM write_marks WHERE mark = ? AND message_id = ?", _ROW, self._token
            )
        )


def persistently(work: Callable[[], T]) -> T:
    """Run one repeatable statement, again if it conflicts with another node."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return work()
        except pymysql.Error as error:
            if number_of(error) != _DEADLOCK:
                raise
        time.sleep(_PAUSE / 10)
    return work()

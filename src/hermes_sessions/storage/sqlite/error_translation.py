"""Translate driver errors to the errors of this package, by table, keeping the cause."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import apsw

from hermes_sessions import errors

_FULL: Final = "no space is left on the device; the write was rolled back. Free some space first"
#: The only failure after which the write is stored: at the very end with a rollback journal.
_UNSURE: Final = (
    "disk I/O error while the end of a commit was made durable. The write is stored, but a power "
    "failure could still undo it. Check the disk; repeat the write only with its external_id"
)
_TRANSLATIONS: Final[tuple[tuple[type[apsw.Error], type[errors.StoreError], str], ...]] = (
    (
        apsw.BusyError,
        errors.StoreLocked,
        "database is locked by another connection. Try again, or end the program that holds it",
    ),
    (apsw.LockedError, errors.StoreLocked, "database table is locked within this process"),
    (
        apsw.ProtocolError,
        errors.StoreUnavailable,
        (
            "locking protocol failed; the file system may not support the locks SQLite needs. "
            "Move the store to a local disk, or set sessiondb.sqlite.journal to delete"
        ),
    ),
    (
        apsw.FullError,
        errors.DiskFull,
        _FULL,
    ),
    (
        apsw.ReadOnlyError,
        errors.StoreReadOnly,
        "attempt to write a readonly database. Check the permissions of the file and directory",
    ),
    (
        apsw.CantOpenError,
        errors.StoreUnreachable,
        "unable to open database file. Check that the path exists and that you may use it",
    ),
    (
        apsw.CorruptError,
        errors.StoreCorrupt,
        (
            "database disk image is malformed; nothing was changed. Keep the file; to see what is "
            "wrong and recover what can be read: hermes repair"
        ),
    ),
    (
        apsw.NotADBError,
        errors.NotADatabase,
        (
            "file is not a database; nothing was changed. Choose another path; if it was a store, "
            "recover what is left of it with: hermes repair"
        ),
    ),
    (apsw.ConstraintError, errors.ConstraintViolated, "constraint failed"),
    (apsw.MismatchError, errors.ConstraintViolated, "a value has the wrong type"),
    (apsw.SQLError, errors.StatementRefused, "the statement cannot be run"),
    (apsw.AuthError, errors.StatementRefused, "the statement is not allowed"),
    (apsw.BindingsError, errors.StatementRefused, "the parameters do not match the statement"),
    (
        apsw.IOError,
        errors.StoreIOError,
        "disk I/O error; an unfinished write was rolled back. Check the disk and its free space",
    ),
)
#: System errors for missing space, which SQLite reports as a failed write.
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ROOM_FOR_LOCKS: Final = 64 * 1024


def translate(
    error: apsw.Error, location: str, connection: apsw.Connection | None = None
) -> errors.StoreError:
    """Return the error of this package for a driver error, naming the store.

    The *connection* on which it happened may have more details.
    """
    # Errors raised by the driver itself have no SQLite code.
    code = getattr(error, "extendedresult", None)
    if code == apsw.SQLITE_IOERR_DIR_FSYNC:
        return errors.StoreIOError(f"{location}: {_UNSURE} ({error}).")
    if code == apsw.SQLITE_IOERR_SHMSIZE and _is_full(location):
        return errors.DiskFull(f"{location}: {_FULL} ({error}).")
    if isinstance(error, apsw.IOError) and connection and connection.system_errno in _NO_ROOM:
        return errors.DiskFull(f"{location}: {_FULL} ({os.strerror(connection.system_errno)}).")
    for driver_class, our_class, advice in _TRANSLATIONS:
        if isinstance(error, driver_class):
            return our_class(f"{location}: {advice} ({error}).")
    return errors.StoreError(f"{location}: {error}.")


def _is_full(path: str) -> bool:
    """Return whether there is no space beside a file for SQLite's locks."""
    try:
        facts = os.statvfs(os.path.dirname(path))
    except OSError:
        return False
    return facts.f_bavail * facts.f_frsize < _ROOM_FOR_LOCKS


@contextmanager
def translated(location: str) -> Iterator[None]:
    """Translate driver errors inside the block."""
    try:
        yield
    except apsw.Error as error:
        raise translate(error, location) from error

"""Every error Hermes Sessions raises, in one tree.

Each class is also a subclass of the builtin or ``sqlite3`` error that callers of the documented
API already catch, so ``except sqlite3.IntegrityError`` and ``except ValueError`` work on every
database. Providers translate driver errors to these classes and keep the cause. Messages end with
the next step.

::

    HermesSessionsError
    ├── InvalidInput (ValueError)             a value the caller passed cannot be used
    │   ├── InvalidTitle                      too long, or not text
    │   ├── TitleTaken                        another session has the title
    │   ├── MessageTooLarge                   over the size limit of one message
    │   └── AttachmentTooLarge                over the size limit of one attachment
    ├── ConfigError (ValueError)              config.yaml or the environment is wrong
    ├── NotFound (LookupError)                a session or message that must exist does not
    ├── ImportRefused (ValueError)            a file offered for import cannot be read
    ├── TransferRefused (ValueError)          sessions cannot be moved as asked
    ├── RetentionNotApproved (ValueError)     the retention limits were not approved
    ├── BackupRefused (ValueError)            a backup cannot be made, read or restored as asked
    │   └── BackupDamaged                     a backup differs from what was written
    └── StoreError (sqlite3.DatabaseError)    the database refused or failed
        ├── ConstraintViolated (sqlite3.IntegrityError)
        │   ├── UnknownSession                a write names a session that does not exist
        │   ├── StaleFence                    the writer no longer holds the conversation
        │   ├── ConversationHeld              another process holds the conversation
        │   ├── RevisionConflict              it changed since the caller read it
        │   └── OnHold                        the conversation must not be deleted
        ├── StatementRefused (sqlite3.OperationalError, sqlite3.ProgrammingError)
        ├── StoreUnavailable (sqlite3.OperationalError)
        │   ├── StoreLocked                   another process holds the write lock
        │   ├── StoreReadOnly                 file, directory or handle cannot be written
        │   ├── DiskFull                      no space left
        │   ├── StoreUnreachable              path or server cannot be opened
        │   │   ├── StoreRefused              the server refuses the user or the database
        │   │   └── StoreMissing              the store does not exist yet
        │   └── StoreIOError                  the disk failed a read or a write
        ├── StoreCorrupt                      the file is damaged
        │   └── BlobDamaged                   the bytes of a blob are not those that were stored
        ├── NotADatabase                      the file is something else
        ├── SchemaRefused                     written by a version this one must not write to
        ├── UnsafeStore (PermissionError)     owned by another user
        └── StoreClosed (sqlite3.ProgrammingError)
"""

from __future__ import annotations

import sqlite3
import time


class HermesSessionsError(Exception):
    """Base of all errors of this package; ``exit_code`` is the exit status of the command line."""

    exit_code = 1


class InvalidInput(HermesSessionsError, ValueError):
    """A value the caller passed cannot be used; nothing was written."""


class InvalidTitle(InvalidInput):
    """The title is too long or not text; nothing was written."""


class TitleTaken(InvalidInput):
    """Another session already has this title; nothing was written."""

    def __init__(self, title: str, holder: str) -> None:
        self.title = title
        self.holder = holder
        super().__init__(
            f"Title {title!r} is already in use by session {holder}. "
            f"Choose another title, or rename that session first."
        )


class MessageTooLarge(InvalidInput):
    """One message is over the size limit; nothing was written."""

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            f"The message is {size:,} bytes, over the limit of {limit:,} bytes. Store large "
            f"content elsewhere and keep a reference, or raise sessiondb.max_message_bytes."
        )


class AttachmentTooLarge(InvalidInput):
    """An attachment is over the size limit; nothing was written."""

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            f"An attachment of the message is {size:,} bytes, over the limit of {limit:,} bytes. "
            f"Store the file elsewhere and keep a link, or raise storage.attachments.max_bytes."
        )


class ConfigError(HermesSessionsError, ValueError):
    """The configuration is wrong; the message names key, value and what is allowed."""

    exit_code = 2


class NotFound(HermesSessionsError, LookupError):
    """A session, message or other item that must exist does not."""


class ImportRefused(HermesSessionsError, ValueError):
    """A file offered for import cannot be read as sessions; nothing was written."""


class TransferRefused(HermesSessionsError, ValueError):
    """Sessions cannot be moved between two stores as asked; the message says what to do."""


class BackupRefused(HermesSessionsError, ValueError):
    """A backup cannot be made, read or restored as asked; the message says what to do."""


class BackupDamaged(BackupRefused):
    """A backup differs from what was written; it was not used."""


class RetentionNotApproved(HermesSessionsError, ValueError):
    """The retention limits in force were not approved; nothing was deleted."""

    def __init__(self, *, changed: bool = False) -> None:
        """Explain what to approve; *changed* says that earlier limits were approved."""
        why = (
            "the limits changed after they were approved"
            if changed
            else "the limits have not been approved yet"
        )
        super().__init__(
            f"Nothing was deleted: {why}. To preview and approve them: "
            f"hermes sessions retention approve"
        )


class StoreError(HermesSessionsError, sqlite3.DatabaseError):
    """The database refused or failed; the write did not happen."""

    exit_code = 3


class ConstraintViolated(StoreError, sqlite3.IntegrityError):
    """A rule of the schema was broken; the write did not happen."""

    exit_code = 1


class UnknownSession(ConstraintViolated):
    """A write named a session that does not exist; nothing was written."""

    def __init__(self, session_id: str, role: str = "session") -> None:
        self.session_id = session_id
        super().__init__(
            f"FOREIGN KEY constraint failed: there is no {role} {session_id!r}. "
            f"Create it first with create_session()."
        )


class StaleFence(ConstraintViolated):
    """The fencing token no longer holds the conversation; nothing was written."""


class ConversationHeld(ConstraintViolated):
    """Another process holds the conversation, or a part of it; nothing was written."""

    def __init__(self, session_id: str, holder: str, since: float, until: float) -> None:
        """Describe the lease: *holder* in words, *since* and *until* in seconds since the epoch."""
        self.session_id = session_id
        self.holder = holder
        self.since = since
        self.until = until
        super().__init__(
            f"The conversation of session {session_id!r} has been held by {holder} since "
            f"{_utc('%Y-%m-%d %H:%M:%S', since)} UTC. Try again when it is done, or stop it "
            f"there; if it is gone, the conversation is free at {_utc('%H:%M:%S', until)} UTC."
        )


class RevisionConflict(ConstraintViolated):
    """Another writer changed a session or document since the caller read it; nothing was written.

    ``expected`` is the revision that the caller stated, ``actual`` the stored one.
    """

    def __init__(self, what: str, expected: int, actual: int) -> None:
        """*what* names what changed, such as ``Session 's1'``."""
        self.expected = expected
        self.actual = actual
        super().__init__(
            f"{what} is at revision {actual}, not {expected}: another writer changed it. Read it "
            f"again, then repeat the change with expected_revision={actual}."
        )


class OnHold(ConstraintViolated):
    """The conversation is on hold and cannot be deleted; nothing was changed."""

    def __init__(self, session_id: str, held: str, reason: str) -> None:
        """*held* is the session that carries the hold."""
        self.session_id = session_id
        self.reason = reason
        super().__init__(
            f"The conversation of session {session_id!r} is on hold ({reason}). To lift the hold: "
            f"hermes sessions unhold {held}"
        )


def _utc(form: str, when: float) -> str:
    return time.strftime(form, time.gmtime(when))


class StatementRefused(StoreError, sqlite3.OperationalError, sqlite3.ProgrammingError):
    """Raw SQL that the database cannot run: wrong names, syntax or parameters. Nothing was written.

    It subclasses both errors that ``sqlite3`` raises for invalid SQL.
    """

    exit_code = 1


class StoreUnavailable(StoreError, sqlite3.OperationalError):
    """The store cannot be used right now; the operation did not happen."""


class StoreLocked(StoreUnavailable):
    """Another process held the write lock for longer than the configured time."""


class StoreReadOnly(StoreUnavailable):
    """The store was opened for reading, or its file or directory cannot be written."""


class DiskFull(StoreUnavailable):
    """No space is left where the store lives; the write was rolled back."""


class StoreUnreachable(StoreUnavailable):
    """The path or server cannot be opened."""


class StoreRefused(StoreUnreachable):
    """The server refuses the user, the password or the database; retrying will not help."""


class StoreMissing(StoreUnreachable):
    """The location is reachable but has no store, and none may be created."""


class StoreIOError(StoreUnavailable):
    """The disk failed a read or a write; an unfinished write was rolled back."""


class StoreCorrupt(StoreError):
    """The file is damaged. It was not changed."""


class BlobDamaged(StoreCorrupt):
    """The bytes of a blob are not those that were stored; the rest of the store can be used."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        super().__init__(
            f"The blob {digest} is damaged: its bytes are not those that were stored. Store the "
            f"same bytes again with put_blob(), or restore a backup. To find all of them: "
            f"hermes doctor"
        )


class NotADatabase(StoreError):
    """The file is not a SQLite database. It was not changed."""


class SchemaRefused(StoreError):
    """The store was written by a version this one must not write to. It was not changed."""


class UnsafeStore(StoreError, PermissionError):
    """The file or its link belongs to another user and is not trusted."""


class StoreClosed(StoreError, sqlite3.ProgrammingError):
    """This handle was closed; open a new one."""

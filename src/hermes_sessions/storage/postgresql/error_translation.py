"""Translate the driver's errors to ours by a table, and keep the cause."""

from __future__ import annotations

from typing import Final

import psycopg

from hermes_sessions import errors
from hermes_sessions.storage.servers.driver import DriverErrors, Translation

#: For errors that only a bug in this package or damaged tables can explain.
_DOCTOR: Final = (
    "Run `hermes doctor`: another program may have changed the tables; if it finds nothing, report "
    "this as a defect"
)

#: By SQLSTATE, or its class (first two characters).
TRANSLATIONS: Final[dict[str, Translation]] = {
    "08": Translation(
        errors.StoreUnreachable,
        "the connection to the server failed",
        "Check that the server is running and reachable, then try again",
    ),
    "22": Translation(
        errors.ConstraintViolated,
        "a value does not fit its column",
        "Nothing was written: correct the value and try again",
    ),
    "23": Translation(
        errors.ConstraintViolated,
        "constraint failed",
        "Nothing was written: correct the value, or create first what it refers to",
    ),
    "25P03": Translation(
        errors.StoreUnreachable,
        "this process was silent for too long during a write",
        "Try again; if it happens often, give this machine more processor time",
    ),
    "25006": Translation(
        errors.StoreReadOnly,
        "the server, or this role, is read-only",
        "Connect to the primary server, or with a role that may write",
    ),
    "28": Translation(
        errors.StoreRefused,
        "the server refused the user or the password",
        "Check the user and the password in sessiondb.postgresql, and pg_hba.conf on the server",
    ),
    "3D000": Translation(
        errors.StoreRefused,
        "there is no such database",
        "Create it first, with CREATE DATABASE, or name another one",
    ),
    "3F000": Translation(
        errors.StoreRefused,
        "there is no such schema",
        "Create it, or name another one in sessiondb.postgresql.schema",
    ),
    "40": Translation(errors.StoreLocked, "the write conflicted with other writers", "Try again"),
    "42501": Translation(
        errors.StoreReadOnly,
        "this role may not do that",
        "Grant it what docs/servers.md lists under Rights, or use a role that may",
    ),
    "42": Translation(errors.StatementRefused, "the statement cannot be run", _DOCTOR),
    "53100": Translation(
        errors.DiskFull,
        "the server's disk is full; the write was rolled back",
        "Free space on the server, then try again",
    ),
    "53": Translation(
        errors.StoreUnavailable,
        "the server has no room or no free connection",
        "Try again; if this persists, raise max_connections or the memory of the server, or lower "
        "sessiondb.postgresql.max_connections",
    ),
    "55P03": Translation(
        errors.StoreLocked,
        "another writer held a lock for too long",
        "Try again, or raise lock_timeout",
    ),
    "57014": Translation(
        errors.StoreUnavailable,
        "the statement took longer than allowed",
        "Try again when the server is less busy, or raise statement_timeout",
    ),
    "57P": Translation(
        errors.StoreUnreachable, "the server is starting or shutting down", "Try again in a moment"
    ),
    "58": Translation(
        errors.StoreIOError,
        "the server's disk failed",
        "Check the server's log and check its disk",
    ),
    "XX": Translation(
        errors.StoreCorrupt,
        "the server found damage in its own data",
        "Check the server's log; restore a backup if the damage is real",
    ),
}
REFUSED: Final = Translation(
    errors.StoreRefused,
    "the server refused the user, the password or the database",
    "Check what sessiondb.postgresql says",
)
UNREACHABLE: Final = Translation(
    errors.StoreUnreachable,
    "the server cannot be reached",
    "Check that it is running, and check the address in sessiondb.postgresql",
)
MISUSED: Final = Translation(errors.StatementRefused, "the driver refused the statement", _DOCTOR)
OTHER: Final = Translation(
    errors.StoreError, "the server failed", "Check the server's log, then try again"
)
#: A server's last message to a client; the driver has no SQLSTATE for a failed login.
_LAST_WORDS: Final = "FATAL:"
#: Parts of messages from a server that accepts no connections at the moment.
_NOT_NOW: Final = (
    "starting up",
    "shutting down",
    "recovery mode",
    "not yet accepting connections",
    "terminating connection",
    "too many",
    "connection slots",
    "try again later",
)
#: Errors after which the same unit of work may succeed.
_AGAIN: Final = ("40001", "40P01")
#: A unique key was taken, or a row is referenced, perhaps by one that an isolated unit cannot see.
_COLLISIONS: Final = ("23505", "23503")
#: The connection was lost, or the server is shutting down.
_GONE: Final = ("25P03", "57P01", "57P02", "57P03", "57P05")


def translate(error: psycopg.Error, location: str) -> errors.StoreError:
    """Return our error for a driver's error, naming the server it happened on."""
    return _translation(error).error_at(location, _first_line(error))


def _translation(error: psycopg.Error) -> Translation:
    state = error.sqlstate or ""
    for length in (5, 3, 2):
        if len(state) >= length and (found := TRANSLATIONS.get(state[:length])):
            return found
    if isinstance(error, psycopg.OperationalError):
        said = str(error)
        if _LAST_WORDS in said and not any(words in said for words in _NOT_NOW):
            return REFUSED
        return UNREACHABLE
    if isinstance(error, (psycopg.ProgrammingError, psycopg.DataError, psycopg.InterfaceError)):
        return MISUSED
    return OTHER


def _first_line(error: psycopg.Error) -> str:
    primary = error.diag.message_primary
    return primary or str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


def is_retryable(error: psycopg.Error) -> bool:
    """Whether only this attempt failed: a conflict with another transaction, or a deadlock."""
    return error.sqlstate in _AGAIN


def is_collision(error: psycopg.Error) -> bool:
    """Whether a concurrent write may have caused the error."""
    return error.sqlstate in _COLLISIONS


def is_connection_lost(error: psycopg.Error, connection: psycopg.Connection | None) -> bool:
    """Whether the connection can no longer be used."""
    if error.sqlstate in _GONE or (error.sqlstate or "").startswith("08"):
        return True
    return connection is not None and connection.broken


DRIVER_ERRORS: Final = DriverErrors(
    psycopg.Error, translate, is_retryable, is_collision, is_connection_lost
)

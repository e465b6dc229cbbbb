"""Translates the driver's errors to ours, by table, with the cause kept."""

from __future__ import annotations

from typing import Final

import psycopg

from hermes_sessions import errors
from hermes_sessions.storage.servers.driver import DriverErrors

#: By SQLSTATE, or its class (first two characters).
_BY_STATE: Final[dict[str, tuple[type[errors.StoreError], str]]] = {
    "08": (errors.StoreUnreachable, "the connection to the server failed"),
    "22": (errors.ConstraintViolated, "a value does not fit its column"),
    "23": (errors.ConstraintViolated, "constraint failed"),
    "25P03": (errors.StoreUnreachable, "nothing was heard from here for too long amid a write"),
    "25006": (errors.StoreReadOnly, "the server, or this role, only reads"),
    "28": (errors.StoreRefused, "the server refused the user or the password"),
    "3D000": (errors.StoreRefused, "there is no such database. Create it first"),
    "3F000": (errors.StoreRefused, "there is no such schema. Create it, or name another one"),
    "40": (errors.StoreLocked, "other writers were in the way. Try again"),
    "42501": (errors.StoreReadOnly, "this role may not do that"),
    "42": (errors.StatementRefused, "the statement cannot be run"),
    "53100": (errors.DiskFull, "the server's disk is full; the write was rolled back"),
    "53": (errors.StoreUnavailable, "the server has no room or no free connection"),
    "55P03": (errors.StoreLocked, "another writer held what was needed for too long. Try again"),
    "57014": (errors.StoreUnavailable, "the statement took longer than allowed"),
    "57P": (errors.StoreUnreachable, "the server is starting or shutting down"),
    "58": (errors.StoreIOError, "the server's disk failed"),
    "XX": (errors.StoreCorrupt, "the server found damage in its own data"),
}
#: A server's last words to a client; of a login that fails, the driver has no SQLSTATE.
_LAST_WORDS: Final = "FATAL:"
#: Among them, those of a server that takes no more clients just now.
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
#: After these the same unit may succeed.
_AGAIN: Final = ("40001", "40P01")
#: A unique key; a row that others refer to, perhaps not in what an isolated unit sees.
_COLLISIONS: Final = ("23505", "23503")
#: The connection is gone, or the server goes.
_GONE: Final = ("25P03", "57P01", "57P02", "57P03", "57P05")


def translate(error: psycopg.Error, location: str) -> errors.StoreError:
    """Return our error for a driver's error, naming the server it happened on."""
    state = error.sqlstate or ""
    for length in (5, 3, 2):
        if len(state) >= length and (found := _BY_STATE.get(state[:length])):
            our_class, advice = found
            return our_class(f"{location}: {advice} ({_first_line(error)}).")
    if isinstance(error, psycopg.OperationalError):
        said = str(error)
        if _LAST_WORDS in said and not any(words in said for words in _NOT_NOW):
            return errors.StoreRefused(
                f"{location}: the server refused the user, the password or the database "
                f"({_first_line(error)}). Check what sessiondb.postgresql says."
            )
        return errors.StoreUnreachable(
            f"{location}: the server cannot be reached ({_first_line(error)}). Check that it runs "
            f"and that sessiondb.postgresql says where."
        )
    if isinstance(error, (psycopg.ProgrammingError, psycopg.DataError, psycopg.InterfaceError)):
        return errors.StatementRefused(f"{location}: {_first_line(error)}.")
    return errors.StoreError(f"{location}: {_first_line(error)}.")


def _first_line(error: psycopg.Error) -> str:
    primary = error.diag.message_primary
    return primary or str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


def is_retryable(error: psycopg.Error) -> bool:
    """Whether the server gave up this attempt only: a conflict with others, or a deadlock."""
    return error.sqlstate in _AGAIN


def is_collision(error: psycopg.Error) -> bool:
    """Whether it may be what others did since the unit looked."""
    return error.sqlstate in _COLLISIONS


def is_connection_lost(error: psycopg.Error, connection: psycopg.Connection | None) -> bool:
    """Whether nothing more will come over this connection."""
    if error.sqlstate in _GONE or (error.sqlstate or "").startswith("08"):
        return True
    return connection is not None and connection.broken


DRIVER_ERRORS: Final = DriverErrors(
    psycopg.Error, translate, is_retryable, is_collision, is_connection_lost
)

"""Translate the driver's errors to ours by a table, and keep the cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pymysql

from hermes_sessions import errors
from hermes_sessions.storage.servers.driver import DriverErrors, Translation

if TYPE_CHECKING:
    from hermes_sessions.storage.mysql.server_session import ServerSession

#: For errors that only a bug in this package or damaged tables can explain.
_DOCTOR: Final = (
    "Run `hermes doctor`: another program may have changed the tables; if it finds nothing, report "
    "this as a defect"
)


def _each(*numbers: int, error: type[errors.StoreError], says: str, then: str) -> _Table:
    return dict.fromkeys(numbers, Translation(error, says, then))


_Table = dict[int, Translation]
#: By the error number of the server or the driver.
TRANSLATIONS: Final[_Table] = {
    **_each(
        *(1020, 1213, 1412, 1467),
        error=errors.StoreLocked,
        says="the write conflicted with other writers",
        then="Try again",
    ),
    **_each(
        *(1205, 3572),
        error=errors.StoreLocked,
        says="another writer held a lock for too long",
        then="Try again, or raise lock_timeout",
    ),
    **_each(
        *(1053, 1152, 1158, 1159, 1160, 1161, 1927, 3169, 4031, 2006, 2013, 2014, 2055),
        error=errors.StoreUnreachable,
        says="the connection to the server failed",
        then="Check that the server is running and reachable, then try again",
    ),
    **_each(
        1047,
        error=errors.StoreUnreachable,
        says="this node is not part of the cluster's majority and accepts no statements",
        then="Wait until it rejoins the majority, or add the other nodes to the URL",
    ),
    **_each(
        1180,
        error=errors.StoreUnavailable,
        says="the server could not say whether it committed",
        then="Repeat the write with the same external_id, or first check whether it was stored",
    ),
    **_each(
        *(1044, 1045, 1130, 1251, 1698, 1820, 1862),
        error=errors.StoreRefused,
        says="the server refused the user or the password",
        then="Check the user and the password in sessiondb.mysql, and what the server grants them",
    ),
    **_each(
        1049,
        error=errors.StoreRefused,
        says="there is no such database",
        then="Create it first, with CREATE DATABASE, or name another one",
    ),
    **_each(
        *(1040, 1203, 1226),
        error=errors.StoreUnavailable,
        says="the server has no free connection",
        then="Try again; if this persists, raise max_connections of the server, or lower "
        "sessiondb.mysql.max_connections",
    ),
    **_each(
        *(1038, 1041, 1206),
        error=errors.StoreUnavailable,
        says="the server has no room for this",
        then="Give the server more memory, then try again",
    ),
    **_each(
        *(1142, 1143, 1227, 1370),
        error=errors.StoreReadOnly,
        says="this user may not do that",
        then="Grant it what docs/servers.md lists under Rights, or use another user",
    ),
    **_each(
        *(1209, 1290, 1792, 1836),
        error=errors.StoreReadOnly,
        says="the server, or this connection, is read-only",
        then="Connect to the server that accepts writes, or turn read_only off there",
    ),
    **_each(
        1419,
        error=errors.StoreReadOnly,
        says="this user may not create triggers while the server writes a binary log",
        then="Set log_bin_trust_function_creators = 1 on the server, or grant the user "
        "SUPER, and open the store again",
    ),
    **_each(
        1665,
        error=errors.StatementRefused,
        says="the server's binlog_format is not supported",
        then="Set binlog_format to ROW or MIXED on the server",
    ),
    **_each(
        1153,
        error=errors.StatementRefused,
        says="a statement is larger than the server accepts",
        then="Raise max_allowed_packet on the server",
    ),
    **_each(
        *(3, 1021, 1114),
        error=errors.DiskFull,
        says="the server's disk is full; the write was rolled back",
        then="Free space on the server, then try again",
    ),
    **_each(
        *(1023, 1024, 1026, 1030),
        error=errors.StoreIOError,
        says="the server's disk failed",
        then="Check the server's log and check its disk",
    ),
    **_each(
        *(1034, 1194, 1195, 1712, 1877),
        error=errors.StoreCorrupt,
        says="the server found damage in its own data",
        then="Check the server's log; restore a backup if the damage is real",
    ),
    **_each(
        *(1317, 1969, 3024),
        error=errors.StoreUnavailable,
        says="the statement took longer than allowed, or was stopped",
        then="Try again when the server is less busy, or raise statement_timeout",
    ),
    **_each(
        *(1048, 1062, 1216, 1217, 1364, 1451, 1452, 1586, 1761, 1762, 3819, 4025),
        error=errors.ConstraintViolated,
        says="constraint failed",
        then="Nothing was written: correct the value, or create first what it refers to",
    ),
    **_each(
        *(1264, 1265, 1292, 1366, 1406, 1690),
        error=errors.ConstraintViolated,
        says="a value does not fit its column",
        then="Nothing was written: correct the value and try again",
    ),
}
UNFIT: Final = Translation(
    errors.ConstraintViolated,
    "constraint failed",
    "Nothing was written: correct the value, or create first what it refers to",
)
MISUSED: Final = Translation(errors.StatementRefused, "the statement cannot be run", _DOCTOR)
UNREACHABLE: Final = Translation(
    errors.StoreUnreachable,
    "the server cannot be reached",
    "Check that it is running, and check the address in sessiondb.mysql",
)
OTHER: Final = Translation(
    errors.StoreError, "the server failed", "Check the server's log, then try again"
)
#: Errors after which the same unit of work may succeed. 1467: a deadlock over a generated number.
_AGAIN: Final = frozenset({1020, 1205, 1213, 1412, 1467, 3572})
#: A unique key was taken (by its number or by its name), or a row is referenced.
_COLLISIONS: Final = frozenset({1062, 1586, 1217, 1451})
#: The connection was lost, the server is shutting down, or the result of a commit is unknown.
_GONE: Final = frozenset(
    {
        0,
        1047,
        1053,
        1152,
        1158,
        1159,
        1160,
        1161,
        1927,
        3169,
        4031,
        1180,
        2003,
        2006,
        2013,
        2014,
        2055,
    }
)


#: The server has no free connection: another node may have one.
_FULL: Final = frozenset({1040, 1203})


def number_of(error: pymysql.Error) -> int | None:
    """Return the error number of the server or the driver."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else None


def translate(error: pymysql.Error, location: str) -> errors.StoreError:
    """Return our error for a driver's error, naming the server it happened on."""
    return _translation(error).error_at(location, _first_line(error))


def _translation(error: pymysql.Error) -> Translation:
    if found := TRANSLATIONS.get(number_of(error) or -1):
        return found
    if isinstance(error, (pymysql.err.IntegrityError, pymysql.err.DataError)):
        return UNFIT
    if isinstance(error, pymysql.err.ProgrammingError | pymysql.err.NotSupportedError):
        return MISUSED
    number = number_of(error) or 0
    if 2000 <= number < 3000 or isinstance(error, pymysql.err.InterfaceError):
        return UNREACHABLE
    if number < 2000 and isinstance(error, pymysql.err.OperationalError):
        return MISUSED
    return OTHER


def _first_line(error: pymysql.Error) -> str:
    text = str(error.args[-1]) if error.args else ""
    return text.strip().partition("\n")[0].rstrip(".") or type(error).__name__


def is_retryable(error: pymysql.Error) -> bool:
    """Whether only this attempt failed: a conflict with another transaction, or a deadlock."""
    return number_of(error) in _AGAIN


def is_collision(error: pymysql.Error) -> bool:
    """Whether a concurrent write may have caused the error."""
    return number_of(error) in _COLLISIONS


def is_connection_lost(error: pymysql.Error, lent: ServerSession | None) -> bool:
    """Whether the connection can no longer be used."""
    return number_of(error) in _GONE or (lent is not None and not lent.connection.open)


def is_node_unavailable(error: pymysql.Error) -> bool:
    """Whether another node of the same cluster may accept a connection that this one refuses."""
    return is_connection_lost(error, None) or number_of(error) in _FULL


DRIVER_ERRORS: Final = DriverErrors(
    pymysql.Error, translate, is_retryable, is_collision, is_connection_lost
)

"""The documented drop-in module: ``from hermes_state import SessionDB``.

It has every name that code for the documented system imports. `SessionDB` is
`hermes_sessions.SessionDB` with the private names that such code uses (``_conn``, ``_lock``,
``_execute_write``, ``db_path``), implemented on the shared engine. New code should import
`hermes_sessions`, which has public methods for the same purposes.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from hermes_sessions import SessionDB as _SessionDB
from hermes_sessions.model.computed_once import computed_once
from hermes_sessions.storage.logs import Logger

if TYPE_CHECKING:
    from pathlib import Path

    from hermes_sessions.storage.sqlite.migrations import DOCUMENTED_VERSION as SCHEMA_VERSION
    from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
    from hermes_sessions.storage.sqlite.raw_sql import BoundStatements, Statements

    SCHEMA_SQL: str

__all__ = [
    "DEFAULT_DB_PATH",
    "FTS_SQL",
    "FTS_TRIGRAM_SQL",
    "SCHEMA_SQL",
    "SCHEMA_VERSION",
    "SessionDB",
    "apply_wal_with_fallback",
    "format_session_db_unavailable",
    "get_last_init_error",
]

logger = Logger(__name__)
T = TypeVar("T")

if TYPE_CHECKING:
    #: Where the store is when nothing else is configured, as of the first use of this name.
    #: `SessionDB()` follows the environment and config.yaml at the time of the call, unless this
    #: name was set to another value.
    DEFAULT_DB_PATH: Path
_default_at_first_use: Path | None = None

#: The documented full-text tables, for code that sets up such tables of its own. The store does
#: not use them.
FTS_SQL: Final = "CREATE VIRTUAL TABLE IF NOT EXISTS messages_fts USING fts5(content);"
FTS_TRIGRAM_SQL: Final = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS messages_fts_trigram "
    "USING fts5(content, tokenize='trigram');"
)

_NO_WAL_MARKERS: Final = ("locking protocol", "not authorized", "disk i/o error")
_init_lock = threading.Lock()
_last_init_error: str | None = None
_labels_warned: set[str] = set()


class SessionDB(_SessionDB):
    """`hermes_sessions.SessionDB` with the private names that older code uses."""

    def __init__(self, db_path: str | Path | None = None, **options: Any) -> None:
        if db_path is None:
            named = globals().get("DEFAULT_DB_PATH")
            db_path = None if named == _default_at_first_use else named
        try:
            super().__init__(db_path, **options)
        except Exception as error:
            _set_last_init_error(f"{type(error).__name__}: {error}")
            raise
        self._lock = threading.RLock()
        self._file = self._sqlite.engine.path if self.provider.name == "sqlite" else None

    @property
    def db_path(self) -> Path:
        """The file behind this store, also when it is closed."""
        from pathlib import Path

        if self._file is None:
            raise AttributeError("only SQLite stores have a path")
        return Path(self._file)

    @computed_once
    def _conn(self) -> Statements:
        """A connection-like object; each statement is a transaction of its own."""
        from hermes_sessions.storage.sqlite.raw_sql import Statements

        return Statements(lambda: self._sqlite)

    def _execute_write(self, fn: Callable[[BoundStatements], T]) -> T:
        """Run *fn* with a connection-like object in one transaction."""
        return self._conn.transaction(fn)

    @property
    def _sqlite(self) -> SQLiteSessionDBProvider:
        from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider

        if not isinstance(self.provider, SQLiteSessionDBProvider):
            # Callers probe with getattr() for a connection to use.
            raise AttributeError("raw SQL exists on SQLite stores only")  # noqa: TRY004
        return self.provider


def get_last_init_error() -> str | None:
    """Return the last failure to open a store in this process, as ``Class: message``.

    A later success does not clear it, so that a parallel open cannot hide another thread's cause.
    """
    return _last_init_error


def _set_last_init_error(message: str | None) -> None:
    global _last_init_error  # noqa: PLW0603 - documented as a fact about the process
    with _init_lock:
        _last_init_error = message


def format_session_db_unavailable(prefix: str = "Session database not available") -> str:
    """Return one sentence for users: the prefix, the last cause, and a hint if there is one."""
    cause = get_last_init_error()
    if not cause:
        return f"{prefix}."
    hint = ""
    if any(marker in cause.lower() for marker in _NO_WAL_MARKERS):
        hint = (
            " (the file may be on a network or user-space file system such as NFS, SMB or FUSE, "
            "which does not support a write-ahead log: see sqlite.org/wal.html)"
        )
    return f"{prefix}: {cause.rstrip('.')}{hint}."


def _remembered_default() -> Path:
    from hermes_sessions.config import hermes_home

    global DEFAULT_DB_PATH, _default_at_first_use  # noqa: PLW0603 - others may replace the former
    DEFAULT_DB_PATH = _default_at_first_use = hermes_home() / "state.db"
    return DEFAULT_DB_PATH


class _Executes(Protocol):
    def execute(self, sql: str, /) -> Any: ...


def apply_wal_with_fallback(conn: _Executes, *, db_label: str = "state.db") -> str:
    """Switch a connection of the caller's own to write-ahead logging.

    Returns ``wal``, or ``delete`` where the file system does not support it (logged once per
    label). Any other failure is raised.
    """
    try:
        conn.execute("PRAGMA journal_mode=WAL")
    except sqlite3.OperationalError as error:
        if not any(marker in str(error).lower() for marker in _NO_WAL_MARKERS):
            raise
        conn.execute("PRAGMA journal_mode=DELETE")
        with _init_lock:
            first = db_label not in _labels_warned
            _labels_warned.add(db_label)
        if first:
            logger.warning(
                "%s: write-ahead logging is not possible here (%s); rollback journal is used",
                db_label,
                error,
            )
        return "delete"
    return "wal"


if not TYPE_CHECKING:  # a type checker would take any name for an existing one

    def __getattr__(name: str) -> object:
        # What a store is opened with is loaded when one is opened.
        if name == "DEFAULT_DB_PATH":
            return _remembered_default()
        from hermes_sessions.storage.sqlite import migrations

        if name == "SCHEMA_SQL":
            return migrations.script()
        if name == "SCHEMA_VERSION":
            return migrations.DOCUMENTED_VERSION
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Write-ahead logging for connections of the caller's own, to files that are not stores."""

from __future__ import annotations

import sqlite3
import threading
from typing import Any, Protocol

from hermes_sessions.drop_in.init_errors import NO_WAL_MARKERS
from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)
_lock = threading.Lock()
_labels_warned: set[str] = set()


class _Executes(Protocol):
    def execute(self, sql: str, /) -> Any: ...


def apply_wal_with_fallback(conn: _Executes, *, db_label: str = "state.db") -> str:
    """Switch a connection to write-ahead logging, unless its file has it already.

    Returns ``wal``, or ``delete`` where the file system does not support it (logged once per
    label). Any other failure is raised, and so is that of a file which another connection has
    switched meanwhile: the rollback journal would not match its log.
    """
    if _journal_mode(conn) == "wal":
        return "wal"
    try:
        conn.execute("PRAGMA journal_mode=WAL")
    except sqlite3.OperationalError as error:
        is_unsupported = any(marker in str(error).lower() for marker in NO_WAL_MARKERS)
        if not is_unsupported or _journal_mode(conn) == "wal":
            raise
        conn.execute("PRAGMA journal_mode=DELETE")
        _warn_once(db_label, error)
        return "delete"
    return "wal"


def _journal_mode(conn: _Executes) -> str | None:
    """Return the journal mode of the file; None if it cannot be read."""
    try:
        row = conn.execute("PRAGMA journal_mode").fetchone()
    except sqlite3.OperationalError:
        return None
    return str(row[0]).lower() if row else None


def _warn_once(label: str, error: Exception) -> None:
    with _lock:
        is_first = label not in _labels_warned
        _labels_warned.add(label)
    if is_first:
        logger.warning(
            "%s: write-ahead logging is not possible here (%s); rollback journal is used",
            label,
            error,
        )

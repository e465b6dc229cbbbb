"""The last failure to open a store, and a sentence about it for users."""

from __future__ import annotations

import threading
from typing import Final

#: What SQLite says where write-ahead logging does not work.
NO_WAL_MARKERS: Final = ("locking protocol", "not authorized")

_lock = threading.Lock()
_last_init_error: str | None = None


def get_last_init_error() -> str | None:
    """Return the last failure to open a store in this process, as ``Class: message``.

    A later success does not clear it, so that a parallel open cannot hide another thread's cause.
    """
    return _last_init_error


def set_last_init_error(message: str | None) -> None:
    """Record a failure to open a store; None forgets it."""
    global _last_init_error  # noqa: PLW0603 - documented as a fact about the process
    with _lock:
        _last_init_error = message


def format_session_db_unavailable(prefix: str = "Session database not available") -> str:
    """Return one sentence for users: the prefix, the last cause, and a hint if there is one."""
    cause = get_last_init_error()
    if not cause:
        return f"{prefix}."
    hint = ""
    if any(marker in cause.lower() for marker in NO_WAL_MARKERS):
        hint = (
            " (the file may be on a network or user-space file system such as NFS, SMB or FUSE, "
            "which does not support a write-ahead log: see sqlite.org/wal.html)"
        )
    return f"{prefix}: {cause.rstrip('.')}{hint}."

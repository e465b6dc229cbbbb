"""What a forked child gets from its parent, and must not: connections and imports in progress.

A connection that was in use believes to hold locks that stayed with the parent. Using it, and even
closing it, would act on the files behind the parent's back: roll back its transaction, or remove
its log. So the child lets it be.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Final

import apsw

_MOMENT: Final = 0.001


def unusable_after_fork(path: str) -> str:
    """Return what a child is told whose parent was using the store when it forked."""
    return (
        f"{path} was being used at the moment of a fork, so this child process cannot lock it. "
        f"Open the store in a process started afterwards, or fork while it is idle."
    )


def await_imports(until: float) -> None:
    """Wait until no thread is in the middle of importing a part of this package.

    Parts are imported when they are first used. In a child that is forked meanwhile such a module
    would stay half imported for ever, and whoever needs it would wait for a thread that is gone.
    Looks instead of importing, because that thread may wait for what the caller holds.
    """
    while time.monotonic() < until and any(
        name.startswith("hermes_sessions.") and _is_half_imported(module)
        for name, module in list(sys.modules.items())
    ):
        time.sleep(_MOMENT)


def _is_half_imported(module: object) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def abandon(connections: Iterable[apsw.Connection], *, in_use: Iterable[apsw.Connection]) -> None:
    """Make sure that this process never closes these connections, nor goes on with those *in_use*
    by the calling thread. The threads that used the others do not exist here.
    """
    import ctypes  # Only such a child pays for it.

    used = list(in_use)
    for connection in used:
        connection.authorizer = _deny
        if connection.txn_state("main") != apsw.SQLITE_TXN_WRITE:
            # A read fails at its next row. (Interrupting a write would roll it back.)
            connection.interrupt()
    for connection in [*used, *connections]:
        # A reference that is never given back: not even the end of the interpreter closes it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _deny(*_action: object) -> int:
    return apsw.SQLITE_DENY

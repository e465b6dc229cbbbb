"""What a forked child does with connections that its parent had in use: it lets them be.

Such a connection believes to hold locks that stayed with the parent. Using it, and even closing it,
would act on the files behind the parent's back: roll back its transaction, or remove its log.
"""

from __future__ import annotations

from collections.abc import Iterable

import apsw


def unusable_after_fork(path: str) -> str:
    """Return what a child is told whose parent was using the store when it forked."""
    return (
        f"{path} was being used at the moment of a fork, so this child process cannot lock it. "
        f"Open the store in a process started afterwards, or fork while it is idle."
    )


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

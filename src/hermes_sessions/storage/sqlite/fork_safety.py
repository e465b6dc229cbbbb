"""What a forked child must not inherit: connections and unfinished imports.

A connection that was in use believes that it holds locks, which stayed with the parent. Using or
even closing it would act on the files behind the parent's back: roll back its transaction, or
remove its log. So the child leaves it alone.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import apsw

_MOMENT: Final = 0.001


def forked_while_in_use(path: str) -> str:
    """Return the error message for a child whose parent used the store while forking."""
    return (
        f"{path} was in use at the moment of a fork, so this child process cannot lock it. "
        f"Open the store in a process started afterwards, or fork while it is idle and no other "
        f"SQLite library of the process (such as Python's sqlite3) has it open."
    )


def await_imports(until: float) -> None:
    """Wait until no thread is importing a module of this package.

    Modules are imported on first use. In a child forked meanwhile, the module would stay half
    imported forever, and its users would wait for a thread that does not exist. This only checks
    and never imports, because that thread may wait for a lock of the caller.
    """
    while time.monotonic() < until and any(
        name.startswith("hermes_sessions.") and _is_half_imported(module)
        for name, module in list(sys.modules.items())
    ):
        time.sleep(_MOMENT)


def _is_half_imported(module: object) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def abandon_connections(
    connections: Iterable[apsw.Connection], *, in_use: Iterable[apsw.Connection]
) -> None:
    """Make sure that this process never closes these connections, nor continues with those *in_use*
    by the calling thread. The threads that used the others do not exist here.
    """
    import ctypes  # Only a forked child needs it.

    used = list(in_use)
    for connection in used:
        connection.authorizer = _deny
        if connection.txn_state("main") != apsw.SQLITE_TXN_WRITE:
            # A read fails at its next row. (Interrupting a write would roll it back.)
            connection.interrupt()
    for connection in [*used, *connections]:
        # A reference that is never released: not even interpreter shutdown closes it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _deny(*_action: object) -> int:
    return apsw.SQLITE_DENY


def drop_inherited_locks(path: str) -> None:
    """Detach the inherited descriptors that hold locks on the log's index.

    Such a lock is the parent's, but it would last as long as this child has the file open: after
    the parent is killed, other processes would wait forever. SQLite still knows the numbers and
    addresses, so the descriptors now point to nothing, and the memory becomes a private copy.
    """
    try:
        index = os.stat(f"{path}-shm")
        descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return
    parted = False
    for descriptor in descriptors:
        try:
            is_locked = os.path.samestat(os.fstat(descriptor), index) and " OFDLCK " in Path(
                f"/proc/self/fdinfo/{descriptor}"
            ).read_text(encoding="utf-8")
        except OSError:
            continue  # The descriptor of the listing itself.
        if is_locked:
            nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(nowhere, descriptor, inheritable=False)
            os.close(nowhere)
            parted = True
    if parted:
        _copy_shared_memory(str(index.st_ino), f"{path}-shm")


def _copy_shared_memory(number: str, name: str) -> None:
    """Replace the shared memory of a file by private memory with the same content."""
    import ctypes
    import mmap

    map_memory = ctypes.CDLL(None, use_errno=True).mmap
    map_memory.restype = ctypes.c_void_p
    map_memory.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    fixed = 0x10  # MAP_FIXED, which Python does not define.
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        fields = line.split(None, 5)
        if len(fields) < 6 or fields[4] != number or fields[5] != name:
            continue
        first, last = (int(address, 16) for address in fields[0].split("-"))
        content = ctypes.string_at(first, last - first)
        allowed = mmap.PROT_READ | mmap.PROT_WRITE
        how = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | fixed
        if map_memory(first, len(content), allowed, how, -1, 0) == first:
            ctypes.memmove(first, content, len(content))

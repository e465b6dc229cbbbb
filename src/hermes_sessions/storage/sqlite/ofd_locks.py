"""Descriptor locks on the log's index instead of process locks (Linux).

SQLite uses POSIX record locks, which belong to the process. A second copy of SQLite in the process
(such as the standard library's) is granted every lock that this copy holds, and when it closes the
file, the kernel drops the locks of both. Two writers in one log, or a log that is reset under a
reader, destroy a store.

Linux also has locks that belong to the open file (``F_OFD_SETLK``). SQLite has no switch for them,
but a program may replace the system calls of its ``unix`` layer. The replacement is ten machine
instructions: a lock on one of the bytes that SQLite uses in the index of its log (120 to 128) is
requested for the descriptor, and every other call passes unchanged. The locks on the file itself
stay with the process, because SQLite has several descriptors of it; `wal_guard` protects that file.

Where this is impossible (another system or processor, a policy against executable memory, or
earlier open connections), `install` returns False, and `sqlite3_lock` does what is possible.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from typing import Final

import apsw

from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

#: fcntl(fd, cmd, lock): if cmd is F_GETLK, F_SETLK or F_SETLKW (5 to 7) and lock->l_start is 120 to
#: 128, set lock->l_pid = 0 and cmd += 31 (F_OFD_GETLK and so on). Then jump to the real function.
_CODE: Final = {
    "x86_64": (
        bytes.fromhex(
            "8d46fb"  # lea    eax, [rsi-5]
            "83f802"  # cmp    eax, 2
            "7718"  # ja     real
            "488b4208"  # mov    rax, [rdx+8]     ; l_start
            "4883e878"  # sub    rax, 120
            "4883f808"  # cmp    rax, 8
            "770a"  # ja     real
            "c7421800000000"  # mov    dword [rdx+24], 0 ; l_pid
            "83c61f"  # add    esi, 31
            "49bb"  # real: mov r11, ADDRESS
        ),
        bytes.fromhex(
            "31c0"  # xor    eax, eax         ; no vector registers
            "41ffe3"  # jmp    r11
        ),
    ),
    "aarch64": (
        struct.pack(
            "<12I",
            0x51001423,  # sub  w3, w1, #5
            0x7100087F,  # cmp  w3, #2
            0x540000E8,  # b.hi real
            0xF9400443,  # ldr  x3, [x2, #8]   ; l_start
            0xD101E063,  # sub  x3, x3, #120
            0xF100207F,  # cmp  x3, #8
            0x54000068,  # b.hi real
            0xB900185F,  # str  wzr, [x2, #24] ; l_pid
            0x11007C21,  # add  w1, w1, #31
            0x58000070,  # real: ldr x16, ADDRESS
            0xD61F0200,  # br   x16
            0xD503201F,  # nop
        ),
        b"",
    ),
}

#: Whether descriptor locks are in use; None before `install` was called.
_installed: bool | None = None


def install() -> bool:
    """Make all later connections lock the index of their log by descriptor.

    Returns whether they do; the first result holds for the life of the process.
    """
    global _installed  # noqa: PLW0603 - SQLite's table of system calls is one per process, too
    if _installed is None:
        try:
            _installed = _install()
        except (OSError, ValueError, AttributeError, ImportError, apsw.Error) as error:
            logger.debug("The log keeps process locks: %s", error)
            _installed = False
    return _installed


def _install() -> bool:
    if sys.platform != "linux" or sys.maxsize < 2**32 or any(map(_has_index, apsw.connections())):
        return False
    code = _CODE.get(os.uname().machine)
    if code is None:
        return False
    # SQLite's table of system calls is only reachable through a VFS, so register one.
    layer = apsw.VFS("hermes-sessions-system-calls", base="unix")
    try:
        real = layer.xGetSystemCall("fcntl")
        if real is None:
            return False
        before, after = code
        address = _executable(before + struct.pack("<Q", real) + after)
        layer.xSetSystemCall("fcntl", address)
    finally:
        layer.unregister()
    return True


def _has_index(connection: apsw.Connection) -> bool:
    # A lock that it already holds could not be released by another call.
    try:
        name = connection.filename
    except apsw.ConnectionClosedError:
        return False
    except apsw.ThreadingViolationError:
        return True  # In use by another thread, so it cannot be asked.
    return bool(name) and os.path.exists(f"{name}-shm")


def _executable(code: bytes) -> int:
    """Return the address of these instructions, which stay until the process ends.

    Handlers that run late at exit may still use connections, after the interpreter's objects are
    gone.
    """
    from _ctypes import Py_INCREF  # Importing all of ctypes would take longer than a list command.

    descriptor = os.memfd_create("hermes-sessions-locks", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, code)
        inode = os.fstat(descriptor).st_ino
        memory = mmap.mmap(
            descriptor, len(code), flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC
        )
    finally:
        os.close(descriptor)
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            fields = line.split(None, 5)
            if (
                len(fields) == 6
                and fields[4] == str(inode)
                and "hermes-sessions-locks" in fields[5]
            ):
                Py_INCREF(memory)
                return int(fields[0].partition("-")[0], 16)
    raise OSError("the mapping cannot be found")

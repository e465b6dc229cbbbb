"""Locks on the log's index that belong to a descriptor, not to the process (Linux).

SQLite locks with POSIX record locks. They belong to the process: a second copy of SQLite in it (the
standard library's, say) is granted every lock that this copy holds, and when it closes the file,
the kernel drops the locks of both. Two writers in one log, or a log that is reset below a reader,
are the end of a store.

Linux has locks that belong to the open file (``F_OFD_SETLK``). SQLite offers no switch for them,
but it lets a program replace the system calls of its ``unix`` layer. The replacement is ten machine
instructions: a lock on one of the bytes that SQLite uses in the index of its log (120 to 128) is
asked for in the descriptor's name, and every other call goes on unchanged. The locks on the file
itself stay the process's, because SQLite has several descriptors of it; `guard` protects that one.

Where this is impossible (another system or processor, a policy against memory with code, or
connections that were open before), `install` says so, and `neighbours` does what can be done there.
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

#: fcntl(fd, cmd, lock): where cmd is F_GETLK, F_SETLK or F_SETLKW (5 to 7) and lock->l_start is 120
#: to 128, set lock->l_pid = 0 and cmd += 31 (F_OFD_GETLK and so on). Then jump to the real one.
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

#: Whether the locks are the descriptor's; None before `install` was called.
_installed: bool | None = None


def install() -> bool:
    """Have every connection from now on lock the index of its log by descriptor.

    Returns whether it does; the first answer holds for the life of the process.
    """
    global _installed  # noqa: PLW0603 - SQLite's table of system calls is one per process, too
    if _installed is None:
        try:
            _installed = _install()
        except (OSError, ValueError, AttributeError, ImportError, apsw.Error) as error:
            logger.debug("the locks of the log stay the process's: %s", error)
            _installed = False
    return _installed


def _install() -> bool:
    if sys.platform != "linux" or sys.maxsize < 2**32 or any(map(_has_index, apsw.connections())):
        return False
    code = _CODE.get(os.uname().machine)
    if code is None:
        return False
    # A layer of our own under another name: the methods reach SQLite's table only through one.
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
    # A lock that it holds already could not be given back by another call.
    try:
        name = connection.filename
    except apsw.ConnectionClosedError:
        return False
    except apsw.ThreadingViolationError:
        return True  # At work in another thread, and does not tell.
    return bool(name) and os.path.exists(f"{name}-shm")


def _executable(code: bytes) -> int:
    """Return the address of these instructions, which stay until the process ends: connections may
    be used by handlers that run late at exit, and outlive the interpreter's objects.
    """
    from _ctypes import Py_INCREF  # The whole of ctypes takes longer to import than a list.

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

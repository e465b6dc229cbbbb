"""Processes of this host: which one is meant, whether it runs, and signals for that one alone.

Process numbers are reused, and mean something on one host only. So a process is named by its host,
its number and when the system started it, in the system's own words, which no clock changes: a
process that has the number and was started at another time is another program. The name of a host
changes with every boot and differs between containers, so that a process is only ever found dead
by one that sees the same process numbers.

A process of the ``processes`` table has these facts in its row. Everything else that a process
holds for a while (leases of chats, compression locks, claims) ends with `this_process_mark`.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

from hermes_sessions.storage.repositories.processes import Process

#: ``it`` runs; ``gone``: nobody has its number; ``another`` program has it; ``unknown``: somebody
#: has it, and the system or the row does not tell who.
ProcessMatch = Literal["it", "gone", "another", "unknown"]

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE: Final = Path("/proc/self/ns/pid")
_PROCESSES: Final = Path("/proc")
#: Where the system has no files of its processes, as on macOS.
_PS: Final = "/bin/ps"
_PS_SECONDS: Final = 10.0
_STARTED: Final = ".started-"
#: Begins the mark of `this_process_mark`; the host, the number and the start follow.
_MARK: Final = "os-process:"
#: Where the state and the start of a process are after its name, which may hold anything.
_STATE, _START = 0, 19


class _Seen(NamedTuple):
    """What the system says about a process."""

    #: It ended, and its number is kept until its parent has asked how.
    is_over: bool
    started: str


def host_name() -> str:
    """Return a name for this host that no other has, also where containers share its own: process
    numbers mean the same wherever it is the same.
    """
    parts = [_node_name(), _read(_BOOT_ID) or _hardware_address(), _pid_namespace()]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return f"{parts[0]}#{digest[:12]}"


def this_process_mark() -> str:
    """Return a mark by which `has_ended` recognises this process."""
    return _mark_of(os.getpid())


def is_mark(text: str | None) -> bool:
    """Tell whether a text is a mark of `this_process_mark`, and nothing else."""
    return text is not None and text.startswith(_MARK)


def has_ended(mark: str | None) -> bool:
    """Tell whether a text ends with the mark of a process that is certainly gone: one of this host
    whose number is free, or belongs to a program that was started at another time.

    False where that cannot be told: for a process of another host, and without a mark.
    """
    host, pid, started = _marked(mark)
    if host != host_name():
        return False
    return _found(pid, started) in {"gone", "another"}


def without_mark(text: str) -> str:
    """Return what stands before the mark of a process, for people."""
    return text.partition(_MARK)[0].rstrip()


def new_process_id(pid: int) -> str:
    """Return a new id for a process of this host, by which it is recognised."""
    seen = _look_at(pid)
    token = os.urandom(8).hex()
    return token if seen is None else f"{token}{_STARTED}{seen.started}"


def identify_process(process: Process) -> ProcessMatch:
    """Tell who has the number of a process that registered on this host."""
    return _found(process.pid, process.id.partition(_STARTED)[2])


def is_running(process: Process) -> bool:
    """Tell whether a process that registered on this host runs; where that cannot be told, it
    does.
    """
    return identify_process(process) in {"it", "unknown"}


def send_signal(process: Process, number: signal.Signals) -> ProcessMatch:
    """Signal a process that registered on this host, if it certainly is the one; return who was
    found. Nobody else is ever signalled.

    Raises:
        PermissionError: it is, and belongs to somebody else.
    """
    handle = _take_hold_of(process.pid)
    try:
        found = identify_process(process)
        if found == "it" and process.pid is not None:
            if handle is None:
                os.kill(process.pid, number)
            elif sys.platform == "linux":
                signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return "gone"
    else:
        return found
    finally:
        if handle is not None:
            os.close(handle)


# Once per process: a fork is another one.
@lru_cache(maxsize=1)
def _mark_of(pid: int) -> str:
    seen = _look_at(pid)
    return f"{_MARK}{host_name()}:{pid}:{'' if seen is None else seen.started}"


def _marked(text: str | None) -> tuple[str | None, int | None, str]:
    """Return the host, the number and the start in a mark; no host where there is no mark."""
    _, mark, facts = (text or "").rpartition(_MARK)
    parts = facts.split(":", 2)
    if not mark or len(parts) != 3 or not (parts[1].isascii() and parts[1].isdecimal()):
        return None, None, ""
    return parts[0], int(parts[1]), parts[2]


def _found(pid: int | None, started: str) -> ProcessMatch:
    if pid is None or os.name != "posix":
        return "unknown"
    if pid <= 0:
        return "gone"
    seen = _look_at(pid)
    if seen is None:
        return "unknown" if _has_owner(pid) else "gone"
    if seen.is_over:
        return "gone"
    if not started:
        return "unknown"
    return "it" if started == seen.started else "another"


def _take_hold_of(pid: int | None) -> int | None:
    """Return a descriptor that means whoever has the number now, also when it ends meanwhile;
    None where there is no such thing.
    """
    if sys.platform == "linux" and pid is not None:
        try:
            return os.pidfd_open(pid)
        except OSError:
            return None
    return None


def _look_at(pid: int) -> _Seen | None:
    """Return what the system says; None: nothing, whether or not somebody has the number."""
    if (_PROCESSES / "self/stat").exists():
        return _from_stat(pid)
    return _from_ps(pid)


def _from_stat(pid: int) -> _Seen | None:
    try:
        text = (_PROCESSES / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    after_name = text.rpartition(")")[2].split()
    # In ticks since the system started; which start that was is in the name of the host.
    return _Seen(after_name[_STATE] in {"Z", "X"}, after_name[_START])


def _from_ps(pid: int) -> _Seen | None:
    import subprocess  # Every command imports this module, and few systems need a program.

    try:
        told = subprocess.run(
            [_PS, "-o", "stat=", "-o", "lstart=", "-p", str(pid)],
            # The same words for everybody who asks.
            env={"LC_ALL": "C", "TZ": "UTC"},
            capture_output=True,
            text=True,
            timeout=_PS_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    state, _, started = told.stdout.strip().partition(" ")
    return _Seen(state.startswith("Z"), "-".join(started.split())) if started else None


def _has_owner(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _node_name() -> str:
    if os.name == "posix":
        return os.uname().nodename
    import platform

    return platform.node()


def _hardware_address() -> str:
    import uuid

    return str(uuid.getnode())


def _pid_namespace() -> str:
    try:
        return str(_PID_NAMESPACE.readlink())
    except OSError:
        return ""

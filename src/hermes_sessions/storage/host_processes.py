"""Processes of this host: identify them, check whether they run, and signal them.

Process ids are reused, and are valid on one host only. So a process is identified by its host, its
id and its start time as the system reports it, which clock changes do not affect: a process with
the same id and another start time is another program. The name of a host changes with every boot
and differs between containers, so only a process that sees the same process ids can find another
one dead.

A process of the ``processes`` table has these facts in its row. The holder of everything else that
a process holds for a while (leases of chats, compression locks, claims) ends with
`this_process_mark`.
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

#: ``it``: the process runs; ``gone``: no process has its id; ``another``: a different program has
#: it; ``unknown``: a process has it, and the system or the row does not tell which one.
ProcessMatch = Literal["it", "gone", "another", "unknown"]

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE: Final = Path("/proc/self/ns/pid")
_PROCESSES: Final = Path("/proc")
#: For systems without ``/proc``, such as macOS.
_PS: Final = "/bin/ps"
_PS_SECONDS: Final = 10.0
_STARTED: Final = ".started-"
#: Begins the mark of `this_process_mark`; the host, the process id and the start time follow.
_MARK: Final = "os-process:"
#: The fields with the state and the start time, counted after the name, which may contain blanks.
_STATE, _START = 0, 19


class _Seen(NamedTuple):
    """What the system reports about a process."""

    #: It ended, and its id stays in use until its parent has collected the exit status.
    is_over: bool
    started: str


def host_name() -> str:
    """Return a unique name for this host, also where containers share its node name. Processes with
    the same host name see the same process ids.
    """
    parts = [_node_name(), _read(_BOOT_ID) or _hardware_address(), _pid_namespace()]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return f"{parts[0]}#{digest[:12]}"


def this_process_mark() -> str:
    """Return a mark by which `has_ended` recognises this process."""
    return _mark_of(os.getpid())


def is_mark(text: str | None) -> bool:
    """Return whether *text* starts with a mark of `this_process_mark`, with nothing before it."""
    return text is not None and text.startswith(_MARK)


def has_ended(mark: str | None) -> bool:
    """Return whether *mark* ends with the mark of a process of this host that has certainly ended:
    its id is free, or belongs to a program with another start time.

    False if that is unknown: for a process of another host, and without a mark.
    """
    host, pid, started = _marked(mark)
    if host != host_name():
        return False
    return _found(pid, started) in {"gone", "another"}


def without_mark(text: str) -> str:
    """Return the text before the mark of a process, for display."""
    return text.partition(_MARK)[0].rstrip()


def new_process_id(pid: int) -> str:
    """Return a new row id for a process of this host, which includes its start time."""
    seen = _look_at(pid)
    token = os.urandom(8).hex()
    return token if seen is None else f"{token}{_STARTED}{seen.started}"


def identify_process(process: Process) -> ProcessMatch:
    """Return which process has the id of one that registered on this host."""
    return _found(process.pid, process.id.partition(_STARTED)[2])


def is_running(process: Process) -> bool:
    """Return whether a process that registered on this host runs; True if that is unknown."""
    return identify_process(process) in {"it", "unknown"}


def send_signal(process: Process, number: signal.Signals) -> ProcessMatch:
    """Signal a process that registered on this host, only if it is certainly the same process;
    return which process was found.

    Raises:
        PermissionError: the process belongs to another user.
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


# Cached per process id: a forked child has another one.
@lru_cache(maxsize=1)
def _mark_of(pid: int) -> str:
    seen = _look_at(pid)
    return f"{_MARK}{host_name()}:{pid}:{'' if seen is None else seen.started}"


def _marked(text: str | None) -> tuple[str | None, int | None, str]:
    """Return the host, process id and start time in a mark; the host is None without a mark."""
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
    """Return a descriptor of the process that has the id now, which stays bound to it after it
    ends; None where the system has no such descriptors, or no such process.
    """
    if sys.platform == "linux" and pid is not None:
        try:
            return os.pidfd_open(pid)
        except OSError:
            return None
    return None


def _look_at(pid: int) -> _Seen | None:
    """Return what the system reports; None if it reports nothing, even if the process exists."""
    if (_PROCESSES / "self/stat").exists():
        return _from_stat(pid)
    return _from_ps(pid)


def _from_stat(pid: int) -> _Seen | None:
    try:
        text = (_PROCESSES / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    after_name = text.rpartition(")")[2].split()
    # In ticks since the system booted; the name of the host identifies the boot.
    return _Seen(after_name[_STATE] in {"Z", "X"}, after_name[_START])


def _from_ps(pid: int) -> _Seen | None:
    import subprocess  # Every command imports this module, and few systems need ps.

    try:
        told = subprocess.run(
            [_PS, "-o", "stat=", "-o", "lstart=", "-p", str(pid)],
            # The same output in every locale and time zone.
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

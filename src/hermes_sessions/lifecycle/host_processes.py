"""Which process of this host a row of ``processes`` means, and signals for that one alone.

Numbers of processes are given out again. So the id under which a process registers ends with when
the system started it, in the system's own words, which no clock changes: whoever has the number
and was started at another time is another program.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, Literal, NamedTuple

from hermes_sessions.storage.repositories.processes import Process

#: ``it`` runs; ``gone``: nobody has its number; ``another`` program has it; ``unknown``: somebody
#: has it, and the system or the row does not tell who.
Found = Literal["it", "gone", "another", "unknown"]

_PROCESSES: Final = Path("/proc")
#: Where the system has no files of its processes, as on macOS.
_PS: Final = "/bin/ps"
_PS_SECONDS: Final = 10.0
_STARTED: Final = ".started-"
#: Where the state and the start of a process are after its name, which may hold anything.
_STATE, _START = 0, 19


class _Seen(NamedTuple):
    """What the system says about a process."""

    #: It ended, and its number is kept until its parent has asked how.
    is_over: bool
    started: str


def new_process_id(pid: int) -> str:
    """Return a new id for a process of this host, by which it is recognised."""
    seen = _look_at(pid)
    token = secrets.token_hex(8)
    return token if seen is None else f"{token}{_STARTED}{seen.started}"


def find_out(process: Process) -> Found:
    """Tell who has the number of a process that registered on this host."""
    if process.pid is None or os.name != "posix":
        return "unknown"
    if process.pid <= 0:
        return "gone"
    seen = _look_at(process.pid)
    if seen is None:
        return "unknown" if _has_owner(process.pid) else "gone"
    if seen.is_over:
        return "gone"
    started = process.id.partition(_STARTED)[2]
    if not started:
        return "unknown"
    return "it" if started == seen.started else "another"


def is_running(process: Process) -> bool:
    """Tell whether a process that registered on this host runs; where that cannot be told, it
    does.
    """
    return find_out(process) in {"it", "unknown"}


def send_signal(process: Process, number: signal.Signals) -> Found:
    """Signal a process that registered on this host, if it certainly is the one; return who was
    found. Nobody else is ever signalled.

    Raises:
        PermissionError: it is, and belongs to somebody else.
    """
    handle = _take_hold_of(process.pid)
    try:
        found = find_out(process)
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

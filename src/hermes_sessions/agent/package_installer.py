"""Installs packages from a lock file: exact versions with hashes, for the running Python."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from hermes_sessions.config.paths import process_environment

#: Runs a command in an environment; returns its exit status and output.
Run = Callable[[Sequence[str], dict[str, str]], tuple[int, str]]

#: Settings of pip that would install into another place.
_TARGET_SETTINGS: Final = ("PIP_PREFIX", "PIP_ROOT", "PIP_TARGET", "PIP_USER")
_LINES_SHOWN: Final = 5
#: The time limit of an installation, for slow connections.
_TIMEOUT: Final = 3600.0


def install(lock: Path, run: Run | None = None) -> tuple[int, str]:
    """Install exactly the packages of *lock*; return the installer's exit status and the end of its
    output. Retrying is safe.
    """
    environment = {k: v for k, v in process_environment().items() if k not in _TARGET_SETTINGS}
    status, output = (run or _run)(command_for(lock), environment)
    importlib.invalidate_caches()
    return status, "\n".join(output.strip().splitlines()[-_LINES_SHOWN:])


def command_for(lock: Path) -> tuple[str, ...]:
    """Return the command that installs what *lock* names."""
    return (
        *(sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"),
        *("--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", str(lock)),
    )


def _run(command: Sequence[str], environment: dict[str, str]) -> tuple[int, str]:
    try:
        result = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return 1, f"The installation did not finish within {_TIMEOUT / 60:.0f} minutes."
    return result.returncode, result.stdout

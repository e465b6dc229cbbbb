"""Install the packages of platforms that a clone of the project does not install by default."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

from hermes_sessions.agent.package_installer import Run, command_for, install
from hermes_sessions.errors import ConfigError

_HERE: Final = Path(__file__).parent
#: In the folder of a platform: exact versions, with hashes.
_LOCK: Final = "packages.lock"
_SOURCES: Final = 4


def runs_from_clone() -> bool:
    """Tell whether this Python runs in the environment that ``./hermes`` made for a clone."""
    root = _HERE.parents[_SOURCES - 1]
    return (root / "hermes").is_file() and Path(sys.prefix).resolve() == (root / ".venv").resolve()


def lock_of(platform: str) -> Path | None:
    """Return the lock file of a platform's packages, or None if it has none."""
    lock = _HERE / platform / _LOCK
    return lock if lock.is_file() else None


def command_to_install(platform: str) -> str | None:
    """Return the command that installs them from the lock file."""
    lock = lock_of(platform)
    return None if lock is None else shlex.join(command_for(lock))


def install_packages(platform: str, run: Run | None = None) -> None:
    """Install the packages of a platform into the environment of this Python.

    Raises:
        ConfigError: it failed; the message has the installer's output. Retrying is safe.
    """
    lock = lock_of(platform)
    if lock is None:
        raise ConfigError(f"There is no lock file for the packages of {platform}.")
    status, said = install(lock, run)
    if status != 0:
        raise ConfigError(f"The packages of {platform} could not be installed:\n{said}")

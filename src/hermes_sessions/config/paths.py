"""Paths: the home directory, the configuration file and the default store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hermes_sessions.errors import ConfigError

CONFIG_FILE_NAME = "config.yaml"
STORE_FILE_NAME = "state.db"
IMPORTED_STORE_FILE_NAME = "hermes-sessions.db"


def process_environment() -> Mapping[str, str]:
    """Return the environment of this process; nothing else in the package reads it."""
    return os.environ


def hermes_home(environ: Mapping[str, str] | None = None) -> Path:
    """Return the absolute home directory: ``HERMES_HOME``, or ``~/.hermes`` if unset or empty.

    ``~`` is expanded, a relative path is taken from the working directory, and links are left as
    they are. Nothing is created. Raises ConfigError when there is no home directory to expand.
    """
    environment = process_environment() if environ is None else environ
    return absolute_path(environment.get("HERMES_HOME") or "~/.hermes", environment)


def config_file_path(home: Path) -> Path:
    """Return the path of the configuration file, whether or not it exists."""
    return home / CONFIG_FILE_NAME


def default_store_path(home: Path) -> Path:
    """Return the SQLite file used when none is configured: ``state.db`` in the home directory.

    Another program may keep a ``state.db`` of a later format there, which is never touched;
    ``hermes sessions import`` copies it to ``hermes-sessions.db``, which is the default from then
    on. A link of that name counts even if its target is missing: a store on a disk that is not
    mounted must not look like one that does not exist.
    """
    imported = home / IMPORTED_STORE_FILE_NAME
    try:
        imported.lstat()
    except OSError:
        return home / STORE_FILE_NAME
    return imported


def absolute_path(
    text: str | os.PathLike[str], environ: Mapping[str, str], base: Path | None = None
) -> Path:
    """Return ``text`` as an absolute path, relative ones under ``base`` (working directory).

    Raises ConfigError when ``~`` or the working directory cannot be resolved.
    """
    path = _expand_user(Path(text), environ)
    if path.is_absolute():
        return path
    if base is not None:
        return base / path
    try:
        return path.absolute()
    except FileNotFoundError as error:
        raise ConfigError(
            f"The relative path {str(path)!r} cannot be resolved: the working directory no longer "
            f"exists. Use an absolute path, or change to another directory."
        ) from error


def _expand_user(path: Path, environ: Mapping[str, str]) -> Path:
    first = path.parts[0] if path.parts else ""
    if not first.startswith("~"):
        return path
    user_home = environ.get("HOME")
    if first == "~" and user_home:
        return Path(user_home, *path.parts[1:])
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"{first!r} in {str(path)!r} has no known home directory. "
            f"Set HERMES_HOME, or use an absolute path."
        ) from error

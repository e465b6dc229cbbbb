"""Load the settings of a home directory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from hermes_sessions.config.key_types import Key, ParseContext
from hermes_sessions.config.paths import (
    absolute_path,
    config_file_path,
    hermes_home,
    process_environment,
)
from hermes_sessions.config.sections import SettingsSection, default_section
from hermes_sessions.config.settings import Settings


def load_settings(
    home: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """Return the settings of ``home`` (default: ``HERMES_HOME``, else ``~/.hermes``).

    Reads ``config.yaml`` there if it exists and replaces ``${VAR}`` from ``environ`` (default: the
    environment of the process), or from the file ``.env`` there. Creates nothing and keeps nothing
    between calls.

    Raises:
        ConfigError: the file has problems; the message lists all of them. Likely mistakes that do
            not stop anything are in ``Settings.warnings``.
    """
    environment = process_environment() if environ is None else environ
    root = hermes_home(environment) if home is None else absolute_path(home, environment)
    path = config_file_path(root)
    if not _is_something_configured(path, environment):
        return default_settings(root)
    from hermes_sessions.config.env_file import EnvironmentWithFile, env_file_path
    from hermes_sessions.config.resolver import resolve

    kept = EnvironmentWithFile(environment, env_file_path(root))
    return resolve(path, ParseContext(root, environment, kept))


def _is_something_configured(path: Path, environ: Mapping[str, str]) -> bool:
    if any(environ.get(variable) for variable in _variables(Settings)):
        return True
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        # It exists and cannot be examined, or its parent is not a directory: reading it says so.
        return True
    return True


def _variables(section: type[SettingsSection]) -> Iterator[str]:
    """Yield the environment variables that override keys."""
    for field in section.fields.values():
        if isinstance(field, Key):
            yield from field.environment
        elif field is not None and field.placeholder is None:
            yield from _variables(field.section)


def default_settings(home: Path) -> Settings:
    """Return the settings of ``home`` when nothing is configured; reads no file."""
    return default_section(Settings, home, home=home, warnings=())

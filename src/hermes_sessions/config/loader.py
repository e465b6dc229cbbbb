"""The settings of a home directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from hermes_sessions.config.key_types import ParseContext
from hermes_sessions.config.keys import FIXED_KEYS, NAMED_SECTIONS, declared_path
from hermes_sessions.config.paths import (
    absolute_path,
    config_file_path,
    hermes_home,
    process_environment,
)
from hermes_sessions.config.settings import SECTION_CLASSES, NamedValues, Settings


def load_settings(
    home: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """Return the settings of ``home`` (default: ``HERMES_HOME``, else ``~/.hermes``).

    Reads ``config.yaml`` there if it exists and replaces ``${VAR}`` from ``environ`` (default: the
    environment of the process), or from the file ``.env`` there. Creates nothing and keeps nothing
    between calls. Raises ConfigError with every problem of the file at once; what is merely odd is
    in ``Settings.warnings``.
    """
    environment = process_environment() if environ is None else environ
    root = hermes_home(environment) if home is None else absolute_path(home, environment)
    path = config_file_path(root)
    if not _is_something_configured(path, environment):
        return default_settings(root)
    from hermes_sessions.config.env_file import EnvironmentWithFile, env_file_path
    from hermes_sessions.config.resolver import resolve

    kept = EnvironmentWithFile(environment, env_file_path(root))
    values, warnings = resolve(path, ParseContext(root, environment, kept))
    return _build(values, root, warnings)


def _is_something_configured(path: Path, environ: Mapping[str, str]) -> bool:
    if any(environ.get(variable) for key in FIXED_KEYS for variable in key.environment):
        return True
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        # It is there and cannot be looked at, or its directory is no directory: reading it says so.
        return True
    return True


def default_settings(home: Path) -> Settings:
    """Return the settings of ``home`` as they are when nothing is configured; reads no file."""
    return _build({key.path: key.default_value(home) for key in FIXED_KEYS}, home, ())


def _build(values: Mapping[str, object], home: Path, warnings: tuple[str, ...]) -> Settings:
    """Return the settings with these values, by the paths of their keys."""
    always = (path for path in (*SECTION_CLASSES, *NAMED_SECTIONS) if "<" not in path)
    fields: dict[str, dict[str, object]] = {section: {} for section in always}
    fields[""].update(home=home, warnings=warnings)
    for path, value in values.items():
        section, _, name = path.rpartition(".")
        while section not in fields:
            fields[section] = {}
            section = section.rpartition(".")[0]
        fields[path.rpartition(".")[0]][name] = value
    # Inner sections first: an outer one holds the finished inner ones.
    for path in sorted(fields, key=lambda path: path.count("."), reverse=True):
        if path:
            outer, _, name = path.rpartition(".")
            fields[outer][name] = _section(path, fields[path])
    return cast("Settings", SECTION_CLASSES[""](**fields[""]))


def _section(path: str, fields: dict[str, object]) -> object:
    declared = declared_path(path)
    return (
        NamedValues(fields) if declared in NAMED_SECTIONS else SECTION_CLASSES[declared](**fields)
    )

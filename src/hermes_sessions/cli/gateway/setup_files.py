"""The files that ``hermes gateway setup`` previews and writes: config.yaml and .env."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from hermes_sessions.cli.files import FileRefused, atomic_write
from hermes_sessions.config import config_file_path, load_settings
from hermes_sessions.config.env_file import (
    env_file_path,
    read_env_file,
    variables_in,
    with_variables,
)
from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.config.yaml_editor import Value, with_platform
from hermes_sessions.errors import ConfigError

_OWNER_ONLY = 0o600


class Written(NamedTuple):
    """The files that were written."""

    config: Path
    #: The copy of the previous configuration, if there was one and it changed.
    backup: Path | None
    #: The file with the secrets, if any were saved.
    secrets: Path | None


class ConfigFiles:
    """The config.yaml of a home, and the .env beside it."""

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        """Read config.yaml.

        Raises:
            ConfigError: it cannot be read.
        """
        self._home = home
        self.path = config_file_path(home)
        self._environ = environ
        self._variables = env_file_path(home)
        self._text = _read(self.path)

    @property
    def variables(self) -> dict[str, str]:
        """The variables that ``${VAR}`` can name: those in .env, overridden by the environment."""
        return {**variables_in(read_env_file(self._variables)), **self._environ}

    def platform(
        self, name: str, values: Mapping[str, Value], secrets: Mapping[str, str]
    ) -> PlatformSettings:
        """Return the settings that a platform would have with these keys; write nothing.

        Raises:
            NotEditable: the file cannot be changed automatically.
            ConfigError: the result is not a valid configuration.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = config_file_path(Path(folder))
            path.write_bytes(self._edited(name, values).encode())
            try:
                settings = load_settings(folder, {**self.variables, **secrets})
            except ConfigError as error:
                raise ConfigError(str(error).replace(str(path), str(self.path))) from error
        return settings.platforms[name]

    def write(
        self, name: str, values: Mapping[str, Value], secrets: Mapping[str, str], now: float
    ) -> Written:
        """Write .env, then config.yaml, each atomically; keep a copy of the old config.yaml.

        Raises:
            NotEditable, ConfigError: nothing was written.
            FileRefused: a file cannot be written. If .env was already written, it is complete.
        """
        edited = self._edited(name, values)
        if _read(self.path) != self._text:
            raise ConfigError(f"{self.path} was changed by another program. Try again.")
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if secrets:
            self._keep(secrets)
        backup = None
        if edited != self._text:
            backup = self._back_up(now)
            with atomic_write(str(self.path), replace=True) as file:
                file.write(edited.encode())
        return Written(self.path, backup, self._variables if secrets else None)

    def _edited(self, name: str, values: Mapping[str, Value]) -> str:
        return with_platform(self._text, name, values)

    def _keep(self, secrets: Mapping[str, str]) -> None:
        text = with_variables(read_env_file(self._variables), secrets)
        try:
            if self._variables.exists():
                self._variables.chmod(_OWNER_ONLY)
        except OSError as error:
            raise FileRefused(
                f"Cannot restrict access to {self._variables}: {error.strerror}."
            ) from error
        with atomic_write(str(self._variables), replace=True) as file:
            file.write(text.encode())

    def _back_up(self, now: float) -> Path | None:
        if not self.path.exists():
            return None
        moment = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
        backup = self.path.with_name(f"{self.path.name}.{moment}.bak")
        with atomic_write(str(backup), replace=True) as file, self.path.open("rb") as before:
            shutil.copyfileobj(before, file)
        return backup


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        # It was readable when the settings were loaded a moment ago.
        raise ConfigError(f"{path} can no longer be read. Try again.") from None

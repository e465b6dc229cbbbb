"""The file ``.env`` beside the configuration: values for ``${VAR}`` that the environment lacks.

Shells and systemd can read it as well. It is used for ``${VAR}`` only: a variable that overrides a
setting, such as ``SESSION_IDLE_MINUTES``, must be set in the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from hermes_sessions.errors import ConfigError

ENV_FILE_NAME: Final = ".env"

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_ASSIGNMENT: Final = re.compile(rf"\s*(?:export\s+)?({_NAME})\s*=\s*(.*?)\s*")
_DOUBLE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_SINGLE: Final = re.compile(r"'([^']*)'\s*(?:#.*)?")
_COMMENT: Final = re.compile(r"(?:^|\s)#.*")
_ESCAPED: Final = re.compile(r'\\(["\\$`])')
_TO_ESCAPE: Final = re.compile(r'["\\$`]')
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:@%+,=-]+")


def env_file_path(home: Path) -> Path:
    """Return the path of the file, whether or not it exists."""
    return home / ENV_FILE_NAME


class EnvironmentWithFile(Mapping[str, str]):
    """The variables of an environment, then those of a file, which is read when one is missing.

    Raises ConfigError at that moment if the file cannot be read. A missing file has no variables.
    """

    def __init__(self, environ: Mapping[str, str], path: Path) -> None:
        self._environ = environ
        self._path = path
        self._kept: dict[str, str] | None = None

    def __getitem__(self, name: str) -> str:
        if name in self._environ:
            return self._environ[name]
        return self._in_file()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._environ, *self._in_file()]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _in_file(self) -> dict[str, str]:
        if self._kept is None:
            self._kept = variables_in(read_env_file(self._path))
        return self._kept


def read_env_file(path: Path) -> str:
    """Return the text of the file; empty if it does not exist.

    Raises ConfigError when it cannot be read. No message repeats its contents.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}. Give yourself permission to read it, or "
            f"set the variables in the environment and remove the file."
        ) from error
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8. Save it with that encoding.") from None


def variables_in(text: str) -> dict[str, str]:
    """Return the variables, the last value of each name; other lines are skipped."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if match := _ASSIGNMENT.fullmatch(line):
            found[match[1]] = _value(match[2])
    return found


def with_variables(text: str, values: Mapping[str, str]) -> str:
    """Return the text of the file with these variables set; other lines stay as they are.

    Raises:
        ConfigError: a value has several lines.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        del lines[-1]
    for name, value in values.items():
        if "\n" in value or "\r" in value or "\0" in value:
            raise ConfigError(f"{name} must be a single line.")
        lines_of_name = [at for at, line in enumerate(lines) if _assigns(line, name)]
        for at in reversed(lines_of_name[1:]):
            del lines[at]
        written = f"{name}={_written(value)}"
        if lines_of_name:
            lines[lines_of_name[0]] = written
        else:
            lines.append(written)
    return "".join(f"{line}\n" for line in lines)


def _assigns(line: str, name: str) -> bool:
    match = _ASSIGNMENT.fullmatch(line)
    return match is not None and match[1] == name


def _value(written: str) -> str:
    if match := _DOUBLE.fullmatch(written):
        return _ESCAPED.sub(r"\1", match[1])
    if match := _SINGLE.fullmatch(written):
        return match[1]
    return _COMMENT.sub("", written)


def _written(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    return f'"{_TO_ESCAPE.sub(lambda sign: chr(92) + sign[0], value)}"'

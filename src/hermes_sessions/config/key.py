"""What is said about a key of the configuration file where it is declared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hermes_sessions.config.key_types import Kind


class ByHome(NamedTuple):
    """A default that depends on the home directory, and how the reference describes it."""

    value: Callable[[Path], object]
    described: str


class Key(NamedTuple):
    """One key: its dotted path, what may be written, the default, and one line about it."""

    path: str
    kind: Kind
    default: object
    doc: str
    environment: tuple[str, ...] = ()
    """Environment variables that win over the file; the first that is set and not empty."""

    may_be_unset: bool = False
    """Whether a `${VAR}` that is not set means the default: the store can do without this key."""

    otherwise_default: bool = False
    """Whether a value that is not allowed is a warning and means the default, and no error."""

    @property
    def default_text(self) -> str:
        """The default in words, as errors and the reference show it."""
        if isinstance(self.default, ByHome):
            return self.default.described
        if self.default is None or self.default == ():
            return "not set"
        return self.kind.show(self.default)

    def default_value(self, home: Path) -> object:
        """The value of the key when it is not configured."""
        return self.default.value(home) if isinstance(self.default, ByHome) else self.default

"""``platforms.local``: the keys that only the local socket has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hermes_sessions.config.key_types import FilePath, Kind, Size, WholeNumber
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.settings import read_keys

SOCKET_NAME: Final = "local.sock"
_SECTION: Final = "platforms.local"
_KEYS: Final[Mapping[str, Kind]] = {
    "socket": FilePath(),
    "max_line_bytes": Size(at_least=1024, at_most=1024**3),
    "max_clients": WholeNumber(at_least=1, at_most=10_000),
}
#: What every system takes as the path of a socket.
_LONGEST_PATH: Final = 103


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Where the socket is, and what is taken from it."""

    socket: Path
    #: The longest message.
    max_line_bytes: int = 1024**2
    max_clients: int = 100

    @classmethod
    def read(cls, values: Mapping[str, object], home: Path) -> LocalSettings:
        """Return the settings, validated; *home* is the gateway's folder, where the socket is
        unless a path is given.

        Raises:
            ConfigError: something is misspelt or not allowed.
        """
        known = {"socket": home / SOCKET_NAME, **read_keys(_SECTION, _KEYS, values, home=home)}
        if len(bytes(known["socket"])) > _LONGEST_PATH:
            raise ConfigError(
                f"{_SECTION}.socket: the path {known['socket']} is longer than the "
                f"{_LONGEST_PATH} bytes that a socket's may have. Set {_SECTION}.socket to a "
                f"shorter one, in a folder that only you can enter."
            )
        return cls(**known)

"""``platforms.local``: the keys that only the local socket has."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hermes_sessions.config.key_types import FilePath, HomeDefault, Size, WholeNumber
from hermes_sessions.config.sections import SettingsSection, setting
from hermes_sessions.errors import ConfigError

SOCKET_NAME: Final = "local.sock"
#: The longest path of a socket that every system accepts, in bytes.
_LONGEST_PATH: Final = 103


class LocalSettings(SettingsSection):
    """Where the socket is, and what it accepts."""

    socket: Path = setting(
        HomeDefault(lambda home: home / SOCKET_NAME, f"`{SOCKET_NAME}` in the gateway's directory"),
        kind=FilePath(),
        doc="The path of the socket, at most 103 bytes.",
    )
    max_line_bytes: int = setting(
        1024**2, kind=Size(at_least=1024, at_most=1024**3), doc="The longest message."
    )
    max_clients: int = setting(
        100,
        kind=WholeNumber(at_least=1, at_most=10_000),
        doc="How many clients may be connected; more are refused.",
    )


def require_short_path(socket: Path) -> None:
    """Check that a socket can have this path.

    Raises:
        ConfigError: it is too long.
    """
    if len(bytes(socket)) > _LONGEST_PATH:
        raise ConfigError(
            f"platforms.local.socket: the path {socket} is longer than the {_LONGEST_PATH} bytes "
            f"that a socket's path may have. Set platforms.local.socket to a shorter one, in a "
            f"directory that only you can enter."
        )

"""``platforms.signal``: the keys that only Signal has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hermes_sessions.config.key_types import Kind, Size, Text, YesNo
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.settings import read_own_keys
from hermes_sessions.gateway.platforms.signal.rpc import DaemonAddress

DEFAULT_ADDRESS: Final = DaemonAddress("127.0.0.1", 7583)

_SECTION: Final = "platforms.signal"
_KEYS: Final[Mapping[str, Kind]] = {
    "account": Text(),
    "address": Text(),
    "require_mention": YesNo(),
    "max_file_bytes": Size(at_least=1, at_most=100 * 1024**2),
}
_NUMBER: Final = re.compile(r"\+[1-9][0-9]{4,14}")
_PRETTY: Final = re.compile(r"[\s()/.-]")
_TCP: Final = re.compile(r"(?:tcp:(?://)?)?(?:\[([^\]\s]+)\]|([^\s:/]+)):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class SignalSettings:
    """Which account, and where its daemon is."""

    #: The number of the account, as ``+4917612345678``.
    account: str
    address: DaemonAddress = DEFAULT_ADDRESS
    #: In groups, only commands, mentions and answers to the account are for the agent.
    require_mention: bool = True
    #: Larger files are left out, and the agent is told.
    max_file_bytes: int = 20 * 1024**2

    @classmethod
    def read(cls, values: Mapping[str, object], home: Path) -> SignalSettings:
        """Return the settings, validated; a relative path of a socket is one in *home*.

        Other programs may keep keys of their own there: an unknown one is refused only when it
        looks like a misspelt one of ours.

        Raises:
            ConfigError: something is missing, misspelt or not allowed.
        """
        known = read_own_keys(_SECTION, _KEYS, values)
        if values.get("http_url") and "address" not in known:
            raise ConfigError(
                f"{_SECTION}.http_url cannot be used: over HTTP, signal-cli hands over messages "
                f"also when nobody takes them. Start it with --tcp {DEFAULT_ADDRESS} instead and "
                f"set {_SECTION}.address: see docs/signal.md."
            )
        known["account"] = _account(known.get("account"))
        known["address"] = (
            _address(known["address"], home) if "address" in known else DEFAULT_ADDRESS
        )
        return cls(**known)


def _account(value: str | None) -> str:
    if not value:
        raise ConfigError(
            f"{_SECTION}.account is missing: the number that is registered with signal-cli, as "
            f"+4917612345678. See docs/signal.md."
        )
    number = _PRETTY.sub("", value)
    if not _NUMBER.fullmatch(number):
        raise ConfigError(
            f"{_SECTION}.account must be a telephone number that begins with + and the code of "
            f"the country, in quotes: '+4917612345678'."
        )
    return number


def _address(value: str, home: Path) -> DaemonAddress:
    if value.startswith(("unix:", "/", "~")):
        path = Path(value.removeprefix("unix:").removeprefix("//")).expanduser()
        return DaemonAddress(path=home / path)
    found = _TCP.fullmatch(value)
    if found is None or not 0 < int(found[3]) < 65536:
        raise ConfigError(
            f"{_SECTION}.address must be host:port, as {DEFAULT_ADDRESS}, or unix: and the path of "
            f"a socket: what signal-cli was given as --tcp or --socket."
        )
    return DaemonAddress(found[1] or found[2], int(found[3]))

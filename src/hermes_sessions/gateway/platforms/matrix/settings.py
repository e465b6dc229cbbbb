"""``platforms.matrix``: the keys that only Matrix has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from hermes_sessions.config.key_types import Choice, Kind, Size, Text, WholeNumber, YesNo
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.matrix.identifiers import is_user_id
from hermes_sessions.gateway.platforms.settings import read_own_keys

Invites = Literal["allowed", "everyone", "nobody"]

_SECTION: Final = "platforms.matrix"
_KEYS: Final[Mapping[str, Kind]] = {
    "homeserver": Text(),
    "user": Text(),
    "password": Text(),
    "device_name": Text(),
    "invites": Choice(("allowed", "everyone", "nobody")),
    "require_mention": YesNo(),
    "max_file_bytes": Size(at_least=1, at_most=2 * 1024**3),
    "sync_seconds": WholeNumber(at_least=1, at_most=300),
}


@dataclass(frozen=True, slots=True)
class MatrixSettings:
    """Whose account it is, and what it takes."""

    #: Where the homeserver answers, without a slash at the end.
    homeserver: str
    #: Of the account: ``@name:server``. Needed with a password.
    user: str | None = None
    token: str | None = field(default=None, repr=False)
    #: Used once; after that, the device that it made is.
    password: str | None = field(default=None, repr=False)
    #: What the device is called in the list of the account's sessions.
    device_name: str = "Hermes"
    #: Whose invitations are accepted.
    invites: Invites = "allowed"
    #: In rooms of more than two, only commands, mentions and answers are for the agent.
    require_mention: bool = True
    #: Larger files are left out, and the agent is told.
    max_file_bytes: int = 20 * 1024**2
    #: How long the homeserver holds a question for news open.
    sync_seconds: int = 30

    @classmethod
    def read(cls, token: str | None, values: Mapping[str, object]) -> MatrixSettings:
        """Return the settings, validated; *values* are the platform's keys besides the token.

        Other programs may keep keys of their own there: an unknown one is refused only when it
        looks like a misspelt one of ours.

        Raises:
            ConfigError: something is missing, misspelt or not allowed.
        """
        known = read_own_keys(_SECTION, _KEYS, values)
        known["homeserver"] = _address(known.get("homeserver"))
        user = known.get("user")
        if user is not None and not is_user_id(user):
            raise ConfigError(
                f"{_SECTION}.user must be the whole id of the account, in quotes: "
                f"'@hermes:example.org'."
            )
        if not token and not (user and known.get("password")):
            raise ConfigError(
                f"{_SECTION} needs a token, or user and password of the account: see "
                f"docs/matrix.md."
            )
        return cls(token=token or None, **known)


def _address(address: str | None) -> str:
    if not address:
        raise ConfigError(
            f"{_SECTION}.homeserver is missing: the address of the account's server, as "
            f"https://matrix.example.org. See docs/matrix.md."
        )
    try:
        parts = urlsplit(address)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        parts, has_port = urlsplit(""), False
    is_plain = not (parts.query or parts.fragment or parts.username)
    if parts.scheme not in ("https", "http") or not (parts.hostname and has_port and is_plain):
        raise ConfigError(f"{_SECTION}.homeserver must be an address that begins with https://.")
    return address.rstrip("/")

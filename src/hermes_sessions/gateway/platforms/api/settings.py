"""``platforms.api``: the keys that only the HTTP API has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hermes_sessions.config.key_types import Kind, Seconds, Size, Text, WholeNumber
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.settings import read_keys

_SECTION: Final = "platforms.api"
_KEYS: Final[Mapping[str, Kind]] = {
    "host": Text(),
    "port": WholeNumber(at_least=0, at_most=65535),
    "max_body_bytes": Size(at_least=1024, at_most=1024**3),
    "body_seconds": Seconds(at_most=3600),
    "head_seconds": Seconds(at_most=3600),
    "reply_seconds": Seconds(at_most=86_400),
    "max_connections": WholeNumber(at_least=2, at_most=100_000),
}
_TOKEN: Final = re.compile(r"[\x21-\x7e]{16,512}")


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Where the API listens, who may call it, and what it takes."""

    #: What every call must carry.
    token: str = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 8642
    #: Larger requests are refused.
    max_body_bytes: int = 1024**2
    #: How long a client may take to send a request's body, and its head.
    body_seconds: float = 30.0
    head_seconds: float = 10.0
    #: How long a client that waits is kept waiting; the message is answered all the same.
    reply_seconds: float = 1800.0
    max_connections: int = 1_000

    @classmethod
    def read(cls, token: str | None, values: Mapping[str, object]) -> ApiSettings:
        """Return the settings, validated; *values* are the platform's keys besides the token.

        Raises:
            ConfigError: something is missing, misspelt or not allowed.
        """
        if not token:
            raise ConfigError(
                f"{_SECTION}.token is missing: the password of everybody who calls the API. "
                f"`openssl rand -hex 32` makes one; write it as ${{VAR}}."
            )
        if not _TOKEN.fullmatch(token):
            raise ConfigError(
                f"{_SECTION}.token must be 16 to 512 letters, digits or signs without spaces, so "
                f"that nobody guesses it. `openssl rand -hex 32` makes one."
            )
        return cls(token=token, **read_keys(_SECTION, _KEYS, values))

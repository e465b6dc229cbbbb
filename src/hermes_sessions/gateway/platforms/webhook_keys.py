"""``webhook`` of a platform that is told our address by hand: where we listen for its calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from hermes_sessions.config.key_types import Kind, Text, WholeNumber
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.settings import read_section

WEBHOOK_KEYS: Final[Mapping[str, Kind]] = {
    "path": Text(),
    "host": Text(),
    "port": WholeNumber(at_least=0, at_most=65535),
}
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)+|/")


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Where we listen, behind a proxy that speaks TLS."""

    path: str
    port: int
    host: str = "127.0.0.1"


def read_webhook(where: str, section: object, *, default: WebhookSettings) -> WebhookSettings:
    """Return the settings in the *section* that *where* names; what it leaves out is as in
    *default*.

    Raises:
        ConfigError: a key is misspelt, or a value is not allowed.
    """
    if not section:
        return default
    values = read_section(where, WEBHOOK_KEYS, section)
    if not _PATH.fullmatch(values.get("path", "/")):
        raise ConfigError(f"{where}.path must be a path such as {default.path}.")
    return replace(default, **values)

"""Reading the keys that only one platform has, from ``settings.platforms[name].extra``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from hermes_sessions.config.error_text import closest_match
from hermes_sessions.config.key_types import Kind, NotAllowed, ParseContext, Text, WholeNumber
from hermes_sessions.errors import ConfigError

# ``webhook`` of a platform that is told our address by hand: where we listen for its calls.


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


def read_keys(
    section: str,
    kinds: Mapping[str, Kind],
    values: Mapping[str, object],
    *,
    home: Path | None = None,
) -> dict[str, Any]:
    """Return the values that are set, each as its kind has it; paths are relative to *home*.

    Raises:
        ConfigError: a key is misspelt, or a value is not allowed.
    """
    parsed: dict[str, Any] = {}
    for name, value in values.items():
        kind = kinds.get(name)
        if kind is None:
            guess = closest_match(name, list(kinds), at_least=0.6)
            hint = f"did you mean {guess}?" if guess else f"known: {', '.join(sorted(kinds))}."
            raise ConfigError(f"{section} has no key {name}; {hint}")
        if isinstance(value, (Mapping, tuple, list)):
            raise ConfigError(f"{section}.{name} must be a single value; allowed: {kind.allowed}.")
        try:
            context = ParseContext(home or Path("/"), {})
            result = None if value is None else kind.parse(str(value), context)
        except NotAllowed:
            raise ConfigError(
                f"{section}.{name} is not allowed; allowed: {kind.allowed}."
            ) from None
        if result is not None:
            parsed[name] = result
    return parsed


def read_section(where: str, kinds: Mapping[str, Kind], section: object) -> dict[str, Any]:
    """Return the values that are set in a section inside a platform's, as `read_keys` does.

    Raises:
        ConfigError: it is no section, a key is misspelt, or a value is not allowed.
    """
    if not isinstance(section, Mapping):
        raise ConfigError(f"{where} must be a section with {', '.join(kinds)}.")
    return read_keys(where, kinds, section)


def read_own_keys(
    section: str,
    kinds: Mapping[str, Kind],
    values: Mapping[str, object],
    *,
    others: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the values that are set, as `read_keys` does, of a section in which other programs may
    keep keys of their own: an unknown one is refused only when it looks like a misspelt one of
    ours. *others* are ours, too, and read elsewhere.

    Raises:
        ConfigError: a key is misspelt, or a value is not allowed.
    """
    for name in values:
        guess = closest_match(name, [*kinds, *others], at_least=0.75)
        if guess is not None and guess != name:
            raise ConfigError(f"{section} has no key {name}; did you mean {guess}?")
    own = {name: value for name, value in values.items() if name in kinds}
    return read_keys(section, kinds, own)


def web_address(key: str, address: str) -> str:
    """Return an address of a server, without a slash at its end.

    Raises:
        ConfigError: it is none; *key* is named.
    """
    try:
        parts = urlsplit(address)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ConfigError(f"{key} must be an address that begins with https://.")
    return address.rstrip("/")

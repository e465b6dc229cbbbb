"""Settings of one platform: kinds of values, and reading its section of ``platforms``.

`config` keeps the keys that only one platform has as they are, in ``PlatformSettings.extra``. They
are declared as a `SettingsSection` of the platform, and read when it is enabled or set up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from hermes_sessions.config.error_text import closest_match, is_secret, shown
from hermes_sessions.config.key_types import (
    REQUIRED,
    HomeDefault,
    Key,
    NotAllowed,
    ParseContext,
    Size,
    Text,
    TextList,
    WholeNumber,
)
from hermes_sessions.config.sections import S, SettingsSection, setting
from hermes_sessions.errors import ConfigError


class Pattern(Text):
    """Text of a certain form."""

    def __init__(self, form: str, allowed: str) -> None:
        self._form = re.compile(form)
        self.allowed = allowed

    def parse(self, text: str, context: ParseContext) -> str | None:
        """Return the text, None when it is blank, or raise NotAllowed."""
        value = super().parse(text, context)
        if value is not None and not self._form.fullmatch(value):
            raise NotAllowed
        return value


class WebAddress(Text):
    """The URL of a server; without a slash at its end."""

    allowed = "a URL that begins with https:// or http://"

    def __init__(self, *, is_plain: bool = False) -> None:
        """With *is_plain*, it has neither credentials nor a query."""
        self._is_plain = is_plain

    def parse(self, text: str, context: ParseContext) -> str | None:
        """Return the URL, None when the text is blank, or raise NotAllowed."""
        address = super().parse(text, context)
        if address is None:
            return None
        try:
            parts = urlsplit(address)
            has_port = parts.port is None or parts.port > 0
        except ValueError:
            raise NotAllowed from None
        has_more = bool(parts.query or parts.fragment or parts.username)
        if parts.scheme not in {"http", "https"} or not (parts.hostname and has_port):
            raise NotAllowed
        if self._is_plain and has_more:
            raise NotAllowed
        return address.rstrip("/")


class WebhookPath(Pattern):
    """The path of a URL that a platform calls."""

    def __init__(self, example: str) -> None:
        super().__init__(r"(?:/[A-Za-z0-9._~-]+)+|/", f"a path such as {example}")


#: Where the gateway listens, unless it is configured.
LOOPBACK: Final = "127.0.0.1"
PORT: Final = WholeNumber(at_least=0, at_most=65535)


def max_file_bytes(*, at_most: int) -> Any:
    """Declare `max_file_bytes`; *at_most* is what the platform delivers."""
    return setting(
        20 * 1024**2,
        kind=Size(at_least=1, at_most=at_most),
        doc="Larger files are skipped, and the agent is told.",
    )


def webhook_path(default: Any, *, doc: str) -> Any:
    """Declare the `path` of a webhook."""
    example = "/webhook" if default is REQUIRED else default
    return setting(default, kind=WebhookPath(example), doc=doc)


def webhook_port(default: Any) -> Any:
    """Declare the `port` of a webhook."""
    return setting(default, kind=PORT, doc="The port; 0 uses a free one.")


class WebhookSettings(SettingsSection):
    """``webhook`` of a platform that calls us: where we listen, behind a TLS reverse proxy.

    Each platform has a subclass with its own defaults.
    """

    path: str = webhook_path(REQUIRED, doc="The path of the URL that the platform calls.")
    host: str = setting(LOOPBACK, kind=Text(), doc="The address on which the gateway listens.")
    port: int = webhook_port(REQUIRED)


def read_settings(
    section_class: type[S], where: str, values: Mapping[str, object], home: Path
) -> S:
    """Return the settings of the section that *where* names; relative paths start at *home*.

    Where other programs keep keys of their own (`SettingsSection.is_shared`), an unknown key is
    refused only when it looks like a misspelling of ours.

    Raises:
        ConfigError: a key is missing or misspelt, or a value is not allowed.
    """
    _check_names(section_class, where, values)
    found: dict[str, Any] = {}
    for name, field in section_class.fields.items():
        value = values.get(name)
        if isinstance(field, Key):
            found[name] = _read_value(field, f"{where}.{name}", value, home)
        elif field is None:
            raise TypeError(f"{section_class.__name__}.{name} is not declared as a setting")
        elif value:
            found[name] = _read_section(field.section, f"{where}.{name}", value, home)
        else:
            inner = field.section
            found[name] = (
                None if field.is_optional else _read_section(inner, f"{where}.{name}", {}, home)
            )
    return section_class(**found)


def _read_section(section_class: type[S], where: str, value: object, home: Path) -> S:
    if not isinstance(value, Mapping):
        names = ", ".join(section_class.fields)
        raise ConfigError(f"{where} must be a section with the keys {names}.")
    return read_settings(section_class, where, value, home)


def _check_names(
    section_class: type[SettingsSection], where: str, values: Mapping[str, object]
) -> None:
    known = section_class.fields
    at_least = 0.75 if section_class.is_shared else 0.6
    for name in values:
        if name in known:
            continue
        guess = closest_match(name, list(known), at_least=at_least)
        if guess is not None:
            raise ConfigError(f"{where} has no key {name}; did you mean {guess}?")
        if not section_class.is_shared:
            raise ConfigError(f"{where} has no key {name}; known: {', '.join(sorted(known))}.")


def _read_value(key: Key, where: str, value: object, home: Path) -> object:
    if isinstance(value, (tuple, list)) and isinstance(key.kind, TextList):
        value = ",".join(str(each) for each in value)
    if isinstance(value, (Mapping, tuple, list)):
        raise ConfigError(f"{where} must be a single value; allowed: {key.kind.allowed}.")
    try:
        parsed = None if value is None else key.kind.parse(str(value), ParseContext(home, {}))
    except NotAllowed:
        written = "is not valid" if is_secret(where) else f'is "{shown(str(value))}"'
        raise ConfigError(f"{where} {written}; allowed: {key.kind.allowed}.") from None
    if parsed is not None:
        return parsed
    if key.default is REQUIRED:
        raise ConfigError(f"{where} is missing: {key.kind.allowed}.")
    return key.default.value(home) if isinstance(key.default, HomeDefault) else key.default

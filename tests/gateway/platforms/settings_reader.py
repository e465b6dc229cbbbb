"""Reads the settings of a platform as the gateway does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.config.sections import NamedValues, S
from hermes_sessions.gateway.platforms.spec import PlatformSpec

HOME = Path("/home/of")


def read(
    spec: PlatformSpec[S],
    token: str | None,
    values: Mapping[str, object],
    home: Path = HOME,
    *,
    users: tuple[str, ...] = (),
    chats: tuple[str, ...] = (),
) -> S:
    """Return the settings in a section with this token and these further keys."""
    section = PlatformSettings(
        token=token, allowed_users=users, allowed_chats=chats, extra=NamedValues(values)
    )
    return spec.read(section, home)

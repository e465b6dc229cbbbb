"""Which platforms there are; each is imported when it is enabled or set up."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.port import Adapter
from hermes_sessions.gateway.platforms.spec import Setup

#: Makes an adapter of a platform's section; *home* is the gateway's directory.
MakeAdapter = Callable[[PlatformSettings, Path], Adapter]

#: The extra that brings a platform's packages, by the name of its section under ``platforms``.
_EXTRAS: Final = {
    "api": "gateway",
    "discord": "discord",
    "local": "gateway",
    "matrix": "matrix",
    "signal": "gateway",
    "slack": "slack",
    "telegram": "gateway",
    "whatsapp": "gateway",
}
_HERE: Final = "hermes_sessions.gateway.platforms"


class PackageMissing(ConfigError):
    """A platform needs a package that is not installed."""

    def __init__(self, platform: str, package: str | None) -> None:
        self.platform = platform
        super().__init__(
            f"platforms.{platform} needs the package {package}: "
            f"pip install 'hermes-sessions[{_EXTRAS[platform]}]'"
        )


def known_platforms() -> tuple[str, ...]:
    """Return the names of the sections that can be enabled."""
    return tuple(sorted(_EXTRAS))


def make_adapter(name: str, settings: PlatformSettings, home: Path) -> Adapter:
    """Return an adapter, not yet connected.

    Raises:
        PackageMissing: it cannot be without one.
        ConfigError: there is no such platform, or its section is wrong.
    """
    make: MakeAdapter = _module(name, "spec").make_adapter
    return make(settings, home)


def find_setup(name: str) -> Setup:
    """Return how a platform is set up.

    Raises:
        PackageMissing: it cannot be without one.
        ConfigError: there is no such platform.
    """
    setup: Setup = _module(name, "spec").SETUP
    return setup


def _module(name: str, part: str) -> Any:
    if name not in _EXTRAS:
        raise ConfigError(
            f"platforms.{name}: there is no such platform. Known: {', '.join(known_platforms())}."
        )
    try:
        return import_module(f"{_HERE}.{name}.{part}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hermes_sessions"):
            raise
        raise PackageMissing(name, error.name) from error

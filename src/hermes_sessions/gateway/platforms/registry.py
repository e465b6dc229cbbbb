"""Which platforms there are: those of this package, and those that other packages add.

A platform is imported when it is enabled or set up.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hermes_sessions.config.gateway_config import platform_of_section
from hermes_sessions.config.gateway_settings import PLATFORM_ENTRY_POINTS, PlatformSettings
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.port import Adapter
from hermes_sessions.gateway.platforms.spec import PlatformSpec
from hermes_sessions.model.source import Platform

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: Platforms of this package, and the extra that installs what each needs. The extra is known
#: before a platform is imported, because importing fails without its packages.
BUILT_IN: Final = {
    "api": "gateway",
    "discord": "discord",
    "local": "gateway",
    "matrix": "matrix",
    "signal": "gateway",
    "slack": "slack",
    "telegram": "gateway",
    "whatsapp": "gateway",
}
#: Names that a package cannot use: sections and what the platforms are called in keys.
_TAKEN: Final = {*BUILT_IN, *map(platform_of_section, BUILT_IN)}
_HERE: Final = "hermes_sessions.gateway.platforms"


class PackageMissing(ConfigError):
    """A platform needs a package that is not installed."""

    def __init__(self, platform: str, package: str | None, requirement: str) -> None:
        self.platform = platform
        super().__init__(
            f"platforms.{platform} needs the package {package}: pip install '{requirement}'"
        )


def known_platforms() -> tuple[str, ...]:
    """Return the names of the platforms that can be enabled, sorted.

    Raises:
        ConfigError: an installed package uses the name of a built-in platform.
    """
    return tuple(sorted({*BUILT_IN, *_added()}))


def find_spec(name: str) -> PlatformSpec[Any]:
    """Return what the platform *name* declares.

    Raises:
        PackageMissing: it needs a package that is not installed.
        ConfigError: there is no platform of this name, or the entry point is not usable.
    """
    if name in BUILT_IN:
        try:
            spec = import_module(f"{_HERE}.{name}.spec").SPEC
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("hermes_sessions"):
                raise
            raise PackageMissing(name, error.name, f"hermes-sessions[{BUILT_IN[name]}]") from error
        return _checked(spec, name, f"{_HERE}.{name}.spec", "hermes-sessions")
    added = _added()
    if name not in added:
        known = ", ".join(known_platforms())
        raise ConfigError(f"platforms.{name}: there is no such platform. Known: {known}.")
    return _load(added[name])


def make_adapter(name: str, settings: PlatformSettings, home: Path) -> Adapter:
    """Return an adapter, not yet connected; *home* is the gateway's directory.

    Raises:
        PackageMissing: it needs a package that is not installed.
        ConfigError: there is no platform of this name, or its section is wrong.
    """
    return find_spec(name).build(settings, home)


def _added() -> dict[str, EntryPoint]:
    """Return the entry points of other packages, by name."""
    from importlib.metadata import entry_points  # slow, and a single built-in platform needs none

    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=PLATFORM_ENTRY_POINTS):
        if point.name in _TAKEN:
            raise ConfigError(
                f"The package {_package(point)} adds a platform named {point.name}, which is the "
                f"name of a built-in platform. Uninstall it: pip uninstall {_package(point)}"
            )
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise ConfigError(
                f"The packages {_package(other)} and {_package(point)} both add a platform named "
                f"{point.name}. Uninstall one of them."
            )
    return found


def _load(point: EntryPoint) -> PlatformSpec[Any]:
    package = _package(point)
    try:
        spec = point.load()
    except ModuleNotFoundError as error:
        raise PackageMissing(point.name, error.name, package) from error
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"platforms.{point.name}: the package {package} cannot be loaded: {error}"
        ) from error
    found = _checked(spec, point.name, point.value, package)
    Platform.register(found.name, pii_safe=found.hides_ids, title=found.title)
    return found


def _checked(spec: object, name: str, where: str, package: str) -> PlatformSpec[Any]:
    if not isinstance(spec, PlatformSpec) or spec.name != name:
        raise ConfigError(
            f"platforms.{name}: {where} of the package {package} must be a PlatformSpec with "
            f"name={name!r}."
        )
    return spec


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value

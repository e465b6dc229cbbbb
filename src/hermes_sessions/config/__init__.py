"""Settings: ``config.yaml``, ``${VAR}`` and the environment become one validated, frozen value.

This package is the only reader of the process environment. Names are loaded when first used, so
that importing the package costs nothing and a caller that needs only a path pays only for paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_sessions.config.gateway_config import GatewayConfig, HomeChannel
    from hermes_sessions.config.gateway_settings import PlatformSettings
    from hermes_sessions.config.loader import default_settings, load_settings
    from hermes_sessions.config.paths import config_file_path, default_store_path, hermes_home
    from hermes_sessions.config.settings import (
        DisplaySettings,
        ModelSettings,
        MySQLSettings,
        PostgreSQLSettings,
        SessionDBSettings,
        SessionsSettings,
        Settings,
        SQLiteSettings,
    )

__all__ = [
    "DisplaySettings",
    "GatewayConfig",
    "HomeChannel",
    "ModelSettings",
    "MySQLSettings",
    "PlatformSettings",
    "PostgreSQLSettings",
    "SQLiteSettings",
    "SessionDBSettings",
    "SessionsSettings",
    "Settings",
    "config_file_path",
    "default_settings",
    "default_store_path",
    "hermes_home",
    "load_settings",
]

_MODULE_OF = {
    "DisplaySettings": "settings",
    "GatewayConfig": "gateway_config",
    "HomeChannel": "gateway_config",
    "ModelSettings": "settings",
    "MySQLSettings": "settings",
    "PlatformSettings": "gateway_settings",
    "PostgreSQLSettings": "settings",
    "SQLiteSettings": "settings",
    "SessionDBSettings": "settings",
    "SessionsSettings": "settings",
    "Settings": "settings",
    "config_file_path": "paths",
    "default_settings": "loader",
    "default_store_path": "paths",
    "hermes_home": "paths",
    "load_settings": "loader",
}


if not TYPE_CHECKING:  # else a type checker accepts any name

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

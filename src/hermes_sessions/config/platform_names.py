"""What platforms are called in the configuration, where that differs from the platform's name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

#: By the section under ``platforms``.
_CALLED: Final[Mapping[str, str]] = MappingProxyType({"api": "api_server"})


def platform_of_section(section: str) -> str:
    """Return the name of the platform that ``platforms.<section>`` configures."""
    name = section.strip().lower()
    return _CALLED.get(name, name)

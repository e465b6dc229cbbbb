"""Alias of `hermes_sessions_testing`, for code that imports the test tools by their old name.

``hermes_sessions.testing.clock`` is the module ``hermes_sessions_testing.clock`` itself, so that
its classes exist once. The fake servers moved into `fake_servers`; their old names work, too:
``hermes_sessions.testing.slack_server`` is ``hermes_sessions_testing.fake_servers.slack.server``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Final

_TOOLS: Final = "hermes_sessions_testing"
#: Modules that have another name there; ``slack_server`` and its siblings follow a rule.
_MOVED: Final = {"fake_server": "fake_servers.base", "http_server": "fake_servers.http_server"}
_MESSENGERS: Final = ("discord", "signal", "slack", "telegram", "whatsapp")

if find_spec(_TOOLS) is None:
    raise ImportError("Install the test tools: pip install hermes-sessions-testing", name=_TOOLS)

#: Makes this module a package without files: `_AliasFinder` finds its submodules.
__path__: list[str] = []


def _target_of(alias: str) -> str:
    """Return the name of the module that an alias stands for."""
    name = alias.removeprefix(f"{__name__}.")
    messenger, _, part = name.partition("_")
    if messenger in _MESSENGERS and part:
        name = f"fake_servers.{messenger}.{part}"
    return f"{_TOOLS}.{_MOVED.get(name, name)}"


class _AliasFinder(MetaPathFinder, Loader):
    """Imports ``hermes_sessions.testing.x`` by importing what it stands for."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how an alias is imported; None for every other module."""
        if fullname.startswith(f"{__name__}.") and find_spec(_target_of(fullname)) is not None:
            return ModuleSpec(fullname, self)
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module that the alias stands for in its place."""
        alias = module.__name__
        sys.modules[alias] = importlib.import_module(_target_of(alias))


# First, because a submodule's folder is known to the ordinary finder, which would load it twice.
sys.meta_path.insert(0, _AliasFinder())

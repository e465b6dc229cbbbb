"""Tools that come with the agent: they read, and change nothing."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

from hermes_sessions.agent.tools.installed import installed_tools
from hermes_sessions.agent.tools.registry import Surroundings, Tool, ToolRegistry
from hermes_sessions.errors import InvalidInput
from hermes_sessions.recall.tool_schema import TOOL_SCHEMA


def default_tools() -> ToolRegistry:
    """Return a new registry: the tools that are always safe, then those of installed packages.

    A tool whose name is taken is left out, with a warning.
    """
    registry = ToolRegistry(_SESSION_SEARCH, _CURRENT_TIME)
    for tool in installed_tools():
        try:
            registry.add(tool)
        except InvalidInput as error:
            warnings.warn(f"An installed tool is left out: {error}", RuntimeWarning, stacklevel=2)
    return registry


def _search_sessions(arguments: Mapping[str, Any], surroundings: Surroundings) -> Any:
    from hermes_sessions.recall.tool import call  # large, and most turns do without

    return call(
        surroundings.db,
        arguments,
        scope=surroundings.scope,
        current_session_id=surroundings.session_id,
    )


def _tell_time(_arguments: Mapping[str, Any], _surroundings: Surroundings) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %Z (%A)")


_FUNCTION = TOOL_SCHEMA["function"]
_SESSION_SEARCH = Tool(
    _FUNCTION["name"], _FUNCTION["description"], _FUNCTION["parameters"], _search_sessions
)
_CURRENT_TIME = Tool(
    "current_time",
    "The date and time on the user's machine.",
    {"type": "object", "properties": {}},
    _tell_time,
)

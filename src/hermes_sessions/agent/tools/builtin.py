"""Tools that come with the agent: they read, and change nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from hermes_sessions.agent.tools.registry import Surroundings, Tool, ToolRegistry
from hermes_sessions.recall.schema import TOOL_SCHEMA


def default_tools() -> ToolRegistry:
    """Return a new registry with the tools that are always safe."""
    return ToolRegistry(_SESSION_SEARCH, _CURRENT_TIME)


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

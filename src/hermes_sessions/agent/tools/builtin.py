"""Tools that come with the agent: they read, and change nothing."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from hermes_sessions.agent.tools.registry import Surroundings, Tool, ToolRegistry
from hermes_sessions.errors import InvalidInput
from hermes_sessions.recall.tool_schema import TOOL_SCHEMA

# Tools that installed packages bring, by the entry point ``hermes_sessions.tools``.


TOOL_ENTRY_POINTS: Final = "hermes_sessions.tools"


"""What the entry point names is a `Tool`, several of them, or a function that returns either."""


def installed_tools() -> Iterator[Tool]:
    """Yield the tools of installed packages. One that cannot be loaded is left out, with a warning:
    a chat without it is better than none.
    """
    from importlib.metadata import entry_points  # slow, and only who talks needs it

    for point in entry_points(group=TOOL_ENTRY_POINTS):
        try:
            found = point.load()
            if callable(found) and not isinstance(found, Tool):
                found = found()
            yield from _tools_in(found)
        except Exception as error:  # noqa: BLE001 - anybody's code
            warnings.warn(
                f"The tools {point.name!r} ({point.value}) cannot be used: "
                f"{type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )


def _tools_in(found: object) -> list[Tool]:
    tools = [found] if isinstance(found, Tool) else found
    if not isinstance(tools, Iterable):
        raise TypeError(f"{type(found).__name__} is no tool")
    listed = list(tools)
    if not all(isinstance(tool, Tool) for tool in listed):
        raise TypeError("not all of them are tools")
    return listed


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

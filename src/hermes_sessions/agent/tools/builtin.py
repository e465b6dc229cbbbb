"""The built-in tools, which only read, and the loader of tools from installed packages."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from hermes_sessions.agent.tools.registry import Tool, ToolContext, ToolRegistry
from hermes_sessions.errors import InvalidInput
from hermes_sessions.recall.tool_schema import TOOL_SCHEMA

#: Entry points of this group name a `Tool`, several of them, or a function that returns either.
TOOL_ENTRY_POINTS: Final = "hermes_sessions.tools"


def installed_tools() -> Iterator[Tool]:
    """Yield the tools of installed packages. A tool that cannot be loaded is skipped with a
    warning, so that the chat still works.
    """
    from importlib.metadata import entry_points  # slow, and only a chat needs it

    for point in entry_points(group=TOOL_ENTRY_POINTS):
        try:
            found = point.load()
            if callable(found) and not isinstance(found, Tool):
                found = found()
            yield from _tools_in(found)
        except Exception as error:  # noqa: BLE001 - third-party code
            warnings.warn(
                f"Skipped the tools {point.name!r} ({point.value}): they cannot be loaded. "
                f"{type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )


def _tools_in(found: object) -> list[Tool]:
    tools = [found] if isinstance(found, Tool) else found
    if not isinstance(tools, Iterable):
        raise TypeError(f"{type(found).__name__} is not a tool")
    listed = list(tools)
    if not all(isinstance(tool, Tool) for tool in listed):
        raise TypeError("some of them are not tools")
    return listed


def default_tools() -> ToolRegistry:
    """Return a new registry: the built-in tools, then those of installed packages.

    A tool whose name is taken is skipped with a warning.
    """
    registry = ToolRegistry(_SESSION_SEARCH, _CURRENT_TIME)
    for tool in installed_tools():
        try:
            registry.add(tool)
        except InvalidInput as error:
            warnings.warn(f"Skipped an installed tool: {error}", RuntimeWarning, stacklevel=2)
    return registry


def _search_sessions(arguments: Mapping[str, Any], context: ToolContext) -> Any:
    from hermes_sessions.recall.tool import call  # large, and few turns need it

    return call(
        context.db,
        arguments,
        scope=context.scope,
        current_session_id=context.session_id,
    )


def _tell_time(_arguments: Mapping[str, Any], _context: ToolContext) -> str:
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

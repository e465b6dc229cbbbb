"""Tools that installed packages bring, by the entry point ``hermes_sessions.tools``."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Final

from hermes_sessions.agent.tools.registry import Tool

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

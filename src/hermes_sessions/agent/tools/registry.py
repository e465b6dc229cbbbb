"""The registry of tools.

A tool is a function from arguments to text. An error in a tool becomes text that the model reads,
so that a call always has a result; only an interruption of the program is raised.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sessiondb import SessionDB

logger = Logger(__name__)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The context of a tool call: the store, the session, and the user it is made for."""

    db: SessionDB
    session_id: str
    scope: Scope = OWNER
    #: Set when the turn is interrupted; a slow tool should check it and return.
    interrupt: threading.Event = field(default_factory=threading.Event)


#: The former name of `ToolContext`, for tools of other packages.
Surroundings = ToolContext

#: Receives the arguments of the model as a dict; returns text, or a value that JSON can hold.
Run = Callable[[Mapping[str, Any], ToolContext], Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool; *parameters* is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Run

    def as_schema(self) -> dict[str, Any]:
        """Return the tool in the form that providers expect."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": dict(self.parameters),
            },
        }


class ToolRegistry:
    """Tools by name."""

    def __init__(self, *tools: Tool) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self.add(tool)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def add(self, tool: Tool) -> None:
        """Add a tool.

        Raises:
            InvalidInput: another tool has its name.
        """
        if tool.name in self._tools:
            raise InvalidInput(f"There is already a tool {tool.name!r}. Remove it first.")
        self._tools[tool.name] = tool

    def remove(self, name: str) -> None:
        """Remove a tool; no-op if there is none of this name."""
        self._tools.pop(name, None)

    def schemas(self) -> list[dict[str, Any]]:
        """Return all tools in the form that providers expect."""
        return [tool.as_schema() for tool in self]

    def call(self, name: str, arguments: str, context: ToolContext) -> str:
        """Run a tool with the arguments of the model; return its result, or the error, as text."""
        tool = self._tools.get(name)
        if tool is None:
            return _failure(f"There is no tool {name!r}. Available: {', '.join(self._tools)}.")
        try:
            given = json.loads(arguments) if arguments.strip() else {}
        except ValueError as error:
            return _failure(f"The arguments are not valid JSON: {error}.")
        if not isinstance(given, dict):
            return _failure("The arguments must be a JSON object.")
        try:
            result = tool.run(given, context)
            return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        except Exception as error:  # noqa: BLE001 - a third-party tool must not end the turn
            logger.warning("the tool %s failed: %s", name, error)
            return _failure(f"{type(error).__name__}: {error}")


def _failure(text: str) -> str:
    return json.dumps({"error": text}, ensure_ascii=False)

"""The registry of tools.

A tool is a function from arguments to text. Whatever goes wrong in it becomes text that the model
reads, so that a call always has a result; only interrupting the program gets through.
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
class Surroundings:
    """Where a tool is called: in which session of which store, and on whose behalf."""

    db: SessionDB
    session_id: str
    scope: Scope = OWNER
    #: Set when the turn is interrupted: a tool that takes long looks at it and returns.
    interrupt: threading.Event = field(default_factory=threading.Event)


#: Gets the arguments the model gave, checked to be an object, and returns text or what JSON holds.
Run = Callable[[Mapping[str, Any], Surroundings], Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool; *parameters* is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Run

    def as_schema(self) -> dict[str, Any]:
        """Return the tool as providers take it."""
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
            InvalidInput: its name is taken.
        """
        if tool.name in self._tools:
            raise InvalidInput(f"There is a tool {tool.name!r} already. Remove it first.")
        self._tools[tool.name] = tool

    def remove(self, name: str) -> None:
        """Forget a tool; nothing happens when there is none of this name."""
        self._tools.pop(name, None)

    def schemas(self) -> list[dict[str, Any]]:
        """Return all tools as providers take them."""
        return [tool.as_schema() for tool in self]

    def call(self, name: str, arguments: str, surroundings: Surroundings) -> str:
        """Run a tool with the arguments a model gave; return the text of its result, or of what
        went wrong.
        """
        tool = self._tools.get(name)
        if tool is None:
            return _failure(f"There is no tool {name!r}. Known are: {', '.join(self._tools)}.")
        try:
            given = json.loads(arguments) if arguments.strip() else {}
        except ValueError as error:
            return _failure(f"The arguments are no JSON: {error}.")
        if not isinstance(given, dict):
            return _failure("The arguments must be a JSON object.")
        try:
            result = tool.run(given, surroundings)
            return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        except Exception as error:  # noqa: BLE001 - a tool of anybody's must not end the turn
            logger.warning("the tool %s failed: %s", name, error)
            return _failure(f"{type(error).__name__}: {error}")


def _failure(text: str) -> str:
    return json.dumps({"error": text}, ensure_ascii=False)

"""Tool calls out of their fragments.

The protocol numbers the calls of a reply and sends each in fragments. Endpoints also send whole
calls, leave the numbers or the ids out, or give every call the number 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes_sessions.agent.clients.port import ModelGarbled, ToolCall


@dataclass(slots=True)
class _Call:
    index: object
    id: str = ""
    name: str = ""
    fragments: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        return "".join(self.fragments)

    @property
    def is_whole(self) -> bool:
        try:
            json.loads(self.arguments)
        except (ValueError, RecursionError):
            return False
        return True


class ToolCalls:
    """The calls of one reply, in the order in which they began."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._calls: list[_Call] = []

    def add(self, fragment: Mapping[str, Any]) -> None:
        """Add a fragment, or a whole call."""
        function = fragment.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name = _string(fragment.get("id")), _string(function.get("name"))
        arguments = _arguments(function.get("arguments"))
        index = fragment.get("index")
        call = self._begun(index, call_id)
        if call is None or _begins_another(call, call_id, name, arguments):
            call = _Call(index)
            self._calls.append(call)
        call.id = call.id or call_id
        if name and name != call.name and not (call.name and call.fragments):
            call.name += name
        if arguments:
            call.fragments.append(arguments)

    def _begun(self, index: object, call_id: str) -> _Call | None:
        """Return the call that a fragment with this number and id belongs to, if it has begun."""
        for call in reversed(self._calls):
            if index is not None:
                if call.index == index:
                    return call
            elif not call_id or call.id == call_id:
                return call
        return None

    def finished(self) -> tuple[ToolCall, ...]:
        """Return the calls, each with an id of its own.

        Raises ModelGarbled for a call that names no function.
        """
        finished: list[ToolCall] = []
        taken: set[str] = set()
        for call in self._calls:
            if not call.name:
                if call.arguments.strip():
                    raise ModelGarbled("The endpoint sent a tool call that names no tool.")
                continue
            call_id = call.id if call.id and call.id not in taken else self._new_id()
            taken.add(call_id)
            finished.append(ToolCall(call_id, call.name, call.arguments or "{}"))
        return tuple(finished)


def _begins_another(call: _Call, call_id: str, name: str, arguments: str) -> bool:
    """Tell a new call under a number that is taken from a fragment that repeats what is known."""
    if not name or not call.name:
        return False
    if call_id and call.id and call_id != call.id:
        return True
    repeats = call_id == call.id and bool(call_id)
    return not repeats and bool(arguments) and call.is_whole


def _arguments(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""

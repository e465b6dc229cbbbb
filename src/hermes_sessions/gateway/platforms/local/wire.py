"""What passes through the socket: one JSON object in each line.

A client begins with ``hello``, then sends ``message`` and, for every message that it was given,
``seen``. The gateway answers ``welcome``, then ``receipt`` or ``failed`` for each message,
``progress`` until it is answered, and ``message`` for what the agent says, ``typing`` before that.
A client that says ``bye`` is told the same when it has seen everything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from hermes_sessions.gateway.platforms.port import UnreadablePayload

PROTOCOL: Final = 1
#: The longest line that a client takes.
MAX_REPLY_BYTES: Final = 16 * 1024**2


def line_of(kind: str, /, **values: Any) -> bytes:
    """Return a line."""
    # All ASCII: half a character cannot be written in UTF-8.
    return json.dumps({"type": kind, **values}).encode() + b"\n"


def read_line(line: bytes) -> Mapping[str, Any]:
    """Return what a line says; it has a ``type``.

    Raises:
        UnreadablePayload: nothing that can be understood.
    """
    try:
        said = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise UnreadablePayload(f"A line is not JSON: {type(error).__name__}.") from error
    if not isinstance(said, dict) or not isinstance(said.get("type"), str):
        raise UnreadablePayload("A line must be a JSON object with a type.")
    return said


def text_in(said: Mapping[str, Any], name: str) -> str:
    """Return a text of a line.

    Raises:
        UnreadablePayload: there is none.
    """
    value = said.get(name)
    if not isinstance(value, str) or not value.strip():
        raise UnreadablePayload(f"{said['type']} needs {name}, a text.")
    return value

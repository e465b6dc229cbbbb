"""The searchable texts of a message, in a fixed order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from hermes_sessions.model.message import text_of, without_base64
from hermes_sessions.storage.codec import decode_searchable, from_json

#: The columns that `texts_of` expects, in this order.
DOCUMENT_COLUMNS: Final = ("content", "content_type", "tool_name", "tool_calls")
#: Values nested deeper than this are ignored.
_MAX_DEPTH: Final = 40


def texts_of(
    content: Any, content_type: str | None, tool_name: str | None, tool_calls: Any
) -> list[str]:
    """Return the texts of a message from its `DOCUMENT_COLUMNS`: the content, the tool's name, then
    the name and arguments of each tool call.
    """
    texts = []
    if content_type is not None:
        content = decode_searchable(content, content_type)
    text = text_of(content)
    if _is_escaped_json(text):
        text = _unescaped(text)
    if text:
        texts.append(text)
    if tool_name:
        texts.append(tool_name)
    if tool_calls:
        texts.extend(_texts_of_calls(from_json(tool_calls, tool_calls)))
    return [without_base64(text) for text in texts]


def time_of(value: Any) -> float:
    """Return a message's timestamp; 0 if another program stored something that is not a number."""
    return float(value) if isinstance(value, (int, float)) else 0.0


def _is_escaped_json(text: str) -> bool:
    return text[:1] in ("{", "[") and "\\" in text and text.rstrip()[-1:] in ("}", "]")


def _unescaped(text: str) -> str:
    """Return the texts inside a JSON result, so that escapes do not hide words."""
    try:
        return " ".join(_leaves(json.loads(text), 0))
    except (ValueError, RecursionError):
        return text


def _texts_of_calls(calls: Any) -> Iterator[str]:
    for call in calls if isinstance(calls, list) else [calls]:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            yield " ".join(_leaves(call, 0))
            continue
        if isinstance(function.get("name"), str):
            yield function["name"]
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError):
                yield arguments
                continue
        yield " ".join(_leaves(arguments, 0))


def _leaves(value: Any, depth: int) -> Iterator[str]:
    """Yield the texts and numbers inside a JSON value, keys included, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict) and depth < _MAX_DEPTH:
        for key, item in value.items():
            yield str(key)
            yield from _leaves(item, depth + 1)
    elif isinstance(value, list) and depth < _MAX_DEPTH:
        for item in value:
            yield from _leaves(item, depth + 1)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)

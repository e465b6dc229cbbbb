"""The messages of a request to a model: always a valid sequence, even after an interruption.

Providers reject a tool call without a result, a result without a call, an empty answer, and
arguments that are not JSON. A crash, an interruption or another program can leave such a history.
It is repaired in the request only; the store keeps what happened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

Message = dict[str, Any]

#: The result of a tool call that never finished.
NO_RESULT: Final = "[No result was recorded: the call was interrupted.]"
#: The first message if a history would begin with an answer.
OPENING: Final = "[The conversation continues.]"
_ROLES: Final = ("user", "assistant", "tool")


def build_request_messages(
    history: Iterable[Mapping[str, Any]], system_prompt: str | None = None
) -> list[Message]:
    """Return *history*, as `SessionDB.get_messages_as_conversation` gives it, in a form that every
    provider accepts: a system message if there is a prompt, then users and assistants, each tool
    call followed by exactly one result. Only empty messages are left out.
    """
    messages: list[Message] = []
    waiting: list[str] = []
    for stored in history:
        role = stored.get("role")
        if role not in _ROLES:
            continue
        if role == "tool":
            _add_result(messages, waiting, stored)
            continue
        _close(messages, waiting)
        if role == "user":
            _add_question(messages, stored.get("content"))
        else:
            waiting = _add_answer(messages, stored)
    _close(messages, waiting)
    if messages and messages[0]["role"] != "user":
        messages.insert(0, {"role": "user", "content": OPENING})
    if system_prompt:
        messages.insert(0, {"role": "system", "content": system_prompt})
    return messages


def _add_question(messages: list[Message], content: Any) -> None:
    if _is_empty(content):
        return
    if messages and messages[-1]["role"] == "user":
        messages[-1]["content"] = _joined(messages[-1]["content"], content)
    else:
        messages.append({"role": "user", "content": content})


def _add_answer(messages: list[Message], stored: Mapping[str, Any]) -> list[str]:
    """Add an assistant's message; return the ids of tool calls that need a result."""
    calls = _calls(stored.get("tool_calls"))
    content = stored.get("content")
    if _is_empty(content) and not calls:
        return []
    message: Message = {"role": "assistant", "content": None if _is_empty(content) else content}
    if calls:
        message["tool_calls"] = calls
    elif messages and messages[-1]["role"] == "assistant" and "tool_calls" not in messages[-1]:
        messages[-1]["content"] = _joined(messages[-1]["content"], content)
        return []
    messages.append(message)
    return [call["id"] for call in calls]


def _add_result(messages: list[Message], waiting: list[str], stored: Mapping[str, Any]) -> None:
    call_id = stored.get("tool_call_id")
    if call_id not in waiting:
        return  # No call has this id, or it has a result already.
    waiting.remove(call_id)
    content = stored.get("content")
    messages.append(
        {"role": "tool", "tool_call_id": call_id, "content": "" if content is None else content}
    )


def _close(messages: list[Message], waiting: list[str]) -> None:
    """Add a result for every tool call that has none."""
    messages.extend(
        {"role": "tool", "tool_call_id": call_id, "content": NO_RESULT} for call_id in waiting
    )
    waiting.clear()


def _calls(stored: Any) -> list[Message]:
    calls: list[Message] = []
    seen: set[str] = set()
    for call in stored if isinstance(stored, Sequence) and not isinstance(stored, str) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        call_id = call.get("id") if isinstance(call, Mapping) else None
        if not name or not isinstance(call_id, str) or not call_id or call_id in seen:
            continue
        seen.add(call_id)
        arguments = _arguments(function.get("arguments") if function else None)
        calls.append(
            {
                "id": call_id,
                "type": "function",
                "function": {"name": str(name), "arguments": arguments},
            }
        )
    return calls


def _arguments(given: Any) -> str:
    if isinstance(given, Mapping):
        return json.dumps(given, ensure_ascii=False)
    try:
        parsed = json.loads(given) if isinstance(given, str) and given.strip() else {}
    except ValueError:
        return "{}"
    return given if isinstance(given, str) and isinstance(parsed, dict) and given.strip() else "{}"


def _is_empty(content: Any) -> bool:
    return content is None or content == [] or (isinstance(content, str) and not content.strip())


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_parts(first), *_parts(second)]


def _parts(content: Any) -> list[Any]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content if isinstance(content, str) else str(content)}]

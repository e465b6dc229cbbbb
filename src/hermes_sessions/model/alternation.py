"""Makes a transcript acceptable to model providers that demand alternating roles.

An interrupted turn leaves two user messages in a row, a retried one two answers, a lost one the
result of a call that is not there. The rules join or drop them; the stored rows do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

M = TypeVar("M", bound=Mapping[str, Any])

#: Answers that their agent was about to replace.
_PROVISIONAL: Final = ("verification_required", "verify_hook_continue")
_CODEX: Final = ("codex_reasoning_items", "codex_message_items")


def alternating(messages: Iterable[M]) -> list[M]:
    """Return the messages with neighbours of one role joined and stray tool results dropped."""
    joined = _joined(messages, "assistant", _join_answers)
    answered = _without_stray_results(joined)
    return _joined(answered, "user", _join_questions)  # type: ignore[return-value]  # same keys


def _joined(
    messages: Iterable[Mapping[str, Any]],
    role: str,
    join: Callable[[dict[str, Any], Mapping[str, Any]], bool],
) -> list[dict[str, Any]]:
    """Return the messages with neighbours of this role joined, where *join* can do that."""
    kept: list[dict[str, Any]] = []
    for message in messages:
        are_neighbours = kept and kept[-1].get("role") == role == message.get("role")
        if not (are_neighbours and join(kept[-1], message)):
            kept.append(dict(message))
    return kept


def _join_answers(last: dict[str, Any], message: Mapping[str, Any]) -> bool:
    if any(one.get("finish_reason") == "incomplete" or _has_items(one) for one in (last, message)):
        return False
    if last.get("finish_reason") in _PROVISIONAL:
        last.clear()
        last.update(message)
        return True
    _join_texts(last, message, "\n")
    if united := [*(last.get("tool_calls") or ()), *(message.get("tool_calls") or ())]:
        last["tool_calls"] = united
    if message.get("reasoning_content") and not last.get("reasoning_content"):
        last["reasoning_content"] = message["reasoning_content"]
    return True


def _join_questions(last: dict[str, Any], message: Mapping[str, Any]) -> bool:
    if not all(isinstance(one.get("content"), str) for one in (last, message)):
        return False
    _join_texts(last, message, "\n\n")
    # It was sent as two messages.
    last.pop("api_content", None)
    return True


def _join_texts(last: dict[str, Any], message: Mapping[str, Any], separator: str) -> None:
    first, second = last.get("content"), message.get("content")
    if not first:
        last["content"] = first if second is None else second
    elif isinstance(first, str) and isinstance(second, str) and second:
        last["content"] = f"{first}{separator}{second}"
    elif second:
        last["content"] = [*_parts(first), *_parts(second)]


def _parts(content: Any) -> list[Any]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content} if isinstance(content, str) else content]


def _without_stray_results(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop results of tools that the last answer did not call, or that it has already got."""
    kept = []
    waiting: set[str] = set()
    for message in messages:
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                continue
            waiting.discard(message["tool_call_id"])
        elif role == "assistant":
            waiting = set(_call_ids(message))
        elif role == "user":
            waiting = set()
        kept.append(message)
    return kept


def _has_items(message: Mapping[str, Any]) -> bool:
    return any(message.get(name) for name in _CODEX)


def _call_ids(message: Mapping[str, Any]) -> Iterable[str]:
    for call in message.get("tool_calls") or ():
        if isinstance(call, Mapping):
            yield from (call[key] for key in ("id", "call_id") if isinstance(call.get(key), str))

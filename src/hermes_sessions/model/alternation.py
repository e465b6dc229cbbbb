"""Makes a transcript acceptable to model providers that demand alternating roles.

An interrupted turn leaves two user messages in a row, a retried one two answers, a lost one the
result of a call that is not there. The rules join or drop them; the stored rows do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

M = TypeVar("M", bound=Mapping[str, Any])

#: Answers that their agent was about to replace.
_PROVISIONAL: Final = ("verification_required", "verify_hook_continue")
_CODEX: Final = ("codex_reasoning_items", "codex_message_items")


def alternating(messages: Iterable[M]) -> list[M]:
    """Return the messages with neighbours of one role joined and stray tool results dropped."""
    kept: list[dict[str, Any]] = []
    calls: set[str] = set()
    for message in messages:
        role = message.get("role")
        if role == "tool" and message.get("tool_call_id") not in calls:
            continue
        calls.update(_call_ids(message))
        last = kept[-1] if kept else None
        if last is None or last.get("role") != role or not _join(last, message):
            kept.append(dict(message))
    return kept  # type: ignore[return-value]  # dicts of the same keys


def _join(last: dict[str, Any], message: Mapping[str, Any]) -> bool:
    """Join a message into its neighbour of the same role; return whether they can be joined."""
    if message["role"] == "user":
        return _join_texts(last, message, "\n\n")
    if message["role"] != "assistant":
        return False
    if last.get("finish_reason") in _PROVISIONAL:
        last.clear()
        last.update(message)
        return True
    if any(one.get("finish_reason") == "incomplete" or _has_items(one) for one in (last, message)):
        return False
    if not _join_texts(last, message, "\n"):
        return False
    if united := [*(last.get("tool_calls") or ()), *(message.get("tool_calls") or ())]:
        last["tool_calls"] = united
    return True


def _join_texts(last: dict[str, Any], message: Mapping[str, Any], separator: str) -> bool:
    texts = [one.get("content") for one in (last, message)]
    if not all(text is None or isinstance(text, str) for text in texts):
        return False
    if texts[1]:
        last["content"] = separator.join(text for text in texts if text)
        # It was sent as two messages.
        last.pop("api_content", None)
    return True


def _has_items(message: Mapping[str, Any]) -> bool:
    return any(message.get(name) for name in _CODEX)


def _call_ids(message: Mapping[str, Any]) -> Iterable[str]:
    for call in message.get("tool_calls") or ():
        if isinstance(call, Mapping):
            yield from (call[key] for key in ("id", "call_id") if isinstance(call.get(key), str))

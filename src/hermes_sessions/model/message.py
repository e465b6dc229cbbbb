"""Messages: counting tool calls, previews, and cleaning for replay."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

PREVIEW_LENGTH = 60


def count_tool_calls(tool_calls: Any) -> int:
    """Return the number of tool calls; a value that is not a list counts as one unless empty."""
    if not tool_calls:
        return 0
    return len(tool_calls) if isinstance(tool_calls, (list, tuple)) else 1


def names_of_calls(tool_calls: Any) -> Iterator[str]:
    """Yield the name of each tool that a message calls, where a name is given."""
    for call in tool_calls if isinstance(tool_calls, (list, tuple)) else [tool_calls]:
        if isinstance(call, dict):
            function = call.get("function")
            name = function.get("name") if isinstance(function, dict) else call.get("name")
            if isinstance(name, str) and name:
                yield name


def text_of(content: Any) -> str:
    """Return the readable text of any content; text parts of structured content are joined."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if isinstance(content, (list, tuple)):
        return " ".join(part for part in map(_text_of_part, content) if part)
    return ""


def _text_of_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        for key in ("text", "content"):
            value = part.get(key)
            if isinstance(value, str):
                return value
            if isinstance(value, (list, dict)):
                return text_of(value)
    return ""


#: Stands for the base64 of an attachment; see `storage.attachment_texts`.
PLACEHOLDER: Final = re.compile(r"\[attachment ([0-9a-f]{64})\]")
_ENCODED: Final = re.compile(
    rf"data:([\w.+/-]*)(?:;[\w=.+-]+)*;base64,(?:{PLACEHOLDER.pattern}|[A-Za-z0-9+/_=-]{{64,}})"
)


def without_base64(text: str) -> str:
    """Return text to search and to show: a data URL becomes its media type in brackets."""
    if ";base64," in text:
        text = _ENCODED.sub(lambda match: f"[{match[1]}]", text)
    return PLACEHOLDER.sub("", text) if "[attachment " in text else text


def is_payload_only(message: Mapping[str, Any]) -> bool:
    """Return whether a message has a payload, but neither content nor tool calls to show."""
    has_payload = message.get("payload") is not None
    return has_payload and message.get("content") is None and not message.get("tool_calls")


def preview_of(content: Any) -> str:
    """Return a one-line preview of at most `PREVIEW_LENGTH` characters, plus ``...`` when cut."""
    whole = without_base64(text_of(content))
    # A short piece of the start is nearly always enough, so huge messages stay cheap.
    text = " ".join(whole[: PREVIEW_LENGTH * 4].split())
    if len(text) <= PREVIEW_LENGTH:
        text = " ".join(whole[: PREVIEW_LENGTH * 100].split())
    if len(text) <= PREVIEW_LENGTH:
        return text
    return text[:PREVIEW_LENGTH] + "..."


# ── replay ────────────────────────────────────────────────────────────────────────────────────

_MEMORY_BLOCK = re.compile(r"<memory-context>.*?</memory-context>", re.DOTALL | re.IGNORECASE)
_MEMORY_NOTE = re.compile(r"\[System note:[^\]]*recalled memory[^\]]*\]", re.IGNORECASE)
_MEMORY_TAG = re.compile(r"</?\s*memory-context\s*>", re.IGNORECASE)


def without_recalled_memory(text: str) -> str:
    """Return text without the memory blocks that a host injected for one turn, stripped."""
    # Every pattern contains this word; a substring test first is many times faster.
    if ("<" in text or "[" in text) and "memory" in text.lower():
        for pattern in (_MEMORY_BLOCK, _MEMORY_NOTE, _MEMORY_TAG):
            text = pattern.sub("", text)
    return text.strip()


M = TypeVar("M", bound=Mapping[str, Any])


def drop_repeated_questions(conversation: Iterable[M]) -> list[M]:
    """Drop a user message that repeats an earlier, still unanswered one.

    A continuation starts with the question its parent ended with. An assistant message with
    content or tool calls answers all questions before it.
    """
    kept: list[M] = []
    unanswered: set[str] = set()
    for message in conversation:
        role, content = message["role"], message["content"]
        if role == "assistant" and (content or message.get("tool_calls")):
            unanswered.clear()
        elif role == "user" and isinstance(content, str) and content:
            if content in unanswered:
                continue
            unanswered.add(content)
        kept.append(message)
    return kept

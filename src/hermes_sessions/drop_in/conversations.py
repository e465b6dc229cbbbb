"""Transcripts for replay with the keys of Hermes 0.19, in its order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from hermes_sessions.model.message import (
    drop_repeated_questions,
    text_of,
    without_recalled_memory,
)
from hermes_sessions.storage.codec import from_json

Message = dict[str, Any]

#: Beginnings of the prompts with which Hermes reviews a conversation in the background. They are
#: no part of it, nor is the answer.
_REVIEW: Final = "Review the conversation above and"
_REVIEW_PROMPTS: Final = (
    f"{_REVIEW} update the skill library",
    f"{_REVIEW} consider saving to memory",
)
_FACTS: Final = ("timestamp", "tool_call_id", "tool_name", "effect_disposition", "tool_calls")
_ASSISTANT_JSON: Final = ("reasoning_details", "codex_reasoning_items", "codex_message_items")
#: The first release whose replays show times and ids of messages.
_SHOWS_FACTS_SINCE: Final = (0, 17)


def conversation(
    records: Iterable[Mapping[str, Any]], *, with_ancestors: bool = False
) -> list[Message]:
    """Return the conversation of message records."""
    messages = _without_reviews([_replayed(record) for record in records])
    return drop_repeated_questions(messages) if with_ancestors else messages


def _replayed(record: Mapping[str, Any]) -> Message:
    role, content = record["role"], record["content"]
    if isinstance(content, str) and content and role in ("user", "assistant"):
        content = without_recalled_memory(content)
    message: Message = {"role": role, "content": content}
    if record["api_content"] is not None:
        message["api_content"] = record["api_content"]
    message |= {name: record[name] for name in _FACTS if record[name]}
    if record["platform_message_id"]:
        message["message_id"] = record["platform_message_id"]
    if record["observed"]:
        message["observed"] = True
    if role == "assistant":
        message |= {name: record[name] for name in ("finish_reason", "reasoning") if record[name]}
        if record["reasoning_content"] is not None:
            message["reasoning_content"] = record["reasoning_content"]
        message |= {name: from_json(record[name], None) for name in _ASSISTANT_JSON if record[name]}
    return message


def _without_reviews(messages: list[Message]) -> list[Message]:
    kept: list[Message] = []
    is_answer = False
    for message in messages:
        role = message["role"]
        if role in ("user", "system") and text_of(message["content"]).lstrip().startswith(
            _REVIEW_PROMPTS
        ):
            is_answer = True
        elif is_answer and role == "assistant":
            is_answer = False
        else:
            is_answer = False
            kept.append(message)
    return kept


@cache
def client_shows_facts() -> bool:
    """Return whether the installed hermes-agent is a release that reads times and ids of messages
    in replays. Earlier ones would send them to the model's provider.
    """
    from importlib import metadata

    try:
        release = metadata.version("hermes-agent").split(".")
        return tuple(int(number) for number in release[:2]) >= _SHOWS_FACTS_SINCE
    except (metadata.PackageNotFoundError, ValueError):
        return False

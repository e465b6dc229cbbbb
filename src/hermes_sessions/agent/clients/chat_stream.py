"""What an OpenAI-compatible endpoint answers, as the events of one reply. No I/O.

Endpoints differ: pieces or one whole answer, tool calls by index or without, usage at the end, in
every piece or not at all. All of them end up as the same events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from hermes_sessions.agent.clients.endpoint_errors import failure_in, shortened
from hermes_sessions.agent.clients.event_source import BYTE_ORDER_MARK, MAX_EVENT_BYTES, EventSource
from hermes_sessions.agent.clients.port import (
    Event,
    ModelGarbled,
    ModelUnavailable,
    ReasoningPiece,
    Reply,
    TextPiece,
    Usage,
)
from hermes_sessions.agent.clients.tool_calls import ToolCalls

_DONE = "[DONE]"
BROKE_OFF = "The endpoint broke off before its answer was complete."


def reply_events(portions: Iterable[bytes], new_id: Callable[[], str]) -> Iterator[Event]:
    """Yield the events of the reply whose bytes come in ``portions``, however they are cut.

    ``new_id`` names tool calls that came without an id. Bytes after the end are not asked for.

    Raises:
        ModelUnavailable: the bytes end before the reply does, or an error came amid them.
        ModelRefused: an error came that says the request cannot be answered.
        ModelGarbled: it is no reply.
    """
    builder = ReplyBuilder(new_id)
    source = portions.__iter__()
    begun = _beginning(source)
    if begun.lstrip()[:1] in {b"{", b"["}:
        yield from builder.add(_parsed(_whole(begun, source)))
        builder.is_complete = True
    else:
        try:
            yield from _streamed(begun, source, builder)
        except ModelUnavailable:
            # A line that is lost after the last word costs the usage, and no part of the answer.
            if not builder.has_ended:
                raise
    yield builder.reply()


def _beginning(source: Iterator[bytes]) -> bytes:
    """Return the first portions, enough to tell one answer from a stream."""
    begun = b""
    for portion in source:
        begun += portion
        if begun.strip() and not BYTE_ORDER_MARK.startswith(begun):
            break
    return begun.removeprefix(BYTE_ORDER_MARK)


def _whole(begun: bytes, source: Iterator[bytes]) -> str:
    parts = [begun]
    size = len(begun)
    for portion in source:
        parts.append(portion)
        size += len(portion)
        if size > MAX_EVENT_BYTES:
            raise ModelGarbled("The endpoint's answer is too large to be a reply.")
    return b"".join(parts).decode("utf-8", "replace")


def _streamed(begun: bytes, source: Iterator[bytes], builder: ReplyBuilder) -> Iterator[Event]:
    lines = EventSource()
    seen = b""
    for portion in _chain(begun, source):
        seen += portion[: 200 - len(seen)]
        for data in lines.feed(portion):
            if data.strip() == _DONE:
                builder.is_complete = True
                return
            yield from builder.add(_parsed(data))
    for data in lines.end():
        if data.strip() == _DONE:
            builder.is_complete = True
        else:
            # The last line may have been cut: then it is no nonsense, but an end.
            chunk = _parsed_or_none(data)
            if chunk is None:
                raise ModelUnavailable(BROKE_OFF)
            yield from builder.add(chunk)
    if builder.is_untouched and seen.strip() and not _looks_like_events(seen):
        raise ModelGarbled(
            f"The endpoint answered something that is no reply: {shortened(_text(seen))}. "
            f"Its address usually ends in /v1."
        )


def _chain(begun: bytes, source: Iterator[bytes]) -> Iterator[bytes]:
    yield begun
    yield from source


def _looks_like_events(seen: bytes) -> bool:
    """Tell whether these are the first bytes of events, perhaps of one that was cut."""
    line = seen.lstrip()
    fields = (b"data:", b"event:", b"id:", b"retry:", b":")
    return any(line.startswith(name) or name.startswith(line) for name in fields)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _parsed_or_none(text: str) -> Mapping[str, Any] | None:
    try:
        return _parsed(text)
    except ModelGarbled:
        return None


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelGarbled(
            f"The endpoint sent something that is no JSON: {shortened(text)}"
        ) from error
    if not isinstance(value, dict):
        raise ModelGarbled(f"The endpoint sent something that is no reply: {shortened(text)}")
    return value


class ReplyBuilder:
    """Puts a reply together from its chunks, or from one whole answer."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls = ToolCalls(new_id)
        self._usage = Usage()
        self._model: str | None = None
        self._finish_reason: str | None = None
        self._has_choice = False
        #: Whether the endpoint said that this was all.
        self.is_complete = False
        #: Whether nothing has been added yet.
        self.is_untouched = True

    @property
    def has_ended(self) -> bool:
        """Whether the endpoint said that, or why, the answer ends."""
        return self.is_complete or self._finish_reason is not None

    def add(self, chunk: Mapping[str, Any]) -> Iterator[Event]:
        """Add a chunk and yield the pieces in it.

        Raises:
            ModelUnavailable, ModelRefused: the chunk is an error.
            ModelGarbled: the chunk is nothing that belongs to a reply.
        """
        failure = failure_in(chunk)
        if failure is not None:
            raise failure
        choices = chunk.get("choices")
        usage = chunk.get("usage") or _mapping(chunk.get("x_groq")).get("usage")
        if choices is None and usage is None and self.is_untouched:
            raise ModelGarbled(
                f"The endpoint answered without a reply: {shortened(json.dumps(chunk))}"
            )
        self.is_untouched = False
        if isinstance(usage, dict):
            self._usage = usage_of(usage)
        if isinstance(chunk.get("model"), str):
            self._model = chunk["model"]
        for choice in choices if isinstance(choices, list) else ():
            # We ask for one answer; a second one would be mixed into the first.
            if isinstance(choice, dict) and choice.get("index", 0) in {0, None}:
                yield from self._add_choice(choice)

    def _add_choice(self, choice: Mapping[str, Any]) -> Iterator[Event]:
        self._has_choice = True
        failure = failure_in(choice)
        if failure is not None:
            raise failure
        part = _mapping(choice.get("delta") or choice.get("message"))
        text, thought = _content(part.get("content"))
        thought = (
            _string(part.get("reasoning_content")) or _string(part.get("reasoning")) or thought
        )
        text += _string(part.get("refusal"))
        if thought:
            self._reasoning.append(thought)
            yield ReasoningPiece(thought)
        if text:
            self._text.append(text)
            yield TextPiece(text)
        calls = part.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                self._calls.add(call)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._finish_reason = reason

    def reply(self) -> Reply:
        """Return the whole reply.

        Raises ModelUnavailable when the endpoint never said that this was all, and ModelGarbled
        when it said so without an answer.
        """
        if not self.has_ended:
            raise ModelUnavailable(BROKE_OFF)
        if not self._has_choice:
            raise ModelGarbled("The endpoint answered without a reply.")
        return Reply(
            text="".join(self._text),
            finish_reason=self._finish_reason,
            reasoning="".join(self._reasoning) or None,
            tool_calls=self._calls.finished(),
            usage=self._usage,
            model=self._model,
        )


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Return the tokens under whichever names the endpoint gives them."""
    read = _mapping(usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))
    written = _mapping(usage.get("completion_tokens_details") or usage.get("output_tokens_details"))
    return Usage(
        input_tokens=_count(usage, "prompt_tokens", "input_tokens"),
        output_tokens=_count(usage, "completion_tokens", "output_tokens"),
        cache_read_tokens=_first(
            _count(read, "cached_tokens"),
            _count(usage, "prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens"),
        ),
        cache_write_tokens=_first(
            _count(read, "cache_write_tokens", "cache_creation_tokens"),
            _count(usage, "cache_creation_input_tokens"),
        ),
        reasoning_tokens=_first(
            _count(written, "reasoning_tokens"), _count(usage, "reasoning_tokens")
        ),
        stated_cost=_amount(usage.get("cost")),
    )


def _amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < float("inf") else None


def _count(counts: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = counts.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _content(content: object) -> tuple[str, str]:
    """Return text and thoughts of a content that is text, or a list of parts."""
    if not isinstance(content, list):
        return _string(content), ""
    text: list[str] = []
    thoughts: list[str] = []
    for part in content:
        if isinstance(part, dict):
            text.append(_string(part.get("text")))
            inner = part.get("thinking")
            thoughts.append("".join(_content(inner)) if isinstance(inner, list) else _string(inner))
    return "".join(text), "".join(thoughts)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""

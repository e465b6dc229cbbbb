"""Parses the answer of an OpenAI-compatible endpoint into the events of one reply. No I/O.

Endpoints differ: streamed pieces or one whole answer, tool calls with or without an index, usage at
the end, in every piece or not at all. All of them result in the same events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes_sessions.agent.clients.endpoint_errors import error_in_chunk, shortened
from hermes_sessions.agent.clients.port import (
    Event,
    ModelGarbled,
    ModelUnavailable,
    ReasoningPiece,
    Reply,
    TextPiece,
    ToolCall,
    Usage,
)

# ── tool calls ────────────────────────────────────────────────────────────────────────────────
# The protocol numbers the calls of a reply and sends each in fragments. Some endpoints send whole
# calls, omit the numbers or the ids, or give every call the number 0.


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
    """The tool calls of one reply, in the order in which they began."""

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
        call = self._find_call(index, call_id)
        if call is None or _begins_another(call, call_id, name, arguments):
            call = _Call(index)
            self._calls.append(call)
        call.id = call.id or call_id
        if name and name != call.name and not (call.name and call.fragments):
            call.name += name
        if arguments:
            call.fragments.append(arguments)

    def _find_call(self, index: object, call_id: str) -> _Call | None:
        """Return the call that a fragment with this number and id continues, if there is one."""
        for call in reversed(self._calls):
            if index is not None:
                if call.index == index:
                    return call
            elif not call_id or call.id == call_id:
                return call
        return None

    def finished(self) -> tuple[ToolCall, ...]:
        """Return the calls, each with a unique id.

        Raises ModelGarbled for a call without the name of a tool.
        """
        finished: list[ToolCall] = []
        taken: set[str] = set()
        for call in self._calls:
            if not call.name:
                if call.arguments.strip():
                    raise ModelGarbled("The endpoint sent a tool call without a name.")
                continue
            call_id = call.id if call.id and call.id not in taken else self._new_id()
            taken.add(call_id)
            finished.append(ToolCall(call_id, call.name, call.arguments or "{}"))
        return tuple(finished)


def _begins_another(call: _Call, call_id: str, name: str, arguments: str) -> bool:
    """Tell whether a fragment with a known number starts a new call or repeats known fields."""
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


# ── server-sent events ────────────────────────────────────────────────────────────────────────
# Lines end at ``\n``, ``\r`` and ``\r\n`` only. Libraries that also split at Unicode line
# separators break JSON that contains one, so this parser is our own.


_LINE_END = re.compile(rb"\r\n|\n|\r")


BYTE_ORDER_MARK = b"\xef\xbb\xbf"

#: An event of a reply is a few bytes. More than this without an end is not an event.
MAX_EVENT_BYTES = 32 * 1024**2


class EventSource:
    """Parses server-sent events from bytes that arrive in any portions."""

    def __init__(self) -> None:
        self._rest = b""
        self._at_start = True
        self._data: list[str] = []
        self._size = 0

    def feed(self, portion: bytes) -> list[str]:
        """Return the data of every event that ``portion`` completes.

        Raises ModelGarbled if an event is too long.
        """
        buffer = self._rest + portion
        if self._at_start:
            if BYTE_ORDER_MARK.startswith(buffer):
                self._rest = buffer
                return []
            buffer = buffer.removeprefix(BYTE_ORDER_MARK)
            self._at_start = False
        # A carriage return at the end may be the first half of a line end.
        usable = len(buffer) - buffer.endswith(b"\r")
        events: list[str] = []
        begin = 0
        for end in _LINE_END.finditer(buffer, 0, usable):
            self._take(buffer[begin : end.start()], events)
            begin = end.end()
        self._rest = buffer[begin:]
        if len(self._rest) + self._size > MAX_EVENT_BYTES:
            raise ModelGarbled(
                f"The endpoint sent an event of more than {MAX_EVENT_BYTES // 1024**2} MB."
            )
        return events

    def end(self) -> list[str]:
        """Return the last events: some servers omit the final blank line."""
        events: list[str] = []
        self._take(self._rest.removesuffix(b"\r"), events)
        self._take(b"", events)
        self._rest = b""
        return events

    def _take(self, line: bytes, events: list[str]) -> None:
        if not line:
            if self._data:
                events.append("\n".join(self._data))
            self._data, self._size = [], 0
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
            self._size += len(value)


_DONE = "[DONE]"
REPLY_CUT_OFF = "The endpoint closed the connection before its answer was complete."


def reply_events(portions: Iterable[bytes], new_id: Callable[[], str]) -> Iterator[Event]:
    """Yield the events of the reply in ``portions``, which may be cut anywhere.

    ``new_id`` makes ids for tool calls without one. Reading stops at the end of the reply.

    Raises:
        ModelUnavailable: the bytes end before the reply does, or contain an error.
        ModelRefused: an error says that the request cannot be answered.
        ModelGarbled: the bytes are not a reply.
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
            # Losing the line after the last piece loses the usage only, no part of the answer.
            if not builder.has_ended:
                raise
    yield builder.reply()


def _beginning(source: Iterator[bytes]) -> bytes:
    """Return the first portions, enough to tell a whole answer from a stream."""
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
            # The last line may be incomplete because the connection broke.
            chunk = _parsed_or_none(data)
            if chunk is None:
                raise ModelUnavailable(REPLY_CUT_OFF)
            yield from builder.add(chunk)
    if builder.is_untouched and seen.strip() and not _looks_like_events(seen):
        raise ModelGarbled(
            f"The endpoint sent something that is not a reply: {shortened(_text(seen))}. "
            f"Check its base URL, which usually ends in /v1."
        )


def _chain(begun: bytes, source: Iterator[bytes]) -> Iterator[bytes]:
    yield begun
    yield from source


def _looks_like_events(seen: bytes) -> bool:
    """Tell whether these bytes begin like server-sent events, perhaps in the middle of one."""
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
            f"The endpoint sent something that is not JSON: {shortened(text)}"
        ) from error
    if not isinstance(value, dict):
        raise ModelGarbled(f"The endpoint sent something that is not a reply: {shortened(text)}")
    return value


class ReplyBuilder:
    """Builds a reply from its chunks, or from one whole answer."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls = ToolCalls(new_id)
        self._usage = Usage()
        self._model: str | None = None
        self._finish_reason: str | None = None
        self._has_choice = False
        #: Whether the endpoint marked the end of the reply.
        self.is_complete = False
        #: Whether nothing has been added yet.
        self.is_untouched = True

    @property
    def has_ended(self) -> bool:
        """Whether the endpoint ended the answer or gave a reason for its end."""
        return self.is_complete or self._finish_reason is not None

    def add(self, chunk: Mapping[str, Any]) -> Iterator[Event]:
        """Add a chunk and yield the pieces in it.

        Raises:
            ModelUnavailable, ModelRefused: the chunk is an error.
            ModelGarbled: the chunk is not part of a reply.
        """
        failure = error_in_chunk(chunk)
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
            # We ask for one choice; a second one would be mixed into it.
            if isinstance(choice, dict) and choice.get("index", 0) in {0, None}:
                yield from self._add_choice(choice)

    def _add_choice(self, choice: Mapping[str, Any]) -> Iterator[Event]:
        self._has_choice = True
        failure = error_in_chunk(choice)
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

        Raises ModelUnavailable if the endpoint did not complete it, and ModelGarbled if it is
        empty.
        """
        if not self.has_ended:
            raise ModelUnavailable(REPLY_CUT_OFF)
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
    """Return the usage, which endpoints report under different names."""
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
    """Return the text and the reasoning of a content, which is text or a list of parts."""
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

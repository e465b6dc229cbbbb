"""Messages as recall shows them, and how many of them, and how much of each, fits into a budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hermes_sessions.model.message import text_of
from hermes_sessions.recall.budget import cut_to_json_length, json_length, share_out
from hermes_sessions.text.query.matcher import find_marks
from hermes_sessions.text.query.tree import Node
from hermes_sessions.text.snippet import Mark

# Where in a text the answer to a question is, so that cutting keeps it.

#: Nothing further in is indexed, and looking costs time.
_LOOKED_AT: Final = 200_000


def marker_of(tree: Node | None) -> Marker:
    """Return what finds the matches of a query tree in a text."""

    def mark(text: str) -> Sequence[Mark]:
        return find_marks(tree, text[:_LOOKED_AT]) if tree is not None else ()

    return mark


Record = dict[str, Any]
#: Says where in a text the matches are.
Marker = Callable[[str], Sequence[Mark]]

#: A message is worth showing with this much of its text, or all of it when it is shorter.
_SMALLEST: Final = 120
#: What stands between two values of a list, and what says that a message was cut.
_BETWEEN: Final = 2
_CUT_NOTICE: Final = len(', "truncated": true, "length": 12345678')
_MOST_CALLS: Final = 5
_LONGEST_NAME: Final = 120


def no_marks(_text: str) -> Sequence[Mark]:
    """Find nothing: for texts that were not searched for."""
    return ()


def label(text: str | None) -> str | None:
    """Return a name that others chose (source, model, title) at a bounded length."""
    return None if text is None else cut_to_json_length(text, _LONGEST_NAME)


@dataclass(slots=True)
class MessageExcerpt:
    """A message on its way into an answer."""

    record: Record
    #: Who goes first when there is no room for all: smaller numbers stay longer.
    priority: float
    #: How much of the room it gets in comparison with others.
    weight: int = 1
    anchor: bool = False
    #: How much room text and calls take when nothing is cut.
    wanted: int = field(init=False)
    _text: str = field(init=False)
    _calls: Any = field(init=False)
    _calls_length: int = field(init=False)

    def __post_init__(self) -> None:
        self._text = _readable(self.record.get("content"))
        self._calls = _strict(self.record.get("tool_calls"))
        self._calls_length = json_length({"tool_calls": self._calls}) if self._calls else 0
        self.wanted = json_length(self._text) - 2 + self._calls_length

    def frame(self) -> Record:
        """Return the message without what can be cut."""
        frame: Record = {
            "id": self.record["id"],
            "role": label(self.record["role"]),
            "content": "",
            "timestamp": self.record["timestamp"],
        }
        for name in ("tool_name", "tool_call_id"):
            if self.record.get(name):
                frame[name] = label(self.record[name])
        if self.anchor:
            frame["anchor"] = True
        return frame

    @property
    def least(self) -> int:
        """How much room the message needs to be worth showing."""
        return min(self.wanted, _SMALLEST)

    def shown(self, room: int, marker: Marker) -> Record:
        """Return the message with text and calls cut to *room* characters."""
        message = self.frame()
        if self.wanted <= room:
            message["content"] = self._text
            if self._calls:
                message["tool_calls"] = self._calls
            return message
        # What was cut is said at the expense of what is shown.
        room -= _CUT_NOTICE
        text_room = room if not self._calls else max(room // 2, room - self._calls_length)
        message["content"] = cut_to_json_length(self._text, text_room, marker(self._text))
        if self._calls:
            left = room - json_length(message["content"]) + 2
            calls = self._shorter_calls(left, marker)
            if calls:
                message["tool_calls"] = calls
        message["truncated"] = True
        message["length"] = len(self._text)
        return message

    def _shorter_calls(self, room: int, marker: Marker) -> Any:
        """Return the calls with their arguments cut, or nothing when even that does not fit."""
        if self._calls_length <= room:
            return self._calls
        calls = self._calls if isinstance(self._calls, list) else [self._calls]
        frames = [_call_frame(call) for call in calls[:_MOST_CALLS]]
        spare = room - json_length({"tool_calls": [frame for frame, _ in frames]})
        if spare < 0:
            return None
        for frame, arguments in frames:
            function = frame["function"]
            size = spare // len(frames)
            function["arguments"] = cut_to_json_length(arguments, size, marker(arguments))
        return [frame for frame, _ in frames]


def fit(
    drafts: Sequence[MessageExcerpt], room: int, marker: Marker = no_marks
) -> list[Record | None]:
    """Return each message as shown, None for those there is no room for; at most *room*
    characters in all.

    Messages stay in the order of their priority until one does not fit. Those that stay share the
    room, so that short ones are whole and long ones are cut, around their matches.
    """
    frames = [json_length(draft.frame()) + _BETWEEN for draft in drafts]
    kept: list[int] = []
    left = room
    for i in sorted(range(len(drafts)), key=lambda i: drafts[i].priority):
        left -= frames[i] + drafts[i].least
        if left < 0:
            break
        kept.append(i)
    more = share_out(
        [drafts[i].wanted - drafts[i].least for i in kept],
        [drafts[i].weight for i in kept],
        room - sum(frames[i] + drafts[i].least for i in kept),
    )
    shown: list[Record | None] = [None] * len(drafts)
    for i, size in zip(kept, more, strict=True):
        shown[i] = drafts[i].shown(drafts[i].least + size, marker)
    return shown


def wanted_room(drafts: Sequence[MessageExcerpt]) -> int:
    """Return how much room messages take when nothing is cut."""
    return sum(json_length(d.frame()) + _BETWEEN + d.wanted for d in drafts)


def _readable(content: Any) -> str:
    text = text_of(content)
    if not text and content is not None and not isinstance(content, str):
        return "[multimodal content]"
    return text


def _strict(value: Any) -> Any:
    """Return a JSON value without the numbers that JSON does not have."""
    if not value:
        return None
    return json.loads(json.dumps(value), parse_constant=str)


def _call_frame(call: Any) -> tuple[Record, str]:
    """Return a tool call without its arguments, and those as text."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return {"function": {"name": "", "arguments": ""}}, json.dumps(call, ensure_ascii=False)
    name, arguments = function.get("name"), function.get("arguments", "")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    frame: Record = {"function": {"name": label(str(name or "")), "arguments": ""}}
    if isinstance(call.get("id"), str):
        frame = {"id": label(call["id"])} | frame
    return frame, arguments

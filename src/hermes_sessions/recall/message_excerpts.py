"""Message excerpts: how many messages, and how much of each, fit into a budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hermes_sessions.model.message import text_of
from hermes_sessions.recall.budget import count_tokens, cut_to_tokens, json_tokens, share_out
from hermes_sessions.text.query.matcher import find_marks
from hermes_sessions.text.query.tree import Node
from hermes_sessions.text.snippet import Mark

if TYPE_CHECKING:
    from hermes_sessions.storage.records import MessageRecord

# Positions of matches in a text, so that cutting keeps them.

#: Text beyond this is not indexed, and searching it costs time.
_LOOKED_AT: Final = 200_000


def marker_of(tree: Node | None) -> Marker:
    """Return a function that finds the matches of a query tree in a text."""

    def mark(text: str) -> Sequence[Mark]:
        return find_marks(tree, text[:_LOOKED_AT]) if tree is not None else ()

    return mark


Record = dict[str, Any]
#: Returns the positions of matches in a text.
Marker = Callable[[str], Sequence[Mark]]

#: The least tokens in which a message is worth showing: of one that matches, and of others.
_SMALLEST_MATCH: Final = 200
_SMALLEST: Final = 30
#: The tokens of a separator in a list, and of the fields that report a cut.
_BETWEEN: Final = 1
_CUT_NOTICE: Final = count_tokens(', "truncated": true, "length": 12345678')
_MOST_CALLS: Final = 5
_LONGEST_NAME: Final = 30


def no_marks(_text: str) -> Sequence[Mark]:
    """Return no matches: for texts that were not searched."""
    return ()


def label(text: str | None) -> str | None:
    """Return a user-chosen name (source, model, title) at a bounded length."""
    return None if text is None else cut_to_tokens(text, _LONGEST_NAME)


@dataclass(slots=True)
class MessageExcerpt:
    """A message that is being prepared for a result."""

    record: MessageRecord
    #: Which messages are dropped first when room is short: larger numbers go first.
    priority: float
    #: Its share of the room compared with others.
    weight: int = 1
    #: Whether it is the match that the others surround.
    anchor: bool = False
    #: Whether it matches the query: then it stays whole before others get room.
    matches: bool = False
    #: Its session, where that is not clear from the place it is shown.
    session_id: str | None = None
    #: Returns a time formatted for the caller.
    date: Callable[[float], str] | None = None
    #: The room that text and calls take uncut.
    wanted: int = field(init=False)
    #: Its text, as it is read.
    text: str = field(init=False)
    _calls: Any = field(init=False)
    _calls_length: int = field(init=False)

    def __post_init__(self) -> None:
        self.text = _readable(self.record.get("content"))
        self._calls = _strict(self.record.get("tool_calls"))
        self._calls_length = json_tokens({"tool_calls": self._calls}) if self._calls else 0
        self.wanted = json_tokens(self.text) + self._calls_length

    def frame(self) -> Record:
        """Return the message without the parts that can be cut."""
        frame: Record = {} if self.session_id is None else {"session_id": self.session_id}
        frame |= {
            "id": self.record["id"],
            "role": label(self.record["role"]),
            "content": "",
        }
        if self.date is not None:
            frame["when"] = self.date(self.record["timestamp"])
        for name in ("tool_name", "tool_call_id"):
            if self.record.get(name):
                frame[name] = label(self.record[name])
        if self.anchor:
            frame["anchor"] = True
        return frame

    @property
    def least(self) -> int:
        """The least room in which the message is worth showing."""
        return min(self.wanted, _SMALLEST_MATCH if self.matches else _SMALLEST)

    def shown(self, room: int, marker: Marker) -> Record:
        """Return the message with text and calls cut to *room* tokens."""
        message = self.frame()
        if self.wanted <= room:
            message["content"] = self.text
            if self._calls:
                message["tool_calls"] = self._calls
            return message
        # The fields that report the cut take room from the text.
        room -= _CUT_NOTICE
        text_room = room if not self._calls else max(room // 2, room - self._calls_length)
        message["content"] = cut_to_tokens(self.text, text_room, marker(self.text))
        if self._calls:
            left = room - json_tokens(message["content"])
            calls = self._shorter_calls(left, marker)
            if calls:
                message["tool_calls"] = calls
        message["truncated"] = True
        message["length"] = len(self.text)
        return message

    def _shorter_calls(self, room: int, marker: Marker) -> Any:
        """Return the calls with cut arguments, or None when even that does not fit."""
        if self._calls_length <= room:
            return self._calls
        calls = self._calls if isinstance(self._calls, list) else [self._calls]
        frames = [_call_frame(call) for call in calls[:_MOST_CALLS]]
        spare = room - json_tokens({"tool_calls": [frame for frame, _ in frames]})
        if spare < 0:
            return None
        for frame, arguments in frames:
            function = frame["function"]
            size = spare // len(frames)
            function["arguments"] = cut_to_tokens(arguments, size, marker(arguments))
        return [frame for frame, _ in frames]


def fit(
    drafts: Sequence[MessageExcerpt], room: int, marker: Marker = no_marks
) -> list[Record | None]:
    """Return each message as shown, None for those that do not fit; at most *room* tokens in all.

    Messages are kept in order of priority until one does not fit. The kept ones share the room:
    short ones stay whole, long ones are cut around their matches.
    """
    frames = [json_tokens(draft.frame()) + _BETWEEN for draft in drafts]
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


def _readable(content: Any) -> str:
    text = text_of(content)
    if not text and content is not None and not isinstance(content, str):
        return "[multimodal content]"
    return text


def _strict(value: Any) -> Any:
    """Return a JSON value without NaN and infinities, which JSON does not have."""
    if not value:
        return None
    return json.loads(json.dumps(value), parse_constant=str)


def _call_frame(call: Any) -> tuple[Record, str]:
    """Return a tool call without its arguments, and the arguments as text."""
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

"""Format responses: objects in OpenAI's format and our own, and stream events. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from hermes_sessions.gateway.events import Receipt
from hermes_sessions.gateway.platforms.port import Progress

#: Ends a stream in OpenAI's format.
DONE: Final = b"data: [DONE]\n\n"
#: A comment that keeps proxies from closing an idle connection.
STILL_HERE: Final = b": still here\n\n"

_SESSION: Final = (
    "id",
    "conversation_id",
    "title",
    "preview",
    "model",
    "message_count",
    "started_at",
    "ended_at",
    "end_reason",
    "last_active",
    "input_tokens",
    "output_tokens",
)
_MESSAGE: Final = ("id", "role", "content", "timestamp", "tool_name", "tool_calls", "tool_call_id")


class ReplyDeltas:
    """The text of a turn in pieces; at its end, the rest of the reply."""

    def __init__(self) -> None:
        self._said = ""
        self._since_tool = ""
        self._is_new_text = False

    def piece(self, progress: Progress) -> str:
        """Return the text to send now; often empty."""
        if progress.kind == "tool_started":
            # The text after a tool call is a new paragraph.
            self._is_new_text, self._since_tool = bool(self._said), ""
            return ""
        if progress.kind == "text":
            return self._say(progress.text)
        if progress.kind == "ended" and progress.text.startswith(self._since_tool):
            # A late subscriber has missed some of it, or all.
            return self._say(progress.text[len(self._since_tool) :])
        return ""

    def _say(self, text: str) -> str:
        if not text:
            return ""
        self._since_tool += text
        shown = f"\n\n{text}" if self._is_new_text else text
        self._is_new_text = False
        self._said += shown
        return shown


class Answer(NamedTuple):
    """One response in OpenAI's format."""

    id: str
    created: int
    model: str

    def _frame(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def whole(self, text: str) -> dict[str, Any]:
        """Return the whole response."""
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
        return self._frame("chat.completion") | {"choices": [choice]}

    def chunk(self, delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
        """Return a chunk of it, as sent."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return event(self._frame("chat.completion.chunk") | {"choices": [choice]})


def event(data: Mapping[str, Any], name: str | None = None) -> bytes:
    """Return an event of a stream. JSON has no raw line ends, so that no text can end the event."""
    text = json.dumps(data, ensure_ascii=True)
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode()


def progress_event(progress: Progress) -> bytes:
    """Return an event of our own stream."""
    data: dict[str, Any] = {"text": progress.text}
    if progress.kind in {"tool_started", "tool_finished"}:
        data = {"tool": progress.text}
    if progress.kind == "ended":
        data["outcome"] = progress.outcome
    return event(data, progress.kind)


def receipt_json(receipt: Receipt, conversation: str, message_id: str) -> dict[str, Any]:
    """Return the receipt of a message."""
    return {
        "object": "receipt",
        "status": receipt.status,
        "conversation": conversation,
        "message_id": message_id,
        "item_id": receipt.item_id,
        "waiting": receipt.depth,
        "note": receipt.reply,
    }


def session_json(session: Mapping[str, Any]) -> dict[str, Any]:
    """Return a session for lists."""
    return {"object": "session"} | {name: session.get(name) for name in _SESSION}


def message_json(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored message. Bytes are not text, so only their number is shown."""
    shown = {name: message.get(name) for name in _MESSAGE}
    if isinstance(shown["content"], bytes):
        shown["content"] = f"[{len(shown['content'])} bytes]"
    return {"object": "message"} | shown


def page_json(rows: Sequence[Mapping[str, Any]], limit: int, offset: int) -> dict[str, Any]:
    """Return a page of a list; *rows* has one more than *limit* if there are more."""
    has_more = len(rows) > limit
    return {
        "object": "list",
        "data": list(rows[:limit]),
        "has_more": has_more,
        "next_offset": offset + limit if has_more else None,
    }

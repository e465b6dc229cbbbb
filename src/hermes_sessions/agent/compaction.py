"""Compaction: continue a long session under a new id, with a summary of its messages.

The model writes the summary; the last messages are copied unchanged. The original session is not
changed, and search still finds it. One process at a time compacts a session.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any, Final

from hermes_sessions.agent.clients.port import (
    ModelClient,
    ModelGarbled,
    ReasoningPiece,
    Reply,
    Request,
    TextPiece,
)
from hermes_sessions.agent.interrupts import closing_on_interrupt
from hermes_sessions.agent.pricing import UNPRICED, Pricing, record_side_call_usage
from hermes_sessions.errors import InvalidInput, UnknownSession
from hermes_sessions.storage.host_processes import this_process_mark, without_mark
from hermes_sessions.storage.sessiondb import SessionDB

#: The share of the context that may be used before a session is compacted automatically.
COMPACT_ABOVE: Final = 0.8
#: At most this many messages at the end are copied, with at most this many characters.
_COPIED_MESSAGES: Final = 6
_COPIED_CHARACTERS: Final = 6_000
#: Longer messages are shortened to this many characters before the model summarises them.
_EXCERPT: Final = 2_000
_CHARACTERS_PER_TOKEN: Final = 4
_TTL: Final = 300.0

_INSTRUCTION: Final = (
    "Summarise this conversation so that it can continue without the earlier messages. Keep facts, "
    "decisions and their reasons, names, paths, identifiers, open questions and agreed next steps. "
    "Write plain text without a greeting."
)
HEADING: Final = "[Summary of the conversation so far]"


class CompactionBusy(InvalidInput):
    """Another process is compacting the session."""


class CompactionInterrupted(InvalidInput):
    """The summary was interrupted; the session is unchanged."""


def estimated_tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    """Estimate the tokens of messages for which the provider reported none."""
    return sum(len(_text(message)) for message in messages) // _CHARACTERS_PER_TOKEN


def is_nearly_full(used: int, context_length: int) -> bool:
    """Tell whether a session that uses *used* tokens should be compacted now."""
    return used > context_length * COMPACT_ABOVE


def compact(
    db: SessionDB,
    session_id: str,
    client: ModelClient,
    *,
    new_session_id: str,
    model: str | None = None,
    focus: str | None = None,
    most_input: int = 24_000,
    pricing: Pricing = UNPRICED,
    interrupt: Event | None = None,
    on_piece: Callable[[str], None] = lambda _: None,
    fence: int | None = None,
) -> str:
    """Continue a session under *new_session_id* with a summary; return that id.

    *focus* says what matters most; *most_input* limits, in tokens, what the model is asked to
    read; *fence* is the token of the lease that holds the session, if any. Nothing is written
    before the summary is complete.

    Raises:
        CompactionBusy: another process is compacting it.
        InvalidInput: there is nothing to summarise, or it was continued meanwhile.
        CompactionInterrupted: *interrupt* was set; the session is unchanged.
        ModelError: the model failed; the session is unchanged.
        StaleFence, ConversationHeld: another process holds the conversation.
    """
    if db.get_session(session_id) is None:
        raise UnknownSession(session_id)
    words = f"Process {os.getpid()} on {socket.gethostname()}"
    holder = f"{words} for {new_session_id} {this_process_mark()}"
    if not db.try_acquire_compression_lock(session_id, holder, _TTL):
        other = without_mark(db.get_compression_lock_holder(session_id) or "Another process")
        raise CompactionBusy(f"{other} is compacting this session now. Try again in a moment.")
    try:
        history = db.get_messages_as_conversation(session_id)
        kept = _messages_to_copy(history)
        rest = history[: len(history) - len(kept)]
        if not rest:
            raise InvalidInput("The session is too short to compact.")
        used_model = model or client.default_model
        reply = _summarise(client, used_model, rest, focus, most_input, interrupt, on_piece)
        record_side_call_usage(db, session_id, "compression", reply, used_model, pricing)
        summary = {"role": "user", "content": f"{HEADING}\n{reply.text.strip()}"}
        messages = [summary, *map(_stored, kept)]
        return db.continue_session(session_id, new_session_id, messages, fence=fence)
    finally:
        db.release_compression_lock(session_id, holder)


def _summarise(
    client: ModelClient,
    model: str,
    messages: Sequence[Mapping[str, Any]],
    focus: str | None,
    most_input: int,
    interrupt: Event | None,
    on_piece: Callable[[str], None],
) -> Reply:
    instruction = _INSTRUCTION + (f" Most important to keep: {focus}." if focus else "")
    text = _transcript(messages, most_input * _CHARACTERS_PER_TOKEN)
    request = Request([{"role": "user", "content": f"{instruction}\n\n{text}"}], model)
    reply: Reply | None = None
    events = client.stream(request)
    with closing_on_interrupt(interrupt, events):
        for event in events:
            if isinstance(event, Reply):
                reply = event
            elif isinstance(event, TextPiece | ReasoningPiece):
                on_piece(event.text)
            if interrupt is not None and interrupt.is_set():
                break
    if interrupt is not None and interrupt.is_set():
        raise CompactionInterrupted("Interrupted. The session is unchanged.")
    if reply is None or not reply.text.strip():
        raise ModelGarbled("The model returned no summary. The session is unchanged; try again.")
    return reply


def _transcript(messages: Sequence[Mapping[str, Any]], room: int) -> str:
    """Return the messages as text, without the oldest if they do not fit into *room*."""
    lines: list[str] = []
    for message in reversed(messages):
        text = _text(message)
        if not text:
            continue
        if len(text) > _EXCERPT:
            text = f"{text[: _EXCERPT // 2]} […] {text[-_EXCERPT // 2 :]}"
        line = f"{message.get('role')}: {text}"
        room -= len(line)
        if room < 0 and lines:
            lines.append("[earlier messages left out]")
            break
        lines.append(line)
    return "\n\n".join(reversed(lines))


def _messages_to_copy(history: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the messages to copy: the last ones, from a user message on, so that every tool call
    keeps its result.

    At most half of a short session is copied, so that something remains to summarise and the result
    is shorter. Only a question that has no answer yet may be more.
    """
    start, last = len(history), len(history) - 1
    half = sum(len(_text(message)) for message in history) // 2
    characters = 0
    for position in range(last, max(0, last - _COPIED_MESSAGES), -1):
        characters += len(_text(history[position]))
        is_user = history[position].get("role") == "user"
        is_waiting = is_user and position == last
        if characters > (_COPIED_CHARACTERS if is_waiting else min(_COPIED_CHARACTERS, half)):
            break
        if is_user:
            start = position
    return list(history[start:])


def _stored(message: Mapping[str, Any]) -> dict[str, Any]:
    names = ("role", "content", "tool_calls", "tool_call_id", "tool_name", "finish_reason")
    return {name: message[name] for name in names if message.get(name) is not None}


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        text = content
    elif isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        text = "\n".join(part for part in parts if isinstance(part, str))
    else:
        text = ""
    calls = message.get("tool_calls")
    return f"{text} {json.dumps(calls, ensure_ascii=False)}".strip() if calls else text.strip()

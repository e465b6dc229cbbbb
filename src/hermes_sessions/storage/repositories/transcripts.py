"""The transcript in the form model providers take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hermes_sessions.model.message import drop_repeated_questions, without_recalled_memory
from hermes_sessions.storage.codec import decode_content, from_json
from hermes_sessions.storage.provider import Row, placeholders
from hermes_sessions.storage.repositories.lineage import ancestors_of
from hermes_sessions.storage.repositories.rows import VISIBLE, Record
from hermes_sessions.storage.store import Store

_COLUMNS: Final = (
    "role, content, content_type, tool_call_id, tool_name, tool_calls, finish_reason, reasoning, "
    "reasoning_content, reasoning_details, codex_reasoning_items, codex_message_items"
)
_IN_FORCE: Final = "active = 1 AND compacted = 0"


class Conversations:
    """Replay of transcripts."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def load(self, session_id: str, *, include_ancestors: bool) -> list[Record]:
        """See `SessionDB.get_messages_as_conversation`."""
        with self._store.provider.read() as tx:
            if include_ancestors:
                family = ancestors_of(tx, session_id)
                if not family:
                    return []
                # Insertion order over all sessions: a parent may go on after its child began.
                rows = tx.all(
                    f"SELECT {_COLUMNS} FROM messages WHERE session_id IN "
                    f"({placeholders(len(family))}) AND {_IN_FORCE} ORDER BY id",
                    family,
                )
                return drop_repeated_questions(_provider_messages(rows))
            if tx.one(f"SELECT 1 FROM sessions WHERE id = ? AND {VISIBLE}", (session_id,)) is None:
                return []
            rows = tx.all(
                f"SELECT {_COLUMNS} FROM messages WHERE session_id = ? AND {_IN_FORCE} "
                f"ORDER BY ordinal",
                (session_id,),
            )
        return _provider_messages(rows)


def _provider_messages(rows: Iterable[Row]) -> list[Record]:
    messages: list[Record] = []
    # One plain loop: transcripts are long, and nearly every message lacks nearly every field.
    for (
        role,
        content,
        content_type,
        call_id,
        tool_name,
        tool_calls,
        finish_reason,
        reasoning,
        reasoning_content,
        details,
        codex_reasoning,
        codex_message,
    ) in rows:
        if content_type is not None:
            content = decode_content(content, content_type)  # noqa: PLW2901
        elif content and role in ("user", "assistant"):
            content = without_recalled_memory(content)  # noqa: PLW2901
        message: Record = {"role": role, "content": content}
        if call_id:
            message["tool_call_id"] = call_id
        if tool_name:
            message["tool_name"] = tool_name
        if tool_calls:
            message["tool_calls"] = from_json(tool_calls, [])
        if role == "assistant":
            if finish_reason:
                message["finish_reason"] = finish_reason
            if reasoning:
                message["reasoning"] = reasoning
            if reasoning_content is not None:
                message["reasoning_content"] = reasoning_content
            if details or codex_reasoning or codex_message:
                _add_items(message, details, codex_reasoning, codex_message)
        messages.append(message)
    return messages


def _add_items(
    message: Record, details: str | None, codex_reasoning: str | None, codex_message: str | None
) -> None:
    if details:
        message["reasoning_details"] = from_json(details, None)
    if codex_reasoning:
        message["codex_reasoning_items"] = from_json(codex_reasoning, None)
    if codex_message:
        message["codex_message_items"] = from_json(codex_message, None)

"""Transcripts: windows of messages, and replay in the format of model providers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.alternation import alternating
from hermes_sessions.model.message import drop_repeated_questions, text_of, without_recalled_memory
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.codec import decode_content, decode_value, from_json
from hermes_sessions.storage.provider import ReadTransaction, Row, placeholders
from hermes_sessions.storage.repositories.attachments import message_records, restored
from hermes_sessions.storage.repositories.lineage import ancestors_of
from hermes_sessions.storage.repositories.rows import (
    SELECT_MESSAGE,
    SELECTED_MESSAGE_COLUMNS,
    VISIBLE,
    message_record,
    scope_condition,
)
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import (
        AnchoredView,
        ConversationMessage,
        MessageRecord,
        MessageWindow,
    )

_SHOWN = "session_id = ? AND active = 1"
_ORDINAL: Final = SELECTED_MESSAGE_COLUMNS.index("ordinal")


class MessageWindows:
    """Messages around a search hit; the cost does not depend on the length of the transcript."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def around(
        self, session_id: str, message_id: int, window: int, scope: Scope = OWNER
    ) -> MessageWindow:
        """See `SessionDB.get_messages_around`."""
        _require_count("window", window)
        with self._store.provider.read() as tx:
            return _window(tx, session_id, message_id, window, None, scope)

    def view(
        self,
        session_id: str,
        message_id: int,
        window: int,
        bookend: int,
        keep_roles: Sequence[str] | None,
        scope: Scope = OWNER,
    ) -> AnchoredView:
        """See `SessionDB.get_anchored_view`."""
        _require_count("window", window)
        _require_count("bookend", bookend)
        with self._store.provider.read() as tx:
            found = _window(tx, session_id, message_id, window, keep_roles, scope)
            shown = found["window"]
            if not shown:
                return {**found, "bookend_start": [], "bookend_end": []}
            first, last = shown[0]["ordinal"], shown[-1]["ordinal"]
            start = _with_text(tx, session_id, "ordinal < ?", first, "ASC", bookend, keep_roles)
            end = _with_text(tx, session_id, "ordinal > ?", last, "DESC", bookend, keep_roles)
        return {**found, "bookend_start": start, "bookend_end": end[::-1]}


def _window(
    tx: ReadTransaction,
    session_id: str,
    message_id: int,
    window: int,
    keep_roles: Sequence[str] | None,
    scope: Scope,
) -> MessageWindow:
    seen, params = scope_condition(scope)
    anchor = tx.one(
        f"{SELECT_MESSAGE} WHERE id = ? AND {_SHOWN} "
        f"AND EXISTS (SELECT 1 FROM sessions WHERE id = ? AND {VISIBLE} AND {seen})",
        (message_id, session_id, session_id, *params),
    )
    if anchor is None:
        return {"window": [], "messages_before": 0, "messages_after": 0}
    at = anchor[_ORDINAL]
    roles, role_params = _roles(keep_roles)
    before = tx.all(
        f"{SELECT_MESSAGE} WHERE {_SHOWN} AND ordinal < ?{roles} ORDER BY ordinal DESC LIMIT ?",
        (session_id, at, *role_params, window),
    )
    after = tx.all(
        f"{SELECT_MESSAGE} WHERE {_SHOWN} AND ordinal > ?{roles} ORDER BY ordinal LIMIT ?",
        (session_id, at, *role_params, window),
    )
    shown = message_records(tx, [*reversed(before), anchor, *after])
    return {
        "window": shown,
        "messages_before": _count(tx, session_id, "ordinal < ?", shown[0]["ordinal"]),
        "messages_after": _count(tx, session_id, "ordinal > ?", shown[-1]["ordinal"]),
    }


def _count(tx: ReadTransaction, session_id: str, beyond: str, ordinal: int) -> int:
    row = tx.one(
        f"SELECT COUNT(*) FROM messages WHERE {_SHOWN} AND {beyond}", (session_id, ordinal)
    )
    return int(row[0]) if row else 0


def _with_text(
    tx: ReadTransaction,
    session_id: str,
    beyond: str,
    ordinal: int,
    direction: str,
    wanted: int,
    keep_roles: Sequence[str] | None,
) -> list[MessageRecord]:
    """Return up to *wanted* messages with readable text, from the session's edge inwards."""
    roles, role_params = _roles(keep_roles)
    found: list[Row] = []
    if wanted == 0:
        return []
    for row in tx.stream(
        f"{SELECT_MESSAGE} WHERE {_SHOWN} AND {beyond}{roles} AND content IS NOT NULL "
        f"ORDER BY ordinal {direction}",
        (session_id, ordinal, *role_params),
    ):
        if text_of(message_record(row)["content"]).strip():
            found.append(row)
            if len(found) == wanted:
                break
    return message_records(tx, found)


def _roles(keep_roles: Sequence[str] | None) -> tuple[str, Sequence[str]]:
    if not keep_roles:
        return "", ()
    return f" AND role IN ({placeholders(len(keep_roles))})", keep_roles


def _require_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(f"{name} must be a whole number of 0 or more, not {value!r}.")


_COLUMNS: Final = (
    "role, content, content_type, tool_call_id, tool_name, tool_calls, finish_reason, reasoning, "
    "reasoning_content, reasoning_details, codex_reasoning_items, codex_message_items, attachments"
)
_COLUMN_NAMES: Final = _COLUMNS.split(", ")
_IN_FORCE: Final = "active = 1 AND compacted = 0"
#: Items that are nothing but a payload say nothing to a model provider.
_REPLAYED: Final = (
    "(payload IS NULL OR content IS NOT NULL OR tool_calls IS NOT NULL OR tool_call_id IS NOT NULL)"
)
_NO_LIMIT: Final = 2**62


class TranscriptReplay:
    """Replay of transcripts."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def load(
        self,
        session_id: str,
        *,
        include_ancestors: bool,
        include_inactive: bool,
        repair_alternation: bool,
    ) -> list[ConversationMessage]:
        """See `SessionDB.get_messages_as_conversation`."""
        with self._store.provider.read() as tx:
            select = f"SELECT {_COLUMNS} FROM messages"
            rows = restored(
                tx,
                _COLUMN_NAMES,
                _rows(tx, select, session_id, include_ancestors, include_inactive),
            )
        messages = _provider_messages(rows)
        if include_ancestors:
            messages = drop_repeated_questions(messages)
        return alternating(messages) if repair_alternation else messages

    def records(
        self, session_id: str, *, include_ancestors: bool, include_inactive: bool
    ) -> list[MessageRecord]:
        """Return the messages of a replay with all their columns."""
        with self._store.provider.read() as tx:
            rows = _rows(tx, SELECT_MESSAGE, session_id, include_ancestors, include_inactive)
            return message_records(tx, rows)

    def payloads(
        self,
        session_id: str,
        *,
        first_ordinal: int | None,
        last_ordinal: int | None,
        limit: int | None,
        scope: Scope = OWNER,
    ) -> list[Any]:
        """See `SessionDB.get_payloads`."""
        seen, params = scope_condition(scope)
        with self._store.provider.read() as tx:
            rows = tx.all(
                f"SELECT payload, attachments FROM messages WHERE session_id = ? AND {_IN_FORCE} "
                f"AND payload IS NOT NULL AND ordinal >= ? AND ordinal <= ? "
                f"AND EXISTS (SELECT 1 FROM sessions WHERE id = ? AND {VISIBLE} AND {seen}) "
                f"ORDER BY ordinal DESC LIMIT ?",
                (
                    session_id,
                    1 if first_ordinal is None else min(first_ordinal, _NO_LIMIT),
                    _NO_LIMIT if last_ordinal is None else min(last_ordinal, _NO_LIMIT),
                    session_id,
                    *params,
                    _NO_LIMIT if limit is None or limit < 0 else min(limit, _NO_LIMIT),
                ),
            )
            rows = list(restored(tx, ("payload", "attachments"), rows))
        return [decode_value(row[0]) for row in reversed(rows)]


def _rows(
    tx: ReadTransaction,
    select: str,
    session_id: str,
    include_ancestors: bool,
    include_inactive: bool,
) -> list[Row]:
    """Return the rows of a replay, in order."""
    replayed = _REPLAYED if include_inactive else f"{_IN_FORCE} AND {_REPLAYED}"
    if include_ancestors:
        family = ancestors_of(tx, session_id)
        if not family:
            return []
        # In insertion order over all sessions: a parent may get messages after its child.
        return tx.all(
            f"{select} WHERE session_id IN ({placeholders(len(family))}) AND {replayed} "
            f"ORDER BY id",
            family,
        )
    if tx.one(f"SELECT 1 FROM sessions WHERE id = ? AND {VISIBLE}", (session_id,)) is None:
        return []
    return tx.all(f"{select} WHERE session_id = ? AND {replayed} ORDER BY ordinal", (session_id,))


def _provider_messages(rows: Iterable[Row]) -> list[ConversationMessage]:
    messages: list[ConversationMessage] = []
    # One plain loop, for speed: transcripts are long, and most fields are empty.
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
        _,
    ) in rows:
        if content_type is not None:
            content = decode_content(content, content_type)  # noqa: PLW2901
        elif content and role in ("user", "assistant"):
            content = without_recalled_memory(content)  # noqa: PLW2901
        message: ConversationMessage = {"role": role, "content": content}
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
    message: ConversationMessage,
    details: str | None,
    codex_reasoning: str | None,
    codex_message: str | None,
) -> None:
    if details:
        message["reasoning_details"] = from_json(details, None)
    if codex_reasoning:
        message["codex_reasoning_items"] = from_json(codex_reasoning, None)
    if codex_message:
        message["codex_message_items"] = from_json(codex_message, None)

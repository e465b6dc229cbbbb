"""Validates new messages and converts them to their stored form.

No function uses the database, so an invalid message is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hermes_sessions.errors import InvalidInput, MessageTooLarge
from hermes_sessions.model.ids import require_bounded
from hermes_sessions.model.message import count_tool_calls, preview_of
from hermes_sessions.storage.codec import (
    encode_content,
    encode_text,
    encode_value,
    from_json,
    to_json,
)
from hermes_sessions.storage.repositories.attachments import lift_values
from hermes_sessions.storage.repositories.blobs import NewBlob
from hermes_sessions.storage.repositories.rows import (
    ASSISTANT_FIELDS,
    MESSAGE_FIELDS,
    MESSAGE_JSON,
    MESSAGE_TEXTS,
    MESSAGE_VALUES,
    STORED_FIELDS,
)
from hermes_sessions.storage.repositories.sessions import require_time
from hermes_sessions.storage.store_context import StoreContext
from hermes_sessions.storage.tables import MESSAGES, given

_COUNTS: Final = given(MESSAGES, "count")
_FLAGS: Final = given(MESSAGES, "flag")
_INDEXED: Final = [
    column.name for column in MESSAGES.columns if column.kind == "name" and column.access == "given"
]

_KNOWN: Final = frozenset(MESSAGE_FIELDS)
#: Between messages of one call, so that their times rise.
MICROSECOND: Final = 1e-6


class NewMessage(NamedTuple):
    """A checked message, ready to be written."""

    #: One value per name in `STORED_FIELDS`.
    values: tuple[Any, ...]
    timestamp: float
    tool_calls: int
    #: The preview in lists, if this is the session's first user message.
    preview: str | None
    external_id: str | None
    #: The column ``attachments``, and the blobs that it lists.
    attachments: str | None = None
    blobs: tuple[NewBlob, ...] = ()


def prepare(message: Mapping[str, Any], *, now: float, store: StoreContext) -> NewMessage:
    """Validate a message and convert it to its stored form.

    Raises:
        InvalidInput: a field has an invalid value.
        MessageTooLarge: its texts, without attachments, take more than the store allows.
        AttachmentTooLarge: an attachment is larger than the store allows.
    """
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise InvalidInput("A message needs a role, such as 'user' or 'assistant'.")
    content = message.get("content")
    given_time = message.get("timestamp")
    timestamp = now if given_time is None else require_time(given_time)
    columns: dict[str, Any] = dict.fromkeys(STORED_FIELDS)
    columns["timestamp"] = timestamp
    columns["content"], columns["content_type"] = encode_content(content)
    # Most of these fields are missing in most messages.
    for name in MESSAGE_TEXTS:
        if (value := message.get(name)) is not None:
            columns[name] = _text(name, value)
            if name in _INDEXED:
                require_bounded(columns[name], name.replace("_", " "))
    for name in MESSAGE_JSON:
        if value := message.get(name):
            columns[name] = _json(name, value)
    for name in MESSAGE_VALUES:
        if (value := message.get(name)) is not None:
            columns[name] = stored_value(name, value)
    for name in _COUNTS:
        if (value := message.get(name)) is not None:
            columns[name] = _count(name, value)
    for name in _FLAGS:
        columns[name] = 1 if message.get(name) else 0
    lifted = lift_values(tuple(columns.values()), store.attachments)
    require_size(lifted.values, store.max_message_bytes)
    shows = role == "user" and content is not None
    return NewMessage(
        values=lifted.values,
        timestamp=timestamp,
        tool_calls=calls_in(message.get("tool_calls")),
        preview=preview_of(_as_it_reads(content, columns)) if shows else None,
        external_id=columns["external_id"],
        attachments=lifted.attachments,
        blobs=lifted.blobs,
    )


def prepare_batch(
    store: StoreContext, messages: Iterable[Mapping[str, Any]]
) -> Sequence[NewMessage]:
    """Check the messages of one call and convert them to their stored form.

    Raises:
        InvalidInput: one is not a mapping, has an unknown field or an invalid value.
        MessageTooLarge: one is over the limit.
    """
    now = store.clock()
    prepared = []
    for index, message in enumerate(messages):
        _require_mapping(message, index)
        unknown = message.keys() - _KNOWN
        if unknown:
            raise InvalidInput(
                f"Message {index} has unknown fields: {', '.join(sorted(map(str, unknown)))}. "
                f"Known fields: {', '.join(MESSAGE_FIELDS)}."
            )
        prepared.append(prepare(message, now=now + index * MICROSECOND, store=store))
    return prepared


def prepare_replacement(
    messages: Iterable[Mapping[str, Any]], store: StoreContext
) -> list[NewMessage]:
    """Check the messages of a new transcript. Unknown fields are ignored, reasoning is kept for
    assistants only, and a missing role becomes ``unknown``.
    """
    next_time = store.clock()
    prepared: list[NewMessage] = []
    for index, message in enumerate(messages):
        _require_mapping(message, index)
        fields = {name: message.get(name) for name in MESSAGE_FIELDS}
        fields["role"] = fields["role"] or "unknown"
        if fields["role"] != "assistant":
            fields.update(dict.fromkeys(ASSISTANT_FIELDS))
        prepared.append(prepare(fields, now=next_time, store=store))
        next_time = max(next_time, prepared[-1].timestamp + MICROSECOND)
    return prepared


def _require_mapping(message: object, index: int) -> None:
    if not isinstance(message, Mapping):
        raise InvalidInput(
            f"Message {index} must be a mapping with at least a role, not {type(message).__name__}."
        )


def _as_it_reads(content: Any, columns: Mapping[str, Any]) -> Any:
    """Return content as it reads back: numbers and other scalars become text."""
    return columns["content"] if columns["content_type"] is None else content


def require_size(values: Iterable[Any], limit: int) -> None:
    """Raise `MessageTooLarge` when the texts of a message take more than *limit* bytes."""
    texts = [value for value in values if isinstance(value, str)]
    # A character takes at most four bytes, an escaped one seven: short messages need no count.
    if sum(map(len, texts)) * 7 <= limit:
        return
    size = sum(len(encode_text(text).encode("utf-8")) for text in texts)
    if size > limit:
        raise MessageTooLarge(size, limit)


def calls_in(tool_calls: Any) -> int:
    """Return the number of tool calls, given as a value or as JSON text."""
    if isinstance(tool_calls, str):
        tool_calls = from_json(tool_calls, [])
    return count_tool_calls(tool_calls)


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    raise InvalidInput(f"{name} must be text, not {type(value).__name__}.")


def _json(name: str, value: Any) -> str:
    if isinstance(value, str):
        # Already JSON text, as these columns read back.
        return value
    try:
        return to_json(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} cannot be stored as JSON: {error}.") from error


def stored_value(name: str, value: Any) -> str:
    """Return the JSON text of any value; raise `InvalidInput` if it would not read back equal."""
    try:
        return encode_value(value)
    except ValueError as error:
        raise InvalidInput(f"{name} cannot be stored as JSON: {error}.") from error


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"{name} must be a number, not {type(value).__name__}.")
    return int(value)

"""Validates export records and converts them to their stored form, without a database.

Accepts records as this store exports them, and older shapes: sessions with the documented columns,
messages without ordinals, and columns of later Hermes versions. Unknown columns are kept in
``extra``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard

from hermes_sessions.errors import InvalidInput, InvalidTitle
from hermes_sessions.model.ids import (
    MAX_ID_LENGTH,
    require_bounded,
    require_id,
    require_new_id,
    stored_length,
)
from hermes_sessions.model.lineage import require_edge_kind
from hermes_sessions.model.message import preview_of
from hermes_sessions.model.title import MAX_TITLE_LENGTH, sanitize_title
from hermes_sessions.model.workspace import workspace_name
from hermes_sessions.storage.attachment_texts import ZIPPED
from hermes_sessions.storage.codec import BASE64, JSON, decode_searchable, encode_content, to_json
from hermes_sessions.storage.repositories.attachments import lift_values
from hermes_sessions.storage.repositories.new_message import calls_in, require_size, stored_value
from hermes_sessions.storage.repositories.rows import (
    EXPORTED_MESSAGE_COLUMNS,
    EXPORTED_SESSION_COLUMNS,
    MESSAGE_JSON,
    MESSAGE_TEXTS,
    MESSAGE_VALUES,
    STORED_FIELDS,
)
from hermes_sessions.storage.repositories.usage import TOKEN_COLUMNS
from hermes_sessions.storage.session_copy.row_ids import MAX_KEPT_ID
from hermes_sessions.storage.session_import import value_checks
from hermes_sessions.storage.store_context import StoreContext
from hermes_sessions.storage.tables import (
    MESSAGES,
    REWINDS,
    SESSIONS,
    USAGE,
    Holds,
    Table,
    given,
)

if TYPE_CHECKING:
    from hermes_sessions.storage.records import WorkspaceIdentity

_CHECKS: Final[dict[Holds, Callable[[str, Any], Any]]] = {
    "text": value_checks.text,
    "json": value_checks.json_text,
    "value": stored_value,
    "time": value_checks.time,
    "count": value_checks.number,
    "amount": value_checks.number,
    "number": value_checks.integer,
    "flag": value_checks.flag,
}
#: Columns that have a form of their own.
_OWN_CHECKS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "metadata": value_checks.metadata,
    "tags": value_checks.tags,
}
#: Columns of a session that are copied unchanged; source and title have their own rules.
TAKEN: Final = [
    column
    for column in SESSIONS.columns
    if column.access == "given" and column.name not in ("source", "title")
]
#: Keys of a session that do not go into ``extra``: our columns, nested parts and derived values.
_SESSION_KEYS: Final = frozenset(EXPORTED_SESSION_COLUMNS) | frozenset(
    "messages model_usage rewinds workspace preview archived _lineage_root_id".split()
)
_MESSAGE_KEYS: Final = frozenset(EXPORTED_MESSAGE_COLUMNS)


class IncomingMessage(NamedTuple):
    """One checked message."""

    id: int | None
    ordinal: int
    #: One value per name in `STORED_FIELDS`.
    values: tuple[Any, ...]
    active: int
    compacted: int
    rewind_id: int | None
    extra: str | None


@dataclass(slots=True, kw_only=True)
class IncomingSession:
    """One checked session, ready to be compared and written."""

    id: str
    #: Columns of ``sessions`` that are copied unchanged.
    columns: dict[str, Any]
    parent_id: str | None
    edge_kind: str | None
    #: False in older shapes, where the kind is derived from the end of the parent.
    edge_is_stated: bool
    #: The layout of an older shape, as far as it can be recognised.
    schema_version: int
    conversation_id: str | None
    messages: Sequence[IncomingMessage]
    usage: Sequence[dict[str, Any]]
    #: None in shapes that only count rewinds.
    rewinds: Sequence[dict[str, Any]] | None
    #: The project it belongs to.
    workspace: WorkspaceIdentity | None = None
    #: Changes made during the conversion, for the report.
    notes: list[str] = field(default_factory=list)

    @property
    def ids(self) -> list[int] | None:
        """The message ids if they can be kept: all present, ascending, within bounds; or None."""
        previous = 0
        found = []
        for message in self.messages:
            if message.id is None or not previous < message.id <= MAX_KEPT_ID:
                return None
            previous = message.id
            found.append(previous)
        return found


def read_record(record: Any, *, store: StoreContext) -> IncomingSession:
    """Return the session that *record* describes.

    Raises:
        InvalidInput: the record cannot be stored; the message names the field.
    """
    if not isinstance(record, Mapping):
        raise InvalidInput(f"A session must be an object, not {type(record).__name__}.")
    session_id = _session_id(record)
    messages, ours = _messages(record, store)
    columns = _session_columns(record)
    columns["started_at"] = value_checks.first_known(
        columns["started_at"], messages[0].values[_TIMESTAMP] if messages else None, store.clock()
    )
    notes: list[str] = []
    columns["title"] = _title(record.get("title"), notes)
    _summarize(columns, messages, record, ours=ours)
    edge_kind = record.get("edge_kind")
    return IncomingSession(
        id=session_id,
        columns=columns,
        parent_id=_reference(record, "parent_session_id", "parent session id"),
        edge_kind=require_edge_kind(edge_kind) if edge_kind is not None else None,
        edge_is_stated="edge_kind" in record,
        schema_version=17 if "session_key" in record else 11,
        conversation_id=_reference(record, "conversation_id", "conversation id"),
        messages=messages,
        usage=_usage(record.get("model_usage"), columns["started_at"]),
        workspace=_workspace(record.get("workspace")),
        rewinds=_rewinds(record.get("rewinds"), ours=ours),
        notes=notes,
    )


# ── sessions ──────────────────────────────────────────────────────────────────────────────────


def _session_id(record: Mapping[str, Any]) -> str:
    session_id = record.get("id")
    return session_id if _is_stored_blank(session_id, record) else require_new_id(session_id)


def _reference(record: Mapping[str, Any], name: str, what: str) -> str | None:
    session_id = record.get(name)
    if _is_stored_blank(session_id, record):
        return session_id
    return require_id(session_id, what) if session_id else None


def _is_stored_blank(session_id: Any, record: Mapping[str, Any]) -> TypeGuard[str]:
    """Return whether a blank id is acceptable: new sessions cannot have one, but old programs wrote
    some, and an export of these must be importable.
    """
    if "conversation_id" not in record or not isinstance(session_id, str):
        return False
    return not session_id.strip() and len(session_id) <= MAX_ID_LENGTH


def _session_columns(record: Mapping[str, Any]) -> dict[str, Any]:
    source = record.get("source")
    columns: dict[str, Any] = {
        "source": require_id(source, "source") if source is not None else "unknown",
    }
    for column in TAKEN:
        value = record.get(column.name, column.default)
        if value is None and column.required:
            value = column.default
        check = _OWN_CHECKS.get(column.name) or _CHECKS[column.holds]
        columns[column.name] = check(column.name, value)
    columns["extra"] = value_checks.extra_text(record, _SESSION_KEYS)
    return columns


def _title(title: Any, notes: list[str]) -> str | None:
    text = value_checks.text("title", title)
    try:
        cleaned = sanitize_title(text)
    except InvalidTitle:
        # A number added to a title of maximal length may exceed the limit; keep that.
        is_kept = text is not None and stored_length(text) <= MAX_ID_LENGTH
        cleaned = text if is_kept else None
        if cleaned is None and text is not None:
            cleaned = sanitize_title(text[:MAX_TITLE_LENGTH])
    if cleaned != (text or None):
        notes.append(f"title {text!r:.250} became {cleaned!r}")
    return cleaned


def _summarize(
    columns: dict[str, Any],
    messages: Sequence[IncomingMessage],
    record: Mapping[str, Any],
    *,
    ours: bool,
) -> None:
    """Set the columns that are derived from messages, as appending these would."""
    in_force = [m for m in messages if m.active and not m.compacted]
    columns["message_count"] = len(in_force)
    drifted = len(in_force) < len(messages) or columns["rewind_count"]
    if "tool_call_count" not in record or (drifted and not ours):
        # Older programs also counted rewound messages.
        columns["tool_call_count"] = sum(calls_in(m.values[_TOOL_CALLS]) for m in in_force)
    columns["preview"] = next((_preview(m) for m in messages if m.active and _shows(m)), None)
    columns["next_ordinal"] = messages[-1].ordinal + 1 if messages else 1
    columns["change_count"] = _change_count(record, columns) if ours else 0
    newest = max((m.values[_TIMESTAMP] for m in in_force), default=columns["started_at"])
    stated = value_checks.time("last_active", record.get("last_active")) if ours else None
    columns["last_active"] = newest if stated is None else stated
    if record.get("archived") and columns["archived_at"] is None:
        columns["archived_at"] = columns["last_active"]


def _change_count(record: Mapping[str, Any], columns: Mapping[str, Any]) -> int:
    """Return the count with which the session has the revision of the export."""
    revision = value_checks.integer("revision", record.get("revision")) or 0
    if revision > MAX_KEPT_ID:
        return 0
    others = int(columns["next_ordinal"]) + int(columns["rewind_count"])
    return max(0, revision - others + 1)


_ROLE: Final = STORED_FIELDS.index("role")
_CONTENT: Final = STORED_FIELDS.index("content")
_CONTENT_TYPE: Final = STORED_FIELDS.index("content_type")
_TOOL_CALLS: Final = STORED_FIELDS.index("tool_calls")
_TIMESTAMP: Final = STORED_FIELDS.index("timestamp")


def _shows(message: IncomingMessage) -> bool:
    return message.values[_ROLE] == "user" and message.values[_CONTENT] is not None


def _preview(message: IncomingMessage) -> str:
    return preview_of(decode_searchable(message.values[_CONTENT], message.values[_CONTENT_TYPE]))


# ── messages ──────────────────────────────────────────────────────────────────────────────────


def _messages(record: Mapping[str, Any], store: StoreContext) -> tuple[list[IncomingMessage], bool]:
    """Return the checked messages, and whether they have our own shape or there are none."""
    stated = record.get("messages")
    if stated is None:
        stated = []
    if not isinstance(stated, (list, tuple)):
        raise InvalidInput(f"messages must be a list, not {type(stated).__name__}.")
    ours = all(isinstance(m, Mapping) and m.get("ordinal") is not None for m in stated)
    ours = ours and (bool(stated) or "conversation_id" in record)
    fallback = value_checks.time("started_at", record.get("started_at"))
    messages: list[IncomingMessage] = []
    externals: set[str] = set()
    ordinal = 0
    for index, raw in enumerate(stated):
        try:
            message = _message(raw, index, fallback, ours=ours)
            stored = lift_values(message.values, store.attachments).values
            require_size((*stored, message.extra), store.max_message_bytes)
            if message.ordinal <= ordinal:
                raise InvalidInput("ordinals must be ascending.")
            external_id = message.values[_EXTERNAL_ID]
            if external_id is not None:
                require_bounded(external_id, "external id")
                if external_id in externals:
                    raise InvalidInput(f"the external id {external_id!r:.100} appears twice.")
                externals.add(external_id)
        except InvalidInput as error:
            raise InvalidInput(f"Message {index}: {error}") from error
        ordinal = message.ordinal
        fallback = message.values[_TIMESTAMP]
        messages.append(message)
    return messages, ours


_EXTERNAL_ID: Final = STORED_FIELDS.index("external_id")
_CHECKED_COLUMNS: Final = (
    *((name, value_checks.text) for name in MESSAGE_TEXTS),
    *((name, value_checks.json_text) for name in MESSAGE_JSON),
    *((name, stored_value) for name in MESSAGE_VALUES),
    *((name, value_checks.number) for name in given(MESSAGES, "count")),
)
_FLAGS: Final = given(MESSAGES, "flag")


def _message(raw: Any, index: int, fallback: float | None, *, ours: bool) -> IncomingMessage:
    if not isinstance(raw, Mapping):
        raise InvalidInput(f"must be an object, not {type(raw).__name__}.")
    if raw.get(ZIPPED):
        raise InvalidInput("has attachments in a zip: import the file with import_file().")
    role = raw.get("role")
    if not isinstance(role, str) or not role:
        raise InvalidInput("needs a role, such as 'user' or 'assistant'.")
    columns: dict[str, Any] = dict.fromkeys(STORED_FIELDS)
    # For speed: most columns are empty, and there may be millions of messages.
    for name, check in _CHECKED_COLUMNS:
        value = raw.get(name)
        if value is not None:
            columns[name] = check(name, value)
    columns["content"], columns["content_type"] = _content(raw)
    timestamp = value_checks.first_known(
        value_checks.time("timestamp", raw.get("timestamp")), fallback
    )
    if timestamp is None:
        raise InvalidInput("needs a timestamp.")
    columns["timestamp"] = timestamp
    for name in _FLAGS:
        columns[name] = value_checks.flag(name, raw.get(name))
    active = value_checks.flag("active", raw.get("active"), 1)
    compacted = value_checks.flag("compacted", raw.get("compacted"), 0)
    if compacted and not ours:
        # Hermes also sets compacted messages inactive; here, inactive means rewound.
        active = 1
    return IncomingMessage(
        id=value_checks.integer("id", raw.get("id")),
        ordinal=value_checks.integer("ordinal", raw["ordinal"]) or 0 if ours else index + 1,
        values=tuple([columns[name] for name in STORED_FIELDS]),
        active=active,
        compacted=compacted,
        rewind_id=value_checks.integer("rewind_id", raw.get("rewind_id")),
        extra=value_checks.extra_text(raw, _MESSAGE_KEYS),
    )


def _content(raw: Mapping[str, Any]) -> tuple[str | None, str | None]:
    content, content_type = raw.get("content"), raw.get("content_type")
    if content_type is None and (content is None or isinstance(content, str)):
        return content, None
    if content_type not in (None, JSON, BASE64):
        raise InvalidInput(f"content_type {content_type!r:.50} is unknown; use json or base64.")
    try:
        if content_type == JSON and content is not None:
            return to_json(content), JSON
        if content_type == BASE64 and isinstance(content, str) and _is_base64(content):
            return content, BASE64
        return encode_content(content)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"content cannot be stored: {error}.") from error


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


# ── usage and rewinds ─────────────────────────────────────────────────────────────────────────


def _usage(stated: Any, started_at: float) -> list[dict[str, Any]]:
    rows = []
    for row in _objects("model_usage", stated):
        usage = _checked(USAGE, row)
        usage["task"] = usage["task"] or ""
        for name in TOKEN_COLUMNS:
            usage[name] = usage[name] or 0
        usage["first_at"] = value_checks.first_known(usage["first_at"], started_at)
        usage["last_at"] = value_checks.first_known(usage["last_at"], usage["first_at"])
        rows.append(usage)
    return rows


def _checked(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that callers give, each checked for its type."""
    return {
        column.name: _CHECKS[column.holds](column.name, row.get(column.name))
        for column in table.columns
        if column.access == "given"
    }


def _rewinds(stated: Any, *, ours: bool) -> list[dict[str, Any]] | None:
    if stated is None and not ours:
        return None
    rows = []
    for row in _objects("rewinds", stated):
        rewind = _checked(REWINDS, row)
        for name in ("target_ordinal", "hidden_count", "rewound_at"):
            if rewind[name] is None:
                raise InvalidInput(f"A rewind needs {name}.")
        if rewind["head_ordinal"] is None:
            rewind["head_ordinal"] = max(0, rewind["target_ordinal"] - 1)
        rows.append(rewind)
    return rows


def _workspace(stated: Any) -> WorkspaceIdentity | None:
    if stated is None:
        return None
    if not isinstance(stated, Mapping):
        raise InvalidInput(f"workspace must be an object, not {type(stated).__name__}.")
    return {
        "id": require_id(stated.get("id"), "workspace id"),
        "name": workspace_name(stated.get("name")),
        "identity": value_checks.text("identity", stated.get("identity")),
        "path": value_checks.text("path", stated.get("path")),
    }


def _objects(name: str, stated: Any) -> Iterable[Mapping[str, Any]]:
    if stated is None:
        return []
    if not isinstance(stated, (list, tuple)) or not all(isinstance(r, Mapping) for r in stated):
        raise InvalidInput(f"{name} must be a list of objects.")
    return stated

"""Attachments of messages: lifted from new messages, put back into what is read, and listed.

A message's column ``attachments`` lists them; the bytes are blobs, to which the message refers. See
docs/decisions/0024-blobs.md.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from hermes_sessions.errors import AttachmentTooLarge, InvalidInput, NotFound
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.attachment_texts import describe, lift, restore
from hermes_sessions.storage.codec import BASE64, from_json
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import (
    ReadTransaction,
    Row,
    SessionDBProvider,
    WriteTransaction,
)
from hermes_sessions.storage.repositories.blobs import (
    MESSAGE,
    NewBlob,
    Reference,
    add_references,
    has_blobs,
    lock_blob,
    read_blob,
    read_blobs,
    store_blob,
)
from hermes_sessions.storage.repositories.rows import (
    SELECTED_MESSAGE_COLUMNS,
    STORED_FIELDS,
    VISIBLE,
    message_record,
    scope_condition,
)
from hermes_sessions.storage.store_context import AttachmentLimits, StoreContext
from hermes_sessions.storage.tables import ATTACHMENTS_LEVEL, ATTACHMENTS_STEP, MESSAGES

if TYPE_CHECKING:
    from hermes_sessions.storage.records import Attachment, AttachmentRecord, MessageRecord

logger = Logger(__name__)

#: The columns that may hold base64.
LIFTED_COLUMNS: Final = ("content", "api_content", "payload", "tool_calls")
_PLACES: Final = tuple((name, STORED_FIELDS.index(name)) for name in LIFTED_COLUMNS)
_INDEXES: Final = tuple(place for _, place in _PLACES)
_CONTENT: Final = STORED_FIELDS.index("content")
#: The place of ``attachments`` among the copied columns.
_COPIED: Final = [column.name for column in MESSAGES.copied].index("attachments")
_CONTENT_TYPE: Final = STORED_FIELDS.index("content_type")


class LiftedValues(NamedTuple):
    """The values of a message as they are stored."""

    #: One value per name in `STORED_FIELDS`.
    values: tuple[Any, ...]
    #: The column ``attachments``.
    attachments: str | None = None
    blobs: tuple[NewBlob, ...] = ()


# Writing


def lift_values(values: tuple[Any, ...], limits: AttachmentLimits) -> LiftedValues:
    """Return the values of a message, one per name in `STORED_FIELDS`, without its attachments.

    Raises:
        AttachmentTooLarge: one is larger than *limits* allow.
    """
    threshold = limits.threshold
    if threshold is None:
        return LiftedValues(values)
    for place in _INDEXES:
        # Hardly any message gets beyond this comparison.
        if values[place] is not None and len(values[place]) >= threshold:
            return _lift_values(values, threshold, limits.max_bytes)
    return LiftedValues(values)


def _lift_values(values: tuple[Any, ...], threshold: int, max_bytes: int) -> LiftedValues:
    changed = list(values)
    listed: list[dict[str, Any]] = []
    blobs: dict[str, NewBlob] = {}
    for name, place in _PLACES:
        text = values[place]
        if text is None or len(text) < threshold:
            continue
        is_base64 = place == _CONTENT and values[_CONTENT_TYPE] == BASE64
        lifted = lift(text, threshold, is_base64=is_base64)
        if not lifted.attachments:
            continue
        changed[place] = lifted.text
        described = describe(lifted.text, lifted.attachments)
        for digest, data in lifted.attachments.items():
            if len(data) > max_bytes:
                raise AttachmentTooLarge(len(data), max_bytes)
            blobs.setdefault(digest, NewBlob(data))
            media_type, file_name = described[digest]
            listed.append(
                {
                    "id": digest,
                    "column": name,
                    "media_type": media_type,
                    "name": file_name,
                    "size": len(data),
                }
            )
    if not listed:
        return LiftedValues(values)
    column = json.dumps(listed, ensure_ascii=False)
    return LiftedValues(tuple(changed), column, tuple(blobs[d] for d in sorted(blobs)))


def store_attachments(
    tx: WriteTransaction,
    store: StoreContext,
    session_id: str,
    blobs: Mapping[int, Sequence[NewBlob]],
) -> None:
    """Store the blobs of messages, by ordinal, and refer to them."""
    by_digest = {blob.digest: blob for some in blobs.values() for blob in some}
    if not by_digest:
        return
    require_readers(tx, store.provider)
    # All writers lock in this order.
    for digest in sorted(by_digest):
        store_blob(tx, store, by_digest[digest])
    add_references(
        tx,
        store,
        [
            (Reference(MESSAGE, session_id, str(ordinal)), blob.digest)
            for ordinal, some in blobs.items()
            for blob in some
        ],
    )


def require_readers(tx: WriteTransaction, provider: SessionDBProvider) -> None:
    """Require that programs which write to the store from now on know attachments."""
    if tx.one("SELECT 1 FROM store_migrations WHERE name = ?", (ATTACHMENTS_STEP,)) is None:
        provider.require_level(tx, ATTACHMENTS_STEP, ATTACHMENTS_LEVEL)


def require_readers_of(
    tx: WriteTransaction, provider: SessionDBProvider, rows: Iterable[Row]
) -> None:
    """Do so if one of these rows, with all copied columns of messages, has attachments."""
    if any(row[_COPIED] for row in rows):
        require_readers(tx, provider)


def refresh_references(tx: WriteTransaction, store: StoreContext, session_id: str) -> None:
    """Refer to the attachments of a session whose messages another program moved."""
    rows = tx.all(
        "SELECT ordinal, attachments FROM messages WHERE session_id = ? "
        "AND attachments IS NOT NULL AND ordinal IS NOT NULL",
        (session_id,),
    )
    wanted = {
        (Reference(MESSAGE, session_id, str(ordinal)), one["id"])
        for ordinal, column in rows
        for one in _listed(column)
    }
    digests = sorted({digest for _, digest in wanted})
    there = {digest for digest in digests if lock_blob(tx, store, digest)}
    add_references(tx, store, [one for one in sorted(wanted) if one[1] in there])


# Reading


def restored(tx: ReadTransaction, columns: Sequence[str], rows: Sequence[Row]) -> Sequence[Row]:
    """Return rows of messages with the texts that were given. *columns* are theirs, of which one is
    ``attachments``.

    A placeholder stays where a blob is lost; `hermes doctor` finds those.
    """
    at = columns.index("attachments")
    if not any(row[at] for row in rows):
        return rows
    places = {name: columns.index(name) for name in LIFTED_COLUMNS if name in columns}
    listed = [_listed(row[at]) for row in rows]
    wanted = {one["id"] for some in listed for one in some if one["column"] in places}
    found = read_blobs(tx, wanted)
    encoded = {digest: b64encode(data).decode("ascii") for digest, data in found.items()}
    if len(found) < len(wanted):
        logger.warning(
            "%d attachments are missing or damaged, and a placeholder is shown instead. To find "
            "out which: hermes doctor --full",
            len(wanted) - len(found),
        )
    return [
        _restored_row(row, some, places, encoded) if some else row
        for row, some in zip(rows, listed, strict=True)
    ]


def message_records(tx: ReadTransaction, rows: Sequence[Row]) -> list[MessageRecord]:
    """Return the records of rows of `SELECT_MESSAGE`, as they were given."""
    return [message_record(row) for row in restored(tx, SELECTED_MESSAGE_COLUMNS, rows)]


def _restored_row(
    row: Row,
    listed: Iterable[Mapping[str, Any]],
    places: Mapping[str, int],
    encoded: Mapping[str, str],
) -> Row:
    values = list(row)
    for name, place in places.items():
        here = [one["id"] for one in listed if one["column"] == name]
        if here and isinstance(values[place], str):
            known = {digest: encoded[digest] for digest in here if digest in encoded}
            values[place] = restore(values[place], known)
    return tuple(values)


def _listed(column: str | None) -> list[dict[str, Any]]:
    """Return the entries of a column ``attachments``; what other programs wrote there is left."""
    found = from_json(column, []) if column else []
    if not isinstance(found, list):
        return []
    return [
        one
        for one in found
        if isinstance(one, dict)
        and isinstance(one.get("id"), str)
        and one.get("column") in LIFTED_COLUMNS
    ]


class Attachments:
    """Lists and returns attachments."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def list(self, session_id: str, scope: Scope = OWNER) -> list[AttachmentRecord]:
        """See `SessionDB.list_attachments`."""
        seen, params = scope_condition(scope)
        if not has_blobs(self._store):
            return []
        with self._store.provider.read() as tx:
            rows = tx.all(
                f"SELECT id, ordinal, role, attachments FROM messages WHERE session_id = ? "
                f"AND active = 1 AND attachments IS NOT NULL AND EXISTS (SELECT 1 FROM sessions "
                f"WHERE id = ? AND {VISIBLE} AND {seen}) ORDER BY ordinal",
                (session_id, session_id, *params),
            )
        found: list[AttachmentRecord] = []
        for message_id, ordinal, role, column in rows:
            shown = {one["id"]: one for one in reversed(_listed(column))}
            for one in reversed(shown.values()):
                place = {"message_id": message_id, "ordinal": ordinal, "role": role}
                found.append(cast("AttachmentRecord", {**_facts(one), **place}))
        return found

    def get(self, attachment_id: str, scope: Scope = OWNER) -> Attachment:
        """See `SessionDB.get_attachment`."""
        if not isinstance(attachment_id, str):
            raise InvalidInput("An attachment's id is text, as list_attachments() returns it.")
        seen, params = scope_condition(scope)
        with self._store.provider.read() as tx:
            messages = (
                tx.all(
                    f"SELECT owner, item FROM blob_references WHERE digest = ? AND kind = ? "
                    f"AND EXISTS (SELECT 1 FROM sessions WHERE id = owner AND {VISIBLE} "
                    f"AND {seen}) ORDER BY owner, item",
                    (attachment_id, MESSAGE, *params),
                )
                if has_blobs(self._store)
                else []
            )
            for session_id, ordinal in messages:
                if (found := _find(tx, session_id, int(ordinal), attachment_id)) is not None:
                    data = read_blob(tx, attachment_id)
                    return cast("Attachment", {**found, "data": data})
        raise NotFound(
            f"There is no attachment {attachment_id!r:.100} here. list_attachments() lists those "
            f"of a session."
        )


def _find(
    tx: ReadTransaction, session_id: str, ordinal: int, attachment_id: str
) -> dict[str, Any] | None:
    row = tx.one(
        "SELECT attachments FROM messages WHERE session_id = ? AND ordinal = ?",
        (session_id, ordinal),
    )
    listed = _listed(row[0]) if row else []
    return next((_facts(one) for one in listed if one["id"] == attachment_id), None)


def _facts(listed: Mapping[str, Any]) -> dict[str, Any]:
    return {name: listed.get(name) for name in ("id", "media_type", "name", "size")}

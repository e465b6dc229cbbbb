"""Writes an incoming session: a new one, or the extension of a stored one.

The functions use an open transaction. A long session takes several, each of which leaves a prefix
of the transcript that a later import completes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hermes_sessions.storage.codec import to_json
from hermes_sessions.storage.provider import (
    ReadTransaction,
    WriteTransaction,
    bulk_insert,
    placeholders,
)
from hermes_sessions.storage.repositories.attachments import (
    LiftedValues,
    lift_values,
    store_attachments,
)
from hermes_sessions.storage.repositories.leases import require_free
from hermes_sessions.storage.repositories.messages import refresh_thread
from hermes_sessions.storage.repositories.revisions import raise_revision
from hermes_sessions.storage.repositories.rows import STORED_FIELDS
from hermes_sessions.storage.repositories.titles import free_variant
from hermes_sessions.storage.repositories.usage import ROUTE_COLUMNS, USAGE_COLUMNS, route_key
from hermes_sessions.storage.repositories.workspaces import imported_workspace
from hermes_sessions.storage.session_copy.row_ids import (
    MAX_KEPT_ID,
    is_any_id_taken,
    point_rewinds,
)
from hermes_sessions.storage.session_import.comparison import ComparisonResult, Relation
from hermes_sessions.storage.session_import.incoming_session import (
    TAKEN,
    IncomingMessage,
    IncomingSession,
)
from hermes_sessions.storage.store_context import StoreContext
from hermes_sessions.storage.tables import REWINDS

_MESSAGE_ROW: Final = (
    "session_id",
    "ordinal",
    *STORED_FIELDS,
    "active",
    "compacted",
    "rewind_id",
    "extra",
    "attachments",
)
_REWIND_ROW: Final = [column.name for column in REWINDS.columns if column.kind != "serial"]
#: What was decided in this store about a session that the import extends.
_STAYS: Final = frozenset("started_at archived_at pinned_at metadata tags workspace_id".split())
#: Columns that an extended session updates; its title and lineage stay, too.
_GROWS: Final = (
    *(c.name for c in TAKEN if c.name not in _STAYS),
    "message_count",
    "preview",
    "last_active",
)


class SessionChanged(Exception):
    """The stored session changed between comparing and writing."""


@dataclass(slots=True)
class WriteState:
    """State that the later transactions of a session need."""

    #: Added to the message ids of the file; None if the database generates new ids.
    shift: int | None = None
    #: Maps rewind ids of the file to those of the store.
    rewind_ids: dict[int, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    #: The revision of the stored session before the import.
    revision: int = 0


def begin(
    tx: WriteTransaction,
    store: StoreContext,
    incoming: IncomingSession,
    standing: ComparisonResult,
    shifts: Sequence[int],
) -> WriteState:
    """Insert a new session without messages, or check that a stored one has not changed since it
    was compared. Message ids are shifted by the first of *shifts* that leads to free ids.

    Raises:
        SessionChanged: the stored session changed meanwhile; nothing is written.
        ConversationHeld: the session is leased.
    """
    require_free(tx, store, [incoming.id])
    row = tx.one(
        f"SELECT trashed_at, next_ordinal, rewind_count, title, revision FROM sessions "
        f"WHERE id = ?{store.provider.dialect.for_update}",
        (incoming.id,),
    )
    begun = WriteState()
    if standing.relation is Relation.NEW:
        if row is not None:
            raise SessionChanged
        _insert_session(tx, incoming, begun)
    elif row is None:
        raise SessionChanged
    else:
        *state, stored_title, begun.revision = row
        if state != [None, standing.next_ordinal, standing.rewind_count]:
            raise SessionChanged
        if stored_title is None and incoming.columns["title"] is not None:
            title = _free_title(tx, incoming, begun)
            tx.run("UPDATE sessions SET title = ? WHERE id = ?", (title, incoming.id))
    begun.shift = _choose_shift(tx, incoming, standing, shifts)
    _write_rewinds(tx, store, incoming, begun)
    return begun


def _insert_session(tx: WriteTransaction, incoming: IncomingSession, begun: WriteState) -> None:
    columns = incoming.columns | {
        "id": incoming.id,
        "title": _free_title(tx, incoming, begun),
        "conversation_id": incoming.conversation_id or incoming.id,
        "edge_kind": incoming.edge_kind if incoming.parent_id is None else None,
        "chain_id": incoming.id,
        "tip_id": incoming.id,
        "listed": 1,
        "message_count": 0,
        "next_ordinal": 1,
    }
    if incoming.workspace is not None:
        columns["workspace_id"] = imported_workspace(tx, incoming.workspace, columns["started_at"])
    tx.run(
        f"INSERT INTO sessions ({', '.join(columns)}) VALUES ({placeholders(len(columns))})",
        list(columns.values()),
    )


def _free_title(tx: ReadTransaction, incoming: IncomingSession, begun: WriteState) -> str | None:
    title: str | None = incoming.columns["title"]
    if title is None:
        return None
    free = free_variant(tx, title)
    if free != title:
        begun.notes.append(f"title {title!r} is taken; stored as {free!r}")
    return free


def _choose_shift(
    tx: ReadTransaction,
    incoming: IncomingSession,
    standing: ComparisonResult,
    shifts: Sequence[int],
) -> int | None:
    """Return the first shift that gives free ids after those of the session; None if the database
    must generate ids.
    """
    ids = incoming.ids
    fresh = ids[standing.message_count :] if ids is not None else []
    if not fresh:
        return None
    row = tx.one(
        "SELECT id FROM messages WHERE session_id = ? ORDER BY ordinal DESC LIMIT 1", (incoming.id,)
    )
    last = row[0] if row else 0
    for shift in shifts:
        wanted = [number + shift for number in fresh]
        if (
            last < wanted[0]
            and wanted[-1] <= MAX_KEPT_ID
            and not is_any_id_taken(tx, "messages", wanted)
        ):
            return shift
    return None


def _write_rewinds(
    tx: WriteTransaction, store: StoreContext, incoming: IncomingSession, begun: WriteState
) -> None:
    """Insert missing rewinds, and set the time of restore of stored ones."""
    rewinds = incoming.rewinds or ()
    if not rewinds:
        return
    stored = {
        (target_ordinal, rewound_at): number
        for number, target_ordinal, rewound_at in tx.all(
            "SELECT id, target_ordinal, rewound_at FROM rewinds WHERE session_id = ?",
            (incoming.id,),
        )
    }
    fresh = [r for r in rewinds if (r["target_ordinal"], r["rewound_at"]) not in stored]
    keep = _rewind_ids_free(tx, [r["id"] for r in fresh])
    names = [*(("id",) if keep else ()), *_REWIND_ROW]
    insert = f"INSERT INTO rewinds ({', '.join(names)}) VALUES ({placeholders(len(names))})"
    for rewind in rewinds:
        number = stored.get((rewind["target_ordinal"], rewind["rewound_at"]))
        if number is None:
            values = rewind | {"session_id": incoming.id}
            values["target_message_id"] = rewind["target_message_id"] or 0
            number = tx.insert(insert, [values[name] for name in names])
            number = rewind["id"] if keep else number
        else:
            tx.run(
                "UPDATE rewinds SET restored_at = ?, hidden_count = ? WHERE id = ?",
                (rewind["restored_at"], rewind["hidden_count"], number),
            )
        if rewind["id"] is not None:
            begun.rewind_ids[rewind["id"]] = number
    if keep and fresh:
        store.provider.after_explicit_ids(tx, "rewinds")


def _rewind_ids_free(tx: ReadTransaction, ids: Sequence[int | None]) -> bool:
    previous = 0
    for number in ids:
        if number is None or not previous < number <= MAX_KEPT_ID:
            return False
        if tx.one("SELECT 1 FROM rewinds WHERE id = ?", (number,)):
            return False
        previous = number
    return True


def add_messages(
    tx: WriteTransaction,
    store: StoreContext,
    incoming: IncomingSession,
    standing: ComparisonResult,
    begun: WriteState,
    span: range,
) -> int:
    """Write the messages of *span* (indexes into the incoming ones) after those stored; return
    the ordinal that comes next.

    Raises:
        SessionChanged: another writer appended to the session meanwhile, or holds its lease;
            nothing is written.
    """
    first = standing.message_count
    # Ordinals are kept unless the stored transcript is numbered differently.
    tail = incoming.messages[first:]
    offset = max(0, standing.next_ordinal - tail[0].ordinal) if tail else 0
    expected = (
        standing.next_ordinal
        if span.start == first
        else incoming.messages[span.start - 1].ordinal + offset + 1
    )
    following = incoming.messages[span.stop - 1].ordinal + offset + 1 if span else expected
    part = incoming.messages[span.start : span.stop]
    if not tx.run(
        "UPDATE sessions SET next_ordinal = ?, message_count = COALESCE(message_count, 0) + ? "
        "WHERE id = ? AND next_ordinal = ? AND fence IS NULL",
        (following, sum(m.active and not m.compacted for m in part), incoming.id, expected),
    ):
        raise SessionChanged
    lifted = [lift_values(message.values, store.attachments) for message in part]
    rows = [
        _message_row(incoming.id, message, offset, begun, values)
        for message, values in zip(part, lifted, strict=True)
    ]
    blobs = {m.ordinal + offset: one.blobs for m, one in zip(part, lifted, strict=True)}
    store_attachments(tx, store, incoming.id, blobs)
    shift = begun.shift
    if shift is not None:
        ids = [(message.id or 0) + shift for message in part]
        if span.start == first or not is_any_id_taken(tx, "messages", ids):
            numbered = [(i, *row) for i, row in zip(ids, rows, strict=True)]
            bulk_insert(tx, "messages", ("id", *_MESSAGE_ROW), numbered)
            return following
        # Another writer's messages took some of these ids since the first part was written.
        begun.shift = None
    bulk_insert(tx, "messages", _MESSAGE_ROW, rows)
    return following


def _message_row(
    session_id: str,
    message: IncomingMessage,
    offset: int,
    begun: WriteState,
    lifted: LiftedValues,
) -> tuple[Any, ...]:
    rewind_id = message.rewind_id
    if rewind_id is not None:
        rewind_id = begun.rewind_ids.get(rewind_id)
    return (
        session_id,
        message.ordinal + offset,
        *lifted.values,
        message.active,
        message.compacted,
        rewind_id,
        message.extra,
        lifted.attachments,
    )


def finish(
    tx: WriteTransaction,
    store: StoreContext,
    incoming: IncomingSession,
    standing: ComparisonResult,
    begun: WriteState,
) -> None:
    """Write summaries, message states, usage and rewinds, once all messages are written."""
    grows = {name: incoming.columns[name] for name in _GROWS}
    changes = ", ".join(f"{name} = ?" for name in grows)
    tx.run(
        f"UPDATE sessions SET {changes}, archived_at = COALESCE(archived_at, ?), "
        f"pinned_at = COALESCE(pinned_at, ?) WHERE id = ?",
        (
            *grows.values(),
            incoming.columns["archived_at"],
            incoming.columns["pinned_at"],
            incoming.id,
        ),
    )
    for ordinal, index in standing.changed:
        message = incoming.messages[index]
        tx.run(
            "UPDATE messages SET active = ?, compacted = ?, rewind_id = ? "
            "WHERE session_id = ? AND ordinal = ?",
            (
                message.active,
                message.compacted,
                begun.rewind_ids.get(message.rewind_id or 0),
                incoming.id,
                ordinal,
            ),
        )
    if standing.relation is Relation.GROWN:
        _raise_revision(tx, incoming, begun)
        _merge_extra(tx, incoming)
        refresh_thread(tx, incoming.id)
    _write_usage(tx, store, incoming)
    if incoming.rewinds:
        point_rewinds(tx, incoming.id)


def _raise_revision(tx: WriteTransaction, incoming: IncomingSession, begun: WriteState) -> None:
    """Bring the revision up to that of the export, and above the one before the import."""
    count = incoming.columns["change_count"]
    tx.run(
        "UPDATE sessions SET change_count = ? WHERE id = ? AND change_count < ?",
        (count, incoming.id, count),
    )
    row = tx.one("SELECT revision FROM sessions WHERE id = ?", (incoming.id,))
    if row is not None and row[0] <= begun.revision:
        raise_revision(tx, incoming.id)


def _merge_extra(tx: WriteTransaction, incoming: IncomingSession) -> None:
    extra = incoming.columns["extra"]
    if extra is None:
        return
    row = tx.one("SELECT extra FROM sessions WHERE id = ?", (incoming.id,))
    if row is not None and row[0] is not None:
        extra = to_json(json.loads(row[0]) | json.loads(extra))
    tx.run("UPDATE sessions SET extra = ? WHERE id = ?", (extra, incoming.id))


def _write_usage(tx: WriteTransaction, store: StoreContext, incoming: IncomingSession) -> None:
    columns = ("session_id", "route_key", *USAGE_COLUMNS)
    counted = [name for name in USAGE_COLUMNS if name not in (*ROUTE_COLUMNS, "task", "first_at")]
    upsert = store.provider.dialect.upsert(
        "session_model_usage", columns, ("session_id", "route_key"), counted
    )
    for usage in incoming.usage:
        key = route_key({name: usage[name] for name in ROUTE_COLUMNS}, usage["task"])
        tx.run(upsert, (incoming.id, key, *(usage[name] for name in USAGE_COLUMNS)))

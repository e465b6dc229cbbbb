"""Lossless export and import of sessions as plain records.

An export record is the session as `SessionDB.get_session` returns it, plus ``last_active``,
``extra`` (columns that came with an import from another layout), ``model_usage``, ``rewinds`` and
``workspace`` if there are any, and ``messages``, including rewound ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.codec import from_json
from hermes_sessions.storage.provider import ReadTransaction, Row
from hermes_sessions.storage.repositories.attachments import restored
from hermes_sessions.storage.repositories.lineage import conversation_id_of
from hermes_sessions.storage.repositories.rows import (
    EXPORTED_MESSAGE_COLUMNS,
    EXPORTED_SESSION_COLUMNS,
    VISIBLE,
    Record,
    decode_message,
    names,
    scope_condition,
    session_values,
)
from hermes_sessions.storage.repositories.stale_sessions import settled_read
from hermes_sessions.storage.repositories.usage import USAGE_COLUMNS
from hermes_sessions.storage.repositories.workspaces import exported_workspace
from hermes_sessions.storage.session_import.run import ImportRun
from hermes_sessions.storage.store_context import StoreContext
from hermes_sessions.storage.tables import MESSAGES, REWINDS, names_of

if TYPE_CHECKING:
    from hermes_sessions.storage.records import ExportedSession, ImportReport
    from hermes_sessions.storage.repositories.label_conditions import LabelFilter

_SELECT_SESSIONS: Final = f"SELECT {names(EXPORTED_SESSION_COLUMNS)} FROM sessions"
_MESSAGE_COLUMNS: Final = [*EXPORTED_MESSAGE_COLUMNS, "attachments"]
_SELECT_MESSAGES: Final = (
    f"SELECT {names(_MESSAGE_COLUMNS)} FROM messages WHERE session_id = ? ORDER BY ordinal"
)
#: Omitted from a message when empty.
_RARE: Final = names_of(MESSAGES, "exported")
_REWIND_COLUMNS: Final = names_of(REWINDS, "given")
_NEWEST_FIRST: Final = "ORDER BY last_active DESC, started_at DESC, id DESC"
_TITLE: Final = EXPORTED_SESSION_COLUMNS.index("title")


class ExportImport:
    """Exports and imports sessions."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def export(self, session_id: str) -> ExportedSession | None:
        """See `SessionDB.export_session`."""
        with settled_read(self._store) as tx:
            row = tx.one(f"{_SELECT_SESSIONS} WHERE id = ? AND {VISIBLE}", (session_id,))
            return export_record(tx, row) if row else None

    def export_family(self, session_id: str) -> list[ExportedSession]:
        """See `SessionDB.export_session_lineage`."""
        with settled_read(self._store) as tx:
            rows = tx.all(
                f"{_SELECT_SESSIONS} WHERE conversation_id = ? AND {VISIBLE} "
                f"ORDER BY started_at, id",
                (conversation_id_of(tx, session_id),),
            )
            return [export_record(tx, row) for row in rows]

    def iter_export(
        self,
        source: str | None,
        *,
        since: float | None = None,
        until: float | None = None,
        title: str | None = None,
        labels: LabelFilter | None = None,
        scope: Scope = OWNER,
    ) -> Iterator[ExportedSession]:
        """See `SessionDB.iter_export`; keeps one session in memory at a time."""
        seen, values = scope_condition(scope)
        where, params = [VISIBLE, seen], list[Any](values)
        for condition, value in (
            ("source = ?", source or None),
            ("last_active >= ?", since),
            ("last_active < ?", until),
        ):
            if value is not None:
                where.append(condition)
                params.append(value)
        if labels is not None:
            for condition, values in labels.conditions(str, self._store.provider.dialect):
                where.append(condition)
                params.extend(values)
        with settled_read(self._store) as tx:
            for row in tx.stream(
                f"{_SELECT_SESSIONS} WHERE {' AND '.join(where)} {_NEWEST_FIRST}", params
            ):
                # Not LIKE: it has wildcards, and databases fold the case of few scripts.
                if title is None or title.casefold() in (row[_TITLE] or "").casefold():
                    yield export_record(tx, row)

    def import_all(
        self, sessions: Iterable[Mapping[str, Any]], *, leave_out_invalid: bool
    ) -> ImportReport:
        """See `SessionDB.import_sessions`.

        An iterator is read into memory as a whole. To avoid that, pass an iterable that can be
        read twice, such as `hermes_sessions.storage.jsonl.JsonlFile`.
        """
        repeatable = list(sessions) if iter(sessions) is sessions else sessions
        return ImportRun(self._store, leave_out_invalid=leave_out_invalid).run(repeatable)


def export_records(tx: ReadTransaction) -> Iterator[ExportedSession]:
    """Yield the record of every session, newest activity first."""
    for row in tx.stream(f"{_SELECT_SESSIONS} WHERE {VISIBLE} {_NEWEST_FIRST}"):
        yield export_record(tx, row)


def export_record(tx: ReadTransaction, row: Row) -> ExportedSession:
    """Return the record of one session of `_SELECT_SESSIONS`."""
    record = session_values(EXPORTED_SESSION_COLUMNS, row)
    extra = record.pop("extra")
    if extra is not None:
        record["extra"] = from_json(extra, None)
    usage = tx.all(
        f"SELECT {names(USAGE_COLUMNS)} FROM session_model_usage WHERE session_id = ? "
        f"ORDER BY first_at, route_key",
        (record["id"],),
    )
    if usage:
        record["model_usage"] = [dict(zip(USAGE_COLUMNS, used, strict=True)) for used in usage]
    rewinds = tx.all(
        f"SELECT {names(_REWIND_COLUMNS)} FROM rewinds WHERE session_id = ? ORDER BY id",
        (record["id"],),
    )
    if rewinds:
        record["rewinds"] = [dict(zip(_REWIND_COLUMNS, r, strict=True)) for r in rewinds]
    if record["workspace_id"] is not None:
        workspace = exported_workspace(tx, record["workspace_id"])
        if workspace is not None:
            record["workspace"] = workspace
    rows = list(tx.stream(_SELECT_MESSAGES, (record["id"],)))
    record["messages"] = [_message(row) for row in restored(tx, _MESSAGE_COLUMNS, rows)]
    return cast("ExportedSession", record)


def _message(row: Row) -> Record:
    record = dict(zip(EXPORTED_MESSAGE_COLUMNS, row, strict=False))
    tool_calls = record["tool_calls"]
    decode_message(record, record["content_type"])
    if tool_calls is not None and not _is_plain_json(record["tool_calls"], tool_calls):
        # Export text from other tools unchanged, so that an import restores it unchanged.
        record["tool_calls"] = tool_calls
    for name in _RARE:
        if record[name] is None:
            del record[name]
        elif name == "extra":
            record[name] = from_json(record[name], None)
    return record


def _is_plain_json(decoded: Any, column: str) -> bool:
    """Return whether a column holds the JSON of an array or object."""
    if decoded == []:
        try:
            return bool(json.loads(column) == [])
        except ValueError:
            return False
    return isinstance(decoded, (list, dict))

"""Lists and counts of sessions, read from summary columns only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.provider import placeholders
from hermes_sessions.storage.repositories.lineage import PLACE_COLUMNS
from hermes_sessions.storage.repositories.rows import (
    SESSION_COLUMNS,
    VISIBLE,
    names,
    scope_condition,
    session_values,
)
from hermes_sessions.storage.repositories.stale_sessions import settled_rows
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import RecentSession, SessionListing, StoreStats
    from hermes_sessions.storage.repositories.label_conditions import LabelFilter

#: Columns that a listed row takes from the tip of its chain; the others come from the head.
_FROM_TIP: Final = frozenset(
    [
        "id",
        "ended_at",
        "end_reason",
        "message_count",
        "tool_call_count",
        "title",
        "model",
        "system_prompt",
        "archived_at",
        "pinned_at",
        "metadata",
        "tags",
        *PLACE_COLUMNS,
    ]
)
_EVERYTHING: Final = 2**62


class SessionLists:
    """Lists and counts of sessions."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def rich(
        self,
        *,
        source: str | None,
        exclude_sources: Sequence[str] | None,
        limit: int,
        offset: int,
        include_children: bool,
        project_tips: bool,
        by_activity: bool,
        include_archived: bool,
        archived_only: bool,
        pinned_only: bool,
        min_message_count: int,
        since: float | None,
        until: float | None,
        compact: bool,
        labels: LabelFilter | None = None,
        scope: Scope = OWNER,
    ) -> list[SessionListing]:
        """See `SessionDB.list_sessions_rich`."""
        if include_children:
            shown, head, tip = "1 = 1", "id", "id"
        elif by_activity:
            shown, head, tip = "listed = 1", "chain_id", "id"
        else:
            shown, head, tip = "tip_id IS NOT NULL", "id", "tip_id"
        if not project_tips and not include_children:
            tip = head
        # Filters apply to the row that is shown, not to the head that the query selects.
        where, params = _filters(source, exclude_sources, _of("source", head))
        if archived_only:
            where.append(f"{_of('archived_at', tip)} IS NOT NULL")
        elif not include_archived:
            where.append(f"{_of('archived_at', tip)} IS NULL")
        if pinned_only:
            where.append(f"{_of('pinned_at', tip)} IS NOT NULL")
        if min_message_count > 0:
            where.append(f"{_of('message_count', tip)} >= ?")
            params.append(min_message_count)
        for sign, moment in ((">=", since), ("<", until)):
            if moment is not None:
                where.append(f"{_of('last_active', tip)} {sign} ?")
                params.append(moment)
        # A row shows columns of the head and the tip, so both must be in scope.
        seen = [scope_condition(scope, partial(_of, owner=one)) for one in {head: 1, tip: 1}]
        for condition, values in (*seen, *self._label_conditions(labels, tip)):
            where.append(condition)
            params.extend(values)
        order = (
            "last_active DESC, started_at DESC, id DESC"
            if by_activity
            else ("started_at DESC, id DESC")
        )
        ordered = ", ".join(f"page.{part}" for part in order.split(", "))
        columns = [c for c in SESSION_COLUMNS if not (compact and c == "system_prompt")]
        selected = ", ".join(f"{'t' if c in _FROM_TIP else 'h'}.{c}" for c in columns)
        # Select the page first, and join only its rows.
        rows = settled_rows(
            self._store,
            f"SELECT {selected}, t.preview, t.last_active, h.id",
            f"FROM (SELECT {head} AS head_id, {tip} AS tip_id_, last_active, started_at, id "
            f"FROM sessions WHERE {shown} AND {' AND '.join(where)} "
            f"ORDER BY {order} LIMIT ? OFFSET ?) page "
            f"JOIN sessions h ON h.id = page.head_id JOIN sessions t ON t.id = page.tip_id_ "
            f"ORDER BY {ordered}",
            (*params, *_window(limit, offset)),
        )
        return [_rich_record(columns, row) for row in rows]

    def _label_conditions(
        self, labels: LabelFilter | None, owner: str
    ) -> list[tuple[str, tuple[Any, ...]]]:
        if labels is None:
            return []
        return labels.conditions(partial(_of, owner=owner), self._store.provider.dialect)

    def flat(self, source: str | None, limit: int, offset: int) -> list[RecentSession]:
        """See `SessionDB.search_sessions`."""
        where, params = _filters(source, None)
        rows = settled_rows(
            self._store,
            f"SELECT {names(SESSION_COLUMNS)}, last_active",
            f"FROM sessions WHERE {' AND '.join(where)} "
            f"ORDER BY last_active DESC, started_at DESC, id DESC LIMIT ? OFFSET ?",
            (*params, *_window(limit, offset)),
        )
        columns = (*SESSION_COLUMNS, "last_active")
        return [cast("RecentSession", session_values(columns, row)) for row in rows]

    def count(self, source: str | None, *, include_archived: bool) -> int:
        """See `SessionDB.session_count`."""
        where, params = _filters(source, None)
        if not include_archived:
            where.append("archived_at IS NULL")
        with self._store.provider.read() as tx:
            row = tx.one(f"SELECT COUNT(*) FROM sessions WHERE {' AND '.join(where)}", params)
        return int(row[0]) if row else 0

    def message_count(self, session_id: str | None) -> int:
        """See `SessionDB.message_count`."""
        where, params = (f"{VISIBLE} AND id = ?", [session_id]) if session_id else (VISIBLE, [])
        with self._store.provider.read() as tx:
            row = tx.one(f"SELECT SUM(message_count) FROM sessions WHERE {where}", params)
        return int(row[0] or 0) if row else 0

    def stats(self) -> StoreStats:
        """See `SessionDB.get_stats`."""
        with self._store.provider.read() as tx:
            rows = tx.all(
                f"SELECT source, COUNT(*), COALESCE(SUM(message_count), 0), "
                f"COALESCE(SUM(CASE WHEN archived_at IS NULL THEN 0 ELSE 1 END), 0) "
                f"FROM sessions WHERE {VISIBLE} GROUP BY source ORDER BY COUNT(*) DESC, source"
            )
            trashed = tx.one("SELECT COUNT(*) FROM sessions WHERE trashed_at > 0")
        return {
            "sessions": sum(sessions for _, sessions, _, _ in rows),
            "messages": int(sum(messages for _, _, messages, _ in rows)),
            "sources": {
                source: {"sessions": sessions, "messages": int(messages)}
                for source, sessions, messages, _ in rows
            },
            "archived": int(sum(archived for *_, archived in rows)),
            "trashed": int(trashed[0]) if trashed else 0,
            "size_bytes": self._store.provider.size_bytes(),
        }


def _filters(
    source: str | None, exclude_sources: Sequence[str] | None, source_column: str = "source"
) -> tuple[list[str], list[Any]]:
    where, params = [VISIBLE], list[Any]()
    if source:
        where.append(f"{source_column} = ?")
        params.append(source)
    if exclude_sources:
        where.append(f"{source_column} NOT IN ({placeholders(len(exclude_sources))})")
        params.extend(exclude_sources)
    return where, params


def _of(column: str, owner: str) -> str:
    """Return the SQL for a column of the session whose id is in the column *owner*."""
    if owner == "id":
        return column
    other = f"SELECT o.{column} FROM sessions o WHERE o.id = sessions.{owner}"
    return f"CASE WHEN {owner} = id THEN {column} ELSE ({other}) END"


def _window(limit: int, offset: int) -> tuple[int, int]:
    if not isinstance(limit, int) or not isinstance(offset, int):
        raise InvalidInput("limit and offset must be whole numbers.")
    return (_EVERYTHING if limit < 0 else limit), max(offset, 0)


def _rich_record(columns: list[str], row: tuple[Any, ...]) -> SessionListing:
    record = session_values(columns, row[:-3])
    preview, last_active, head_id = row[-3:]
    record["preview"] = preview or ""
    record["last_active"] = last_active
    if head_id != record["id"]:
        record["_lineage_root_id"] = head_id
    return cast("SessionListing", record)

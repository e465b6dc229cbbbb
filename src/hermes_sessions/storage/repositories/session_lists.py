"""Lists and counts of sessions, read from summary columns only."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.ids import ascii_lower
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.codec import encode_text
from hermes_sessions.storage.provider import placeholders
from hermes_sessions.storage.repositories.rows import (
    PLACE_COLUMNS,
    SESSION_COLUMNS,
    VISIBLE,
    names,
    scope_condition,
    session_values,
)
from hermes_sessions.storage.repositories.stale_sessions import settle_first, settled_rows
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import (
        RecentSession,
        SessionListing,
        SessionSummary,
        StoreStats,
    )
    from hermes_sessions.storage.repositories.label_conditions import LabelFilter
else:
    LabelFilter = object  # loaded only for lists by labels

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
        "archived",
        "pinned_at",
        "metadata",
        "tags",
        *PLACE_COLUMNS,
    ]
)
_EVERYTHING: Final = 2**62


class ListFilters(NamedTuple):
    """Which sessions a list shows; see `SessionDB.list_sessions_rich`."""

    source: str | None = None
    exclude_sources: Sequence[str] | None = None
    include_archived: bool = False
    archived_only: bool = False
    pinned_only: bool = False
    min_message_count: int = 0
    since: float | None = None
    until: float | None = None
    cwd_prefix: str | None = None
    id_query: str | None = None
    search_query: str | None = None
    labels: LabelFilter | None = None
    scope: Scope = OWNER


#: Condition on a text and a needle, which is passed with an empty text after it; unlike LIKE
#: without wildcards.
_CONTAINS: Final = "REPLACE({0}, ?, ?) <> {0}"
_DELEGATED: Final = '"_delegate_from"'
#: What a search by title ignores.
_PUNCTUATION: Final = "-_. "
_NO_PUNCTUATION: Final = dict.fromkeys(map(ord, _PUNCTUATION))


def directory_condition(column: str, prefix: str) -> tuple[str, list[Any]]:
    """Return the condition that a directory is *prefix* or below it."""
    root = prefix.rstrip("/\\")
    below = len(encode_text(root)) + 1
    condition = f"({column} = ? OR SUBSTR({column}, 1, ?) IN (?, ?))"
    return condition, [root, below, f"{root}/", f"{root}\\"]


class SessionLists:
    """Lists and counts of sessions."""

    def __init__(self, store: StoreContext, *, without_delegates: bool = False) -> None:
        """With *without_delegates*, lists without children also leave out sessions that their
        configuration marks as delegated and that have no parent.
        """
        self._store = store
        self._without_delegates = without_delegates

    def rich(
        self,
        wanted: ListFilters,
        *,
        limit: int,
        offset: int,
        include_children: bool,
        project_tips: bool,
        by_activity: bool,
        compact: bool,
    ) -> "list[SessionListing]":
        """See `SessionDB.list_sessions_rich`."""
        if include_children:
            shown, head, tip = "1 = 1", "id", "id"
        elif by_activity:
            shown, head, tip = "listed = 1", "chain_id", "id"
        else:
            shown, head, tip = "tip_id IS NOT NULL", "id", "tip_id"
        if not project_tips and not include_children:
            tip = head
        where, params = self._conditions(wanted, head, tip)
        if not include_children:
            self._hide_delegates(where, params)
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

    def _conditions(self, wanted: ListFilters, head: str, tip: str) -> tuple[list[str], list[Any]]:
        """Return the conditions of a list, whose rows show a *head* and a *tip*. They apply to the
        row that is shown, not to the head that the query selects.
        """
        where, params = _filters(wanted.source, wanted.exclude_sources, _of("source", head))
        if wanted.archived_only:
            where.append(f"{_of('archived_at', tip)} IS NOT NULL")
        elif not wanted.include_archived:
            where.append(f"{_of('archived_at', tip)} IS NULL")
        if wanted.pinned_only:
            where.append(f"{_of('pinned_at', tip)} IS NOT NULL")
        if wanted.min_message_count > 0:
            where.append(f"{_of('message_count', tip)} >= ?")
            params.append(wanted.min_message_count)
        for sign, moment in ((">=", wanted.since), ("<", wanted.until)):
            if moment is not None:
                where.append(f"{_of('last_active', tip)} {sign} ?")
                params.append(moment)
        if wanted.cwd_prefix:
            condition, values = directory_condition(_of("cwd", tip), wanted.cwd_prefix)
            where.append(condition)
            params.extend(values)
        for condition, values in self._text_conditions(wanted):
            where.append(
                f"EXISTS (SELECT 1 FROM sessions m WHERE "
                f"m.conversation_id = sessions.conversation_id "
                f"AND m.chain_id = sessions.chain_id AND m.{VISIBLE} AND ({condition}))"
            )
            params.extend(values)
        # A row shows columns of the head and the tip, so both must be in scope.
        seen = [scope_condition(wanted.scope, partial(_of, owner=one)) for one in {head: 1, tip: 1}]
        for condition, owned in (*seen, *self._label_conditions(wanted.labels, tip)):
            where.append(condition)
            params.extend(owned)
        return where, params

    def _hide_delegates(self, where: list[str], params: list[Any]) -> None:
        if self._without_delegates:
            where.append("(model_config IS NULL OR REPLACE(model_config, ?, ?) = model_config)")
            params.extend((_DELEGATED, ""))

    def _label_conditions(
        self, labels: LabelFilter | None, owner: str
    ) -> list[tuple[str, tuple[Any, ...]]]:
        if labels is None:
            return []
        return labels.conditions(partial(_of, owner=owner), self._store.provider.dialect)

    def _text_conditions(self, wanted: ListFilters) -> Iterator[tuple[str, list[Any]]]:
        """Yield conditions on one of the sessions ``m`` of a thread."""
        lower = self._store.provider.dialect.ascii_lower
        session_id = lower("m.id")
        if wanted.id_query:
            yield _CONTAINS.format(session_id), [ascii_lower(wanted.id_query), ""]
        if wanted.search_query:
            needle = ascii_lower(wanted.search_query)
            title = lower("m.title")
            condition = f"{_CONTAINS.format(session_id)} OR {_CONTAINS.format(title)}"
            params: list[Any] = [needle, "", needle, ""]
            if bare := needle.translate(_NO_PUNCTUATION):
                for _ in _PUNCTUATION:
                    title = f"REPLACE({title}, ?, ?)"
                removed = [value for mark in _PUNCTUATION for value in (mark, "")]
                condition += f" OR {_CONTAINS.format(title)}"
                params += [*removed, bare, "", *removed]
            yield condition, params

    def by_id(
        self, query: str | None, limit: int, scope: Scope, *, include_archived: bool
    ) -> "list[SessionListing]":
        """See `SessionDB.search_sessions_by_id`."""
        needle = ascii_lower((query or "").strip())
        if not needle or limit <= 0:
            return []
        rows = self.rich(
            ListFilters(include_archived=include_archived, id_query=needle, scope=scope),
            limit=-1,
            offset=0,
            include_children=False,
            project_tips=True,
            by_activity=True,
            compact=False,
        )

        def rank(row: "SessionListing") -> int:
            ids = [ascii_lower(one) for one in (row["id"], row.get("_lineage_root_id")) if one]
            if needle in ids:
                return 0
            return 1 if any(one.startswith(needle) for one in ids) else 2

        return sorted(rows, key=rank)[:limit]

    def cron_runs(self, job_id: str, limit: int, offset: int) -> "list[SessionSummary]":
        """See `SessionDB.list_cron_job_runs`."""
        if not job_id:
            return []
        prefix = f"cron_{job_id}_"
        columns = (*SESSION_COLUMNS, "preview", "last_active")
        rows = settled_rows(
            self._store,
            f"SELECT {names(columns)}",
            f"FROM sessions WHERE source = ? AND SUBSTR(id, 1, ?) = ? AND {VISIBLE} "
            f"ORDER BY started_at DESC, id DESC LIMIT ? OFFSET ?",
            ("cron", len(encode_text(prefix)), prefix, *_window(limit, offset)),
        )
        records = [session_values(columns, row) for row in rows]
        return [cast("SessionSummary", one | {"preview": one["preview"] or ""}) for one in records]

    def flat(self, source: str | None, limit: int, offset: int) -> "list[RecentSession]":
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

    def count(self, wanted: ListFilters, *, exclude_children: bool) -> int:
        """See `SessionDB.session_count`."""
        where, params = self._conditions(wanted, "chain_id" if exclude_children else "id", "id")
        if exclude_children:
            where.append("listed = 1")
            self._hide_delegates(where, params)
            settle_first(self._store)
        with self._store.provider.read() as tx:
            row = tx.one(f"SELECT COUNT(*) FROM sessions WHERE {' AND '.join(where)}", params)
        return int(row[0]) if row else 0

    def message_count(self, session_id: str | None, *, include_inactive: bool) -> int:
        """See `SessionDB.message_count`."""
        if include_inactive:
            return self._count_of_all_messages(session_id)
        where, params = (f"{VISIBLE} AND id = ?", [session_id]) if session_id else (VISIBLE, [])
        with self._store.provider.read() as tx:
            row = tx.one(f"SELECT SUM(message_count) FROM sessions WHERE {where}", params)
        return int(row[0] or 0) if row else 0

    def _count_of_all_messages(self, session_id: str | None) -> int:
        condition, params = ("s.id = ?", [session_id]) if session_id else ("1 = 1", [])
        with self._store.provider.read() as tx:
            row = tx.one(
                f"SELECT COUNT(*) FROM messages m JOIN sessions s ON s.id = m.session_id "
                f"WHERE s.{VISIBLE} AND {condition}",
                params,
            )
        return int(row[0]) if row else 0

    def stats(self) -> "StoreStats":
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


def _rich_record(columns: list[str], row: tuple[Any, ...]) -> "SessionListing":
    record = session_values(columns, row[:-3])
    preview, last_active, head_id = row[-3:]
    record["preview"] = preview or ""
    record["last_active"] = last_active
    if head_id != record["id"]:
        record["_lineage_root_id"] = head_id
    return cast("SessionListing", record)

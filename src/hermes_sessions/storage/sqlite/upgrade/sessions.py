"""Sessions of the old layout: convert texts, recover missing sessions, fill totals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, count
from typing import Any, Final, NamedTuple

import apsw

from hermes_sessions.model.message import count_tool_calls
from hermes_sessions.model.title import next_in_family
from hermes_sessions.storage.codec import encode_text, to_json
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite.hermes_values import (
    FOREIGN_ROW,
    USAGE_NAMES,
    decode_lossless,
    is_time,
    jsonable,
    needs_conversion,
    row_key,
    set_aside,
    stored_text,
    time_from,
    tool_calls_in,
)
from hermes_sessions.storage.sqlite.row_scan import ScannedRow, fetch, quoted, rows_of, scan
from hermes_sessions.storage.sqlite.transaction import ApswTransaction
from hermes_sessions.storage.sqlite.upgrade.layout import columns_of, text_columns
from hermes_sessions.storage.sqlite.upgrade.messages import MessageTotals
from hermes_sessions.storage.tables import SESSIONS, USAGE, given

# Conversion of session ids, everywhere they appear.
#
# Most files need no conversion: only ids that are missing, are bytes, or contain NUL, U+FDD0 or
# text that is not UTF-8 change.


class _Key(NamedTuple):
    """An id exactly as stored."""

    raw: bytes
    is_text: bool

    @property
    def sql(self) -> str:
        """The SQL placeholder with which `raw` equals the stored value."""
        return "CAST(? AS TEXT)" if self.is_text else "?"


def convert_session_ids(connection: apsw.Connection) -> None:
    """Rewrite unusual session ids in the sessions and in every column that refers to them."""
    columns = list(_columns_with_session_ids(connection))
    odd = list(dict.fromkeys(chain.from_iterable(_odd_keys(connection, *c) for c in columns)))
    for key in odd:
        new_id = _free_id(connection, str(stored_text(decode_lossless(key.raw))))
        for table, column in columns:
            connection.execute(
                f"UPDATE {quoted(table)} SET {quoted(column)} = ? "
                f"WHERE {quoted(column)} = {key.sql}",
                (new_id, key.raw),
            )
    nameless = fetch(connection, "SELECT rowid FROM sessions WHERE id IS NULL")
    for (rowid,) in nameless:
        new_id = _free_id(connection, f"unknown-{rowid}")
        connection.execute("UPDATE sessions SET id = ? WHERE rowid = ?", (new_id, rowid))
    if odd or nameless:
        logger.info("%d session ids were converted", len(odd) + len(nameless))


def _columns_with_session_ids(connection: apsw.Connection) -> Iterator[tuple[str, str]]:
    known = {("sessions", "id"), ("sessions", "parent_session_id"), ("messages", "session_id")}
    yield from sorted(known)
    references = fetch(
        connection,
        'SELECT t.name, k."from" FROM pragma_table_list t, pragma_foreign_key_list(t.name) k '
        "WHERE t.schema = 'main' AND t.type = 'table' AND lower(k.\"table\") = 'sessions' "
        "AND lower(COALESCE(k.\"to\", 'id')) = 'id'",
    )
    yield from ((table, column) for table, column in references if (table, column) not in known)


def _odd_keys(connection: apsw.Connection, table: str, column: str) -> Iterator[_Key]:
    name = quoted(column)
    rows = connection.execute(
        f"SELECT DISTINCT typeof({name}) = 'text', CAST({name} AS BLOB) FROM {quoted(table)} "
        f"WHERE {name} IS NOT NULL"
    )
    for is_text, raw in rows:
        try:
            odd = not is_text or needs_conversion(raw.decode("utf-8"), undecodable=False)
        except UnicodeDecodeError:
            odd = True
        if odd:
            yield _Key(raw, bool(is_text))


def _free_id(connection: apsw.Connection, wanted: str) -> str:
    for number in count(2):
        taken = connection.execute("SELECT 1 FROM sessions WHERE id = ?", (wanted,)).fetchone()
        if taken is None:
            break
        wanted = f"{wanted.rpartition('~')[0] or wanted}~{number}"
    return wanted


logger = Logger(__name__)

_ROWS_AT_ONCE: Final = 500
_TIMES: Final = ("started_at", "ended_at")
_COUNTERS: Final = given(USAGE, "count")

# Values


def convert_sessions(connection: apsw.Connection, totals: Mapping[str, MessageTotals]) -> None:
    """Convert texts and times of all sessions; other values stay."""
    texts = text_columns(connection, SESSIONS)
    columns = ("id", *_TIMES, *texts)
    for row in _rows(connection, "sessions", columns):
        found = dict(zip(columns, row.values, strict=True))
        changes = _changed_texts(found, texts, undecodable=row.undecodable)
        if found["source"] is None:
            changes["source"] = "unknown"
        # An empty title becomes NULL, because two of them would not be unique.
        if found.get("title") in ("", b""):
            changes["title"] = None
        changes.update(_changed_times(found, totals.get(str(found["id"]), MessageTotals())))
        _update(connection, "sessions", row.rowid, changes)


def _changed_times(found: Mapping[str, Any], total: MessageTotals) -> dict[str, Any]:
    odd = {name: found[name] for name in _TIMES if not is_time(found[name])}
    if found["ended_at"] is None:
        del odd["ended_at"]
    if not odd:
        return {}
    otherwise = {"started_at": total.oldest, "ended_at": total.newest}
    times = {name: time_from(value, otherwise[name]) for name, value in odd.items()}
    return {**times, "extra": set_aside(odd)}


def convert_texts(connection: apsw.Connection, table: str, columns: Sequence[str]) -> None:
    """Convert texts of a table that may not exist; its keys keep their meaning."""
    there = [name for name in columns if name in columns_of(connection, table)]
    for row in _rows(connection, table, there) if there else ():
        found = dict(zip(there, row.values, strict=True))
        changes = _changed_texts(found, there, undecodable=row.undecodable)
        _update(connection, table, row.rowid, changes)


def usage_details(connection: apsw.Connection) -> list[tuple[str, dict[str, Any]]]:
    """Return keys and rows of usage that our table cannot hold as a whole: with other columns, or
    of missing sessions.
    """
    columns = list(columns_of(connection, USAGE.name))
    if "session_id" not in columns:
        return []
    keys = fetch(
        connection,
        "SELECT lower(name) FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk",
        (USAGE.name,),
    )
    key = [str(name) for (name,) in keys]
    known = {row[0] for row in connection.execute("SELECT id FROM sessions")}
    ours = {*USAGE_NAMES, *(column.name for column in USAGE.columns)}
    rows = rows_of(connection, USAGE.name, columns)
    found = (dict(zip(columns, row, strict=True)) for row in rows)
    return [
        (row_key(key, row), row)
        for row in found
        if row["session_id"] not in known or any(row[name] for name in columns if name not in ours)
    ]


def keep_usage_details(
    connection: apsw.Connection, origin: str, details: Sequence[tuple[str, Mapping[str, Any]]]
) -> None:
    """Store such rows as rows of another program."""
    insert = f"INSERT INTO foreign_rows ({', '.join(FOREIGN_ROW)}) VALUES (?, ?, ?, ?)"
    ApswTransaction(connection).run_many(
        insert,
        ((origin, USAGE.name, key, to_json(jsonable(row))) for key, row in details),
    )


def convert_meta(connection: apsw.Connection) -> None:
    """Convert keys and values of the meta table."""
    columns = ("key", "value")
    for row in _rows(connection, "state_meta", columns):
        found = dict(zip(columns, row.values, strict=True))
        changes = _changed_texts(found, columns, undecodable=row.undecodable)
        key = changes.get("key")
        if (
            key is not None
            and connection.execute(
                "SELECT 1 FROM state_meta WHERE key = ? AND rowid <> ?", (key, row.rowid)
            ).fetchone()
        ):
            changes["key"] = f"{key}~{row.rowid}"
        _update(connection, "state_meta", row.rowid, changes)


def _rows(connection: apsw.Connection, table: str, columns: Sequence[str]) -> Iterator[ScannedRow]:
    """Yield every row of a small table, which may be changed meanwhile."""
    after: int | None = None
    while True:
        with closing(scan(connection, table, columns, after, _ROWS_AT_ONCE)) as rows:
            batch = list(rows)
        if not batch:
            return
        yield from batch
        after = batch[-1].rowid


def _changed_texts(
    found: Mapping[str, Any], names: Sequence[str], *, undecodable: bool
) -> dict[str, Any]:
    return {
        name: stored_text(found[name])
        for name in names
        if needs_conversion(found[name], undecodable=undecodable)
    }


def _update(
    connection: apsw.Connection, table: str, rowid: int, changes: Mapping[str, Any]
) -> None:
    if changes:
        assignments = ", ".join(f"{quoted(name)} = ?" for name in changes)
        connection.execute(
            f"UPDATE {quoted(table)} SET {assignments} WHERE rowid = ?", (*changes.values(), rowid)
        )


# Rows


def recover_lost_sessions(connection: apsw.Connection, totals: Mapping[str, MessageTotals]) -> int:
    """Create the missing sessions that messages refer to; return how many."""
    known = {row[0] for row in connection.execute("SELECT id FROM sessions")}
    lost = [session_id for session_id in totals if session_id not in known]
    connection.executemany(
        "INSERT INTO sessions (id, source, started_at, message_count, tool_call_count) "
        "VALUES (?, 'unknown', ?, NULL, NULL)",
        [(session_id, totals[session_id].oldest) for session_id in lost],
    )
    for session_id in lost:
        logger.warning("Messages without a session are kept in a new session %s", session_id)
    return len(lost)


def resolve_duplicate_titles(connection: apsw.Connection) -> None:
    """Let the newest session keep a duplicate title; number the others, oldest first."""
    rows = connection.execute(
        "SELECT title, id FROM sessions WHERE title IN "
        "(SELECT title FROM sessions WHERE title IS NOT NULL GROUP BY title HAVING COUNT(*) > 1) "
        "ORDER BY title, started_at, rowid"
    )
    holders: dict[str, list[str]] = defaultdict(list)
    for title, session_id in rows:
        holders[title].append(session_id)
    if not holders:
        return
    taken = {
        row[0] for row in connection.execute("SELECT title FROM sessions WHERE title IS NOT NULL")
    }
    for title, (*older, _newest) in holders.items():
        for session_id in older:
            numbered = next_in_family(title, taken)
            taken.add(numbered)
            connection.execute("UPDATE sessions SET title = ? WHERE id = ?", (numbered, session_id))
            logger.warning("Session %s had the title of a newer one; it was numbered", session_id)


# Summaries


def fill_summaries(connection: apsw.Connection, totals: Mapping[str, MessageTotals]) -> None:
    """Fill the columns that every append maintains; counters only where they are missing, or
    where messages are hidden, because Hermes counts those.
    """
    connection.execute(
        "UPDATE sessions SET message_count = NULL, tool_call_count = NULL WHERE rewind_count <> 0 "
        "OR id IN (SELECT session_id FROM messages WHERE active = 0 OR compacted <> 0)"
    )
    connection.execute(
        "UPDATE sessions SET next_ordinal = 1, last_active = started_at, preview = NULL"
    )
    connection.executemany(
        "UPDATE sessions SET next_ordinal = ?, last_active = COALESCE(?, started_at), "
        "preview = ?, message_count = COALESCE(message_count, ?) WHERE id = ?",
        [
            (s.count + 1, s.active, s.preview and encode_text(s.preview), s.in_force, session_id)
            for session_id, s in totals.items()
        ],
    )
    connection.execute("UPDATE sessions SET message_count = 0 WHERE message_count IS NULL")
    for name in _COUNTERS:
        connection.execute(f"UPDATE sessions SET {name} = 0 WHERE {name} IS NULL")
    uncounted = connection.execute(
        "SELECT id FROM sessions WHERE tool_call_count IS NULL"
    ).fetchall()
    for (session_id,) in uncounted:
        calls = connection.execute(
            "SELECT tool_calls FROM messages WHERE session_id = ? AND tool_calls IS NOT NULL "
            "AND active <> 0 AND compacted = 0",
            (session_id,),
        )
        total = sum(count_tool_calls(tool_calls_in(row[0])) for row in calls)
        connection.execute(
            "UPDATE sessions SET tool_call_count = ? WHERE id = ?", (total, session_id)
        )

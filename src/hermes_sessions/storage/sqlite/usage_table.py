"""Restores the layout of ``session_model_usage`` after a later Hermes rebuilt it.

Hermes 0.19 reads the documented ``schema_version``, concludes that the file is from an earlier
version, and rebuilds the table with its own key and time columns. If a row does not fit, it stops
and leaves our table under another name. The rows of both tables are kept.
"""

from __future__ import annotations

from typing import Any, Final

from hermes_sessions.storage.provider import ReadTransaction, Row, WriteTransaction, placeholders
from hermes_sessions.storage.repositories.usage import ROUTE_COLUMNS, TOKEN_COLUMNS, route_key
from hermes_sessions.storage.sqlite.table_ddl import side_tables
from hermes_sessions.storage.tables import USAGE

#: The name under which an unfinished rebuild leaves our table.
_SET_ASIDE: Final = "session_model_usage_v21"
_COLUMNS: Final = [column.name for column in USAGE.columns]
_COSTS: Final = ("estimated_cost_usd", "actual_cost_usd")
_SEEN: Final = {"first_at": "first_seen", "last_at": "last_seen"}
_Usage = dict[str, Any]


def restore_usage_table(tx: WriteTransaction) -> bool:
    """Rebuild the usage table in our layout with the rows of both tables.

    Does nothing if the table has all our columns, even when other programs added some. Rows of the
    same session and route are added up.

    Returns:
        Whether the table was rebuilt.
    """
    if set(_COLUMNS) <= set(_columns_of(tx, USAGE.name)):
        return False
    merged: dict[tuple[str, str], _Usage] = {}
    for table in (_SET_ASIDE, USAGE.name):
        for usage in _read(tx, table):
            key = (usage["session_id"], usage["route_key"])
            merged[key] = _sum(merged[key], usage) if key in merged else usage
        tx.run(f"DROP TABLE IF EXISTS {table}")
    tx.run(side_tables())
    tx.run_many(
        f"INSERT INTO {USAGE.name} ({', '.join(_COLUMNS)}) VALUES ({placeholders(len(_COLUMNS))})",
        [[usage[name] for name in _COLUMNS] for usage in merged.values()],
    )
    return True


def _columns_of(tx: ReadTransaction, table: str) -> list[str]:
    return [name for (name,) in tx.all("SELECT name FROM pragma_table_info(?)", (table,))]


def _read(tx: ReadTransaction, table: str) -> list[_Usage]:
    """Return the usage rows of existing sessions, in our columns; none without the table."""
    names = _columns_of(tx, table)
    if not names:
        return []
    columns = ", ".join(f"u.{name}" for name in names)
    rows = tx.all(
        f"SELECT s.started_at, {columns} FROM {table} u JOIN sessions s ON s.id = u.session_id"
    )
    return [_usage(names, row) for row in rows]


def _usage(columns: list[str], row: Row) -> _Usage:
    started_at, *values = row
    stated = dict(zip(columns, values, strict=True))
    usage: _Usage = {name: stated.get(name) for name in _COLUMNS}
    for name in ROUTE_COLUMNS:
        usage[name] = usage[name] or None
    usage["task"] = usage["task"] or ""
    for name in TOKEN_COLUMNS:
        usage[name] = usage[name] or 0
    for name, theirs in _SEEN.items():
        usage[name] = next(
            time for time in (usage[name], stated.get(theirs), started_at, 0.0) if time is not None
        )
    usage["route_key"] = usage["route_key"] or route_key(usage, usage["task"])
    return usage


def _sum(one: _Usage, other: _Usage) -> _Usage:
    total = one | {name: one[name] + other[name] for name in TOKEN_COLUMNS}
    for name in _COSTS:
        known = [cost for cost in (one[name], other[name]) if cost is not None]
        total[name] = sum(known) if known else None
    total["first_at"] = min(one["first_at"], other["first_at"])
    total["last_at"] = max(one["last_at"], other["last_at"])
    return total

"""Restores the table of token usage after a later Hermes has given it another layout.

Hermes 0.19 takes a store for a file of an earlier version, as its documented ``schema_version``
says, and rebuilds ``session_model_usage`` with a key and times of its own. If one of the rows does
not fit, it stops there and leaves our table under another name. Nothing of either table is lost.
"""

from __future__ import annotations

from typing import Any, Final

from hermes_sessions.storage.provider import ReadTransaction, Row, WriteTransaction, placeholders
from hermes_sessions.storage.repositories.usage import ROUTE_COLUMNS, TOKEN_COLUMNS, route_key
from hermes_sessions.storage.sqlite.table_ddl import side_tables
from hermes_sessions.storage.tables import USAGE

#: Where a rebuild that did not finish has left our table.
_SET_ASIDE: Final = "session_model_usage_v21"
_COLUMNS: Final = [column.name for column in USAGE.columns]
_COSTS: Final = ("estimated_cost_usd", "actual_cost_usd")
_SEEN: Final = {"first_at": "first_seen", "last_at": "last_seen"}
_Usage = dict[str, Any]


def restore_usage_table(tx: WriteTransaction) -> bool:
    """Give the table our layout again, with the rows of both; return whether it had another.

    Columns that other programs added to ours are left alone.
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
    """Return the rows of sessions that exist, in our columns."""
    found = _columns_of(tx, table)
    if not found:
        return []
    rows = tx.all(
        f"SELECT s.started_at, {', '.join(f'u.{name}' for name in found)} "
        f"FROM {table} u JOIN sessions s ON s.id = u.session_id"
    )
    return [_usage(found, row) for row in rows]


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

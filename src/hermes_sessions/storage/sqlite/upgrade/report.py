"""Accounts for every table of an upgraded file: taken, kept as it is, or dropped with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import apsw

from hermes_sessions.storage.provider import UpgradedTable
from hermes_sessions.storage.sqlite.row_scan import quoted
from hermes_sessions.storage.sqlite.upgrade.layout import SEARCH_TABLES, kept_name
from hermes_sessions.storage.sqlite.upgrade.topics import BINDINGS, MODES
from hermes_sessions.storage.tables import ALL_TABLES, SESSIONS, USAGE

Rows = dict[str, int | None]

_TAKEN: Final = {table.name for table in ALL_TABLES} | {"schema_version"}
#: Tables that stay and whose rows are copied.
_COPIED: Final = {MODES: "topic_modes", BINDINGS: "topics"}


def count_rows(connection: apsw.Connection) -> Rows:
    """Return the number of rows of every table by lower-case name; None for a virtual one, which
    may be damaged. The tables inside virtual ones are not listed.
    """
    listed = connection.execute(
        "SELECT lower(name), type FROM pragma_table_list WHERE schema = 'main' "
        "AND type IN ('table', 'virtual') AND name NOT IN ('sqlite_schema', 'sqlite_master') "
        "ORDER BY name"
    ).fetchall()
    return {
        str(name): None if kind == "virtual" else _count(connection, str(name))
        for name, kind in listed
    }


def account_for_tables(connection: apsw.Connection, before: Rows) -> tuple[UpgradedTable, ...]:
    """Return what became of each table, given the rows it had."""
    return tuple(_account(connection, before))


def _account(connection: apsw.Connection, before: Rows) -> Iterator[UpgradedTable]:
    after = count_rows(connection)
    for table, rows in before.items():
        kept = kept_name(table)
        if table in SEARCH_TABLES and table not in after:
            reason = "a search index of Hermes; this store builds its own"
            yield UpgradedTable(table, "dropped", rows, None, reason)
        elif kept in after and kept not in before:
            note = f"this store needs the name; it is {kept} now"
            yield UpgradedTable(table, "kept", rows, after[kept], note)
        elif table in _COPIED:
            copied = after[_COPIED[table]]
            note = f"{copied} copied into {_COPIED[table]}; the table stays"
            yield UpgradedTable(table, "taken", rows, after[table], note)
        elif table in _TAKEN:
            yield UpgradedTable(
                table, "taken", rows, after[table], _note(table, rows, after[table])
            )
        else:
            yield UpgradedTable(table, "kept", rows, after[table])


def _note(table: str, before: int | None, after: int | None) -> str:
    """Say why a table that is taken has another number of rows."""
    change = (after or 0) - (before or 0)
    if table == SESSIONS.name and change:
        return f"{change} more, for messages without a session"
    if table == USAGE.name and change:
        return f"{-change} fewer: added to others of the same route, or kept in foreign_rows"
    return ""


def _count(connection: apsw.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT COUNT(*) FROM {quoted(table)}").get)

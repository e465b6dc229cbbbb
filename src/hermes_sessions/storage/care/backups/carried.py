"""Which tables a portable backup carries, and why it leaves the others out."""

from __future__ import annotations

from typing import Final

from hermes_sessions.storage import tables
from hermes_sessions.storage.provider import ReadTransaction
from hermes_sessions.storage.tables import MESSAGES, SESSIONS, Table

#: What is true of one running database alone, or made again from the rest.
NOT_CARRIED: Final = {
    "leases": "who holds a conversation right now",
    "processes": "which processes run right now",
    "compression_locks": "who compresses a session right now",
    "write_marks": "commits of the last hour",
    "store_migrations": "steps of the database it came from; the target takes its own",
    "search_state": "search index, built again",
    "search_queue": "search index, built again",
    "search_titles": "search index, built again",
    "stale_sessions": "derived columns to work out again; after a restore, all are",
}
#: Likewise: the token of a lease, and what the database works out by itself.
COLUMNS_NOT_CARRIED: Final = {"sessions": frozenset(("fence", "title_key"))}


def _declared() -> dict[str, Table]:
    """Return every table that is declared anywhere, so that a new one is carried by itself."""
    found: dict[str, Table] = {}
    for group in vars(tables).values():
        if isinstance(group, tuple) and group and all(isinstance(one, Table) for one in group):
            found |= {table.name: table for table in group}
    return found


DECLARED: Final = _declared()
USAGE: Final = DECLARED["session_model_usage"]
REWINDS: Final = DECLARED["rewinds"]
#: What belongs to one session, in the order of its checksum.
OF_A_SESSION: Final = (SESSIONS, USAGE, REWINDS, MESSAGES)
#: Everything else that is carried.
BESIDE: Final = tuple(
    table
    for table in DECLARED.values()
    if table not in OF_A_SESSION and table.name not in NOT_CARRIED
)
CARRIED: Final = (*OF_A_SESSION, *BESIDE)

_PRESENT: Final = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
    "postgresql": "SELECT table_name FROM information_schema.tables "
    "WHERE table_schema = CURRENT_SCHEMA()",
    "mysql": "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
}


def names(table: Table) -> list[str]:
    """Return the names of a table's columns."""
    return [column.name for column in table.columns]


def present(tx: ReadTransaction, dialect: str) -> tuple[Table, ...]:
    """Return the carried tables that a store has: one that waits for a step has fewer."""
    if dialect not in _PRESENT:
        return CARRIED
    there = {row[0] for row in tx.all(_PRESENT[dialect])}
    return tuple(table for table in CARRIED if table.name in there)


def count(tx: ReadTransaction, table: Table) -> int:
    """Return how many rows a table has."""
    row = tx.one(f"SELECT COUNT(*) FROM {table.name}")
    return int(row[0]) if row else 0

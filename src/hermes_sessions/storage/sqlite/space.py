"""Which tables and indexes of a file take how much space, found by looking at all its pages."""

from __future__ import annotations

import apsw

from hermes_sessions.storage.provider import Space


def measure(connection: apsw.Connection, log_bytes: int) -> Space:
    """Return what every table and index takes, and what is free."""
    kinds = {
        str(name): str(kind)
        for name, kind in connection.execute("SELECT name, type FROM sqlite_schema")
    }
    tables: dict[str, int] = {}
    indexes: dict[str, int] = {}
    for name, size in connection.execute("SELECT name, pgsize FROM dbstat WHERE aggregate = TRUE"):
        # Indexes that belong to keys have names, too.
        where = indexes if kinds.get(str(name)) == "index" else tables
        where[str(name)] = int(str(size))
    free = int(connection.pragma("freelist_count")) * int(connection.pragma("page_size"))
    return Space(tables, indexes, free_bytes=free, log_bytes=log_bytes)

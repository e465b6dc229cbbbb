"""The page cache of all open connections is limited."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import apsw

from hermes_sessions import SessionDB
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
from hermes_sessions.storage.sqlite.reader_pool import KEPT_IDLE

LIMIT = 2 * 2**20


def kept(connection: apsw.Connection) -> int:
    """Read all of the file; return the bytes of pages that are in memory afterwards."""
    list(connection.execute("SELECT SUM(LENGTH(content)) FROM messages"))
    return connection.status(apsw.SQLITE_DBSTATUS_CACHE_USED)[0]


def kept_for_reading(provider: SQLiteSessionDBProvider) -> int:
    """The same, of as many readers at once as are kept open."""
    with ExitStack() as reading:
        return sum(
            kept(reading.enter_context(provider.reading_connection())) for _ in range(KEPT_IDLE)
        )


def test_a_limit_holds_for_all_connections_together(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        db.create_session("s", "cli")
        # Less than a page each: of longer texts, most is read past the cache.
        db.append_messages("s", [{"role": "user", "content": "x" * 3000}] * 1_500)
        provider = db.provider
        assert isinstance(provider, SQLiteSessionDBProvider)
        assert kept_for_reading(provider) > KEPT_IDLE * LIMIT
        with provider.reading_connection():
            # Like the thread that indexes: in the middle of a read.
            provider.limit_memory(LIMIT)
        assert kept_for_reading(provider) + provider.with_writer(kept) < LIMIT
        # Small as it is, everything can be read and written.
        db.append_messages("s", [{"role": "user", "content": "y" * 3000}] * 1_500)
        assert len(db.get_messages("s")) == 3_000

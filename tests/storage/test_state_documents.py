"""State documents in stores of earlier versions."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from hermes_sessions import SessionDB


def test_a_store_that_waits_for_the_table(tmp_path: Path) -> None:
    """A read-only handle, which cannot add it, finds nothing."""
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        db.create_session("s", "cli")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE state_documents")
        connection.execute("DELETE FROM store_migrations WHERE name = '0009_integrations'")
        connection.commit()
    with SessionDB(path, read_only=True) as db:
        assert db.get_state("session", "s", "a") is None
        assert db.list_state("user", "anna") == []

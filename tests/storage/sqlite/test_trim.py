"""Freeing unused space in short steps."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from hermes_sessions import SessionDB, StoreReadOnly


def leave_holes(db: SessionDB) -> None:
    db.create_session("gone", "cli")
    for _ in range(5):
        db.append_message("gone", role="user", content="x" * 1_000_000)
    db.create_session("kept", "cli")
    db.append_message("kept", role="user", content="kept")
    db.delete_session("gone")


def test_space_is_given_back_in_steps(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        leave_holes(db)
        first = db.provider.trim()
        assert 0 < first < 2_000_000
        # What a reader sees meanwhile stays.
        with db.provider.read() as tx:
            assert db.trim() > 2_000_000
            assert tx.one("SELECT COUNT(*) FROM messages") == (1,)
        assert db.provider.trim() == 0
        assert db.get_messages("kept")[0]["content"] == "kept"
        assert db.search_messages("kept")[0]["session_id"] == "kept"
    assert path.stat().st_size < 1_000_000
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


def test_a_file_that_was_made_without_the_setting(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    SessionDB(path).close()
    connection = apsw.Connection(str(path))
    connection.pragma("auto_vacuum", 0)
    connection.execute("VACUUM")
    connection.close()
    with SessionDB(path) as db:
        leave_holes(db)
        assert db.trim() == 0
        db.vacuum()
        leave_holes(db)
        assert db.trim() > 0


def test_memory_and_reading_only(tmp_path: Path) -> None:
    with SessionDB(":memory:") as db:
        leave_holes(db)
        assert db.trim() >= 0
        assert db.provider.trim() == 0
    SessionDB(tmp_path / "state.db").close()
    with SessionDB(tmp_path / "state.db", read_only=True) as db, pytest.raises(StoreReadOnly):
        db.trim()

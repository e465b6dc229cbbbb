"""Upgrading files of later Hermes versions in place: only when asked, and with everything."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import hermes_state
from hermes_sessions import SessionDB
from hermes_sessions.errors import SchemaRefused
from hermes_sessions.storage.provider import FileUpgrade
from hermes_sessions.storage.provider_registry import file_care
from tests.fixtures.hermes import content, reader, release_driver
from tests.storage.sqlite.hermes_files import LATER, NAMES, contents, edit, make


def require_same(path: Path, tmp_path: Path, changed: Sequence[Any] = ()) -> None:
    """Assert that an upgrade of the file gives what an import of it gives."""
    edit(path, *changed)
    other = tmp_path / "other" / path.name
    other.parent.mkdir()
    other.write_bytes(path.read_bytes())
    with SessionDB(tmp_path / "imported.db") as db:
        assert file_care().import_database(db, other)["ok"]
        expected = contents(db)
    with hermes_state.SessionDB(path) as db:
        found = contents(db)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == value, name


def upgraded(path: Path) -> FileUpgrade:
    with hermes_state.SessionDB(path) as db:
        report = db.provider.steps().upgraded
    assert report is not None
    return report


@pytest.mark.parametrize("name", LATER)
def test_an_upgraded_file_holds_what_an_import_brings(name: str, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    before = make(name, path)
    require_same(path, tmp_path)
    (backup,) = tmp_path.glob("state.db.v*.bak")
    assert backup.name == f"state.db.v{before['schema_version']}.bak"
    assert reader.read_everything(backup) == before


def test_odd_values_are_read_like_an_import_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make("v22", path)
    odd = "größe\0\ufdd0 漓"
    compacted, routed = release_driver.COMPACTED, release_driver.GATEWAY
    changed = (
        ("UPDATE sessions SET cwd = ?, display_name = ? WHERE id = ?", (odd, odd, routed)),
        ("UPDATE sessions SET model_config = '{no json' WHERE id = ?", (content.LONG,)),
        ("UPDATE sessions SET model_config = '[1]' WHERE id = ?", (release_driver.DELEGATE,)),
        ("UPDATE messages SET api_content = ?, platform_message_id = ? WHERE id = 3", (odd, odd)),
        ("UPDATE gateway_routing SET entry_json = ? WHERE scope = ''", (odd,)),
        ("UPDATE messages SET content = CAST(x'61eda080ff' AS TEXT) WHERE id = 5", ()),
        ("UPDATE sessions SET git_branch = CAST(x'ff61' AS TEXT) WHERE id = ?", (routed,)),
        ("UPDATE session_model_usage SET cost_source = ? WHERE task <> ''", (odd,)),
        ("INSERT INTO session_model_usage (session_id, model) VALUES ('gone', 'm')", ()),
        # Archived and rewound: its last activity is that of what is in force.
        ("UPDATE sessions SET archived = 1 WHERE id = ?", (release_driver.REWOUND,)),
        # Everything is compacted away.
        ("UPDATE messages SET active = 0, compacted = 1 WHERE session_id = ?", (compacted,)),
        ("UPDATE messages SET active = 1 WHERE session_id = ? AND compacted = 1", (compacted,)),
    )
    require_same(path, tmp_path, changed)


@pytest.mark.parametrize("name", LATER)
def test_every_table_is_accounted_for(name: str, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make(name, path)
    edit(path, "CREATE TABLE theirs (a)", "INSERT INTO theirs VALUES (1)", "CREATE TABLE topics(b)")
    with closing(sqlite3.connect(path)) as connection:
        listed = connection.execute("SELECT name FROM pragma_table_list WHERE type <> 'shadow'")
        before = {name for (name,) in listed} - {"sqlite_schema", "sqlite_temp_schema"}
    report = upgraded(path)
    done = {table.table: table for table in report.tables}
    assert done.keys() == before
    with closing(sqlite3.connect(path)) as connection:
        for table in report.tables:
            if table.outcome == "dropped":
                assert table.table in ("messages_fts", "messages_fts_trigram")
                assert table.note
            elif not table.note:
                (rows,) = connection.execute(f'SELECT COUNT(*) FROM "{table.table}"').fetchone()
                assert table.rows == table.rows_after == rows or table.table == "sqlite_sequence"
        assert connection.execute("SELECT a FROM theirs").fetchall() == [(1,)]
        assert connection.execute("SELECT b FROM topics_before_upgrade").fetchall() == []
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert (done["theirs"].outcome, done["topics"].outcome) == ("kept", "kept")
    assert "topics_before_upgrade" in done["topics"].note
    assert (report.sessions, report.messages) == (
        done["sessions"].rows_after,
        done["messages"].rows_after,
    )
    assert Path(report.backup).exists()


def test_tables_of_running_hermes_programs_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    before = make("v22", path)["other_tables"]
    hermes_state.SessionDB(path).close()
    after = reader.read_everything(path)["other_tables"]
    for table in ("async_delegations", "telegram_dm_topic_bindings", "compression_locks"):
        assert after[table] == before[table], table
        assert before[table], table


def test_a_view_on_the_archived_flag_does_not_stop_it(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make("v22", path)
    edit(path, "CREATE VIEW hidden AS SELECT id FROM sessions WHERE archived = 1")
    with hermes_state.SessionDB(path) as db:
        archived = [row["id"] for row in db.list_sessions_rich(archived_only=True)]
    with closing(sqlite3.connect(path)) as connection:
        assert {i for (i,) in connection.execute("SELECT id FROM hidden")} >= set(archived)


@pytest.mark.parametrize("name", LATER)
def test_it_continues_as_a_store(name: str, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make(name, path)
    with hermes_state.SessionDB(path) as db:
        session_id = db.list_sessions_rich(limit=1)[0]["id"]
        db.append_message(session_id, "user", "a word like zwieback")
        assert [hit["session_id"] for hit in db.search_messages("zwieback")] == [session_id]
    with SessionDB(path) as db:
        assert db.get_messages(session_id)[-1]["content"] == "a word like zwieback"
        assert db.provider.steps().upgraded is None


@pytest.mark.parametrize("name", NAMES[:2])
def test_older_files_are_accounted_for_as_well(name: str, tmp_path: Path) -> None:
    make(name, tmp_path / "state.db")
    report = upgraded(tmp_path / "state.db")
    assert {"sessions", "messages"} <= {t.table for t in report.tables if t.outcome == "taken"}


def test_a_program_that_does_not_ask_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make("v22", path)
    before = path.read_bytes()
    with pytest.raises(SchemaRefused) as refused:
        SessionDB(path)
    assert f"hermes sessiondb upgrade {path}" in str(refused.value)
    assert f"hermes sessions import {path}" in str(refused.value)
    assert path.read_bytes() == before


def test_a_version_after_those_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make(LATER[-1], path)
    edit(path, "UPDATE schema_version SET version = 23")
    before = path.read_bytes()
    with pytest.raises(SchemaRefused, match="schema version 23") as refused:
        hermes_state.SessionDB(path)
    assert "sessiondb upgrade" not in str(refused.value)
    assert path.read_bytes() == before


def test_usage_details_of_hermes_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make("v22", path)
    with hermes_state.SessionDB(path) as db, db.provider.read() as tx:
        kept = tx.all("SELECT row FROM foreign_rows WHERE table_name = 'session_model_usage'")
    assert {json.loads(row)["cost_source"] for (row,) in kept} == {"table"}

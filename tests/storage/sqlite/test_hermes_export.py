"""The way back to Hermes: complete, stable, from every database, and all or nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import hermes_state
from hermes_sessions import SessionDB
from hermes_sessions.errors import InvalidInput, StoreError
from hermes_sessions.storage.file_care import HermesExport, HermesSchema
from hermes_sessions.storage.provider_registry import file_care
from tests.fixtures.hermes import reader, release_driver
from tests.servers.stores import mysql_place, postgresql_place
from tests.storage.sqlite.disks import on_a_small_disk
from tests.storage.sqlite.hermes_files import LATER, contents, edit, make
from tests.storage.sqlite.opener import environment

#: Exports a store; ends itself after some sessions if told to.
PROGRAM = """
import os, signal, sys
from pathlib import Path
from hermes_sessions import SessionDB
from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.storage.provider_registry import file_care

def progress(sessions):
    if sessions == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

with SessionDB(sys.argv[1]) as db:
    try:
        file_care().export_database(db, Path(sys.argv[2]), 22, progress)
    except HermesSessionsError as error:
        print(error)
"""


def export(db: SessionDB, target: Path, schema: HermesSchema = 22) -> HermesExport:
    return file_care().export_database(db, target, schema)


def run_program(
    store: Path, target: Path, end_at: int = -1, prefix: list[str] | None = None
) -> str:
    command = [*(prefix or []), sys.executable, "-c", PROGRAM, store, target, str(end_at)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.stdout


def comparable(db: SessionDB) -> dict[str, Any]:
    """The contents of a store, but for the names of files."""
    found = contents(db)
    found["usage kept"] = [row[1:] for row in found["usage kept"]]
    return found


@pytest.mark.parametrize("name", LATER)
def test_there_and_back_and_there_again(name: str, tmp_path: Path) -> None:
    path, back, again = tmp_path / "state.db", tmp_path / "back.db", tmp_path / "again.db"
    before = make(name, path)
    edit(path, "UPDATE sessions SET model_config = NULL WHERE NOT json_valid(model_config)")
    with hermes_state.SessionDB(path) as db:
        first = comparable(db)
        assert export(db, back).left_out == {}
    with hermes_state.SessionDB(back) as db:
        assert comparable(db) == first
        export(db, again)
    everything = reader.read_everything(again)
    assert everything == reader.read_everything(next(tmp_path.glob("back.db.v22.bak")))
    for table, rows in before["other_tables"].items():
        if table not in ("compression_locks", "telegram_dm_topic_mode"):
            found = everything["other_tables"][table]
            assert sorted(map(str, found)) == sorted(map(str, rows)), table


def test_tables_of_other_programs_come_along(tmp_path: Path) -> None:
    path, back = tmp_path / "state.db", tmp_path / "back.db"
    before = make("built-v6-plugin", path)["other_tables"]
    edit(path, "CREATE VIRTUAL TABLE plugin_words USING fts5(word)")
    with SessionDB(path) as db:
        left_out = export(db, back).left_out
    assert left_out["virtual table plugin_words"] == 1
    after = reader.read_everything(back)["other_tables"]
    for table in ("plugin_notes", "plugin odd 'name"):
        assert after[table] == before[table]


def test_a_configuration_that_is_no_json_is_quoted(tmp_path: Path) -> None:
    """Hermes 0.19 cannot list any session once SQLite cannot read one configuration."""
    path, back = tmp_path / "state.db", tmp_path / "back.db"
    make("v22", path)
    edit(path, ("UPDATE sessions SET model_config = '{no' WHERE id = ?", (release_driver.RESET,)))
    with hermes_state.SessionDB(path) as db:
        assert export(db, back).left_out == {"model configurations that are no JSON, quoted": 1}
    with closing(sqlite3.connect(back)) as connection:
        query = (
            "SELECT COUNT(*) FROM sessions "
            "WHERE model_config IS NOT NULL AND NOT json_valid(model_config)"
        )
        assert connection.execute(query).fetchone() == (0,)


def test_texts_that_differ_by_a_lone_surrogate_stay_different(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "ours.db") as db:
        for sign in ("\ud800", "\ud801"):
            db.create_session(f"s{sign}", "cli")
            db.set_session_title(f"s{sign}", f"Title {sign}")
            db.append_message(f"s{sign}", "user", b"\x00\xff")
            db.set_meta(f"key {sign}", "value")
        written = export(db, tmp_path / "back.db")
    assert written.sessions == 2
    found = reader.read_everything(tmp_path / "back.db")
    assert sorted(row["id"] for row in found["sessions"]) == ["s\\ud800", "s\\ud801"]
    assert sorted(row["session_id"] for row in found["messages"]) == ["s\\ud800", "s\\ud801"]
    assert found["messages"][0]["content"] == b"\x00\xff"


@pytest.mark.parametrize("server", ["postgresql", "mariadb"])
def test_from_a_server_it_is_the_same(
    server: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place_of: Callable[..., Any] = postgresql_place if server == "postgresql" else mysql_place
    url = place_of(request.getfixturevalue(server), "export").new_url()
    source = tmp_path / "theirs.db"
    make("v22", source)
    with SessionDB(tmp_path / "ours.db") as db, SessionDB.from_url(url) as on_server:
        for store in (db, on_server):
            assert file_care().import_database(store, source)["ok"]
        assert export(db, tmp_path / "file.db") == export(on_server, tmp_path / "server.db")
        export(on_server, tmp_path / "old.db", 11)
    one, other = (reader.read_everything(tmp_path / f"{n}.db") for n in ("file", "server"))
    for tables in (one["other_tables"], other["other_tables"]):
        for rows in tables.values():
            rows.sort(key=str)
    assert one == other
    assert len(reader.read_everything(tmp_path / "old.db")["sessions"]) == 30


# ── all or nothing ────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    with SessionDB(folder / "ours.db") as db:
        for number in range(5):
            db.create_session(f"s{number}", "cli")
            db.append_message(f"s{number}", "user", "x" * 100_000)
    return folder / "ours.db"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target" / "state.db"


def test_a_full_disk(store: Path, target: Path, tmp_path: Path) -> None:
    disk = on_a_small_disk(target.parent, 200, tmp_path / "found")
    said = run_program(store, target, prefix=disk)
    assert said == (
        f"{target} was not written: the disk is full. Free some space, or choose another disk.\n"
    )
    assert list((tmp_path / "found" / "after").iterdir()) == []


def test_interrupted_by_the_user(store: Path, target: Path) -> None:
    def interrupt(_sessions: int) -> None:
        raise KeyboardInterrupt

    with SessionDB(store) as db:
        with pytest.raises(KeyboardInterrupt):
            file_care().export_database(db, target, 22, interrupt)
        assert list(target.parent.iterdir()) == []
        assert export(db, target).sessions == 5


def test_killed(store: Path, target: Path) -> None:
    run_program(store, target, end_at=3)
    assert not target.exists()
    assert run_program(store, target) == ""
    assert len(reader.read_everything(target)["sessions"]) == 5


def test_a_file_that_appears_meanwhile_stays(store: Path, target: Path) -> None:
    with SessionDB(store) as db, pytest.raises(InvalidInput, match="already exists"):
        file_care().export_database(
            db, target, 22, lambda _: target.write_text("precious") and None
        )
    assert target.read_text() == "precious"
    assert list(target.parent.iterdir()) == [target]


def test_a_file_system_without_hard_links(
    store: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_names: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with SessionDB(store) as db:
        assert export(db, target).sessions == 5
        assert list(target.parent.iterdir()) == [target]
        with pytest.raises(InvalidInput, match="already exists"):
            export(db, target)


def test_a_directory_that_cannot_be_written(store: Path) -> None:
    with SessionDB(store) as db, pytest.raises(StoreError, match="cannot be created"):
        export(db, Path("/proc/state.db"))

"""Another program changes the file while an open waits for its lock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.errors import SchemaRefused
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.sqlite import opener
from tests.fixtures.hermes import reader
from tests.storage.sqlite.hermes_files import make, require_everything
from tests.storage.sqlite.other_process import start

#: What every version of Hermes has, of a version to be filled in.
HERMES = """
    CREATE TABLE schema_version (version INTEGER NOT NULL);
    INSERT INTO schema_version VALUES ({version});
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, source TEXT NOT NULL, parent_session_id TEXT, started_at REAL NOT NULL,
        ended_at REAL, end_reason TEXT, model_config TEXT, message_count INTEGER DEFAULT 0);
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,
        content TEXT, tool_calls TEXT, timestamp REAL NOT NULL);
    INSERT INTO sessions (id, source, started_at) VALUES ('theirs', 'cli', 1.0);
    INSERT INTO messages (session_id, role, content, timestamp)
        VALUES ('theirs', 'user', 'I was faster', 2.0);
"""
LATER = "UPDATE schema_version SET version = 22;"

#: Runs SQL in another program right before the open gets to a step, that is, while it waits.
Meanwhile = Callable[[str, str], None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def elsewhere(path: Path, script: str) -> None:
    program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])"
    subprocess.run([sys.executable, "-c", program, str(path), script], check=True)


@pytest.fixture
def meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    def arrange(step: str, script: str) -> None:
        take_the_step = getattr(opener, step)

        def after_another_process(*args: Any, **options: Any) -> Any:
            monkeypatch.setattr(opener, step, take_the_step)
            elsewhere(path, script)
            return take_the_step(*args, **options)

        monkeypatch.setattr(opener, step, after_another_process)

    return arrange


@pytest.mark.parametrize("name", ["v11", "built-v8-rollback-journal"])
def test_a_later_hermes_upgrades_it_first(name: str, path: Path, meanwhile: Meanwhile) -> None:
    before = make(name, path)
    meanwhile("_upgrade", LATER)
    with pytest.raises(SchemaRefused, match=r"later Hermes \(schema version 22"):
        SessionDB(path)
    after = reader.read_everything(path)
    assert (after["schema_version"], after["messages"]) == (22, before["messages"])


def test_another_of_us_upgrades_it_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = make("v11", path)
    upgrade = opener._upgrade

    def twice(*args: Any, **options: Any) -> None:
        upgrade(*args, **options)
        upgrade(*args, **options)

    monkeypatch.setattr(opener, "_upgrade", twice)
    with SessionDB(path) as db:
        require_everything(db, before)


@pytest.mark.parametrize("step", ["_set_journal", "_create"])
@pytest.mark.parametrize(
    ("script", "refusal"),
    [
        (HERMES.format(version=22), r"later Hermes \(schema version 22"),
        ("CREATE TABLE bookmarks (url TEXT)", "another program"),
    ],
)
def test_another_process_creates_it_first(
    step: str, script: str, refusal: str, path: Path, meanwhile: Meanwhile
) -> None:
    meanwhile(step, script)
    with pytest.raises(SchemaRefused, match=refusal):
        SessionDB(path)


def test_an_old_hermes_creates_it_first(path: Path, meanwhile: Meanwhile) -> None:
    meanwhile("_create", HERMES.format(version=1))
    with SessionDB(path) as db:
        assert [message["content"] for message in db.get_messages("theirs")] == ["I was faster"]
        db.append_message("theirs", "user", "no matter")


@pytest.mark.parametrize("step", ["_first_connection", "require_not_emptied"])
def test_two_of_us_make_a_store_where_one_was_removed(
    step: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one is making is not taken by the other for a store that was emptied."""
    with SessionDB(path) as db:
        db.create_session("removed", "cli")
    path.unlink()
    take_the_step = getattr(opener, step)

    def after_the_other(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(opener, step, take_the_step)
        assert path.stat().st_size == 0
        program = (
            "import sys\n"
            "from hermes_sessions import SessionDB\n"
            "with SessionDB(sys.argv[1]) as db: db.create_session('theirs', 'cli')\n"
        )
        subprocess.run([sys.executable, "-c", program, str(path)], check=True)
        return take_the_step(*args, **options)

    monkeypatch.setattr(opener, step, after_the_other)
    with SessionDB(path) as db:
        db.create_session("ours", "cli")
        assert db.get_session("removed") is None
        assert db.get_session("theirs") is not None


def test_a_newer_program_of_ours_migrates_it_first(path: Path, meanwhile: Meanwhile) -> None:
    SessionDB(path).close()
    elsewhere(path, "DELETE FROM store_migrations WHERE name = '0002_search'")
    meanwhile("_migrate", "PRAGMA user_version = 99")
    with pytest.raises(SchemaRefused, match=r"newer Hermes Sessions \(level 99"):
        SessionDB(path)


def test_two_of_us_find_a_damaged_log(tmp_path: Path) -> None:
    """Neither mistakes the other, which only inspects the log, for a reader that accepted it."""
    places = [tmp_path / "stores" / f"{number:02}" for number in range(20)]
    store, log = left_behind(tmp_path / "one" / "state.db")
    for place in places:
        place.mkdir(parents=True)
        (place / "state.db").write_bytes(store)
        (place / "state.db-wal").write_bytes(log)
    said = start("crowd", 2, "open_each", tmp_path / "stores").succeeded()
    assert sorted(said) == sorted(f"{place.name} StoreCorrupt" for place in places * 2)
    for place in places:
        assert (place / "state.db-wal").read_bytes() == log


def left_behind(path: Path) -> tuple[bytes, bytes]:
    """Return a store whose program died, and its log with a damaged early page."""
    path.parent.mkdir()
    SessionDB(path).close()
    with start("append_for_ever", path, "wal", "full") as writer:
        writer.tell("0")
        while writer.said() != "2":
            pass
        writer.kill()
    log = bytearray(Path(f"{path}-wal").read_bytes())
    log[2000] ^= 0xFF
    return path.read_bytes(), bytes(log)

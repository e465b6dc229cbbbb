"""A store in the installed ``sqlite3`` shell, which may be older than our SQLite."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import SchemaRefused, StoreReadOnly
from hermes_sessions.storage.sqlite.hermes_database import import_database

#: The first version that knows how our search index is declared.
KNOWS_INDEX = (3, 43)
#: What docs/durability.md says, to make a copy that every SQLite opens.
PLAIN_COPY = """
PRAGMA writable_schema = ON;
DELETE FROM sqlite_master WHERE name = 'search_index';
PRAGMA writable_schema = RESET;
"""


def shell(path: Path, *commands: str) -> str:
    """Run commands in the shell, which must not fail."""
    program = shutil.which("sqlite3")
    assert program, "install sqlite3"
    done = subprocess.run(
        [program, "-bail", str(path), *commands], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), commands
    return done.stdout


def version(path: Path) -> tuple[int, ...]:
    return tuple(map(int, shell(path, "SELECT sqlite_version()").split(".")))


def found(db: SessionDB, word: str) -> list[str]:
    return [match["session_id"] for match in db.search_messages(word)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        db.create_session("s", "cli")
        db.set_session_title("s", "Größe")
        db.append_message("s", "user", "pineapple one")
        db.append_message("s", "assistant", [{"type": "text", "text": "structured"}])
        db.optimize_search()
    return path


def test_every_table_is_read_but_the_index_by_an_older_shell(store: Path) -> None:
    names = shell(store, "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").split()
    assert {"sessions", "messages", "search_index"} <= set(names)
    if version(store) < KNOWS_INDEX:
        names.remove("search_index")
    for name in names:
        assert shell(store, f'SELECT COUNT(*) FROM "{name}"; SELECT * FROM "{name}";')
    assert "CREATE VIRTUAL TABLE search_index" in shell(store, ".schema")


def test_the_shell_keeps_house(store: Path) -> None:
    assert shell(store, "PRAGMA integrity_check", "PRAGMA foreign_key_check") == "ok\n"
    shell(store, "VACUUM", "REINDEX", "ANALYZE", "PRAGMA optimize")
    shell(store, "ALTER TABLE sessions ADD COLUMN plugin_colour TEXT")
    shell(store, "CREATE TABLE notes (n TEXT)", "ALTER TABLE notes RENAME TO plugin_notes")
    with SessionDB(store) as db:
        assert found(db, "pineapple") == ["s"]
        db.append_message("s", "user", "afterwards")
        assert found(db, "afterwards") == ["s"]


def test_the_shell_writes_the_documented_columns(store: Path) -> None:
    shell(
        store,
        "INSERT INTO sessions (id, source, started_at, title) VALUES ('x', 'cli', 1.5, 'Shell')",
        "INSERT INTO messages (session_id, role, content, timestamp) "
        "VALUES ('x', 'user', 'from the shell', 2.5), ('x', 'user', 'deleted again', 3.5)",
        "UPDATE messages SET content = 'changed there' WHERE id = 1",
        "UPDATE sessions SET title = 'Renamed' WHERE id = 'x'",
        "DELETE FROM messages WHERE content = 'deleted again'",
    )
    with SessionDB(store) as db:
        assert [m["content"] for m in db.get_messages("x")] == ["from the shell"]
        assert (found(db, "shell"), found(db, "pineapple")) == (["x"], [])
        assert db.resolve_session_by_title("Renamed") == "x"


@pytest.mark.parametrize("command", [".backup {}", "VACUUM INTO '{}'"])
def test_a_copy_of_the_shell_is_a_store(store: Path, tmp_path: Path, command: str) -> None:
    copy = tmp_path / "copy.db"
    shell(store, command.format(copy))
    with SessionDB(copy) as db:
        assert found(db, "pineapple") == ["s"]


@pytest.fixture
def restored(store: Path, tmp_path: Path) -> Path:
    """A file made of a dump, which has everything but the marks in the file's header."""
    path, dump = tmp_path / "restored.db", tmp_path / "dump.sql"
    dump.write_text(shell(store, ".dump"), encoding="utf-8")
    shell(path, f".read {dump}")
    return path


def test_a_restored_dump_is_a_store(restored: Path) -> None:
    with pytest.raises(StoreReadOnly, match="Open it once for writing"):
        SessionDB(restored, read_only=True)
    with SessionDB(":memory:") as db:
        assert import_database(db, restored)["imported"] == 1
    for _ in range(2):
        with SessionDB(restored) as db:
            assert db.get_messages("s")[0]["content"] == "pineapple one"
            assert (found(db, "pineapple"), db.resolve_session_by_title("Größe")) == (["s"], "s")
    assert not list(restored.parent.glob("*.bak"))
    assert shell(restored, "PRAGMA application_id") == f"{0x48535342}\n"
    with SessionDB(restored, read_only=True) as db:
        assert found(db, "pineapple") == ["s"]


def test_a_restored_dump_of_a_newer_program_is_refused(restored: Path) -> None:
    shell(restored, "INSERT INTO store_migrations VALUES ('9999_later', 1.5)")
    before = restored.read_bytes()
    with pytest.raises(SchemaRefused, match="newer Hermes Sessions"):
        SessionDB(restored)
    assert restored.read_bytes() == before


def test_a_copy_without_the_index_opens_everywhere(store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    shell(store, f"VACUUM INTO '{copy}'")
    shell(copy, PLAIN_COPY)
    assert shell(copy, "PRAGMA integrity_check") == "ok\n"
    # As datasette and other programs look at every table of a file.
    with closing(sqlite3.connect(copy)) as connection:
        assert "pineapple one" in "\n".join(connection.iterdump())
    with SessionDB(copy) as db:
        assert found(db, "pineapple") == ["s"]

"""An import copies every table and column of the source, or reports what it omits."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.sqlite.hermes_database import import_database
from hermes_sessions.storage.tables import ALL_TABLES
from tests.fixtures.hermes import layouts, stored
from tests.storage.sqlite.hermes_files import make

Record = dict[str, Any]

TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
PARENT, SESSION = "mark-parent", "mark-session"
NAMES = (*stored.names(), *(f"built-{name}" for name in layouts.LAYOUTS))
#: Yes or no: no value that could be found again.
FLAGS = frozenset("active compacted archived observed expiry_finalized enabled".split()) | {
    "has_topics_enabled",
    "allows_users_to_create_topics",
}
#: Columns with a meaning that any other value would break.
FIXED = {
    "parent_session_id": PARENT,
    "session_id": SESSION,
    "chat_id": "7100001",
    "user_id": "7100002",
    "thread_id": "7100003",
    "ended_at": 7_100_004.5,
    "end_reason": "mark-end_reason",
}


class Marked(NamedTuple):
    """A value that occurs in one column of one table only."""

    table: str
    column: str
    value: Any


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def tables_of(connection: sqlite3.Connection) -> dict[str, list[tuple[str, str]]]:
    """The tables of a file as SQLite lists them, those of search indexes included."""
    names = connection.execute(TABLES).fetchall()
    return {
        name: [
            (column, kind.upper())
            for _, column, kind, *_ in connection.execute(
                "SELECT * FROM pragma_table_xinfo(?) WHERE hidden <> 1", (name,)
            )
        ]
        for (name,) in names
    }


def mark(path: Path, left_out: set[str]) -> list[Marked]:
    """Add a row to every table that is not left out as a whole, with a value of its own in every
    column.
    """
    marked: list[Marked] = []
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        found = tables_of(connection)
        connection.execute(
            "INSERT INTO sessions (id, source, started_at) VALUES (?, 'cli', 5.5)", (PARENT,)
        )
        for number, table in enumerate(sorted(found.keys() - left_out - {"schema_version"}), 1):
            row: Record = {}
            for position, (column, kind) in enumerate(found[table]):
                value: Any = re.sub(r"\W", "_", f"mark_{table}_{column}")
                if "INT" in kind or kind == "REAL":
                    value = 8_000_000 + number * 1000 + position + (0.5 if kind == "REAL" else 0)
                if (table, column) == ("sessions", "id"):
                    value = SESSION
                elif column in FIXED:
                    value = FIXED[column]
                elif column in FLAGS:
                    value = 1 if column == "active" else 0
                else:
                    marked.append(Marked(table, column, value))
                row[column] = value
            names = ", ".join(f'"{name}"' for name in row)
            marks = ", ".join("?" * len(row))
            connection.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', [*row.values()])
    return marked


def stored_values(db: SessionDB) -> Iterator[str]:
    """Every value of the store as text, but those of the search index."""
    with db.provider.read() as tx:
        listed = tx.all(TABLES)
        for (name,) in listed:
            if not name.startswith("search_"):
                for row in tx.all(f'SELECT * FROM "{name}"'):
                    yield from map(str, row)


@pytest.mark.parametrize("name", NAMES)
def test_every_column_is_copied_or_named(name: str, source: Path) -> None:
    make(name, source)
    with SessionDB(":memory:") as db:
        left_out = {entry["table"] for entry in import_database(db, source)["left_out"]}
    left_out -= {"sessions", "messages"}
    marked = mark(source, left_out)
    with SessionDB(":memory:") as db:
        report = import_database(db, source)
        assert (report["errors"], report["damage"]) == ([], [])
        found = set(re.findall(r"[\w.-]+", "\n".join(stored_values(db))))
    named = {(entry["table"], entry.get("column")) for entry in report["left_out"]}
    lost = [
        (table, column)
        for table, column, value in marked
        if str(value) not in found and (table, column) not in named
    ]
    assert lost == []
    assert {table for table, _, _ in marked} >= {"sessions", "messages"}


@pytest.mark.parametrize("table", ["sessions", "messages"])
def test_every_flag_of_the_newest_version_is_copied(table: str, source: Path) -> None:
    make("v22", source)
    mark(source, {t for t in stored_tables(source) if t not in ("sessions", "messages")})

    def copied() -> str:
        with SessionDB(":memory:", clock=lambda: 9.5) as db:
            import_database(db, source)
            return "\n".join(stored_values(db))

    with closing(sqlite3.connect(source)) as connection:
        columns = [c for c, _ in tables_of(connection)[table] if c in FLAGS]
    assert columns
    before = copied()
    for column in columns:
        turn = f"UPDATE {table} SET {column} = 1 - {column} WHERE " + (
            "id = ?" if table == "sessions" else "session_id = ?"
        )
        with closing(sqlite3.connect(source)) as connection, connection:
            connection.execute(turn, (SESSION,))
        assert copied() != before, column
        with closing(sqlite3.connect(source)) as connection, connection:
            connection.execute(turn, (SESSION,))


def stored_tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute(TABLES)}


def test_tables_of_the_newest_release_are_all_accounted_for(source: Path) -> None:
    """Its real list of tables: a table that is neither copied nor named fails this."""
    make("v22", source)
    with SessionDB(":memory:") as db:
        report = import_database(db, source)
    copied = {"sessions", "messages", "state_meta", "session_model_usage", "schema_version"}
    copied.add("gateway_routing")
    accounted = copied | set(report["kept"]) | {entry["table"] for entry in report["left_out"]}
    assert stored_tables(source) - accounted == set()
    assert report["routing"] == 2
    assert report["topics"] == 2


def test_tables_named_like_parts_of_an_index_are_kept(source: Path) -> None:
    make("v22", source)
    with closing(sqlite3.connect(source)) as connection, connection:
        connection.execute("CREATE TABLE messages_fts_notes (note TEXT)")
        connection.execute("INSERT INTO messages_fts_notes VALUES ('mine')")
        connection.execute("CREATE VIRTUAL TABLE plugin_words USING fts5(word)")
        connection.execute("INSERT INTO plugin_words VALUES ('only here')")
        connection.execute("CREATE VIEW plugin_view AS SELECT 1 AS one")
    with SessionDB(":memory:") as db:
        report = import_database(db, source)
        text = "\n".join(stored_values(db))
    assert report["kept"]["messages_fts_notes"] == 1
    assert '"note": "mine"' in text or '"note":"mine"' in text
    assert report["kept"]["plugin_words"] == 1
    assert "only here" in text
    assert {"plugin_view", "messages_fts"} <= {entry["table"] for entry in report["left_out"]}


def test_of_a_store_of_ours_everything_about_sessions_is_copied(tmp_path: Path) -> None:
    path = tmp_path / "ours.db"
    with SessionDB(path) as ours:
        ours.create_session("s", "telegram", user_id="7")
        ours.enable_telegram_topic_mode(chat_id="7", user_id="7")
        ours.bind_telegram_topic(
            chat_id="7", thread_id="5", user_id="7", session_key="key", session_id="s"
        )
        ours.hold_session("s", "größe")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE plugin_notes (note TEXT)")
        connection.execute("INSERT INTO plugin_notes VALUES ('mine')")
    with SessionDB(":memory:") as db:
        report = import_database(db, path)
        text = "\n".join(stored_values(db))
        binding = db.get_telegram_topic_binding(chat_id="7", thread_id="5")
    assert binding is not None
    assert binding["session_id"] == "s"
    assert "größe" in text
    assert (report["topics"], report["kept"]) == (1, {"plugin_notes": 1})
    accounted = {entry["table"] for entry in report["left_out"]} | {"plugin_notes"}
    accounted |= set("sessions messages rewinds state_meta schema_version foreign_rows".split())
    accounted |= {table.name for table in ALL_TABLES if table.imported} | {"session_model_usage"}
    assert stored_tables(path) - accounted == {"store_migrations"}

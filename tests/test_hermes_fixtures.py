"""The fixture files match the documents and releases they come from."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.hermes import content, layouts, produce, reader, schema, stored, variants
from tests.fixtures.hermes.old_process import OldProcess, OldProcessError

INDEXES = {
    "idx_sessions_source",
    "idx_sessions_parent",
    "idx_sessions_started",
    "idx_messages_session",
}
PACKED_BYTES_AT_MOST = 150_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def query(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(reader.read_only_uri(path), uri=True)) as connection:
        return connection.execute(sql).fetchall()


def column_names(path: Path, table: str) -> list[str]:
    return [row[1] for row in query(path, f"PRAGMA table_info({table})")]


def object_names(path: Path, kind: str) -> set[str]:
    found = query(path, f"SELECT name FROM sqlite_master WHERE type = '{kind}'")
    return {name for (name,) in found if not name.startswith("sqlite_")}


def in_wal_mode(path: Path) -> bool:
    # Two bytes of the header; the pragma does not show it to a reader that has the file to itself.
    return path.read_bytes()[18:20] == b"\x02\x02"


def documented_columns(columns: tuple[tuple[int, str], ...], version: int) -> list[str]:
    return [declaration.split()[0] for since, declaration in columns if since <= version]


def assert_sound(path: Path) -> None:
    # Table by table: newer SQLite also checks full-text indexes, and does not accept what older
    # SQLite put into a trigram index for a text with a NUL character.
    for table in ("schema_version", "sessions", "messages"):
        assert query(path, f"PRAGMA integrity_check({table})") == [("ok",)]


@pytest.mark.parametrize("version", layouts.DOCUMENTED_VERSIONS)
def test_a_documented_version_has_the_objects_of_its_time(version: int, path: Path) -> None:
    layouts.build(version, path)

    assert query(path, "SELECT version FROM schema_version") == [(version,)]
    assert column_names(path, "sessions") == documented_columns(schema.SESSION_COLUMNS, version)
    assert column_names(path, "messages") == documented_columns(schema.MESSAGE_COLUMNS, version)
    unique_title = {"idx_sessions_title_unique"} if version >= 4 else set()
    assert object_names(path, "index") == INDEXES | unique_title
    full_text = ["messages_fts", *(["messages_fts_trigram"] if version >= 10 else [])]
    events = ("insert", "delete", "update")
    assert object_names(path, "trigger") == {f"{t}_{e}" for t in full_text for e in events}
    for table in full_text:
        (definition,) = query(path, f"SELECT sql FROM sqlite_master WHERE name = '{table}'")
        assert "content=messages" in definition[0]
        match = f"SELECT count(*) FROM {table} WHERE {table} MATCH 'Docker'"
        assert query(path, match)[0][0] > 0


@pytest.mark.parametrize("name", layouts.LAYOUTS)
def test_every_layout_is_sound_and_holds_the_same_conversations(name: str, path: Path) -> None:
    layouts.build_named(name, path)

    assert_sound(path)
    assert in_wal_mode(path) == (name != "v8-rollback-journal")
    everything = reader.read_everything(path)
    assert everything["schema_version"] == layouts.LAYOUTS[name].version
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    ids = {row["id"] for row in everything["sessions"]}
    assert ids >= {row["id"] for row in content.SESSIONS if row["id"] != content.DELETED_SESSION}
    transcripts = reader.transcripts(everything)
    assert len(transcripts[content.LONG]) == content.LONG_MESSAGE_COUNT
    assert transcripts[content.EMPTY_HEAD] == []
    assert [m["decoded"]["content"] for m in transcripts[content.ODD_TEXT]][2] == content.PICTURE
    used_up = sum(row["session_id"] == content.DELETED_SESSION for row in content.MESSAGES)
    if name != "v5-hand-edited":
        assert everything["last_message_id"] == everything["messages"][-1]["id"] + used_up


def test_the_same_layout_is_built_the_same_every_time(tmp_path: Path) -> None:
    for name in ("one.db", "two.db"):
        layouts.build(10, tmp_path / name)
    one, two = (reader.read_everything(tmp_path / name) for name in ("one.db", "two.db"))
    assert one == two


def test_a_grown_file_has_the_columns_in_the_order_of_their_arrival(path: Path) -> None:
    layouts.build_named("v10-grown", path)

    columns = column_names(path, "sessions")
    assert sorted(columns) == sorted(documented_columns(schema.SESSION_COLUMNS, 10))
    assert columns.index("title") < columns.index("cache_read_tokens")


def test_titles_are_duplicate_only_where_no_index_forbids_it(path: Path) -> None:
    layouts.build_named("v3-duplicate-titles", path)

    held = "SELECT title, count(*) FROM sessions WHERE title IN ('p', 'Twice') GROUP BY title"
    assert query(path, held) == [("Twice", 2), ("p", 3)]


def test_foreign_objects_and_dangling_rows_are_there(tmp_path: Path) -> None:
    layouts.build_named("v6-plugin", tmp_path / "plugin.db")
    plugin = reader.read_everything(tmp_path / "plugin.db")
    assert set(plugin["other_tables"]) == {"plugin_notes", "plugin odd 'name"}
    assert "plugin_colour" in plugin["sessions"][0]
    layouts.build_named("v5-hand-edited", tmp_path / "edited.db")
    edited = reader.read_everything(tmp_path / "edited.db")
    assert variants.MISSING_SESSION in {m["session_id"] for m in edited["messages"]}
    assert query(tmp_path / "edited.db", "PRAGMA foreign_key_check") != []


def test_a_file_is_never_built_over_another(path: Path) -> None:
    path.touch()
    with pytest.raises(FileExistsError):
        layouts.build(1, path)
    with pytest.raises(ValueError, match="version 11"):
        layouts.build(11, path)


def test_every_recipe_has_its_stored_file() -> None:
    assert sorted(stored.names()) == sorted(produce.RECIPES)


@pytest.mark.parametrize("name", stored.names())
def test_a_stored_file_matches_its_expectations(name: str, path: Path) -> None:
    stored.unpack(name, path)

    assert_sound(path)
    assert in_wal_mode(path)
    expected = stored.expected(name)
    everything = reader.read_everything(path)
    assert everything == expected["file"]
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert (stored.FOLDER / f"{name}.db.xz").stat().st_size < PACKED_BYTES_AT_MOST
    assert f"v{everything['schema_version']}" == name.split("-", maxsplit=1)[0]


@pytest.mark.parametrize("name", stored.names())
def test_the_release_and_the_reader_understand_the_file_alike(name: str) -> None:
    expected = stored.expected(name)
    everything, release = expected["file"], expected["release"]

    assert {row["id"]: row for row in everything["sessions"]} == release["sessions"]
    decoded = {
        session_id: [{**row, **row["decoded"]} for row in rows]
        for session_id, rows in reader.transcripts(everything).items()
    }
    assert decoded.keys() == release["messages"].keys()
    for session_id, rows in decoded.items():
        returned = release["messages"][session_id]
        assert [
            {k: row[k] for k in got} for row, got in zip(rows, returned, strict=True)
        ] == returned


def test_bytes_survive_the_way_through_json(path: Path) -> None:
    layouts.build(4, path)

    everything = reader.read_in_another_process(path)
    assert everything == reader.read_everything(path)
    contents = [m["content"] for m in reader.transcripts(everything)[content.ODD_TEXT]]
    assert b"\x00\x01\xfe\xff raw bytes" in contents


def test_an_old_process_holds_the_write_lock_until_it_commits(path: Path) -> None:
    layouts.build(9, path)

    with OldProcess(path, transaction="write") as holder, OldProcess(path, patience=0.0) as other:
        with pytest.raises(OldProcessError, match="locked"):
            other.append(content.GHOST, "too early")
        holder.append(content.GHOST, "größe")
        assert other.texts(content.GHOST) == []
        holder.commit()
        other.append(content.GHOST, "now")
        assert holder.texts(content.GHOST) == ["größe", "now"]
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_killed_old_process_leaves_its_last_messages_in_the_wal(path: Path) -> None:
    layouts.build(9, path)

    with OldProcess(path) as old:
        old.append(content.GHOST, "only in the WAL")
        old.kill()

    assert path.with_name("state.db-wal").stat().st_size > 0
    everything = reader.read_everything(path)
    assert reader.transcripts(everything)[content.GHOST][-1]["content"] == "only in the WAL"


def test_an_old_process_reports_that_it_cannot_open_the_file(path: Path) -> None:
    path.write_bytes(b"this is not a database" * 100)

    with pytest.raises(OldProcessError, match="not a database"):
        OldProcess(path).__enter__()

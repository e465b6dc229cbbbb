"""Upgrading files that no release wrote: from other tools, plug-ins and accidents."""

from __future__ import annotations

import json
import logging
import math
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_sessions.storage.sessiondb import SessionDB
from tests.fixtures.hermes import schema as documented
from tests.fixtures.hermes.reader import decode_content, decode_tool_calls, read_everything
from tests.storage.sqlite.hermes_files import require_everything

NOT_UTF8 = b"caf\xe9 \xff\xfe \xed\xa0\x80 end"
Open = Callable[[], SessionDB]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def old(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of the old program to an empty file of version 11, closed by `open_store`."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        documented.create_schema(connection, 11)
        yield connection


@pytest.fixture
def open_store(path: Path, old: sqlite3.Connection) -> Iterator[Open]:
    opened: list[SessionDB] = []

    def close_and_open() -> SessionDB:
        old.close()
        opened.append(SessionDB(path))
        return opened[-1]

    yield close_and_open
    for db in opened:
        db.close()


def add_session(old: sqlite3.Connection, session_id: object, **columns: object) -> None:
    columns = {"id": session_id, "source": "cli", "started_at": 1.0, **columns}
    marks = ", ".join("?" * len(columns))
    old.execute(
        f"INSERT INTO sessions ({', '.join(columns)}) VALUES ({marks})", tuple(columns.values())
    )


def add_message(old: sqlite3.Connection, session_id: object, **columns: object) -> None:
    columns = {"session_id": session_id, "role": "user", "timestamp": 1.0, **columns}
    marks = ", ".join("?" * len(columns))
    old.execute(
        f"INSERT INTO messages ({', '.join(columns)}) VALUES ({marks})", tuple(columns.values())
    )


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


# ── text ──────────────────────────────────────────────────────────────────────────────────────


def test_invalid_utf8_can_be_decoded_back(old: sqlite3.Connection, open_store: Open) -> None:
    add_session(old, "s")
    for number in range(6):
        add_message(old, "s", content=f"message {number}")
    cast = "CAST(? AS TEXT)"
    # The first, two neighbours, and the last one of a scan.
    old.execute(f"UPDATE messages SET content = {cast} WHERE id IN (1, 3, 4, 6)", (NOT_UTF8,))
    old.execute(f"UPDATE messages SET tool_name = {cast} WHERE id = 2", (NOT_UTF8,))
    old.execute(f"UPDATE sessions SET system_prompt = {cast}, title = {cast}", (NOT_UTF8, NOT_UTF8))
    old.execute(f"INSERT INTO state_meta VALUES ('k', {cast})", (NOT_UTF8,))
    db = open_store()
    messages = db.get_messages("s")
    assert [as_bytes(messages[n]["content"]) for n in (0, 2, 3, 5)] == [NOT_UTF8] * 4
    assert [messages[n]["content"] for n in (1, 4)] == ["message 1", "message 4"]
    assert as_bytes(messages[1]["tool_name"]) == NOT_UTF8
    session = db.get_session("s") or {}
    assert as_bytes(session["system_prompt"]) == NOT_UTF8
    assert as_bytes(session["title"]) == NOT_UTF8
    assert as_bytes(db.get_meta("k") or "") == NOT_UTF8


def test_odd_session_ids_are_found_in_every_column(
    old: sqlite3.Connection, open_store: Open
) -> None:
    old.execute("PRAGMA foreign_keys=OFF")
    old.execute("CREATE TABLE notes (session_id TEXT REFERENCES sessions(id), note TEXT)")
    odd: dict[str, Any] = {
        "nul \x00 id": "nul \x00 id",
        "\ufdd0": "\ufdd0",
        "bytes": b"bytes",
        "twice~2": b"twice",
        "twice": "twice",
    }
    for stored in odd.values():
        add_session(old, stored)
        add_message(old, stored, content=repr(stored))
        old.execute("INSERT INTO notes VALUES (?, ?)", (stored, repr(stored)))
    add_session(old, "child", parent_session_id=b"bytes")
    add_session(old, None)
    db = open_store()
    for session_id, stored in odd.items():
        assert [m["content"] for m in db.get_messages(session_id)] == [repr(stored)]
    assert (db.get_session("child") or {})["parent_session_id"] == "bytes"
    assert db.session_count() == len(odd) + 2
    assert [row["id"] for row in db.search_sessions(limit=-1) if "unknown" in row["id"]] == [
        "unknown-7"
    ]
    with db.provider.read() as tx:
        notes = dict(tx.all("SELECT note, session_id FROM notes"))
        assert tx.all("SELECT * FROM pragma_foreign_key_check") == []
    assert notes == {repr(stored): session_id for session_id, stored in odd.items()}


def test_meta_keys_that_become_equal_stay_two(old: sqlite3.Connection, open_store: Open) -> None:
    old.executemany("INSERT INTO state_meta VALUES (?, ?)", [("k", "text"), (b"k", "bytes")])
    db = open_store()
    assert db.get_meta("k") == "text"
    assert db.get_meta("k~2") == "bytes"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('["gr\\u00f6\\u00dfe \\u6f13 \\ud83d\\ude42"]', '["größe 漓 🙂"]'),
        ('["\\ud83d alone"]', '["\ufdd0d83d alone"]'),
        ('["\\u0000 \\u001f \\u00e4"]', '["\\u0000 \\u001f ä"]'),
        # Not as a program writes it: it stays letter by letter.
        ('["gr\\u00F6\\u00DFe"]', '["gr\\u00F6\\u00DFe"]'),
        ('{"a":"\\u00e4"}', '{"a":"\\u00e4"}'),
        ('{"a": "\\u00e4", "a": 1}', '{"a": "\\u00e4", "a": 1}'),
        ('["\\u00e4"', '["\\u00e4"'),
    ],
)
def test_escaped_characters_become_readable(
    old: sqlite3.Connection, open_store: Open, before: str, after: str
) -> None:
    add_session(old, "s")
    add_message(old, "s", content="\x00json:" + before, tool_calls=before)
    expected = decode_content("\x00json:" + before)
    db = open_store()
    (message,) = db.get_messages("s")
    assert message["content"] == expected
    assert message["tool_calls"] == decode_tool_calls(before)
    with db.provider.read() as tx:
        ((tool_calls, content),) = tx.all("SELECT hex(tool_calls), hex(content) FROM messages")
    assert bytes.fromhex(tool_calls).decode() == after
    assert bytes.fromhex(content).decode().endswith(after)


VALUES = st.one_of(
    st.none(),
    st.text(st.characters(codec="utf-8")),
    st.text("a\x00\ufdd0é0123456789abcdef"),
    st.binary(max_size=20),
    st.lists(st.text("ab\ufdd0é\x00")).map(lambda value: "\x00json:" + json.dumps(value)),
    st.text('[]{}"a\x00').map(lambda text: "\x00json:" + text),
)
TEXTS = st.one_of(st.none(), st.text(st.characters(codec="utf-8")), st.text("a\x00\ufdd0"))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    version=st.integers(1, 11),
    messages=st.lists(st.tuples(st.sampled_from("ab"), VALUES, TEXTS), max_size=12),
    prompt=TEXTS,
)
def test_any_value_survives(
    tmp_path: Path,
    version: int,
    messages: list[tuple[str, str | bytes | None, str | None]],
    prompt: str | None,
) -> None:
    number = len(list(tmp_path.iterdir()))
    path = tmp_path / f"{number}.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        documented.create_schema(connection, version)
        for session_id in "ab":
            add_session(connection, session_id, system_prompt=prompt)
        for session_id, value, text in messages:
            add_message(connection, session_id, content=value, tool_name=text)
    before = read_everything(path)
    with SessionDB(path) as db:
        require_everything(db, before)
        first = next((value for one, value, _ in messages if one == "a" and value is not None), "")
        if isinstance(decode_content(first), str):
            rows = {row["id"]: row for row in db.list_sessions_rich()}
            assert rows["a"]["preview"] == " ".join(str(decode_content(first)).split())


# ── size ──────────────────────────────────────────────────────────────────────────────────────


def test_order_holds_over_many_batches_and_extreme_ids(
    old: sqlite3.Connection, open_store: Open
) -> None:
    add_session(old, "a")
    add_session(old, "b")
    old.execute("BEGIN")
    ids = [-(2**63), -5, 0, *range(1, 11_000), 2**63 - 1]
    for message_id in ids:
        session_id = "ab"[message_id % 3 == 0]
        add_message(old, session_id, id=message_id, content=str(message_id))
    old.execute("COMMIT")
    db = open_store()
    for session_id, expected in (
        ("a", [one for one in ids if one % 3]),
        ("b", [one for one in ids if not one % 3]),
    ):
        messages = db.get_messages(session_id)
        assert [m["id"] for m in messages] == expected
        assert [m["content"] for m in messages] == list(map(str, expected))
        assert [m["ordinal"] for m in messages] == list(range(1, len(expected) + 1))


def test_large_contents_that_change_are_converted_in_small_batches(
    old: sqlite3.Connection, open_store: Open
) -> None:
    add_session(old, "s")
    picture = ["x" * 3_000_000]
    for _ in range(4):
        add_message(old, "s", content="\x00json:" + json.dumps(picture))
    db = open_store()
    assert [m["content"] for m in db.get_messages("s")] == [picture] * 4


# ── lineage ───────────────────────────────────────────────────────────────────────────────────


def test_circles_are_cut_at_their_oldest_session(old: sqlite3.Connection, open_store: Open) -> None:
    parents = {"a": "c", "b": "a", "c": "b", "tail": "b", "end": "tail", "other": "other"}
    for start, (session_id, parent) in enumerate(parents.items()):
        add_session(old, session_id, parent_session_id=parent, started_at=float(start))
    db = open_store()
    found = {one: (db.get_session(one) or {})["parent_session_id"] for one in parents}
    assert found == {**parents, "a": None, "other": None}
    roots = {one: db.get_conversation_root(one) for one in parents}
    assert roots == {**dict.fromkeys(("a", "b", "c", "tail", "end"), "a"), "other": "other"}


def test_markers_say_more_than_clocks(old: sqlite3.Connection, open_store: Open) -> None:
    add_session(old, "parent", ended_at=5.0, end_reason="compression")
    for session_id, config in {
        "delegate": '{"_delegate_from": "parent"}',
        "branch": '{"_branched_from": "parent"}',
        "neither": '{"note": "_delegate_from"}',
        "unreadable": "{_delegate_from",
        "number": "7",
    }.items():
        add_session(
            old, session_id, parent_session_id="parent", started_at=6.0, model_config=config
        )
    db = open_store()
    kinds = {row["id"]: row["edge_kind"] for row in db.search_sessions(limit=-1)}
    assert kinds == {
        "parent": None,
        "delegate": "subagent",
        "branch": "branch",
        "neither": "compression",
        "unreadable": "compression",
        "number": "compression",
    }


def test_a_long_chain_has_one_row(old: sqlite3.Connection, open_store: Open) -> None:
    old.execute("BEGIN")
    for number in range(400):
        add_session(
            old,
            f"s{number}",
            parent_session_id=f"s{number - 1}" if number else None,
            started_at=float(number),
            ended_at=number + 0.5,
            end_reason="compression",
        )
    add_message(old, "s100", timestamp=5_000.0, content="late")
    old.execute("COMMIT")
    db = open_store()
    (row,) = db.list_sessions_rich()
    assert (row["id"], row["_lineage_root_id"], row["last_active"]) == ("s399", "s0", 5_000.0)


# ── titles and times ──────────────────────────────────────────────────────────────────────────


def test_numbered_titles_skip_taken_numbers(old: sqlite3.Connection, open_store: Open) -> None:
    old.execute("DROP INDEX idx_sessions_title_unique")
    titles = ["x", "x", "X #4", "x", "", "", "a\x00b", "a\x00b"]
    for number, title in enumerate(titles):
        add_session(old, str(number), title=title, started_at=float(number))
    db = open_store()
    assert [db.get_session_title(str(number)) for number in range(len(titles))] == [
        "x #5",
        "x #6",
        "X #4",
        "x",
        None,
        None,
        "a\x00b #2",
        "a\x00b",
    ]


def test_times_that_are_no_numbers(old: sqlite3.Connection, open_store: Open) -> None:
    add_session(old, "s", started_at="2026-01-01T00:00:00+00:00", ended_at="soon")
    for timestamp in (7.5, "2026-01-01 00:00:00", b"never", 3, math.inf):
        add_message(old, "s", timestamp=timestamp)
    db = open_store()
    assert [m["timestamp"] for m in db.get_messages("s")] == [
        7.5,
        1_767_225_600.0,
        1_767_225_600.0,
        3.0,
        1_767_225_600.0,
    ]
    session = db.get_session("s") or {}
    assert (session["started_at"], session["ended_at"]) == (1_767_225_600.0,) * 2
    with db.provider.read() as tx:
        kept = tx.all("SELECT extra FROM messages WHERE extra IS NOT NULL ORDER BY id")
        assert [json.loads(row[0])["timestamp"] for row in kept] == [
            "2026-01-01 00:00:00",
            "never",
            "inf",
        ]
        assert json.loads((tx.one("SELECT extra FROM sessions") or [""])[0]) == {
            "started_at": "2026-01-01T00:00:00+00:00",
            "ended_at": "soon",
        }


# ── the search index ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE messages_fts_config",
        "DROP TABLE messages_fts_trigram_data",
        "DELETE FROM messages_fts_data",
        "DROP TRIGGER messages_fts_insert",
        "DELETE FROM sqlite_master WHERE name = 'messages_fts'",
    ],
)
def test_a_damaged_search_index_does_not_matter(
    old: sqlite3.Connection, open_store: Open, damage: str, path: Path
) -> None:
    add_session(old, "s")
    add_message(old, "s", content="found")
    old.execute("PRAGMA writable_schema=ON")
    old.execute(damage)
    db = open_store()
    db.append_message("s", "user", "appended")
    assert [m["content"] for m in db.get_messages("s")] == ["found", "appended"]
    with db.provider.read() as tx:
        assert tx.all("SELECT name FROM sqlite_master WHERE name LIKE '%fts%'") == []
        assert tx.all("PRAGMA integrity_check") == [("ok",)]


# ── what others put into the file ─────────────────────────────────────────────────────────────


def test_triggers_of_others_are_not_fired_and_stay(
    old: sqlite3.Connection, open_store: Open
) -> None:
    old.executescript(
        """
        CREATE TABLE changes (what TEXT);
        CREATE TRIGGER watch AFTER UPDATE ON messages BEGIN
            INSERT INTO changes VALUES ('message');
        END;
        CREATE TRIGGER guard BEFORE UPDATE ON sessions BEGIN SELECT RAISE(ABORT, 'no'); END;
        """
    )
    add_session(old, "s")
    add_message(old, "s", content="\x00json:[1]")
    db = open_store()
    with db.provider.read() as tx:
        assert tx.all("SELECT * FROM changes") == []
        triggers = {row[0] for row in tx.all("SELECT name FROM sqlite_master WHERE type='trigger'")}
    assert {"watch", "guard", "sessions_complete", "messages_complete"} <= triggers


def test_columns_with_our_names_keep_their_values(
    old: sqlite3.Connection, open_store: Open, caplog: pytest.LogCaptureFixture
) -> None:
    old.execute("ALTER TABLE messages ADD COLUMN active INTEGER")
    old.execute("ALTER TABLE messages ADD COLUMN compacted INTEGER")
    old.execute("CREATE INDEX theirs ON messages(compacted)")
    old.execute("CREATE VIEW gone_with_the_index AS SELECT * FROM messages_fts")
    old.execute("ALTER TABLE sessions ADD COLUMN title_key TEXT")
    add_session(old, "s", title="T #2", title_key="theirs")
    add_message(old, "s", content="shown", active=None)
    add_message(old, "s", content="rewound", active=0)
    with caplog.at_level(logging.WARNING):
        db = open_store()
    assert [m["content"] for m in db.get_messages("s")] == ["shown"]
    assert len(db.get_messages("s", include_inactive=True)) == 2
    db.append_message("s", "user", "appended")
    assert [m["content"] for m in db.get_messages("s")] == ["shown", "appended"]
    with db.provider.read() as tx:
        assert tx.all("SELECT title_key, title_key_before_upgrade FROM sessions") == [
            ("t", "theirs")
        ]
    assert "compacted_before_upgrade" in caplog.text


def test_tables_and_indexes_with_our_names_make_room(
    old: sqlite3.Connection, open_store: Open
) -> None:
    old.execute("CREATE TABLE compression_locks (lane TEXT)")
    old.execute("INSERT INTO compression_locks VALUES ('theirs')")
    old.execute("CREATE INDEX idx_sessions_active ON sessions(model)")
    old.execute("CREATE VIEW gone_with_the_index AS SELECT * FROM messages_fts")
    add_session(old, "s")
    db = open_store()
    with db.provider.read() as tx:
        assert tx.all("SELECT * FROM compression_locks_before_upgrade") == [("theirs",)]
        assert tx.all("SELECT * FROM compression_locks") == []
    assert [row["id"] for row in db.list_sessions_rich()] == ["s"]


def test_virtual_tables_of_others_stay(old: sqlite3.Connection, open_store: Open) -> None:
    """Also one whose module is not there, and views that cannot be used any more."""
    old.executescript(
        """
        CREATE VIRTUAL TABLE notes USING fts5(body);
        INSERT INTO notes VALUES ('theirs');
        CREATE VIRTUAL TABLE places USING rtree(id, x0, x1);
        CREATE VIEW found AS SELECT * FROM messages_fts;
        CREATE VIEW broken AS SELECT * FROM nowhere;
        PRAGMA writable_schema = ON;
        INSERT INTO sqlite_master VALUES
            ('table', 'vectors', 'vectors', 0, 'CREATE VIRTUAL TABLE vectors USING vec0(a)');
        """
    )
    add_session(old, "s")
    db = open_store()
    with db.provider.read() as tx:
        assert tx.all("SELECT body FROM notes WHERE notes MATCH 'theirs'") == [("theirs",)]
        names = {row[0] for row in tx.all("SELECT name FROM sqlite_master")}
    assert {"notes", "places", "vectors", "found", "broken"} <= names


@pytest.mark.parametrize("versions", [[], [None], [3, 11], ["11"], [0], [-1]])
def test_versions_stated_oddly(old: sqlite3.Connection, path: Path, versions: list[Any]) -> None:
    old.execute("DROP TABLE schema_version")
    old.execute("CREATE TABLE schema_version (version INTEGER)")
    old.executemany("INSERT INTO schema_version VALUES (?)", [(one,) for one in versions])
    add_session(old, "s")
    old.close()
    with SessionDB(path) as db, db.provider.read() as tx:
        assert tx.all("SELECT version FROM schema_version") == [(11,)]
        assert tx.all("SELECT id FROM sessions") == [("s",)]

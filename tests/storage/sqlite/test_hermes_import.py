"""Importing Hermes databases of every version into a store without changing them."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.config.paths import IMPORTED_STORE_FILE_NAME
from hermes_sessions.errors import ImportRefused, StoreCorrupt, StoreError
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.sqlite.hermes_database import import_database, is_database, target_for
from tests.fixtures.hermes import content, layouts, reader, release_driver, stored
from tests.fixtures.hermes.old_process import OldProcess
from tests.storage.export_samples import everything, fill, ticking
from tests.storage.sqlite.hermes_files import edit, make

Record = dict[str, Any]

BUILT = tuple(f"built-{name}" for name in layouts.LAYOUTS)
NAMES = (*stored.names(), *BUILT)
#: Its accidents are what another test is about.
ORDERLY = tuple(name for name in NAMES if name != "built-v5-hand-edited")
DERIVED = ("decoded", "content", "tool_calls", "active", "compacted")
DEFAULTS = {"observed": 0, "expiry_finalized": 0, "compression_fallback_streak": 0, "archived": 0}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Where a file to import is put: alone in its directory."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    return folder / "state.db"


@pytest.fixture
def db() -> Iterator[SessionDB]:
    with SessionDB(":memory:", clock=ticking()) as db:
        yield db


def foreign_rows(db: SessionDB) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    with db.provider.read() as tx:
        for table, row in tx.all('SELECT table_name, "row" FROM foreign_rows ORDER BY id'):
            found.setdefault(table, []).append(json.loads(row))
    return found


# ── everything ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ORDERLY)
def test_everything_in_the_file_is_copied_once(name: str, source: Path, db: SessionDB) -> None:
    before = make(name, source)
    bytes_before = source.read_bytes()
    report = import_database(db, source)
    assert (report["ok"], report["damage"], report["errors"]) == (True, [], [])
    assert report["imported"] == len(before["sessions"])
    assert report["schema_version"] == before["schema_version"]
    renamed = {note["id"] for note in report["notes"] if "is taken" in note["note"]}
    for row in before["sessions"]:
        require_session(db, row, renamed)
    for session_id, messages in reader.transcripts(before).items():
        require_transcript(db, session_id, messages)
    assert {key: db.get_meta(key) for key in before["state_meta"]} == before["state_meta"]
    require_other_tables(db, before["other_tables"])
    assert report["routing"] == len(before["other_tables"].get("gateway_routing", ()))
    require_the_same_again(db, source, report)
    assert source.read_bytes() == bytes_before
    assert list(source.parent.iterdir()) == [source]


def require_the_same_again(db: SessionDB, source: Path, first: Record) -> None:
    """Copying again changes nothing."""
    before, rows = everything(db), foreign_rows(db)
    again = import_database(db, source)
    assert (again["imported"], again["extended"], again["conflicts"]) == (0, 0, [])
    assert (again["skipped"], again["meta"], again["foreign_rows"]) == (first["imported"], 0, 0)
    assert (everything(db), foreign_rows(db)) == (before, rows)


def require_session(db: SessionDB, row: Record, renamed: set[str]) -> None:
    found = db.export_session(row["id"])
    assert found is not None, row["id"]
    extra = found.get("extra", {})
    for column, value in row.items():
        if column in ("message_count", "tool_call_count") or (
            column == "title" and row["id"] in renamed
        ):
            continue
        if column == "archived":
            assert (found["archived_at"] is not None) == bool(value)
        elif column in found:
            assert found[column] == value, (row["id"], column)
        elif value is not None and value != DEFAULTS.get(column):
            assert extra[column] == value, (row["id"], column)
    shown = [m for m in found["messages"] if m["active"] and not m["compacted"]]
    assert found["message_count"] == len(shown)


def require_transcript(db: SessionDB, session_id: str, expected: list[Record]) -> None:
    exported = db.export_session(session_id)
    assert exported is not None
    found = exported["messages"]
    assert [m["id"] for m in found] == [m["id"] for m in expected]
    assert [m["ordinal"] for m in found] == list(range(1, len(expected) + 1))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours["content"] == theirs["decoded"]["content"], theirs["id"]
        assert type(ours["content"]) is type(theirs["decoded"]["content"]), theirs["id"]
        require_tool_calls(ours["tool_calls"], theirs)
        compacted = theirs.get("compacted") or 0
        rewound = theirs.get("active") == 0 and not compacted
        assert (ours["active"], ours["compacted"]) == (int(not rewound), compacted), theirs["id"]
        for column in theirs.keys() - set(DERIVED):
            value = theirs[column]
            if column in ours:
                # Bytes in a text column are text that could not be read before.
                wanted = value.decode("utf-8", "surrogateescape") if is_bytes(value) else value
                assert ours[column] == wanted, (theirs["id"], column)
            elif value is not None and value != DEFAULTS.get(column):
                assert ours["extra"][column] == value, (theirs["id"], column)


def is_bytes(value: Any) -> bool:
    return isinstance(value, bytes)


def require_tool_calls(ours: Any, theirs: Record) -> None:
    decoded = theirs["decoded"]["tool_calls"]
    if isinstance(decoded, (list, dict)) and ours == decoded:
        return
    # A value that is not a list of calls is exported as text.
    raw = theirs["tool_calls"]
    assert ours == (raw.decode() if is_bytes(raw) else raw), theirs["id"]


def require_other_tables(db: SessionDB, tables: dict[str, list[Record]]) -> None:
    found = foreign_rows(db)
    for table, rows in tables.items():
        kept = rows if table not in ("gateway_routing", "compression_locks") else []
        if table == "session_model_usage":
            require_usage(db, rows)
            kept = [row for row in rows if row["cost_status"] or row["cost_source"]]
        as_json = [{name: tagged(value) for name, value in row.items()} for row in kept]
        assert sorted(map(str, found.pop(table, []))) == sorted(map(str, as_json)), table
    assert not found


def tagged(value: Any) -> Any:
    return {"$bytes": base64.b64encode(value).decode()} if is_bytes(value) else value


def require_usage(db: SessionDB, rows: list[Record]) -> None:
    for session_id in {row["session_id"] for row in rows}:
        theirs = [
            {
                **{name: row[name] or None for name in ("model", "billing_provider")},
                **{name: row[name] for name in ("task", "input_tokens", "api_call_count")},
                "estimated_cost_usd": row["estimated_cost_usd"],
                "first_at": row["first_seen"],
                "last_at": row["last_seen"],
            }
            for row in rows
            if row["session_id"] == session_id
        ]
        found = [{k: used[k] for k in theirs[0]} for used in db.get_model_usage(session_id)]
        assert found == theirs


@pytest.mark.parametrize("name", stored.names())
def test_the_store_answers_as_the_release_did(name: str, source: Path, db: SessionDB) -> None:
    stored.unpack(name, source)
    import_database(db, source)
    release = stored.expected(name)["release"]
    # 0.17 sorted by clocks, and a release of that time hid messages whose flag was missing.
    by_clock = {content.CLOCK} if name.startswith("v16") else set()
    for session_id, tip in release["tips"].items():
        assert db.get_compression_tip(session_id) == tip
        live = [m["id"] for m in db.get_messages(session_id) if not m["compacted"]]
        conversation = db.get_messages_as_conversation(session_id)
        if name == "v16-active-empty" and not release["live_message_ids"][session_id]:
            assert len(live) == len(release["messages"][session_id])
            continue
        if session_id in by_clock:
            live.sort()
            assert live == sorted(release["live_message_ids"][session_id])
            continue
        assert live == release["live_message_ids"][session_id]
        wanted = [
            {key: value for key, value in message.items() if key in found}
            for found, message in zip(
                conversation, release["conversations"][session_id], strict=True
            )
        ]
        assert conversation == wanted


def test_lineage_and_flags_of_a_later_version_are_made_explicit(
    source: Path, db: SessionDB
) -> None:
    stored.unpack("v22", source)
    import_database(db, source)
    kinds = {
        record["id"]: (record["parent_session_id"], record["edge_kind"], record["conversation_id"])
        for record in db.export_all()
    }
    assert kinds[content.CHAIN[2]] == (content.CHAIN[1], "compression", content.CHAIN[0])
    assert kinds[content.CHAIN_SUBAGENT] == (content.CHAIN[0], None, content.CHAIN[0])
    assert kinds[content.BRANCH] == (content.BRANCHED, "branch", content.BRANCHED)
    assert kinds[release_driver.DELEGATE][1] == "subagent"
    assert kinds[release_driver.MARKED_BRANCH][1] == "branch"
    listed = [row["id"] for row in db.list_sessions_rich(limit=-1)]
    assert content.CHAIN[2] in listed
    assert not {content.CHAIN[0], release_driver.DELEGATE, *release_driver.ARCHIVED} & set(listed)
    rewound = db.get_session(release_driver.REWOUND)
    assert rewound is not None
    assert (rewound["rewind_count"], rewound["message_count"]) == (1, 5)
    compacted = db.export_session(release_driver.COMPACTED)
    assert compacted is not None
    assert [m["compacted"] for m in compacted["messages"]] == [1] * 14 + [0] * 3


def test_a_file_with_accidents_loses_nothing(source: Path, db: SessionDB) -> None:
    before = make("built-v5-hand-edited", source)
    report = import_database(db, source)
    assert (report["ok"], report["errors"]) == (True, [])
    texts = [m["decoded"]["content"] for m in before["messages"]]
    found = [m["content"] for record in db.export_all() for m in record["messages"]]
    assert sorted(map(repr, found)) == sorted(map(repr, texts))
    made = [note["id"] for note in report["notes"] if "had no session" in note["note"]]
    assert made == ["20250101_000000_gone00"]
    assert any("is invalid" in note["note"] for note in report["notes"])
    require_the_same_again(db, source, report)


def test_what_grew_since_is_added(source: Path, db: SessionDB) -> None:
    make("v22", source)
    import_database(db, source)
    with OldProcess(source) as old:
        old.append(content.CHAIN[2], "later")
    report = import_database(db, source)
    assert report["extended_ids"] == [content.CHAIN[2]]
    assert db.get_messages(content.CHAIN[2])[-1]["content"] == "later"


# ── a source that is in use, or cannot be written ─────────────────────────────────────────────


@pytest.mark.parametrize("name", ["v22", "built-v8-rollback-journal"])
@pytest.mark.parametrize("transaction", ["none", "read", "write"])
def test_another_program_may_have_the_file_open(
    name: str, transaction: Any, source: Path, db: SessionDB
) -> None:
    make(name, source)
    with OldProcess(source, transaction=transaction) as old:
        if transaction == "none":
            old.append(content.CHAIN[2], "not written back yet")
        report = import_database(db, source)
        assert report["ok"]
        texts = [m["content"] for m in db.get_messages(content.CHAIN[2])]
        assert ("not written back yet" in texts) == (transaction == "none")
        if transaction == "write":
            old.append(content.CHAIN[2], "it still has its lock")
            old.commit()


def test_a_log_left_by_a_dead_program_is_read_and_kept(source: Path, db: SessionDB) -> None:
    make("v22", source)
    with OldProcess(source) as old:
        old.append(content.CHAIN[2], "only in the log")
        old.kill()
    log = Path(f"{source}-wal")
    before = (source.read_bytes(), log.read_bytes())
    assert before[1]
    import_database(db, source)
    assert db.get_messages(content.CHAIN[2])[-1]["content"] == "only in the log"
    assert (source.read_bytes(), log.read_bytes()) == before


def test_a_damaged_log_left_by_a_dead_program_is_refused(source: Path, db: SessionDB) -> None:
    """SQLite would leave out what was written last, without a word."""
    make("v22", source)
    with OldProcess(source) as old:
        for number in range(3):
            old.append(content.CHAIN[2], f"only in the log {number}")
        old.kill()
    log = Path(f"{source}-wal")
    data = bytearray(log.read_bytes())
    data[8] ^= 0xFF
    log.write_bytes(data)
    with pytest.raises(StoreCorrupt, match=r"write-ahead log is damaged.*hermes repair"):
        import_database(db, source)
    assert db.session_count(include_archived=True) == 0
    assert log.read_bytes() == data


def run_as_unprivileged_user(work: Callable[[], bool]) -> bool:
    """Run *work* as a user to whom file permissions apply."""
    if os.geteuid() != 0:
        return work()
    with warnings.catch_warnings():
        # Later Pythons warn about threads, but the child uses none.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.setegid(65534)
            os.seteuid(65534)
            done = work()
        except BaseException:  # noqa: BLE001 - the parent must hear of it, whatever it is
            done = False
        os._exit(0 if done else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def locked_folder() -> Iterator[Path]:
    """A directory that all users can read and only root can write."""
    folder = Path(tempfile.mkdtemp(prefix="hermes-locked-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.parametrize("leftover", ["nothing", "log", "journal"])
def test_a_file_in_a_read_only_directory_is_read(
    locked_folder: Path, tmp_path: Path, leftover: str
) -> None:
    source = locked_folder / "state.db"
    make("built-v8-rollback-journal" if leftover == "journal" else "v22", source)
    last = "part of the file"
    edit(source, ("UPDATE messages SET content = ? WHERE id = 1", (last,)))
    if leftover == "log":
        last = "only in the log"
        with OldProcess(source) as old:
            old.append(content.CHAIN[2], last)
            old.kill()
        Path(f"{source}-shm").unlink()
    elif leftover == "journal":
        leave_hot_journal(source, tmp_path)
    for path in locked_folder.iterdir():
        path.chmod(0o444)
    locked_folder.chmod(0o555)
    before = {path.name: path.read_bytes() for path in locked_folder.iterdir()}

    def work() -> bool:
        with SessionDB(":memory:") as db:
            report = import_database(db, source)
            texts = [m["content"] for r in db.export_all() for m in r["messages"]]
            return bool(report["ok"]) and last in texts and "never committed" not in texts

    assert run_as_unprivileged_user(work)
    assert {path.name: path.read_bytes() for path in locked_folder.iterdir()} == before


def leave_hot_journal(source: Path, tmp_path: Path) -> None:
    """Leave the file as a program does that dies while it commits: half written, with a journal."""
    with closing(sqlite3.connect(source)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE messages SET content = 'never committed'")
        for suffix in ("", "-journal"):
            shutil.copyfile(f"{source}{suffix}", tmp_path / f"half{suffix}")
        connection.rollback()
    for suffix in ("", "-journal"):
        shutil.copyfile(tmp_path / f"half{suffix}", f"{source}{suffix}")
    assert Path(f"{source}-journal").stat().st_size


# ── odd and damaged values ────────────────────────────────────────────────────────────────────


def test_invalid_utf8_and_bytes_are_kept(source: Path, db: SessionDB) -> None:
    make("v22", source)
    raw = b"caf\xe9 \xed\xa0\x80 \x00 \xff"
    edit(
        source,
        ("UPDATE messages SET content = CAST(? AS TEXT), tool_name = ? WHERE id = 2", (raw, raw)),
        ("UPDATE sessions SET system_prompt = CAST(? AS TEXT) WHERE id = ?", (raw, content.LONG)),
        ("UPDATE state_meta SET value = CAST(? AS TEXT) WHERE key = 'empty'", (raw,)),
        (
            "UPDATE gateway_routing SET entry_json = CAST(? AS TEXT) WHERE scope = 'profil'",
            (raw,),
        ),
        ("UPDATE sessions SET id = CAST(? AS TEXT) WHERE id = ?", (b"id \xff", content.GHOST)),
        (
            "UPDATE messages SET session_id = CAST(? AS TEXT) WHERE session_id = ?",
            (b"id \xff", content.GHOST),
        ),
    )
    report = import_database(db, source)
    assert report["ok"]

    def raw_of(text: str | None) -> bytes:
        assert text is not None
        return text.encode("utf-8", "surrogateescape")

    message = db.get_messages(content.PLAIN_SESSION)[1]
    assert raw_of(message["content"]) == raw_of(message["tool_name"]) == raw
    found = db.get_session(content.LONG)
    assert found is not None
    assert raw_of(found["system_prompt"]) == raw
    assert raw_of(db.get_meta("empty")) == raw
    with db.provider.read() as tx:
        entries = [row[0] for row in tx.all("SELECT entry_json FROM gateway_routing")]
    assert raw in map(raw_of, entries)
    assert len(db.get_messages("id \udcff")) == 8
    assert import_database(db, source)["skipped"] == report["imported"]


def test_values_of_the_wrong_type_are_put_aside(source: Path, db: SessionDB) -> None:
    make("v22", source)
    own, noon = content.PLAIN_SESSION, "2026-01-02T03:04:05Z"
    edit(
        source,
        ("UPDATE messages SET token_count = 'many', timestamp = 'noon' WHERE id = 1", ()),
        ("UPDATE messages SET timestamp = 9e999 WHERE id = 2", ()),
        ("UPDATE sessions SET input_tokens = x'01', archived = 7 WHERE id = ?", (own,)),
        ("UPDATE sessions SET started_at = ?, ended_at = x'ff' WHERE id = ?", (noon, own)),
    )
    report = import_database(db, source)
    assert (report["ok"], report["errors"]) == (True, [])
    record = db.export_session(content.PLAIN_SESSION)
    assert record is not None
    assert record["extra"]["input_tokens"] == {"$bytes": "AQ=="}
    assert record["extra"]["started_at"] == noon
    assert record["extra"]["ended_at"] == {"$bytes": "/w=="}
    assert (record["started_at"], record["ended_at"], record["archived_at"]) == (
        1_767_323_045.0,
        None,
        None,
    )
    first, second = record["messages"][:2]
    assert first["extra"] == {"token_count": "many", "timestamp": "noon"}
    assert (first["token_count"], first["timestamp"]) == (None, 0.0)
    assert second["extra"]["timestamp"] == float("inf")


def test_ids_that_cannot_be_used_get_new_ones(source: Path, db: SessionDB) -> None:
    make("v22", source)
    long_id = "x" * 500
    for old, new in ((content.CHAIN[0], long_id), (content.GHOST, "  ")):
        edit(
            source,
            ("UPDATE sessions SET id = ? WHERE id = ?", (new, old)),
            ("UPDATE sessions SET parent_session_id = ? WHERE parent_session_id = ?", (new, old)),
            ("UPDATE messages SET session_id = ? WHERE session_id = ?", (new, old)),
        )
    report = import_database(db, source)
    assert report["ok"]
    renamed = [note["id"] for note in report["notes"] if "is invalid" in note["note"]]
    assert len(renamed) == 2
    head = next(i for i in renamed if i.startswith("xxx"))
    assert db.get_compression_tip(head) == content.CHAIN[2]
    assert [m["role"] for m in db.get_messages(head)] == ["user", "assistant"]


def test_a_message_over_the_limit_is_reported_and_the_rest_copied(
    source: Path, tmp_path: Path
) -> None:
    before = make("v22", source)
    with SessionDB(":memory:", max_message_bytes=50_000) as db:
        report = import_database(db, source)
        (error,) = report["errors"]
        assert error["id"] == content.ODD_TEXT
        assert "sessiondb.max_message_bytes" in error["error"]
        assert (report["ok"], report["imported"]) == (False, len(before["sessions"]) - 1)


def test_damaged_pages_cost_only_the_rows_on_them(source: Path, db: SessionDB) -> None:
    before = make("v22", source)
    spoil_page(source, b"100: ", kind=b"\x0d")
    report = import_database(db, source)
    assert not report["ok"]
    assert report["damage"]
    found = {m["id"] for r in db.export_all() for m in r["messages"]}
    ids = {m["id"] for m in before["messages"]}
    assert found < ids
    assert len(found) > len(ids) * 0.8
    assert report["imported"] == len(before["sessions"])
    assert len(report["damage"]) == len(ids) - len(found)


def test_a_damaged_session_keeps_its_messages(source: Path, db: SessionDB) -> None:
    before = make("v22", source)
    spoil_page(source, content.big_text(1)[6_000:6_040].encode(), kind=b"")
    report = import_database(db, source)
    assert not report["ok"]
    assert any("system_prompt" in problem for problem in report["damage"])
    assert report["imported"] == len(before["sessions"])
    assert len(db.get_messages(content.LONG)) == content.LONG_MESSAGE_COUNT
    found = db.get_session(content.LONG)
    assert found is not None
    assert (found["source"], found["system_prompt"]) == ("cli", None)


def spoil_page(path: Path, needle: bytes, kind: bytes) -> None:
    """Overwrite the first page of a kind that holds a text of this file."""
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    for start in range(0, len(data), size):
        page = data[start : start + size]
        if page.startswith(kind) and needle in page:
            data[start : start + size] = b"\xff" * size
            path.write_bytes(data)
            return
    raise AssertionError("no such page")


# ── files that are not Hermes databases ───────────────────────────────────────────────────────────


def test_other_files_are_refused(source: Path, db: SessionDB) -> None:
    with pytest.raises(ImportRefused, match="not a database"):
        import_database(db, source)
    source.write_bytes(b'{"id": "s"}\n')
    assert not is_database(source)
    with pytest.raises(ImportRefused, match="not a database"):
        import_database(db, source)
    with pytest.raises(ImportRefused, match="not a database"):
        import_database(db, source.parent)
    source.unlink()
    edit(source, "CREATE TABLE recipes (id INTEGER)")
    with pytest.raises(ImportRefused, match="no Hermes sessions"):
        import_database(db, source)
    edit(source, "DROP TABLE recipes")
    with pytest.raises(ImportRefused, match="no Hermes sessions"):
        import_database(db, source)


def test_views_in_the_place_of_tables_are_refused(source: Path, db: SessionDB) -> None:
    edit(
        source,
        "CREATE TABLE schema_version (version INTEGER)",
        "CREATE VIEW sessions AS SELECT 1 AS id, 2 AS source, 3 AS started_at",
        "CREATE VIEW messages AS SELECT 1 id, 2 session_id, 3 role, 4 content, 5 timestamp",
    )
    with pytest.raises(ImportRefused, match="no Hermes sessions"):
        import_database(db, source)


def test_a_file_cut_in_half_is_an_error_that_is_caught(source: Path, db: SessionDB) -> None:
    make("v22", source)
    data = source.read_bytes()
    source.write_bytes(data[: len(data) // 2])
    try:
        report = import_database(db, source)
    except (StoreError, ImportRefused):
        return
    assert not report["ok"]


def test_a_header_with_garbage_behind_it_is_refused(source: Path, db: SessionDB) -> None:
    source.write_bytes(b"SQLite format 3\x00" + bytes(range(256)) * 64)
    assert is_database(source)
    with pytest.raises((StoreError, ImportRefused)):
        import_database(db, source)


def test_a_later_version_is_read_as_far_as_its_columns_are_known(
    source: Path, db: SessionDB
) -> None:
    make("v22", source)
    edit(
        source,
        "UPDATE schema_version SET version = 99",
        "ALTER TABLE sessions ADD COLUMN mood TEXT DEFAULT 'fine'",
        "ALTER TABLE sessions ADD COLUMN extra TEXT DEFAULT 'theirs'",
        "ALTER TABLE messages ADD COLUMN ordinal INTEGER DEFAULT 5",
        "ALTER TABLE messages ADD COLUMN external_id TEXT DEFAULT 'same for all'",
        "ALTER TABLE messages ADD COLUMN rewinds BLOB DEFAULT x'00'",
        "ALTER TABLE gateway_routing RENAME COLUMN scope TO realm",
        "CREATE TABLE feelings (a TEXT, b BLOB)",
        "INSERT INTO feelings VALUES ('x', x'ff'), ('x', NULL)",
    )
    report = import_database(db, source)
    assert (report["ok"], report["schema_version"]) == (True, 99)
    record = db.export_session(content.PLAIN_SESSION)
    assert record is not None
    assert record["extra"] == {"mood": "fine", "extra": "theirs"}
    assert record["cwd"] == "/home/someone/größe"
    assert [m["ordinal"] for m in record["messages"]] == [1, 2, 3, 4, 5]
    assert record["messages"][0]["extra"] == {
        "ordinal": 5,
        "external_id": "same for all",
        "rewinds": {"$bytes": "AA=="},
    }
    assert report["routing"] == 0
    assert {row["realm"] for row in foreign_rows(db)["gateway_routing"]} == {"", "profil"}
    assert foreign_rows(db)["feelings"] == [
        {"a": "x", "b": {"$bytes": "/w=="}},
        {"a": "x", "b": None},
    ]


# ── stores of ours ────────────────────────────────────────────────────────────────────────────


def test_a_store_is_copied_into_another_while_it_is_in_use(source: Path, db: SessionDB) -> None:
    make("v22", source)
    path = source.with_name("ours.db")
    with SessionDB(path, clock=ticking()) as ours:
        import_database(ours, source)
        fill(ours)
        ours.set_meta("odd \x00 key", "\ud83d")
        report = import_database(db, path)
        assert (report["ok"], report["imported"]) == (True, len(ours.export_all()))
        assert everything(db) == everything(ours)
        assert foreign_rows(db) == foreign_rows(ours)
        assert db.get_meta("odd \x00 key") == "\ud83d"
        assert import_database(db, path)["skipped"] == report["imported"]
        ours.append_message("tip", "user", "the source is still itself")


def test_where_an_import_goes(tmp_path: Path) -> None:
    configured = tmp_path / "home" / "state.db"
    configured.parent.mkdir()
    elsewhere = tmp_path / "copy.db"
    stored.unpack("v22", elsewhere)
    assert target_for(elsewhere, configured) == configured
    stored.unpack("v22", configured)
    beside = configured.with_name(IMPORTED_STORE_FILE_NAME)
    assert target_for(configured, configured) == beside
    link = tmp_path / "link.db"
    link.symlink_to(configured)
    assert target_for(link, configured) == beside
    with SessionDB(beside) as db:
        import_database(db, configured)
    with pytest.raises(ImportRefused, match="itself"):
        target_for(beside, beside)
    assert target_for(configured, beside) == beside


def test_progress_reaches_its_end_and_never_goes_back(source: Path, db: SessionDB) -> None:
    before = make("v22", source)
    steps: list[tuple[int, int]] = []
    import_database(db, source, lambda done, total: steps.append((done, total)))
    assert steps == sorted(steps)
    assert steps[-1] == (2 * len(before["sessions"]),) * 2

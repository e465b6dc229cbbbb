"""Repair of damaged files: what is saved and reported, and that the damaged file stays."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import (
    InvalidInput,
    NotADatabase,
    StoreCorrupt,
    StoreIOError,
    StoreLocked,
    StoreMissing,
)
from hermes_sessions.storage.care.repair.file_repair import check, repair
from hermes_sessions.storage.care.repair.report import RepairOptions, RepairReport, Way
from hermes_sessions.storage.sqlite.inspection import FileInspection
from hermes_sessions.storage.sqlite.repair import recover_tool
from hermes_sessions.storage.sqlite.repair.file_repair import kept_files
from hermes_sessions.storage.sqlite.repair.row_file import RowFile
from tests.care.repair.damage import (
    MESSAGES,
    PAGE,
    SESSIONS,
    broken,
    content,
    fill,
    sound,
    with_table_twice,
)
from tests.care.repair.other_processes import (
    repair_what_cannot_be_written,
    store_open_elsewhere,
    write_and_die,
)
from tests.care.repair.recover_tool import recovering_tool
from tests.storage.sqlite.hermes_files import make

ALL = SESSIONS * MESSAGES
#: Nothing is lost with these: another way leads to every row.
HARMLESS = ("header", "first page", "messages root", "index leaf", "index flipped")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def tool_way(monkeypatch: pytest.MonkeyPatch) -> Way:
    folder = str(Path(recovering_tool()).parent)
    monkeypatch.setenv("PATH", folder + os.pathsep + os.environ["PATH"])
    return "tool"


@pytest.fixture(params=["rows", "tool"])
def way(request: pytest.FixtureRequest) -> Way:
    if request.param == "tool":
        tool: Way = request.getfixturevalue("tool_way")
        return tool
    return "rows"


def texts(db: SessionDB, session: int) -> list[str]:
    return [message["content"] for message in db.get_messages(f"s{session}")]


@pytest.mark.parametrize("kind", HARMLESS)
@pytest.mark.fault(
    "Pages, indexes or the header of the file are damaged",
    "Every message outside the damage is saved; what is lost is named; the damaged file is kept",
    on="sqlite",
)
def test_damage_that_costs_nothing(path: Path, way: Way, kind: str) -> None:
    path.write_bytes(broken(kind))
    assert check(path).state == "damaged"
    report = repair(path, RepairOptions(way=way))
    assert report.state == "repaired"
    # Without the first page, a row must look like one of a session or message to be known.
    assert report.is_everything_saved == (kind != "first page"), report.document()
    assert ("state_meta" in report.lost_tables) == (kind == "first page")
    assert report.lost_messages == 0
    with SessionDB(path) as db:
        for session in range(SESSIONS):
            assert texts(db, session) == [content(session, number) for number in range(MESSAGES)]
        assert db.get_session_title("s3") == "the third"
        assert db.get_conversation_root("s3-child") == "s3"
        if kind != "first page":
            assert db.get_meta("colour") == "green"
        assert db.search_index_status()["complete"]
        assert len(db.search_messages("session", limit=-1)) == ALL
    assert check(path).state == "sound"


@pytest.mark.fault(
    "Pages, indexes or the header of the file are damaged",
    "Every message outside the damage is saved; what is lost is named; the damaged file is kept",
    on="sqlite",
)
def test_what_is_lost_is_named_exactly(path: Path, way: Way) -> None:
    path.write_bytes(broken("messages leaf"))
    report = repair(path, RepairOptions(way=way))
    assert not report.is_everything_saved
    [messages] = [table for table in report.tables if table.name == "messages"]
    assert messages.lost
    lost = {number for first, last in messages.lost for number in range(first, last + 1)}
    assert messages.written == ALL - len(lost)
    assert report.lost_messages == len(lost)
    with SessionDB(path) as db:
        for session in report.incomplete:
            missing = {n for first, last in session.missing for n in range(first, last + 1)}
            present = {message["ordinal"] for message in db.get_messages(session.id)}
            assert present | missing == set(range(1, MESSAGES + 1))
            assert not present & missing
            assert session.expected == MESSAGES
            assert session.found == len(present)
            record = db.get_session(session.id)
            assert record is not None
            assert record["message_count"] == len(present)
        assert db.get_meta("colour") == "green"
        # The id of a lost message is never given again.
        assert db.append_message("s0", "user", "more") == ALL + 1


def test_rows_of_other_tables_that_are_lost_are_told(path: Path, way: Way) -> None:
    """A hold that went with its page is not passed over in silence."""
    fill(path)
    with SessionDB(path) as db:
        db.hold_session("s1", "a dispute")
        db.hold_session("s2", "another")
    _zero(path, "holds")
    report = repair(path, RepairOptions(way=way))
    assert report.lost_rows == {"holds": 2}
    assert not report.is_everything_saved
    assert report.lost_messages == 0
    with SessionDB(path) as db:
        assert db.get_meta("colour") == "green"


def test_a_damaged_table_of_which_no_index_tells(path: Path, way: Way) -> None:
    fill(path)
    _zero(path, "state_meta", "sqlite_autoindex_state_meta_1")
    report = repair(path, RepairOptions(way=way))
    assert report.lost_rows == {"state_meta": None}
    assert not report.is_everything_saved


def _zero(path: Path, *names: str) -> None:
    """Overwrite the pages of tables and indexes with zeros."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    pages = [
        int(str(number))
        for name in names
        for (number,) in connection.execute("SELECT pageno FROM dbstat WHERE name = ?", (name,))
    ]
    connection.close()
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE)
            file.write(bytes(PAGE))


def test_messages_without_a_session_get_one(path: Path, way: Way) -> None:
    path.write_bytes(broken("sessions"))
    report = repair(path, RepairOptions(way=way))
    assert report.adopted == {f"s{session}": MESSAGES for session in range(SESSIONS)}
    with SessionDB(path) as db:
        assert texts(db, 5) == [content(5, number) for number in range(MESSAGES)]
        assert {record["id"] for record in db.list_sessions_rich()} == set(report.adopted)
        assert db.append_message("s5", "user", "more") > 0


@pytest.mark.fault(
    "The end of the file is missing",
    "Every message outside the damage is saved; what is lost is named; the damaged file is kept",
    on="sqlite",
)
def test_a_file_that_was_cut_off(path: Path, way: Way) -> None:
    path.write_bytes(broken("cut off"))
    report = repair(path, RepairOptions(way=way))
    with SessionDB(path) as db:
        counted = db.message_count()
        assert db.session_count() == SESSIONS + 1
    assert 0 < counted < ALL
    # A message with a missing part counts as found.
    assert report.lost_messages in (ALL - counted, ALL - counted + 1)
    assert any(finding.what == "file" for finding in report.findings)


def test_a_table_that_is_listed_twice(path: Path, way: Way) -> None:
    with_table_twice(path)
    with pytest.raises(StoreCorrupt, match="hermes repair"):
        SessionDB(path)
    report = repair(path, RepairOptions(way=way))
    assert report.is_everything_saved
    assert any("search_index twice" in note for note in report.notes)
    with SessionDB(path) as db:
        assert db.message_count() == ALL


def test_a_damaged_search_index_is_rebuilt_in_place(path: Path) -> None:
    path.write_bytes(broken("search"))
    inode = path.stat().st_ino
    assert {finding.what for finding in check(path).findings} == {"search"}
    report = repair(path)
    assert report.state == "rebuilt"
    assert path.stat().st_ino == inode
    assert kept_files(path) == []
    assert check(path).state == "sound"
    with SessionDB(path) as db:
        assert len(db.search_messages("session", limit=-1)) == ALL


def test_a_sound_file_is_left_alone(path: Path) -> None:
    path.write_bytes(sound().raw)
    assert check(path).state == "sound"
    assert repair(path).state == "sound"
    assert path.read_bytes() == sound().raw
    assert [entry.name for entry in path.parent.iterdir()] == ["state.db"]


def test_checking_changes_nothing(path: Path) -> None:
    path.write_bytes(broken("messages leaf"))
    assert check(path).state == "damaged"
    assert path.read_bytes() == broken("messages leaf")
    assert [entry.name for entry in path.parent.iterdir()] == ["state.db"]


def test_the_damaged_file_is_kept_as_it_was(path: Path) -> None:
    path.write_bytes(broken("messages leaf"))
    report = repair(path, RepairOptions(clock=lambda: 0.0))
    assert report.kept == "state.db.damaged-19700101T000000Z"
    assert path.with_name(report.kept).read_bytes() == broken("messages leaf")


def test_a_few_damaged_files_are_kept(path: Path) -> None:
    removed: list[str] = []
    for day in range(3):
        path.unlink(missing_ok=True)
        path.write_bytes(broken("header"))
        report = repair(path, RepairOptions(keep=2, clock=lambda day=day: day * 86400.0))  # type: ignore[misc]
        removed += report.removed
    assert removed == ["state.db.damaged-19700101T000000Z"]
    assert [kept.name for kept in kept_files(path)] == [
        "state.db.damaged-19700102T000000Z",
        "state.db.damaged-19700103T000000Z",
    ]


def test_writing_it_elsewhere(path: Path, tmp_path: Path) -> None:
    path.write_bytes(broken("messages leaf"))
    target = tmp_path / "saved.db"
    report = repair(path, RepairOptions(to=target))
    assert report.target == str(target)
    assert report.kept is None
    assert path.read_bytes() == broken("messages leaf")
    with SessionDB(target) as db:
        assert db.session_count() == SESSIONS + 1
    with pytest.raises(InvalidInput, match="already exists"):
        repair(path, RepairOptions(to=target))


def test_what_was_never_a_store(path: Path) -> None:
    path.write_bytes(b"A letter to my aunt.\n" * 1000)
    assert check(path).state == "damaged"
    with pytest.raises(NotADatabase, match="left as it is"):
        repair(path, RepairOptions(way="rows"))
    assert path.read_bytes() == b"A letter to my aunt.\n" * 1000
    assert [entry.name for entry in path.parent.iterdir()] == ["state.db"]


def test_no_file_at_all(path: Path) -> None:
    for ask in (check, repair):
        with pytest.raises(StoreMissing, match="does not exist"):
            ask(path)
    assert not path.exists()


def test_another_process_has_it_open(path: Path) -> None:
    path.write_bytes(sound().raw)
    with store_open_elsewhere(path) as pid, pytest.raises(StoreLocked, match=rf"\({pid}\)"):
        repair(path)
    assert [kept.name for kept in kept_files(path)] == []


def test_this_process_has_it_open(path: Path) -> None:
    fill(path)
    with SessionDB(path), pytest.raises(StoreLocked, match="has it open"):
        repair(path)


@pytest.mark.fault(
    "A repair is killed",
    "The damaged file is kept; the next run completes the repair",
    on="sqlite",
)
def test_a_repair_that_died_before_its_last_step(path: Path) -> None:
    """The log is aside already, and the file in its place is still the damaged one."""
    path.write_bytes(broken("messages leaf"))
    _write_into_log(path)
    kept = path.with_name("state.db.damaged-20260101T000000Z")
    os.link(path, kept)
    Path(f"{path}-wal").rename(f"{kept}-wal")
    report = repair(path, RepairOptions(way="rows"))
    assert report.kept == kept.name
    with SessionDB(path) as db:
        assert "only in the log" in [message["content"] for message in db.get_messages("s0")]


@pytest.mark.fault(
    "A repair is killed",
    "The damaged file is kept; the next run completes the repair",
    on="sqlite",
)
def test_a_run_that_was_killed_leaves_nothing_behind(path: Path) -> None:
    path.write_bytes(broken("messages leaf"))
    work = path.with_name("state.db.repairing")
    work.mkdir()
    (work / "new.db").write_bytes(b"half")
    repair(path)
    assert not work.exists()


def test_a_text_that_is_no_longer_valid_utf8(path: Path, way: Way) -> None:
    """SQLite calls it sound; the repair reports it, and only that text is lost."""
    wanted = content(2, 3).encode()
    path.write_bytes(sound().raw.replace(wanted, b"\xff" + wanted[1:]))
    with SessionDB(path) as db, pytest.raises(StoreCorrupt, match="hermes repair"):
        db.get_messages("s2")
    [finding] = check(path).findings
    assert (finding.where, finding.detail) == ("messages", "a text in it is not UTF-8")
    report = repair(path, RepairOptions(way=way))
    assert report.state == "repaired"
    with SessionDB(path) as db:
        found = texts(db, 2)
    assert found[:3] == [content(2, number) for number in range(3)]
    assert found[3].endswith(content(2, 3)[1:])
    assert (report.damaged_texts, report.is_everything_saved) == (1, False)
    [note] = [note for note in report.notes if note.startswith("messages ")]
    assert ("not UTF-8" if way == "tool" else "is damaged") in note
    assert found[4:] == [content(2, number) for number in range(4, MESSAGES)]


def test_zeros_in_the_middle_of_a_text(path: Path) -> None:
    """SQLite calls it sound although an overflow page of a long text was overwritten."""
    pages = sound().pages["messages", "overflow"]
    whole = {content(s, n) for s in range(SESSIONS) for n in range(MESSAGES)}
    last = next(p for p in pages if sound().raw[(p - 1) * PAGE : (p - 1) * PAGE + 4] == bytes(4))
    path.write_bytes(sound().zeroed(last))
    [finding] = check(path).findings
    assert (finding.where, finding.detail) == ("messages", "a part of a text in it is zeros")
    report = repair(path)
    assert (report.state, report.damaged_texts) == ("repaired", 1)
    assert not report.is_everything_saved
    assert report.document()["damaged_texts"] == 1
    assert any("a part of a text in it is damaged" in note for note in report.notes)
    with SessionDB(path) as db:
        found = {text for session in range(SESSIONS) for text in texts(db, session)}
    [damaged] = found - whole
    assert len(whole - found) == 1
    assert damaged[:1000] in {text[:1000] for text in whole}
    assert check(path).state == "sound"


@pytest.mark.parametrize("place", ["last page", "page between"])
@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("content", "messages 3"),
        ("system_prompt", "sessions s2"),
        ("reasoning", "messages 3"),
    ],
)
def test_texts_that_the_tool_shortens_are_told(
    path: Path, tool_way: Way, column: str, name: str, place: str
) -> None:
    """It ends them at the first zero, or where their pages lead no further, without a word."""
    text = {"content": "short", "system_prompt": None, "reasoning": None, column: "word " * 4000}
    with SessionDB(path) as db:
        for number in range(4):
            db.create_session(f"s{number}", "cli", system_prompt=text["system_prompt"])
            db.append_message(
                f"s{number}", "assistant", text["content"], reasoning=text["reasoning"]
            )
    root, chains = _root_and_chains(path, name.split(maxsplit=1)[0])
    damaged = [chains[2][-1] if place == "last page" else chains[2][1]]
    if column == "reasoning":
        # What comes before it is enough to tell what a row is that has lost its table.
        damaged.append(root)
    data = bytearray(path.read_bytes())
    for page in damaged:
        data[(page - 1) * PAGE : page * PAGE] = bytes(PAGE)
    path.write_bytes(data)
    report = repair(path, RepairOptions(way=tool_way))
    assert f"{name}: the tool saved only a part of a text in it" in report.notes
    assert (report.damaged_texts, report.is_everything_saved) == (1, False)
    with SessionDB(path) as db:
        saved = [
            {**(db.get_session(f"s{number}") or {}), **db.get_messages(f"s{number}")[0]}[column]
            for number in range(4)
        ]
    assert [one == text[column] for one in saved] == [True, True, False, True]
    assert str(text[column]).startswith(saved[2])


def _root_and_chains(path: Path, table: str) -> tuple[int, list[list[int]]]:
    """Return the first page of a table, and the overflow pages of its long texts, row by row."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    pages = connection.execute(
        "SELECT pagetype, path, pageno FROM dbstat WHERE name = ? ORDER BY path", (table,)
    ).fetchall()
    connection.close()
    chains: dict[str, list[int]] = {}
    for kind, place, number in pages:
        if kind == "overflow":
            chains.setdefault(str(place).partition("+")[0], []).append(int(str(number)))
    [root] = [int(str(number)) for kind, _, number in pages if kind == "internal"]
    return root, list(chains.values())


def test_a_table_whose_name_is_lost(path: Path, way: Way) -> None:
    data = sound().raw
    path.write_bytes(data.replace(b"CREATE TABLE messages", b"CREATE TABLE \xe5essages"))
    report = repair(path, RepairOptions(way=way))
    assert report.state == "repaired"
    with SessionDB(path) as db:
        assert texts(db, 5) == [content(5, number) for number in range(MESSAGES)]


def test_a_message_whose_place_is_damaged(path: Path) -> None:
    """The row can be read, but its number was never assigned."""
    path.write_bytes(sound().raw)
    connection = apsw.Connection(str(path))
    connection.execute(
        "UPDATE messages SET ordinal = -80 WHERE session_id = 's6' AND ordinal = 9;"
        "UPDATE messages SET ordinal = 7000 WHERE session_id = 's7' AND ordinal = 1"
    )
    connection.close()
    path.write_bytes(bytes(16) + path.read_bytes()[16:])
    report = repair(path, RepairOptions(way="rows"))
    assert len([note for note in report.notes if "its position was damaged" in note]) == 2
    with SessionDB(path) as db:
        for session in (6, 7):
            assert texts(db, session) == [content(session, number) for number in range(MESSAGES)]


# ── the write-ahead log ───────────────────────────────────────────────────────────────────────


def _write_into_log(path: Path) -> int:
    """Write messages that stay in the log, as after a crash; return the size of the log."""
    write_and_die(path, "s0", "only in the log")
    return Path(f"{path}-wal").stat().st_size


@pytest.mark.parametrize("place", ["beginning", "mark", "middle"])
@pytest.mark.fault(
    "The write-ahead log is damaged",
    "Reported as damaged, never as an empty store",
    on="sqlite",
)
def test_a_damaged_log_is_not_a_missing_log(path: Path, place: str) -> None:
    path.write_bytes(sound().raw)
    size = _write_into_log(path)
    log = Path(f"{path}-wal")
    data = bytearray(log.read_bytes())
    at = {"beginning": 8, "mark": 32 + 8, "middle": 32 + 24 + 2000}[place]
    data[at] ^= 0xFF
    log.write_bytes(data)
    for look in (SessionDB, FileInspection):
        with pytest.raises(StoreCorrupt, match=r"log is damaged.*hermes repair"):
            look(path)
    assert log.stat().st_size == size
    assert {finding.what for finding in check(path).findings} == {"log"}
    report = repair(path, RepairOptions(way="rows"))
    assert report.state == "repaired"
    with SessionDB(path) as db:
        found = [message["content"] for message in db.get_messages("s0")]
    assert found[:MESSAGES] == [content(0, number) for number in range(MESSAGES)]
    if place != "middle":
        assert found[MESSAGES:] == ["only in the log"] * 5


def test_a_file_that_was_emptied_beside_its_log(path: Path) -> None:
    """SQLite deletes the log of an empty file, even to look at it."""
    path.write_bytes(sound().raw)
    _write_into_log(path)
    path.write_bytes(b"")
    size = Path(f"{path}-wal").stat().st_size
    for look in (SessionDB, FileInspection, lambda path: SessionDB(path, read_only=True)):
        with pytest.raises(StoreCorrupt, match="hermes repair"):
            look(path)
    assert check(path).state == "damaged"
    assert Path(f"{path}-wal").stat().st_size == size > 0


def test_a_file_that_was_emptied_while_everything_is_in_its_log(path: Path) -> None:
    write_and_die(path, "new", "only in the log")
    path.write_bytes(b"")
    report = repair(path)
    assert (report.state, report.is_everything_saved) == ("repaired", True)
    with SessionDB(path) as db:
        assert [m["content"] for m in db.get_messages("new")] == ["only in the log"] * 5


def test_a_log_whose_last_write_was_not_finished_is_not_damage(path: Path) -> None:
    path.write_bytes(sound().raw)
    _write_into_log(path)
    log = Path(f"{path}-wal")
    data = log.read_bytes()
    log.write_bytes(data[:-3000])
    with SessionDB(path) as db:
        found = [message["content"] for message in db.get_messages("s0")]
    assert found[MESSAGES:] == ["only in the log"] * 4


# ── a Hermes file of an older layout ──────────────────────────────────────────────────────────


def test_an_older_layout_is_saved_and_upgraded(path: Path, way: Way) -> None:
    everything = make("v11", path)
    _damage_one_leaf(path, "messages")
    report: RepairReport = repair(path, RepairOptions(way=way))
    assert report.state == "repaired"
    assert any("older Hermes" in note for note in report.notes)
    with SessionDB(path) as db:
        sessions = {
            record["id"] for record in db.list_sessions_rich(limit=1000, include_children=True)
        }
    assert {session["id"] for session in everything["sessions"]} - sessions <= set(
        report.lost_sessions
    )


def _damage_one_leaf(path: Path, table: str) -> None:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    leaves = [
        int(str(row[0]))
        for row in connection.execute(
            "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'", (table,)
        )
    ]
    size = int(connection.pragma("page_size"))
    connection.close()
    data = bytearray(path.read_bytes())
    data[(leaves[-1] - 1) * size : leaves[-1] * size] = bytes(size)
    path.write_bytes(data)


def test_structured_content_of_an_older_layout(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is marked with a NUL, at which the tool would stop: it is not asked then."""
    folder = str(Path(recovering_tool()).parent)
    monkeypatch.setenv("PATH", folder + os.pathsep + os.environ["PATH"])
    make("v11", path)
    connection = apsw.Connection(str(path))
    connection.execute(
        "INSERT INTO sessions (id, source, started_at) VALUES ('marked', 'cli', 1700000000)"
    )
    connection.execute(
        "INSERT INTO messages (session_id, role, content, timestamp) "
        "VALUES ('marked', 'user', CAST(? AS TEXT), 1700000000)",
        (b'\x00json:[{"type":"text","text":"hello"}]',),
    )
    connection.close()
    data = path.read_bytes()
    path.write_bytes(bytes(16) + data[16:])
    report = repair(path)
    assert report.way == "row by row"
    with SessionDB(path) as db:
        [message] = db.get_messages("marked")
    assert message["content"] == [{"type": "text", "text": "hello"}]


def test_a_file_that_cannot_be_written() -> None:
    """It can be saved to another place all the same."""
    refusal, state = repair_what_cannot_be_written(broken("messages leaf"))
    assert "--to" in refusal
    assert state == "repaired"


def test_a_tool_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "sqlite3"
    tool.write_text("#!/bin/sh\nexec sleep 600\n")
    tool.chmod(0o700)
    monkeypatch.setattr(recover_tool, "MAX_WORK_SECONDS", 0.1)
    with (
        RowFile(tmp_path / "rows.db") as rows,
        pytest.raises(StoreIOError, match="did not finish"),
    ):
        recover_tool.recover_with(str(tool), tmp_path / "copy.db", rows, lambda _number: None)

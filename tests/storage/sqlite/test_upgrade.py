"""Upgrading files of the documented versions: nothing is lost, and the result is a store."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.sqlite import migrations
from tests.fixtures.hermes import content, reader, stored
from tests.fixtures.hermes.variants import (
    CYCLE,
    DUPLICATE_TITLES,
    HAND_EDITED_SESSIONS,
    HANDOFFS,
    MISSING_SESSION,
    TELEGRAM_BINDINGS,
)
from tests.storage.sqlite.hermes_files import (
    NAMES,
    WRITTEN_BY_A_RELEASE,
    Everything,
    make,
    require_everything,
    version_in,
)

SELF_PARENT = "20260113_110000_self01"
DANGLING = "20260113_080000_dang01"
#: Values that an upgrade must change, by file.
CHANGED: dict[str, dict[tuple[str, str], Any]] = {
    "built-v3-duplicate-titles": {
        (content.CHAIN[0], "title"): "p #2",
        (content.CHAIN[1], "title"): "p #3",
        (content.PLAIN_SESSION, "title"): "Twice #2",
    },
    "built-v5-hand-edited": {
        (DANGLING, "title"): None,
        (CYCLE[0], "parent_session_id"): None,
        (SELF_PARENT, "parent_session_id"): None,
        (content.PLAIN_SESSION, "tool_call_count"): 1,
    },
}
Opening = Callable[[str], tuple[SessionDB, Everything]]
Upgraded = Callable[[str], tuple[Path, Everything]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def opening(path: Path) -> Iterator[Opening]:
    """Make a file, open it with the store, and return both."""
    opened: list[SessionDB] = []

    def make_and_open(name: str) -> tuple[SessionDB, Everything]:
        before = make(name, path)
        opened.append(SessionDB(path))
        return opened[-1], before

    yield make_and_open
    for db in opened:
        db.close()


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Upgraded:
    """Make a file and upgrade it, once for all tests that only look at the closed result."""
    made: dict[str, tuple[Path, Everything]] = {}

    def make_and_upgrade(name: str) -> tuple[Path, Everything]:
        if name not in made:
            path = tmp_path_factory.mktemp(name) / "state.db"
            before = make(name, path)
            SessionDB(path).close()
            made[name] = path, before
        return made[name]

    return make_and_upgrade


@pytest.fixture(scope="module")
def fresh_layout(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("fresh") / "state.db"
    SessionDB(path).close()
    return layout_of(path)


def rows(path: Path, sql: str, *params: Any) -> list[tuple[Any, ...]]:
    """Ask a closed store."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        return connection.execute(sql, params).fetchall()


def layout_of(path: Path) -> dict[str, Any]:
    """Every object of the store by name: columns of tables, text of indexes and triggers."""
    found: dict[str, Any] = {}
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        objects = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        for kind, name, sql in objects:
            if name.startswith("sqlite_"):
                continue
            if kind == "table":
                columns = connection.execute(
                    'SELECT name, type, "notnull", dflt_value, pk, hidden '
                    "FROM pragma_table_xinfo(?)",
                    (name,),
                )
                found[name] = sorted(columns)
                keys = connection.execute(
                    'SELECT "from", "table", "to" FROM pragma_foreign_key_list(?)', (name,)
                )
                found[f"{name} references"] = sorted(keys)
            else:
                found[name] = " ".join(sql.split()).replace("IF NOT EXISTS ", "")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost(name: str, opening: Opening) -> None:
    db, before = opening(name)
    require_everything(db, before, CHANGED.get(name))
    recovered = 1 if name == "built-v5-hand-edited" else 0
    assert db.session_count() == len(before["sessions"]) + recovered


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_sound_afterwards(name: str, upgraded: Upgraded) -> None:
    path, before = upgraded(name)
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    assert rows(path, "PRAGMA foreign_key_check") == []
    assert rows(path, "PRAGMA journal_mode") == [("wal",)]
    assert rows(path, "PRAGMA application_id") == [(migrations.APPLICATION_ID,)]
    assert rows(path, "PRAGMA user_version") == [(migrations.WRITER_LEVEL,)]
    assert rows(path, "SELECT version FROM schema_version") == [(11,)]
    assert rows(path, "SELECT name FROM store_migrations ORDER BY name") == [
        (step.name,) for step in migrations.MIGRATIONS
    ]
    assert rows(path, "SELECT COUNT(*) FROM messages") == [(len(before["messages"]),)]


@pytest.mark.parametrize("name", NAMES)
def test_the_layout_is_that_of_a_fresh_store(
    name: str, upgraded: Upgraded, fresh_layout: dict[str, Any]
) -> None:
    path, before = upgraded(name)
    found = layout_of(path)
    if name == "built-v6-plugin":
        found["sessions"] = [c for c in found["sessions"] if c[0] != "plugin_colour"]
        found["messages"] = [c for c in found["messages"] if c[0] != "plugin rating"]
    assert {key: found.get(key) for key in fresh_layout} == fresh_layout
    theirs = {key.removesuffix(" references") for key in found.keys() - fresh_layout.keys()}
    tables = set(before["other_tables"])
    assert {one for one in theirs if not one.startswith(("idx_telegram", "plugin"))} <= tables
    assert not any("fts" in one for one in theirs)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_ours_stays(name: str, upgraded: Upgraded) -> None:
    path, before = upgraded(name)
    after = reader.read_everything(path)
    for table, expected in before["other_tables"].items():
        assert after["other_tables"][table] == expected
    assert after["last_message_id"] == before["last_message_id"]
    after_sessions = {row["id"]: row for row in after["sessions"]}
    for row in before["sessions"]:
        if "plugin_colour" in row:
            assert after_sessions[row["id"]]["plugin_colour"] == row["plugin_colour"]
    for ours, theirs in zip(after["messages"], before["messages"], strict=True):
        if "plugin rating" in theirs:
            assert ours["plugin rating"] == theirs["plugin rating"]


@pytest.mark.parametrize("name", NAMES)
def test_messages_are_appended_behind_the_old_ones(
    name: str, upgraded: Upgraded, path: Path
) -> None:
    closed, before = upgraded(name)
    shutil.copy(closed, path)
    transcripts = reader.transcripts(before)
    with SessionDB(path) as db:
        for session_id in (content.LONG, content.CLOCK, content.GHOST):
            old = [message["id"] for message in transcripts[session_id]]
            new_id = db.append_message(session_id, "user", "after the upgrade")
            assert new_id > before["last_message_id"]
            assert [message["id"] for message in db.get_messages(session_id)] == [*old, new_id]
            assert db.get_messages(session_id)[-1]["ordinal"] == len(old) + 1


@pytest.mark.parametrize("name", NAMES)
def test_a_second_open_changes_nothing(name: str, upgraded: Upgraded) -> None:
    path, _before = upgraded(name)
    first = path.read_bytes()
    SessionDB(path).close()
    assert path.read_bytes() == first
    names = sorted(entry.name for entry in path.parent.iterdir() if entry.suffix != ".gate")
    assert names == ["state.db", f"state.db.v{version_in(name)}.bak"]


@pytest.mark.parametrize("name", NAMES)
def test_the_backup_is_the_old_file(name: str, upgraded: Upgraded) -> None:
    path, before = upgraded(name)
    backup = path.with_name(f"state.db.v{version_in(name)}.bak")
    assert reader.read_everything(backup) == before
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_upgrade_logs_a_warning(opening: Opening, caplog: pytest.LogCaptureFixture) -> None:
    opening("v11")
    assert [r.levelname for r in caplog.records if "version 11" in r.getMessage()] == ["WARNING"]


@pytest.mark.parametrize("name", WRITTEN_BY_A_RELEASE)
def test_the_store_answers_as_the_release_did(name: str, opening: Opening) -> None:
    db, _before = opening(name)
    release = stored.expected(name)["release"]
    for session_id, tip in release["tips"].items():
        assert db.get_compression_tip(session_id) == tip
        found = db.get_messages_as_conversation(session_id)
        expected = release["conversations"][session_id]
        pairs = zip(found, expected, strict=True)
        assert [{key: ours.get(key) for key in theirs} for ours, theirs in pairs] == expected


def test_lineage_is_made_explicit(opening: Opening) -> None:
    db, _before = opening("v11")
    kinds = {
        one: db.get_session(one)["edge_kind"]  # type: ignore[index]
        for one in (*content.CHAIN, content.CHAIN_SUBAGENT, content.BRANCH, content.SUBAGENT)
    }
    assert kinds == {
        content.CHAIN[0]: None,
        content.CHAIN[1]: "compression",
        content.CHAIN[2]: "compression",
        content.CHAIN_SUBAGENT: None,
        content.BRANCH: "branch",
        content.SUBAGENT: None,
    }
    assert db.get_compression_lineage(content.CHAIN[1]) == list(content.CHAIN)
    for one in (*content.CHAIN, content.CHAIN_SUBAGENT):
        assert db.get_conversation_root(one) == content.CHAIN[0]
    assert db.resolve_resume_session_id(content.EMPTY_HEAD) == content.EMPTY_HEAD_CHILD


@pytest.mark.parametrize("version", range(1, 11))
def test_lists_show_what_they_showed(version: int, opening: Opening) -> None:
    db, before = opening(f"built-v{version}")
    listed = {row["id"]: row for row in db.list_sessions_rich(limit=-1)}
    hidden = {
        content.CHAIN[0],
        content.CHAIN[1],
        content.CHAIN_SUBAGENT,
        content.EMPTY_HEAD,
        content.SUBAGENT,
    }
    assert set(listed) == {row["id"] for row in before["sessions"]} - hidden
    assert listed[content.CHAIN[2]]["_lineage_root_id"] == content.CHAIN[0]
    assert listed[content.EMPTY_HEAD_CHILD]["_lineage_root_id"] == content.EMPTY_HEAD
    assert listed[content.PLAIN_SESSION]["preview"] == "Why does the Docker build fail?"
    assert listed[content.GHOST]["preview"] == ""
    assert listed[content.GHOST]["last_active"] == listed[content.GHOST]["started_at"]
    assert listed[content.CLOCK]["last_active"] == content.EPOCH + content.day(9, 1e9)
    # The subagent wrote last, yet a chain's activity is that of its own members.
    assert listed[content.CHAIN[2]]["last_active"] == content.EPOCH + content.day(1, 18_002.0)
    order = [row["last_active"] for row in db.list_sessions_rich(limit=-1)]
    assert order == sorted(order, reverse=True)


def test_the_newest_session_keeps_a_title_that_several_had(
    opening: Opening, caplog: pytest.LogCaptureFixture
) -> None:
    db, _before = opening("built-v3-duplicate-titles")
    for title, holders in DUPLICATE_TITLES.items():
        assert db.get_session_title(holders[-1]) == title
    assert db.get_next_title_in_lineage("p") == "p #4"
    assert len([r for r in caplog.records if "title" in r.getMessage()]) == 3


def test_rows_that_point_nowhere_find_a_place(opening: Opening) -> None:
    db, before = opening("built-v5-hand-edited")
    found = db.get_session(MISSING_SESSION)
    assert found is not None
    assert (found["source"], found["message_count"]) == ("unknown", 1)
    assert found["started_at"] == content.EPOCH + content.day(12)
    assert [m["content"] for m in db.get_messages(MISSING_SESSION)] == ["my session is gone"]
    assert db.get_session(DANGLING)["parent_session_id"] == MISSING_SESSION  # type: ignore[index]
    # The older end of the circle is the root, and the rest follows from the clocks once.
    assert db.get_compression_tip(CYCLE[0]) == CYCLE[1]
    listed = {row["id"] for row in db.list_sessions_rich(limit=-1)}
    assert {CYCLE[1], SELF_PARENT, MISSING_SESSION, ""} <= listed
    assert {row["id"] for row in HAND_EDITED_SESSIONS} <= {row["id"] for row in before["sessions"]}
    # A counter that says something is believed, a missing one is counted.
    assert db.get_session(content.PLAIN_SESSION)["message_count"] == 9999  # type: ignore[index]


def test_handoffs_keep_their_state(opening: Opening, path: Path) -> None:
    db, _before = opening("built-v11-telegram")
    db.close()
    for session_id, expected in HANDOFFS.items():
        assert rows(
            path,
            "SELECT handoff_state, handoff_platform, handoff_error FROM sessions WHERE id = ?",
            session_id,
        ) == [expected]


def test_the_binding_of_a_topic_goes_with_its_session(opening: Opening, path: Path) -> None:
    db, before = opening("built-v11-telegram")
    bound, other = (binding["session_id"] for binding in TELEGRAM_BINDINGS)
    assert db.delete_session(str(bound)) is True
    assert db.get_meta("telegram_dm_topic_schema_version") == "1"
    assert len(db.search_sessions(limit=-1)) == len(before["sessions"]) - 1
    db.close()
    assert rows(path, "SELECT session_id FROM telegram_dm_topic_bindings") == [(other,)]
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    assert rows(path, "PRAGMA foreign_key_check") == []
    indexes = rows(path, "SELECT name FROM pragma_index_list('telegram_dm_topic_bindings')")
    assert len(indexes) == 3


def test_topics_are_kept(opening: Opening, path: Path) -> None:
    db, _before = opening("built-v11-telegram")
    assert db.list_telegram_topic_bindings_for_chat(chat_id="99") == list(TELEGRAM_BINDINGS)
    assert db.is_telegram_topic_mode_enabled(chat_id="99", user_id="99") is True
    assert db.is_telegram_topic_mode_enabled(chat_id="-1001", user_id="77") is False
    db.close()
    (kept,) = rows(path, "SELECT COUNT(*) FROM telegram_dm_topic_bindings")
    assert kept == (len(TELEGRAM_BINDINGS),)


def test_odd_topics_do_not_stop_an_upgrade(path: Path) -> None:
    make("built-v11-telegram", path)
    odd = (
        "UPDATE telegram_dm_topic_bindings SET thread_id = CAST(X'ff' AS TEXT) WHERE thread_id = ?"
    )
    rows(path, odd, "7")
    rows(path, "UPDATE telegram_dm_topic_mode SET chat_id = '' WHERE chat_id = '-1001'")
    with SessionDB(path) as db:
        bound = db.list_telegram_topic_bindings_for_chat(chat_id="99")
        assert [each["thread_id"] for each in bound] == ["8"]


def test_content_is_stored_without_a_mark(opening: Opening, path: Path) -> None:
    db, _before = opening("built-v10")
    db.close()
    marked = "SELECT COUNT(*) FROM messages WHERE instr(content, char(0))"
    assert rows(path, marked) == [(0,)]
    types = dict(
        rows(
            path,
            "SELECT COALESCE(content_type, ''), COUNT(*) FROM messages GROUP BY content_type",
        )
    )
    assert (types["json"], types["base64"]) == (3, 2)
    assert rows(path, "SELECT COUNT(*) FROM messages WHERE typeof(content) = 'blob'") == [(0,)]

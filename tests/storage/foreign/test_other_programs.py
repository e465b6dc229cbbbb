"""Writes of other programs to documented columns are visible at once and lose no session."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import RevisionConflict, SessionDB
from hermes_sessions.storage.care.backups.creation import create_backup
from hermes_sessions.storage.care.backups.restore import restore_backup
from hermes_sessions.storage.care.erasure.coordinator import Erasure
from hermes_sessions.storage.care.erasure.targets import ErasureSubject
from hermes_sessions.storage.repositories import derived_columns
from hermes_sessions.storage.repositories.derived_columns import settle
from hermes_sessions.storage.store_context import StoreContext
from hermes_sessions_testing.clock import NOON, FrozenClock
from tests.storage.foreign.conftest import Shared
from tests.storage.foreign.programs import Program, sqlite_program
from tests.storage.transfer.stores import move

DAY = 86_400.0


def talk(db: SessionDB, session_id: str, at: float = NOON) -> None:
    db.create_session(session_id, "cli", started_at=at)
    db.append_message(session_id, "user", f"question in {session_id}", timestamp=at + 1)
    db.append_message(session_id, "assistant", f"answer in {session_id}", timestamp=at + 2)


def listed(db: SessionDB) -> list[tuple[Any, ...]]:
    return [(row["id"], row["preview"], row["last_active"]) for row in db.list_sessions_rich()]


class OlderHermes:
    """The statements of hermes-agent 0.13.0, as traced, with parameters."""

    def __init__(self, program: Program, now: float) -> None:
        self._run = program.run
        self._now = now

    def create_session(self, session_id: str, parent: str | None = None) -> None:
        self._now += 1
        self._run(
            "INSERT INTO sessions (id, source, user_id, model, model_config, system_prompt, "
            "parent_session_id, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            *(session_id, "cli", None, None, None, None, parent, self._now),
        )

    def append_message(self, session_id: str, role: str, content: str) -> None:
        self._now += 1
        self._run("BEGIN")
        self._run(
            "INSERT INTO messages (session_id, role, content, tool_call_id, tool_calls, tool_name, "
            "timestamp, token_count, finish_reason, reasoning, reasoning_content, "
            "reasoning_details, codex_reasoning_items, codex_message_items) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(session_id, role, content, None, None, None, self._now, *(None,) * 7),
        )
        self._run("UPDATE sessions SET message_count = message_count + 1 WHERE id = ?", session_id)
        self._run("COMMIT")

    def end_session(self, session_id: str, reason: str) -> None:
        self._now += 1
        self._run(
            "UPDATE sessions SET ended_at = ?, end_reason = ? WHERE id = ? AND ended_at IS NULL",
            *(self._now, reason, session_id),
        )

    def reopen_session(self, session_id: str) -> None:
        self._run("UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?", session_id)


def revision(db: SessionDB, session_id: str) -> int:
    session = db.get_session(session_id)
    assert session is not None
    return session["revision"]


def test_their_appends_and_rewinds_raise_the_revision(shared: Shared) -> None:
    """Decision 0022: what raises `next_ordinal` or `rewind_count` counts, by any program."""
    with shared.open(clock=FrozenClock()) as db:
        talk(db, "a")
        seen = revision(db, "a")
        OlderHermes(shared.program, NOON).append_message("a", "user", "of another program")
        assert revision(db, "a") == seen + 1
        with pytest.raises(RevisionConflict) as raised:
            db.append_message("a", "assistant", "to what I saw", expected_revision=seen)
        assert (raised.value.expected, raised.value.actual) == (seen, seen + 1)
        shared.program.run("UPDATE sessions SET rewind_count = rewind_count + 1 WHERE id = ?", "a")
        assert revision(db, "a") == seen + 2
        assert db.append_message("a", "assistant", "to what is there", expected_revision=seen + 2)


def test_their_other_changes_leave_it(shared: Shared) -> None:
    """Programs that know only the documented columns cannot count them."""
    with shared.open(clock=FrozenClock()) as db:
        talk(db, "a")
        seen = revision(db, "a")
        shared.program.run("UPDATE messages SET content = ? WHERE session_id = ?", "changed", "a")
        shared.program.run("UPDATE sessions SET title = ? WHERE id = ?", "renamed", "a")
        db.list_sessions_rich()
        assert revision(db, "a") == seen


def test_the_state_of_a_session_that_they_delete(shared: Shared) -> None:
    """It is gone with the session, and removed by the next maintenance."""
    with shared.open(clock=FrozenClock()) as db:
        for name in ("a", "b"):
            talk(db, name)
            db.set_state("session", name, "n", name)
        shared.program.run("DELETE FROM messages WHERE session_id = ?", "a")
        shared.program.run("DELETE FROM sessions WHERE id = ?", "a")
        assert db.get_state("session", "a", "n") is None
        assert "error" not in db.maybe_auto_prune_and_vacuum()
        talk(db, "a")
        assert db.get_state("session", "a", "n") is None
        assert db.get_state("session", "b", "n") is not None


# ── what they write shows ─────────────────────────────────────────────────────────────────────


def test_times_and_contents(shared: Shared) -> None:
    with shared.open(clock=FrozenClock()) as db:
        talk(db, "a", NOON - 10 * DAY)
        talk(db, "b", NOON - 9 * DAY)
        shared.program.run(
            "UPDATE messages SET timestamp = ? WHERE session_id = ? AND role = ?",
            *(NOON - DAY, "a", "user"),
        )
        shared.program.run(
            "UPDATE messages SET content = ? WHERE session_id = ? AND role = ?",
            *("another  question\nhere", "a", "user"),
        )
        assert listed(db) == [
            ("a", "another question here", NOON - DAY),
            ("b", "question in b", NOON - 9 * DAY + 2),
        ]
        assert [row["id"] for row in db.list_prune_candidates(older_than_days=5)] == []
        db.end_session("a", "done")
        db.end_session("b", "done")
        assert db.prune_sessions(older_than_days=5) == 1
        assert [row["id"] for row in db.list_sessions_rich()] == ["a"]


@pytest.mark.parametrize(
    "text", ["QUESTION IN A", "qu\u00e9stion in a", "question in a.", "\U0001f600"]
)
def test_contents_that_differ_only_a_little(shared: Shared, text: str) -> None:
    with shared.open() as db:
        talk(db, "a")
        shared.program.run("UPDATE messages SET content = ? WHERE role = ?", text, "user")
        assert [row["preview"] for row in db.list_sessions_rich()] == [text]


def test_a_session_without_messages_is_as_recent_as_its_start(shared: Shared) -> None:
    with shared.open(clock=FrozenClock()) as db:
        db.create_session("empty", "cli", started_at=NOON)
        db.end_session("empty", "done")
        shared.program.run("UPDATE sessions SET started_at = ?", NOON - 30 * DAY)
        assert listed(db) == [("empty", "", NOON - 30 * DAY)]
        assert db.prune_sessions(older_than_days=5) == 1


def test_deleted_messages(shared: Shared) -> None:
    with shared.open() as db:
        talk(db, "a")
        shared.program.run("DELETE FROM messages WHERE role = ?", "assistant")
        assert listed(db) == [("a", "question in a", NOON + 1)]
        shared.program.run("DELETE FROM messages")
        assert listed(db) == [("a", "", NOON)]


# ── a continuation by an older Hermes ─────────────────────────────────────────────────────────


def test_a_continuation_by_an_older_hermes(shared: Shared) -> None:
    with shared.open() as db:
        talk(db, "ours", NOON - 1000)
        hermes = OlderHermes(shared.program, NOON)
        hermes.append_message("ours", "user", "one more question")
        hermes.end_session("ours", "compression")
        hermes.create_session("theirs", parent="ours")
        hermes.append_message("theirs", "user", "the summary, and on")
        [row] = db.list_sessions_rich()
        assert (row["id"], row["_lineage_root_id"]) == ("theirs", "ours")
        assert (row["preview"], row["last_active"]) == ("the summary, and on", NOON + 4)
        assert db.get_compression_tip("ours") == "theirs"
        assert db.resolve_resume_session_id("ours") == "theirs"
        assert db.get_compression_lineage("theirs") == ["ours", "theirs"]
        assert db.get_conversation_root("theirs") == "ours"
        assert [message["content"] for message in db.get_messages("ours")][-1] == (
            "one more question"
        )
        # It stays one when the parent is opened again, and continues from here.
        hermes.reopen_session("ours")
        db.append_message("theirs", "assistant", "here", timestamp=NOON + 50)
        assert db.get_compression_tip("ours") == "theirs"
        assert [row["last_active"] for row in db.list_sessions_rich()] == [NOON + 50]


def test_a_whole_thread_by_an_older_hermes_is_pruned_as_one(shared: Shared) -> None:
    with shared.open(clock=FrozenClock(NOON + 10 * DAY)) as db:
        hermes = OlderHermes(shared.program, NOON)
        for number, parent in enumerate((None, "s0", "s1")):
            hermes.create_session(f"s{number}", parent)
            hermes.append_message(f"s{number}", "user", f"question {number}")
            if number < 2:
                hermes.end_session(f"s{number}", "compression")
        assert [row["id"] for row in db.list_sessions_rich()] == ["s2"]
        assert db.prune_sessions(older_than_days=5) == 0
        hermes.end_session("s2", "done")
        assert db.prune_sessions(older_than_days=5) == 3
        assert shared.program.run("SELECT id FROM sessions") == []
        assert shared.notes() == []


def test_a_child_of_an_active_parent_is_not_a_continuation(shared: Shared) -> None:
    with shared.open() as db:
        hermes = OlderHermes(shared.program, NOON)
        hermes.create_session("parent")
        hermes.create_session("child", parent="parent")
        hermes.end_session("parent", "compression")
        assert db.get_compression_tip("parent") == "parent"
        assert [row["id"] for row in db.list_sessions_rich()] == ["parent"]


def test_a_continuation_of_an_archived_thread_is_archived(shared: Shared) -> None:
    with shared.open() as db:
        talk(db, "a", NOON - 1000)
        db.set_session_archived("a", True)
        hermes = OlderHermes(shared.program, NOON)
        hermes.end_session("a", "compression")
        hermes.create_session("b", parent="a")
        assert db.list_sessions_rich() == []
        db.set_session_archived("a", False)
        assert [row["id"] for row in db.list_sessions_rich()] == ["b"]


# ── no cost for the store itself ──────────────────────────────────────────────────────────────


def test_own_writes_are_not_noted(shared: Shared) -> None:
    with shared.open() as db:
        talk(db, "a")
        db.append_messages("a", [{"role": "user", "content": f"{n}"} for n in range(3)])
        db.append_message("a", "user", "found", external_id="x1")
        db.end_session("a", "compression")
        db.create_session("b", "cli", parent_session_id="a")
        db.append_message("b", "user", "on")
        db.append_message("a", "user", "late", timestamp=NOON)
        db.reopen_session("a")
        db.set_session_title("b", "A title")
        db.create_session("late", "cli")
        db.create_session("late", "cli", parent_session_id="a", edge_kind="branch")
        assert shared.notes() == []
        db.update_token_counts("b", input_tokens=3, output_tokens=4)
        db.set_session_archived("b", True)
        db.trash_sessions(["late"])
        db.restore_sessions(["late"])
        db.replace_messages("b", [{"role": "user", "content": "instead", "timestamp": NOON + 9}])
        db.clear_messages("a")
        assert db.delete_session("late")
        assert shared.notes() == []


def test_a_large_family_is_not_worked_out_as_a_whole(shared: Shared, monkeypatch: Any) -> None:
    with shared.open() as db:
        talk(db, "root")
        for number in range(20):
            db.create_session(
                f"helper{number}", "cli", parent_session_id="root", edge_kind="subagent"
            )
        hermes = OlderHermes(shared.program, NOON + 100)
        hermes.end_session("root", "compression")
        hermes.create_session("tip", parent="root")
        assert [row["id"] for row in db.list_sessions_rich()] == ["tip"]
        refreshed: list[str] = []
        refresh = derived_columns.refresh_derived

        def count(tx: Any, session_id: str) -> None:
            refreshed.append(session_id)
            refresh(tx, session_id)

        monkeypatch.setattr(derived_columns, "refresh_derived", count)
        hermes.append_message("root", "user", "late")
        assert [row["last_active"] for row in db.list_sessions_rich()] == [NOON + 103]
        assert refreshed == ["root", "tip"]


# ── what makes no sense ───────────────────────────────────────────────────────────────────────


def test_values_that_make_no_sense(shared: Shared) -> None:
    run = shared.program.run
    with shared.open() as db:
        talk(db, "a")
        talk(db, "b", NOON + 10)
        talk(db, "c", NOON + 20)
        run("UPDATE sessions SET parent_session_id = ? WHERE id = ?", "a", "a")
        run("UPDATE sessions SET parent_session_id = ? WHERE id = ?", "b", "c")
        run("UPDATE sessions SET parent_session_id = ? WHERE id = ?", "c", "b")
        run("UPDATE sessions SET model_config = ?", '{"_branched_from"')
        run("INSERT INTO stale_sessions (session_id) VALUES (?)", "never was")
        assert [row["id"] for row in db.list_sessions_rich()] == ["b", "a"]
        assert db.get_conversation_root("c") == "b"
        assert shared.notes() == []
        db.append_message("a", "user", "goes on")


def test_a_script_that_does_not_count_loses_no_message(shared: Shared) -> None:
    with shared.open(clock=FrozenClock(NOON + 10 * DAY)) as db:
        db.create_session("ghost", "tui", started_at=NOON)
        db.create_session("uncounted", "tui", started_at=NOON)
        for session_id in ("ghost", "uncounted"):
            db.end_session(session_id, "done")
        shared.program.run(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, ?, ?, ?)",
            *("uncounted", "user", "keep me", NOON),
        )
        assert db.prune_empty_ghost_sessions() == 1
        assert [message["content"] for message in db.get_messages("uncounted")] == ["keep me"]


# ── others at the same time ───────────────────────────────────────────────────────────────────


@pytest.mark.fault(
    "Another program changes a session and has not committed, or keeps it locked",
    "Lists do not wait, and prune leaves it alone; both follow after its commit",
)
def test_a_program_that_is_not_done(shared: Shared) -> None:
    run = shared.program.run
    with shared.open(clock=FrozenClock(), lock_timeout=120.0) as db:
        talk(db, "a", NOON - 10 * DAY)
        db.end_session("a", "done")
        before = listed(db)
        run("UPDATE messages SET timestamp = ? WHERE role = ?", NOON, "user")
        run("BEGIN")
        run("UPDATE sessions SET source = ? WHERE id = ?", "script", "a")
        assert listed(db) == before
        assert db.list_prune_candidates(older_than_days=5) == []
        run("COMMIT")
        assert listed(db) == [("a", "question in a", NOON)]
        assert db.prune_sessions(older_than_days=5) == 0


def test_a_parent_that_is_given_meanwhile_keeps_the_family(shared: Shared) -> None:
    """What is noted may belong to another conversation by now, which is old by itself."""
    run = shared.program.run
    with shared.open(clock=FrozenClock()) as db:
        talk(db, "old", NOON - 10 * DAY)
        talk(db, "new", NOON - DAY)
        for session_id in ("old", "new"):
            db.end_session(session_id, "done")
        run("UPDATE sessions SET parent_session_id = ? WHERE id = ?", "old", "new")
        run("BEGIN")
        run("UPDATE sessions SET source = ? WHERE id = ?", "script", "new")
        assert db.list_prune_candidates(older_than_days=5) == []
        run("COMMIT")
        assert db.prune_sessions(older_than_days=5) == 0
        assert db.get_conversation_root("new") == "old"


def test_a_session_that_is_held_joins_its_thread_later(shared: Shared) -> None:
    with shared.open(clock=FrozenClock()) as db:
        talk(db, "a", NOON - 100)
        talk(db, "b", NOON - 50)
        lease = db.take_lease("b", "a chat")
        hermes = OlderHermes(shared.program, NOON - 60)
        hermes.end_session("a", "compression")
        shared.program.run("UPDATE sessions SET parent_session_id = ? WHERE id = ?", "a", "b")
        shared.program.run("UPDATE messages SET content = ? WHERE role = ?", "changed", "user")
        assert [row["preview"] for row in db.list_sessions_rich()] == ["changed", "changed"]
        assert set(shared.notes()) == {"a", "b"}
        db.append_message("b", "user", "goes on", fence=lease.token)
        db.release_lease(lease)
        assert [row["id"] for row in db.list_sessions_rich()] == ["b"]
        assert db.get_compression_lineage("b") == ["a", "b"]
        assert shared.notes() == []


def test_an_earlier_version_of_the_store_beside_this_one(shared: Shared) -> None:
    """It gave a session its parent in several statements."""
    run = shared.program.run
    with shared.open() as db:
        talk(db, "a")
        talk(db, "b", NOON + 10)
        run("BEGIN")
        run(
            "UPDATE sessions SET parent_session_id = ?, edge_kind = ? WHERE id = ?",
            "a",
            "branch",
            "b",
        )
        run("UPDATE sessions SET conversation_id = ? WHERE conversation_id = ?", "a", "b")
        run("COMMIT")
        assert db.get_conversation_root("b") == "a"
        assert [row["id"] for row in db.list_sessions_rich()] == ["b", "a"]
        assert run("SELECT edge_kind FROM sessions WHERE id = ?", "b") == [("branch",)]


@pytest.mark.slow
@pytest.mark.fault(
    "Programs write documented columns while several handles list, append and prune",
    "Nothing waits forever, nothing is lost, and lists show the last state",
)
def test_many_at_once(shared: Shared) -> None:
    names = [f"s{number}" for number in range(6)]
    with shared.open() as db:
        for name in names:
            talk(db, name)

    def write(number: int) -> None:
        with shared.another() as program:
            for step in range(15):
                program.run(
                    "UPDATE messages SET timestamp = ? WHERE session_id = ? AND role = ?",
                    *(NOON + 100 * step + number, names[(step + number) % 6], "assistant"),
                )
                program.run(
                    "INSERT INTO messages (session_id, role, content, timestamp) "
                    "VALUES (?, ?, ?, ?)",
                    *(names[step % 6], "user", f"{number}/{step}", NOON + step),
                )

    def read(number: int) -> None:
        with shared.open(lock_timeout=120.0) as db:
            for step in range(15):
                db.list_sessions_rich()
                db.append_message(names[(step + number) % 6], "user", "ours", timestamp=NOON)
                db.prune_sessions(older_than_days=10_000)

    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(work, number) for work in (write, read) for number in range(2)]
    for each in done:
        each.result()
    with shared.open() as db:
        newest = shared.program.run("SELECT session_id, MAX(timestamp) FROM messages GROUP BY 1")
        assert {row["id"]: row["last_active"] for row in db.list_sessions_rich()} == dict(newest)
        assert shared.notes() == []
        assert shared.program.run("SELECT COUNT(*) FROM messages") == [(12 + 60,)]
        assert shared.program.run("SELECT COUNT(*) FROM messages WHERE ordinal IS NULL") == [(0,)]


def test_settling_ends_while_programs_keep_writing(shared: Shared, monkeypatch: Any) -> None:
    monkeypatch.setattr(derived_columns, "_BATCH", 2)
    with shared.open() as db:
        for number in range(6):
            talk(db, f"s{number}")
        note = "INSERT INTO stale_sessions (session_id) VALUES (?)"
        for number in range(6):
            shared.program.run(note, f"s{number}")
        write, transactions = db.provider.write, 0

        def write_and_meet_another(work: Any, **options: Any) -> Any:
            nonlocal transactions
            transactions += 1
            assert transactions < 10
            shared.program.run(note, "s0")
            return write(work, **options)

        monkeypatch.setattr(db.provider, "write", write_and_meet_another)
        settle(StoreContext(db.provider, FrozenClock()))
        assert transactions == 3
        assert set(shared.notes()) <= {"s0"}


# ── faults ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.fault(
    "A process is killed while it works out what other programs changed",
    "No partial result is visible, and the next list completes it",
)
@pytest.mark.parametrize("sessions", [1, 3])
def test_killed_while_settling(shared: Shared, sessions: int) -> None:
    with shared.open() as db:
        for number in range(4):
            talk(db, f"s{number}", NOON + number)
    shared.program.run("UPDATE messages SET timestamp = timestamp + 100")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.storage.foreign.killed_listing",
            shared.url,
            f"{sessions}",
        ],
        check=False,
    )
    assert done.returncode == -9
    assert set(shared.notes()) == {"s0", "s1", "s2", "s3"}
    with shared.open() as db:
        assert [row["last_active"] for row in db.list_sessions_rich()] == [
            NOON + number + 102 for number in (3, 2, 1, 0)
        ]
        assert shared.notes() == []


def test_a_handle_that_may_only_read(shared: Shared) -> None:
    with shared.open(clock=FrozenClock()) as db:
        talk(db, "a", NOON - 10 * DAY)
        before = listed(db)
        shared.program.run("UPDATE messages SET timestamp = ?", NOON)
        with shared.open(read_only=True, clock=FrozenClock()) as reader:
            assert listed(reader) == before
            assert shared.notes() == ["a"] * len(shared.notes()) != []
            assert listed(db) == [("a", "question in a", NOON)]
            assert listed(reader) == [("a", "question in a", NOON)]


def test_deleting_for_good_leaves_no_note(shared: Shared) -> None:
    with shared.open() as db:
        talk(db, "a")
        talk(db, "b")
        shared.program.run("UPDATE messages SET content = ?", "changed")
        assert db.delete_session("a")
        assert set(shared.notes()) <= {"b"}
        db.clear_messages("b")
        assert db.delete_session("b")
        assert shared.notes() == []


def test_forgetting_takes_what_belongs_to_the_conversation_by_now(shared: Shared) -> None:
    with shared.open() as db:
        talk(db, "a")
        talk(db, "b")
        talk(db, "other")
        shared.program.run("UPDATE sessions SET parent_session_id = ? WHERE id = ?", "a", "b")
        assert Erasure(db.store).plan(ErasureSubject("session", "a")).targets.session_ids == (
            "a",
            "b",
        )
        shared.program.run("UPDATE sessions SET parent_session_id = ? WHERE id = ?", "a", "other")
        shared.program.run("UPDATE sessions SET parent_session_id = NULL WHERE id = ?", "b")
        assert Erasure(db.store).forget(ErasureSubject("session", "a")).status == "done"
        assert shared.program.run("SELECT id FROM sessions") == [("b",)]
        assert shared.notes() == []


def test_a_copy_has_the_notes_too(shared: Shared, tmp_path: Path) -> None:
    with shared.open() as db:
        talk(db, "a")
        db.create_session("b", "cli", parent_session_id="a", edge_kind="handoff")
    shared.program.run("UPDATE messages SET timestamp = timestamp + ?", 100)
    target = f"sqlite:///{tmp_path / 'target.db'}"
    move(shared.url, target)
    with SessionDB.from_url(target) as db:
        activity = {row["id"]: row["last_active"] for row in db.list_sessions_rich()}
        assert activity["a"] == NOON + 102
        with db.provider.read() as tx:
            assert tx.all("SELECT edge_kind FROM sessions WHERE id = ?", ("b",)) == [("handoff",)]


def test_a_restored_backup_is_looked_through(shared: Shared, tmp_path: Path) -> None:
    with shared.open() as db:
        talk(db, "a")
        shared.program.run("UPDATE messages SET timestamp = timestamp + ?", 100)
        with db.provider.read() as tx:
            assert tx.one("SELECT last_active FROM sessions") == (NOON + 2,)
        backup = create_backup(db, tmp_path / "backups", portable=True)
    target = tmp_path / "restored.db"
    restore_backup(backup.path, target)
    with SessionDB(target) as db:
        assert [row["last_active"] for row in db.list_sessions_rich()] == [NOON + 102]


def test_a_table_that_another_program_dropped(tmp_path: Path) -> None:
    """On SQLite, where any program may: nothing fails, and it is made again."""
    path = tmp_path / "state.db"

    def run(sql: str) -> list[tuple[Any, ...]]:
        with sqlite_program(path) as program:
            return program.run(sql)

    with SessionDB(path) as db:
        talk(db, "a")
        db.end_session("a", "done")
        run("DROP TABLE stale_sessions")
        assert [row["id"] for row in db.list_sessions_rich()] == ["a"]
        run("UPDATE messages SET timestamp = timestamp + 100")
        run("DROP TABLE stale_sessions")
        assert [row["last_active"] for row in db.list_prune_candidates(0)] == [NOON + 102]
        run("DROP TABLE stale_sessions")
        db.append_message("a", "user", "goes on")
        run("DROP TABLE stale_sessions")
        assert db.prune_sessions(older_than_days=10_000) == 0
        assert run("SELECT COUNT(*) FROM stale_sessions") == [(0,)]

"""Many processes on one file: no message is lost, no process hangs or starves."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from hermes_sessions import SessionDB, StoreLocked
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
from tests.storage.sqlite.integrity import require_sound
from tests.storage.sqlite.other_process import OtherProcess, start
from tests.storage.sqlite.programs import PATIENT, open_store

#: Of the write-ahead log and of the rollback journal, the second in a smaller form.
JOURNALS = ["wal", "delete"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture(params=JOURNALS)
def journal(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def others() -> Iterator[ExitStack]:
    """Ends every process that was entered, whatever happens."""
    with ExitStack() as stack:
        yield stack


def contents(db: SessionDB, session: str) -> list[str]:
    return [message["content"] for message in db.get_messages(session)]


def test_eight_processes_append(path: Path, journal: str) -> None:
    """None is lost, and each process finds its messages in its order."""
    each = 12 if journal == "wal" else 5
    start("crowd", 8, "append", path, each, journal).succeeded()
    with open_store(path, journal=journal) as db:
        shared = contents(db, "shared")
        for name in (f"process {number}" for number in range(8)):
            expected = [f"{name} {number}" for number in range(each)]
            assert contents(db, name) == expected
            assert [text for text in shared if text.startswith(f"{name} ")] == expected
        assert len(shared) == 8 * each
    require_sound(path)


def test_twenty_processes_open_a_new_file(path: Path, journal: str) -> None:
    path = path.parent / "new" / "directory" / "state.db"
    start("crowd", 20, "open_and_append", path, journal).succeeded()
    with open_store(path, journal=journal) as db:
        assert sorted(map(int, contents(db, "together"))) == list(range(20))
    require_sound(path)


@pytest.fixture
def db(path: Path, journal: str) -> Iterator[SessionDB]:
    with open_store(path, journal=journal, durability="normal") as db:
        db.create_session("s", source="test")
        yield db


def wait_until_a_thread_writes(db: SessionDB) -> None:
    """The engine has no event for it, so it is asked; the timeout of the test bounds it."""
    assert isinstance(db.provider, SQLiteSessionDBProvider)
    while db.provider.engine._writing_thread is None:
        pass


class TestOtherPrograms:
    """Programs that know nothing of the gate."""

    def test_a_writer_waits_for_one_that_writes(self, db: SessionDB, path: Path) -> None:
        """Behaviour 88."""
        with start("hold_write_lock", path) as holder, ThreadPoolExecutor(1) as pool:
            assert holder.said() == "held"
            append = pool.submit(db.append_message, "s", role="user", content="x")
            wait_until_a_thread_writes(db)
            assert not append.done()
            assert db.get_meta("foreign") is None
            holder.tell("commit")
            append.result()
            holder.succeeded()
        assert contents(db, "s") == ["x"]
        assert db.get_meta("foreign") == "written"

    def test_one_that_never_ends_is_named(self, db: SessionDB, path: Path) -> None:
        """Behaviour 88."""
        with SessionDB(path, lock_timeout=0.3) as hasty, start("hold_write_lock", path) as holder:
            assert holder.said() == "held"
            with pytest.raises(StoreLocked) as caught:
                hasty.append_message("s", role="user", content="x")
            named = re.search(r"Waited 0\.3 s for (\w+) \((\d+)\)\. ", str(caught.value))
            assert named is not None, caught.value
            assert int(named[2]) == holder.pid
            holder.tell("commit")
            holder.succeeded()
            hasty.append_message("s", role="user", content="y")
        assert contents(db, "s") == ["y"]

    def test_one_that_dies_leaves_nothing(self, db: SessionDB, path: Path) -> None:
        with start("hold_write_lock", path) as holder:
            assert holder.said() == "held"
            holder.kill()
        db.append_message("s", role="user", content="x")
        assert db.get_meta("foreign") is None

    def test_rows_with_the_documented_columns_are_completed(
        self, db: SessionDB, path: Path
    ) -> None:
        db.create_session("ours", source="test")
        db.append_message("ours", role="user", content="first")
        start("write_documented_columns", path).succeeded()
        assert contents(db, "foreign") == ["hello there", "hi"]
        assert contents(db, "ours") == ["first", "from another program"]
        listed = {row["id"]: row for row in db.list_sessions_rich()}
        assert listed["foreign"]["preview"] == "hello there"
        assert listed["foreign"]["last_active"] == 11.0
        assert listed["foreign"]["message_count"] == 2
        assert db.resolve_resume_session_id("foreign") == "foreign"
        db.append_message("foreign", role="user", content="and ours")
        assert [message["content"] for message in db.get_messages("foreign")][-1] == "and ours"


class TestTurns:
    """Processes of ours, which take turns at the gate."""

    def test_one_that_dies_frees_the_gate(self, db: SessionDB, path: Path) -> None:
        with start("write_for_long", path) as holder:
            assert holder.said() == "inside"
            holder.kill()
        db.append_message("s", role="user", content="x")

    def test_a_stopped_process_does_not_block_others_for_ever(
        self, db: SessionDB, path: Path
    ) -> None:
        """It has a turn but not SQLite's lock: the wait is bounded, and short the next time."""
        with SessionDB(path, lock_timeout=PATIENT) as patient, start("hold_gate", path) as holder:
            assert holder.said() == "inside"
            holder.send(signal.SIGSTOP)
            for number in range(5):
                patient.append_message("s", role="user", content=str(number))
            holder.send(signal.SIGCONT)
            holder.tell()
            holder.succeeded()
        assert contents(db, "s") == ["0", "1", "2", "3", "4"]

    def test_one_that_was_stopped_while_writing_is_named(self, db: SessionDB, path: Path) -> None:
        with SessionDB(path, lock_timeout=0.3) as hasty, start("write_for_long", path) as holder:
            assert holder.said() == "inside"
            holder.send(signal.SIGSTOP)
            with pytest.raises(StoreLocked, match=rf"\({holder.pid}\)"):
                hasty.append_message("s", role="user", content="x")
            holder.send(signal.SIGCONT)
            holder.tell()
            holder.succeeded()
        db.append_message("s", role="user", content="y")
        assert contents(db, "s") == ["y"]

    def test_no_writer_starves(self, tmp_path: Path, journal: str) -> None:
        """While four write without a pause, each gets a fair part of the turns."""
        counts: list[list[int]] = []
        # One look more: the machine may have been too busy to let all of them run.
        for look in range(2):
            counts.append(self.written_at_once(tmp_path / f"{look}.db", journal))
            if max(counts[-1]) <= 5 * min(counts[-1]):
                return
        pytest.fail(f"a writer starves: {counts}")

    def written_at_once(self, path: Path, journal: str) -> list[int]:
        """How much each of four has written when all of them have written enough."""
        enough = 40
        with ExitStack() as others:
            running: list[OtherProcess] = [
                others.enter_context(start("keep_writing", path, f"w{number}", enough, journal))
                for number in range(4)
            ]
            for other in running:
                assert other.said() == "ready"
            for other in running:
                other.tell()
            for other in running:
                assert other.said() == "enough"
            for other in running:
                other.tell("stop")
            counts = [int(other.said()) for other in running]
            for other in running:
                other.succeeded()
        with open_store(path, journal=journal) as db:
            assert [len(contents(db, f"w{number}")) for number in range(4)] == counts
        require_sound(path)
        return counts

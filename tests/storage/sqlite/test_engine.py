"""The engine in one process: creation, threads, transactions, closing."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from hermes_sessions import InvalidInput, SessionDB, StoreClosed, StoreLocked
from hermes_sessions.storage.sqlite import migrations
from hermes_sessions.storage.sqlite.connection import SQLiteOptions
from hermes_sessions.storage.sqlite.engine import SQLiteEngine
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
from tests.storage.sqlite.programs import PATIENT

DOCUMENTED = {
    "sessions": [
        *("id source user_id model model_config system_prompt parent_session_id".split()),
        *("started_at ended_at end_reason message_count tool_call_count input_tokens".split()),
        *("output_tokens cache_read_tokens cache_write_tokens reasoning_tokens".split()),
        *("billing_provider billing_base_url billing_mode estimated_cost_usd".split()),
        *("actual_cost_usd cost_status cost_source pricing_version title".split()),
        *("api_call_count handoff_state handoff_platform handoff_error".split()),
    ],
    "messages": [
        *("id session_id role content tool_call_id tool_calls tool_name timestamp".split()),
        *("token_count finish_reason reasoning reasoning_content reasoning_details".split()),
        *("codex_reasoning_items codex_message_items".split()),
    ],
    "state_meta": ["key", "value"],
    "schema_version": ["version"],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def db(path: Path) -> Iterator[SessionDB]:
    with SessionDB(path, lock_timeout=PATIENT, durability="normal") as db:
        db.create_session("s", source="test")
        yield db


def engine_of(db: SessionDB) -> SQLiteEngine:
    assert isinstance(db.provider, SQLiteSessionDBProvider)
    return db.provider.engine


def set_user(name: str) -> Callable[[Any], None]:
    return lambda tx: tx.run("UPDATE sessions SET user_id = ? WHERE id = ?", (name, "s"))


def user_of(db: SessionDB) -> str | None:
    session = db.get_session("s")
    assert session is not None
    user: str | None = session["user_id"]
    return user


def descriptors_of(path: Path) -> list[str]:
    """The store's files that this process has open."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # The listing itself has one, which is gone by now.
            found.append(str(entry.readlink()))
    return sorted(target for target in found if target.startswith(str(path)))


@contextmanager
def writing(db: SessionDB) -> Iterator[None]:
    """Hold a write transaction open in another thread during the block, then commit it."""
    begun, release = threading.Event(), threading.Event()

    def work(tx: Any) -> None:
        set_user("writer")(tx)
        begun.set()
        release.wait()

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(db.provider.write, work)
        begun.wait()
        try:
            yield
        finally:
            release.set()
        result.result()


def leave_a_transaction_open(connection: apsw.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE sessions SET user_id = 'lost'")


class TestNewFile:
    """Behaviour 84, and what every connection is set to."""

    def test_tables_and_columns_have_the_documented_names(self, db: SessionDB) -> None:
        with db.provider.read() as tx:
            for table, columns in DOCUMENTED.items():
                found = [
                    row[0] for row in tx.all("SELECT name FROM pragma_table_info(?)", (table,))
                ]
                assert found[: len(columns)] == columns
            assert tx.all("SELECT version FROM schema_version") == [(11,)]
            ledger = [row[0] for row in tx.all("SELECT name FROM store_migrations")]
        assert ledger == [step.name for step in migrations.MIGRATIONS]

    def test_marks_and_settings_of_the_file(self, db: SessionDB) -> None:
        with engine_of(db).reading_connection() as connection:
            assert connection.pragma("application_id") == migrations.APPLICATION_ID
            assert connection.pragma("user_version") == migrations.WRITER_LEVEL
            assert connection.pragma("journal_mode") == "wal"
            assert connection.pragma("auto_vacuum") == 2

    def test_settings_of_the_connections(self, db: SessionDB) -> None:
        engine = engine_of(db)
        with engine.reading_connection() as connection:
            assert connection.pragma("foreign_keys") == 1
            with pytest.raises(apsw.ReadOnlyError):
                connection.execute("DELETE FROM sessions")
        assert engine.with_writer(lambda connection: connection.pragma("foreign_keys")) == 1

    def test_a_file_with_pages_but_no_tables_gains_incremental_vacuum(self, path: Path) -> None:
        other = apsw.Connection(str(path))
        other.execute("CREATE TABLE gone (x); DROP TABLE gone")
        other.close()
        with SessionDB(path) as db, engine_of(db).reading_connection() as connection:
            assert connection.pragma("auto_vacuum") == 2
            assert connection.pragma("journal_mode") == "wal"

    def test_everything_is_private(self, path: Path) -> None:
        deep = path.parent / "a" / "b" / "state.db"
        old = os.umask(0)
        try:
            with SessionDB(deep) as db:
                db.create_session("s", source="test")
                files = {one.name: one for one in deep.parent.iterdir()}
                assert set(files) == {"state.db", "state.db-wal", "state.db-shm", "state.db.gate"}
                for one in files.values():
                    assert stat.S_IMODE(one.stat().st_mode) == 0o600
        finally:
            os.umask(old)
        for directory in (deep.parent, deep.parent.parent):
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700

    def test_a_readable_store_is_made_private(self, path: Path) -> None:
        with SessionDB(path) as db:
            db.create_session("s", source="test")
        path.chmod(0o644)
        with SessionDB(path) as db:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            db.create_session("t", source="test")
            assert stat.S_IMODE(Path(f"{path}-wal").stat().st_mode) == 0o600

    @pytest.mark.parametrize("journal", ["wal", "delete"])
    def test_the_journal_is_a_setting(self, path: Path, journal: Any) -> None:
        for wanted in (journal, "auto", journal):
            provider = SQLiteSessionDBProvider(path, SQLiteOptions(journal=wanted))
            with provider.reading_connection() as connection:
                expected = "wal" if wanted == "auto" else wanted
                assert connection.pragma("journal_mode") == expected
            assert provider.describe()["journal"] == expected
            provider.close()

    def test_a_journal_in_use_by_others_stays(self, path: Path) -> None:
        with SessionDB(path) as db:
            db.create_session("s", source="test")
            # Another engine of this process stands for another process.
            with SessionDB(path, read_only=True) as reader:
                assert reader.session_count() == 1
                db.close()
                provider = SQLiteSessionDBProvider(path, SQLiteOptions(journal="delete"))
                with provider.reading_connection() as connection:
                    assert connection.pragma("journal_mode") == "wal"
                assert provider.describe()["journal"] == "wal"
                provider.close()


class TestThreads:
    def test_eight_threads_write_and_read_with_one_handle(self, db: SessionDB) -> None:
        for number in range(8):
            db.create_session(f"own {number}", source="test")

        def work(number: int) -> None:
            for count in range(15):
                db.append_message("s", role="user", content=f"{number} {count}")
                db.append_message(f"own {number}", role="user", content=str(count))
                assert len(db.get_messages(f"own {number}")) == count + 1

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        shared = [message["content"] for message in db.get_messages("s")]
        for number in range(8):
            mine = [text for text in shared if text.startswith(f"{number} ")]
            assert mine == [f"{number} {count}" for count in range(15)]

    def test_readers_do_not_wait_for_a_writer(self, db: SessionDB) -> None:
        with writing(db):
            assert user_of(db) is None
            with ThreadPoolExecutor(8) as pool:
                assert set(pool.map(user_of, [db] * 8)) == {None}
            # A handle that is opened meanwhile reads, too.
            with SessionDB(engine_of(db).path) as other:
                assert user_of(other) is None
        assert user_of(db) == "writer"

    def test_a_streaming_read_sees_one_state_while_others_write(self, db: SessionDB) -> None:
        for number in range(50):
            db.append_message("s", role="user", content=str(number))
        with db.provider.read() as tx:
            rows = tx.stream("SELECT content FROM messages ORDER BY ordinal")
            assert next(rows) == ("0",)
            for number in range(50, 100):
                db.append_message("s", role="user", content=str(number))
            assert [row[0] for row in rows] == [str(number) for number in range(1, 50)]
        assert len(db.get_messages("s")) == 100

    def test_a_writer_waits_for_another_thread_and_gives_up(self, db: SessionDB) -> None:
        with SessionDB(engine_of(db).path, lock_timeout=0.01) as hasty:
            with writing(db), pytest.raises(StoreLocked, match=r"another thread.*for 0\.01 s"):
                hasty.append_message("s", role="user", content="x")
            hasty.append_message("s", role="user", content="x")

    @pytest.mark.parametrize("where", ["file", ":memory:"])
    def test_a_write_inside_a_write_is_refused(self, where: str, path: Path) -> None:
        with SessionDB(path if where == "file" else where) as db:
            db.create_session("s", source="test")

            def work(tx: Any) -> None:
                set_user("outer")(tx)
                with pytest.raises(StoreLocked, match="already inside a write transaction"):
                    db.append_message("s", role="user", content="inner")

            db.provider.write(work)
            assert user_of(db) == "outer"
            assert db.get_messages("s") == []

    def test_a_read_inside_a_write_sees_what_is_committed(self, db: SessionDB) -> None:
        def work(tx: Any) -> str | None:
            set_user("outer")(tx)
            return user_of(db)

        assert db.provider.write(work) is None
        assert user_of(db) == "outer"

    def test_a_handle_may_be_opened_and_closed_inside_a_write(self, db: SessionDB) -> None:
        """Behind the write lock of the engine, and raising its durability."""
        with SessionDB(engine_of(db).path, durability="normal") as second:

            def work(tx: Any) -> None:
                set_user("outer")(tx)
                SessionDB(engine_of(db).path, durability="full").close()

            second.provider.write(work)
        assert user_of(db) == "outer"


class TestTransactions:
    """Behaviour 90, and everything that could leave a transaction open."""

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, sqlite3.OperationalError])
    def test_an_exception_undoes_the_work(self, db: SessionDB, error: type[Exception]) -> None:
        def work(tx: Any) -> None:
            set_user("lost")(tx)
            raise error("by the callback")

        with pytest.raises(error, match="by the callback"):
            db.provider.write(work)
        assert user_of(db) is None
        db.append_message("s", role="user", content="later")
        assert len(db.get_messages("s")) == 1

    def test_a_transaction_left_open_is_undone(self, db: SessionDB) -> None:
        engine_of(db).with_writer(leave_a_transaction_open)
        db.append_message("s", role="user", content="later")
        assert user_of(db) is None

    def test_a_transaction_left_open_in_memory_is_undone(self) -> None:
        with SessionDB(":memory:") as db:
            db.create_session("s", source="test")
            engine_of(db).with_writer(leave_a_transaction_open)
            db.append_message("s", role="user", content="later")
            assert user_of(db) is None

    def test_a_read_that_was_not_finished_does_not_freeze_later_ones(self, db: SessionDB) -> None:
        for number in range(3):
            db.append_message("s", role="user", content=str(number))
        with db.provider.read() as tx:
            unfinished = tx.stream("SELECT id FROM messages")
            next(unfinished)
        db.append_message("s", role="user", content="3")
        assert len(db.get_messages("s")) == 4
        with pytest.raises(apsw.Error):
            next(unfinished)

    def test_a_write_that_left_rows_unread_does_not_block_later_ones(
        self, db: SessionDB, path: Path
    ) -> None:
        for number in range(3):
            db.append_message("s", role="user", content=str(number))
        unread = []

        def work(tx: Any) -> None:
            unread.append(tx.stream("SELECT id FROM messages"))
            next(unread[0])
            set_user("first")(tx)

        db.provider.write(work)
        other = apsw.Connection(str(path))
        other.set_busy_timeout(60_000)  # For the thread that indexes.
        other.execute("UPDATE sessions SET user_id = 'other'")
        other.close()
        db.append_message("s", role="user", content="3")
        assert user_of(db) == "other"

    def test_no_thread_for_checkpoints_denies_no_commit(
        self, db: SessionDB, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(self: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refuse)
        db.append_message("s", role="user", content="x" * 7_000_000)
        db.append_message("s", role="user", content="later")
        assert len(db.get_messages("s")) == 2


class TestEnd:
    def test_the_last_of_several_handles_closes_the_files(self, db: SessionDB, path: Path) -> None:
        with SessionDB(str(path)) as second:
            assert engine_of(second) is engine_of(db)
            db.append_message("s", role="user", content="x")
            db.close()
            db.close()
            assert len(second.get_messages("s")) == 1
            assert descriptors_of(path)
        assert descriptors_of(path) == []
        assert not Path(f"{path}-wal").exists()

    def test_a_handle_closed_by_two_threads_counts_once(self, db: SessionDB, path: Path) -> None:
        for _ in range(20):
            other = SessionDB(path)
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda _: other.close(), range(2)))  # noqa: B023
        db.append_message("s", role="user", content="still open")

    def test_closing_while_a_thread_writes_waits_for_nothing(
        self, db: SessionDB, path: Path
    ) -> None:
        with writing(db):
            db.close()
            with pytest.raises(StoreClosed):
                user_of(db)
            # The write is still running, so the file is still in use; a new handle is welcome.
            with SessionDB(path) as again:
                assert user_of(again) is None
        assert descriptors_of(path) == []
        with SessionDB(path) as again:
            assert user_of(again) == "writer"

    def test_a_thread_that_waited_finds_the_store_closed(self, db: SessionDB, path: Path) -> None:
        engine = engine_of(db)
        waiting = threading.Event()
        lock = engine._write_lock

        class Announced:
            """The lock of the engine, which reports when a thread starts to wait for it."""

            def acquire(self, *args: Any, **kwargs: Any) -> bool:
                waiting.set()
                return lock.acquire(*args, **kwargs)

            def release(self) -> None:
                lock.release()

        with ThreadPoolExecutor(1) as pool:
            with writing(db):
                engine._write_lock = Announced()  # type: ignore[assignment]
                late = pool.submit(engine.write, set_user("late"), PATIENT)
                waiting.wait()
                db.close()
            with pytest.raises(StoreClosed):
                late.result()
        assert descriptors_of(path) == []

    def test_a_closed_store_in_memory_is_not_reopened(self) -> None:
        db = SessionDB(":memory:")
        db.create_session("s", source="test")
        engine = engine_of(db)
        begun = threading.Event()

        def read() -> None:
            begun.set()
            with engine.read():
                pass

        with ThreadPoolExecutor(1) as pool, engine._write_lock:
            late = pool.submit(read)
            begun.wait()
            db.close()
        with pytest.raises(StoreClosed):
            late.result()

    def test_closing_inside_a_write_commits_it(self, db: SessionDB, path: Path) -> None:
        def work(tx: Any) -> None:
            set_user("last")(tx)
            db.close()

        db.provider.write(work)
        assert descriptors_of(path) == []
        with SessionDB(path) as again:
            assert user_of(again) == "last"

    def test_closing_inside_a_read_lets_it_finish(self, db: SessionDB, path: Path) -> None:
        for number in range(3):
            db.append_message("s", role="user", content=str(number))
        with db.provider.read() as tx:
            rows = tx.stream("SELECT content FROM messages ORDER BY ordinal")
            assert next(rows) == ("0",)
            db.close()
            assert [row[0] for row in rows] == ["1", "2"]
        assert descriptors_of(path) == []

    def test_descriptors_and_threads_do_not_pile_up(self, path: Path) -> None:
        threads = threading.active_count()
        for _ in range(5):
            with SessionDB(path, durability="normal") as db:
                db.create_session("s", source="test")
                # Enough to start the thread that copies the log.
                db.append_message("s", role="user", content="x" * 6_000_000)
                with ThreadPoolExecutor(12) as pool:
                    list(pool.map(lambda _: db.session_count(), range(24)))
            assert descriptors_of(path) == []
            assert threading.active_count() == threads

    def test_a_refused_file_is_not_kept_open(self, path: Path) -> None:
        path.write_bytes(b"no database at all, but longer than a header of one" * 20)
        with pytest.raises(sqlite3.DatabaseError) as kept:
            SessionDB(path)
        assert kept.value is not None
        assert descriptors_of(path) == []


@pytest.mark.parametrize(
    "use",
    [
        lambda db, value: db.get_session_title(value),
        lambda db, value: db.list_sessions_rich(source=value),
        lambda db, value: list(db.iter_export(value)),
        lambda db, value: db.update_system_prompt("s", value),
        lambda db, value: db.update_session_model("s", value),
    ],
)
@pytest.mark.parametrize("value", [2**64, ["s"], object()], ids=["number", "list", "object"])
def test_values_that_no_column_takes_are_refused(
    tmp_path: Path, use: Callable[[SessionDB, Any], object], value: Any
) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        db.create_session("s", "cli")
        with pytest.raises(InvalidInput, match="A value cannot be used"):
            use(db, value)
        assert db.get_session("s") is not None

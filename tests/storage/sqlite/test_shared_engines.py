"""Several handles on one file in one process, by any path, and files that disappear."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hermes_sessions import (
    InvalidInput,
    SessionDB,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnreachable,
)
from hermes_sessions.storage.sqlite.connection import SQLiteOptions
from hermes_sessions.storage.sqlite.engine import SQLiteEngine
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
from hermes_sessions.storage.sqlite.shared_engines import shared_engines
from tests.storage.sqlite.integrity import require_sound
from tests.storage.sqlite.other_process import start
from tests.storage.sqlite.programs import PATIENT


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def db(path: Path) -> Iterator[SessionDB]:
    with SessionDB(path, lock_timeout=PATIENT) as db:
        db.create_session("s", source="test")
        yield db


def engine_of(db: SessionDB) -> SQLiteEngine:
    assert isinstance(db.provider, SQLiteSessionDBProvider)
    return db.provider.engine


def synchronous_of(db: SessionDB) -> int:
    return int(engine_of(db).with_writer(lambda connection: connection.pragma("synchronous")))


class TestNames:
    def test_text_and_path_are_the_same_file(self, db: SessionDB, path: Path) -> None:
        with SessionDB(str(path)) as other:
            assert engine_of(other) is engine_of(db)

    def test_a_link_is_the_same_file(self, db: SessionDB, path: Path) -> None:
        link = path.with_name("link.db")
        link.symlink_to(path)
        directory = path.parent / "directory"
        directory.symlink_to(path.parent, target_is_directory=True)
        for name in (link, directory / "state.db", path.parent / "x" / ".." / "state.db"):
            with SessionDB(name) as other:
                assert engine_of(other) is engine_of(db)

    def test_a_relative_path_survives_a_change_of_directory(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(path.parent)
        with SessionDB("state.db") as db:
            monkeypatch.chdir("/")
            db.create_session("s", source="test")
            assert db.session_count() == 1
        assert path.exists()

    def test_a_link_to_a_file_that_does_not_exist_yet_creates_it(self, path: Path) -> None:
        target = path.parent / "data" / "real.db"
        path.symlink_to(target)
        with SessionDB(path) as db:
            db.create_session("s", source="test")
            assert Path(f"{target}-wal").exists()
        assert target.is_file()
        assert path.is_symlink()

    def test_a_link_that_leads_nowhere_is_refused(self, path: Path) -> None:
        path.symlink_to(path)
        with pytest.raises(StoreUnreachable, match="is a broken link"):
            SessionDB(path)

    @pytest.mark.parametrize("name", ["50% off?.db", "#1 & more.db", "ünïcödé 数.db", "a\nb.db"])
    def test_any_name_will_do(self, path: Path, name: str) -> None:
        with SessionDB(path.with_name(name)) as db:
            db.create_session("s", source="test")
        assert path.with_name(name).stat().st_size > 0

    def test_a_name_that_is_not_a_str_is_accepted(self, path: Path) -> None:
        name = path.with_name("caf\udce9.db")
        with SessionDB(name) as db:
            db.create_session("s", source="test")
        assert name.stat().st_size > 0

    @pytest.mark.parametrize("url", ["postgresql://h/db", "sqlite:///x.db", "mysql://u:p@h/db"])
    def test_a_url_is_refused(self, url: str) -> None:
        with pytest.raises(InvalidInput, match="from_url"):
            SessionDB(url)

    def test_a_name_with_nul_is_refused(self, path: Path) -> None:
        with pytest.raises(InvalidInput, match="NUL"):
            SessionDB(f"{path}\0")

    @pytest.mark.parametrize("timeout", [-1.0, float("inf"), float("nan")])
    def test_a_timeout_that_is_none_is_refused(self, path: Path, timeout: float) -> None:
        with pytest.raises(InvalidInput, match="lock_timeout"):
            SessionDB(path, lock_timeout=timeout)
        assert not path.exists()

    def test_each_store_in_memory_is_its_own(self) -> None:
        with SessionDB(":memory:") as one, SessionDB(Path(":memory:")) as other:
            one.create_session("s", source="test")
            assert one.session_count() == 1
            assert other.session_count() == 0
        assert not Path(":memory:").exists()


class TestSettings:
    def test_the_strictest_durability_counts(self, path: Path) -> None:
        extra, normal = 3, 1
        with SessionDB(path, durability="normal") as relaxed:
            assert synchronous_of(relaxed) == normal
            with SessionDB(path, durability="full") as strict:
                assert synchronous_of(strict) == extra
            assert synchronous_of(relaxed) == extra
            assert relaxed.describe()["durability"] == "full"
        with SessionDB(path) as strict, SessionDB(path, durability="normal") as relaxed:
            assert synchronous_of(relaxed) == extra
            assert strict.describe()["durability"] == "full"

    def test_normal_durability_with_a_rollback_journal_spares_no_file(self, path: Path) -> None:
        full = 2
        options = SQLiteOptions(durability="normal", journal="delete")
        with SessionDB(provider=SQLiteSessionDBProvider(path, options)) as db:
            assert synchronous_of(db) == full

    def test_each_handle_waits_as_long_as_it_wants(self, db: SessionDB, path: Path) -> None:
        with SessionDB(path, lock_timeout=0.01) as hasty:
            assert engine_of(hasty) is engine_of(db)
            with start("hold_write_lock", path) as holder:
                assert holder.said() == "held"
                with pytest.raises(StoreLocked, match=r"0\.01 s"):
                    hasty.append_message("s", role="user", content="x")
                with ThreadPoolExecutor(1) as pool:
                    patient = pool.submit(db.append_message, "s", role="user", content="y")
                    holder.tell("commit")
                    patient.result()
                holder.succeeded()

    def test_a_read_only_handle_refuses_to_write(self, db: SessionDB, path: Path) -> None:
        """Behaviour 102."""
        with SessionDB(path, read_only=True) as reader:
            assert reader.session_count() == 1
            for write in (
                lambda: reader.create_session("t", source="test"),
                lambda: reader.append_message("s", role="user", content="x"),
                lambda: reader.set_meta("k", "v"),
                reader.vacuum,
            ):
                with pytest.raises(StoreReadOnly, match="readonly"):
                    write()
            db.append_message("s", role="user", content="x")
            assert len(reader.get_messages("s")) == 1

    def test_a_read_only_handle_reads_what_a_killed_process_left(self, path: Path) -> None:
        with start("append_for_ever", path, "wal", "full") as other:
            other.tell("0")
            for number in range(5):
                assert other.said() == str(number)
            other.kill()
        with SessionDB(path, read_only=True) as reader:
            assert len(reader.get_messages("s")) >= 5

    def test_a_read_only_handle_creates_nothing(self, path: Path) -> None:
        with pytest.raises(StoreUnreachable, match="does not exist"):
            SessionDB(path.parent / "no" / "state.db", read_only=True)
        assert list(path.parent.iterdir()) == []

    def test_opening_one_file_does_not_wait_for_another(self, path: Path) -> None:
        begun, release = threading.Event(), threading.Event()

        def occupy() -> None:
            with shared_engines._one_opener(str(path), PATIENT):
                begun.set()
                release.wait()

        with ThreadPoolExecutor(1) as pool:
            occupied = pool.submit(occupy)
            begun.wait()
            try:
                SessionDB(path.with_name("other.db")).close()
                with pytest.raises(StoreLocked, match="another thread of this process"):
                    SessionDB(path, lock_timeout=0.01)
            finally:
                release.set()
            occupied.result()
        SessionDB(path).close()

    def test_many_threads_open_a_new_file(self, path: Path) -> None:
        with ThreadPoolExecutor(12) as pool:
            handles = list(pool.map(lambda _: SessionDB(path), range(12)))
        assert len({engine_of(handle) for handle in handles}) == 1
        for handle in handles:
            handle.close()


class TestFilesThatGoAway:
    @pytest.mark.parametrize("fate", ["removed", "moved", "replaced"])
    def test_it_is_noticed(self, db: SessionDB, path: Path, fate: str) -> None:
        if fate == "removed":
            path.unlink()
        elif fate == "moved":
            path.rename(path.with_name("elsewhere.db"))
        else:
            with SessionDB(path.with_name("new.db")) as new:
                new.create_session("new", source="test")
            path.with_name("new.db").rename(path)
        for use in (lambda: db.get_session("s"), lambda: db.create_session("t", source="test")):
            with pytest.raises(StoreUnavailable, match="removed or replaced"):
                use()
        db.close()
        with SessionDB(path) as again:
            assert again.session_count() == (1 if fate == "replaced" else 0)

    def test_a_log_that_was_left_behind_is_kept_for_its_store(
        self, db: SessionDB, path: Path
    ) -> None:
        db.append_message("s", role="user", content="in the log alone")
        moved = path.with_name("elsewhere.db")
        path.rename(moved)
        db.close()
        with SessionDB(path) as new:
            assert new.session_count() == 0
        [log] = path.parent.glob(f"{path.name}.left-*-wal")
        log.rename(moved.with_name(f"{moved.name}-wal"))
        with SessionDB(moved) as old:
            assert [m["content"] for m in old.get_messages("s")] == ["in the log alone"]
        require_sound(moved)

    def test_a_new_store_of_that_name_is_left_alone(self, db: SessionDB, path: Path) -> None:
        """Closing the old file must not take the new one's log with it."""
        for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            name.unlink()
        with start("hold_store", path) as other:
            assert other.said() == "open"
            with SessionDB(path, lock_timeout=PATIENT) as again:
                again.append_message("held", role="user", content="in the new log")
                db.close()
                assert Path(f"{path}-wal").stat().st_size > 0
            other.tell()
            assert other.succeeded() == ["1"]
        require_sound(path)

    def test_a_handle_opened_meanwhile_gets_the_new_file(self, db: SessionDB, path: Path) -> None:
        for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            name.unlink()
        with SessionDB(path) as new, SessionDB(path) as another:
            assert engine_of(new) is not engine_of(db)
            assert engine_of(another) is engine_of(new)
            new.create_session("new", source="test")
            assert [row["id"] for row in another.list_sessions_rich()] == ["new"]

    def test_size_of_a_removed_file(self, db: SessionDB, path: Path) -> None:
        path.unlink()
        with pytest.raises(StoreUnavailable, match="cannot be measured"):
            db.provider.size_bytes()


def test_options_are_checked_before_anything_is_opened(path: Path) -> None:
    with pytest.raises(InvalidInput):
        SQLiteSessionDBProvider(path, SQLiteOptions(lock_timeout=0))

"""A locked, half-built or concurrently built search index blocks nothing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.search import background_indexer, index_maintenance
from hermes_sessions.storage.search.candidate_reader import TAIL
from hermes_sessions.text.token_encoder import EncodedText, document
from tests.storage.sqlite.index_helpers import (
    HeldAnalysis,
    append,
    change,
    found,
    import_elsewhere,
    index_nothing_unasked,
    require_sound_index,
)
from tests.storage.sqlite.integrity import require_sound
from tests.storage.sqlite.other_process import start
from tests.storage.sqlite.programs import open_store


@pytest.fixture
def index_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    index_nothing_unasked(monkeypatch)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def db(path: Path) -> Iterator[SessionDB]:
    with SessionDB(path, durability="normal") as db:
        db.create_session("s", source="cli")
        yield db


# ── another process is writing ─────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("index_only_when_asked")
def test_a_search_does_not_wait_for_a_writer(path: Path) -> None:
    """It looks at what it could not index, and says how much that was."""
    # Who waited as long as a write does would be stopped by the timeout of the test.
    with open_store(path, lock_timeout=3_600.0) as db:
        db.create_session("s", source="cli")
        before = append(db, "a walrus")
        assert found(db, "walrus") == before
        after = append(db, "a walrus, too")
        with start("hold_write_lock", path) as writer:
            assert writer.said() == "held"
            answer = db.search("walrus", relax=False)
            assert sorted(hit.id for hit in answer.hits) == before + after
            assert answer.report.not_indexed == 1
            assert answer.report.complete
            assert not db.search_index_status()["complete"]
            writer.tell()
            writer.succeeded()
        answer = db.search("walrus", relax=False)
        assert answer.report.not_indexed == 0
        assert db.search_index_status()["complete"]


@pytest.mark.usefixtures("index_only_when_asked")
def test_too_many_messages_to_scan_during_a_write(path: Path) -> None:
    with open_store(path) as db:
        db.create_session("s", source="cli")
        import_elsewhere(path, TAIL + 1)
        with start("hold_write_lock", path) as writer:
            assert writer.said() == "held"
            answer = db.search(f"imported {TAIL + 1}", relax=False)
            assert len(answer.hits) == 1
            assert not answer.report.complete
            assert not answer.report.total_is_exact
            assert answer.report.not_indexed == TAIL + 1
            assert f"{TAIL + 1:,} messages" in " ".join(answer.report.notes)
            writer.tell()
            writer.succeeded()
        # One search does not index all of it, the next one has the rest.
        assert db.search("imported 1", relax=False).report.complete
        assert len(found(db, "imported")) == TAIL + 1
        require_sound_index(db)


def test_writes_do_not_wait_for_indexing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are analysed before the store is locked, however long that takes."""
    with open_store(path, lock_timeout=60.0) as db:
        analysis = HeldAnalysis(monkeypatch)
        db.create_session("s", source="cli")
        append(db, "a walrus")
        analysis.wait()
        append(db, "a second walrus")
        analysis.allow(1)
        # The first is stored before the second is analysed, and nothing is analysed twice.
        analysis.wait()
        append(db, "a third walrus")
        assert len(db.get_messages("s")) == 3
        db.delete_session("s")
        analysis.allow()
        assert found(db, "walrus") == []


# ── several at once ───────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("index_only_when_asked")
def test_four_processes_index(db: SessionDB, path: Path) -> None:
    """Each message is indexed once, by one of them."""
    import_elsewhere(path, 1_200)
    with ExitStack() as stack:
        builders = [stack.enter_context(start("build_index", path)) for _ in range(4)]
        assert [builder.said() for builder in builders] == ["ready"] * 4
        for builder in builders:
            builder.tell()
        assert sum(int(builder.succeeded()[0]) for builder in builders) == 1_200
    require_sound_index(db)
    assert len(found(db, "imported")) == 1_200


@pytest.mark.usefixtures("index_only_when_asked")
def test_four_threads_index(db: SessionDB, path: Path) -> None:
    import_elsewhere(path, 600)

    def build(_: int) -> int:
        with open_store(path, durability="normal") as another:
            return int(another.optimize_search()["indexed"])

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(build, range(4))) == 600
    require_sound_index(db)
    assert len(found(db, "imported")) == 600


@pytest.mark.usefixtures("index_only_when_asked")
def test_messages_change_while_they_are_indexed(
    db: SessionDB, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the analysis of a text and the moment at which it is stored."""
    ids = append(db, "a walrus", "a badger", "an otter")

    def encode_and_change(texts: Sequence[str]) -> EncodedText:
        tokens = document(texts)
        monkeypatch.setattr(index_maintenance, "document", document)
        change(
            path,
            f"UPDATE messages SET content = 'a narwhal' WHERE id = {ids[0]}",
            f"DELETE FROM messages WHERE id = {ids[1]}",
        )
        return tokens

    monkeypatch.setattr(index_maintenance, "document", encode_and_change)
    assert found(db, "walrus OR badger") == []
    assert found(db, "narwhal OR otter") == [ids[0], ids[2]]
    require_sound_index(db)


@pytest.mark.slow
@pytest.mark.fault(
    "Killed while the search index is written",
    "No message is lost; the search finds everything",
    on="sqlite",
)
def test_killed_while_indexing(path: Path, long_run: bool) -> None:
    """At any point of its work: the file is sound, the rest is indexed, and nothing is lost."""
    with SessionDB(path) as db:
        db.create_session("s", source="test")
    import_elsewhere(path, 250)
    acknowledged: list[int] = []
    for kill in range(60 if long_run else 10):
        with start("build_index_for_ever", path) as builder:
            builder.tell(str(len(acknowledged) + 1_000))
            said = [builder.said() for _ in range(3 + kill * 97 % 540)]
            builder.kill()
            said += builder.all_it_says()
        acknowledged += [int(line.split()[1]) for line in said if line.startswith("stored")]
        with SessionDB(path) as db:
            numbers = [
                int(message["content"].removeprefix("stored "))
                for message in db.get_messages("s")
                if message["content"].startswith("stored")
            ]
            # One may have been stored and not been said.
            assert numbers[: len(acknowledged)] == acknowledged
            assert len(numbers) <= len(acknowledged) + 1
            assert len(found(db, "stored")) == len(numbers)
            assert len(found(db, "imported")) == 250
            assert [len(found(db, f'"stored {number}"')) for number in numbers[-3:]] == [
                1 for _ in numbers[-3:]
            ]
            require_sound_index(db)
        acknowledged = numbers
        require_sound(path)


# ── the thread that indexes ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("program", ["fork_while_indexing", "fork_while_waiting"])
def test_fork_with_a_thread_that_indexes(path: Path, program: str) -> None:
    start(program, path).succeeded()
    require_sound(path)


def test_a_program_that_closes_nothing(path: Path) -> None:
    """It ends, and the next handle finds everything."""
    start("leave_without_closing", path).succeeded()
    with SessionDB(path) as db:
        assert len(found(db, "left")) == 600
        require_sound_index(db)
    require_sound(path)


def thread_of(db: SessionDB) -> Thread:
    thread = db._background_indexer._thread
    assert thread is not None
    return thread


@pytest.mark.usefixtures("index_only_when_asked")
def test_close_does_not_make_others_wait_who_write(path: Path) -> None:
    with open_store(path) as db:
        db.create_session("s", source="cli")
        append(db, "a walrus")
        with start("hold_gate", path) as other:
            assert other.said() == "inside"
            db.close()
            db.close()
    with SessionDB(path, read_only=True) as reader:
        assert not reader.search_index_status()["complete"]
        assert found(reader, "walrus") == [1]


def test_close_ends_the_thread(db: SessionDB, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_indexer, "LINGER_SECONDS", 3_600.0)
    ids = append(db, "a walrus")
    thread = thread_of(db)
    db.close()
    assert not thread.is_alive()
    with SessionDB(path, read_only=True) as reader:
        # And has done what was left to do.
        assert reader.search_index_status()["complete"]
        assert found(reader, "walrus") == ids


def test_the_thread_indexes_and_ends(db: SessionDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing asks for it: neither a search nor `close`."""
    monkeypatch.setattr(background_indexer, "LINGER_SECONDS", 0.0)
    analysis = HeldAnalysis(monkeypatch)
    for text in ("a walrus", "a badger"):
        append(db, text)
        thread = thread_of(db)
        analysis.allow(1)
        thread.join()
        assert db.search_index_status()["complete"]


def test_an_unclosed_handle(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_indexer, "LINGER_SECONDS", 0.0)
    analysis = HeldAnalysis(monkeypatch)
    forgotten = SessionDB(path)
    forgotten.create_session("s", source="cli")
    append(forgotten, "a walrus")
    thread = thread_of(forgotten)
    analysis.allow(1)
    thread.join()
    provider, reference = forgotten.provider, weakref.ref(forgotten)
    del forgotten, thread
    gc.collect()
    assert reference() is None
    provider.close()


def test_the_thread_cannot_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives up, and the next message is reason enough to try again."""
    monkeypatch.setattr(background_indexer, "LINGER_SECONDS", 0.0)
    with open_store(path) as db:
        analysis = HeldAnalysis(monkeypatch)
        db.create_session("s", source="cli")
        append(db, "a walrus")
        thread = thread_of(db)
        analysis.wait()
        with start("hold_write_lock", path) as writer:
            assert writer.said() == "held"
            analysis.allow(1)
            thread.join()
            assert not db.search_index_status()["complete"]
            writer.tell()
            writer.succeeded()
        append(db, "a second walrus")
        thread = thread_of(db)
        analysis.allow(2)
        thread.join()
        assert db.search_index_status() == {"complete": True, "pending": 0, "indexed_through": 2}

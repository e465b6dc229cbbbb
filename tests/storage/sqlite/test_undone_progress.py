"""Work in steps ends although another program undoes every step, as its triggers do here."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.care.erasure.scrubbing import scrub
from hermes_sessions.storage.searching import keeper
from hermes_sessions.storage.searching.keeper import Keeper
from tests.storage.sqlite.indexing import append, change, index_nothing_unasked

pytestmark = pytest.mark.timeout(120)

_UNDO_STATE = "CREATE TRIGGER undo AFTER INSERT ON search_state BEGIN DELETE FROM search_state; END"
_UNDO_MARK = (
    "CREATE TRIGGER undo AFTER UPDATE OF indexed_through ON search_state "
    "WHEN NEW.indexed_through > 0 BEGIN UPDATE search_state SET indexed_through = 0; END"
)
_UNDO_QUEUE = (
    "CREATE TRIGGER undo AFTER DELETE ON search_queue "
    "BEGIN INSERT INTO search_queue (message_id) VALUES (OLD.message_id); END"
)
_UNDO_TITLES = (
    "CREATE TRIGGER undo AFTER UPDATE OF stale ON search_titles WHEN NEW.stale = 0 "
    "BEGIN UPDATE search_titles SET stale = 1; END"
)
#: By what is undone: how.
INDEXING = {
    "state": ("DELETE FROM search_state", _UNDO_STATE),
    "mark": (_UNDO_MARK,),
    "queue": ("INSERT INTO search_queue (message_id) SELECT id FROM messages", _UNDO_QUEUE),
    "titles": ("UPDATE search_titles SET stale = 1", _UNDO_TITLES),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def db(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionDB]:
    index_nothing_unasked(monkeypatch)
    with SessionDB(path, durability="normal") as db:
        db.create_session("s", source="cli")
        db.set_session_title("s", "plums")
        append(db, "a plum", "a pear")
        yield db


# ── the search index ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("undone", INDEXING)
@pytest.mark.parametrize(
    "work",
    [
        SessionDB.close,
        SessionDB.optimize_search,
        lambda db: db.optimize_search(rebuild=True),
        lambda db: db.search("plum"),
    ],
    ids=["close", "optimize", "rebuild", "search"],
)
@pytest.mark.fault(
    "Another program undoes what is written to the search index",
    "Closing, optimizing and searching come to an end, and what was stored is found",
    on="sqlite",
)
def test_indexing_that_is_undone_ends(
    db: SessionDB,
    path: Path,
    undone: str,
    work: Callable[[SessionDB], object],
    caplog: pytest.LogCaptureFixture,
) -> None:
    change(path, *INDEXING[undone])
    with caplog.at_level(logging.INFO):
        work(db)
    if work is SessionDB.optimize_search:
        assert "Another program undoes the work" in caplog.text
    db.close()
    change(path, "DROP TRIGGER undo")
    with SessionDB(path) as again:
        assert [hit.ordinal for hit in again.search("plum", relax=False).hits][:1] == [1]
        again.optimize_search()
        assert again.search_index_status()["complete"]


def test_scrubbing_says_that_the_index_could_not_be_brought_up_to_date(
    db: SessionDB, path: Path
) -> None:
    change(path, *INDEXING["queue"])
    (index, _files) = scrub(db.store)
    assert index.status == "pending"


def test_a_background_thread_that_does_not_end_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun, released = threading.Event(), threading.Event()

    def work(_is_stopping: Callable[[], bool]) -> None:
        begun.set()
        released.wait(100)

    monkeypatch.setattr(keeper, "IDLE", 0.0)
    monkeypatch.setattr(keeper, "LONGEST_STEP", 0.01)
    kept = Keeper(work)
    kept.notice(1)
    assert begun.wait(60)
    assert kept.stop()
    assert "does not end" in caplog.text
    released.set()

"""Work in steps ends even if another program's triggers undo every step."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.storage.care.erasure.row_removal import scrub
from hermes_sessions.storage.repositories.mailbox import Mailbox
from hermes_sessions.storage.repositories.outbox import Outbox
from hermes_sessions.storage.repositories.turns import TurnRecovery
from hermes_sessions.storage.search import background_indexer
from hermes_sessions.storage.search.background_indexer import BackgroundIndexer
from hermes_sessions.storage.session_copy.parents import place_all_conversations
from hermes_sessions.storage.sqlite import opener, wal_files
from tests.storage.sqlite.index_helpers import append, change, index_nothing_unasked

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

    monkeypatch.setattr(background_indexer, "IDLE_SECONDS", 0.0)
    kept = BackgroundIndexer(work)
    kept.notify(1)
    assert begun.wait(60)
    # A thread that still works may hold the index: its work is not for the caller.
    assert not kept.stop(seconds=0.01)
    assert "did not end within" in caplog.text
    released.set()


# ── deleting in steps ─────────────────────────────────────────────────────────────────────────


#: By table: a row that is to be forgotten, and what forgets it.
OLD = {
    "mailbox": (
        "lane_id, kind, status, received_at, finished_at",
        "1, 'message', 'done', 0, 1",
        lambda db: Mailbox(db.store).forget("bot", 2.0, batch=1),
    ),
    "outbox": (
        "namespace, platform, chat_hash, target, text, status, next_at, created_at, finished_at",
        "'bot', 'local', 'h', '{}', 'hello', 'sent', 0, 0, 1",
        lambda db: Outbox(db.store, "bot").forget(2.0, batch=1),
    ),
    "turns": (
        "process_id, lane_id, chain_id, session_id, token, started_at, ended_at",
        "'p', 1, 's', 's', 1, 0, 1",
        lambda db: TurnRecovery(db.store).forget("bot", 2.0, batch=1),
    ),
    "processes": (
        "id, namespace, host, pid, started_at, heartbeat_at, ended_at",
        "'p' || random(), 'bot', 'h', 1, 0, 0, 1",
        lambda db: TurnRecovery(db.store).forget("bot", 2.0, batch=1),
    ),
}


def undo_deletion(db: SessionDB, table: str) -> str:
    """Return a trigger that stores again what is deleted from a table."""
    with db.provider.read() as tx:
        columns = [
            f'"{row[0]}"' for row in tx.all(f"SELECT name FROM pragma_table_info('{table}')")
        ]
    return (
        f"CREATE TRIGGER undo AFTER DELETE ON {table} BEGIN INSERT INTO {table} "
        f"({', '.join(columns)}) VALUES ({', '.join(f'OLD.{each}' for each in columns)}); END"
    )


@pytest.mark.parametrize("table", OLD)
def test_forgetting_that_is_undone_ends(
    db: SessionDB, path: Path, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    columns, values, forget = OLD[table]
    insert = f"INSERT INTO {table} ({columns}) VALUES ({values})"
    change(path, *[insert] * 3, undo_deletion(db, table))
    assert forget(db)
    assert "Another program undoes the work" in caplog.text
    change(path, "DROP TRIGGER undo")
    assert forget(db) == 3


def test_deleting_that_is_undone_ends(
    db: SessionDB, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    db.trash_sessions(["s"])
    change(path, undo_deletion(db, "sessions"))
    db.purge_trash(0)
    assert "Another program undoes the work" in caplog.text
    change(path, "DROP TRIGGER undo")
    assert db.delete_session("s") is False
    db.prune_sessions(0)
    with db.provider.read() as tx:
        assert tx.one("SELECT COUNT(*) FROM sessions") == (0,)


def test_giving_space_back_that_is_used_again_ends(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(db.provider), "trim", lambda _self: 4096)
    assert db.trim() >= db.provider.size_bytes()


# ── looking again until nothing changes ───────────────────────────────────────────────────────


def test_a_lease_that_others_remove_is_given_up(db: SessionDB, path: Path) -> None:
    change(
        path,
        "CREATE TRIGGER undo AFTER INSERT ON leases BEGIN DELETE FROM leases; END",
    )
    with pytest.raises(StoreUnavailable, match="Another program keeps changing the lease"):
        db.take_lease("s", "me")
    change(path, "DROP TRIGGER undo")
    assert db.take_lease("s", "me").session_id == "s"


def test_sessions_that_are_their_own_ancestors_are_joined(db: SessionDB, path: Path) -> None:
    db.create_session("t", source="cli", parent_session_id="s")
    change(
        path,
        "UPDATE sessions SET parent_session_id = 't' WHERE id = 's'",
        "UPDATE sessions SET conversation_id = id",
    )
    place_all_conversations(db.provider)
    with db.provider.read() as tx:
        assert len(tx.all("SELECT DISTINCT conversation_id FROM sessions")) == 1


def test_joining_that_is_undone_ends(
    db: SessionDB, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of two sessions, one or both are found apart in turn."""
    db.create_session("t", source="cli", parent_session_id="s")
    db.create_session("u", source="cli", parent_session_id="s")
    change(
        path,
        "UPDATE sessions SET conversation_id = id WHERE id = 't'",
        "CREATE TABLE turn (number)",
        "INSERT INTO turn VALUES (0)",
        "CREATE TRIGGER undo AFTER UPDATE OF conversation_id ON sessions WHEN NEW.id = 't' BEGIN "
        "UPDATE turn SET number = 1 - number; UPDATE sessions SET conversation_id = CASE WHEN "
        "id = 't' OR (SELECT number FROM turn) THEN id ELSE 's' END WHERE id IN ('t', 'u'); END",
    )
    place_all_conversations(db.provider)
    assert "Another program undoes the work" in caplog.text


def test_a_file_that_is_never_marked_is_given_up(
    db: SessionDB, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.close()
    change(path, "PRAGMA application_id = 0")
    with monkeypatch.context() as patch:
        patch.setattr(opener, "_mark", lambda _connection: None)  # As if it were undone at once.
        with pytest.raises(StoreUnavailable, match="another program reverts it"):
            SessionDB(path)
    with SessionDB(path) as again:
        assert again.get_session("s") is not None


def test_a_log_that_is_begun_again_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_file = tmp_path / "state.db-wal"
    log_file.write_bytes(bytes(32))

    def inspected(file: BinaryIO, _go_on: Callable[[], None]) -> wal_files.WalState:
        log_file.write_bytes(os.urandom(32))
        del file
        return wal_files.WalState(frames=1, is_header_damaged=True)

    monkeypatch.setattr(wal_files, "_inspected", inspected)
    assert not wal_files.inspect_wal(log_file).drops_commits

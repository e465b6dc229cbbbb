"""A PostgreSQL server with a synchronous standby: nothing is acknowledged that it does not have."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import StoreUnavailable
from tests.servers.server_processes import (
    Server,
    postgresql_url,
    start_postgresql,
    start_synchronous_standby,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

WRITES: dict[str, Callable[[SessionDB, str], object]] = {
    "append": lambda db, text: db.append_message("s", "user", text),
    "transaction": lambda db, text: db.append_messages("s", [{"role": "user", "content": text}]),
}


class Pair(NamedTuple):
    """Two servers; the second has everything that the first one acknowledges."""

    primary: Server
    standby: Server

    @property
    def url(self) -> str:
        """Whichever of them takes writes."""
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self)
        return f"postgresql://hermes@{hosts}/postgres"

    @contextmanager
    def on_primary(self) -> Iterator[Any]:
        import psycopg

        with psycopg.connect(postgresql_url(self.primary), autocommit=True) as connection:
            yield connection

    def stop_standby(self) -> None:
        """Kill the standby; return when the server knows that nothing acknowledges its commits."""
        self.standby.stop(signal.SIGKILL)
        with self.on_primary() as connection:
            # Its receiver may live on for a moment.
            while connection.execute("SELECT 1 FROM pg_stat_replication").fetchone():
                pass


@pytest.fixture
def pair() -> Iterator[Pair]:
    primary = start_postgresql()
    try:
        standby = start_synchronous_standby(primary)
        try:
            yield Pair(primary, standby)
        finally:
            standby.destroy()
    finally:
        primary.destroy()


def texts_of(db: SessionDB) -> list[str]:
    return [message["content"] for message in db.get_messages("s")]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.fault(
    "The synchronous standby stops",
    "Writes are refused in time, as in doubt; none is there twice",
    on="postgresql",
)
def test_a_standby_that_stopped(pair: Pair, write: str) -> None:
    with SessionDB.from_url(pair.url, lock_timeout=1.0) as db:
        db.create_session("s", "cli")
        WRITES[write](db, "before")
        pair.stop_standby()
        with pytest.raises(StoreUnavailable, match="not known whether"):
            WRITES[write](db, "meanwhile")
        pair.standby.start()
        first = db.append_message("s", "user", "after", external_id="after")
        assert db.append_message("s", "user", "after", external_id="after") == first
        texts = texts_of(db)
        assert (texts[0], texts[-1]) == ("before", "after")
        assert texts.count("meanwhile") <= 1


#: Far below what a write waits for the standby by default (18 s), far above what a read takes.
READ_SECONDS = 12.0


@pytest.mark.fault(
    "A synchronous standby is unavailable, and sessions are searched or listed",
    "Answered in time, with what the index lacks; the report says that it lags",
    on="postgresql",
)
def test_reads_while_the_standby_is_stopped(pair: Pair) -> None:
    with SessionDB.from_url(pair.url) as db, pair.on_primary() as connection:
        db.create_session("s", "cli")
        db.append_message("s", "user", "indexed before")
        assert db.search("before").hits
        pair.stop_standby()
        connection.execute("SET synchronous_commit = local")
        connection.execute("UPDATE sessions SET title = 'changed elsewhere' WHERE id = 's'")
        connection.execute("UPDATE messages SET content = 'written before' WHERE session_id = 's'")
        started = time.monotonic()
        answer = db.search("written before")
        assert [hit.session_id for hit in answer.hits] == ["s"]
        assert answer.report.complete
        assert answer.report.not_indexed == 1
        assert any("does not accept updates" in note for note in answer.report.notes)
        assert [row["title"] for row in db.list_sessions_rich()] == ["changed elsewhere"]
        assert db.resolve_session_by_title("changed elsewhere") == "s"
        assert len(db.search_messages("written")) == 1
        assert time.monotonic() - started < READ_SECONDS
        pair.standby.start()
        db.append_message("s", "user", "after")


def test_the_first_search_while_the_standby_is_stopped(pair: Pair) -> None:
    """Its attempt to create the index waits for the standby, with the index's table locked."""
    with SessionDB.from_url(pair.url) as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "never indexed")
        pair.stop_standby()
        started = time.monotonic()
        answer = db.search("indexed")
        assert [hit.session_id for hit in answer.hits] == ["s"]
        assert answer.account.complete
        assert answer.account.not_indexed == 1
        assert len(db.search_messages("never")) == 1
        assert time.monotonic() - started < READ_SECONDS
        pair.standby.start()
        db.append_message("s", "user", "after")
        assert len(db.search_messages("after")) == 1


def _cancel_waiting(pair: Pair, writing: Future[object]) -> int:
    """Cancel what waits for the standby until *writing* ends; return how often."""
    canceled = 0
    with pair.on_primary() as connection:
        while not writing.done():
            found = connection.execute(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            ).fetchall()
            canceled += len(found)
    return canceled


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.fault(
    "The server stops waiting for its synchronous standby",
    "The write is not acknowledged until the standby has it",
    on="postgresql",
)
def test_a_wait_for_the_standby_that_is_canceled(pair: Pair, write: str) -> None:
    with (
        SessionDB.from_url(pair.url, lock_timeout=1.0) as db,
        ThreadPoolExecutor(1) as thread,
    ):
        db.create_session("s", "cli")
        WRITES[write](db, "before")
        pair.stop_standby()
        writing = thread.submit(WRITES[write], db, "committed here")
        assert _cancel_waiting(pair, writing)
        assert isinstance(writing.exception(), StoreUnavailable)
        assert "not known whether" in str(writing.exception())
        pair.standby.start()
        WRITES[write](db, "after")
        assert texts_of(db) == ["before", "committed here", "after"]


class Writers:
    """Four threads that append, each to its own session, until they are stopped."""

    def __init__(self, db: SessionDB) -> None:
        self.acknowledged: dict[str, list[str]] = {name: [] for name in "abcd"}
        self._db = db
        self._stop = threading.Event()
        self._enough = threading.Semaphore(0)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        for name in self.acknowledged:
            self._db.create_session(name, "cli")
        with ThreadPoolExecutor(len(self.acknowledged)) as threads:
            done = [threads.submit(self._work, name) for name in self.acknowledged]
            try:
                yield
            finally:
                self._stop.set()
                for future in done:
                    future.result()

    def wait_for(self, messages: int) -> None:
        """Return when that many more were acknowledged."""
        for _ in range(messages):
            self._enough.acquire()

    def _work(self, name: str) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                self._db.append_message(name, "user", f"{number}", external_id=f"{number}")
            except StoreUnavailable:
                continue  # Repeated, by its id.
            self.acknowledged[name].append(f"{number}")
            self._enough.release()
            number += 1


@pytest.mark.parametrize("how", ["killed", "frozen"])
@pytest.mark.fault(
    "The primary is lost, and its synchronous standby takes over",
    "Every acknowledged message is there once, in order",
    on="postgresql",
)
def test_failover_to_the_standby(pair: Pair, how: str) -> None:
    with SessionDB.from_url(pair.url, lock_timeout=5.0) as db:
        writers = Writers(db)
        with writers.at_work():
            writers.wait_for(40)
            if how == "killed":
                pair.primary.stop(signal.SIGKILL)
            else:
                pair.primary.freeze()
            promote(pair.standby)
            writers.wait_for(100)
    with SessionDB.from_url(postgresql_url(pair.standby)) as db:
        for name, said in writers.acknowledged.items():
            stored = [message["content"] for message in db.get_messages(name)]
            assert stored[: len(said)] == said
            assert len(stored) <= len(said) + 1


def promote(standby: Server) -> None:
    import psycopg

    with psycopg.connect(postgresql_url(standby), autocommit=True) as connection:
        # Not waiting inside the statement: replay cancels one whose snapshot is in its way.
        connection.execute("SELECT pg_promote(wait => false)")
        until = time.monotonic() + 60
        while connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,):
            assert time.monotonic() < until, "the standby was not promoted"

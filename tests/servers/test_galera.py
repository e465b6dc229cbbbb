"""MariaDB Galera: several nodes that all take writes, and may fail one by one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import StoreLocked, StoreUnavailable, StoreUnreachable
from hermes_sessions.storage.mysql import (
    message_append,
    migration_lock,
    migrations,
    server_session,
    transaction,
)
from hermes_sessions.storage.mysql.provider import MySQLSessionDBProvider
from hermes_sessions.storage.servers.unit_of_work import noted
from tests.servers.galera import Cluster, wait_until
from tests.servers.test_many_processes import start

pytestmark = pytest.mark.slow
NODES = range(3)
_databases = count()


@pytest.fixture
def database(galera: Cluster) -> Iterator[str]:
    """One in which a store is open on no node."""
    name = f"galera_{next(_databases)}"
    galera.run(f"CREATE DATABASE {name}")
    for node in NODES:
        galera.run("SELECT 1", node=node)  # It knows the database, too.
    yield name
    galera.run(f"DROP DATABASE {name}")


def stored(galera: Cluster, database: str, node: int = 0) -> list[str]:
    rows = galera.run(
        f"SELECT content FROM {database}.messages ORDER BY session_id, ordinal", node=node
    )
    return [content for (content,) in rows]


#: A statement between two others of a packet, until another node has come first.
PAUSE = """DO SLEEP(IF(EXISTS (SELECT 1 FROM state_meta WHERE "key" = 'interrupted'), 0, 60))"""


class TestRolledBackByAnotherNode:
    """Between two statements of a packet, a node executes and commits the second by itself, before
    it says that the transaction was rolled back. One that repeats statements does not even say so.
    """

    @pytest.fixture(autouse=True, params=["repeats", "reports"])
    def behaviour(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        if request.param == "repeats":
            monkeypatch.setattr(server_session, "_GALERA_SETTINGS", "wsrep_retry_autocommit = 1")

    @pytest.mark.fault(
        "Galera: another node's commit rolls a write back half-way",
        "Run again: every acknowledged write is there once, whole",
        on="mariadb",
    )
    def test_between_two_changes(self, galera: Cluster, database: str) -> None:
        add = """UPDATE state_meta SET value = value + 1 WHERE "key" = '{}'"""
        with SessionDB.from_url(galera.url(database, count=1)) as db:
            for key in "ab":
                db.set_meta(key, "0")

            def work(tx: Any) -> None:
                tx.send(add.format("a"), PAUSE, add.format("b"))

            interrupted(
                galera,
                database,
                lambda: db.provider.write(work, isolated=False),
                elsewhere="UPDATE state_meta SET value = value + 10 WHERE `key` = 'a'",
            )
            assert [db.get_meta(key) for key in "ab"] == ["11", "1"]

    def test_before_the_commit(
        self, galera: Cluster, database: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with SessionDB.from_url(galera.url(database, count=1)) as db:
            db.set_meta("a", "before")
            monkeypatch.setattr(transaction, "noted", lambda mark: f"{noted(mark)}; {PAUSE}")
            interrupted(
                galera,
                database,
                lambda: db.set_meta("a", "after"),
                elsewhere="UPDATE state_meta SET value = 'elsewhere' WHERE `key` = 'a'",
            )
            assert db.get_meta("a") == "after"

    def test_before_the_mark_of_a_message(
        self, galera: Cluster, database: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """To a session that lists show under another one: several statements."""
        make = message_append.script

        def paused(*args: Any, **options: Any) -> server_session.Script:
            script = make(*args, **options)
            if len(script.statements) == 2:
                return script
            *first, mark, tip, commit = script.statements
            return script._replace(
                statements=(*first, PAUSE, mark, tip, commit), within=range(len(first) + 3)
            )

        with SessionDB.from_url(galera.url(database, count=1)) as db:
            db.create_session("head", "cli")
            db.create_session("tip", "cli", parent_session_id="head", edge_kind="compression")
            monkeypatch.setattr(message_append, "script", paused)
            interrupted(
                galera,
                database,
                lambda: db.append_message("head", "user", "here"),
                elsewhere="UPDATE sessions SET system_prompt = 'x' WHERE id = 'head'",
            )
            assert [message["content"] for message in db.get_messages("head")] == ["here"]
            session = db.get_session("head")
            assert session is not None
            assert session["message_count"] == 1
        marks = f"SELECT COUNT(*) FROM {database}.write_marks WHERE message_id IS NOT NULL"
        assert galera.run(marks) == [(1,)]


def interrupted(
    galera: Cluster, database: str, work: Callable[[], object], *, elsewhere: str
) -> None:
    """Do *work* on the first node; in its pause another node commits a change to a row that it has
    changed.
    """
    with ThreadPoolExecutor(1) as thread:
        working = thread.submit(work)
        pausing = "SELECT 1 FROM information_schema.processlist WHERE state = 'User sleep'"
        wait_until(lambda: bool(galera.run(pausing)) or working.done())
        assert not working.done()
        galera.run(
            f"USE {database}",
            "BEGIN",
            "INSERT INTO state_meta (`key`, value) VALUES ('interrupted', '')",
            elsewhere,
            "COMMIT",
            node=1,
        )
        working.result(60)


class TestOpening:
    """A node's own locks say nothing about the others."""

    @pytest.mark.fault(
        "Galera: programs on all nodes open a new store, or an older one, at once",
        "The tables are changed once, and all programs can write",
        on="mariadb",
    )
    @pytest.mark.parametrize("taken", [0, 2])
    def test_six_at_once(
        self, galera: Cluster, database: str, taken: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if taken:
            with monkeypatch.context() as patch:
                patch.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:taken])
                SessionDB.from_url(galera.url(database)).close()
        before = changes(galera)
        start_line = threading.Barrier(6, timeout=60)

        def open_and_write(number: int) -> None:
            url = galera.url(database, first=number % 3, count=1)
            start_line.wait()
            with SessionDB.from_url(url) as db:
                db.set_meta(f"opened by {number}", "yes")

        threads = ThreadPoolExecutor(6)
        try:
            for opened in [threads.submit(open_and_write, number) for number in range(6)]:
                opened.result(120)
        finally:
            threads.shutdown(wait=False)  # A wedged node would never let go of one.
        wanted = [s for step in migrations.MIGRATIONS[taken:] for s in step.statements]
        assert changes(galera) - before == sum(s.startswith("CREATE TRIGGER") for s in wanted)
        for node in NODES:
            steps = galera.run(f"SELECT COUNT(*) FROM {database}.store_migrations", node=node)
            assert steps == [(len(migrations.MIGRATIONS),)]
            assert galera.run(f"SELECT COUNT(*) FROM {database}.state_meta", node=node) == [(6,)]
            locks = f"SELECT COUNT(*) FROM {database}.write_marks WHERE mark = 'migration'"
            assert galera.run(locks, node=node) == [(0,)]

    @pytest.mark.fault(
        "Galera: a program dies while it changes the tables",
        "The next one continues it, after half a minute",
        on="mariadb",
    )
    def test_after_one_that_died(
        self, galera: Cluster, database: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        url = galera.url(database)
        with monkeypatch.context() as patch:
            patch.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:2])
            SessionDB.from_url(url).close()
        galera.run(f"INSERT INTO {database}.write_marks VALUES ('migration', 1, 0)")
        with monkeypatch.context() as patch:
            patch.setattr(migrations, "MIGRATION_TURN_SECONDS", 0)
            with pytest.raises(StoreLocked, match="changing the tables"):
                SessionDB.from_url(url)
        monkeypatch.setattr(migration_lock, "_LOOKS", 2)
        with SessionDB.from_url(url) as db:
            assert db.provider.steps().waiting == ()
            db.create_session("s", "cli")

    def test_one_whose_lock_was_taken_over(
        self, galera: Cluster, database: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It changes nothing more."""
        take_over = f"UPDATE {database}.write_marks SET message_id = 1 WHERE mark = 'migration'"
        back_up = MySQLSessionDBProvider._back_up_first

        def last_long(provider: Any, *given: Any) -> None:
            galera.run(take_over, node=1)
            back_up(provider, *given)

        with monkeypatch.context() as patch:
            patch.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:2])
            SessionDB.from_url(galera.url(database)).close()
        monkeypatch.setattr(MySQLSessionDBProvider, "_back_up_first", last_long)
        before = changes(galera)
        with pytest.raises(StoreLocked, match="taken over"):
            SessionDB.from_url(galera.url(database))
        assert changes(galera) == before

    def test_one_that_backs_the_store_up_for_long(
        self, galera: Cluster, database: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It shows the others meanwhile that it is there."""
        row = f"SELECT message_id FROM {database}.write_marks WHERE mark = 'migration'"

        def last_long(*_: Any) -> None:
            held = galera.run(row)
            wait_until(lambda: galera.run(row) != held)

        with monkeypatch.context() as patch:
            patch.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:2])
            SessionDB.from_url(galera.url(database)).close()
        monkeypatch.setattr(MySQLSessionDBProvider, "_back_up_first", last_long)
        monkeypatch.setattr(migration_lock, "_KEPT_EVERY", 0.01)
        with SessionDB.from_url(galera.url(database)) as db:
            assert db.provider.steps().waiting == ()


def changes(galera: Cluster) -> int:
    """How many triggers were made; each node makes them all."""
    [(_, number)] = galera.run("SHOW GLOBAL STATUS LIKE 'Com_create_trigger'")
    return int(number)


@pytest.mark.fault(
    "Galera: processes write on all nodes at once, to one session",
    "Every acknowledged message is there once, each one's order kept",
    on="mariadb",
)
def test_writers_on_all_nodes(galera: Cluster, database: str, long_run: bool) -> None:
    number = 3_400 if long_run else 60
    with SessionDB.from_url(galera.url(database)) as db:
        db.create_session("s", "cli")
    writers = [
        start("append", galera.url(database, first=w % 3, count=1), "s", f"w{w}", str(number))
        for w in range(6)
    ]
    for writer in writers:
        said, complaints = writer.communicate()
        assert writer.returncode == 0, complaints
        assert said.split() == [str(n) for n in range(number)]
    texts = stored(galera, database)
    assert Counter(texts) == Counter(f"w{w} {n}" for w in range(6) for n in range(number))
    for w in range(6):
        assert [t for t in texts if t.startswith(f"w{w} ")] == [f"w{w} {n}" for n in range(number)]


class _Writer:
    """Appends to a session of its own until it is stopped."""

    def __init__(self, url: str, name: str) -> None:
        self.said: list[str] = []
        self._progress = threading.Semaphore(0)
        self._stop = threading.Event()
        self._db = SessionDB.from_url(url, lock_timeout=60.0)
        self._db.create_session(name, "cli")
        self._pool = ThreadPoolExecutor(1)
        self._work = self._pool.submit(self._append, name)

    def _append(self, name: str) -> None:
        try:
            for number in count():
                if self._stop.is_set():
                    return
                self._db.append_message(name, "user", f"{name} {number}")
                self.said.append(f"{name} {number}")
                self._progress.release()
        finally:
            self._progress.release(1000)

    def gets_on(self) -> None:
        """Wait for ten more messages."""
        self._progress = threading.Semaphore(0)
        for _ in range(10):
            assert self._progress.acquire(timeout=120)

    def finish(self) -> None:
        self._stop.set()
        try:
            self._work.result(120)
        finally:
            self._pool.shutdown()
            self._db.close()


@pytest.mark.fault(
    "Galera: the node of a writer is killed",
    "It moves on to another node; every acknowledged message is there once, in order",
    on="mariadb",
)
def test_the_node_of_a_writer_is_killed(galera: Cluster, database: str) -> None:
    writers = [_Writer(galera.url(database, first=node), f"w{node}") for node in NODES]
    try:
        for writer in writers:
            writer.gets_on()
        galera.nodes[2].stop(galera.nodes[2].killed_by)
        for writer in writers:
            writer.gets_on()
    finally:
        galera.nodes[2].start()
        for writer in writers:
            writer.finish()
    for node in NODES:
        assert stored(galera, database, node) == [text for w in writers for text in w.said]


@pytest.mark.fault(
    "Galera: the node of a writer is frozen",
    "The write under way is stored once, on another node, before its time is over",
    on="mariadb",
)
def test_the_node_of_a_writer_is_frozen(galera: Cluster, database: str) -> None:
    """With the default limits: 18 seconds, in which a write used to be refused."""
    with SessionDB.from_url(galera.url(database, first=2)) as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "before")
        galera.nodes[2].freeze()
        try:
            db.append_message("s", "user", "meanwhile")
            assert [message["content"] for message in db.get_messages("s")] == [
                "before",
                "meanwhile",
            ]
        finally:
            galera.nodes[2].thaw()
            galera.wait_until_whole()
        db.append_message("s", "user", "after")
    for node in NODES:
        assert stored(galera, database, node) == ["before", "meanwhile", "after"]


@pytest.mark.fault(
    "Galera: a node loses contact with the majority",
    "Unreachable, in words and in time; programs that know the other nodes move on to them",
    on="mariadb",
)
def test_a_node_without_the_majority(galera: Cluster, database: str) -> None:
    writers = [_Writer(galera.url(database, first=node), f"w{node}") for node in (1, 2)]
    with SessionDB.from_url(galera.url(database, first=2, count=1), lock_timeout=1.0) as alone:
        alone.create_session("alone", "cli")
        alone.append_message("alone", "user", "alone 0")
        galera.isolate(2)
        try:
            for writer in writers:
                writer.gets_on()
            wait_until(lambda: galera.status("wsrep_cluster_status", 2) != "Primary")
            with pytest.raises(StoreUnavailable, match="majority"):
                alone.append_message("alone", "user", "lost")
            with pytest.raises(StoreUnreachable, match="majority"):
                alone.get_messages("alone")
            with pytest.raises(StoreUnreachable, match="majority"):
                SessionDB.from_url(galera.url(database, first=2, count=1))
        finally:
            galera.isolate(2, isolated=False)
            galera.wait_until_whole()
            for writer in writers:
                writer.finish()
        alone.append_message("alone", "user", "alone 1")
    expected = ["alone 0", "alone 1", *(text for w in writers for text in w.said)]
    for node in NODES:
        assert stored(galera, database, node) == expected

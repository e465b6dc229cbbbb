"""What only PostgreSQL has: poolers, its own kind of pool, vectors of words."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from hermes_sessions import SessionDB
from hermes_sessions.errors import ConstraintViolated, StoreRefused, StoreUnreachable
from hermes_sessions.storage.postgresql import migrations
from hermes_sessions.storage.postgresql.connections import Options
from hermes_sessions.storage.postgresql.provider import PostgreSQLSessionDBProvider
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.search.index_maintenance import IndexMaintenance
from tests.servers.proxy import Proxy
from tests.servers.server_processes import Server, postgresql_url, start_pgbouncer
from tests.servers.stores import Place, postgresql_place, postgresql_store, use


@pytest.fixture
def place(postgresql: Server) -> Iterator[Place]:
    with postgresql_store(postgresql, "servers"):
        yield postgresql_place(postgresql, "servers")


class TestPooler:
    @pytest.mark.parametrize(
        "settings",
        [{}, {"ignore_startup_parameters": "options,extra_float_digits"}],
        ids=["refuses settings", "drops settings"],
    )
    def test_in_transaction_mode(self, place: Place, settings: dict[str, str]) -> None:
        pooler = start_pgbouncer(place.server, **settings)
        try:
            with SessionDB.from_url(place.url(pooler.port)) as db:
                use(db)
                failed: list[BaseException] = []

                def work(writer: int) -> None:
                    try:
                        for number in range(10):
                            db.append_message("s", "user", f"{writer} {number}")
                            db.get_session("s")
                    except BaseException as error:  # noqa: BLE001 - shown by the test
                        failed.append(error)

                threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert failed == []
                assert len(db.get_messages("s")) == 66
        finally:
            pooler.destroy()
        with SessionDB.from_url(place.url()) as db:
            assert db.message_count() == 66


class TestApplicationsPool:
    def test_it_is_used_and_left_open(self, place: Place) -> None:
        SessionDB.from_url(place.url()).close()
        with ConnectionPool(postgresql_url(place.server), min_size=1, max_size=3) as pool:
            provider = PostgreSQLSessionDBProvider(options=Options(schema="servers"))
            with SessionDB(provider=provider.initialize(pool=pool)) as db:
                use(db)
            with pool.connection() as connection:
                found = connection.execute("SELECT COUNT(*) FROM servers.messages").fetchone()
                assert found == (6,)
                # Nothing of ours stays in the application's connections.
                found = connection.execute("SHOW search_path").fetchone()
                assert found is not None
                assert "servers" not in found[0]

    def test_its_connections_may_be_in_any_mode(self, place: Place) -> None:
        with ConnectionPool(
            postgresql_url(place.server), min_size=1, max_size=1, kwargs={"autocommit": False}
        ) as pool:
            provider = PostgreSQLSessionDBProvider(options=Options(schema="servers"))
            with SessionDB(provider=provider.initialize(pool=pool)) as db:
                use(db)
            with pool.connection() as connection:
                assert not connection.autocommit

    def test_its_connections_may_give_rows_of_any_kind(self, place: Place) -> None:
        kind: dict[str, Any] = {"row_factory": dict_row, "cursor_factory": psycopg.ClientCursor}
        with ConnectionPool(
            postgresql_url(place.server), min_size=1, max_size=1, kwargs=kind
        ) as pool:
            provider = PostgreSQLSessionDBProvider(options=Options(schema="servers"))
            with SessionDB(provider=provider.initialize(pool=pool)) as db:
                use(db)
            with pool.connection() as connection:
                assert connection.execute("SELECT 1 AS one").fetchone() == {"one": 1}
                assert connection.cursor_factory is psycopg.ClientCursor


class TestLogin:
    def test_who_is_not_known(self, place: Place) -> None:
        with pytest.raises(StoreRefused, match="refused the user, the password or the database"):
            SessionDB.from_url(place.url_as("stranger"))

    def test_a_database_that_is_not_there(self, place: Place) -> None:
        with pytest.raises(StoreRefused, match="nowhere"):
            SessionDB.from_url(place.url().replace("/postgres", "/nowhere"))

    def test_a_server_without_a_free_connection(self, place: Place) -> None:
        """It may have one soon."""
        place.run("CREATE ROLE narrow LOGIN CONNECTION LIMIT 0")
        try:
            with pytest.raises(StoreUnreachable, match="too many connections") as refused:
                SessionDB.from_url(place.url_as("narrow"), lock_timeout=0.1)
            assert not isinstance(refused.value, StoreRefused)
        finally:
            place.run("DROP ROLE narrow")


def test_who_opens_a_store_waits_for_those_who_change_its_tables(place: Place) -> None:
    """They may have to back it up first: the lock timeout does not apply."""
    url = place.new_url()
    failed: list[BaseException] = []

    def open_and_close() -> None:
        try:
            SessionDB.from_url(url, lock_timeout=0.05).close()
        except BaseException as error:  # noqa: BLE001 - shown by the test
            failed.append(error)

    opener = threading.Thread(target=open_and_close)
    waits_for_longer = (
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND clock_timestamp() > query_start + INTERVAL '0.2 s'"
    )
    with place.holding("SELECT pg_advisory_xact_lock({}, {})".format(*migrations._LOCK)):
        opener.start()
        while opener.is_alive() and not place.run(waits_for_longer):
            pass
    opener.join()
    assert failed == []


class _SlowToOpen(Proxy):
    """Lets the second connection wait until a third is requested."""

    def __init__(self, target: int) -> None:
        self._numbers = count()
        self._is_asked_for_a_third = threading.Event()
        super().__init__(target)

    def _pump(self, source: socket.socket, sink: socket.socket, is_request: bool) -> None:
        number = next(self._numbers) if is_request else None
        if number == 1:
            self._is_asked_for_a_third.wait()
        elif number == 2:
            self._is_asked_for_a_third.set()
        super()._pump(source, sink, is_request)


def test_a_connection_that_is_being_opened_is_not_in_use(place: Place) -> None:
    """However little patience there is for others who write."""
    proxy = _SlowToOpen(place.port)
    try:
        url = place.url(proxy.port, max_connections=1)
        with SessionDB.from_url(url, lock_timeout=0.1) as db:
            assert db.session_count() == 0
    finally:
        proxy.close()


def test_a_phrase_among_very_many_of_its_words(place: Place) -> None:
    """The server keeps 255 places of one word."""
    with SessionDB.from_url(place.url()) as db:
        db.create_session("s", "cli")
        crowded = db.append_message("s", "user", "alpha. " * 300 + "gamma")
        plain = db.append_message("s", "user", "alpha gamma")
        neither = db.append_message("s", "user", "gamma alpha " * 300)
        assert {hit["id"] for hit in db.search_messages('"alpha gamma"')} == {
            crowded,
            plain,
            neither,
        }
        assert db.search_messages('"alpha beta"') == []
        found = db.search('gamma NOT "alpha gamma"').hits
        assert found == []
        assert len(db.search('gamma NOT "alpha delta"').hits) == 3


def test_two_rebuild_a_lost_index(place: Place) -> None:
    """The second waits for the first, and does not fail over the table that this one created."""
    with (
        SessionDB.from_url(place.url(), lock_timeout=120) as first,
        SessionDB.from_url(place.url(), lock_timeout=120) as second,
    ):
        use(first)
        place.run("DROP TABLE search_documents")
        failed: list[BaseException] = []

        def rebuild() -> None:
            try:
                upkeep_of(second).discard_index()
            except BaseException as error:  # noqa: BLE001 - shown by the test
                failed.append(error)

        another = threading.Thread(target=rebuild)

        def rebuild_meanwhile(tx: WriteTransaction) -> None:
            first.provider.search_index.clear(tx)
            another.start()
            wait_for_one_who_waits(place)

        first.provider.write(rebuild_meanwhile, isolated=False)
        another.join()
        assert failed == []
        assert len(second.search_messages("question")) == 1


def upkeep_of(db: SessionDB) -> IndexMaintenance:
    return IndexMaintenance(db.store, db.provider.search_index)


class TestAppending:
    """By the layer of the driver below cursors."""

    def test_messages_larger_than_what_goes_out_at_once(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            db.create_session("s", "cli")
            texts = ["x" * 5_000_000, "日本" * 500_000, "small"]
            for text in texts:
                db.append_message("s", "user", text)
            assert [message["content"] for message in db.get_messages("s")] == texts

    def test_what_the_server_refuses(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            db.create_session("s", "cli")
            place.run("ALTER TABLE messages ADD CONSTRAINT mild CHECK (content <> 'harsh')")
            try:
                with pytest.raises(ConstraintViolated, match='violates check constraint "mild"'):
                    db.append_message("s", "user", "harsh")
            finally:
                place.run("ALTER TABLE messages DROP CONSTRAINT mild")
            db.append_message("s", "user", "friendly")
            assert db.message_count("s") == 1

    def test_ctrl_c_while_the_server_works(self, place: Place) -> None:
        """The wait ends, and the next answer is the right one."""
        with SessionDB.from_url(place.url()) as db:
            db.create_session("s", "cli")
            db.append_message("s", "user", "before")
            with psycopg.connect(postgresql_url(place.server)) as other:
                other.execute("SELECT 1 FROM servers.sessions WHERE id = 's' FOR UPDATE")
                interrupting = threading.Thread(target=_interrupt_once_waiting, args=(place,))
                interrupting.start()
                with pytest.raises(KeyboardInterrupt):
                    db.append_message("s", "user", "interrupted")
                interrupting.join()
            after = db.append_message("s", "user", "after")
            # The server may continue the interrupted statement, before or after this.
            texts = {message["id"]: message["content"] for message in db.get_messages("s")}
            assert texts[after] == "after"


def wait_for_one_who_waits(place: Place) -> None:
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    while not place.run(waiting):
        pass


def _interrupt_once_waiting(place: Place) -> None:
    wait_for_one_who_waits(place)
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)

"""What only MySQL and MariaDB have: commits by the server itself, streams, modes, pools."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest
from pymysql.constants import CLIENT

from hermes_sessions import SessionDB
from hermes_sessions.errors import (
    InvalidInput,
    StatementRefused,
    StoreReadOnly,
    StoreRefused,
    StoreUnreachable,
    UnknownSession,
)
from hermes_sessions.model.title import family_key
from hermes_sessions.storage.mysql import connections, transaction
from hermes_sessions.storage.mysql.connections import NodeLog, Options
from hermes_sessions.storage.mysql.provider import MySQLSessionDBProvider
from tests.servers.proxy import Proxy
from tests.servers.server_processes import Server, free_port, mysql_connection, start_mariadb
from tests.servers.stores import Place, mysql_place, mysql_store, use


@pytest.fixture
def place(mariadb: Server) -> Iterator[Place]:
    with mysql_store(mariadb, "servers"):
        yield mysql_place(mariadb, "servers")


class TestUsers:
    def test_a_wrong_password(self, place: Place) -> None:
        with pytest.raises(StoreRefused, match="refused the user"):
            SessionDB.from_url(place.url_as("root:wrong"))

    def test_a_database_that_is_not_there(self, place: Place) -> None:
        with pytest.raises(StoreRefused, match="CREATE DATABASE"):
            SessionDB.from_url(place.url().replace("/servers", "/nowhere"))

    def test_triggers_that_are_refused(self) -> None:
        """The advice helps, and what was begun is brought to its end."""
        server = start_mariadb("--log-bin", "--server-id=1")
        try:
            with mysql_connection(server) as connection:
                cursor = connection.cursor()
                cursor.execute("CREATE DATABASE servers")
                cursor.execute("CREATE USER plain")
                cursor.execute("GRANT ALL ON servers.* TO plain")
                url = mysql_place(server, "servers").url_as("plain")
                with pytest.raises(StoreReadOnly, match="log_bin_trust_function_creators"):
                    SessionDB.from_url(url)
                cursor.execute("SET GLOBAL log_bin_trust_function_creators = 1")
                with SessionDB.from_url(url) as db:
                    use(db)
        finally:
            server.destroy()


class _Pool:
    """The two methods that a pool of the application's needs."""

    def __init__(self, place: Place, **arguments: Any) -> None:
        self._arguments = {"host": "127.0.0.1", "port": place.port, "user": "root"}
        self._arguments |= {"database": "servers", **arguments}
        self.idle: list[pymysql.Connection[Any]] = []
        self.made = 0

    def getconn(self, timeout: float) -> pymysql.Connection[Any]:
        if self.idle:
            return self.idle.pop()
        self.made += 1
        return pymysql.connect(**self._arguments)

    def putconn(self, conn: pymysql.Connection[Any]) -> None:
        self.idle.append(conn)

    def close(self) -> None:
        for connection in self.idle:
            connection.close()


class _ReconnectingPool(_Pool):
    """As many do it: connections that were lost are made again under the same name."""

    def getconn(self, timeout: float) -> pymysql.Connection[Any]:
        connection = super().getconn(timeout)
        try:
            connection.ping(reconnect=False)
        except pymysql.Error:
            connection.connect()
        return connection


class TestApplicationsPool:
    def test_it_is_used_and_left_open(self, place: Place) -> None:
        pool = _Pool(place, client_flag=CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS)
        provider = MySQLSessionDBProvider(Options()).initialize(pool=pool)
        with SessionDB(provider=provider) as db:
            use(db)
            assert db.session_count() == 1
        assert 1 <= pool.made == len(pool.idle)
        assert all(connection.open for connection in pool.idle)
        pool.close()

    def test_it_connects_again_by_itself(self, place: Place) -> None:
        """The same object is then another session of the server, which commits nothing itself."""
        pool = _ReconnectingPool(place, client_flag=CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS)
        provider = MySQLSessionDBProvider(Options()).initialize(pool=pool)
        with SessionDB(provider=provider) as db:
            use(db)
            db._background_indexer.stop()
            place.run(*(f"KILL {connection.thread_id()}" for connection in pool.idle))
            db.append_message("s", "user", r"it's \ there")
            db.set_session_title("s", "Another title")
            [(stored,)] = place.run("SELECT content FROM messages ORDER BY id DESC LIMIT 1")
            assert stored == r"it's \ there"
            assert db.get_session_title("s") == "Another title"
        pool.close()

    def test_its_connections_must_count_what_is_matched(self, place: Place) -> None:
        pool = _Pool(place)
        with pytest.raises(InvalidInput, match="FOUND_ROWS"):
            MySQLSessionDBProvider(Options()).initialize(pool=pool)


class TestSeveralNodes:
    """Addresses of one cluster; here, two ways to the same server."""

    def test_the_next_one_is_used_while_one_is_unavailable(self, place: Place) -> None:
        hosts = f"127.0.0.1:{free_port()},127.0.0.1:{place.port}"
        with SessionDB.from_url(f"mysql://root@{hosts}/servers") as db:
            use(db)
            assert hosts in db.provider.describe()["location"]

    def test_a_writer_moves_on(self, place: Place) -> None:
        first = Proxy(place.port)
        url = f"mysql://root@127.0.0.1:{first.port},127.0.0.1:{place.port}/servers"
        with SessionDB.from_url(url) as db:
            use(db)
            first.close()
            for number in range(3):
                db.append_message("s", "user", f"later {number}")
            assert db.message_count("s") == 9

    def test_none_is_there(self) -> None:
        hosts = f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
        with pytest.raises(StoreUnreachable, match=hosts) as raised:
            SessionDB.from_url(f"mysql://root:secret@{hosts}/x")
        assert "secret" not in str(raised.value)


class TestNodeLog:
    """During an outage, every attempt of every thread fails."""

    NODE = ("db.example.org", 3306)
    ERROR = pymysql.err.OperationalError(2003, "refused")

    def test_one_line_for_each_change_of_state(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        log = NodeLog()
        for _ in range(2):
            for _ in range(100):
                log.failed(self.NODE, self.ERROR)
            log.worked(self.NODE)
            log.worked(self.NODE)
        said = [record.message.partition(" is ")[2] for record in caplog.records]
        expected = ["unavailable, trying the next node: (2003, 'refused')", "available again"]
        assert said == expected * 2

    def test_a_line_with_a_count_each_minute(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = NodeLog()
        for _ in range(8):
            log.failed(self.NODE, self.ERROR)
        monkeypatch.setattr(connections, "_LOGGED_EVERY", 0.0)
        log.failed(self.NODE, self.ERROR)
        assert len(caplog.records) == 2
        assert "is still unavailable (8 more attempts)" in caplog.text

    def test_a_store_whose_first_node_is_unavailable(
        self, place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connections, "_AVOIDED_SECONDS", 0.0)
        url = place.url().replace("@", f"@127.0.0.1:{free_port()},")
        with SessionDB.from_url(url) as db:
            for _ in range(5):
                db.provider._connections.connect().close()  # type: ignore[attr-defined]
        assert caplog.text.count("trying the next node") == 1


class TestLife:
    def test_connections_that_were_killed(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            ours = place.run(
                "SELECT id FROM information_schema.processlist "
                "WHERE db = 'servers' AND id <> CONNECTION_ID()",
            )
            assert ours
            place.run(*(f"KILL {number}" for (number,) in ours))
            assert len(db.get_messages("s")) == 6
            db.append_message("s", "user", "the seventh")
            assert db.message_count("s") == 7

    def test_an_interruption_between_question_and_answer(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A late answer is never mistaken for the answer to another query."""
        with SessionDB.from_url(place.url(max_connections=1)) as db:
            use(db)
            db._background_indexer.stop()

            def interrupted(*args: Any, **kwargs: Any) -> None:
                raise KeyboardInterrupt

            for verb in (db.get_session, db.list_rewinds, db.get_messages):
                with monkeypatch.context() as patch:
                    patch.setattr(pymysql.connections.Connection, "_read_query_result", interrupted)
                    with pytest.raises(KeyboardInterrupt):
                        verb("s")
                assert db.message_count("s") == 6
                assert db.get_meta("nothing") is None

    def test_a_statement_that_is_too_large_for_the_server(self, place: Place) -> None:
        [(before,)] = place.run("SELECT @@max_allowed_packet")
        place.run("SET GLOBAL max_allowed_packet = 1048576")
        try:
            with SessionDB.from_url(place.url()) as db:
                db.create_session("s", "cli")
                with pytest.raises(StatementRefused, match="max_allowed_packet"):
                    db.append_message("s", "user", "x" * 2_000_000)
                db.append_message("s", "user", "small")
                assert db.message_count("s") == 1
        finally:
            place.run(f"SET GLOBAL max_allowed_packet = {before}")


@pytest.mark.parametrize("mode", ["ANSI_QUOTES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"])
def test_texts_come_back_in_any_mode(place: Place, mode: str) -> None:
    """Also if the SQL mode changes which characters are special."""
    texts = ["\\", "\\'", "'; DROP TABLE messages; -- ", "\\\\'\\", '"%s"', "\n\\n", "''"]
    with SessionDB.from_url(place.url()) as db, db.provider.read() as tx:
        tx.all(f"SET sql_mode = '{mode}'")
        marks = ", ".join("?" * len(texts))
        assert tx.one(f"SELECT {marks}", texts) == tuple(texts)


class TestAppending:
    """Triggers do a part of it, on being told by variables of the connection."""

    def test_what_failed_leaves_nothing_behind(self, place: Place) -> None:
        with SessionDB.from_url(place.url(max_connections=1)) as db:
            db.create_session("s", "cli")
            db.append_message("s", "user", "first")
            for _ in range(2):
                with pytest.raises(UnknownSession):
                    db.append_message("missing", "user", "nowhere")
                db.append_messages("s", [{"role": "user", "content": "more"}] * 2)
            db.append_message("s", "user", "last")
            ordinals = [message["ordinal"] for message in db.get_messages("s")]
            assert ordinals == [1, 2, 3, 4, 5, 6]
            session = db.get_session("s")
            assert session is not None
            assert session["message_count"] == 6
            with db.provider.read() as tx:
                assert tx.one("SELECT @hermes_mark") == (None,)

    def test_each_message_has_its_mark(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            db.create_session("s", "cli")
            ids = [db.append_message("s", "user", f"{n}") for n in range(3)]
            marks = "SELECT message_id FROM write_marks WHERE message_id IS NOT NULL"
            assert {row[0] for row in place.run(marks)} >= set(ids)

    def test_others_may_insert_as_before(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            before = db.get_session("s")
            place.run(
                "INSERT INTO messages (session_id, role, content, timestamp, ordinal) "
                "VALUES ('s', 'user', 'by hand', 1.0, 100)"
            )
            assert db.get_messages("s")[-1]["ordinal"] == 100
            assert db.get_session("s") == before


class TestWithoutTriggers:
    """Dumps by users who may not see triggers lack them, and so do copies by many tools."""

    def test_messages_have_their_place(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            _drop_triggers(place)
            before = len(place.run("SELECT mark FROM write_marks"))
            for number in range(3):
                db.append_message("s", "user", f"later {number}")
            with pytest.raises(UnknownSession):
                db.append_message("missing", "user", "nowhere")
            assert [message["ordinal"] for message in db.get_messages("s")] == [*range(1, 10)]
            session = db.get_session("s")
            assert session is not None
            assert session["message_count"] == 9
            assert len(place.run("SELECT mark FROM write_marks")) >= before + 3

    def test_they_are_made_again_and_the_index_with_them(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            before = place.run("SHOW TRIGGERS")
            _drop_triggers(place)
            db.append_message("s", "user", "a second question")
        with SessionDB.from_url(place.url()) as db:
            assert {row[0] for row in place.run("SHOW TRIGGERS")} == {row[0] for row in before}
            assert len(db.search_messages("question")) == 2
            db.append_message("s", "user", "a third question")
            assert len(db.search_messages("question")) == 3

    def test_a_user_who_sees_no_triggers_continues(self) -> None:
        """Also where a binary log is in the way before the rights on a table are."""
        server = start_mariadb("--log-bin", "--server-id=1")
        try:
            with mysql_connection(server) as connection:
                cursor = connection.cursor()
                cursor.execute("CREATE DATABASE servers")
                cursor.execute("CREATE USER writer")
                cursor.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON servers.* TO writer")
            place = mysql_place(server, "servers")
            SessionDB.from_url(place.url()).close()
            with SessionDB.from_url(place.url_as("writer")) as db:
                use(db)
        finally:
            server.destroy()


def _drop_triggers(place: Place) -> None:
    place.run(*(f"DROP TRIGGER {name}" for name, *_ in place.run("SHOW TRIGGERS")))


def test_servers_of_tests_share_no_temporary_tables(place: Place) -> None:
    """One that starts removes those of all others in its place for them, who may crash then."""
    assert place.run("SELECT @@tmpdir") == [(str(place.server.folder),)]


class TestStreams:
    def test_statements_within_streams(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        """Rows of an outer stream wait, in a file if there are many, while others are asked for."""
        monkeypatch.setattr(transaction, "_KEPT_IN_MEMORY", 1000)
        with SessionDB.from_url(place.url()) as db:
            for number in range(5):
                db.create_session(f"s{number}", "cli")
                texts = [{"role": "user", "content": f"日本 '{n}'\n\x00"} for n in range(50)]
                db.append_messages(f"s{number}", texts)
            select = "SELECT session_id, ordinal, content FROM messages "
            with db.provider.read() as tx:
                seen = []
                for session_id, ordinal, content in tx.stream(f"{select} ORDER BY id"):
                    inner = tx.stream(f"{select} WHERE session_id = ? ORDER BY id", (session_id,))
                    assert next(inner)[1] == 1
                    assert tx.one("SELECT COUNT(*) FROM messages") == (250,)
                    assert next(inner)[1] == 2
                    inner.close()
                    assert content == f"日本 '{ordinal - 1}'\n\x00"
                    seen.append((session_id, ordinal))
            assert seen == [(f"s{s}", n) for s in range(5) for n in range(1, 51)]


class TestSchema:
    def test_an_interrupted_step_is_taken_again(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            assert db.provider.steps().waiting == ()
        place.run(
            "UPDATE store_migrations SET applied_at = 0",
            "DROP TRIGGER messages_search_delete",
            "DROP TABLE rewinds",
        )
        with SessionDB.from_url(place.url()) as db:
            assert db.provider.steps().waiting == ()
            db.append_message("s", "user", "after it")
            assert len(db.search_messages("after")) == 1
            assert db.list_rewinds("s") == []
        found = place.run("SHOW TRIGGERS LIKE 'messages'")
        assert {row[0] for row in found} >= {"messages_search_delete", "messages_search_insert"}

    @pytest.mark.parametrize(
        "title",
        ["Plain", "ÄÖ Groß #12", "a #1 #2", "#3", "x#4", "y #", "z # 5", " #6", "İstanbul ß #٣"],
    )
    def test_families_of_titles(self, place: Place, title: str) -> None:
        """The server's own rule is that of the model."""
        with SessionDB.from_url(place.url()) as db:
            db.create_session("s", "cli")
            with db.provider.read() as tx:
                assert tx.one("SELECT title_key FROM sessions") == (None,)
            db.provider.write(lambda tx: tx.run("UPDATE sessions SET title = ?", (title,)))
            with db.provider.read() as tx:
                assert tx.one("SELECT title_key FROM sessions") == (family_key(title),)


class TestIndex:
    def test_older_documents_are_found_by_the_index_alone(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            db.append_message("s", "user", "a first question, quite another")
            assert len(db.search_messages("question")) == 2
            place.run("UPDATE search_documents SET written = '2000-01-01'")
            assert len(db.search_messages("question")) == 2
            assert len(db.search_messages('"first question"')) == 2
            assert len(db.search_messages('"question first"')) == 0
            assert len(db.search_messages('question -"quite another"')) == 1
            assert len(db.search_messages("quest* AND (anoth* OR nothing)")) == 1
            assert len(db.search_messages("-question")) == 5


def test_ports_for_servers_are_below_the_ephemeral_range() -> None:
    """Linux takes those from here on, others higher ones."""
    assert max(free_port() for _ in range(50)) < 32_768


def test_a_server_that_is_not_there() -> None:
    nowhere = Options(port=free_port(), database="x", lock_timeout=0.1)
    with pytest.raises(StoreUnreachable, match=f"{nowhere.port}.*Check that it is running"):
        MySQLSessionDBProvider(nowhere).initialize()

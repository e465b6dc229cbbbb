"""What only MySQL and MariaDB have: users, commits by the server itself, streams, pools."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest
from pymysql.constants import CLIENT

from hermes_sessions import SessionDB
from hermes_sessions.errors import (
    InvalidInput,
    SchemaRefused,
    StatementRefused,
    StoreClosed,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnreachable,
)
from hermes_sessions.model.title import family_key
from hermes_sessions.storage.mysql import transaction
from hermes_sessions.storage.mysql.connections import Options
from hermes_sessions.storage.mysql.provider import MySQLSessionDBProvider
from hermes_sessions.storage.mysql.schema import WRITER_LEVEL
from tests.servers.launching import Server, free_port, mysql_connection, start_mariadb
from tests.servers.stores import Place, mysql_place, mysql_store


@pytest.fixture
def place(mariadb: Server) -> Iterator[Place]:
    with mysql_store(mariadb, "servers"):
        yield mysql_place(mariadb, "servers")


def run(place: Place, *statements: str) -> list[tuple[Any, ...]]:
    with mysql_connection(place.server, "servers") as connection:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def use(db: SessionDB) -> None:
    """A bit of everything."""
    db.create_session("s", "cli", user_id="ada")
    db.set_session_title("s", "A title")
    first = db.append_message("s", "user", "the first question")
    db.append_messages("s", [{"role": "assistant", "content": f"answer {n}"} for n in range(5)])
    assert [hit["id"] for hit in db.search_messages("question")] == [first]
    assert len(db.get_messages("s")) == 6
    assert [row["id"] for row in db.list_sessions_rich()] == ["s"]
    assert [session["id"] for session in db.export_all()] == ["s"]


class TestUsers:
    def test_a_user_who_may_only_read(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            db.append_message("s", "user", "not yet indexed pangolin")
            db._keeper.stop()
            run(
                place,
                "CREATE OR REPLACE USER reader IDENTIFIED BY 'p@ss:w/örd'",
                "GRANT SELECT ON servers.* TO reader",
            )
        try:
            url = place.url().replace("root@", "reader:p%40ss%3Aw%2F%C3%B6rd@")
            with SessionDB.from_url(url) as db:
                assert [row["id"] for row in db.list_sessions_rich()] == ["s"]
                assert len(db.search_messages("question")) == 1
                assert len(db.search_messages("pangolin")) == 1
                with pytest.raises(StoreReadOnly, match="may not"):
                    db.append_message("s", "user", "no")
                with pytest.raises(StoreReadOnly):
                    db.create_session("t", "cli")
        finally:
            run(place, "DROP USER reader")

    def test_a_store_that_may_not_be_created(self, place: Place) -> None:
        url = place.new_url()
        run(place, "CREATE OR REPLACE USER stranger", "GRANT SELECT ON *.* TO stranger")
        try:
            with pytest.raises(StoreReadOnly, match="may not"):
                SessionDB.from_url(url.replace("root@", "stranger@"))
            with pytest.raises(StoreUnreachable, match="refused the user"):
                SessionDB.from_url(url.replace("root@", "root:wrong@"))
        finally:
            run(place, "DROP USER stranger")

    def test_a_database_that_is_not_there(self, place: Place) -> None:
        with pytest.raises(StoreUnreachable, match="CREATE DATABASE"):
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
                url = mysql_place(server, "servers").url().replace("root@", "plain@")
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

    def test_its_connections_must_count_what_is_matched(self, place: Place) -> None:
        pool = _Pool(place)
        with pytest.raises(InvalidInput, match="FOUND_ROWS"):
            MySQLSessionDBProvider(Options()).initialize(pool=pool)


class TestLife:
    def test_all_connections_are_in_use(self, place: Place) -> None:
        with SessionDB.from_url(f"{place.url()}?max_connections=1", lock_timeout=0.2) as db:
            db.create_session("s", "cli")
            with db.provider.read() as tx:
                assert tx.one("SELECT 1") == (1,)
                with pytest.raises(StoreUnavailable, match="max_connections"):
                    db.get_session("s")
            assert db.get_session("s") is not None

    def test_a_closed_store(self, place: Place) -> None:
        db = SessionDB.from_url(place.url())
        db.close()
        db.close()
        with pytest.raises(StoreClosed):
            db.get_session("s")

    def test_a_forked_child_has_its_own_connections(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            db.create_session("s", "cli")
            db.append_message("s", "user", "parent")
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    db.append_message("s", "user", "child")
                    db.close()
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
            db.append_message("s", "user", "parent again")
            texts = [message["content"] for message in db.get_messages("s")]
        assert texts == ["parent", "child", "parent again"]

    def test_statements_end_in_time(self, place: Place) -> None:
        with SessionDB.from_url(f"{place.url()}?statement_timeout=0.05") as db:
            columns = "information_schema.columns"
            with (
                pytest.raises(StoreUnavailable, match="longer than allowed"),
                db.provider.read() as tx,
            ):
                tx.one(f"SELECT COUNT(*) FROM {columns} a, {columns} b, {columns} c")
            assert db.session_count() == 0

    def test_connections_that_were_killed(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            ours = run(
                place,
                "SELECT id FROM information_schema.processlist "
                "WHERE db = 'servers' AND id <> CONNECTION_ID()",
            )
            assert ours
            run(place, *(f"KILL {number}" for (number,) in ours))
            assert len(db.get_messages("s")) == 6
            db.append_message("s", "user", "the seventh")
            assert db.message_count("s") == 7

    def test_an_interruption_between_question_and_answer(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A late answer is never taken for that to another question."""
        with SessionDB.from_url(f"{place.url()}?max_connections=1") as db:
            use(db)
            db._keeper.stop()

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
        [(before,)] = run(place, "SELECT @@max_allowed_packet")
        run(place, "SET GLOBAL max_allowed_packet = 1048576")
        try:
            with SessionDB.from_url(place.url()) as db:
                db.create_session("s", "cli")
                with pytest.raises(StatementRefused, match="max_allowed_packet"):
                    db.append_message("s", "user", "x" * 2_000_000)
                db.append_message("s", "user", "small")
                assert db.message_count("s") == 1
        finally:
            run(place, f"SET GLOBAL max_allowed_packet = {before}")


@pytest.mark.parametrize("mode", ["ANSI_QUOTES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"])
def test_texts_come_back_in_any_mode(place: Place, mode: str) -> None:
    """Also when somebody changed what is special in a text."""
    texts = ["\\", "\\'", "'; DROP TABLE messages; -- ", "\\\\'\\", '"%s"', "\n\\n", "''"]
    with SessionDB.from_url(place.url()) as db, db.provider.read() as tx:
        tx.all(f"SET sql_mode = '{mode}'")
        marks = ", ".join("?" * len(texts))
        assert tx.one(f"SELECT {marks}", texts) == tuple(texts)


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

    def test_a_stream_that_nobody_ends(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            db.create_session("s", "cli")
            db.append_messages("s", [{"role": "user", "content": "x" * 1000}] * 100)
            with db.provider.read() as tx:
                rows = tx.stream("SELECT content FROM messages")
                assert next(rows)
            assert db.message_count("s") == 100


class TestSchema:
    def test_a_newer_version_was_here(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
        step = f"('9999_future', 1, {WRITER_LEVEL + 1})"
        run(place, f"INSERT INTO store_migrations (name, applied_at, writer_level) VALUES {step}")
        try:
            with SessionDB.from_url(place.url()) as db:
                assert db.get_session("s") is not None
                assert len(db.search_messages("question")) == 1
                with pytest.raises(SchemaRefused, match="newer version"):
                    db.append_message("s", "user", "no")
        finally:
            run(place, "DELETE FROM store_migrations WHERE name = '9999_future'")

    def test_an_interrupted_step_is_taken_again(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            assert db.provider.steps().waiting == ()
        run(
            place,
            "UPDATE store_migrations SET applied_at = 0",
            "DROP TRIGGER messages_search_delete",
            "DROP TABLE rewinds",
        )
        with SessionDB.from_url(place.url()) as db:
            assert db.provider.steps().waiting == ()
            db.append_message("s", "user", "after it")
            assert len(db.search_messages("after")) == 1
            assert db.list_rewinds("s") == []
        found = run(place, "SHOW TRIGGERS LIKE 'messages'")
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
    @pytest.mark.parametrize(
        "damage",
        [
            "DROP TABLE search_documents",
            "TRUNCATE search_documents",
            "ALTER TABLE search_documents DROP INDEX idx_search_documents_tokens",
            "DELETE FROM search_state",
        ],
    )
    def test_damage_is_mended(self, place: Place, damage: str) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            run(place, damage)
            db.append_message("s", "user", "written without an index")
            assert len(db.search_messages("question")) == 1
            assert len(db.search_messages("written")) == 1
            assert db.search_index_status()["complete"]

    def test_changes_by_others_are_noticed(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            run(
                place,
                "UPDATE messages SET content = 'an okapi' WHERE ordinal = 1",
                "DELETE FROM messages WHERE content = 'answer 3'",
                "INSERT INTO messages (session_id, role, content, timestamp, ordinal) "
                "VALUES ('s', 'user', 'by hand', 1.0, 100)",
            )
            assert db.search_messages("question") == []
            assert len(db.search_messages("okapi")) == 1
            assert len(db.search_messages('"by hand"')) == 1
            assert len(db.search_messages("answer")) == 4

    def test_older_documents_are_found_by_the_index_alone(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            db.append_message("s", "user", "a first question, quite another")
            assert len(db.search_messages("question")) == 2
            run(place, "UPDATE search_documents SET written = '2000-01-01'")
            assert len(db.search_messages("question")) == 2
            assert len(db.search_messages('"first question"')) == 2
            assert len(db.search_messages('"question first"')) == 0
            assert len(db.search_messages('question -"quite another"')) == 1
            assert len(db.search_messages("quest* AND (anoth* OR nothing)")) == 1
            assert len(db.search_messages("-question")) == 5

    def test_space_is_given_back(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            assert db.provider.size_bytes() > 0
            db.provider.reclaim()
            assert len(db.search_messages("question")) == 1


def test_a_server_that_is_not_there() -> None:
    nowhere = Options(port=free_port(), database="x", lock_timeout=0.1)
    with pytest.raises(StoreUnreachable, match=f"{nowhere.port}.*Check that it runs"):
        MySQLSessionDBProvider(nowhere).initialize()

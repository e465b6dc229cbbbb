"""What only PostgreSQL has: poolers, roles, schemas, pools of the application."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from hermes_sessions import SessionDB
from hermes_sessions.errors import SchemaRefused, StoreClosed, StoreReadOnly, StoreUnavailable
from hermes_sessions.storage.postgresql.connections import Options
from hermes_sessions.storage.postgresql.provider import PostgreSQLSessionDBProvider
from hermes_sessions.storage.postgresql.schema import WRITER_LEVEL
from tests.servers.launching import Server, postgresql_url, start_pgbouncer
from tests.servers.stores import Place, postgresql_place, postgresql_store


@pytest.fixture
def place(postgresql: Server) -> Iterator[Place]:
    with postgresql_store(postgresql, "servers"):
        yield postgresql_place(postgresql, "servers")


def run(place: Place, sql: str) -> None:
    with psycopg.connect(postgresql_url(place.server), autocommit=True) as connection:
        connection.execute("SET search_path = servers")
        connection.execute(sql.encode())


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


class TestRoles:
    def test_a_role_that_may_only_read(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            db.append_message("s", "user", "not yet indexed pangolin")
            db._keeper.stop()
            run(place, "DROP ROLE IF EXISTS reader")
            run(place, "CREATE ROLE reader LOGIN")
            run(place, "GRANT USAGE ON SCHEMA servers TO reader")
            run(place, "GRANT SELECT ON ALL TABLES IN SCHEMA servers TO reader")
        try:
            url = place.url().replace("hermes@", "reader@")
            with SessionDB.from_url(url) as db:
                assert [row["id"] for row in db.list_sessions_rich()] == ["s"]
                assert len(db.search_messages("question")) == 1
                assert len(db.search_messages("pangolin")) == 1
                with pytest.raises(StoreReadOnly, match="may not"):
                    db.append_message("s", "user", "no")
                with pytest.raises(StoreReadOnly):
                    db.create_session("t", "cli")
        finally:
            run(place, "DROP OWNED BY reader; DROP ROLE reader")

    def test_a_store_that_may_not_be_created(self, place: Place) -> None:
        run(place, "DROP ROLE IF EXISTS stranger")
        run(place, "CREATE ROLE stranger LOGIN")
        try:
            with pytest.raises(StoreReadOnly, match="may not"):
                SessionDB.from_url(place.new_url().replace("hermes@", "stranger@"))
        finally:
            run(place, "DROP ROLE stranger")


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


class TestLife:
    def test_all_connections_are_in_use(self, place: Place) -> None:
        with SessionDB.from_url(f"{place.url()}&max_connections=1", lock_timeout=0.2) as db:
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
        with SessionDB.from_url(f"{place.url()}&statement_timeout=0.05") as db:
            with (
                pytest.raises(StoreUnavailable, match="longer than allowed"),
                db.provider.read() as tx,
            ):
                tx.one("SELECT pg_sleep(?)", (10,))
            assert db.session_count() == 0


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
                with pytest.raises(SchemaRefused):
                    db.create_session("t", "cli")
        finally:
            run(place, "DELETE FROM store_migrations WHERE name = '9999_future'")

    def test_a_step_that_only_adds_does_not_disturb(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            run(place, "ALTER TABLE messages ADD COLUMN mood TEXT")
            try:
                use(db)
            finally:
                run(place, "ALTER TABLE messages DROP COLUMN mood")


class TestIndex:
    @pytest.mark.parametrize(
        "damage",
        [
            "DROP TABLE search_documents",
            "TRUNCATE search_documents",
            "DROP INDEX idx_search_documents_tokens",
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
            run(place, "UPDATE messages SET content = 'an okapi' WHERE ordinal = 1")
            run(place, "DELETE FROM messages WHERE content = 'answer 3'")
            run(
                place,
                "INSERT INTO messages (session_id, role, content, timestamp, ordinal) "
                "VALUES ('s', 'user', 'by hand', 1.0, 100)",
            )
            assert db.search_messages("question") == []
            assert len(db.search_messages("okapi")) == 1
            assert len(db.search_messages('"by hand"')) == 1
            assert len(db.search_messages("answer")) == 4

    def test_a_phrase_among_very_many_of_its_words(self, place: Place) -> None:
        """The server keeps 255 places of one word."""
        with SessionDB.from_url(place.url()) as db:
            db.create_session("s", "cli")
            crowded = db.append_message("s", "user", "alpha beta " * 0 + "alpha. " * 300 + "gamma")
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

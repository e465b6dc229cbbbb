"""Behaviour of every server: permissions, connections, migrations, the index."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import (
    ConstraintViolated,
    SchemaRefused,
    StoreClosed,
    StoreReadOnly,
    StoreUnavailable,
)
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.tables import KNOWN_LEVEL
from tests.servers.stores import Place, use

#: How each server gives the right to read; and a statement that takes too long.
_READING = {
    "postgresql": (
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN",
        "GRANT USAGE ON SCHEMA servers TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA servers TO reader",
    ),
    "mariadb": (
        "CREATE OR REPLACE USER reader IDENTIFIED BY 'p@ss:w/örd'",
        "GRANT SELECT ON servers.* TO reader",
    ),
}
_LOGIN = {"postgresql": "reader", "mariadb": "reader:p%40ss%3Aw%2F%C3%B6rd"}
_NO_RIGHTS = {
    "postgresql": ("DROP ROLE IF EXISTS stranger", "CREATE ROLE stranger LOGIN"),
    "mariadb": ("CREATE OR REPLACE USER stranger", "GRANT SELECT ON *.* TO stranger"),
}
_COLUMNS = "information_schema.columns"
_ENDLESS = {
    "postgresql": "SELECT pg_sleep(600)",
    "mariadb": f"SELECT COUNT(*) FROM {_COLUMNS} a, {_COLUMNS} b, {_COLUMNS} c",
}
_WITHOUT_INDEX = {
    "postgresql": "DROP INDEX idx_search_documents_tokens",
    "mariadb": "ALTER TABLE search_documents DROP INDEX idx_search_documents_tokens",
}


@contextmanager
def user(place: Place, name: str, made_by: tuple[str, ...]) -> Iterator[None]:
    place.run(*made_by)
    try:
        yield
    finally:
        if place.kind == "postgresql":
            place.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")
        else:
            place.run(f"DROP USER {name}")


class TestRights:
    def test_a_user_who_may_only_read(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            db.append_message("s", "user", "not yet indexed pangolin")
            db._background_indexer.stop()
            with (
                user(place, "reader", _READING[place.kind]),
                SessionDB.from_url(place.url_as(_LOGIN[place.kind])) as reader,
            ):
                assert [row["id"] for row in reader.list_sessions_rich()] == ["s"]
                assert len(reader.search_messages("question")) == 1
                assert len(reader.search_messages("pangolin")) == 1
                with pytest.raises(StoreReadOnly, match="may not"):
                    reader.append_message("s", "user", "no")
                with pytest.raises(StoreReadOnly):
                    reader.create_session("t", "cli")

    def test_a_store_that_may_not_be_created(self, place: Place) -> None:
        with (
            user(place, "stranger", _NO_RIGHTS[place.kind]),
            pytest.raises(StoreReadOnly, match="may not"),
        ):
            SessionDB.from_url(place.new_url("stranger"))


class TestLife:
    def test_all_connections_are_in_use(self, place: Place) -> None:
        with SessionDB.from_url(place.url(max_connections=1), lock_timeout=0.2) as db:
            db.create_session("s", "cli")
            with db.provider.read() as tx:
                assert tx.one("SELECT 1") == (1,)
                said = f"sessiondb.{db.provider.name}.max_connections"
                with pytest.raises(StoreUnavailable, match=said):
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
        # Long enough for all the others, on a busy machine.
        with SessionDB.from_url(place.url(statement_timeout=2)) as db:
            with (
                pytest.raises(StoreUnavailable, match="longer than allowed"),
                db.provider.read() as tx,
            ):
                tx.one(_ENDLESS[place.kind])
            assert db.session_count() == 0

    def test_a_stream_that_is_not_read_to_its_end(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            db.create_session("s", "cli")
            db.append_messages("s", [{"role": "user", "content": "x" * 1000}] * 100)
            with db.provider.read() as tx:
                rows = tx.stream("SELECT content FROM messages")
                assert next(rows)
            assert db.message_count("s") == 100


class TestAppending:
    def test_only_a_thread_that_lists_show_elsewhere_takes_more(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A subagent's messages are stored as those of a session in lists: in one step."""
        with SessionDB.from_url(place.url()) as db:
            db.create_session("root", "cli")
            db.create_session("sub", "cli", parent_session_id="root", edge_kind="subagent")
            db.create_session("unsaid", "cli", parent_session_id="root")
            db.end_session("root", "compression")
            db.create_session("tip", "cli", parent_session_id="root", edge_kind="compression")
            taken: list[bool] = []
            append = type(db.provider)._append  # type: ignore[attr-defined]

            def noted(*args: Any, tip_too: bool) -> int | None:
                taken.append(tip_too)
                return cast("int | None", append(*args, tip_too=tip_too))

            monkeypatch.setattr(type(db.provider), "_append", noted)
            for session_id, steps in (
                ("sub", [False]),
                ("unsaid", [False]),
                ("tip", [False]),
                ("root", [False, True]),
                ("root", [True]),
            ):
                taken.clear()
                db.append_message(session_id, "user", "said")
                assert taken == steps, session_id
            counted = place.run("SELECT id, message_count, next_ordinal FROM sessions ORDER BY id")
            assert counted == [("root", 2, 3), ("sub", 1, 2), ("tip", 1, 2), ("unsaid", 1, 2)]
            [(late, shown)] = place.run(
                "SELECT r.last_active, t.last_active FROM sessions r, sessions t "
                "WHERE r.id = 'root' AND t.id = 'tip'"
            )
            assert shown == late


class TestCollisions:
    INSERT = "INSERT INTO write_marks (mark, marked_at) VALUES (?, ?)"

    def test_a_key_that_was_free_a_moment_ago(self, place: Place) -> None:
        """A unit that looked first is run again, and sees who was faster."""
        attempts: list[bool] = []

        def work(tx: WriteTransaction) -> None:
            tx.one("SELECT COUNT(*) FROM sessions")
            if not attempts:
                place.run("INSERT INTO servers.write_marks (mark, marked_at) VALUES ('k', 1)")
            is_free = tx.one("SELECT 1 FROM write_marks WHERE mark = ?", ("k",)) is None
            attempts.append(is_free)
            if is_free:
                tx.run(self.INSERT, ("k", 2))

        with SessionDB.from_url(place.url()) as db:
            db.provider.write(work)
            assert attempts[-1] is False
            with db.provider.read() as tx:
                assert tx.one("SELECT marked_at FROM write_marks WHERE mark = 'k'") == (1,)

    def test_a_key_that_is_taken_meanwhile(self, place: Place) -> None:
        """Likewise where a unit waits for rows: one that is not there yet cannot be locked."""
        attempts: list[bool] = []

        def work(tx: WriteTransaction) -> None:
            is_free = tx.one("SELECT 1 FROM write_marks WHERE mark = ?", ("k",)) is None
            if not attempts:
                place.run("INSERT INTO servers.write_marks (mark, marked_at) VALUES ('k', 1)")
            attempts.append(is_free)
            if is_free:
                tx.run(self.INSERT, ("k", 2))

        with SessionDB.from_url(place.url()) as db:
            place.run("DELETE FROM servers.write_marks WHERE mark = 'k'")
            db.provider.write(work, isolated=False)
        assert attempts == [True, False]

    def test_a_key_that_stays_taken(self, place: Place) -> None:
        attempts: list[None] = []

        def work(tx: WriteTransaction) -> None:
            attempts.append(None)
            tx.run(self.INSERT, ("mine", 2))

        with SessionDB.from_url(place.url()) as db:
            db.provider.write(work)
            with pytest.raises(ConstraintViolated, match="constraint failed"):
                db.provider.write(work)
        assert 1 < len(attempts) < 10

    @pytest.mark.parametrize("isolated", [True, False])
    def test_a_row_that_another_connection_just_referenced(
        self, place: Place, isolated: bool
    ) -> None:
        """Likewise: PostgreSQL says so although an isolated unit cannot see who does."""
        attempts: list[int] = []
        refer = (
            "INSERT INTO servers.rewinds (session_id, target_message_id, target_ordinal, "
            "hidden_count, head_ordinal, rewound_at) VALUES ('s', 1, 1, 1, 1, 1)"
        )

        def work(tx: WriteTransaction) -> None:
            tx.one("SELECT COUNT(*) FROM state_meta")
            # MariaDB lets no other write come between the reads and writes of an isolated unit.
            if not attempts and isolated:
                place.run(refer)
            attempts.append(tx.run("DELETE FROM rewinds WHERE session_id = ?", ("s",)))
            if len(attempts) == 1 and not isolated:
                place.run(refer)
            tx.run("DELETE FROM sessions WHERE id = ?", ("s",))

        with SessionDB.from_url(place.url()) as db:
            db.create_session("s", "cli")
            db.provider.write(work, isolated=isolated)
            assert db.get_session("s") is None
        assert attempts[-1] == 1


class TestSchema:
    def test_a_newer_version_was_here(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
        place.run(
            f"INSERT INTO store_migrations (name, applied_at, writer_level) "
            f"VALUES ('9999_future', 1, {KNOWN_LEVEL + 1})"
        )
        try:
            with SessionDB.from_url(place.url()) as db:
                assert db.get_session("s") is not None
                assert len(db.search_messages("question")) == 1
                with pytest.raises(SchemaRefused, match="newer version"):
                    db.append_message("s", "user", "no")
                with pytest.raises(SchemaRefused):
                    db.create_session("t", "cli")
        finally:
            place.run("DELETE FROM store_migrations WHERE name = '9999_future'")

    def test_a_step_that_only_adds_does_not_disturb(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            place.run("ALTER TABLE messages ADD COLUMN mood TEXT")
            try:
                use(db)
            finally:
                place.run("ALTER TABLE messages DROP COLUMN mood")


class TestIndex:
    @pytest.mark.parametrize(
        "damage",
        [
            "DROP TABLE search_documents",
            "TRUNCATE TABLE search_documents",
            "the index of the table",
            "DELETE FROM search_state",
        ],
    )
    def test_damage_is_mended(self, place: Place, damage: str) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            db._background_indexer.stop()  # The searches mend it.
            place.run(_WITHOUT_INDEX[place.kind] if damage.startswith("the") else damage)
            db.append_message("s", "user", "written without an index")
            assert len(db.search_messages("question")) == 1
            assert len(db.search_messages("written")) == 1
            assert db.search_index_status()["complete"]

    def test_changes_by_others_are_noticed(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            place.run(
                "UPDATE messages SET content = 'an okapi' WHERE ordinal = 1",
                "DELETE FROM messages WHERE content = 'answer 3'",
                "INSERT INTO messages (session_id, role, content, timestamp, ordinal) "
                "VALUES ('s', 'user', 'by hand', 1.0, 100)",
            )
            assert db.search_messages("question") == []
            assert len(db.search_messages("okapi")) == 1
            assert len(db.search_messages('"by hand"')) == 1
            assert len(db.search_messages("answer")) == 4

    def test_space_is_given_back(self, place: Place) -> None:
        with SessionDB.from_url(place.url()) as db:
            use(db)
            assert db.provider.size_bytes() > 0
            db.provider.reclaim()
            assert len(db.search_messages("question")) == 1

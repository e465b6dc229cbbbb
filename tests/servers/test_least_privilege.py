"""The grants in docs/servers.md for owner, writer and reader are sufficient and minimal."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.errors import StoreReadOnly
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.care.backups import create_backup, restore_backup, verify_backup
from hermes_sessions.storage.mysql import migrations as mysql_migrations
from hermes_sessions.storage.postgresql import migrations as postgresql_migrations
from hermes_sessions.storage.servers.migrations import Migration
from tests.servers.random_calls import operation, perform
from tests.servers.stores import Place, mysql_place, postgresql_place, use

PAGE = Path(__file__).parents[2] / "docs" / "servers.md"
ROLES = ("hermes_owner", "hermes_writer", "hermes_reader")
_OF_THE_SCHEMA = {"postgresql": postgresql_migrations, "mariadb": mysql_migrations}
#: What a writer must not be able to do.
_CHANGES = {
    "postgresql": (
        "CREATE TABLE {name}.mine (x INT)",
        "DROP TABLE {name}.write_marks",
        "ALTER TABLE {name}.messages ADD COLUMN mine INT",
        "TRUNCATE {name}.messages",
        "DROP SCHEMA {name} CASCADE",
        "CREATE SCHEMA mine",
        "ALTER TABLE {name}.messages DISABLE TRIGGER USER",
        "DROP FUNCTION {name}.search_note_new() CASCADE",
    ),
    "mariadb": (
        "CREATE TABLE {name}.mine (x INT)",
        "DROP TABLE {name}.write_marks",
        "ALTER TABLE {name}.messages ADD COLUMN mine INT",
        "TRUNCATE {name}.messages",
        "DROP DATABASE {name}",
        "CREATE DATABASE mine",
        "DROP TRIGGER {name}.messages_search_insert",
    ),
}


class Store(NamedTuple):
    """A store whose tables an owner has made, as the page says."""

    place: Place
    name: str

    def url(self, role: str) -> str:
        server = f"{role}@127.0.0.1:{self.place.port}"
        if self.place.kind == "postgresql":
            return f"postgresql://{server}/postgres?schema={self.name}"
        return f"mysql://{server}/{self.name}"

    def run_as(self, role: str, statement: str) -> None:
        """Execute a statement with the driver itself."""
        if self.place.kind == "postgresql":
            import psycopg

            with psycopg.connect(self.url(role).partition("?")[0], autocommit=True) as connection:
                connection.execute(statement.encode())
        else:
            import pymysql

            connection = pymysql.connect(
                host="127.0.0.1", port=self.place.port, user=role, ssl_disabled=True
            )
            with connection, connection.cursor() as cursor:
                cursor.execute(statement)


def statements_of_the_page(kind: str, name: str) -> list[str]:
    """What the page tells an administrator to run, for a store of another name."""
    blocks = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    [block] = [each for each in blocks if ("SCHEMA" in each) == (kind == "postgresql")]
    renamed = re.sub(r"\bagents\b", name, block)
    return [each.strip() for each in renamed.split(";") if each.strip()]


@pytest.fixture(params=["postgresql", "mariadb"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    server = request.getfixturevalue(request.param)
    name = "least_privilege"
    if request.param == "postgresql":
        place = postgresql_place(server, "public")
        undone = [
            f"DROP SCHEMA IF EXISTS {name} CASCADE",
            *(f"DROP OWNED BY {role}" for role in ROLES),
            *(f"DROP ROLE {role}" for role in ROLES),
        ]
    else:
        place = mysql_place(server, "mysql")
        place.run(f"CREATE DATABASE {name}")
        undone = [f"DROP DATABASE {name}", *(f"DROP USER {role}" for role in ROLES)]
    place.run(*statements_of_the_page(request.param, name))
    made = Store(place, name)
    try:
        SessionDB.from_url(made.url("hermes_owner")).close()
        yield made
    finally:
        place.run(*undone)


class TestTheWriter:
    def test_does_what_a_day_brings(self, store: Store, tmp_path: Path) -> None:
        """Opened first after the owner made the tables: nothing has been indexed yet."""
        url = store.url("hermes_writer")
        with SessionDB.from_url(url) as db:
            use(db)
            db.optimize_search()
            assert db.search_index_status()["complete"]
            talk_on_a_lane(db, tmp_path)
            db.set_session_archived("s", archived=True)
            made = create_backup(db, tmp_path / "backups")
            assert verify_backup(made.path).messages >= 6
            exported = [{**each, "id": f"{each['id']}-copy"} for each in db.export_all()]
            assert db.import_sessions(exported)["errors"] == []
            assert db.provider.size_bytes() > 0
            db.provider.reclaim()
            assert db.delete_session("s")
        restored = tmp_path / "restored.db"
        restore_backup(made.path, restored)
        with SessionDB(restored) as copy:
            assert len(copy.get_messages("s")) == 6

    def test_every_verb_in_a_random_order(self, store: Store, tmp_path: Path) -> None:
        chance = random.Random(11)
        with (
            SessionDB(tmp_path / "state.db") as here,
            SessionDB.from_url(store.url("hermes_writer")) as there,
        ):
            for number in range(150):
                call = operation(chance, here)
                expected, found = perform(here, call), perform(there, call)
                denied = [each for each in (str(found),) if "denied" in each or "may not" in each]
                assert denied == [], f"call {number}: {call}"
                assert isinstance(found, type(expected)), f"call {number}: {call}"

    def test_restores_a_backup_into_an_empty_store(self, store: Store, tmp_path: Path) -> None:
        with SessionDB(tmp_path / "state.db") as db:
            use(db)
            made = create_backup(db, tmp_path / "backups", portable=True)
        restore_backup(made.path, store.url("hermes_writer"))
        with SessionDB.from_url(store.url("hermes_writer")) as db:
            # Numbers that were brought along are not given again.
            db.append_message("s", "user", "one more")
            assert [message["ordinal"] for message in db.get_messages("s")] == list(range(1, 8))

    def test_cannot_change_tables(self, store: Store) -> None:
        for statement in _CHANGES[store.place.kind]:
            with pytest.raises(Exception, match=r"denied|must be owner"):
                store.run_as("hermes_writer", statement.format(name=store.name))
        with SessionDB.from_url(store.url("hermes_writer")) as db:
            use(db)

    def test_meets_tables_of_an_earlier_version(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("HERMES_HOME", str(tmp_path))
        schema = _OF_THE_SCHEMA[store.place.kind]
        added = Migration("9999_more", ("CREATE TABLE later (id BIGINT PRIMARY KEY)",))
        with SessionDB.from_url(store.url("hermes_writer")) as db:
            use(db)
            monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, added))
            with pytest.raises(StoreReadOnly) as refused:
                SessionDB.from_url(store.url("hermes_writer"))
            for word in ("9999_more", "hermes_writer", "hermes sessiondb upgrade", "may not"):
                assert word in str(refused.value)
            if store.place.kind == "postgresql":
                assert "'hermes_owner'" in str(refused.value)
            assert not list(tmp_path.rglob("*.hsb")), "backed up for a step that was not taken"
            # Processes that already run continue.
            db.append_message("s", "user", "meanwhile")
        SessionDB.from_url(store.url("hermes_owner")).close()
        store.run_as("hermes_writer", f"INSERT INTO {store.name}.later VALUES (1)")
        with SessionDB.from_url(store.url("hermes_writer")) as db:
            assert len(db.get_messages("s")) == 7

    def test_a_damaged_index_is_the_owners_to_mend(self, store: Store) -> None:
        with SessionDB.from_url(store.url("hermes_writer")) as db:
            use(db)
        statement = f"DROP INDEX {store.name}.idx_search_documents_tokens"
        if store.place.kind == "mariadb":
            statement = f"DROP INDEX idx_search_documents_tokens ON {store.name}.search_documents"
        store.run_as("hermes_owner", statement)
        with SessionDB.from_url(store.url("hermes_writer")) as db:
            db.append_message("s", "user", "written without an index")
            assert len(db.search_messages("written")) == 1
            with pytest.raises(StoreReadOnly, match=r"may not rebuild it.*hermes sessions opt"):
                db.optimize_search(rebuild=True)
        with SessionDB.from_url(store.url("hermes_owner")) as db:
            assert len(db.search_messages("written")) == 1
            assert db.search_index_status()["complete"]


class TestTheReader:
    def test_reads_and_changes_nothing(self, store: Store) -> None:
        with SessionDB.from_url(store.url("hermes_writer")) as db:
            use(db)
        with SessionDB.from_url(store.url("hermes_reader")) as db:
            assert [row["id"] for row in db.list_sessions_rich()] == ["s"]
            assert len(db.search_messages("question")) == 1
            assert len(db.get_messages("s")) == 6
            refused: list[Any] = [
                lambda: db.append_message("s", "user", "no"),
                lambda: db.create_session("t", "cli"),
                lambda: db.delete_session("s"),
                lambda: db.set_session_title("s", "no"),
            ]
            for attempt in refused:
                with pytest.raises(StoreReadOnly, match="may not"):
                    attempt()


def talk_on_a_lane(db: SessionDB, directory: Path) -> None:
    with SessionStore(directory / "sessions", GatewayConfig(), db=db) as sessions:
        source = SessionSource(platform=Platform.TELEGRAM, chat_id="1", user_id="ada")
        entry = sessions.get_or_create_session(source)
        sessions.append_to_transcript(entry.session_id, {"role": "user", "content": "hello"})
        renewed = sessions.reset_session(entry.session_key)
        assert renewed is not None
        assert renewed.session_id != entry.session_id

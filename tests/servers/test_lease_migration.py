"""Stores from before leases are migrated, on every database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import ConversationHeld, SessionDB
from hermes_sessions.storage.mysql import migrations as mysql_migrations
from hermes_sessions.storage.postgresql import migrations as postgresql_migrations
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.sqlite import migrations as sqlite_migrations
from tests.servers.server_processes import Server, mysql_connection
from tests.storage.transfer.stores import KINDS, NewStore, stores_in

SCHEMAS: dict[str, Any] = {
    "sqlite": sqlite_migrations,
    "postgresql": postgresql_migrations,
    "mysql": mysql_migrations,
}
BEFORE = ("0001_base", "0002_search")


@pytest.fixture
def new_store(tmp_path: Path, request: pytest.FixtureRequest) -> NewStore:
    return stores_in(tmp_path, request)


def older_store(new_store: NewStore, kind: str) -> str:
    """Make a store with a session, a continuation and a message, as it was before the step."""
    schema = SCHEMAS[kind]
    url = new_store(kind)

    def fill(tx: WriteTransaction) -> None:
        for session_id, parent, edge, tip, listed in (
            ("a", None, None, "b", 0),
            ("b", "a", "compression", None, 1),
        ):
            tx.run(
                "INSERT INTO sessions (id, source, started_at, last_active, parent_session_id, "
                "edge_kind, conversation_id, chain_id, tip_id, listed, message_count, next_ordinal)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (session_id, "cli", 1.0, 2.0, parent, edge, "a", "a", tip, listed, 1, 2),
            )
            tx.run(
                "INSERT INTO messages (session_id, ordinal, role, content, timestamp) "
                "VALUES (?, ?, ?, ?, ?)",
                (session_id, 1, "user", f"from {session_id}", 2.0),
            )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:2])
        with SessionDB.from_url(url) as db:
            assert db.provider.steps().taken == BEFORE
            db.provider.write(fill)
    return url


def check(url: str, kind: str) -> None:
    with SessionDB.from_url(url) as db:
        assert db.provider.steps().taken == tuple(s.name for s in SCHEMAS[kind].MIGRATIONS)
        assert db.lease_of("a") is None
        lease = db.take_lease("a", "a chat")
        for name in ("a", "b"):
            with pytest.raises(ConversationHeld):
                db.append_message(name, "user", "no")
            db.append_message(name, "assistant", "yes", fence=lease.token)
            found = [message["content"] for message in db.get_messages(name)]
            assert found == [f"from {name}", "yes"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_older_store(new_store: NewStore, kind: str) -> None:
    url = older_store(new_store, kind)
    with SessionDB.from_url(url, read_only=True) as db:
        assert db.provider.steps().taken == BEFORE
        assert db.message_count() == 2
        assert [row["id"] for row in db.list_sessions_rich()] == ["b"]
    check(url, kind)


def test_a_step_that_was_interrupted(new_store: NewStore, mariadb: Server) -> None:
    """This server commits every change of a table by itself."""
    url = older_store(new_store, "mysql")
    name = next(step for step in mysql_migrations.MIGRATIONS if step.name == "0003_lifecycle").name
    with mysql_connection(mariadb, url.rpartition("/")[2].partition("?")[0]) as connection:
        cursor = connection.cursor()
        cursor.execute(f"INSERT INTO store_migrations VALUES ('{name}', 0, 1)")
        cursor.execute("ALTER TABLE sessions ADD COLUMN fence BIGINT")
    check(url, "mysql")

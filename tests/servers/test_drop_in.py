"""The drop-in module when the configuration of a home names a server."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import hermes_state
from tests.drop_in.usage import require_usage
from tests.servers.stores import Place


@pytest.fixture
def home(place: Place, tmp_path: Path) -> Path:
    """A home whose sessions are on the server."""
    where = {"host": "127.0.0.1", "port": place.port}
    if place.kind == "postgresql":
        where |= {"user": "hermes", "database": "postgres", "schema": place.name}
    else:
        where |= {"user": "root", "database": place.name}
    provider = "postgresql" if place.kind == "postgresql" else "mysql"
    configured = {"provider": provider, provider: where}
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text(json.dumps({"sessiondb": configured}))
    return home


def test_the_file_of_the_home_stands_for_the_server(home: Path) -> None:
    file = home / "state.db"
    with closing(hermes_state.SessionDB(file)) as db:
        assert db.db_path == file
        db.create_session("s", "cli")
        db.append_message("s", "user", "hello")
    with closing(hermes_state.SessionDB(db_path=file, read_only=True)) as db:
        assert [message["content"] for message in db.get_messages("s")] == ["hello"]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            db.set_meta("key", "value")
    assert hermes_state._db_opens_cleanly(file) is None
    assert hermes_state.repair_state_db_schema(file)["strategy"] == "already_healthy"


def test_the_file_beside_the_server_is_one_for_hermes_agent(home: Path) -> None:
    """Its doctor counts sessions; other parts of it add tables."""
    file = home / "state.db"
    with closing(hermes_state.SessionDB(file, read_only=True)):
        assert not file.exists()
    with closing(hermes_state.SessionDB(file)):
        assert file.stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(file)) as theirs, theirs:
        assert theirs.execute("SELECT COUNT(*) FROM sessions").fetchone() == (0,)
        theirs.execute("CREATE TABLE delivery_obligations (id)")
        theirs.execute("INSERT INTO delivery_obligations VALUES ('kept')")
    with closing(hermes_state.SessionDB(file)) as db:
        db.create_session("s", "cli")
    with closing(sqlite3.connect(file)) as theirs:
        assert theirs.execute("SELECT id FROM delivery_obligations").fetchone() == ("kept",)


def test_messages_renew_the_time_of_that_file(home: Path) -> None:
    """The MCP server of hermes-agent reads only when it changed."""
    file = home / "state.db"
    with closing(hermes_state.SessionDB(file)) as db:
        db.create_session("s", "cli")
        os.utime(file, (1, 1))
        db.append_message("s", "user", "hello")
        assert file.stat().st_mtime > 1
        file.unlink()
        assert db.append_message("s", "user", "there") > 0


def test_usage_has_the_names_of_hermes_agent(home: Path) -> None:
    with closing(hermes_state.SessionDB(home / "state.db")) as db:
        require_usage(db)


def test_a_server_that_does_not_answer(home: Path) -> None:
    settings = json.loads((home / "config.yaml").read_text())
    section = settings["sessiondb"][settings["sessiondb"]["provider"]]
    section.update(port=1, lock_timeout=1)
    (home / "config.yaml").write_text(json.dumps(settings))
    file = home / "state.db"
    reason = hermes_state._db_opens_cleanly(file)
    assert reason is not None
    assert "127.0.0.1" in reason
    result = hermes_state.repair_state_db_schema(file)
    assert (result["repaired"], result["error"]) == (False, reason)

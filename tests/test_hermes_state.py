"""The drop-in module: the names that code for the described system imports."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

import hermes_sessions
import hermes_state
from hermes_sessions import errors
from hermes_state import SessionDB
from tests.drop_in.usage import require_usage


@pytest.fixture(autouse=True)
def no_error_recorded() -> Iterator[None]:
    hermes_state._set_last_init_error(None)
    yield
    hermes_state._set_last_init_error(None)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with closing(SessionDB(tmp_path / "state.db")) as db:
        db.create_session("s1", source="cli", model="gpt")
        db.append_message("s1", role="user", content="hello")
        db.append_message("s1", role="assistant", content="hi", tool_calls=[{"id": "1"}])
        yield db


class TestSurface:
    @pytest.mark.parametrize(
        "name",
        [
            *("SessionDB", "DEFAULT_DB_PATH", "SCHEMA_VERSION", "SCHEMA_SQL", "FTS_SQL"),
            *("FTS_TRIGRAM_SQL", "get_last_init_error", "_set_last_init_error"),
            *("format_session_db_unavailable", "apply_wal_with_fallback", "AsyncSessionDB"),
            *("_db_opens_cleanly", "repair_state_db_schema", "is_malformed_db_error"),
            "workspace_key",
        ],
    )
    def test_every_name_is_there(self, name: str) -> None:
        assert hasattr(hermes_state, name)

    def test_exported_names_exist(self) -> None:
        assert all(hasattr(hermes_state, name) for name in hermes_state.__all__)

    def test_it_is_the_store_with_more_names(self, db: SessionDB) -> None:
        assert isinstance(db, hermes_sessions.SessionDB)
        assert SessionDB.MAX_TITLE_LENGTH == 100
        assert SessionDB.sanitize_title(" a  b ") == "a b"

    def test_the_path_of_a_store(self, db: SessionDB, tmp_path: Path) -> None:
        assert db.db_path == tmp_path / "state.db"
        db.close()
        assert db.db_path == tmp_path / "state.db"

    def test_the_default_path(self) -> None:
        assert hermes_state.DEFAULT_DB_PATH.name == "state.db"
        assert isinstance(hermes_state.DEFAULT_DB_PATH, Path)

    def test_the_default_path_can_be_replaced(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(hermes_state, "DEFAULT_DB_PATH", tmp_path / "deep" / "other.db")
        with closing(SessionDB()) as db:
            assert db.db_path == tmp_path / "deep" / "other.db"
        with closing(SessionDB(db_path=None)) as db:
            assert db.db_path == tmp_path / "deep" / "other.db"

    def test_a_default_path_that_was_put_back_counts_no_more(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as for_a_while:
            for_a_while.setattr(hermes_state, "DEFAULT_DB_PATH", tmp_path / "other.db")
        monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
        with closing(SessionDB()) as db:
            assert db.db_path == tmp_path / "home" / "state.db"

    def test_without_a_path_the_environment_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
        with closing(SessionDB()) as db:
            assert db.db_path == tmp_path / "home" / "state.db"

    def test_a_handle_for_reading(self, db: SessionDB, tmp_path: Path) -> None:
        assert db.read_only is False
        with closing(SessionDB(tmp_path / "state.db", True)) as reader:
            assert reader.read_only is True
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                reader.set_meta("key", "value")
        with pytest.raises(sqlite3.OperationalError):
            SessionDB(db_path=tmp_path / "missing" / "state.db", read_only=True)
        assert not (tmp_path / "missing").exists()

    def test_the_file_of_a_home_stands_for_its_configured_store(self, tmp_path: Path) -> None:
        (tmp_path / "config.yaml").write_text("sessiondb: {sqlite: {path: other.db}}")
        with closing(SessionDB(tmp_path / "state.db")) as db:
            assert db.db_path == tmp_path / "other.db"
        assert not (tmp_path / "state.db").exists()
        with closing(SessionDB(tmp_path / "another.db")) as db:
            assert db.db_path == tmp_path / "another.db"

    def test_other_databases_have_no_connection_to_reach_for(self) -> None:
        with hermes_sessions.SessionDB(":memory:") as plain:
            for name in ("conn", "_conn", "connection", "_connection", "_lock"):
                assert not hasattr(plain, name)


class TestInitErrors:
    def test_a_failure_is_recorded_and_raised(self, tmp_path: Path) -> None:
        """Behaviour 87."""
        path = tmp_path / "state.db"
        path.write_bytes(b"this is not a database at all" * 40)
        assert hermes_state.get_last_init_error() is None
        with pytest.raises(sqlite3.DatabaseError, match="file is not a database"):
            SessionDB(path)
        recorded = hermes_state.get_last_init_error()
        assert recorded is not None
        assert recorded.startswith("NotADatabase: ")
        assert str(path) in recorded

    def test_a_success_does_not_clear_it(self, tmp_path: Path) -> None:
        with pytest.raises(errors.StoreUnreachable):
            SessionDB(tmp_path)
        with closing(SessionDB(tmp_path / "state.db")):
            recorded = hermes_state.get_last_init_error()
        assert recorded is not None
        assert recorded.startswith("StoreUnreachable: ")

    def test_a_directory_that_cannot_be_made_is_recorded(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(sqlite3.OperationalError, match="cannot be created"):
            SessionDB(tmp_path / "file" / "below" / "state.db")
        assert "cannot be created" in (hermes_state.get_last_init_error() or "")

    def test_a_sentence_without_a_cause(self) -> None:
        assert hermes_state.format_session_db_unavailable() == "Session database not available."
        assert hermes_state.format_session_db_unavailable("Nicht da") == "Nicht da."

    def test_a_sentence_with_a_cause(self) -> None:
        hermes_state._set_last_init_error("OperationalError: no such table: sessions")
        assert hermes_state.format_session_db_unavailable(prefix="No store") == (
            "No store: OperationalError: no such table: sessions."
        )

    @pytest.mark.parametrize("cause", ["locking protocol", "not authorized", "LOCKING PROTOCOL"])
    def test_a_sentence_with_a_hint(self, cause: str) -> None:
        hermes_state._set_last_init_error(f"OperationalError: {cause}")
        sentence = hermes_state.format_session_db_unavailable()
        assert sentence.startswith(f"Session database not available: OperationalError: {cause} (")
        for word in ("NFS", "SMB", "FUSE", "sqlite.org/wal.html"):
            assert word in sentence
        assert sentence.endswith(").")


class Connection:
    """A caller's connection whose file system cannot do what is asked."""

    def __init__(self, error: Exception, modes: Sequence[str] = ("delete",)) -> None:
        self.error = error
        self.statements: list[str] = []
        #: What the file says each time; the last stays.
        self.modes = list(modes)

    def execute(self, sql: str) -> Connection:
        self.statements.append(sql)
        if sql.upper().endswith("WAL"):
            raise self.error
        return self

    def fetchone(self) -> tuple[str]:
        return (self.modes.pop(0) if len(self.modes) > 1 else self.modes[0],)


READ, WAL, DELETE = "PRAGMA journal_mode", "PRAGMA journal_mode=WAL", "PRAGMA journal_mode=DELETE"


class TestWriteAheadLogging:
    """Behaviour 89, as of 0.19."""

    def test_where_it_is_possible(self, tmp_path: Path) -> None:
        with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
            assert hermes_state.apply_wal_with_fallback(connection) == "wal"
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)

    def test_a_file_that_has_it_is_left_alone(self) -> None:
        connection = Connection(sqlite3.OperationalError("locking protocol"), ["WAL"])
        assert hermes_state.apply_wal_with_fallback(connection) == "wal"
        assert connection.statements == [READ]

    @pytest.mark.parametrize("text", ["locking protocol", "not authorized"])
    def test_where_it_is_not(self, text: str, caplog: pytest.LogCaptureFixture) -> None:
        connection = Connection(sqlite3.OperationalError(text))
        label = f"{text}.db"
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                mode = hermes_state.apply_wal_with_fallback(connection, db_label=label)
                assert mode == "delete"
        assert connection.statements == [READ, WAL, READ, DELETE] * 2
        assert len([record for record in caplog.records if label in record.getMessage()]) == 1

    def test_a_file_that_another_connection_switched_is_not_switched_back(self) -> None:
        connection = Connection(sqlite3.OperationalError("locking protocol"), ["delete", "wal"])
        with pytest.raises(sqlite3.OperationalError, match="locking protocol"):
            hermes_state.apply_wal_with_fallback(connection)
        assert connection.statements == [READ, WAL, READ]

    @pytest.mark.parametrize("text", ["database is locked", "disk I/O error"])
    def test_another_failure_is_raised(self, text: str) -> None:
        connection = Connection(sqlite3.OperationalError(text))
        with pytest.raises(sqlite3.OperationalError, match=text):
            hermes_state.apply_wal_with_fallback(connection)
        assert connection.statements == [READ, WAL]

    def test_an_error_of_ours_counts_as_one_of_sqlite(self) -> None:
        connection = Connection(errors.StoreUnavailable("locking protocol"))
        assert hermes_state.apply_wal_with_fallback(connection, db_label="ours") == "delete"


class TestAsyncSessionDB:
    def test_methods_are_coroutine_functions_in_other_threads(self, db: SessionDB) -> None:
        wrapped = hermes_state.AsyncSessionDB(db)
        assert wrapped._db is db
        assert wrapped.db_path == db.db_path
        assert wrapped.read_only is False
        threads: set[int] = set()
        db.probe = lambda: threads.add(threading.get_ident())  # type: ignore[attr-defined]

        async def use() -> None:
            assert await wrapped.set_session_title("s1", "Named") is True
            assert await wrapped.get_session_title("s1") == "Named"
            with pytest.raises(ValueError, match="100"):
                await wrapped.set_session_title("s1", "x" * 101)
            await wrapped.probe()

        asyncio.run(use())
        assert threads - {threading.get_ident()}

    def test_unknown_names(self, db: SessionDB) -> None:
        with pytest.raises(AttributeError, match="nonsense"):
            hermes_state.AsyncSessionDB(db).nonsense()


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"git_repo_root": " /r ", "cwd": "/r/sub"}, "/r"),
        ({"git_repo_root": " ", "cwd": " /w"}, "/w"),
        ({"git_repo_root": None, "cwd": None}, None),
        ({}, None),
    ],
)
def test_the_workspace_of_a_session(row: dict[str, Any], key: str | None) -> None:
    assert hermes_state.workspace_key(row) == key


class TestFileHealth:
    @pytest.mark.parametrize(
        ("error", "is_malformed"),
        [
            (sqlite3.DatabaseError("Malformed database schema (x)"), True),
            (sqlite3.OperationalError("database disk image is malformed"), True),
            (sqlite3.DatabaseError("file is not a database"), False),
            (ValueError("database disk image is malformed"), False),
        ],
    )
    def test_malformed_errors(self, error: Exception, is_malformed: bool) -> None:
        assert hermes_state.is_malformed_db_error(error) is is_malformed

    def test_a_sound_store(self, db: SessionDB, tmp_path: Path) -> None:
        path = tmp_path / "state.db"
        assert hermes_state._db_opens_cleanly(path) is None
        assert hermes_state.repair_state_db_schema(path) == {
            "repaired": True,
            "strategy": "already_healthy",
            "backup_path": None,
            "error": None,
        }

    def test_what_is_no_store(self, tmp_path: Path) -> None:
        path = tmp_path / "state.db"
        missing = hermes_state.repair_state_db_schema(path)
        assert missing["repaired"] is False
        assert missing["error"] == f"{path} does not exist"
        path.touch()
        assert hermes_state._db_opens_cleanly(path) == "no such table: sessions"
        path.write_bytes(b"this is not a database at all" * 40)
        reason = hermes_state._db_opens_cleanly(path)
        assert reason is not None
        assert "does not start like a database" in reason
        assert hermes_state.repair_state_db_schema(path)["repaired"] is False

    def test_a_damaged_store_is_repaired_and_kept(self, db: SessionDB, tmp_path: Path) -> None:
        path = tmp_path / "state.db"
        db.close()
        add_second_definition(path, "messages")
        reason = hermes_state._db_opens_cleanly(path)
        assert reason is not None
        assert "malformed database schema" in reason
        with pytest.raises(errors.StoreCorrupt):
            SessionDB(path, read_only=True)
        result = hermes_state.repair_state_db_schema(path)
        assert (result["repaired"], result["strategy"], result["error"]) == (True, "salvage", None)
        assert Path(result["backup_path"]).is_file()
        assert hermes_state._db_opens_cleanly(path) is None
        with closing(SessionDB(path)) as repaired:
            assert [each["content"] for each in repaired.get_messages("s1")] == ["hello", "hi"]

    def test_opening_repairs_a_damaged_store_once(self, db: SessionDB, tmp_path: Path) -> None:
        path = tmp_path / "state.db"
        db.close()
        add_second_definition(path, "messages")
        with closing(SessionDB(path)) as repaired:
            assert [each["content"] for each in repaired.get_messages("s1")] == ["hello", "hi"]
        add_second_definition(path, "messages")
        with pytest.raises(errors.StoreCorrupt):
            SessionDB(path)

    def test_a_file_that_hermes_agent_made_for_its_delegation(self, tmp_path: Path) -> None:
        """It does before it opens a store, and keeps the file open."""
        path = tmp_path / "state.db"
        with closing(sqlite3.connect(path)) as theirs:
            theirs.execute("PRAGMA journal_mode=WAL")
            theirs.execute("CREATE TABLE async_delegations (delegation_id TEXT PRIMARY KEY)")
            theirs.execute("INSERT INTO async_delegations VALUES ('kept')")
            theirs.commit()
            with closing(SessionDB(path)) as db:
                db.create_session("s1", "cli")
                assert theirs.execute("SELECT * FROM async_delegations").fetchall() == [("kept",)]
                theirs.execute("INSERT INTO async_delegations VALUES ('later')")
                theirs.commit()
                db.append_message("s1", "user", "hello")
        with closing(SessionDB(path)) as db:
            assert [each["content"] for each in db.get_messages("s1")] == ["hello"]
            rows = db._conn.execute("SELECT * FROM async_delegations ORDER BY 1").fetchall()
            assert [tuple(row) for row in rows] == [("kept",), ("later",)]


def add_second_definition(path: Path, table: str) -> None:
    """Damage the schema of a file in a way that Hermes's users met."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
        connection.pragma("writable_schema", 1)
        connection.execute(
            "INSERT INTO sqlite_master SELECT * FROM sqlite_master WHERE name = ?", (table,)
        )


class TestSchema:
    def test_the_version_is_the_documented_one(self) -> None:
        assert hermes_state.SCHEMA_VERSION == 11

    def test_the_tables_can_be_made_elsewhere(self) -> None:
        """With the library of Python, as scripts do."""
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(hermes_state.SCHEMA_SQL)
            connection.execute(
                "INSERT INTO sessions (id, source, started_at) VALUES ('s', 'cli', 1.0)"
            )
            connection.execute(
                "INSERT INTO messages (session_id, role, content, timestamp) "
                "VALUES ('s', 'user', 'hello', 2.0)"
            )
            assert connection.execute("SELECT version FROM schema_version").fetchone() == (11,)
            found = connection.execute("SELECT preview, last_active FROM sessions").fetchone()
            assert found == ("hello", 2.0)

    def test_the_index_can_be_made_elsewhere(self) -> None:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(hermes_state.FTS_SQL)
            connection.executescript(hermes_state.FTS_TRIGRAM_SQL)
            for table in ("messages_fts", "messages_fts_trigram"):
                connection.execute(f"INSERT INTO {table} (content) VALUES ('deployment')")
                hits = connection.execute(
                    f"SELECT COUNT(*) FROM {table} WHERE {table} MATCH 'deployment'"
                )
                assert hits.fetchone() == (1,)


class TestRawSQL:
    """What callers do with ``_conn``, ``_lock`` and ``_execute_write``."""

    def test_totals_over_sessions(self, db: SessionDB) -> None:
        db.update_token_counts("s1", input_tokens=10, output_tokens=5)
        row = db._conn.execute(
            "SELECT COUNT(*) AS sessions, SUM(input_tokens) AS input, "
            "SUM(message_count) AS messages FROM sessions WHERE started_at >= ? AND source = ?",
            (0, "cli"),
        ).fetchone()
        assert dict(row) == {"sessions": 1, "input": 10, "messages": 2}  # type: ignore[call-overload]

    def test_groups_and_joins(self, db: SessionDB) -> None:
        cursor = db._conn.execute(
            "SELECT m.role, COUNT(*) AS n FROM messages m JOIN sessions s ON s.id = m.session_id "
            "WHERE s.model = ? GROUP BY m.role ORDER BY m.role",
            ("gpt",),
        )
        assert [dict(row) for row in cursor.fetchall()] == [
            {"role": "assistant", "n": 1},
            {"role": "user", "n": 1},
        ]

    def test_usage_has_the_names_of_hermes_agent(self, db: SessionDB) -> None:
        require_usage(db)

    def test_days(self, db: SessionDB) -> None:
        rows = db._conn.execute(
            "SELECT date(started_at, 'unixepoch') AS day, SUM(api_call_count) AS calls "
            "FROM sessions GROUP BY day ORDER BY day DESC LIMIT ?",
            (30,),
        ).fetchall()
        assert rows[0]["calls"] == 0

    def test_reopening_a_session(self, db: SessionDB) -> None:
        db.end_session("s1", "cli_close")
        db._conn.execute(
            "UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?", ("s1",)
        )
        db._conn.commit()
        session = db.get_session("s1")
        assert session is not None
        assert session["ended_at"] is None

    def test_under_the_lock(self, db: SessionDB) -> None:
        with db._lock:
            db._conn.execute("UPDATE sessions SET model_config = ? WHERE id = ?", ('{"a":1}', "s1"))
            db._conn.commit()
            # The verbs do not need the lock, so the thread that holds it may use them.
            session = db.get_session("s1")
        assert session is not None
        assert session["model_config"] == '{"a":1}'

    def test_the_lock_excludes_other_threads(self, db: SessionDB) -> None:
        got = []
        with db._lock:
            thread = threading.Thread(
                target=lambda: got.append(db._lock.acquire(blocking=False)), daemon=True
            )
            thread.start()
            thread.join()
        assert got == [False]

    def test_a_connection_is_found_by_probing(self, db: SessionDB) -> None:
        names = ("conn", "_conn", "connection", "_connection")
        found: Any = next(
            connection for name in names if (connection := getattr(db, name, None)) is not None
        )
        assert found.execute("SELECT 1").fetchone()[0] == 1

    def test_several_statements_together(self, db: SessionDB) -> None:
        def work(connection: Any) -> int:
            connection.execute("UPDATE sessions SET model = ? WHERE id = ?", ("new", "s1"))
            row = connection.execute("SELECT COUNT(*) FROM sessions WHERE model = 'new'").fetchone()
            return int(row[0])

        assert db._execute_write(work) == 1

    def test_several_statements_or_none(self, db: SessionDB) -> None:
        def work(connection: Any) -> None:
            connection.execute("UPDATE sessions SET model = 'lost'")
            raise RuntimeError("changed its mind")

        with pytest.raises(RuntimeError, match="changed its mind"):
            db._execute_write(work)
        session = db.get_session("s1")
        assert session is not None
        assert session["model"] == "gpt"

    def test_writing_inside_a_write_says_what_is_wrong(self, db: SessionDB) -> None:
        with pytest.raises(sqlite3.OperationalError, match="already inside a write transaction"):
            db._execute_write(lambda _: db._conn.execute("UPDATE sessions SET model = 'x'"))

    def test_a_closed_store(self, db: SessionDB) -> None:
        db.close()
        db.close()
        with pytest.raises(AttributeError, match="closed database"):
            db.end_session("s1", "agent_close")
        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            db._conn.execute("SELECT 1")
        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            db._execute_write(lambda connection: connection.execute("SELECT 1"))


#: What callers of the documented API catch, by the class that is raised now.
CAUGHT_AS = {
    "InvalidInput": [ValueError],
    "InvalidTitle": [ValueError],
    "TitleTaken": [ValueError],
    "MessageTooLarge": [ValueError],
    "ConfigError": [ValueError],
    "NotFound": [LookupError],
    "ImportRefused": [ValueError],
    "StoreError": [sqlite3.DatabaseError],
    "ConstraintViolated": [sqlite3.IntegrityError],
    "UnknownSession": [sqlite3.IntegrityError],
    "StaleFence": [sqlite3.IntegrityError],
    "StatementRefused": [sqlite3.OperationalError, sqlite3.ProgrammingError],
    "StoreUnavailable": [sqlite3.OperationalError],
    "StoreLocked": [sqlite3.OperationalError],
    "StoreReadOnly": [sqlite3.OperationalError],
    "DiskFull": [sqlite3.OperationalError],
    "StoreUnreachable": [sqlite3.OperationalError],
    "StoreIOError": [sqlite3.OperationalError],
    "StoreCorrupt": [sqlite3.DatabaseError],
    "NotADatabase": [sqlite3.DatabaseError],
    "SchemaRefused": [sqlite3.DatabaseError],
    "UnsafeStore": [sqlite3.DatabaseError, PermissionError],
    "StoreClosed": [sqlite3.ProgrammingError],
}


def test_every_error_is_caught_as_before() -> None:
    ours = {
        name: kind
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.HermesSessionsError) and kind is not errors.HermesSessionsError
    }
    assert set(ours) >= set(CAUGHT_AS)
    for name, kind in ours.items():
        if name in CAUGHT_AS:
            assert all(issubclass(kind, builtin) for builtin in CAUGHT_AS[name]), name
        # A new class of error would get past every existing handler.
        assert issubclass(kind, (ValueError, LookupError, sqlite3.Error, OSError)), name


def test_the_tree_in_the_documentation_of_the_errors_is_complete() -> None:
    assert errors.__doc__ is not None
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.HermesSessionsError):
            assert f" {name}" in errors.__doc__, name

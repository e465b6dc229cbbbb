"""Raw SQL, as in code for a bare connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import (
    ConstraintViolated,
    SessionDB,
    StatementRefused,
    StoreClosed,
    StoreReadOnly,
)
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
from hermes_sessions.storage.sqlite.raw_sql import BoundStatements, Statements


@pytest.fixture(params=["file", "memory"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionDB]:
    where = tmp_path / "state.db" if request.param == "file" else ":memory:"
    with SessionDB(where, durability="normal") as db:
        for name in ("a", "b"):
            db.create_session(name, source="test", model="m")
        yield db


def statements_of(db: SessionDB) -> Statements:
    assert isinstance(db.provider, SQLiteSessionDBProvider)
    return db.provider.raw_sql()


@pytest.fixture
def conn(db: SessionDB) -> Statements:
    return statements_of(db)


class TestRows:
    def test_by_position_and_by_name(self, conn: Statements) -> None:
        row = conn.execute(
            "SELECT id, model AS Model FROM sessions WHERE id = ?", ("a",)
        ).fetchone()
        assert row is not None
        assert (row[0], row["id"], row["MODEL"], row[-1]) == ("a", "a", "m", "m")
        assert row[0:2] == ("a", "m")
        assert dict(row) == {"id": "a", "Model": "m"}
        assert row.keys() == ["id", "Model"]
        assert tuple(row) == ("a", "m")
        assert len(row) == 2
        with pytest.raises(IndexError, match="nothing"):
            row["nothing"]

    def test_rows_compare(self, conn: Statements) -> None:
        one, other = (conn.execute("SELECT 1 AS x").fetchone() for _ in range(2))
        assert one == other
        assert hash(one) == hash(other)
        assert one != (1,)
        assert repr(one) == "Row({'x': 1})"

    def test_all_ways_to_fetch(self, conn: Statements) -> None:
        result = conn.execute(
            "SELECT id FROM sessions UNION SELECT 'c' UNION SELECT 'd' ORDER BY 1"
        )
        assert result.fetchone()["id"] == "a"  # type: ignore[index]
        assert [row[0] for row in result.fetchmany(2)] == ["b", "c"]
        assert [row[0] for row in result] == ["d"]
        assert result.fetchone() is None
        assert result.fetchall() == []
        again = conn.execute("SELECT id FROM sessions")
        again.close()
        assert again.fetchall() == []

    def test_a_description_names_the_columns(self, conn: Statements) -> None:
        result = conn.execute("SELECT id, source FROM sessions")
        assert result.description is not None
        assert [column[0] for column in result.description] == ["id", "source"]
        assert conn.execute("UPDATE sessions SET model = 'x'").description is None

    def test_columns_without_a_row(self, conn: Statements) -> None:
        result = conn.execute("SELECT id, source FROM sessions WHERE id = 'nobody'")
        assert result.description is not None
        assert [column[0] for column in result.description] == ["id", "source"]
        assert result.fetchall() == []

    def test_text_passes_the_codec(self, db: SessionDB, conn: Statements) -> None:
        odd = "nul \x00 and half \ud800"
        conn.execute("UPDATE sessions SET system_prompt = ? WHERE id = ?", (odd, "a"))
        assert db.get_session("a")["system_prompt"] == odd  # type: ignore[index]
        row = conn.execute(
            "SELECT system_prompt FROM sessions WHERE system_prompt = :text", {"text": odd}
        ).fetchone()
        assert row is not None
        assert row[0] == odd


class TestWrites:
    def test_a_statement_is_committed_at_once(self, db: SessionDB, conn: Statements) -> None:
        result = conn.execute("UPDATE sessions SET ended_at = NULL, end_reason = NULL")
        assert result.rowcount == 2
        conn.commit()
        conn.rollback()
        conn.execute("UPDATE sessions SET model = ? WHERE id = ?", ["n", "a"])
        conn.rollback()
        assert db.get_session("a")["model"] == "n"  # type: ignore[index]

    def test_counts_are_those_of_the_statement(self, conn: Statements) -> None:
        """Not of triggers, and not of the statement before."""
        inserted = conn.execute(
            "INSERT INTO messages (session_id, role, timestamp) VALUES ('a', 'user', 1)"
        )
        assert (inserted.rowcount, inserted.lastrowid) == (1, 1)
        assert conn.execute("UPDATE sessions SET model = 'x' WHERE id = 'none'").rowcount == 0
        assert conn.execute("SELECT * FROM sessions").rowcount == -1
        assert conn.execute("CREATE TABLE IF NOT EXISTS extra (x)").rowcount == -1
        many = conn.executemany(
            "INSERT INTO messages (session_id, role, timestamp) VALUES (?, 'user', ?)",
            [("a", 2.0), ("b", 3.0), ("b", 4.0)],
        )
        assert many.rowcount == 3
        assert conn.executemany("DELETE FROM extra WHERE x = ?", []).rowcount == 0

    def test_a_comment_is_not_a_statement(self, conn: Statements) -> None:
        assert conn.execute("-- SELECT\nUPDATE sessions SET model = 'x'").rowcount == 2

    def test_executemany_is_all_or_nothing(self, conn: Statements) -> None:
        with pytest.raises(ConstraintViolated):
            conn.executemany(
                "INSERT INTO state_meta (key, value) VALUES (?, ?)", [("k", "1"), ("k", "2")]
            )
        assert conn.execute("SELECT COUNT(*) FROM state_meta").fetchone()[0] == 0  # type: ignore[index]

    def test_a_common_table_expression_may_write(self, db: SessionDB, conn: Statements) -> None:
        result = conn.execute(
            "WITH chosen AS (SELECT id FROM sessions WHERE id = 'b') "
            "UPDATE sessions SET model = 'n' WHERE id IN (SELECT id FROM chosen)"
        )
        assert result.rowcount == 1
        assert db.get_session("b")["model"] == "n"  # type: ignore[index]
        assert conn.execute("WITH x AS (SELECT 1 AS y) SELECT y FROM x").rowcount == -1

    def test_returning(self, conn: Statements) -> None:
        result = conn.execute("UPDATE sessions SET model = 'n' RETURNING id")
        assert sorted(row["id"] for row in result) == ["a", "b"]

    def test_a_transaction_commits_as_a_whole(self, db: SessionDB, conn: Statements) -> None:
        def work(bound: BoundStatements) -> int:
            bound.execute("UPDATE sessions SET model = 'n' WHERE id = 'a'")
            bound.execute("COMMIT")
            bound.commit()
            found = bound.execute("SELECT COUNT(*) AS n FROM sessions WHERE model = 'n'").fetchone()
            assert found is not None
            return int(found["n"])

        assert conn.transaction(work) == 1

        def fail(bound: BoundStatements) -> None:
            bound.execute("UPDATE sessions SET model = 'lost'")
            bound.execute("COMMIT")
            raise ValueError("changed its mind")

        with pytest.raises(ValueError, match="changed its mind"):
            conn.transaction(fail)
        assert db.get_session("a")["model"] == "n"  # type: ignore[index]

    @pytest.mark.parametrize("sql", ["BEGIN", "begin immediate", "ROLLBACK;"])
    def test_a_transaction_is_not_ended_from_inside(
        self, db: SessionDB, conn: Statements, sql: str
    ) -> None:
        with pytest.raises(StatementRefused, match="Raise an exception"):
            conn.transaction(lambda bound: bound.execute(sql))
        assert db.session_count() == 2

    def test_savepoints_inside_a_transaction(self, db: SessionDB, conn: Statements) -> None:
        def work(bound: BoundStatements) -> None:
            bound.execute("UPDATE sessions SET model = 'first'")
            bound.execute("SAVEPOINT here")
            bound.execute("UPDATE sessions SET model = 'second'")
            bound.execute("ROLLBACK TO here")
            bound.execute("RELEASE here")

        conn.transaction(work)
        assert db.get_session("a")["model"] == "first"  # type: ignore[index]


class TestOtherStatements:
    @pytest.mark.parametrize("sql", ["COMMIT", "commit;", "END", "ROLLBACK", "  Rollback ; "])
    def test_ending_no_transaction_does_nothing(self, conn: Statements, sql: str) -> None:
        assert conn.execute(sql).fetchall() == []

    @pytest.mark.parametrize("sql", ["BEGIN", "Begin Immediate;", "SAVEPOINT x", "RELEASE x"])
    def test_beginning_one_is_refused(self, conn: Statements, sql: str) -> None:
        with pytest.raises(sqlite3.OperationalError, match="_execute_write"):
            conn.execute(sql)

    def test_facts_about_the_database(self, conn: Statements) -> None:
        names = [row["name"] for row in conn.execute("PRAGMA table_info(sessions)")]
        assert names[:2] == ["id", "source"]
        assert conn.execute("PRAGMA integrity_check").fetchone()[0] == "ok"  # type: ignore[index]
        plan = conn.execute("EXPLAIN QUERY PLAN SELECT * FROM sessions WHERE id = 'a'")
        assert plan.fetchall()

    @pytest.mark.parametrize(
        "sql",
        [
            "VACUUM",
            "PRAGMA wal_checkpoint(PASSIVE)",
            "PRAGMA main.wal_checkpoint",
            "PRAGMA optimize",
            "pragma incremental_vacuum(10)",
        ],
    )
    def test_maintenance(self, conn: Statements, db: SessionDB, sql: str) -> None:
        conn.execute(sql)
        db.append_message("a", role="user", content="later")

    def test_settings_do_not_reach_the_reads_of_others(self, tmp_path: Path) -> None:
        with SessionDB(tmp_path / "state.db") as db:
            conn = statements_of(db)
            db.create_session("a", source="test")
            conn.execute("PRAGMA query_only = OFF")
            conn.execute("PRAGMA case_sensitive_like = ON")
            assert conn.execute("SELECT 'a' LIKE 'A'").fetchone()[0] == 1  # type: ignore[index]
            conn.execute("WITH x AS (SELECT 1) DELETE FROM sessions")
            assert db.session_count() == 0


class TestErrors:
    """Raw SQL fails with what ``sqlite3`` raises for it."""

    @pytest.mark.parametrize(
        ("run", "expected"),
        [
            (lambda c: c.execute("SELECT nothing FROM sessions"), sqlite3.OperationalError),
            (lambda c: c.execute("SELECT * FROM nowhere"), sqlite3.OperationalError),
            (lambda c: c.execute("SELEKT 1"), sqlite3.OperationalError),
            (lambda c: c.execute("UPDATE nowhere SET x = 1"), sqlite3.OperationalError),
            (lambda c: c.execute("SELECT ?"), sqlite3.ProgrammingError),
            (lambda c: c.execute("SELECT ?", (1, 2)), sqlite3.ProgrammingError),
            (lambda c: c.execute("SELECT :x", {"y": 1}), sqlite3.ProgrammingError),
            (lambda c: c.execute("SELECT ?", ([1],)), sqlite3.ProgrammingError),
            (
                lambda c: c.executemany("INSERT INTO state_meta (key) VALUES (?)", [([1],)]),
                sqlite3.ProgrammingError,
            ),
            (
                lambda c: c.execute("INSERT INTO sessions (id, started_at) VALUES ('x', 1)"),
                sqlite3.IntegrityError,
            ),
            (
                lambda c: c.execute(
                    "INSERT INTO messages (session_id, role, timestamp) VALUES ('no', 'user', 1)"
                ),
                sqlite3.IntegrityError,
            ),
            (
                lambda c: c.execute("INSERT INTO messages (id, session_id) VALUES ('x', 'a')"),
                sqlite3.IntegrityError,
            ),
        ],
    )
    def test_each_has_its_class(
        self, conn: Statements, run: Callable[[Statements], Any], expected: type[Exception]
    ) -> None:
        with pytest.raises(expected):
            run(conn)
        conn.execute("UPDATE sessions SET model = 'later'")

    def test_a_closed_handle(self, db: SessionDB, conn: Statements) -> None:
        db.close()
        with pytest.raises(StoreClosed):
            conn.execute("SELECT 1")

    def test_a_read_only_handle(self, tmp_path: Path) -> None:
        path = tmp_path / "state.db"
        with SessionDB(path) as db:
            db.create_session("a", source="test")
        with SessionDB(path, read_only=True) as db:
            conn = statements_of(db)
            for remark in ("", "-- What is there?\n", " /* DELETE nothing */ -- really\n"):
                row = conn.execute(f"{remark}SELECT id FROM sessions").fetchone()
                assert row is not None
                assert row["id"] == "a"
            for sql in ("DELETE FROM sessions", "WITH x AS (SELECT 1) DELETE FROM sessions"):
                with pytest.raises(StoreReadOnly):
                    conn.execute(sql)

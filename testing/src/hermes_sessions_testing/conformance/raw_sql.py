"""SQL of callers, written for SQLite, as hermes-agent 0.19 and its users run it.

A provider without `SessionDBProvider.raw_sql` skips these tests.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.raw_sql import RawConnection, RawStatements

#: 2026-03-01, one second before midnight in UTC.
LATE = 1_772_409_599.5


class TestRawSQL:
    """Reads and writes through an object like a connection."""

    @pytest.fixture
    def conn(self, db: SessionDB) -> RawStatements:
        """Statements on a store with three sessions."""
        statements = db.provider.raw_sql()
        if statements is None:
            pytest.skip("this provider runs no SQL of callers")
        for name, started in (("a", LATE), ("b", LATE + 1), ("c", LATE + 2)):
            db.create_session(
                name, "cli", model="m", system_prompt="Be ~\x00 kind", started_at=started
            )
        db.append_message("a", "user", "it's 50% of what? \\ \x00")
        db.append_message("a", "assistant", None, tool_calls=[{"id": "1", "name": "look"}])
        db.append_message("a", "tool", "found", tool_name="look", tool_call_id="1")
        db.update_token_counts("a", input_tokens=100, output_tokens=7, model="m")
        db.update_token_counts("b", input_tokens=51, model="m")
        return statements

    def test_rows_by_name_and_by_position(self, conn: RawStatements) -> None:
        """A row is a sequence, and a mapping for ``dict``."""
        row = conn.execute(
            "SELECT id, model AS used, system_prompt FROM sessions WHERE id = ?", ("a",)
        ).fetchone()
        assert row is not None
        assert (row[0], row["id"], row["used"], row[-1]) == ("a", "a", "m", "Be ~\x00 kind")
        assert dict(row) == {"id": "a", "used": "m", "system_prompt": "Be ~\x00 kind"}
        assert row.keys() == ["id", "used", "system_prompt"]
        assert tuple(row) == ("a", "m", "Be ~\x00 kind")

    def test_a_whole_row(self, db: SessionDB, conn: RawStatements) -> None:
        """``SELECT *`` has the documented columns, with the values of the methods."""
        row = conn.execute("SELECT * FROM sessions WHERE id = :id", {"id": "a"}).fetchone()
        assert row is not None
        session = db.get_session("a")
        assert session is not None
        for name in ("id", "source", "title", "message_count", "system_prompt"):
            assert row[name] == session[name]

    def test_no_row(self, conn: RawStatements) -> None:
        """The names of the columns are known without a row."""
        result = conn.execute("SELECT id FROM sessions WHERE id = ?", ("none",))
        assert result.description is not None
        assert [column[0] for column in result.description] == ["id"]
        assert result.fetchone() is None
        assert result.fetchall() == []

    def test_counts(self, conn: RawStatements) -> None:
        """A column without a name is found by its position."""
        row = conn.execute("SELECT COUNT(*) FROM sessions").fetchone()
        assert row is not None
        assert row[0] == 3

    def test_sums_are_numbers_of_python(self, conn: RawStatements) -> None:
        """No decimals, which JSON does not know."""
        row = conn.execute(
            "SELECT SUM(input_tokens) AS input, AVG(input_tokens + output_tokens) AS average, "
            "COALESCE(SUM(estimated_cost_usd), 0) AS cost, COUNT(DISTINCT model) AS models, "
            "MAX(started_at) AS last FROM sessions "
            "WHERE started_at > ? AND model IS NOT NULL AND model != '' AND id IN ('a', 'b')",
            (LATE - 1,),
        ).fetchone()
        assert row is not None
        assert dict(row) == {
            "input": 151,
            "average": 79.0,
            "cost": 0,
            "models": 1,
            "last": LATE + 1,
        }
        assert [type(value) for value in (row["input"], row["average"], row["last"])] == [
            int,
            float,
            float,
        ]

    def test_days(self, conn: RawStatements) -> None:
        """Days are those of UTC."""
        rows = conn.execute(
            "SELECT date(started_at, 'unixepoch') AS day, COUNT(*) AS sessions, "
            "SUM(COALESCE(api_call_count, 0)) AS calls "
            "FROM sessions WHERE started_at > ? GROUP BY day ORDER BY day DESC",
            (0,),
        ).fetchall()
        assert [tuple(row)[:2] for row in rows] == [("2026-03-02", 2), ("2026-03-01", 1)]

    def test_roles_and_tools(self, conn: RawStatements) -> None:
        """Columns of messages keep their documented form."""
        row = conn.execute(
            "SELECT COUNT(*) AS total, SUM(CASE WHEN m.role = 'user' THEN 1 ELSE 0 END) AS users "
            "FROM messages m JOIN sessions s ON s.id = m.session_id WHERE s.started_at >= ?",
            (0.0,),
        ).fetchone()
        assert row is not None
        assert tuple(row) == (3, 1)
        rows = conn.execute(
            "SELECT m.tool_name, COUNT(*) as count FROM messages m "
            "JOIN sessions s ON s.id = m.session_id WHERE s.started_at >= ? AND m.role = 'tool' "
            "AND m.tool_name IS NOT NULL GROUP BY m.tool_name ORDER BY count DESC",
            (0.0,),
        ).fetchall()
        assert [tuple(row) for row in rows] == [("look", 1)]
        calls = conn.execute(
            "SELECT tool_calls FROM messages WHERE tool_calls IS NOT NULL"
        ).fetchall()
        assert [row["tool_calls"] for row in calls] == ['[{"id": "1", "name": "look"}]']

    def test_usage_by_model(self, conn: RawStatements) -> None:
        """The usage of models joins its session."""
        rows = conn.execute(
            "SELECT u.session_id, u.model, u.task, SUM(u.input_tokens) AS input "
            "FROM session_model_usage u JOIN sessions s ON s.id = u.session_id "
            "WHERE s.started_at >= ? GROUP BY u.session_id, u.model, u.task "
            "ORDER BY SUM(u.input_tokens) + SUM(u.output_tokens) DESC",
            (0.0,),
        ).fetchall()
        assert [(row["session_id"], row["input"]) for row in rows] == [("a", 100), ("b", 51)]

    def test_a_recursive_query(self, db: SessionDB, conn: RawStatements) -> None:
        """A common table expression finds all descendants."""
        db.create_session("d", "cli", parent_session_id="a")
        db.create_session("e", "cli", parent_session_id="d")
        rows = conn.execute(
            "WITH RECURSIVE descendants(id, parent_session_id, started_at) AS ("
            " SELECT id, parent_session_id, started_at FROM sessions WHERE id = ?"
            " UNION"
            " SELECT s.id, s.parent_session_id, s.started_at FROM sessions s"
            " JOIN descendants d ON s.parent_session_id = d.id"
            ") SELECT id, parent_session_id, started_at FROM descendants",
            ("a",),
        ).fetchall()
        assert {row["id"]: row["parent_session_id"] for row in rows} == {
            "a": None,
            "d": "a",
            "e": "d",
        }

    def test_nulls_come_first(self, db: SessionDB, conn: RawStatements) -> None:
        """NULLs sort as on SQLite."""
        db.set_session_title("b", "Title")
        for order, expected in (("", [None, None, "Title"]), (" DESC", ["Title", None, None])):
            rows = conn.execute(f"SELECT title FROM sessions ORDER BY title{order}, id LIMIT 9")
            assert [row[0] for row in rows] == expected

    def test_texts_in_a_statement(self, conn: RawStatements) -> None:
        """Texts need no escaping beyond that of SQL; comments may contain anything."""
        row = conn.execute(
            "SELECT 'it''s 50% of what? \\' AS said, id FROM sessions -- a comment?\nWHERE id = ?",
            ("a",),
        ).fetchone()
        assert row is not None
        assert tuple(row) == ("it's 50% of what? \\", "a")

    def test_an_update_is_stored_when_it_returns(self, db: SessionDB, conn: RawStatements) -> None:
        """Each statement is a transaction; ``commit`` adds nothing."""
        db.end_session("a", "cli_close")
        done = conn.execute(
            "UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?", ("a",)
        )
        conn.commit()
        assert done.rowcount == 1
        session = db.get_session("a")
        assert session is not None
        assert (session["ended_at"], session["end_reason"]) == (None, None)
        assert [row["id"] for row in db.list_sessions_rich()][-1] in {"a", "b", "c"}

    def test_a_new_session(self, db: SessionDB, conn: RawStatements) -> None:
        """A session inserted by its documented columns is listed and continued."""

        def work(connection: RawConnection) -> dict[str, Any]:
            connection.execute(
                "INSERT INTO sessions (id, source, model, system_prompt, started_at) "
                "VALUES (?, ?, ?, ?, ?)",
                ("new", "api_server", None, "Be kind", LATE + 9),
            )
            connection.execute("UPDATE sessions SET title = ? WHERE id = ?", ("Named", "new"))
            row = connection.execute("SELECT * FROM sessions WHERE id = ?", ("new",)).fetchone()
            return dict(row)  # type: ignore[arg-type]

        assert conn.transaction(work)["title"] == "Named"
        db.append_message("new", "user", "hello")
        [listed] = [row for row in db.list_sessions_rich() if row["id"] == "new"]
        assert (listed["title"], listed["preview"], listed["message_count"]) == (
            "Named",
            "hello",
            1,
        )

    def test_a_transaction_that_fails_stores_nothing(
        self, db: SessionDB, conn: RawStatements
    ) -> None:
        """An exception of the caller rolls all of it back."""

        def work(connection: RawConnection) -> None:
            connection.execute("UPDATE sessions SET model = 'lost'")
            raise RuntimeError("changed its mind")

        with pytest.raises(RuntimeError, match="changed its mind"):
            conn.transaction(work)
        session = db.get_session("a")
        assert session is not None
        assert session["model"] == "m"

    def test_a_statement_that_fails_leaves_the_others(
        self, db: SessionDB, conn: RawStatements
    ) -> None:
        """The caller may catch an error and go on."""
        insert = "INSERT INTO sessions (id, source, started_at) VALUES (?, 'cli', 1.0)"

        def work(connection: RawConnection) -> None:
            connection.execute(insert, ("new",))
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(insert, ("a",))
            with pytest.raises(sqlite3.OperationalError):
                connection.execute("UPDATE sessions SET nonsense = 1")
            connection.execute("UPDATE sessions SET model = 'kept' WHERE id = 'new'")

        conn.transaction(work)
        session = db.get_session("new")
        assert session is not None
        assert session["model"] == "kept"

    def test_many_rows(self, db: SessionDB, conn: RawStatements) -> None:
        """One statement for many rows."""
        done = conn.executemany(
            "UPDATE sessions SET model = ? WHERE id = ?", [("x", "a"), ("y", "b"), ("z", "none")]
        )
        assert done.rowcount == 2
        session = db.get_session("b")
        assert session is not None
        assert session["model"] == "y"

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT nonsense FROM sessions",
            "SELECT id FROM nonsense",
            "SELEC id",
            "SELECT id FROM sessions WHERE id = ?",
            "SELECT nonsense(id) FROM sessions",
            "BEGIN IMMEDIATE",
        ],
    )
    def test_what_cannot_be_run(self, conn: RawStatements, sql: str) -> None:
        """Refused with the error that ``sqlite3`` raises."""
        with pytest.raises(sqlite3.OperationalError):
            conn.execute(sql)

    def test_the_end_of_a_transaction_does_nothing(self, conn: RawStatements) -> None:
        """Callers end transactions that are not open."""
        for statement in ("COMMIT", "ROLLBACK"):
            assert conn.execute(statement).fetchall() == []
        conn.rollback()

    @pytest.mark.usefixtures("conn")
    def test_a_reader_cannot_write(self, open_another: Any) -> None:
        """A handle for reading runs queries alone."""
        reader = open_another(read_only=True).provider.raw_sql()
        assert reader.execute("SELECT COUNT(*) FROM sessions").fetchone()[0] == 3
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.execute("UPDATE sessions SET model = 'x'")

"""Statements written for SQLite, as servers get them. Their results: the conformance kit."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from hermes_sessions.storage.servers.sql_translation import FUNCTIONS, ServerSyntax, translate

SYNTAX = ServerSyntax("PostgreSQL", "day({})", {**FUNCTIONS, "LENGTH": "char_length"})
SORTING = SYNTAX._replace(places_nulls=True)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a FROM t -- why?\n WHERE b=?;", "SELECT a FROM t WHERE b=?"),
        ("SELECT /* ? */ length(a), IFNULL(b, 0) FROM t", None),
        (
            "SELECT date(MAX(a, b), 'unixepoch') AS day FROM t",
            "SELECT day(MAX(a, b)) AS day FROM t",
        ),
        ("SELECT a FROM t WHERE b = 'plain'", "SELECT a FROM t WHERE b = 'plain'"),
        ("INSERT INTO t (a) VALUES (?)", "INSERT INTO t (a) VALUES (?)"),
        ("SELECT a FROM t WHERE b IN (SELECT c FROM u)", None),
        ("WITH x(a, b) AS (SELECT 1, 2), y(c) AS (SELECT a FROM x) SELECT c FROM y", None),
        ("SELECT a FROM t WHERE a == 1", "SELECT a FROM t WHERE a = 1"),
        ('SELECT "a b" FROM t', 'SELECT "a b" FROM t'),
        ("SELECT a FROM t ORDER BY a", "SELECT a FROM t ORDER BY a"),
    ],
)
def test_statements(sql: str, expected: str | None) -> None:
    if expected is None:
        expected = sql.replace("/* ? */ ", "").replace("length", "char_length")
        expected = expected.replace("IFNULL", "COALESCE")
    marks = ["x"] * expected.count("?")
    assert translate(sql, marks, SYNTAX).sql == expected


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("a", "a NULLS FIRST"),
        ("a DESC", "a DESC NULLS LAST"),
        (
            "SUM(a) + 1 DESC, COALESCE(b, c) LIMIT 3",
            "SUM(a) + 1 DESC NULLS LAST , COALESCE(b, c) NULLS FIRST LIMIT 3",
        ),
    ],
)
def test_nulls_are_placed(order: str, expected: str) -> None:
    query = "SELECT a FROM t ORDER BY"
    for before, after in (("", ""), ("SELECT a FROM (", " ) AS x WHERE a IN (1, 2)")):
        made = translate(f"{before}{query} {order}{after}", (), SORTING).sql
        assert made.split() == f"{before}{query} {expected}{after}".split()


def test_parameters() -> None:
    made = translate(
        "SELECT 'it''s ?' FROM t WHERE a = :second AND b = $first AND c = :second",
        {"first": 1, "second": 2},
        SYNTAX,
    )
    assert made.sql == "SELECT ? FROM t WHERE a = ? AND b = ? AND c = ?"
    assert made.params == ("it's ?", 2, 1, 2)


@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("SELECT ?", ()),
        ("SELECT ?", (1, 2)),
        ("SELECT :a", {"b": 1}),
        ("SELECT :a", (1,)),
    ],
)
def test_parameters_that_do_not_match(sql: str, params: Any) -> None:
    with pytest.raises(sqlite3.OperationalError):
        translate(sql, params, SYNTAX)


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("", "an empty statement"),
        ("PRAGMA table_info(sessions)", "PRAGMA"),
        ("DROP TABLE sessions", "DROP"),
        ("REPLACE INTO t VALUES (1)", "REPLACE"),
        ("INSERT OR IGNORE INTO t VALUES (1)", "INSERT OR"),
        ("SELECT a FROM t WHERE a LIKE 'x%'", "LIKE"),
        ("SELECT a FROM t WHERE a MATCH 'x'", "MATCH"),
        ("SELECT CAST(a AS TEXT) FROM t", "CAST"),
        ("SELECT a || b FROM t", "'||'"),
        ("SELECT a / b FROM t", "'/"),
        ("SELECT rowid FROM t", "ROWID"),
        ("SELECT a, json_extract(b, '$.x') FROM t", "the function json_extract"),
        ("WITH x(a) AS (SELECT 1) SELECT a, total(a) AS b FROM x", "the function total"),
        ("SELECT strftime('%Y', a, 'unixepoch') FROM t", "the function strftime"),
        ("SELECT date(a, 'unixepoch', 'localtime') FROM t", "date()"),
        ("SELECT date('now')", "date()"),
        ("SELECT 1; SELECT 2", "several statements"),
    ],
)
def test_what_may_mean_something_else_is_refused(sql: str, named: str) -> None:
    with pytest.raises(sqlite3.OperationalError, match="Use a method of SessionDB") as refused:
        translate(sql, (), SYNTAX)
    assert f"Raw SQL on PostgreSQL cannot use {named}" in str(refused.value)

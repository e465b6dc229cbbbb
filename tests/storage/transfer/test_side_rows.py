"""Every declared table that is not part of a session or lane is copied row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.session_copy.reader import Piece
from hermes_sessions.storage.sqlite.hermes_database import import_database
from hermes_sessions.storage.tables import ALL_TABLES, BLOB_TABLES, Column, Table
from hermes_sessions.storage.transfer.copy_ledger import LEDGER_TABLES
from tests.storage.transfer.stores import KINDS, NewStore, compared, move, opened, rows

SIDE_TABLES = [t for t in ALL_TABLES if not t.local and t.carried in ("row", "proof")]
VALUES: dict[str, Any] = {"name": "漓江 {}", "text": '["{}"]', "real": 1.5, "integer": 1}


def value_of(column: Column, number: int) -> Any:
    value = VALUES[column.kind]
    return value.format(number) if isinstance(value, str) else value


def add_row(db: SessionDB, table: Table, number: int) -> None:
    columns = [column for column in table.copied if column.kind != "serial"]
    names = ", ".join(f'"{column.name}"' for column in columns)
    marks = ", ".join("?" * len(columns))

    def work(tx: WriteTransaction) -> None:
        values = [value_of(column, number) for column in columns]
        tx.run(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", values)

    db.provider.write(work)


def rows_of(url: str, table: Table) -> list[tuple[Any, ...]]:
    names = ", ".join(f'"{c.name}"' for c in table.copied if c.kind != "serial")
    found = rows(url, f"SELECT {names} FROM {table.name} ORDER BY 1, 2")
    return [row for row in found if not set(LEDGER_TABLES) & set(row)]


def test_every_table_has_a_road() -> None:
    """Rows travel without further code; other tables need some, which says so here."""
    travels = {
        "session": {table.name for table, _ in Piece("", []).rows()},
        "lane": {"lanes", "lane_transitions", "turns", "mailbox"},
        "blob": {table.name for table in BLOB_TABLES},
        "backup": {"outbox"},
    }
    for carried, names in travels.items():
        assert {t.name for t in ALL_TABLES if not t.local and t.carried == carried} <= names


@pytest.mark.parametrize("kind", KINDS)
def test_each_table_is_copied_and_followed(new_store: NewStore, kind: str) -> None:
    source, target = new_store("sqlite"), new_store(kind)
    with opened(source) as db:
        for table in SIDE_TABLES:
            add_row(db, table, 1)
            add_row(db, table, 2)
    assert move(source, target).differences == []
    for table in SIDE_TABLES:
        assert rows_of(target, table) == rows_of(source, table) != [], table
    assert compared(source, target).beside == {table.name: 2 for table in SIDE_TABLES}
    with opened(source) as db:
        for table in SIDE_TABLES:
            key = table.row_key[0]
            [[first]] = rows(source, f'SELECT MIN("{key}") FROM {table.name}')
            sql = f'DELETE FROM {table.name} WHERE "{key}" = ?'
            db.provider.write(lambda tx, sql=sql, first=first: tx.run(sql, (first,)))
            add_row(db, table, 3)
    assert move(source, target).differences == []
    for table in SIDE_TABLES:
        # Evidence stays.
        expected = 3 if table.carried == "proof" else 2
        assert len(rows_of(target, table)) == expected, table


def test_keys_of_any_length(new_store: NewStore, request: pytest.FixtureRequest) -> None:
    source, target = new_store("sqlite"), new_store("mysql")
    long = "k" * 150

    def add(tx: WriteTransaction, name: str) -> None:
        tx.run(
            "INSERT INTO state_documents (scope, owner, name, value, revision, updated_at) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (long, long, name, "{}", 1, 2.5),
        )

    with opened(source) as db:
        db.provider.write(lambda tx: [add(tx, name) for name in ("one", "two")])
    assert move(source, target).differences == []
    with opened(source) as db:
        db.provider.write(lambda tx: tx.run("DELETE FROM state_documents WHERE name = ?", ("one",)))
    assert move(source, target).differences == []
    assert rows(target, "SELECT name FROM state_documents") == [("two",)]


#: Tables whose rows are imported in a way of their own.
OWN_WAY = ("foreign_rows", "blob_references")


def test_content_comes_with_an_imported_file(tmp_path: Path) -> None:
    """State of the other store, such as who may write to its bot, does not."""
    imported = [t for t in SIDE_TABLES if t.imported and t.name not in OWN_WAY]
    with SessionDB(tmp_path / "other.db") as other:
        other.create_session("漓江 1", "cli")
        for table in SIDE_TABLES:
            if table.name not in OWN_WAY:
                add_row(other, table, 1)
    with SessionDB(tmp_path / "here.db") as db:
        left_out = {row["table"] for row in import_database(db, tmp_path / "other.db")["left_out"]}
    for table in imported:
        assert len(rows_of(f"sqlite:///{tmp_path}/here.db", table)) == 1, table
    state = {t.name for t in SIDE_TABLES if not t.imported}
    assert state >= {"identities", "senders", "erasures"}
    assert state < left_out


def test_blobs_come_with_an_imported_file(tmp_path: Path) -> None:
    data = b"\x00\xff" * 400_000
    with SessionDB(tmp_path / "other.db") as other:
        digest = other.put_blob(data, namespace="checkpoints", key="漓江")
        unused = other.put_blob(b"without a reference")
        damaged = other.put_blob(b"damaged", namespace="checkpoints", key="lost")
        sql = "DELETE FROM blob_parts WHERE digest = ?"
        other.provider.write(lambda tx: tx.run(sql, (damaged,)))
    with SessionDB(tmp_path / "here.db") as db:
        for _ in range(2):
            report = import_database(db, tmp_path / "other.db")
            assert [damaged in problem for problem in report["damage"]] == [True]
            assert not any("blob" in row["table"] for row in report["left_out"])
        assert db.get_blob(digest) == data
        assert [row["key"] for row in db.list_blob_references("checkpoints")] == ["漓江"]
        assert db.get_blob_size(unused) is None

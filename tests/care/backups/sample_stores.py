"""Stores with a row in every table that a backup contains, and readers to compare stores."""

from __future__ import annotations

from typing import Any

from hermes_sessions import SessionDB
from hermes_sessions.storage.care.backups.portable_format import (
    DECLARED,
    INCLUDED_TABLES,
    OF_A_SESSION,
    names,
)
from hermes_sessions.storage.provider import SessionDBProvider, WriteTransaction, bulk_insert
from hermes_sessions.storage.tables import Column, Table

#: What UTF-8, C strings and JSON have trouble with.
ODD = "漓江 \x00 \ud83d\ude00 \ud800 'quoted' \ufdd0 line\nbreak"

Rows = dict[str, list[tuple[Any, ...]]]


def talk(db: SessionDB, sessions: int = 4, messages: int = 3) -> None:
    """Some sessions, each but the first continuing the one before."""
    for number in range(sessions):
        parent = f"s{number - 1:03}" if number else None
        db.create_session(f"s{number:03}", "cli", user_id="ada", parent_session_id=parent)
        db.append_messages(
            f"s{number:03}",
            [{"role": "user", "content": f"{ODD} {n} of {number}"} for n in range(messages)],
        )


def fill(db: SessionDB) -> None:
    """Sessions, and two rows in every other table."""
    # A parent whose id sorts after its child's, and a session that was rewound.
    db.create_session("z-root", "cli")
    db.create_session("a-child", "cli", parent_session_id="z-root")
    db.set_session_title("z-root", "A title")
    talk(db)
    first = db.append_message("z-root", "user", "first")
    db.append_message("z-root", "assistant", {"a": [1, None]})
    db.rewind_to_message("z-root", first)
    db.append_message("z-root", "user", b"\x00\xff")
    for table in INCLUDED_TABLES:
        if table not in OF_A_SESSION[:1] and table.name not in ("messages", "rewinds"):
            rows = [_row(table, number) for number in (7, 900)]
            db.provider.write(lambda tx, table=table, rows=rows: _put(tx, table, rows))


def _put(tx: WriteTransaction, table: Table, rows: list[tuple[Any, ...]]) -> None:
    bulk_insert(tx, table.name, names(table), rows)


def _row(table: Table, number: int) -> tuple[Any, ...]:
    return tuple(_value(column, number) for column in table.copied)


def _value(column: Column, number: int) -> Any:
    if column.name == "session_id":
        return "z-root" if number == 7 else "a-child"
    if column.kind in ("serial", "integer"):
        return number
    if column.kind == "real":
        return number + 0.1
    if column.kind == "bytes":
        return bytes(range(256)) * number
    return f"{column.name} {number} {ODD}" if column.kind == "text" else f"{column.name} {number}"


def everything(provider: SessionDBProvider) -> Rows:
    """All rows of all tables that a backup carries."""
    found: Rows = {}
    with provider.read() as tx:
        for table in INCLUDED_TABLES:
            columns = ", ".join(f'"{name}"' for name in names(table))
            order = ", ".join(f'"{name}"' for name in DECLARED[table.name].key)
            found[table.name] = tx.all(f"SELECT {columns} FROM {table.name} ORDER BY {order}")
    return found


def everything_in(place: Any) -> Rows:
    """The same of a SQLite file or a URL."""
    text = str(place)
    opened = SessionDB.from_url(text) if "://" in text else SessionDB(text)
    with opened as db:
        return everything(db.provider)

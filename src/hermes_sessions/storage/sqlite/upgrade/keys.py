"""Session ids of the old layout in our form, everywhere they are mentioned.

Nearly every file has nothing to do here: only ids that are missing, are bytes, or hold NUL, U+FDD0
or text that is no UTF-8 are written differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count
from typing import NamedTuple

import apsw

from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite.row_scan import fetch, quoted
from hermes_sessions.storage.sqlite.upgrade.values import must_change, stored_text, text_of_bytes

logger = Logger(__name__)


class _Key(NamedTuple):
    """An id exactly as stored."""

    raw: bytes
    is_text: bool

    @property
    def sql(self) -> str:
        """How to bind `raw` so that it equals the stored value."""
        return "CAST(? AS TEXT)" if self.is_text else "?"


def convert_session_ids(connection: apsw.Connection) -> None:
    """Rewrite odd session ids in the sessions and in every column that refers to them."""
    columns = list(_columns_with_session_ids(connection))
    odd = list(dict.fromkeys(chain.from_iterable(_odd_keys(connection, *c) for c in columns)))
    for key in odd:
        new_id = _free_id(connection, str(stored_text(text_of_bytes(key.raw))))
        for table, column in columns:
            connection.execute(
                f"UPDATE {quoted(table)} SET {quoted(column)} = ? "
                f"WHERE {quoted(column)} = {key.sql}",
                (new_id, key.raw),
            )
    nameless = fetch(connection, "SELECT rowid FROM sessions WHERE id IS NULL")
    for (rowid,) in nameless:
        new_id = _free_id(connection, f"unknown-{rowid}")
        connection.execute("UPDATE sessions SET id = ? WHERE rowid = ?", (new_id, rowid))
    if odd or nameless:
        logger.info("%d session ids are written differently now", len(odd) + len(nameless))


def _columns_with_session_ids(connection: apsw.Connection) -> Iterator[tuple[str, str]]:
    known = {("sessions", "id"), ("sessions", "parent_session_id"), ("messages", "session_id")}
    yield from sorted(known)
    references = fetch(
        connection,
        'SELECT t.name, k."from" FROM pragma_table_list t, pragma_foreign_key_list(t.name) k '
        "WHERE t.schema = 'main' AND t.type = 'table' AND lower(k.\"table\") = 'sessions' "
        "AND lower(COALESCE(k.\"to\", 'id')) = 'id'",
    )
    yield from ((table, column) for table, column in references if (table, column) not in known)


def _odd_keys(connection: apsw.Connection, table: str, column: str) -> Iterator[_Key]:
    name = quoted(column)
    rows = connection.execute(
        f"SELECT DISTINCT typeof({name}) = 'text', CAST({name} AS BLOB) FROM {quoted(table)} "
        f"WHERE {name} IS NOT NULL"
    )
    for is_text, raw in rows:
        try:
            odd = not is_text or must_change(raw.decode("utf-8"), undecodable=False)
        except UnicodeDecodeError:
            odd = True
        if odd:
            yield _Key(raw, bool(is_text))


def _free_id(connection: apsw.Connection, wanted: str) -> str:
    for number in count(2):
        taken = connection.execute("SELECT 1 FROM sessions WHERE id = ?", (wanted,)).fetchone()
        if taken is None:
            break
        wanted = f"{wanted.rpartition('~')[0] or wanted}~{number}"
    return wanted

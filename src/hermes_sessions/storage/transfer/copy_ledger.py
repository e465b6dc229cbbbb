"""Ledger of a transfer, kept in the target: which rows came from which source, with checksums.

The ledger is stored in ``foreign_rows``, which every store has. A session gets an entry when its
copy begins; the entry holds its checksum once the copy is complete. So later changes in the target
can be detected, and an interrupted copy can be resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from hermes_sessions.model.ids import shortened_id
from hermes_sessions.storage.provider import (
    Dialect,
    ReadTransaction,
    SessionDBProvider,
    WriteTransaction,
    placeholders,
)
from hermes_sessions.storage.session_copy.checksums import Checksum, is_same
from hermes_sessions.storage.session_copy.reader import ChecksummedSession, count_rows
from hermes_sessions.storage.tables import ALL_TABLES

_FORMER_NAMES: Final = {"state_meta": "transferred_meta", "foreign_rows": "transferred_rows"}
#: The names under which the ledger keeps its entries in ``foreign_rows``, by table; the entries
#: themselves are never copied.
_NAMES: Final = {
    table.name: _FORMER_NAMES.get(table.name, f"transferred_{table.name}")
    for table in ALL_TABLES
    if not table.local
}
LEDGER_TABLES: Final = tuple(_NAMES.values())
#: Replaces the checksum while a copy is in progress.
BEGUN: Final = "begun"
_SEPARATOR: Final = "\x1f"
_COLUMNS: Final = ("origin", "table_name", "row_key", "row")


def identity(provider: SessionDBProvider) -> str:
    """Return the identity of a store: its location, without secrets."""
    facts = provider.describe()
    place = str(facts.get("path") or facts.get("location") or "")
    return identity_of(provider.name, place, facts.get("schema"))


def identity_of(provider: str, place: str, schema: str | None) -> str:
    """Return the identity of a store from its parts."""
    if "://" not in place:
        place = f"{provider}:///{place}"
    return f"{place} ({schema})" if schema and schema != "public" else place


def is_as_copied(found: ChecksummedSession | None, entry: str | None, *, merging: bool) -> bool:
    """Return whether a session of the target is as its copy left it, or not completely copied."""
    if found is None or entry is None or entry == BEGUN:
        return True
    copied = Checksum.read(entry)
    return (
        copied is not None
        and found.checksum.title == copied.title
        and is_same(found.checksum, copied, merging=merging)
    )


class Ledger:
    """The entries of one source."""

    def __init__(self, origin: str, dialect: Dialect) -> None:
        self.origin = origin
        self._upsert = dialect.upsert(
            "foreign_rows", _COLUMNS, ("table_name", "row_key"), ("origin", "row")
        )

    @staticmethod
    def key_of(key: Sequence[Any]) -> str:
        """Return the key of a row as one text."""
        return shortened_id(_SEPARATOR.join(map(str, key)))

    def entries(self, tx: ReadTransaction, table: str, keys: Sequence[str]) -> dict[str, str]:
        """Return the existing entries with these keys."""
        if not keys:
            return {}
        rows = tx.all(
            f'SELECT row_key, "row" FROM foreign_rows WHERE table_name = ? AND origin = ? '
            f"AND row_key IN ({placeholders(len(keys))})",
            (_NAMES[table], self.origin, *keys),
        )
        return dict(rows)

    def page(self, tx: ReadTransaction, table: str, after: str | None, size: int) -> list[str]:
        """Return the next keys of a table."""
        beyond, params = ("AND row_key > ?", [after]) if after is not None else ("", [])
        rows = tx.all(
            f"SELECT row_key FROM foreign_rows WHERE table_name = ? AND origin = ? {beyond} "
            f"ORDER BY row_key LIMIT ?",
            (_NAMES[table], self.origin, *params, size),
        )
        return [row[0] for row in rows]

    def note(self, tx: WriteTransaction, table: str, entries: Iterable[tuple[str, str]]) -> None:
        """Write entries: key, and checksum or `BEGUN`."""
        tx.run_many(
            self._upsert, [(self.origin, _NAMES[table], key, entry) for key, entry in entries]
        )

    def forget(self, tx: WriteTransaction, table: str, keys: Sequence[str]) -> None:
        """Remove entries."""
        tx.run_many(
            "DELETE FROM foreign_rows WHERE table_name = ? AND row_key = ?",
            [(_NAMES[table], key) for key in keys],
        )

    def sessions_from_elsewhere(self, tx: ReadTransaction) -> int:
        """Return how many sessions of the target did not come from this source."""
        return count_rows(
            tx,
            "sessions",
            "NOT EXISTS (SELECT 1 FROM foreign_rows f "
            "WHERE f.table_name = ? AND f.row_key = sessions.id AND f.origin = ?)",
            (_NAMES["sessions"], self.origin),
        )

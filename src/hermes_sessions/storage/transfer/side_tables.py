"""Copies tables beside the sessions: ``state_meta``, rows of other programs, identities, senders,
holds, and receipts of erasures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

from hermes_sessions.storage.provider import (
    ReadTransaction,
    SessionDBProvider,
    WriteTransaction,
    placeholders,
)
from hermes_sessions.storage.tables import ALL_TABLES, Table
from hermes_sessions.storage.transfer.checksums import digest
from hermes_sessions.storage.transfer.copy_ledger import LEDGER_TABLES, Kind, Ledger
from hermes_sessions.storage.transfer.reader import columns

_PAGE: Final = 500
#: Separates table and row in the key of a foreign row.
_BETWEEN: Final = "\x1f"

Merge = Literal["skip", "overwrite"]


class SideTable(NamedTuple):
    """A table whose rows have a text key."""

    name: Kind
    table: Table
    key: tuple[str, ...]
    values: tuple[str, ...]
    #: The migration that creates the table; None if every store has it.
    step: str | None = None
    #: Whether its rows are evidence, which stays in the target even if the source deletes it.
    is_proof: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Key and values."""
        return (*self.key, *self.values)

    def label(self, key: Sequence[str]) -> str:
        """Return the key as one text."""
        return _BETWEEN.join(key)


LIFECYCLE_STEP: Final = "0003_lifecycle"
_GATEWAY_STEP: Final = "0004_gateway"
_ERASURE_STEP: Final = "0006_erasure"
_HOLDS_STEP: Final = "0007_holds"
CHANGES_STEP: Final = "0008_changes"


def _side_table(
    name: Kind, step: str | None = None, *, key: tuple[str, ...] = (), is_proof: bool = False
) -> SideTable:
    """Return a declared table. Its rows are identified by the primary key, unless the database
    generates that.
    """
    table = next(table for table in ALL_TABLES if table.name == name)
    key = key or table.key
    values = [c.name for c in table.copied if c.name not in key and c.kind != "serial"]
    return SideTable(name, table, key, tuple(values), step, is_proof)


SIDE_TABLES: Final = (
    _side_table("state_meta"),
    _side_table("foreign_rows", key=("table_name", "row_key")),
    _side_table("identities", LIFECYCLE_STEP),
    _side_table("senders", _GATEWAY_STEP),
    _side_table("topic_modes", _GATEWAY_STEP),
    _side_table("topics", _GATEWAY_STEP),
    _side_table("authors", _ERASURE_STEP),
    # Including the targets of pending erasures, so that the target store can finish them.
    _side_table("erasures", _ERASURE_STEP, is_proof=True),
    _side_table("holds", _HOLDS_STEP),
)
_Rows = dict[tuple[str, ...], tuple[Any, ...]]


def has_taken(step: str | None, *stores: SessionDBProvider) -> bool:
    """Return whether all these stores have applied a migration; a read-only source may not."""
    return step is None or not any(step in store.steps().waiting for store in stores)


def _tables(*stores: SessionDBProvider) -> list[SideTable]:
    return [table for table in SIDE_TABLES if has_taken(table.step, *stores)]


class SideDifference(NamedTuple):
    """A row that differs between the stores."""

    table: str
    key: str
    what: str


def compare_side_rows(
    source: SessionDBProvider,
    target: SessionDBProvider,
    *,
    both_ways: bool = True,
    same: Counter[str] | None = None,
) -> Iterator[SideDifference]:
    """Yield the rows that differ; count equal rows in *same*, by table."""
    counted = Counter[str]() if same is None else same
    for table in _tables(source, target):
        for wanted in _pages(source, table):
            with target.read() as tx:
                found = _rows_of(tx, table, list(wanted))
            for key, values in wanted.items():
                if key not in found:
                    yield SideDifference(table.name, " ".join(key), "only in the first")
                elif found[key] != values:
                    yield SideDifference(table.name, " ".join(key), "differs")
                else:
                    counted[table.name] += 1
        for there in _pages(target, table) if both_ways else ():
            with source.read() as tx:
                found = _rows_of(tx, table, list(there))
            for key in there:
                if key not in found:
                    yield SideDifference(table.name, " ".join(key), "only in the second")


def copy_side_rows(
    source: SessionDBProvider, target: SessionDBProvider, ledger: Ledger, merge: Merge | None
) -> list[SideDifference]:
    """Copy new and changed rows to the target; return the rows that were skipped because they
    changed in the target after they were copied.
    """
    left: list[SideDifference] = []
    for table in _tables(source, target):
        for wanted in _pages(source, table):
            left += _copy_page(target, ledger, table, wanted, merge)
        if not table.is_proof:
            _remove_gone(source, target, ledger, table)
    return left


def _copy_page(
    target: SessionDBProvider, ledger: Ledger, table: SideTable, wanted: _Rows, merge: Merge | None
) -> list[SideDifference]:
    upsert = target.dialect.upsert(table.name, table.columns, table.key, table.values)

    def work(tx: WriteTransaction) -> list[SideDifference]:
        left = []
        found = _rows_of(tx, table, list(wanted))
        noted = ledger.entries(tx, table.name, [table.label(key) for key in wanted])
        written = []
        for key, values in wanted.items():
            entry = noted.get(table.label(key))
            if key in found and found[key] != values and merge != "overwrite":
                is_theirs = entry is None or entry != digest(found[key])
                if is_theirs and merge == "skip":
                    continue
                if is_theirs and entry is not None:
                    left.append(SideDifference(table.name, " ".join(key), CHANGED))
                    continue
            if found.get(key) != values or entry != digest(values):
                written.append((key, values))
        tx.run_many(upsert, [(*key, *values) for key, values in written])
        ledger.note(tx, table.name, [(table.label(key), digest(values)) for key, values in written])
        return left

    return target.write(work)


CHANGED: Final = "was changed in the target after it was copied"


def _remove_gone(
    source: SessionDBProvider, target: SessionDBProvider, ledger: Ledger, table: SideTable
) -> None:
    """Remove copied rows that were deleted from the source, unless they changed in the target."""
    after: str | None = None
    while True:
        with target.read() as tx:
            labels = ledger.page(tx, table.name, after, _PAGE)
        if not labels:
            return
        after = labels[-1]
        keys = [tuple(label.split(_BETWEEN)) for label in labels]
        with source.read() as tx:
            there = _rows_of(tx, table, keys)
        gone = [key for key in keys if key not in there]
        if gone:
            target.write(lambda tx, gone=gone: _remove(tx, ledger, table, gone))  # type: ignore[misc]


def _remove(
    tx: WriteTransaction, ledger: Ledger, table: SideTable, gone: list[tuple[str, ...]]
) -> None:
    found = _rows_of(tx, table, gone)
    noted = ledger.entries(tx, table.name, [table.label(key) for key in gone])
    condition = " AND ".join(f'"{name}" = ?' for name in table.key)
    for key, values in found.items():
        if noted.get(table.label(key)) == digest(values):
            tx.run(f"DELETE FROM {table.name} WHERE {condition}", key)
    ledger.forget(tx, table.name, [table.label(key) for key in gone])


def _pages(provider: SessionDBProvider, table: SideTable) -> Iterator[_Rows]:
    order = ", ".join(f'"{name}"' for name in table.key)
    after: tuple[str, ...] | None = None
    while True:
        where, params = _ours_aside(table)
        if after is not None:
            where, more = _beyond(table, after, where)
            params += more
        with provider.read() as tx:
            rows = tx.all(
                f"{_select(tx, table)} WHERE {where} ORDER BY {order} LIMIT ?", (*params, _PAGE)
            )
        if not rows:
            return
        width = len(table.key)
        yield {row[:width]: row[width:] for row in rows}
        after = rows[-1][:width]


def _beyond(table: SideTable, after: tuple[str, ...], where: str) -> tuple[str, list[str]]:
    """Return the condition for keys after *after*, and its parameters."""
    cases, params = [], list[str]()
    for place, name in enumerate(table.key):
        same = "".join(f'"{earlier}" = ? AND ' for earlier in table.key[:place])
        cases.append(f'({same}"{name}" > ?)')
        params += after[: place + 1]
    return f"{where} AND ({' OR '.join(cases)})", params


def _ours_aside(table: SideTable) -> tuple[str, list[str]]:
    if table.name != "foreign_rows":
        return "1 = 1", []
    return f"table_name NOT IN ({placeholders(len(LEDGER_TABLES))})", list(LEDGER_TABLES)


def _select(tx: ReadTransaction, table: SideTable) -> str:
    return f"SELECT {columns(tx, table.table, table.columns)} FROM {table.name}"


def _rows_of(tx: ReadTransaction, table: SideTable, keys: Sequence[tuple[str, ...]]) -> _Rows:
    """Return the existing rows with these keys."""
    last_by_first: dict[tuple[str, ...], list[str]] = {}
    for key in keys:
        last_by_first.setdefault(key[:-1], []).append(key[-1])
    first = "".join(f'"{name}" = ? AND ' for name in table.key[:-1])
    width = len(table.key)
    found: _Rows = {}
    for beginning, last in last_by_first.items():
        rows = tx.all(
            f'{_select(tx, table)} WHERE {first}"{table.key[-1]}" IN ({placeholders(len(last))})',
            (*beginning, *last),
        )
        found |= {row[:width]: row[width:] for row in rows}
    return found

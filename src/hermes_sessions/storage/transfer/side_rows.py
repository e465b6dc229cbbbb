"""Copies and compares what is beside the sessions: rows of other tables, and lanes.

Every declared table takes part as its `Table.carried` says. Rows have a key that is the same in
every store; a lane comes with its transitions, turns and mailbox, whose rows get new ids in the
target. Leases and processes are not copied: they describe one database only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple, Protocol

from hermes_sessions.storage.provider import (
    Dialect,
    ReadTransaction,
    Row,
    SessionDBProvider,
    WriteTransaction,
    placeholders,
)
from hermes_sessions.storage.session_copy.checksums import digest, typed_rows
from hermes_sessions.storage.session_copy.reader import columns
from hermes_sessions.storage.tables import ALL_TABLES, CREATED_BY, Table
from hermes_sessions.storage.transfer.copy_ledger import LEDGER_TABLES, Ledger

Merge = Literal["skip", "overwrite"]
Key = tuple[Any, ...]
Rows = dict[Key, Any]

CHANGED: Final = "was changed in the target after it was copied"
_UNEQUAL: Final = "could not be stored as it is"


class Difference(NamedTuple):
    """A session or row that differs between the stores."""

    #: A session id, or a table and the key of a row.
    id: str
    what: str


class _Side(Protocol):
    """One kind of things beside sessions, each with a key and a value that JSON can hold."""

    name: str
    #: Whether they are evidence, which stays in the target even if the source deletes it.
    is_proof: bool
    #: How many one transaction writes.
    at_once: int

    def pages(self, provider: SessionDBProvider) -> Iterator[Rows]:
        """Yield all of them."""

    def read(self, tx: ReadTransaction, keys: Sequence[Key]) -> Rows:
        """Return those with these keys."""

    def write(self, tx: WriteTransaction, dialect: Dialect, rows: Rows) -> None:
        """Insert or replace these."""

    def remove(self, tx: WriteTransaction, keys: Sequence[Key]) -> None:
        """Delete these."""


def has_tables(names: Iterable[str], *stores: SessionDBProvider) -> bool:
    """Return whether all these stores have these tables; a read-only source may wait for some."""
    waiting = {step for store in stores for step in store.steps().waiting}
    return waiting.isdisjoint(CREATED_BY[name] for name in names)


def _sides(*stores: SessionDBProvider) -> list[_Side]:
    """Return what all these stores have tables for."""
    tables = [t for t in ALL_TABLES if not t.local and t.carried in ("row", "proof")]
    sides: list[_Side] = [_Table(table) for table in tables if has_tables([table.name], *stores)]
    return [*sides, _Lanes()] if has_tables(_LANE_TABLES, *stores) else sides


def compare_side_rows(
    first: SessionDBProvider, second: SessionDBProvider, same: Counter[str]
) -> Iterator[Difference]:
    """Yield what differs; count what is equal in *same*, by table."""
    for side in _sides(first, second):
        for wanted in side.pages(first):
            with second.read() as tx:
                found = side.read(tx, list(wanted))
            for key, value in wanted.items():
                if key not in found:
                    yield _difference(side, key, "only in the first")
                elif found[key] != value:
                    yield _difference(side, key, "differs")
                else:
                    same[side.name] += 1
        for there in side.pages(second):
            with first.read() as tx:
                found = side.read(tx, list(there))
            for key in there:
                if key not in found:
                    yield _difference(side, key, "only in the second")


def copy_side_rows(
    source: SessionDBProvider, target: SessionDBProvider, ledger: Ledger, merge: Merge | None
) -> list[Difference]:
    """Copy what is new and changed to the target, and remove copies of what is gone; return what
    was left because it changed in the target after it was copied.
    """
    left: list[Difference] = []
    for side in _sides(source, target):
        for page in side.pages(source):
            rows = list(page.items())
            for start in range(0, len(rows), side.at_once):
                work = partial(
                    _copy,
                    side=side,
                    dialect=target.dialect,
                    ledger=ledger,
                    wanted=dict(rows[start : start + side.at_once]),
                    merge=merge,
                )
                left += target.write(work)
        for there in () if side.is_proof else side.pages(target):
            with source.read() as tx:
                found = side.read(tx, list(there))
            gone = [key for key in there if key not in found]
            if gone:
                target.write(partial(_remove, side=side, ledger=ledger, gone=gone))
    return left


def _copy(
    tx: WriteTransaction,
    side: _Side,
    dialect: Dialect,
    ledger: Ledger,
    wanted: Rows,
    merge: Merge | None,
) -> list[Difference]:
    found = side.read(tx, list(wanted))
    noted = ledger.entries(tx, side.name, [ledger.key_of(key) for key in wanted])
    left: list[Difference] = []
    kept: Rows = {}
    for key, value in wanted.items():
        entry = noted.get(ledger.key_of(key))
        if key in found and found[key] != value and merge != "overwrite":
            is_theirs = entry is None or entry != digest(found[key])
            if is_theirs and merge == "skip":
                continue
            if is_theirs and entry is not None:
                left.append(_difference(side, key, CHANGED))
                continue
        kept[key] = value
    new = {key: value for key, value in kept.items() if found.get(key) != value}
    if new:
        side.write(tx, dialect, new)
        found |= side.read(tx, list(new))
    unequal = [key for key, value in kept.items() if found.get(key) != value]
    entries = {ledger.key_of(k): digest(v) for k, v in kept.items() if k not in unequal}
    ledger.note(tx, side.name, [(k, v) for k, v in entries.items() if noted.get(k) != v])
    return [*left, *(_difference(side, key, _UNEQUAL) for key in unequal)]


def _remove(tx: WriteTransaction, side: _Side, ledger: Ledger, gone: Sequence[Key]) -> None:
    """Remove copies of what was deleted from the source, unless they changed in the target."""
    found = side.read(tx, gone)
    noted = ledger.entries(tx, side.name, [ledger.key_of(key) for key in gone])
    side.remove(
        tx, [key for key, value in found.items() if noted.get(ledger.key_of(key)) == digest(value)]
    )
    ledger.forget(tx, side.name, list(noted))


def _difference(side: _Side, key: Key, what: str) -> Difference:
    return Difference(f"{side.name} {' '.join(map(str, key))}", what)


class _Table:
    """The rows of one table."""

    at_once = 500

    def __init__(self, table: Table) -> None:
        self.name = table.name
        self.is_proof = table.carried == "proof"
        self._table = table
        self._key = table.row_key
        others = [c for c in table.copied if c.name not in self._key and c.kind != "serial"]
        self._columns = [*map(table.column, self._key), *others]
        self._names = [column.name for column in self._columns]
        #: The entries of ledgers are not copied.
        self._ours: tuple[str, tuple[str, ...]] = ("1 = 1", ())
        if table.name == "foreign_rows":
            self._ours = (f"table_name NOT IN ({placeholders(len(LEDGER_TABLES))})", LEDGER_TABLES)

    def pages(self, provider: SessionDBProvider) -> Iterator[Rows]:
        order = ", ".join(f'"{name}"' for name in self._key)
        where, params = self._ours
        after: Key = ()
        while True:
            beyond, given = self._beyond(after) if after else ("1 = 1", [])
            with provider.read() as tx:
                tail = f"{where} AND ({beyond}) ORDER BY {order} LIMIT ?"
                page = self._rows(tx, tail, [*params, *given, self.at_once])
            if not page:
                return
            yield page
            after = next(reversed(page))

    def _beyond(self, after: Key) -> tuple[str, list[Any]]:
        """Return the condition for keys after *after*, and its parameters."""
        cases, params = [], list[Any]()
        for place, name in enumerate(self._key):
            same = "".join(f'"{earlier}" = ? AND ' for earlier in self._key[:place])
            cases.append(f'({same}"{name}" > ?)')
            params += after[: place + 1]
        return " OR ".join(cases), params

    def read(self, tx: ReadTransaction, keys: Sequence[Key]) -> Rows:
        last_by_first: dict[Key, list[Any]] = {}
        for key in keys:
            last_by_first.setdefault(key[:-1], []).append(key[-1])
        same = "".join(f'"{name}" = ? AND ' for name in self._key[:-1])
        found: Rows = {}
        for first, last in last_by_first.items():
            tail = f'{same}"{self._key[-1]}" IN ({placeholders(len(last))})'
            found |= self._rows(tx, tail, [*first, *last])
        return found

    def _rows(self, tx: ReadTransaction, condition: str, params: Sequence[Any]) -> Rows:
        names = columns(tx, self._table, self._names)
        rows = tx.all(f"SELECT {names} FROM {self.name} WHERE {condition}", params)
        width = len(self._key)
        return {row[:width]: row[width:] for row in typed_rows(self._table, rows, self._columns)}

    def write(self, tx: WriteTransaction, dialect: Dialect, rows: Rows) -> None:
        upsert = dialect.upsert(
            self.name, self._names, self._key, self._names[len(self._key) :] or self._key
        )
        tx.run_many(upsert, [(*key, *values) for key, values in rows.items()])

    def remove(self, tx: WriteTransaction, keys: Sequence[Key]) -> None:
        condition = " AND ".join(f'"{name}" = ?' for name in self._key)
        tx.run_many(f"DELETE FROM {self.name} WHERE {condition}", keys)


_LANE_TABLES: Final = {table.name: table for table in ALL_TABLES if table.carried == "lane"}
#: Tables that belong to a lane, each after the table it refers to.
_LANE_PARTS: Final = ("lane_transitions", "turns", "mailbox")
_LANE_PAGE: Final = 100
_Fields = dict[str, Any]


class _Lane(NamedTuple):
    """A lane without generated ids; a ``turn_id`` is the position of the turn in the lane."""

    row: _Fields
    parts: dict[str, list[_Fields]]


class _Lanes:
    """Lanes, with all that belongs to them."""

    name = "lanes"
    is_proof = False
    at_once = 1

    def pages(self, provider: SessionDBProvider) -> Iterator[Rows]:
        after = 0
        while True:
            with provider.read() as tx:
                found = tx.all(
                    "SELECT id, namespace, key_hash FROM lanes WHERE id > ? ORDER BY id LIMIT ?",
                    (after, _LANE_PAGE),
                )
                page = self.read(tx, [row[1:] for row in found])
            if not found:
                return
            yield page
            after = found[-1][0]

    def read(self, tx: ReadTransaction, keys: Sequence[Key]) -> Rows:
        found: Rows = {}
        for key in keys:
            lanes = _lane_rows(tx, "lanes", "namespace = ? AND key_hash = ?", key)
            if lanes:
                found[key] = _Lane(lanes[0], _lane_parts(tx, lanes[0].pop("id")))
        return found

    def write(self, tx: WriteTransaction, _dialect: Dialect, rows: Rows) -> None:
        for key, lane in rows.items():
            _replace_lane(tx, key, lane)

    def remove(self, tx: WriteTransaction, keys: Sequence[Key]) -> None:
        for key in keys:
            lane_id = _lane_id(tx, key)
            if lane_id is not None:
                _remove_parts(tx, lane_id)
                tx.run("DELETE FROM lanes WHERE id = ?", (lane_id,))


def _lane_parts(tx: ReadTransaction, lane_id: int) -> dict[str, list[_Fields]]:
    parts: dict[str, list[_Fields]] = {}
    places: dict[int, int] = {}
    for name in _LANE_PARTS:
        parts[name] = _lane_rows(tx, name, "lane_id = ?", (lane_id,))
        for place, fields in enumerate(parts[name]):
            number = fields.pop("id")
            del fields["lane_id"]
            if name == "turns":
                places[number] = place
            elif name == "mailbox":
                fields["turn_id"] = places.get(fields["turn_id"])
    return parts


def _replace_lane(tx: WriteTransaction, key: Key, lane: _Lane) -> None:
    lane_id = _lane_id(tx, key)
    if lane_id is None:
        lane_id = _insert(tx, "lanes", lane.row)
    else:
        changes = ", ".join(f'"{name}" = ?' for name in lane.row)
        tx.run(f"UPDATE lanes SET {changes} WHERE id = ?", (*lane.row.values(), lane_id))
        _remove_parts(tx, lane_id)
    turns: list[int] = []
    for name in _LANE_PARTS:
        for fields in lane.parts[name]:
            row = fields | {"lane_id": lane_id}
            if name == "mailbox" and row["turn_id"] is not None:
                row["turn_id"] = turns[row["turn_id"]]
            number = _insert(tx, name, row)
            if name == "turns":
                turns.append(number)


def _remove_parts(tx: WriteTransaction, lane_id: int) -> None:
    for name in _LANE_PARTS:
        tx.run(f"DELETE FROM {name} WHERE lane_id = ?", (lane_id,))


def _insert(tx: WriteTransaction, table: str, row: Mapping[str, Any]) -> int:
    names = ", ".join(f'"{name}"' for name in row)
    return tx.insert(
        f"INSERT INTO {table} ({names}) VALUES ({placeholders(len(row))})", list(row.values())
    )


def _lane_rows(
    tx: ReadTransaction, name: str, condition: str, params: Sequence[Any]
) -> list[_Fields]:
    table = _LANE_TABLES[name]
    names = columns(tx, table)
    rows: list[Row] = tx.all(f"SELECT {names} FROM {name} WHERE {condition} ORDER BY id", params)
    listed = [column.name for column in table.copied]
    return [dict(zip(listed, row, strict=True)) for row in typed_rows(table, rows)]


def _lane_id(tx: ReadTransaction, key: Key) -> int | None:
    row = tx.one("SELECT id FROM lanes WHERE namespace = ? AND key_hash = ?", key)
    return int(row[0]) if row else None

"""Copies lanes, each together with its transitions, turns and mailbox.

Rows get new ids in the target, which may have other lanes. Leases and processes are not copied:
they describe one database only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from hermes_sessions.storage.provider import (
    ReadTransaction,
    Row,
    SessionDBProvider,
    WriteTransaction,
    placeholders,
)
from hermes_sessions.storage.tables import LIFECYCLE_TABLES, Table
from hermes_sessions.storage.transfer.checksums import digest, typed_rows
from hermes_sessions.storage.transfer.copy_ledger import Ledger
from hermes_sessions.storage.transfer.reader import columns
from hermes_sessions.storage.transfer.side_tables import (
    CHANGED,
    LIFECYCLE_STEP,
    Merge,
    SideDifference,
    has_taken,
)

_TABLES: Final[dict[str, Table]] = {table.name: table for table in LIFECYCLE_TABLES}
#: Tables that belong to a lane, each after the table it refers to.
_PARTS: Final = ("lane_transitions", "turns", "mailbox")
_PAGE: Final = 100
_BETWEEN: Final = "\x1f"

_Key = tuple[str, str]
_Fields = dict[str, Any]


class _Lane(NamedTuple):
    """A lane without generated ids; a ``turn_id`` is the position of the turn in the lane."""

    row: _Fields
    parts: dict[str, list[_Fields]]

    @property
    def digest(self) -> str:
        return digest([self.row, self.parts])


def copy_lanes(
    source: SessionDBProvider, target: SessionDBProvider, ledger: Ledger, merge: Merge | None
) -> list[SideDifference]:
    """Copy new and changed lanes to the target; return the lanes that were skipped because they
    changed in the target after they were copied.
    """
    if not has_taken(LIFECYCLE_STEP, source, target):
        return []
    left: list[SideDifference] = []
    for page in _pages(source):
        with source.read() as tx:
            wanted = {key: lane for key in page if (lane := _read(tx, key)) is not None}
        for key, lane in wanted.items():
            left += target.write(partial(_copy, ledger=ledger, key=key, wanted=lane, merge=merge))
    _remove_gone(source, target, ledger)
    return left


def compare_lanes(first: SessionDBProvider, second: SessionDBProvider) -> Iterator[SideDifference]:
    """Yield the lanes that differ."""
    if not has_taken(LIFECYCLE_STEP, first, second):
        return
    for page in _pages(first):
        with first.read() as tx, second.read() as other:
            for key in page:
                there = _read(other, key)
                if there is None:
                    yield _difference(key, "only in the first")
                elif there != _read(tx, key):
                    yield _difference(key, "differs")
    for page in _pages(second):
        with first.read() as tx:
            missing = [key for key in page if _id_of(tx, key) is None]
        for key in missing:
            yield _difference(key, "only in the second")


def _copy(
    tx: WriteTransaction, ledger: Ledger, key: _Key, wanted: _Lane, merge: Merge | None
) -> list[SideDifference]:
    label = _BETWEEN.join(key)
    found = _read(tx, key)
    entry = ledger.entries(tx, "lanes", [label]).get(label)
    if found is not None and found != wanted and merge != "overwrite":
        is_theirs = entry is None or entry != found.digest
        if is_theirs and merge == "skip":
            return []
        if is_theirs and entry is not None:
            return [_difference(key, CHANGED)]
    if found != wanted:
        _replace(tx, key, wanted)
        if _read(tx, key) != wanted:
            return [_difference(key, "could not be stored as it is")]
    if entry != wanted.digest:
        ledger.note(tx, "lanes", [(label, wanted.digest)])
    return []


def _replace(tx: WriteTransaction, key: _Key, lane: _Lane) -> None:
    lane_id = _id_of(tx, key)
    if lane_id is None:
        lane_id = _insert(tx, "lanes", lane.row)
    else:
        changes = ", ".join(f'"{name}" = ?' for name in lane.row)
        tx.run(f"UPDATE lanes SET {changes} WHERE id = ?", (*lane.row.values(), lane_id))
        _remove_parts(tx, lane_id)
    turns: list[int] = []
    for name in _PARTS:
        for fields in lane.parts[name]:
            row = fields | {"lane_id": lane_id}
            if name == "mailbox" and row["turn_id"] is not None:
                row["turn_id"] = turns[row["turn_id"]]
            number = _insert(tx, name, row)
            if name == "turns":
                turns.append(number)


def _remove_gone(source: SessionDBProvider, target: SessionDBProvider, ledger: Ledger) -> None:
    """Remove copied lanes that were deleted from the source, unless they changed in the target."""
    after: str | None = None
    while True:
        with target.read() as tx:
            labels = ledger.page(tx, "lanes", after, _PAGE)
        if not labels:
            return
        after = labels[-1]
        with source.read() as tx:
            gone = [label for label in labels if _id_of(tx, _key(label)) is None]
        if gone:
            target.write(partial(_remove, ledger=ledger, labels=gone))


def _remove(tx: WriteTransaction, ledger: Ledger, labels: Sequence[str]) -> None:
    noted = ledger.entries(tx, "lanes", labels)
    for label in labels:
        lane_id, found = _id_of(tx, _key(label)), _read(tx, _key(label))
        if lane_id is not None and found is not None and found.digest == noted.get(label):
            _remove_parts(tx, lane_id)
            tx.run("DELETE FROM lanes WHERE id = ?", (lane_id,))
    ledger.forget(tx, "lanes", labels)


def _remove_parts(tx: WriteTransaction, lane_id: int) -> None:
    for name in _PARTS:
        tx.run(f"DELETE FROM {name} WHERE lane_id = ?", (lane_id,))


def _insert(tx: WriteTransaction, table: str, row: _Fields) -> int:
    names = ", ".join(f'"{name}"' for name in row)
    return tx.insert(
        f"INSERT INTO {table} ({names}) VALUES ({placeholders(len(row))})", list(row.values())
    )


def _read(tx: ReadTransaction, key: _Key) -> _Lane | None:
    lanes = _rows(tx, "lanes", "namespace = ? AND key_hash = ?", key)
    if not lanes:
        return None
    lane_id = lanes[0].pop("id")
    parts: dict[str, list[_Fields]] = {}
    places: dict[int, int] = {}
    for name in _PARTS:
        parts[name] = _rows(tx, name, "lane_id = ?", (lane_id,))
        for place, fields in enumerate(parts[name]):
            number = fields.pop("id")
            del fields["lane_id"]
            if name == "turns":
                places[number] = place
            elif name == "mailbox":
                fields["turn_id"] = places.get(fields["turn_id"])
    return _Lane(lanes[0], parts)


def _rows(tx: ReadTransaction, name: str, condition: str, params: Sequence[Any]) -> list[_Fields]:
    table = _TABLES[name]
    names = columns(tx, table)
    rows: list[Row] = tx.all(f"SELECT {names} FROM {name} WHERE {condition} ORDER BY id", params)
    listed = [column.name for column in table.copied]
    return [dict(zip(listed, row, strict=True)) for row in typed_rows(table, rows)]


def _id_of(tx: ReadTransaction, key: _Key) -> int | None:
    row = tx.one("SELECT id FROM lanes WHERE namespace = ? AND key_hash = ?", key)
    return int(row[0]) if row else None


def _pages(provider: SessionDBProvider) -> Iterator[list[_Key]]:
    after = 0
    while True:
        with provider.read() as tx:
            rows = tx.all(
                "SELECT id, namespace, key_hash FROM lanes WHERE id > ? ORDER BY id LIMIT ?",
                (after, _PAGE),
            )
        if not rows:
            return
        after = rows[-1][0]
        yield [(namespace, key_hash) for _, namespace, key_hash in rows]


def _key(label: str) -> _Key:
    namespace, _, key_hash = label.rpartition(_BETWEEN)
    return namespace, key_hash


def _difference(key: _Key, what: str) -> SideDifference:
    return SideDifference("lanes", " ".join(key), what)

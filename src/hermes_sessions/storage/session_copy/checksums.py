"""Checksums of sessions that are equal on every database."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Self

from hermes_sessions.errors import TransferRefused
from hermes_sessions.storage.provider import Row
from hermes_sessions.storage.tables import SESSIONS, Column, Table

#: Position of the title among the values that depend on other sessions of a store.
_TITLE: Final = [c.name for c in SESSIONS.copied if c.compared == "place"].index("title")
_TYPES: Final = {
    "serial": int,
    "integer": int,
    "real": float,
    "name": str,
    "text": str,
    "bytes": bytes,
}
_dump: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Checksum(NamedTuple):
    """Three digests: content and counters; ids and lineage in this store; and the title."""

    content: str
    place: str
    title: str

    def __str__(self) -> str:
        return " ".join(self)

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Parse the text that ``str`` wrote; return None for other texts."""
        parts = text.split(" ")
        return cls(*parts) if len(parts) == len(cls._fields) else None


def is_same(first: Checksum, second: Checksum | None, *, merging: bool) -> bool:
    """Return whether two checksums agree. When *merging*, ids and titles may differ."""
    if merging:
        return second is not None and first.content == second.content
    return first == second


class SessionChecksum:
    """Computes the checksum of a session from its rows. Tables must be added in a fixed order, and
    rows in the order of their positions.
    """

    def __init__(self) -> None:
        self._content = blake2b(digest_size=16)
        self._place = blake2b(digest_size=16)
        self._title = ""

    def add(self, table: Table, rows: Iterable[Row]) -> None:
        """Add rows from `typed_rows` with all columns of their table."""
        split = _splitters[table.name] if table.name in _splitters else _splitter(table)
        for row in rows:
            content, place = split(row)
            if table is SESSIONS:
                self._title = digest(place.pop(_TITLE))
            self._content.update(_bytes(content))
            if place:
                self._place.update(_bytes(place))

    def result(self) -> Checksum:
        """Return the checksum of the added rows."""
        return Checksum(self._content.hexdigest(), self._place.hexdigest(), self._title)


def digest(value: object) -> str:
    """Return the digest of a JSON value."""
    return blake2b(_bytes(value), digest_size=16).hexdigest()


def _bytes(value: object) -> bytes:
    # Lone surrogates are valid text here, but not valid UTF-8.
    return _dump(value).encode("utf-8", "surrogatepass") + b"\n"


_Splitter = Callable[[Row], tuple[list[Any], list[Any]]]
_splitters: Final[dict[str, _Splitter]] = {}


def _splitter(table: Table) -> _Splitter:
    inner, outer, later = list[int](), list[int](), list[tuple[int, Column]]()
    for number, column in enumerate(table.copied):
        if column.compared == "never":
            continue
        if column.since is not None:
            later.append((number, column))
        else:
            (outer if column.compared == "place" else inner).append(number)

    def split(row: Row) -> tuple[list[Any], list[Any]]:
        content, place = [row[n] for n in inner], [row[n] for n in outer]
        # A checksum from before a column existed stays valid while the column holds its default.
        for number, column in later:
            if row[number] not in (None, column.default):
                part = place if column.compared == "place" else content
                part.append([column.name, row[number]])
        return content, place

    _splitters[table.name] = split
    return split


def typed_rows(
    table: Table, rows: Iterable[Row], columns: Sequence[Column] | None = None
) -> list[Row]:
    """Convert every value to the type of its column; rows have all copied *columns* of their table
    unless stated.

    SQLite stores values of any type in a column; servers do not.

    Raises:
        TransferRefused: a value cannot be converted without loss.
    """
    columns = columns or table.copied
    types = [_TYPES[column.kind] for column in columns]
    floats = [number for number, wanted in enumerate(types) if wanted is float]
    found = []
    for row in rows:
        for value, wanted in zip(row, types, strict=True):
            if value is not None and type(value) is not wanted:
                found.append(_settled(table, row, columns))
                break
        else:
            # Databases differ in NaN and negative zero.
            is_plain = all(row[number] is None or row[number] > 0 for number in floats)
            found.append(row if is_plain else _settled(table, row, columns))
    return found


def _settled(table: Table, row: Row, columns: Sequence[Column]) -> Row:
    values = []
    for value, column in zip(row, columns, strict=True):
        wanted = _TYPES[column.kind]
        try:
            values.append(None if value is None else _converted(value, wanted))
        except ValueError as error:
            names = [other.name for other in columns]
            owner = row[names.index("session_id")] if "session_id" in names else row[0]
            kind = "Session" if table is SESSIONS or "session_id" in names else "Row"
            raise TransferRefused(
                f"{kind} {owner}: {table.name}.{column.name} holds {value!r:.60}, which no other "
                f"database keeps there. Mend it in the source first."
            ) from error
    return tuple(values)


def _converted(value: Any, wanted: type) -> Any:
    """Return the value in the wanted type; raise ValueError if that would lose something."""
    if wanted is bytes:
        raise ValueError(value)
    if wanted is str:
        return value.decode("utf-8") if isinstance(value, bytes) else str(value)
    number = float(value) if wanted is float or isinstance(value, float) else int(value)
    if math.isnan(number):
        return None
    if isinstance(value, bytes) or (wanted is int and int(number) != number):
        raise ValueError(value)
    return int(number) if wanted is int else number + 0.0

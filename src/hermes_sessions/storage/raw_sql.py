"""Raw SQL for code written against a bare connection of ``sqlite3``.

Each statement is its own transaction, as on a connection in autocommit mode; use
`RawStatements.transaction` for several together. Rows are indexed by position and by name. Text
passes through the codec, so raw SQL sees the same values as the store's methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Params = Sequence[Any] | Mapping[str, Any]


class Row:
    """A row indexed by position and by name; ``dict(row)`` works."""

    __slots__ = ("_names", "_values")

    def __init__(self, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
        self._names = names
        self._values = values

    def keys(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._names)

    def __getitem__(self, key: str | int | slice) -> Any:
        if not isinstance(key, str):
            return self._values[key]
        for name, value in zip(self._names, self._values, strict=True):
            if name.lower() == key.lower():
                return value
        raise IndexError(f"No item with the key {key!r}")

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Row):
            return (self._names, self._values) == (other._names, other._values)
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self._names, self._values))

    def __repr__(self) -> str:
        return f"Row({dict(zip(self._names, self._values, strict=True))!r})"


class Result:
    """The result of one statement, with all rows fetched."""

    def __init__(
        self,
        rows: Iterable[Row] = (),
        *,
        names: tuple[str, ...] = (),
        rowcount: int = -1,
        lastrowid: int | None = None,
    ) -> None:
        self._rows = iter(rows)
        #: Column descriptions as in ``sqlite3``: the name and six times None.
        self.description = tuple((name, *[None] * 6) for name in names) or None
        #: Number of changed rows; -1 for a statement that changes none.
        self.rowcount = rowcount
        self.lastrowid = lastrowid

    def fetchone(self) -> Row | None:
        """Return the next row, or None."""
        return next(self._rows, None)

    def fetchmany(self, size: int = 1) -> list[Row]:
        """Return at most *size* of the remaining rows."""
        return list(islice(self._rows, size))

    def fetchall(self) -> list[Row]:
        """Return the remaining rows."""
        return list(self._rows)

    def close(self) -> None:
        """Discard the remaining rows."""
        self._rows = iter(())

    def __iter__(self) -> Iterator[Row]:
        return self._rows


class RawConnection(Protocol):
    """A connection-like object that runs statements."""

    def execute(self, sql: str, params: Params = ()) -> Result:
        """Run one statement.

        Raises:
            StatementRefused: it cannot be run.
        """

    def executemany(self, sql: str, rows: Iterable[Params]) -> Result:
        """Run one statement for each row of parameters."""

    def commit(self) -> None:
        """Do nothing: a statement commits by itself, or with the transaction around it."""


class RawStatements(RawConnection, Protocol):
    """Statements on a store, each in its own transaction."""

    def transaction(self, work: Callable[[RawConnection], T]) -> T:
        """Run *work* in one transaction, atomically."""

    def rollback(self) -> None:
        """Do nothing: no transaction is open."""

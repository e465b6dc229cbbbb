"""Raw SQL for code that was written against a bare connection.

Each statement is a transaction of its own, as on a connection in autocommit mode; several together
go through `Engine.write`. Rows answer by position and by name. Text passes through the codec, so
such code sees what the store's own verbs see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import apsw

from hermes_sessions.errors import InvalidInput, StoreReadOnly
from hermes_sessions.storage.codec import decode_row, encode_params, encode_text
from hermes_sessions.storage.sqlite.engine import Engine

T = TypeVar("T")
Params = Sequence[Any] | Mapping[str, Any]
_READS: Final = frozenset({"SELECT", "VALUES", "EXPLAIN", "PRAGMA", "WITH"})
_NOTHING_TO_DO: Final = frozenset({"COMMIT", "END", "ROLLBACK"})
_TRANSACTIONS: Final = frozenset({"BEGIN", "SAVEPOINT", "RELEASE"})


class Row:
    """A row that answers by position and by name; ``dict(row)`` works."""

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
    """What one statement gave; the rows are already here."""

    def __init__(self, rows: list[Row], rowcount: int, lastrowid: int) -> None:
        self._rows = iter(rows)
        self.rowcount = rowcount
        self.lastrowid = lastrowid

    def fetchone(self) -> Row | None:
        """Return the next row, or None."""
        return next(self._rows, None)

    def fetchall(self) -> list[Row]:
        """Return the remaining rows."""
        return list(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return self._rows


class BoundStatements:
    """Statements inside one open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, params: Params = ()) -> Result:
        """Run one statement."""
        cursor = self._connection.cursor()
        rows: list[Row] = []
        names: tuple[str, ...] = ()
        for values in cursor.execute(sql, _encoded(params)):
            names = names or tuple(column[0] for column in cursor.get_description())
            rows.append(Row(names, decode_row(values)))
        return Result(rows, self._connection.changes(), self._connection.last_insert_rowid())

    def executemany(self, sql: str, rows: Iterable[Params]) -> Result:
        """Run one statement for each row of parameters."""
        before = self._connection.total_changes()
        self._connection.executemany(sql, map(_encoded, rows))
        changed = self._connection.total_changes() - before
        return Result([], changed, self._connection.last_insert_rowid())

    def commit(self) -> None:
        """The transaction is committed by whoever opened it."""


class Statements:
    """Statements on a store, each a transaction of its own."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine

    def execute(self, sql: str, params: Params = ()) -> Result:
        """Run one statement; what it writes is committed when this returns.

        Raises:
            InvalidInput: the statement would leave a transaction open.
        """
        words = sql.split(None, 1)
        verb = words[0].upper().rstrip(";") if words else ""
        if verb in _NOTHING_TO_DO:
            return Result([], -1, 0)
        if verb in _TRANSACTIONS:
            raise InvalidInput(
                f"{verb} would hold the store's only writer. Use _execute_write(), which runs a "
                f"function in one transaction."
            )
        if verb in _READS:
            try:
                with self._engine().reading_connection() as connection:
                    return BoundStatements(connection).execute(sql, params)
            except StoreReadOnly:
                if self._engine().options.read_only:
                    raise  # WITH … INSERT and the like go to the writer instead.
        return self.transaction(lambda bound: bound.execute(sql, params))

    def executemany(self, sql: str, rows: Iterable[Params]) -> Result:
        """Run one statement for each row of parameters, in one transaction."""
        listed = list(rows)
        return self.transaction(lambda bound: bound.executemany(sql, listed))

    def transaction(self, work: Callable[[BoundStatements], T]) -> T:
        """Run *work* in one transaction; all of it happens or nothing."""
        return self._engine().write_on_connection(lambda c: work(BoundStatements(c)))

    def commit(self) -> None:
        """Nothing to do: every statement has committed."""

    def rollback(self) -> None:
        """Nothing to do: no transaction is open."""


def _encoded(params: Params) -> Any:
    if isinstance(params, Mapping):
        return {k: encode_text(v) if isinstance(v, str) else v for k, v in params.items()}
    return encode_params(params)

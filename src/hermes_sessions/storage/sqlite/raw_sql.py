"""Raw SQL for code written against a bare connection.

Each statement is its own transaction, as on a connection in autocommit mode; use
`Statements.transaction` for several together. Rows are indexed by position and by name. Text passes
through the codec, so raw SQL sees the same values as the store's methods.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, TypeVar

import apsw

from hermes_sessions.errors import StatementRefused, StoreReadOnly
from hermes_sessions.storage.codec import decode_row, encode_params, encode_text
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider

T = TypeVar("T")
Params = Sequence[Any] | Mapping[str, Any]
_READS: Final = frozenset({"SELECT", "VALUES", "EXPLAIN", "PRAGMA", "WITH"})
_CHANGES_ROWS: Final = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE"})
_CHANGING: Final = re.compile(r"\b(?:INSERT|UPDATE|DELETE|REPLACE)\s", re.IGNORECASE)
_WORD: Final = re.compile(r"[A-Z_.]+")
_COMMENTS: Final = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)+", re.DOTALL)
#: Not allowed inside a transaction.
_MAINTENANCE: Final = frozenset({"VACUUM", "WAL_CHECKPOINT", "INCREMENTAL_VACUUM", "OPTIMIZE"})


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


class BoundStatements:
    """Statements inside an open transaction, which its owner commits or rolls back."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, params: Params = ()) -> Result:
        """Run one statement.

        Raises:
            StatementRefused: it cannot be run, or would end the transaction.
        """
        verb, rest = _first_words(sql)
        if verb in {"COMMIT", "END"}:
            return Result()
        if verb == "BEGIN" or (verb == "ROLLBACK" and not rest.startswith("TO")):
            raise StatementRefused(
                f"{verb} would end the open transaction. Raise an exception to roll it back."
            )
        cursor = self._connection.cursor()
        rows: list[Row] = []
        names: tuple[str, ...] = ()

        def note_names(_cursor: apsw.Cursor, _statement: str, _bindings: object) -> bool:
            # Read before the first row, because there may be none.
            nonlocal names
            names = tuple(column[0] for column in cursor.get_description())
            return True

        cursor.exec_trace = note_names
        with _bindings_checked():
            found = cursor.execute(sql, _encoded(params))
            rows.extend(Row(names, decode_row(values)) for values in found)
        if verb not in _CHANGES_ROWS and not (verb == "WITH" and _CHANGING.search(sql)):
            return Result(rows, names=names)
        return Result(
            rows,
            names=names,
            rowcount=self._connection.changes(),
            lastrowid=self._connection.last_insert_rowid(),
        )

    def executemany(self, sql: str, rows: Iterable[Params]) -> Result:
        """Run one statement for each row of parameters."""
        changed = 0
        with _bindings_checked():
            for params in rows:
                self._connection.execute(sql, _encoded(params))
                changed += self._connection.changes()
        return Result(rowcount=changed)

    def commit(self) -> None:
        """Do nothing: the owner of the transaction commits it."""


class Statements:
    """Statements on a store, each in its own transaction."""

    def __init__(self, provider: Callable[[], SQLiteSessionDBProvider]) -> None:
        self._provider = provider

    def execute(self, sql: str, params: Params = ()) -> Result:
        """Run one statement; its writes are committed when this returns.

        Raises:
            StatementRefused: it cannot be run, or would leave a transaction open.
        """
        verb, rest = _first_words(sql)
        if verb in {"COMMIT", "END", "ROLLBACK"}:
            return Result()
        if verb in {"BEGIN", "SAVEPOINT", "RELEASE"}:
            raise StatementRefused(
                f"{verb} would block the store's only writer. Use _execute_write(), which runs a "
                f"function in one transaction."
            )
        subject = rest if verb == "PRAGMA" else verb
        if subject.removeprefix("MAIN.") in _MAINTENANCE:
            return self._provider().with_writer(lambda c: BoundStatements(c).execute(sql, params))
        if verb in _READS:
            try:
                # A PRAGMA must not leave its effect in a pooled connection.
                with self._provider().reading_connection(keep=verb != "PRAGMA") as connection:
                    return BoundStatements(connection).execute(sql, params)
            except StoreReadOnly:
                if self._provider().read_only:
                    raise  # WITH … INSERT and similar go to the writer instead.
        return self.transaction(lambda bound: bound.execute(sql, params))

    def executemany(self, sql: str, rows: Iterable[Params]) -> Result:
        """Run one statement for each row of parameters, in one transaction."""
        listed = list(rows)
        return self.transaction(lambda bound: bound.executemany(sql, listed))

    def transaction(self, work: Callable[[BoundStatements], T]) -> T:
        """Run *work* in one transaction, atomically."""
        return self._provider().write_on_connection(lambda c: work(BoundStatements(c)))

    def commit(self) -> None:
        """Do nothing: every statement has committed."""

    def rollback(self) -> None:
        """Do nothing: no transaction is open."""


def _first_words(sql: str) -> tuple[str, str]:
    """Return the verb of a statement and the name after it, in upper case."""
    if before := _COMMENTS.match(sql):
        sql = sql[before.end() :]
    words = [*_WORD.findall(sql[:200].upper()), "", ""]
    return words[0], words[1]


@contextmanager
def _bindings_checked() -> Iterator[None]:
    """Translate errors about parameters like ``sqlite3`` does."""
    try:
        yield
    except (KeyError, TypeError) as error:
        raise StatementRefused(f"The parameters do not match the statement: {error}.") from error


def _encoded(params: Params) -> Any:
    if isinstance(params, Mapping):
        return {k: encode_text(v) if isinstance(v, str) else v for k, v in params.items()}
    return encode_params(params)

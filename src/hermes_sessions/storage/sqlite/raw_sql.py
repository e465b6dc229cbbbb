"""Raw SQL on a SQLite store; see `hermes_sessions.storage.raw_sql`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import apsw

from hermes_sessions.errors import StatementRefused, StoreReadOnly
from hermes_sessions.storage.codec import decode_row, encode_params, encode_text
from hermes_sessions.storage.raw_sql import Params, RawConnection, Result, Row
from hermes_sessions.storage.sqlite.error_translation import translate
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider

T = TypeVar("T")
_READS: Final = frozenset({"SELECT", "VALUES", "EXPLAIN", "PRAGMA", "WITH"})
_CHANGES_ROWS: Final = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE"})
_CHANGING: Final = re.compile(r"\b(?:INSERT|UPDATE|DELETE|REPLACE)\s", re.IGNORECASE)
_WORD: Final = re.compile(r"[A-Z_.]+")
_COMMENTS: Final = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)+", re.DOTALL)
#: Not allowed inside a transaction.
_MAINTENANCE: Final = frozenset({"VACUUM", "WAL_CHECKPOINT", "INCREMENTAL_VACUUM", "OPTIMIZE"})


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
        with self._translated():
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
        with self._translated():
            for params in rows:
                self._connection.execute(sql, _encoded(params))
                changed += self._connection.changes()
        return Result(rowcount=changed)

    def commit(self) -> None:
        """Do nothing: the owner of the transaction commits it."""

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise errors that concern the statement as ``sqlite3`` does, for callers that catch them
        and go on.
        """
        try:
            yield
        except (KeyError, TypeError) as error:
            raise StatementRefused(
                f"The parameters do not match the statement: {error}."
            ) from error
        except (apsw.ConstraintError, apsw.SQLError) as error:
            raise translate(error, self._connection.filename) from error


class Statements:
    """Statements on a store, each in its own transaction."""

    def __init__(self, provider: SQLiteSessionDBProvider) -> None:
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
            return self._provider.with_writer(lambda c: BoundStatements(c).execute(sql, params))
        if verb in _READS:
            try:
                # A PRAGMA must not leave its effect in a pooled connection.
                with self._provider.reading_connection(keep=verb != "PRAGMA") as connection:
                    return BoundStatements(connection).execute(sql, params)
            except StoreReadOnly:
                if self._provider.read_only:
                    raise  # WITH … INSERT and similar go to the writer instead.
        return self.transaction(lambda bound: bound.execute(sql, params))

    def executemany(self, sql: str, rows: Iterable[Params]) -> Result:
        """Run one statement for each row of parameters, in one transaction."""
        listed = list(rows)
        return self.transaction(lambda bound: bound.executemany(sql, listed))

    def transaction(self, work: Callable[[RawConnection], T]) -> T:
        """Run *work* in one transaction, atomically."""
        return self._provider.write_on_connection(lambda c: work(BoundStatements(c)))

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


def _encoded(params: Params) -> Any:
    if isinstance(params, Mapping):
        return {k: encode_text(v) if isinstance(v, str) else v for k, v in params.items()}
    return encode_params(params)

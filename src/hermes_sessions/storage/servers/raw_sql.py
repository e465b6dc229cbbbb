"""Raw SQL on a server; see `hermes_sessions.storage.raw_sql`.

Statements are written for SQLite and translated; see `sql_translation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeVar, cast

from hermes_sessions.errors import ConstraintViolated, StatementRefused
from hermes_sessions.storage.provider import ReadTransaction, SessionDBProvider
from hermes_sessions.storage.raw_sql import Params, RawConnection, Result, Row
from hermes_sessions.storage.servers.driver import DescribedRows, DriverErrors, ServerTransaction
from hermes_sessions.storage.servers.sql_translation import ServerSyntax, Translated, translate

T = TypeVar("T")
_NO_EFFECT: Final = frozenset({"COMMIT", "END", "ROLLBACK"})
#: Errors that concern the statement, not the transaction or the server.
_OF_THE_STATEMENT: Final = (ConstraintViolated, StatementRefused)
#: A statement that fails leaves the transaction as it was, as on SQLite.
_SAVE: Final = "SAVEPOINT raw_sql"
_UNDO: Final = "ROLLBACK TO SAVEPOINT raw_sql"


class Server(NamedTuple):
    """What statements of callers need to know of a server."""

    provider: SessionDBProvider
    syntax: ServerSyntax
    errors: DriverErrors
    #: For messages; without secrets.
    location: str


class _Bound:
    """Statements inside an open transaction, which its owner commits or rolls back."""

    def __init__(self, tx: ServerTransaction, server: Server, *, is_writing: bool) -> None:
        self._tx = tx
        self._server = server
        self._is_writing = is_writing

    def execute(self, sql: str, params: Params = ()) -> Result:
        """See `RawConnection.execute`."""
        verb = _first_word(sql)
        if verb in {"COMMIT", "END"}:
            return Result()
        if verb in {"BEGIN", "ROLLBACK"}:
            raise StatementRefused(
                f"{verb} would end the open transaction. Raise an exception to roll it back."
            )
        translated = translate(sql, params, self._server.syntax)
        found = self._found(translated)
        if translated.verb == "SELECT":
            return Result((Row(found.names, row) for row in found.rows), names=found.names)
        return Result(rowcount=found.matched)

    def _found(self, statement: Translated) -> DescribedRows:
        if self._is_writing:
            self._tx.run(_SAVE)
        errors = self._server.errors
        try:
            return self._tx.described(statement.sql, statement.params)
        except errors.base as error:
            refused = errors.translate(error, self._server.location)
            if errors.is_retryable(error) or not isinstance(refused, _OF_THE_STATEMENT):
                raise
            if self._is_writing:
                self._tx.run(_UNDO)
            if isinstance(refused, StatementRefused):
                raise StatementRefused(
                    f"{self._server.location}: the statement cannot be run ({error}). Correct it, "
                    f"or use a method of SessionDB."
                ) from error
            raise refused from error

    def executemany(self, sql: str, rows: Iterable[Params]) -> Result:
        """See `RawConnection.executemany`."""
        return Result(rowcount=sum(self.execute(sql, row).rowcount for row in rows))

    def commit(self) -> None:
        """Do nothing: the owner of the transaction commits it."""


class ServerStatements:
    """Statements on a store on a server, each in its own transaction."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def execute(self, sql: str, params: Params = ()) -> Result:
        """See `RawConnection.execute`; writes are committed when this returns."""
        verb = _first_word(sql)
        if verb in _NO_EFFECT:
            return Result()
        if verb in {"SELECT", "WITH"}:
            with self._server.provider.read() as tx:
                return self._bound(tx, is_writing=False).execute(sql, params)
        return self.transaction(lambda bound: bound.execute(sql, params))

    def executemany(self, sql: str, rows: Iterable[Params]) -> Result:
        """See `RawConnection.executemany`; all in one transaction."""
        listed = list(rows)
        return self.transaction(lambda bound: bound.executemany(sql, listed))

    def transaction(self, work: Callable[[RawConnection], T]) -> T:
        """See `RawStatements.transaction`. *work* may run again if the server asks for a retry."""
        return self._server.provider.write(lambda tx: work(self._bound(tx, is_writing=True)))

    def _bound(self, tx: ReadTransaction, *, is_writing: bool) -> _Bound:
        return _Bound(cast("ServerTransaction", tx), self._server, is_writing=is_writing)

    def commit(self) -> None:
        """Do nothing: every statement has committed."""

    def rollback(self) -> None:
        """Do nothing: no transaction is open."""


def _first_word(sql: str) -> str:
    return next(iter(sql.split(maxsplit=1)), "").upper().rstrip(";")

"""One read: a connection on loan inside a transaction. (Classes: every read pays for them.)"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType

import apsw

from hermes_sessions.errors import StoreError
from hermes_sessions.storage.sqlite.reader_pool import Readers
from hermes_sessions.storage.sqlite.transaction import ApswTransaction


class Reading:
    """Lends a connection that sees one state of the database."""

    __slots__ = ("_explain", "_keep", "_patience", "_reader", "_readers")

    def __init__(
        self,
        readers: Readers,
        patience: float,
        *,
        keep: bool,
        explain: Callable[[apsw.Error], StoreError],
    ) -> None:
        """*explain* turns the driver's errors into ours; *keep* as in `Readers.give_back`."""
        self._readers = readers
        self._patience = patience
        self._keep = keep
        self._explain = explain

    def __enter__(self) -> apsw.Connection:
        try:
            self._reader, connection = self._readers.borrow(self._patience)
            try:
                connection.execute("BEGIN")
            except BaseException:
                self._readers.give_back(self._reader, keep=False)
                raise
        except apsw.Error as error:
            raise self._explain(error) from error
        return connection

    def __exit__(
        self, kind: object, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._readers.give_back(self._reader, keep=self._keep)
        if isinstance(error, apsw.Error):
            raise self._explain(error) from error


class Read:
    """Gives the statements of one read."""

    __slots__ = ("_reading",)

    def __init__(self, reading: AbstractContextManager[apsw.Connection]) -> None:
        self._reading = reading

    def __enter__(self) -> ApswTransaction:
        return ApswTransaction(self._reading.__enter__())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return self._reading.__exit__(kind, error, traceback)

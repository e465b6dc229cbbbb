"""Reads stores of an earlier version that lack columns.

A read-only handle, such as that of ``hermes sessions list``, cannot migrate the store. Statements
name all declared columns; missing ones are replaced by their default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

from hermes_sessions.storage.provider import Params, ReadTransaction, Row, SessionDBProvider
from hermes_sessions.storage.tables import ALL_TABLES, COLUMN_STEPS, Column, added_by


def reading_older(provider: SessionDBProvider) -> SessionDBProvider:
    """Return the provider, wrapped if it is read-only and its store lacks columns: reads return
    their defaults.
    """
    if not COLUMN_STEPS or not provider.read_only:
        return provider
    missing = [column for step in provider.steps().waiting for _, column in added_by(step)]
    names = {column.name for column in missing}
    # A column name that another table also has is ambiguous in a statement.
    shared = {c.name for t in ALL_TABLES for c in t.columns if c.since is None and c.name in names}
    missing = [column for column in missing if column.name not in shared]
    return cast("SessionDBProvider", _OlderStore(provider, missing)) if missing else provider


class _OlderStore:
    """A provider whose reads replace missing columns; delegates everything else."""

    def __init__(self, provider: SessionDBProvider, missing: list[Column]) -> None:
        self._provider = provider
        self._defaults = {
            column.name: "NULL" if column.default is None else str(column.default)
            for column in missing
        }
        names = "|".join(map(re.escape, self._defaults))
        self._named = re.compile(rf'(?:\b\w+\.)?(?:"({names})"|\b({names})\b)')

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """See `SessionDBProvider.read`."""
        return self._reading()

    @contextmanager
    def _reading(self) -> Iterator[ReadTransaction]:
        with self._provider.read() as tx:
            yield _OlderTransaction(tx, self._without)

    def _without(self, sql: str) -> str:
        return self._named.sub(lambda found: self._defaults[found[1] or found[2]], sql)


class _OlderTransaction:
    """A read transaction that rewrites its statements."""

    def __init__(self, tx: ReadTransaction, rewrite: Callable[[str], str]) -> None:
        self._tx = tx
        self._rewrite = rewrite

    def one(self, sql: str, params: Params = ()) -> Row | None:
        """See `ReadTransaction.one`."""
        return self._tx.one(self._rewrite(sql), params)

    def all(self, sql: str, params: Params = ()) -> list[Row]:
        """See `ReadTransaction.all`."""
        return self._tx.all(self._rewrite(sql), params)

    def stream(self, sql: str, params: Params = ()) -> Iterator[Row]:
        """See `ReadTransaction.stream`."""
        return self._tx.stream(self._rewrite(sql), params)

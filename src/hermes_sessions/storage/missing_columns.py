"""Reads stores of an earlier version that lack columns.

A read-only handle, such as that of ``hermes sessions list``, cannot migrate the store. Statements
name all declared columns; missing ones are replaced by their default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, cast

from hermes_sessions.storage.provider import Params, ReadTransaction, Row, SessionDBProvider
from hermes_sessions.storage.tables import ALL_TABLES, COLUMN_STEPS, Column, added_by

_WORD: Final = re.compile(r"\w+")


def reading_older(provider: SessionDBProvider) -> SessionDBProvider:
    """Return the provider; if it is read-only, reads return the defaults of columns that its store
    lacks.
    """
    if not COLUMN_STEPS or not provider.read_only:
        return provider
    return cast("SessionDBProvider", _OlderStore(provider))


class _OlderStore:
    """A provider whose reads replace missing columns; delegates everything else."""

    def __init__(self, provider: SessionDBProvider) -> None:
        self._provider = provider
        #: None before the first read: opening a store must not read it, which locks the file and
        #: may take space.
        self._missing: _MissingColumns | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """See `SessionDBProvider.read`."""
        return self._reading()

    @contextmanager
    def _reading(self) -> Iterator[ReadTransaction]:
        if self._missing is None:
            waiting = self._provider.steps().waiting
            self._missing = _MissingColumns([c for step in waiting for _, c in added_by(step)])
        with self._provider.read() as tx:
            if self._missing.names:
                yield _OlderTransaction(tx, self._missing.without)
            else:
                yield tx


class _MissingColumns:
    """Columns that a store lacks."""

    def __init__(self, missing: list[Column]) -> None:
        self._defaults = {
            column.name: "NULL" if column.default is None else str(column.default)
            for column in missing
        }
        self.names = frozenset(self._defaults)
        names = "|".join(map(re.escape, self._defaults))
        self._named = re.compile(rf'(?:\b\w+\.)?(?:"({names})"|\b({names})\b)')
        #: Tables that have a column of such a name: a statement about them means theirs.
        self._owners: dict[str, list[str]] = {
            name: [
                table.name
                for table in ALL_TABLES
                if any(column.name == name for column in table.created_with())
            ]
            for name in self._defaults
        }

    def without(self, sql: str) -> str:
        """Return a statement with defaults in place of the columns."""
        words = set(_WORD.findall(sql))

        def replaced(found: re.Match[str]) -> str:
            name = found[1] or found[2]
            return found[0] if words.intersection(self._owners[name]) else self._defaults[name]

        return self._named.sub(replaced, sql)


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

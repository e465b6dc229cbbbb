"""Processes that run turns, with heartbeats that show which are alive.

A process records its end, and whether it had finished its work. A process without a heartbeat for
too long counts as dead, even if it is only suspended, and loses its leases.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Final, NamedTuple

from hermes_sessions.model.ids import require_bounded
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction, placeholders
from hermes_sessions.storage.store_context import StoreContext


class Process(NamedTuple):
    """A row of ``processes``."""

    id: str
    namespace: str
    kind: str | None
    host: str | None
    pid: int | None
    version: str | None
    started_at: float
    heartbeat_at: float
    #: Set when it ended, or when another process found it dead.
    ended_at: float | None = None
    #: 1 if it had finished its work.
    clean: int = 0


_COLUMNS: Final = Process._fields
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM processes"


class Processes:
    """The rows of ``processes``."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def register(
        self,
        namespace: str,
        kind: str,
        *,
        process_id: str | None = None,
        host: str | None = None,
        pid: int | None = None,
        version: str | None = None,
    ) -> Process:
        """Register a process, by default this one, under a new id."""
        now = self._store.clock()
        process = Process(
            require_bounded(process_id or os.urandom(8).hex(), "process id"),
            require_bounded(namespace, "namespace"),
            kind,
            _host_name() if host is None else host,
            os.getpid() if pid is None else pid,
            version,
            started_at=now,
            heartbeat_at=now,
        )
        self._store.provider.write(
            lambda tx: tx.run(
                f"INSERT INTO processes ({', '.join(_COLUMNS)}) "
                f"VALUES ({placeholders(len(_COLUMNS))})",
                process,
            ),
            isolated=False,
        )
        return process

    def beat(self, process_id: str) -> bool:
        """Record a heartbeat; return False if the process has ended or was found dead."""
        now = self._store.clock()
        return bool(
            self._store.provider.write(
                lambda tx: tx.run(
                    "UPDATE processes SET heartbeat_at = ? WHERE id = ? AND ended_at IS NULL",
                    (now, process_id),
                ),
                isolated=False,
            )
        )

    def end(
        self,
        process_id: str,
        clean: bool,
        *,
        silent_since: float | None = None,
        tx: WriteTransaction | None = None,
    ) -> bool:
        """Record the end of a process; return True for exactly one of several callers.

        With *silent_since*, only if it has no later heartbeat. Uses the open transaction *tx* if
        given.
        """
        now = self._store.clock()
        silent = "" if silent_since is None else " AND heartbeat_at <= ?"
        params = () if silent_since is None else (silent_since,)

        def work(tx: WriteTransaction) -> bool:
            return bool(
                tx.run(
                    f"UPDATE processes SET ended_at = ?, clean = ? "
                    f"WHERE id = ? AND ended_at IS NULL{silent}",
                    (now, int(clean), process_id, *params),
                )
            )

        return work(tx) if tx is not None else self._store.provider.write(work, isolated=False)

    def living(
        self, namespace: str, dead_after: float, *, tx: ReadTransaction | None = None
    ) -> list[Process]:
        """Return the running processes with a heartbeat in the last *dead_after* seconds, oldest
        first.
        """
        return self._unended(namespace, ">", dead_after, tx)

    def dead(
        self, namespace: str, dead_after: float, *, tx: ReadTransaction | None = None
    ) -> list[Process]:
        """Return the processes that have not ended and sent no heartbeat for that long."""
        return self._unended(namespace, "<=", dead_after, tx)

    @staticmethod
    def find(tx: ReadTransaction, process_id: str) -> Process | None:
        """Return a process by its id."""
        row = tx.one(f"{_SELECT} WHERE id = ?", (process_id,))
        return Process(*row) if row else None

    @staticmethod
    def not_ended(tx: ReadTransaction, process_ids: Collection[str]) -> set[str]:
        """Return which of these processes have neither ended nor been found dead."""
        if not process_ids:
            return set()
        rows = tx.all(
            f"SELECT id FROM processes WHERE id IN ({placeholders(len(process_ids))}) "
            "AND ended_at IS NULL",
            tuple(process_ids),
        )
        return {row[0] for row in rows}

    def newest(self, namespace: str, kind: str) -> Process | None:
        """Return the process of this kind that started last, even if it has ended."""
        with self._store.provider.read() as tx:
            row = tx.one(
                f"{_SELECT} WHERE namespace = ? AND kind = ? "
                f"ORDER BY started_at DESC, id DESC LIMIT 1",
                (namespace, kind),
            )
        return Process(*row) if row else None

    def _unended(
        self, namespace: str, compared: str, dead_after: float, tx: ReadTransaction | None
    ) -> list[Process]:
        sql = (
            f"{_SELECT} WHERE namespace = ? AND ended_at IS NULL AND heartbeat_at {compared} ? "
            f"ORDER BY started_at, id"
        )
        params = (namespace, self._store.clock() - dead_after)
        if tx is not None:
            rows = tx.all(sql, params)
        else:
            with self._store.provider.read() as reading:
                rows = reading.all(sql, params)
        return [Process(*row) for row in rows]


def _host_name() -> str:
    import socket  # Every command imports this module, and few register a process.

    return socket.gethostname()

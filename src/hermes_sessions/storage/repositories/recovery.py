"""What recovery asks of the tables of the lifecycle, and what is forgotten of them in time."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from hermes_sessions.storage.batched_work import repeat
from hermes_sessions.storage.provider import WriteTransaction, placeholders
from hermes_sessions.storage.store import Store

_OLD_TURNS: Final = (
    "FROM turns t LEFT JOIN processes p ON p.id = t.process_id "
    "WHERE (p.namespace = ? OR p.id IS NULL) AND t.ended_at < ? AND NOT EXISTS "
    "(SELECT 1 FROM mailbox m WHERE m.turn_id = t.id AND m.finished_at IS NULL)"
)
_OLD_PROCESSES: Final = (
    "FROM processes p WHERE p.namespace = ? AND p.ended_at < ? AND NOT EXISTS "
    "(SELECT 1 FROM turns t WHERE t.process_id = p.id)"
)


class RecoveryRows:
    """Queries over ``processes``, ``turns`` and ``lanes`` together."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def in_arrears(self, namespace: str) -> list[str]:
        """Return the processes that ended, or were found dead, with unfinished turns."""
        with self._store.provider.read() as tx:
            rows = tx.all(
                "SELECT p.id FROM processes p WHERE p.namespace = ? AND p.ended_at IS NOT NULL "
                "AND EXISTS "
                "(SELECT 1 FROM turns t WHERE t.process_id = p.id AND t.ended_at IS NULL) "
                "ORDER BY p.started_at, p.id",
                (namespace,),
            )
        return [row[0] for row in rows]

    def unfinished_starts(self, namespace: str) -> dict[str, int]:
        """Return how often lanes were found unfinished since their last good turn, by key."""
        with self._store.provider.read() as tx:
            rows = tx.all(
                "SELECT session_key, unfinished_starts FROM lanes "
                "WHERE namespace = ? AND unfinished_starts > 0 ORDER BY id",
                (namespace,),
            )
        return {key: int(count) for key, count in rows}

    def forget(self, namespace: str, older_than: float, *, batch: int = 500) -> int:
        """Delete turns and processes of a bot that ended before a moment, in short steps; return
        how many.

        A turn stays as long as something waits that it had, and a process as long as a turn of it
        does.
        """
        return sum(
            repeat(
                self._store.provider,
                partial(some, namespace=namespace, older_than=older_than, batch=batch),
                what,
                (count, (namespace, older_than)),
            )
            for some, what, count in (
                (_forget_turns, "Forgetting ended turns", f"SELECT COUNT(*) {_OLD_TURNS}"),
                (_forget_processes, "Forgetting processes", f"SELECT COUNT(*) {_OLD_PROCESSES}"),
            )
        )


def _forget_turns(tx: WriteTransaction, namespace: str, older_than: float, batch: int) -> int:
    # By id, which is nearly the order in which they ended, and has an index.
    rows = tx.all(
        "SELECT t.id, t.ended_at FROM turns t LEFT JOIN processes p ON p.id = t.process_id "
        "WHERE (p.namespace = ? OR p.id IS NULL) AND NOT EXISTS "
        "(SELECT 1 FROM mailbox m WHERE m.turn_id = t.id AND m.finished_at IS NULL) "
        "ORDER BY t.id LIMIT ?",
        (namespace, batch),
    )
    return _delete(
        tx, "turns", [row[0] for row in rows if row[1] is not None and row[1] < older_than]
    )


def _forget_processes(tx: WriteTransaction, namespace: str, older_than: float, batch: int) -> int:
    rows = tx.all(f"SELECT p.id {_OLD_PROCESSES} LIMIT ?", (namespace, older_than, batch))
    return _delete(tx, "processes", [row[0] for row in rows])


def _delete(tx: WriteTransaction, table: str, ids: list[Any]) -> int:
    if not ids:
        return 0
    return tx.run(f"DELETE FROM {table} WHERE id IN ({placeholders(len(ids))})", ids)

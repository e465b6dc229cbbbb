"""Turns: runs of the agent, from an input to its answer, with a stored start and end.

Turns that a dead process left unfinished are found by these rows, not guessed from clocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final, Literal, NamedTuple, get_args

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.batches import run_in_batches
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction, placeholders
from hermes_sessions.storage.repositories.leases import Lease, require_lease
from hermes_sessions.storage.store_context import StoreContext

_OLD_TURNS: Final = (
    "FROM turns t LEFT JOIN processes p ON p.id = t.process_id "
    "WHERE (p.namespace = ? OR p.id IS NULL) AND t.ended_at < ? AND NOT EXISTS "
    "(SELECT 1 FROM mailbox m WHERE m.turn_id = t.id AND m.finished_at IS NULL)"
)


_OLD_PROCESSES: Final = (
    "FROM processes p WHERE p.namespace = ? AND p.ended_at < ? AND NOT EXISTS "
    "(SELECT 1 FROM turns t WHERE t.process_id = p.id)"
)


class TurnRecovery:
    """Queries over ``processes``, ``turns`` and ``lanes`` together."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def processes_with_unfinished_turns(self, namespace: str) -> list[str]:
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
        """Return the number of abandoned turns since the last completed one, by lane key."""
        with self._store.provider.read() as tx:
            rows = tx.all(
                "SELECT session_key, unfinished_starts FROM lanes "
                "WHERE namespace = ? AND unfinished_starts > 0 ORDER BY id",
                (namespace,),
            )
        return {key: int(count) for key, count in rows}

    def forget(self, namespace: str, older_than: float, *, batch: int = 500) -> int:
        """Delete turns and processes of a namespace that ended before *older_than*, in short
        transactions; return their number.

        A turn stays while items that it had are waiting, and a process while it has turns.
        """
        return sum(
            run_in_batches(
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
    # In the order of ids, which is indexed and nearly the order in which turns ended.
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


Outcome = Literal["completed", "interrupted", "failed", "abandoned"]
_OUTCOMES: Final[tuple[str, ...]] = get_args(Outcome)


class Turn(NamedTuple):
    """A row of ``turns``; without ``ended_at``, it runs or its process died."""

    id: int
    lane_id: int | None
    chain_id: str
    session_id: str
    process_id: str
    #: The token of its lease.
    token: int
    attempt: int
    started_at: float
    ended_at: float | None = None
    outcome: str | None = None
    detail: str | None = None


_COLUMNS: Final = Turn._fields
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM turns"


class Turns:
    """The rows of ``turns``."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def start(
        self,
        lane_id: int | None,
        lease: Lease,
        session_id: str,
        *,
        attempt: int = 1,
        tx: WriteTransaction | None = None,
    ) -> Turn:
        """Record the start of a turn under a valid lease, inside the transaction *tx* if given.

        Raises:
            StaleFence: the lease no longer holds the conversation.
            InvalidInput: the lease does not name a process.
        """
        if lease.process_id is None:
            raise InvalidInput("A turn needs a lease that a registered process took.")
        values = (
            lane_id,
            lease.chain_id,
            session_id,
            lease.process_id,
            lease.token,
            attempt,
            self._store.clock(),
        )

        def work(tx: WriteTransaction) -> Turn:
            require_lease(tx, self._store, lease.chain_id, session_id, lease.token)
            number = tx.insert(
                f"INSERT INTO turns (lane_id, chain_id, session_id, process_id, token, attempt, "
                f"started_at) VALUES ({placeholders(len(values))})",
                values,
            )
            return Turn(number, *values)

        return work(tx) if tx is not None else self._store.provider.write(work, isolated=False)

    def end(
        self,
        turn: Turn,
        outcome: Outcome,
        detail: str | None = None,
        *,
        tx: WriteTransaction | None = None,
    ) -> bool:
        """Record how a turn ended; return False if that is already recorded. Inside the open
        transaction *tx* if given.

        Only the holder of the lease can complete a turn. Any process may record a failure.

        Raises:
            StaleFence: it was completed under a lease that is no longer valid; nothing is written.
        """
        if outcome not in _OUTCOMES:
            raise InvalidInput(
                f"Unknown outcome {outcome!r} of a turn; use one of: {', '.join(_OUTCOMES)}."
            )
        now = self._store.clock()

        def work(tx: WriteTransaction) -> bool:
            if outcome == "completed":
                require_lease(tx, self._store, turn.chain_id, turn.session_id, turn.token)
            return bool(
                tx.run(
                    "UPDATE turns SET ended_at = ?, outcome = ?, detail = ? "
                    "WHERE id = ? AND ended_at IS NULL",
                    (now, outcome, detail, turn.id),
                )
            )

        return work(tx) if tx is not None else self._store.provider.write(work, isolated=False)

    def find(self, turn_id: int, *, tx: ReadTransaction | None = None) -> Turn | None:
        """Return a turn, or None."""
        found = self._select("id = ?", (turn_id,), tx)
        return found[0] if found else None

    def unfinished(
        self, process_ids: Iterable[str] | None = None, *, tx: ReadTransaction | None = None
    ) -> list[Turn]:
        """Return the turns that have not ended, of these processes or of all, oldest first."""
        if process_ids is None:
            return self._select("ended_at IS NULL", (), tx)
        wanted = list(process_ids)
        if not wanted:
            return []
        return self._select(
            f"ended_at IS NULL AND process_id IN ({placeholders(len(wanted))})", wanted, tx
        )

    def running_on(
        self,
        *,
        lane_id: int | None = None,
        chain_id: str | None = None,
        tx: ReadTransaction | None = None,
    ) -> Turn | None:
        """Return the turn of a lane or a chain that has not ended, or None.

        On a lane only the latest turn can be open: starting one ends those before.
        """
        if (lane_id is None) == (chain_id is None):
            raise InvalidInput("Name either a lane or a chain.")
        if chain_id is not None:
            found = self._select("chain_id = ? AND ended_at IS NULL", (chain_id,), tx)
            return found[-1] if found else None
        # A busy lane has thousands of turns. With this order, every database uses the index.
        order = "lane_id DESC, id DESC LIMIT 1"
        latest = self._select("lane_id = ?", (lane_id,), tx, order=order)
        return latest[0] if latest and latest[0].ended_at is None else None

    def _select(
        self,
        condition: str,
        params: Iterable[object],
        tx: ReadTransaction | None,
        *,
        order: str = "id",
    ) -> list[Turn]:
        sql = f"{_SELECT} WHERE {condition} ORDER BY {order}"
        if tx is not None:
            rows = tx.all(sql, tuple(params))
        else:
            with self._store.provider.read() as reading:
                rows = reading.all(sql, tuple(params))
        return [Turn(*row) for row in rows]

"""Leases: the right to run turns on a chain of sessions, for a limited time.

A lease holds a session and its continuations by compaction. Its token stands in the rows of the
chain, where every write compares it; see ``fences``. Tokens of a chain only ever grow.

``leases.process_id`` names the holder's row in ``processes``, or, for a holder without one, has the
mark of the process that took the lease. So the lease of a process of this host that was killed is
free at once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hermes_sessions.errors import InvalidInput, StaleFence, UnknownSession
from hermes_sessions.model.ids import require_bounded
from hermes_sessions.storage.host_processes import is_mark, this_process
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.fences import (
    TOKENS_PER_SECOND,
    chain_of,
    free_chain,
    held,
    holds,
    lease_row,
    lock_lease,
    set_fence,
)
from hermes_sessions.storage.store import Store


class Holder(NamedTuple):
    """Who takes a lease: a process, and words for people."""

    #: A row of ``processes``; None: this process, with whose end the lease ends. An id of your own
    #: that no row has keeps the lease for its time, whatever becomes of this process.
    process_id: str | None
    words: str


class Lease(NamedTuple):
    """A chain that is held; ``token`` is what its holder passes to every write as ``fence``."""

    chain_id: str
    session_id: str
    token: int
    #: In words.
    holder: str
    process_id: str | None
    expires_at: float


class HeldBy(NamedTuple):
    """Who holds a chain, for those who do not."""

    chain_id: str
    token: int
    #: In words.
    holder: str
    process_id: str | None
    taken_at: float
    expires_at: float


class Leases:
    """The rows of ``leases``, and the fences in the rows of their sessions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def take(
        self,
        session_id: str,
        holder: Holder | str,
        ttl: float,
        *,
        tx: WriteTransaction | None = None,
    ) -> Lease:
        """See `SessionDB.take_lease`; inside an open transaction with *tx*."""
        if isinstance(holder, str):
            holder = Holder(None, holder)
        if not holder.words:
            raise InvalidInput("A holder needs words that tell people who it is.")
        if holder.process_id is not None:
            require_bounded(holder.process_id, "process id")
        _require_duration(ttl)
        if tx is not None:
            return self._take(tx, session_id, holder, ttl)
        return self._store.provider.write(
            lambda tx: self._take(tx, session_id, holder, ttl), isolated=False
        )

    def _take(self, tx: WriteTransaction, session_id: str, holder: Holder, ttl: float) -> Lease:
        chain, before = lock_lease(tx, self._store, session_id)
        now = self._store.clock()
        if holds(tx, before, now):
            raise held(session_id, before)
        token = max(before.token + 1, int(now * TOKENS_PER_SECOND))
        tx.run(
            "UPDATE leases SET token = ?, holder = ?, process_id = ?, taken_at = ?, expires_at = ? "
            "WHERE chain_id = ?",
            (token, holder.words, holder.process_id or this_process(), now, now + ttl, chain.id),
        )
        set_fence(tx, chain, token)
        return Lease(chain.id, session_id, token, holder.words, holder.process_id, now + ttl)

    def renew(self, lease: Lease, ttl: float) -> Lease:
        """See `SessionDB.renew_lease`."""
        _require_duration(ttl)
        now = self._store.clock()
        expires_at = now + ttl
        if not self._store.provider.write(
            # While somebody holds a chain, its id stays what it is.
            lambda tx: tx.run(
                "UPDATE leases SET taken_at = ?, expires_at = ? "
                "WHERE chain_id = ? AND token = ? AND holder IS NOT NULL",
                (now, expires_at, lease.chain_id, lease.token),
            ),
            isolated=False,
        ):
            raise lost(lease)
        return lease._replace(expires_at=expires_at)

    def release(self, lease: Lease, *, tx: WriteTransaction | None = None) -> None:
        """See `SessionDB.release_lease`; inside an open transaction with *tx*."""
        if tx is not None:
            self._release(tx, lease)
        else:
            self._store.provider.write(lambda tx: self._release(tx, lease), isolated=False)

    def _release(self, tx: WriteTransaction, lease: Lease) -> None:
        try:
            chain, row = lock_lease(tx, self._store, lease.chain_id)
        except UnknownSession:
            return
        if row.token == lease.token and row.holder is not None:
            free_chain(tx, chain)

    def of(self, session_id: str) -> HeldBy | None:
        """See `SessionDB.lease_of`."""
        with self._store.provider.read() as tx:
            try:
                chain = chain_of(tx, session_id)
            except UnknownSession:
                return None
            row = lease_row(tx, chain.id)
            is_held = row is not None and holds(tx, row, self._store.clock())
        if row is None or row.holder is None or not is_held:
            return None
        return HeldBy(
            chain.id,
            row.token,
            row.holder,
            None if is_mark(row.process_id) else row.process_id,
            row.since,
            row.expires_at or 0,
        )

    def revoke(self, process_id: str, *, tx: WriteTransaction | None = None) -> list[str]:
        """Take away whatever a process holds that is known to be gone, before its leases expire;
        return the chains, which anybody may take now. Its tokens are stale.
        """
        if tx is not None:
            return self._revoke(tx, process_id)
        return self._store.provider.write(lambda tx: self._revoke(tx, process_id), isolated=False)

    def _revoke(self, tx: WriteTransaction, process_id: str) -> list[str]:
        rows = tx.all(
            "SELECT chain_id FROM leases WHERE process_id = ? ORDER BY chain_id", (process_id,)
        )
        freed: list[str] = []
        for (chain_id,) in rows:
            try:
                chain, row = lock_lease(tx, self._store, chain_id)
            except UnknownSession:
                continue
            if row.process_id == process_id:
                free_chain(tx, chain)
                freed.append(chain_id)
        return freed


def require_lease(
    tx: WriteTransaction, store: Store, chain_id: str, session_id: str, token: int
) -> None:
    """Make sure, until commit, that a token holds its chain.

    Raises:
        StaleFence: it does not, or not any more.
    """
    try:
        _, row = lock_lease(tx, store, chain_id)
    except UnknownSession:
        raise _stale(token, session_id) from None
    if row.holder is None or row.token != token:
        raise _stale(token, session_id)


def lost(lease: Lease) -> StaleFence:
    """Return the error for a lease that holds nothing any more."""
    return _stale(lease.token, lease.session_id)


def _stale(token: int, session_id: str) -> StaleFence:
    return StaleFence(
        f"Fencing token {token} does not hold the conversation of session {session_id!r} any more: "
        f"it was given back, or taken away because nobody had renewed it in time. Take the lease "
        f"again before writing."
    )


def _require_duration(ttl: float) -> None:
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 0 < ttl < math.inf:
        raise InvalidInput(f"A lease lasts for a number of seconds above 0, not {ttl!r}.")

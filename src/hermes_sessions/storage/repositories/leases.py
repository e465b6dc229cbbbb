"""Leases: the right to run turns on a chain of sessions, for a limited time.

A lease holds a session and its continuations by compaction. Its token is stored in the sessions of
the chain as ``fence``, and every write compares it; see `fence_condition`. The tokens of a chain
only grow.

``leases.process_id`` names the holder's row in ``processes``, or else the mark of the process that
took the lease. This way the lease of a process that was killed on this host is free at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from hermes_sessions.errors import (
    ConversationHeld,
    InvalidInput,
    StaleFence,
    StoreUnavailable,
    UnknownSession,
)
from hermes_sessions.model.ids import require_bounded
from hermes_sessions.storage.host_processes import (
    has_ended,
    host_name,
    is_mark,
    is_running,
    this_process_mark,
)
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories.processes import Processes
from hermes_sessions.storage.repositories.rows import VISIBLE
from hermes_sessions.storage.store_context import StoreContext

# ``sessions.fence`` is the same in all rows of a chain: the token of its lease, or NULL. A write
# compares it in the statement that it needs anyway. Only a refused write calls this module, to
# report why, or to release the lease if it expired or its process on this host has ended.
#
# While a chain is held, no session can be removed from it or put above it. Every transaction locks
# the lease row before the session rows.

#: A token is at least the current time in these units. So a chain that is deleted and created
#: again never reuses one, although its lease row is gone.
TOKENS_PER_SECOND: Final = 1_000_000
#: The SQL of `LeaseRow.is_current`; takes the current time twice.
LEASE_IS_HELD: Final = "l.expires_at > ? AND l.taken_at - l.expires_at + l.taken_at <= ?"


_SELECT_LEASE: Final = (
    "SELECT token, holder, process_id, taken_at, expires_at FROM leases WHERE chain_id = ?"
)
#: Attempts to lock a lease while others delete it or move the session.
_MOST_LOOKS: Final = 10


class Chain(NamedTuple):
    """A session and its continuations by compaction."""

    id: str
    conversation_id: str


class LeaseRow(NamedTuple):
    """A row of ``leases``; the fields after the token are None while the chain is free."""

    token: int
    holder: str | None
    process_id: str | None
    #: When it was taken or renewed.
    heard_at: float | None
    expires_at: float | None

    def is_current(self, now: float) -> bool:
        """Return whether the lease was taken or renewed recently enough; see `holds`.

        A lease whose start lies further ahead than it lasts is from before the clock was set
        back, and is not current.
        """
        if self.holder is None or self.expires_at is None or self.heard_at is None:
            return False
        return now < self.expires_at and self.heard_at - now <= self.expires_at - self.heard_at

    @property
    def since(self) -> float:
        """When it was first taken, derived from its token."""
        return min(self.token / TOKENS_PER_SECOND, self.heard_at or 0)


def fence_condition(fence: int | None) -> tuple[str, tuple[int, ...]]:
    """Return the condition under which a writer with this token may change a session's row."""
    return ("fence IS NULL", ()) if fence is None else ("fence = ?", (fence,))


def chain_of(tx: ReadTransaction, session_id: str) -> Chain:
    """Return the chain that a session is part of.

    Raises:
        UnknownSession: there is no such session.
    """
    row = tx.one(
        f"SELECT chain_id, conversation_id FROM sessions WHERE id = ? AND {VISIBLE}", (session_id,)
    )
    if row is None:
        raise UnknownSession(session_id)
    return Chain(row[0] or session_id, row[1] or session_id)


def lease_row(tx: ReadTransaction, chain_id: str) -> LeaseRow | None:
    """Return the lease row of a chain; None if it was never leased."""
    row = tx.one(_SELECT_LEASE, (chain_id,))
    return LeaseRow(*row) if row else None


def holds(tx: ReadTransaction, lease: LeaseRow, now: float) -> bool:
    """Return whether a chain is held: the lease is current, and its holder has not ended."""
    return lease.is_current(now) and not holder_has_ended(tx, lease.process_id)


def holder_has_ended(tx: ReadTransaction, process_id: str | None) -> bool:
    """Return whether the process that a lease names has certainly ended: a process of this host,
    by its row in ``processes`` or by its mark. For processes of other hosts, return False.
    """
    if process_id is None:
        return False
    registered = Processes.find(tx, process_id)
    if registered is None:
        return has_ended(process_id)
    return registered.host == host_name() and not is_running(registered)


def lock_lease(
    tx: WriteTransaction, store: StoreContext, session_id: str
) -> tuple[Chain, LeaseRow]:
    """Lock the lease of the session's chain until commit; return the chain and the lease.

    Raises:
        UnknownSession: there is no such session.
        StoreUnavailable: other programs kept changing the lease or the chain.
    """
    dialect = store.provider.dialect
    chain = chain_of(tx, session_id)
    for _ in range(_MOST_LOOKS):
        row = tx.one(f"{_SELECT_LEASE}{dialect.for_update}", (chain.id,))
        if row is None:
            # Of two rivals for a new row, one waits here for the other.
            tx.run(
                dialect.upsert("leases", ("chain_id", "token"), ("chain_id",), ("chain_id",)),
                (chain.id, 0),
            )
            continue
        # While waiting for the lock, the session may have moved to another chain.
        now_in = chain_of(tx, session_id)
        if now_in == chain:
            return chain, LeaseRow(*row)
        chain = now_in
    raise StoreUnavailable(
        f"Another program keeps changing the lease or the lineage of session {session_id!r}. "
        f"Find out what else writes to the store, then try again."
    )


def free_chain(tx: WriteTransaction, chain: Chain) -> None:
    """Release a chain whose lease row is locked; its token becomes stale."""
    tx.run(
        "UPDATE leases SET holder = NULL, process_id = NULL, taken_at = NULL, expires_at = NULL "
        "WHERE chain_id = ?",
        (chain.id,),
    )
    set_fence(tx, chain, None)


def set_fence(tx: WriteTransaction, chain: Chain, fence: int | None) -> None:
    """Write the token into the sessions of the chain; the lease row must be locked."""
    # The head first: adding a session to the chain changes that row, too. So the next
    # statement sees all members, and no member is added until commit.
    tx.run("UPDATE sessions SET fence = ? WHERE id = ?", (fence, chain.id))
    tx.run(
        "UPDATE sessions SET fence = ? WHERE conversation_id = ? AND chain_id = ?",
        (fence, chain.conversation_id, chain.id),
    )


def release_expired_lease_or_raise(
    tx: WriteTransaction, store: StoreContext, session_id: str, fence: int | None
) -> None:
    """Release the lease that refuses a write if it expired or its holder has ended; else raise.

    Raises:
        UnknownSession: there is no such session.
        StaleFence: the token does not hold the conversation.
        ConversationHeld: there is no token, and another holder has the lease.
    """
    chain, lease = lock_lease(tx, store, session_id)
    now = store.clock()
    if fence is not None:
        row = tx.one("SELECT fence FROM sessions WHERE id = ?", (session_id,))
        if row is None or row[0] != fence:
            other = f": {lease.holder} does" if holds(tx, lease, now) else ""
            raise StaleFence(
                f"Fencing token {fence} does not hold the conversation of session {session_id!r}"
                f"{other}. Take the lease again before writing."
            )
    elif holds(tx, lease, now):
        raise held(session_id, lease)
    else:
        free_chain(tx, chain)


def lock_session(
    tx: WriteTransaction, store: StoreContext, session_id: str, fence: int | None
) -> None:
    """Lock a session's row until commit, for a writer with this token. Does nothing if the session
    does not exist.

    Raises:
        StaleFence, ConversationHeld: see `release_expired_lease_or_raise`.
    """
    for_update = store.provider.dialect.for_update
    if for_update:
        # The lease row first, as everywhere: otherwise a rival that takes the lease at this moment
        # and this writer would deadlock.
        tx.one(
            "SELECT token FROM leases WHERE chain_id = "
            f"(SELECT COALESCE(chain_id, id) FROM sessions WHERE id = ?){for_update}",
            (session_id,),
        )
    row = tx.one(
        f"SELECT fence FROM sessions WHERE id = ? AND {VISIBLE}{for_update}", (session_id,)
    )
    if row is not None and row[0] != fence:
        release_expired_lease_or_raise(tx, store, session_id, fence)


def require_free(tx: WriteTransaction, store: StoreContext, session_ids: Iterable[str]) -> None:
    """Make sure that these sessions are not leased, until commit.

    Raises:
        ConversationHeld: one of them is.
    """
    for session_id in session_ids:
        lock_session(tx, store, session_id, None)


def release_expired_leases(tx: WriteTransaction, store: StoreContext, conversation_id: str) -> None:
    """Release the leases of a conversation that expired or whose holder has ended."""
    for (chain_id,) in tx.all(
        "SELECT DISTINCT chain_id FROM sessions WHERE conversation_id = ? AND fence IS NOT NULL",
        (conversation_id,),
    ):
        chain, lease = lock_lease(tx, store, chain_id)
        if not holds(tx, lease, store.clock()):
            free_chain(tx, chain)


def leased_conversations(tx: ReadTransaction, now: float) -> set[str]:
    """Return the conversations with a leased chain."""
    rows = tx.all(
        "SELECT s.conversation_id, l.process_id FROM leases l JOIN sessions s ON s.id = l.chain_id "
        f"WHERE {LEASE_IS_HELD}",
        (now, now),
    )
    return {row[0] for row in rows if not holder_has_ended(tx, row[1])}


def held(session_id: str, lease: LeaseRow | None) -> ConversationHeld:
    """Return the error for a session whose chain is leased."""
    if lease is None or lease.holder is None:
        return ConversationHeld(session_id, "another process", 0, 0)
    return ConversationHeld(session_id, lease.holder, lease.since, lease.expires_at or 0)


class Holder(NamedTuple):
    """The holder of a lease: a process, and a description for users."""

    #: The id of a row in ``processes``. None: this process, and the lease ends with it. With any
    #: other id, the lease stays until it expires, even if this process ends.
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
    """The holder of a chain, as other callers see it."""

    chain_id: str
    token: int
    #: In words.
    holder: str
    process_id: str | None
    taken_at: float
    expires_at: float


class Leases:
    """The rows of ``leases``, and the fences in the rows of their sessions."""

    def __init__(self, store: StoreContext) -> None:
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
            raise InvalidInput("A holder needs a description, such as 'gateway on host1'.")
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
            (
                token,
                holder.words,
                holder.process_id or this_process_mark(),
                now,
                now + ttl,
                chain.id,
            ),
        )
        set_fence(tx, chain, token)
        return Lease(chain.id, session_id, token, holder.words, holder.process_id, now + ttl)

    def renew(self, lease: Lease, ttl: float) -> Lease:
        """See `SessionDB.renew_lease`."""
        _require_duration(ttl)
        now = self._store.clock()
        expires_at = now + ttl
        if not self._store.provider.write(
            # The id of a chain does not change while it is leased.
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
        """Release all leases of a process that is known to have ended, before they expire.

        Returns the chains, which are free now. The old tokens are stale.
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
    tx: WriteTransaction, store: StoreContext, chain_id: str, session_id: str, token: int
) -> None:
    """Make sure, until commit, that a token holds its chain.

    Raises:
        StaleFence: it does not, or no longer does.
    """
    try:
        _, row = lock_lease(tx, store, chain_id)
    except UnknownSession:
        raise _stale(token, session_id) from None
    if row.holder is None or row.token != token:
        raise _stale(token, session_id)


def lost(lease: Lease) -> StaleFence:
    """Return the error for a lease that was released or expired."""
    return _stale(lease.token, lease.session_id)


def _stale(token: int, session_id: str) -> StaleFence:
    return StaleFence(
        f"Fencing token {token} does not hold the conversation of session {session_id!r} any more: "
        f"its lease was released, or expired before it was renewed. Take the lease again before "
        f"writing."
    )


def _require_duration(ttl: float) -> None:
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 0 < ttl < math.inf:
        raise InvalidInput(f"The duration of a lease must be more than 0 seconds, not {ttl!r}.")

"""Which ids the messages of an import get.

Ids are kept where they are free. Where they are not, all sessions of a lineage move by the same
distance, because the order of ids is the order in which the messages of a conversation were
written, over all its sessions.
"""

from __future__ import annotations

from typing import Final

from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories.incoming import MAX_KEPT_ID, IncomingSession
from hermes_sessions.storage.repositories.merging import any_id_taken
from hermes_sessions.storage.store import Store

_UNUSED_ORDINAL: Final = 2**52


class IdPlan:
    """By how much the message ids of each lineage move."""

    def __init__(self) -> None:
        self._parents: dict[str, str | None] = {}
        self._taken: set[str] = set()
        self._seen: dict[str, int] = {}
        self._highest: int | None = None
        self._shifts: dict[str, int] = {}
        self._reach: int | None = None
        self.reserved = False

    def note(self, tx: ReadTransaction, incoming: IncomingSession) -> None:
        """Take a session into account that is going to be imported."""
        self._parents[incoming.id] = incoming.parent_id
        ids = incoming.ids
        if not ids:
            return
        self._highest = ids[-1] if self._highest is None else max(self._highest, ids[-1])
        stored = tx.one(
            "SELECT id FROM messages WHERE session_id = ? ORDER BY ordinal LIMIT 1", (incoming.id,)
        )
        if stored is not None:
            # An earlier run of this import stored it, so the rest moves as far as it did.
            self._seen[incoming.id] = stored[0] - ids[0]
        elif any_id_taken(tx, ids):
            self._taken.add(incoming.id)

    def settle(self, tx: ReadTransaction) -> None:
        """Decide, now that all sessions are known."""
        if self._highest is None:
            return
        newest = tx.one("SELECT MAX(id) FROM messages")
        # Room is left below, so that a part of the lineage that comes in another file, with lower
        # ids, finds its place before what is stored now.
        fresh = int(newest[0]) if newest and newest[0] else 0
        roots: dict[str, str] = {}
        for session_id in self._parents:
            self._root(session_id, roots)
        shifts = {roots[session_id]: fresh for session_id in self._taken}
        for session_id, shift in self._seen.items():
            if shift > 0:
                shifts[roots[session_id]] = shift
        self._shifts = {s: shifts[root] for s, root in roots.items() if root in shifts}
        highest = self._highest + max([0, *shifts.values()])
        self._reach = highest if highest <= MAX_KEPT_ID else None

    def _root(self, session_id: str, roots: dict[str, str]) -> None:
        path: dict[str, None] = {}
        current = session_id
        while current not in roots and current not in path:
            path[current] = None
            parent = self._parents.get(current)
            if parent is None or parent not in self._parents:
                break
            current = parent
        root = roots.get(current, current)
        for passed in path:
            roots[passed] = root

    def shift_of(self, session_id: str) -> int:
        """Return the distance for one session's messages; 0 keeps their ids."""
        return self._shifts.get(session_id, 0)

    def reserve(self, tx: WriteTransaction, store: Store, session_id: str) -> None:
        """Before the first messages are written, keep generated ids above all ids to come, so
        that nobody who appends meanwhile takes them. Set `reserved` once that is committed.
        """
        if self.reserved or self._reach is None or any_id_taken(tx, [self._reach]):
            return
        tx.run(
            "INSERT INTO messages (id, session_id, ordinal, role, timestamp) "
            "VALUES (?, ?, ?, ?, ?)",
            (self._reach, session_id, _UNUSED_ORDINAL, "system", 0.0),
        )
        store.provider.after_explicit_ids(tx, "messages")
        tx.run("DELETE FROM messages WHERE id = ?", (self._reach,))

"""Which ids the messages of an import get.

Ids are kept where they are free. Where they are not, all sessions of a lineage move by the same
distance, because the order of ids is the order in which the messages of a conversation were
written, over all its sessions. The distance leaves room below, so that a part of the lineage that
comes later, with lower ids, still finds its place before what is stored by then.
"""

from __future__ import annotations

from array import array
from typing import Final

from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.session_import.incoming_session import MAX_KEPT_ID, IncomingSession
from hermes_sessions.storage.session_import.writer import any_id_taken
from hermes_sessions.storage.store import Store

_UNUSED_ORDINAL: Final = 2**52


class IdPlan:
    """By how much the message ids of each lineage move. Remembers every id, 8 bytes each."""

    def __init__(self) -> None:
        self._parents: dict[str, str | None] = {}
        #: Ids that are to be written, and the stored id that they must come after.
        self._wanted: dict[str, array[int]] = {}
        self._after: dict[str, int] = {}
        #: Ids of messages that an earlier import stored, and how far they moved.
        self._seen: dict[str, list[tuple[int, int]]] = {}
        self._shifts: dict[str, int] = {}
        self._fresh = 0
        self._reach: int | None = None
        self.reserved = False

    def note(self, tx: ReadTransaction, incoming: IncomingSession) -> None:
        """Take a session into account that is going to be imported."""
        self._parents[incoming.id] = incoming.parent_id
        ids = incoming.ids
        if not ids:
            return
        stored = tx.one(
            "SELECT COUNT(*), MIN(id), MAX(id) FROM messages WHERE session_id = ?", (incoming.id,)
        )
        count, first, last = stored or (0, None, None)
        if first is not None and last is not None:
            newest = ids[min(count, len(ids)) - 1]
            self._seen[incoming.id] = [(ids[0], first - ids[0]), (newest, last - newest)]
            self._after[incoming.id] = last
        if count < len(ids):
            self._wanted[incoming.id] = array("q", ids[count:])

    def settle(self, tx: ReadTransaction) -> None:
        """Decide, now that all sessions are known."""
        newest = tx.one("SELECT MAX(id) FROM messages")
        self._fresh = int(newest[0]) if newest and newest[0] else 0
        # What came from the same place before says where the rest of it belongs.
        usual = max((points[0][1] for points in self._seen.values()), default=0)
        highest = 0
        for family, writers in self._families():
            points = [point for member in family for point in self._seen.get(member, ())]
            beside = {member: self._shift_beside(member, points) for member in writers}
            known = [*sorted({shift for _, shift in points}), usual]
            plans = [beside, *(dict.fromkeys(writers, shift) for shift in known)]
            for shifts in plans:
                if all(self._fits(tx, member, shift) for member, shift in shifts.items()):
                    break
            else:
                shifts = dict.fromkeys(writers, self._fresh)
            self._shifts.update(shifts)
            for member, shift in shifts.items():
                highest = max(highest, self._wanted[member][-1] + shift)
        self._reach = highest if 0 < highest <= MAX_KEPT_ID else None

    def _shift_beside(self, session_id: str, points: list[tuple[int, int]]) -> int:
        """Return how far the lineage moved just before these messages, else right after them."""
        first = self._wanted[session_id][0]
        before = [shift for number, shift in points if number < first]
        return max(before) if before else min((shift for _, shift in points), default=0)

    def _fits(self, tx: ReadTransaction, session_id: str, shift: int) -> bool:
        wanted = [number + shift for number in self._wanted[session_id]]
        return wanted[0] > self._after.get(session_id, 0) and not any_id_taken(tx, wanted)

    def _families(self) -> list[tuple[list[str], list[str]]]:
        """Return the sessions of each lineage, and those of them that have messages to write."""
        roots: dict[str, str] = {}
        families: dict[str, list[str]] = {}
        for session_id in self._parents:
            families.setdefault(self._root(session_id, roots), []).append(session_id)
        found = [(family, [s for s in family if s in self._wanted]) for family in families.values()]
        return [(family, writers) for family, writers in found if writers]

    def _root(self, session_id: str, roots: dict[str, str]) -> str:
        path: dict[str, None] = {}
        current = session_id
        while current not in roots and current not in path:
            path[current] = None
            parent = self._parents.get(current)
            if parent is None or parent not in self._parents:
                break
            current = parent
        root = roots.get(current, current)
        roots.update(dict.fromkeys(path, root))
        return root

    def shifts_of(self, session_id: str) -> tuple[int, ...]:
        """Return the distances that would do for one session's messages, the best first; 0 keeps
        their ids. The last one leads behind everything stored before this import.
        """
        return self._shifts.get(session_id, self._fresh), self._fresh

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

"""Messages that this gateway took and whose answers it has not seen: another may be writing them.

Where several gateways share a database, the one that a chat is connected to may not be the one that
runs its turn. Nobody can call from one to the other, so the first looks whether what it took has
ended: often while there is something to wait for, and not at all while there is nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import Final

from hermes_sessions.storage.provider import placeholders
from hermes_sessions.storage.store import Store

#: Of more messages than this, only the latest are looked for.
_REMEMBERED: Final = 5_000
#: So many are asked for at once.
_AT_ONCE: Final = 500


class Outstanding:
    """The messages of one gateway that have not ended, as far as it knows. Thread-safe."""

    def __init__(
        self, store: Store, runs_here: Callable[[], Collection[int]] = frozenset[int]
    ) -> None:
        """*runs_here* returns the items of turns that run in this process: it hears of their ends
        without looking.
        """
        self._store = store
        self._runs_here = runs_here
        self._lock = threading.Lock()
        self._item_ids: OrderedDict[int, None] = OrderedDict()

    def add(self, item_id: int) -> None:
        """Wait for the answer to a message."""
        with self._lock:
            self._item_ids[item_id] = None
            if len(self._item_ids) > _REMEMBERED:
                self._item_ids.popitem(last=False)

    def ended(self, item_ids: Iterable[int]) -> None:
        """Wait for these no longer: they ended in this process."""
        with self._lock:
            for item_id in item_ids:
                self._item_ids.pop(item_id, None)

    def look(self) -> bool:
        """Return whether a message has ended meanwhile, in whatever process: its reply, if it has
        one, is in the outbox. The store is not asked when nothing is waited for.

        Raises:
            StoreError: the store cannot be read.
        """
        here = set(self._runs_here())
        with self._lock:
            waited_for = [item_id for item_id in self._item_ids if item_id not in here]
        if not waited_for:
            return False
        going_on = self._going_on(waited_for)
        over = [item_id for item_id in waited_for if item_id not in going_on]
        self.ended(over)
        return bool(over)

    def _going_on(self, item_ids: list[int]) -> set[int]:
        found: set[int] = set()
        for start in range(0, len(item_ids), _AT_ONCE):
            some = item_ids[start : start + _AT_ONCE]
            with self._store.provider.read() as tx:
                rows = tx.all(
                    f"SELECT id FROM mailbox WHERE id IN ({placeholders(len(some))}) "
                    "AND status IN (?, ?)",
                    (*some, "waiting", "running"),
                )
            found.update(row[0] for row in rows)
        return found

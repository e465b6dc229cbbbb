"""Forgetting somebody, a chat or a session: everywhere, with a receipt, and to the end.

The database is ours to see to; files beside it belong to others, who offer a `Place` each. A place
that cannot be reached now is pending on the receipt, and is tried again by `Erasure.resume`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Final, Protocol

from hermes_sessions.storage.care.erasure.discovery import count_rows, find
from hermes_sessions.storage.care.erasure.receipts import Receipt, Receipts, Step, updated
from hermes_sessions.storage.care.erasure.row_removal import remove, scrub
from hermes_sessions.storage.care.erasure.targets import Subject, Targets
from hermes_sessions.storage.repositories.derived_columns import settle
from hermes_sessions.storage.repositories.stale_sessions import settle_first
from hermes_sessions.storage.store import Store

DATABASE: Final = "database"
_ID_BYTES: Final = 6


class Place(Protocol):
    """Somewhere outside the database where something of a person, a chat or a session may be."""

    @property
    def name(self) -> str:
        """What it is called on a receipt."""

    @property
    def needs_rows(self) -> bool:
        """Whether it looks at the rows that are to go, so that it comes before them."""

    def count(self, targets: Targets) -> dict[str, int]:
        """Return how much of what would go; changes nothing."""

    def remove(self, targets: Targets) -> Step:
        """Remove it, and say what became of it. Can be repeated. What is in the way is pending,
        with the reason; it is not raised.
        """


@dataclass(frozen=True, slots=True)
class Plan:
    """What would go."""

    targets: Targets
    #: By place: how many of what.
    places: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return not any(sum(counts.values()) for counts in self.places.values())


class Erasure:
    """Erasing on one store, and in the *places* around it. *random_hex* makes ids of receipts."""

    def __init__(
        self,
        store: Store,
        places: Sequence[Place] = (),
        *,
        random_hex: Callable[[int], str] = token_hex,
    ) -> None:
        self._store = store
        self._places = tuple(places)
        self._receipts = Receipts(store)
        self._random_hex = random_hex

    def plan(self, subject: Subject, *, rows_only: bool = False) -> Plan:
        """Return what would go; deletes nothing. With *rows_only*, as far as the database knows:
        looking into backups takes its time.

        Raises:
            InvalidInput: the subject names nothing.
        """
        settle_first(self._store, limit=None)
        with self._store.provider.read() as tx:
            targets = find(tx, subject, self._store.clock())
            rows = count_rows(tx, targets)
        others = () if rows_only else self._places
        places = {place.name: place.count(targets) for place in others}
        return Plan(targets, {DATABASE: rows, **places})

    def forget(self, subject: Subject, *, rebuild: bool = False) -> Receipt:
        """Erase everything that is known of the subject now, and return the receipt.

        It is not one transaction: a lane is closed at once, and then everything goes step by step.
        Whoever is killed in between has left a receipt, and `resume` goes on. What arrives later
        is new. *rebuild* asks for what a large store would otherwise leave pending; see
        `SessionDBProvider.scrub`.

        Raises:
            InvalidInput: the subject names nothing.
            OnHold: some of it must not be deleted; nothing was changed.
            StoreError: the database failed; what was begun is pending.
        """
        subject = subject.checked()
        # Other programs may have moved sessions into the conversation, or out of it.
        settle(self._store)
        receipt, targets = self._receipts.begin(subject, self._random_hex(_ID_BYTES))
        return self._carry_out(receipt, targets, rebuild=rebuild)

    def resume(self, receipt_id: str, *, rebuild: bool = False) -> Receipt:
        """Do what is still pending on a receipt, by its id or the beginning of it.

        Raises:
            NotFound: there is no such receipt.
        """
        receipt = self._receipts.get(receipt_id)
        if receipt.status == "done":
            return receipt
        return self._carry_out(receipt, self._receipts.targets(receipt.id), rebuild=rebuild)

    def receipts(self, subject: Subject | None = None) -> list[Receipt]:
        """Return all receipts, the latest first; only those about *subject* if it is given."""
        found = self._receipts.all()
        return [r for r in found if subject is None or r.is_about(subject)]

    def _carry_out(self, receipt: Receipt, targets: Targets | None, *, rebuild: bool) -> Receipt:
        with self._store.provider.leaving_no_trace():
            if targets is not None:
                receipt = self._remove(receipt, targets)
            receipt = updated(
                receipt, scrub(self._store, rebuild=rebuild), self._store.clock, is_last=True
            )
            left = self._receipts.targets(receipt.id)
            return self._receipts.save(receipt, targets=left)

    def _remove(self, receipt: Receipt, targets: Targets) -> Receipt:
        first = [place.remove(targets) for place in self._places if place.needs_rows]
        if all(step.status == "done" for step in first):
            removed = remove(self._store, targets)
            rows = Step(DATABASE, removed=_counted(removed))
        else:
            rows = Step(DATABASE, "pending", why="What comes before it is pending.")
        others = [place.remove(targets) for place in self._places if not place.needs_rows]
        steps = [rows, *first, *others]
        receipt = updated(receipt, steps, self._store.clock, is_last=False)
        is_needed = any(step.status == "pending" for step in steps)
        return self._receipts.save(receipt, targets=targets if is_needed else None)


def _counted(removed: Counter[str]) -> dict[str, int]:
    return {what: number for what, number in sorted(removed.items()) if number}

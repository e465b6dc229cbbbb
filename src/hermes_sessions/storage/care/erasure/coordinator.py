"""Erase a user, a chat or a session everywhere, with a receipt, and to completion.

This module handles the database; other modules own the files beside it and provide an
`ErasurePlace` each. A place that is unavailable stays pending on the receipt, and `Erasure.resume`
tries it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Final, Protocol

from hermes_sessions.storage.care.erasure.discovery import count_rows, find
from hermes_sessions.storage.care.erasure.receipts import (
    ErasureReceipt,
    ErasureReceipts,
    ErasureStep,
    updated,
)
from hermes_sessions.storage.care.erasure.row_removal import remove, scrub
from hermes_sessions.storage.care.erasure.targets import ErasureSubject, ErasureTargets
from hermes_sessions.storage.repositories.derived_columns import settle
from hermes_sessions.storage.repositories.stale_sessions import settle_first
from hermes_sessions.storage.store_context import StoreContext

DATABASE: Final = "database"
_ID_BYTES: Final = 6


class ErasurePlace(Protocol):
    """A place outside the database that may contain data of a user, a chat or a session."""

    @property
    def name(self) -> str:
        """Its name on a receipt."""

    @property
    def needs_rows(self) -> bool:
        """Whether it reads the rows to be erased, so that it must run before them."""

    def count(self, targets: ErasureTargets) -> dict[str, int]:
        """Return what would be erased, as numbers by kind; changes nothing."""

    def remove(self, targets: ErasureTargets) -> ErasureStep:
        """Erase the data and return the result. Idempotent. Obstacles do not raise: they leave the
        step pending with a reason.
        """


#: The former name.
Place = ErasurePlace


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """What would be erased."""

    targets: ErasureTargets
    #: By place: numbers by kind.
    places: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found."""
        return not any(sum(counts.values()) for counts in self.places.values())


class Erasure:
    """Erasure on one store and in the *places* around it. *random_hex* creates receipt ids."""

    def __init__(
        self,
        store: StoreContext,
        places: Sequence[ErasurePlace] = (),
        *,
        random_hex: Callable[[int], str] = token_hex,
    ) -> None:
        self._store = store
        self._places = tuple(places)
        self._receipts = ErasureReceipts(store)
        self._random_hex = random_hex

    def plan(self, subject: ErasureSubject, *, rows_only: bool = False) -> ErasurePlan:
        """Return what would be erased; changes nothing. With *rows_only*, only in the database:
        reading backups takes time.

        Raises:
            InvalidInput: the subject is empty.
        """
        settle_first(self._store, limit=None)
        with self._store.provider.read() as tx:
            targets = find(tx, subject, self._store.clock())
            rows = count_rows(tx, targets)
        others = () if rows_only else self._places
        places = {place.name: place.count(targets) for place in others}
        return ErasurePlan(targets, {DATABASE: rows, **places})

    def forget(self, subject: ErasureSubject, *, rebuild: bool = False) -> ErasureReceipt:
        """Erase everything known about the subject now, and return the receipt.

        This is not one transaction: lanes are closed at once, then data is erased step by step. If
        the process is killed meanwhile, the receipt remains, and `resume` continues. Data that
        arrives later is new. *rebuild* also does what would stay pending on a large store; see
        `SessionDBProvider.scrub`.

        Raises:
            InvalidInput: the subject is empty.
            OnHold: some of it must not be deleted; nothing was changed.
            StoreError: the database failed; unfinished steps are pending.
        """
        subject = subject.checked()
        # Other programs may have moved sessions into or out of the conversation.
        settle(self._store)
        receipt, targets = self._receipts.begin(subject, self._random_hex(_ID_BYTES))
        return self._carry_out(receipt, targets, rebuild=rebuild)

    def resume(self, receipt_id: str, *, rebuild: bool = False) -> ErasureReceipt:
        """Complete the pending steps of a receipt, given by its id or an id prefix.

        Raises:
            NotFound: there is no such receipt.
        """
        receipt = self._receipts.get(receipt_id)
        if receipt.status == "done":
            return receipt
        return self._carry_out(receipt, self._receipts.targets(receipt.id), rebuild=rebuild)

    def receipts(self, subject: ErasureSubject | None = None) -> list[ErasureReceipt]:
        """Return all receipts, latest first; with *subject*, only those about it."""
        found = self._receipts.all()
        return [r for r in found if subject is None or r.is_about(subject)]

    def _carry_out(
        self, receipt: ErasureReceipt, targets: ErasureTargets | None, *, rebuild: bool
    ) -> ErasureReceipt:
        with self._store.provider.leaving_no_trace():
            if targets is not None:
                receipt = self._remove(receipt, targets)
            receipt = updated(
                receipt, scrub(self._store, rebuild=rebuild), self._store.clock, is_last=True
            )
            left = self._receipts.targets(receipt.id)
            return self._receipts.save(receipt, targets=left)

    def _remove(self, receipt: ErasureReceipt, targets: ErasureTargets) -> ErasureReceipt:
        first = [place.remove(targets) for place in self._places if place.needs_rows]
        if all(step.status == "done" for step in first):
            removed = remove(self._store, targets)
            rows = ErasureStep(DATABASE, removed=_counted(removed))
        else:
            rows = ErasureStep(DATABASE, "pending", why="An earlier step is pending.")
        others = [place.remove(targets) for place in self._places if not place.needs_rows]
        steps = [rows, *first, *others]
        receipt = updated(receipt, steps, self._store.clock, is_last=False)
        is_needed = any(step.status == "pending" for step in steps)
        return self._receipts.save(receipt, targets=targets if is_needed else None)


def _counted(removed: Counter[str]) -> dict[str, int]:
    return {what: number for what, number in sorted(removed.items()) if number}

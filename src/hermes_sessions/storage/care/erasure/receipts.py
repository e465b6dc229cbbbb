"""Receipts: what was erased and what is pending, without naming the subject.

A receipt is written before anything is erased, together with the found targets, so that any later
call can continue. The targets are removed as soon as no step needs them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

from hermes_sessions.errors import NotFound
from hermes_sessions.storage.care.erasure.discovery import find
from hermes_sessions.storage.care.erasure.targets import ErasureSubject, ErasureTargets, Kind
from hermes_sessions.storage.codec import from_json, to_json
from hermes_sessions.storage.provider import Row, WriteTransaction
from hermes_sessions.storage.repositories.holds import require_no_hold
from hermes_sessions.storage.store_context import StoreContext

Status = Literal["pending", "done"]

_COLUMNS: Final = (
    "id",
    "kind",
    "platform",
    "digest",
    "status",
    "requested_at",
    "finished_at",
    "steps",
)
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM erasures"


@dataclass(frozen=True, slots=True)
class ErasureStep:
    """The result in one place."""

    #: ``database``, ``search index``, ``store files``, ``transcripts``, ``gateway spool``, …
    place: str
    status: Status = "done"
    #: Numbers of erased items by kind.
    removed: Mapping[str, int] = field(default_factory=dict)
    #: Why it is pending, and what to do about it.
    why: str | None = None

    def after(self, earlier: ErasureStep | None) -> ErasureStep:
        """Return this step with the numbers of an earlier attempt added."""
        if earlier is None:
            return self
        total = Counter(earlier.removed) + Counter(self.removed)
        return replace(self, removed=dict(total))


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """The record of one request."""

    id: str
    kind: Kind
    platform: str | None
    #: Replaces the id that was given; see `ErasureSubject.digest`.
    digest: str
    status: Status
    requested_at: float
    finished_at: float | None = None
    steps: tuple[ErasureStep, ...] = ()

    @property
    def pending(self) -> tuple[ErasureStep, ...]:
        """The pending steps."""
        return tuple(step for step in self.steps if step.status == "pending")

    def is_about(self, subject: ErasureSubject) -> bool:
        """Tell whether it is about this user, chat or session."""
        return self.digest == subject.digest(self.id)

    def step(self, place: str) -> ErasureStep | None:
        """Return the step of a place."""
        return next((step for step in self.steps if step.place == place), None)


class ErasureReceipts:
    """The rows of ``erasures``."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def begin(
        self, subject: ErasureSubject, receipt_id: str
    ) -> tuple[ErasureReceipt, ErasureTargets]:
        """Find the targets and write the receipt, in one transaction.

        Raises:
            OnHold: some of it must not be deleted; nothing was written.
        """
        now = self._store.clock()

        def work(tx: WriteTransaction) -> ErasureTargets:
            targets = find(tx, subject, now)
            require_no_hold(tx, (*targets.session_ids, *targets.rooms))
            tx.run(
                "INSERT INTO erasures (id, kind, platform, digest, status, requested_at, targets) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    receipt_id,
                    subject.kind,
                    subject.platform,
                    subject.digest(receipt_id),
                    "pending",
                    now,
                    targets.to_json(),
                ),
            )
            return targets

        targets = self._store.provider.write(work)
        return self.get(receipt_id), targets

    def save(self, receipt: ErasureReceipt, *, targets: ErasureTargets | None) -> ErasureReceipt:
        """Store the current state; without *targets*, the stored targets are removed."""
        text = None if targets is None else targets.to_json()
        self._store.provider.write(
            lambda tx: tx.run(
                "UPDATE erasures SET status = ?, finished_at = ?, steps = ?, targets = ? "
                "WHERE id = ?",
                (
                    receipt.status,
                    receipt.finished_at,
                    to_json([asdict(step) for step in receipt.steps]),
                    text,
                    receipt.id,
                ),
            )
        )
        return receipt

    def get(self, receipt_id: str) -> ErasureReceipt:
        """Return a receipt by its id or an id prefix.

        Raises:
            NotFound: it does not exist, or the prefix is ambiguous.
        """
        with self._store.provider.read() as tx:
            row = tx.one(f"{_SELECT} WHERE id = ?", (receipt_id,))
            if row is not None:
                return _receipt(row)
            rows = tx.all(
                f"{_SELECT} WHERE substr(id, 1, ?) = ? LIMIT 2", (len(receipt_id), receipt_id)
            )
        if receipt_id and len(rows) == 1:
            return _receipt(rows[0])
        several = "Several receipts begin with" if len(rows) > 1 else "There is no receipt"
        raise NotFound(f"{several} {receipt_id!r}. See: hermes forget --receipts")

    def targets(self, receipt_id: str) -> ErasureTargets | None:
        """Return the targets that a receipt still needs; None if it needs none."""
        with self._store.provider.read() as tx:
            row = tx.one("SELECT targets FROM erasures WHERE id = ?", (receipt_id,))
        return None if row is None or row[0] is None else ErasureTargets.from_json(row[0])

    def all(self) -> list[ErasureReceipt]:
        """Return all receipts, latest first."""
        with self._store.provider.read() as tx:
            rows = tx.all(f"{_SELECT} ORDER BY requested_at DESC, id")
        return [_receipt(row) for row in rows]

    def pending_targets(self) -> list[ErasureTargets]:
        """Return the pending targets, for processes that may receive more data of them."""
        with self._store.provider.read() as tx:
            rows = tx.all(
                "SELECT targets FROM erasures WHERE status = ? AND targets IS NOT NULL",
                ("pending",),
            )
        return [ErasureTargets.from_json(row[0]) for row in rows]


def updated(
    receipt: ErasureReceipt,
    steps: Iterable[ErasureStep],
    clock: Callable[[], float],
    *,
    is_last: bool,
) -> ErasureReceipt:
    """Return the receipt with the results of these steps added."""
    given = [step.after(receipt.step(step.place)) for step in steps]
    places = {step.place for step in given}
    kept = [step for step in receipt.steps if step.place not in places]
    every = (*kept, *given)
    is_done = is_last and all(step.status == "done" for step in every)
    return replace(
        receipt,
        steps=every,
        status="done" if is_done else "pending",
        finished_at=clock() if is_done else None,
    )


def _receipt(row: Row) -> ErasureReceipt:
    *plain, written = row
    steps: list[dict[str, Any]] = from_json(written, [])
    return ErasureReceipt(*(*plain, tuple(ErasureStep(**step) for step in steps)))

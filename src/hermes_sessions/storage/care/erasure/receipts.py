"""Receipts: what was erased, what is still to be done, and no word about whom.

A receipt is written before anything is erased, with what was found; so whatever happens, the next
one who asks can go on. As soon as nothing needs it any more, what was found is taken off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

from hermes_sessions.errors import NotFound
from hermes_sessions.storage.care.erasure.discovery import find
from hermes_sessions.storage.care.erasure.targets import Kind, Subject, Targets
from hermes_sessions.storage.codec import from_json, to_json
from hermes_sessions.storage.provider import Row, WriteTransaction
from hermes_sessions.storage.repositories.holds import require_no_hold
from hermes_sessions.storage.store import Store

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
class Step:
    """What became of it in one place."""

    #: ``database``, ``search index``, ``store files``, ``transcripts``, ``gateway spool``, …
    place: str
    status: Status = "done"
    #: How many of what went.
    removed: Mapping[str, int] = field(default_factory=dict)
    #: Why it is pending, and what ends that.
    why: str | None = None

    def after(self, earlier: Step | None) -> Step:
        """Return this step with what an earlier attempt has removed already."""
        if earlier is None:
            return self
        total = Counter(earlier.removed) + Counter(self.removed)
        return replace(self, removed=dict(total))


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was done about one request."""

    id: str
    kind: Kind
    platform: str | None
    #: Stands for the id that was given; see `Subject.digest`.
    digest: str
    status: Status
    requested_at: float
    finished_at: float | None = None
    steps: tuple[Step, ...] = ()

    @property
    def pending(self) -> tuple[Step, ...]:
        """The steps that are still to be done."""
        return tuple(step for step in self.steps if step.status == "pending")

    def is_about(self, subject: Subject) -> bool:
        """Tell whether it is about this person, chat or session."""
        return self.digest == subject.digest(self.id)

    def step(self, place: str) -> Step | None:
        """Return what is known of a place."""
        return next((step for step in self.steps if step.place == place), None)


class Receipts:
    """The rows of ``erasures``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, subject: Subject, receipt_id: str) -> tuple[Receipt, Targets]:
        """Find what is to go and write it down, in one transaction.

        Raises:
            OnHold: some of it must not be deleted; nothing was written.
        """
        now = self._store.clock()

        def work(tx: WriteTransaction) -> Targets:
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

    def save(self, receipt: Receipt, *, targets: Targets | None) -> Receipt:
        """Write what is known now; without *targets*, what was found is taken off."""
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

    def get(self, receipt_id: str) -> Receipt:
        """Return a receipt, by its id or the beginning of it.

        Raises:
            NotFound: there is none, or several begin so.
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

    def targets(self, receipt_id: str) -> Targets | None:
        """Return what a receipt still needs; None when it needs nothing any more."""
        with self._store.provider.read() as tx:
            row = tx.one("SELECT targets FROM erasures WHERE id = ?", (receipt_id,))
        return None if row is None or row[0] is None else Targets.from_json(row[0])

    def all(self) -> list[Receipt]:
        """Return all receipts, the latest first."""
        with self._store.provider.read() as tx:
            rows = tx.all(f"{_SELECT} ORDER BY requested_at DESC, id")
        return [_receipt(row) for row in rows]

    def pending_targets(self) -> list[Targets]:
        """Return what is still to be erased somewhere, for those who may meet more of it."""
        with self._store.provider.read() as tx:
            rows = tx.all(
                "SELECT targets FROM erasures WHERE status = ? AND targets IS NOT NULL",
                ("pending",),
            )
        return [Targets.from_json(row[0]) for row in rows]


def updated(
    receipt: Receipt, steps: Iterable[Step], clock: Callable[[], float], *, is_last: bool
) -> Receipt:
    """Return the receipt with these steps after what they did before."""
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


def _receipt(row: Row) -> Receipt:
    *plain, written = row
    steps: list[dict[str, Any]] = from_json(written, [])
    return Receipt(*(*plain, tuple(Step(**step) for step in steps)))

"""Imports many sessions: checks all of them first, then writes them in short transactions.

The records are read twice, to check and to write them, so that neither pass keeps more than a few
sessions in memory and an invalid file changes nothing. Repeating an interrupted import completes
it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from hermes_sessions.errors import ConversationHeld, ImportRefused, InvalidInput
from hermes_sessions.model.lineage import COMPRESSION, documented_edge_kind
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.leases import require_free
from hermes_sessions.storage.repositories.lineage import ancestors_of
from hermes_sessions.storage.repositories.rows import VISIBLE, Record
from hermes_sessions.storage.session_copy.parents import place_attached
from hermes_sessions.storage.session_copy.row_ids import IdPlan
from hermes_sessions.storage.session_import.comparison import ComparisonResult, Relation, compare
from hermes_sessions.storage.session_import.incoming_session import (
    IncomingMessage,
    IncomingSession,
    read_record,
)
from hermes_sessions.storage.session_import.writer import (
    SessionChanged,
    WriteState,
    add_messages,
    begin,
    finish,
)
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import ImportReport

#: Weight of one transaction: a message weighs 1, plus 1 per 4 KiB of text.
_STEP: Final = 1000
_TEXT_PER_WEIGHT: Final = 4096
_SESSIONS_PER_STEP: Final = 50


class ImportRun:
    """One import. Its records must be iterable twice."""

    def __init__(self, store: StoreContext, *, leave_out_invalid: bool) -> None:
        """An invalid record refuses the whole import, unless *leave_out_invalid* reports it."""
        self._store = store
        self._leave_out_invalid = leave_out_invalid
        self._ids = IdPlan()
        self._errors: list[Record] = []
        self._notes: list[Record] = []
        self._outcomes: dict[str, list[str]] = {"imported": [], "extended": [], "skipped": []}
        self._conflicts: list[Record] = []
        #: Sessions stored without their parent, by the id of that parent.
        self._waiting: dict[str, list[_Edge]] = {}
        self._detached = 0
        self._invalid: set[int] = set()

    def run(self, records: Iterable[Any]) -> ImportReport:
        """Check, write and report; see `SessionDB.import_sessions`."""
        self._check(records)
        if self._leave_out_invalid or not self._errors:
            self._write(records)
        for parent_id, edges in self._waiting.items():
            for edge in edges:
                self._note(edge.child_id, f"parent {parent_id!r} is not stored; kept without it")
        self._detached += sum(map(len, self._waiting.values()))
        imported, extended, skipped = self._outcomes.values()
        return {
            "ok": not self._errors,
            "imported": len(imported),
            "extended": len(extended),
            "skipped": len(skipped),
            "detached": self._detached,
            "imported_ids": imported,
            "extended_ids": extended,
            "skipped_ids": skipped,
            "conflicts": self._conflicts,
            "errors": self._errors,
            "notes": self._notes,
        }

    # ── first pass ────────────────────────────────────────────────────────────────────────────

    def _check(self, records: Iterable[Any]) -> None:
        first_seen: dict[str, int] = {}
        for index, record in enumerate(records):
            try:
                incoming = self._read(record)
                if incoming.id in first_seen:
                    raise InvalidInput(
                        f"Session {incoming.id!r} appears twice, first as number "
                        f"{first_seen[incoming.id] + 1}."
                    )
            except InvalidInput as error:
                self._errors.append({"index": index, **_named(record), "error": str(error)})
                continue
            first_seen[incoming.id] = index
            with self._store.provider.read() as tx:
                self._ids.note(tx, incoming.id, incoming.parent_id, incoming.ids)
        self._invalid = {error["index"] for error in self._errors}

    def _read(self, record: Any) -> IncomingSession:
        return read_record(record, store=self._store)

    # ── second pass ───────────────────────────────────────────────────────────────────────────

    def _write(self, records: Iterable[Any]) -> None:
        with self._store.provider.read() as tx:
            self._ids.settle(tx)
        batch: list[_Job] = []
        weight = 0
        for incoming in self._valid(records):
            with self._store.provider.read() as tx:
                standing = compare(tx, incoming)
            for note in incoming.notes:
                self._note(incoming.id, note)
            if standing.relation is Relation.CONFLICT:
                self._conflict(incoming.id, standing.reason)
                continue
            job = _Job(incoming, standing, self._ids.shifts_of(incoming.id))
            if job.weight + weight > _STEP or len(batch) == _SESSIONS_PER_STEP:
                self._write_batch(batch)
                batch, weight = [], 0
            if job.weight > _STEP:
                self._write_long(job)
            else:
                batch.append(job)
                weight += job.weight
        self._write_batch(batch)

    def _valid(self, records: Iterable[Any]) -> Iterator[IncomingSession]:
        for index, record in enumerate(records):
            if index in self._invalid:
                continue
            try:
                incoming = self._read(record)
            except InvalidInput as error:
                raise ImportRefused(
                    f"Session number {index + 1} changed while it was imported: {error} What was "
                    f"written so far is complete; import again."
                ) from error
            yield incoming

    def _write_batch(self, batch: list[_Job]) -> None:
        """Write several sessions in one transaction."""
        jobs = [job for job in batch if job.writes or job.wants_parent]
        for job in batch:
            if job not in jobs:
                self._done(job, [])
        if not jobs:
            return

        def work(tx: WriteTransaction) -> tuple[list[list[str]], _Ties]:
            notes: list[list[str]] = []
            ties = _Ties(self._store, self._waiting)
            for job in jobs:
                begun = self._write_session(tx, job) if job.writes else None
                notes.append(begun.notes if begun else [])
                ties.tie(tx, job)
            ties.place(tx)
            return notes, ties

        try:
            notes, ties = self._store.provider.write(work)
        except (SessionChanged, ConversationHeld) as obstacle:
            if len(jobs) > 1:
                for job in jobs:
                    self._write_batch([job])
            else:
                self._conflict(jobs[0].incoming.id, _reason(obstacle))
            return
        self._ids.reserved = True
        for job, own in zip(jobs, notes, strict=True):
            self._done(job, own)
        self._tied(ties)

    def _write_session(self, tx: WriteTransaction, job: _Job) -> WriteState:
        begun = begin(tx, self._store, job.incoming, job.standing, job.shifts)
        self._ids.reserve(tx, self._store.provider, job.incoming.id)
        for span in job.spans():
            add_messages(tx, self._store, job.incoming, job.standing, begun, span)
        finish(tx, self._store, job.incoming, job.standing, begun)
        return begun

    def _write_long(self, job: _Job) -> None:
        """Write a long session in several transactions; readers see it grow."""
        incoming, standing = job.incoming, job.standing
        spans = list(job.spans())

        def first(tx: WriteTransaction) -> WriteState:
            begun = begin(tx, self._store, incoming, standing, job.shifts)
            self._ids.reserve(tx, self._store.provider, incoming.id)
            add_messages(tx, self._store, incoming, standing, begun, spans[0])
            return begun

        def last(tx: WriteTransaction) -> _Ties:
            finish(tx, self._store, incoming, standing, begun)
            ties = _Ties(self._store, self._waiting)
            ties.tie(tx, job)
            ties.place(tx)
            return ties

        try:
            begun = self._store.provider.write(first)
            self._ids.reserved = True
            for span in spans[1:]:
                self._store.provider.write(partial(_add_part, self._store, job, begun, span))
            ties = self._store.provider.write(last)
        except (SessionChanged, ConversationHeld) as obstacle:
            self._conflict(incoming.id, _reason(obstacle))
            return
        self._done(job, begun.notes)
        self._tied(ties)

    def _tied(self, ties: _Ties) -> None:
        for parent_id in ties.arrived:
            self._waiting.pop(parent_id, None)
        for parent_id, edges in ties.waiting.items():
            self._waiting.setdefault(parent_id, []).extend(edges)
        for edge in ties.circles:
            self._detached += 1
            self._note(edge.child_id, f"parent {edge.parent_id!r} descends from it; kept without")

    # ── report ────────────────────────────────────────────────────────────────────────────────

    def _done(self, job: _Job, notes: list[str]) -> None:
        outcome = {Relation.NEW: "imported", Relation.GROWN: "extended"}.get(
            job.standing.relation, "skipped"
        )
        self._outcomes[outcome].append(job.incoming.id)
        for note in notes:
            self._note(job.incoming.id, note)

    def _note(self, session_id: str, note: str) -> None:
        self._notes.append({"id": session_id, "note": note})

    def _conflict(self, session_id: str, reason: str) -> None:
        self._conflicts.append({"id": session_id, "reason": reason})


def _named(record: Any) -> Record:
    session_id = record.get("id") if isinstance(record, Mapping) else None
    return {"id": session_id} if isinstance(session_id, str) else {}


_MOVED: Final = "it changed during the import: import again"


def _reason(obstacle: SessionChanged | ConversationHeld) -> str:
    return str(obstacle) if isinstance(obstacle, ConversationHeld) else _MOVED


class _Job:
    """A session to write."""

    def __init__(
        self, incoming: IncomingSession, standing: ComparisonResult, shifts: Sequence[int]
    ) -> None:
        self.incoming = incoming
        self.standing = standing
        self.shifts = shifts
        self.writes = standing.relation in (Relation.NEW, Relation.GROWN)
        self.wants_parent = incoming.parent_id is not None and standing.lacks_parent
        fresh = incoming.messages[standing.message_count :] if self.writes else ()
        self.weight = 1 + sum(map(_weight, fresh))

    def spans(self) -> Iterator[range]:
        """Yield index ranges of messages, one per short transaction."""
        start, weight = self.standing.message_count, 0
        for index in range(start, len(self.incoming.messages)):
            weight += _weight(self.incoming.messages[index])
            if weight >= _STEP:
                yield range(start, index + 1)
                start, weight = index + 1, 0
        if start < len(self.incoming.messages):
            yield range(start, len(self.incoming.messages))


def _weight(message: IncomingMessage) -> int:
    text = sum(len(value) for value in message.values if isinstance(value, str))
    return 1 + text // _TEXT_PER_WEIGHT


def _add_part(
    store: StoreContext, job: _Job, begun: WriteState, span: range, tx: WriteTransaction
) -> None:
    add_messages(tx, store, job.incoming, job.standing, begun, span)


class _Edge(NamedTuple):
    """The data to attach a session to its parent once both are stored."""

    child_id: str
    parent_id: str
    #: Whether the kind is given; otherwise it is derived by the documented rules.
    is_stated: bool
    given: str | None
    config: str | None
    source: str
    started_at: float
    schema_version: int

    @classmethod
    def of(cls, incoming: IncomingSession) -> Self:
        """Return the edge above a session."""
        columns = incoming.columns
        return cls(
            incoming.id,
            incoming.parent_id or "",
            incoming.edge_is_stated,
            incoming.edge_kind,
            None if incoming.edge_is_stated else columns["model_config"],
            columns["source"],
            columns["started_at"],
            incoming.schema_version,
        )

    def kind(self, parent_end_reason: str | None, parent_ended_at: float | None) -> str | None:
        """Return why the session has its parent."""
        if self.is_stated:
            return self.given
        return documented_edge_kind(
            config=_object(self.config),
            source=self.source,
            started_at=self.started_at,
            parent_end_reason=parent_end_reason,
            parent_ended_at=parent_ended_at,
            schema_version=self.schema_version,
        )


def _object(text: str | None) -> dict[str, Any] | None:
    try:
        value = json.loads(text) if text else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


class _Ties:
    """Attaches the sessions of one transaction to their parents, which may be stored earlier, later
    or never.
    """

    def __init__(self, store: StoreContext, waiting_before: Mapping[str, list[_Edge]]) -> None:
        self._store = store
        self._waiting_before = waiting_before
        self._tied: dict[str, bool] = {}
        self.waiting: dict[str, list[_Edge]] = {}
        self.arrived: list[str] = []
        self.circles: list[_Edge] = []

    def tie(self, tx: WriteTransaction, job: _Job) -> None:
        """Attach a written session to its parent, if stored, and its waiting children to it.

        Raises:
            ConversationHeld: that would change a leased chain.
        """
        session_id = job.incoming.id
        self.arrived.append(session_id)
        edges = [*self._waiting_before.get(session_id, ()), *self.waiting.pop(session_id, ())]
        if job.wants_parent:
            edges.append(_Edge.of(job.incoming))
        for edge in edges:
            self._tie(tx, edge)

    def _tie(self, tx: WriteTransaction, edge: _Edge) -> None:
        parent = tx.one(
            f"SELECT end_reason, ended_at FROM sessions WHERE id = ? AND {VISIBLE}",
            (edge.parent_id,),
        )
        if parent is None:
            self.waiting.setdefault(edge.parent_id, []).append(edge)
        elif edge.child_id in ancestors_of(tx, edge.parent_id, through_trash=True):
            self.circles.append(edge)
        else:
            kind = edge.kind(*parent)
            if kind == COMPRESSION:
                require_free(tx, self._store, (edge.parent_id, edge.child_id))
            tx.run(
                "UPDATE sessions SET parent_session_id = ?, edge_kind = ? WHERE id = ?",
                (edge.parent_id, kind, edge.child_id),
            )
            self._tied[edge.child_id] = edge.is_stated

    def place(self, tx: WriteTransaction) -> None:
        """Recompute the placement in changed conversations."""
        place_attached(tx, self._tied)

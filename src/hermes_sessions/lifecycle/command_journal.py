"""A journal of received commands: each runs once, or its sender is told that it may not have run.

A command is recorded before it runs, with the process that runs it. If that process dies, exactly
one other takes the record over. The record shows whether the command took effect; otherwise the new
process decides whether it can be repeated. See ``gateway/command_executor.py``.

A record is a mailbox row: ``doing``, then ``happened`` when the change itself records that, then
``done``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from hermes_sessions.lifecycle.lane_dependencies import LaneDependencies
from hermes_sessions.model.lane import LaneKey
from hermes_sessions.model.source import SessionSource
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.mailbox import EnqueueResult, Mailbox, PendingCommand
from hermes_sessions.storage.repositories.processes import Processes

T = TypeVar("T")

#: A command that killed its process twice is not tried a third time.
MAX_ATTEMPTS: Final = 2


class OrphanedCommand(NamedTuple):
    """A command of a dead process, now owned by the caller."""

    item_id: int
    #: As passed to `CommandJournal.begin`.
    payload: dict[str, Any]
    #: The change was made; only the sender has not been told.
    has_happened: bool
    #: The lane has received something since, or the attempts are used up: running the command now
    #: could do what the user no longer wants.
    is_too_late: bool


class CommandJournal:
    """The commands received by the lanes of a bot."""

    def __init__(self, deps: LaneDependencies) -> None:
        self._deps = deps
        self._rows = Mailbox(deps.store)
        self._processes = Processes(deps.store)

    def begin(
        self,
        key: LaneKey | str,
        process_id: str,
        *,
        name: str,
        payload: Mapping[str, Any],
        dedupe: str | None = None,
        origin: SessionSource | None = None,
    ) -> EnqueueResult:
        """Record that a lane received a command that this process runs; creates the lane if needed.

        A command delivered again is a duplicate and does not run twice.

        Raises:
            MessageTooLarge, InvalidInput: it cannot be stored.
        """
        now = self._deps.store.clock()
        noted = {"process": process_id, "attempt": 1, "command": dict(payload)}

        def work(tx: WriteTransaction) -> EnqueueResult:
            namespace = self._deps.namespace
            lane = self._deps.lanes.ensure(tx, namespace, key, now=now, origin=origin)
            return self._rows.begin_command(tx, lane.id, dedupe, reason=name, payload=noted)

        return self._write(work)

    def happened(self, tx: WriteTransaction, item_id: int) -> None:
        """Record, in the transaction of a command's change, that it took effect."""
        self._rows.command_happened(tx, item_id)

    def end(self, item_id: int, also: Callable[[WriteTransaction], None] | None = None) -> bool:
        """Record that a command has run or cannot run, together with what *also* writes.

        Returns False, without any effect, if that was recorded before.
        """

        def work(tx: WriteTransaction) -> bool:
            is_ended = self._rows.end_command(tx, item_id, self._deps.store.clock())
            if is_ended and also is not None:
                also(tx)
            return is_ended

        return self._write(work)

    def take_over(self, process_id: str) -> list[OrphanedCommand]:
        """Return the unfinished commands of dead processes, oldest first; this process now owns
        them.

        Each command goes to exactly one of several concurrent callers.
        """
        with self._deps.store.provider.read() as tx:
            notes = self._rows.commands_in_hand(tx, self._deps.namespace)
            at_work = self._processes.not_ended(tx, {note.payload["process"] for note in notes})
        left = [note for note in notes if note.payload["process"] not in at_work]
        taken = [
            self._write(partial(self._take, seen=note, process_id=process_id)) for note in left
        ]
        return [each for each in taken if each is not None]

    def _take(
        self, tx: WriteTransaction, seen: PendingCommand, process_id: str
    ) -> OrphanedCommand | None:
        self._deps.lanes.lock_by_id(tx, seen.lane_id)
        note = self._rows.find_command(tx, seen.id)
        if note is None or note.payload["process"] != seen.payload["process"]:
            return None
        attempt = note.payload["attempt"] + 1
        self._rows.change_payload(
            tx, note.id, {**note.payload, "process": process_id, "attempt": attempt}
        )
        is_too_late = attempt > MAX_ATTEMPTS or self._rows.has_later(tx, note.lane_id, note.id)
        return OrphanedCommand(note.id, note.payload["command"], note.has_happened, is_too_late)

    def _write(self, work: Callable[[WriteTransaction], T]) -> T:
        return self._deps.store.provider.write(work, isolated=False)

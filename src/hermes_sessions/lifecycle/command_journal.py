"""Commands that were received: each is carried out once, or somebody is told that it may not be.

A command is noted before it is carried out, with the process that does it. When that dies, the note
is found and taken over by one other: it knows from the note whether the command has happened, and
otherwise decides whether it can be carried out again. See ``gateway/command_executor.py``.

A note is a row of the mailbox: ``doing``, then ``happened`` where the change itself says so, then
``done``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from hermes_sessions.lifecycle.lane_engine import LaneEngine
from hermes_sessions.model.lane import LaneKey
from hermes_sessions.model.source import SessionSource
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.mailbox import EnqueueResult, Mailbox, PendingCommand
from hermes_sessions.storage.repositories.processes import Processes

T = TypeVar("T")

#: A command that a process died of twice is not tried a third time.
MAX_ATTEMPTS: Final = 2


class OrphanedCommand(NamedTuple):
    """A command of a process that is gone, which is the caller's now."""

    item_id: int
    #: As it was given to `CommandJournal.begin`.
    payload: dict[str, Any]
    #: The change was made; only its sender has not heard of it.
    has_happened: bool
    #: Something else was received for the lane after it, or it was tried often enough: carrying it
    #: out now could do what nobody wants any more.
    is_too_late: bool


class CommandJournal:
    """The commands that a bot's lanes have received."""

    def __init__(self, engine: LaneEngine) -> None:
        self._engine = engine
        self._rows = Mailbox(engine.store)
        self._processes = Processes(engine.store)

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
        """Note that a lane, made if there is none, received a command that this process carries
        out; delivered again, it is a duplicate and not done twice.

        Raises:
            MessageTooLarge, InvalidInput: it cannot be stored.
        """
        now = self._engine.store.clock()
        noted = {"process": process_id, "attempt": 1, "command": dict(payload)}

        def work(tx: WriteTransaction) -> EnqueueResult:
            namespace = self._engine.namespace
            lane = self._engine.lanes.ensure(tx, namespace, key, now=now, origin=origin)
            return self._rows.begin_command(tx, lane.id, dedupe, reason=name, payload=noted)

        return self._write(work)

    def happened(self, tx: WriteTransaction, item_id: int) -> None:
        """Note in the transaction that makes the change of a command that it does."""
        self._rows.command_happened(tx, item_id)

    def end(self, item_id: int, also: Callable[[WriteTransaction], None] | None = None) -> bool:
        """Note that a command was carried out, or cannot be, together with what *also* writes;
        return False, having done nothing, when that was noted before.
        """

        def work(tx: WriteTransaction) -> bool:
            is_ended = self._rows.end_command(tx, item_id, self._engine.store.clock())
            if is_ended and also is not None:
                also(tx)
            return is_ended

        return self._write(work)

    def take_over(self, process_id: str) -> list[OrphanedCommand]:
        """Return what processes left undone that have ended, or were found dead, oldest first: from
        now on it is this process's. Of several that ask, one gets each.
        """
        with self._engine.store.provider.read() as tx:
            notes = self._rows.commands_in_hand(tx, self._engine.namespace)
            at_work = self._processes.not_ended(tx, {note.payload["process"] for note in notes})
        left = [note for note in notes if note.payload["process"] not in at_work]
        taken = [
            self._write(partial(self._take, seen=note, process_id=process_id)) for note in left
        ]
        return [each for each in taken if each is not None]

    def _take(
        self, tx: WriteTransaction, seen: PendingCommand, process_id: str
    ) -> OrphanedCommand | None:
        self._engine.lanes.lock_by_id(tx, seen.lane_id)
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
        return self._engine.store.provider.write(work, isolated=False)

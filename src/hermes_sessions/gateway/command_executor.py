"""Runs slash commands exactly once, even if a process dies meanwhile.

A command is recorded with the process that runs it. Its end and its reply are one transaction. The
command of a dead process is run again where that is safe (see `Command.repeat`); otherwise its
sender is told that it was interrupted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, NamedTuple

from hermes_sessions.agent.slash_commands import TypedCommand, parse_command
from hermes_sessions.errors import HermesSessionsError, StoreUnavailable
from hermes_sessions.gateway.delivery import reply_to
from hermes_sessions.gateway.events import Inbound, target_of_message
from hermes_sessions.gateway.worker_pool import WorkerPool
from hermes_sessions.lifecycle.command_journal import CommandJournal, OrphanedCommand
from hermes_sessions.lifecycle.mailboxes import Mailboxes
from hermes_sessions.model.lane import Lane
from hermes_sessions.storage.logs import Logger, where
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.mailbox import Mailbox
from hermes_sessions.storage.repositories.outbox import NewReply, Outbox

logger = Logger(__name__)

#: Called in the transaction in which a command makes its change, if it makes one.
MarkCommandDone = Callable[[WriteTransaction], None]
#: Runs a command and returns the reply.
HandleCommand = Callable[[TypedCommand, Inbound, str, MarkCommandDone], str]

_UNEXPECTED: Final = (
    "/{name} failed unexpectedly. The owner of this bot finds the reason in the log."
)
_WAS_DONE: Final = "/{name} was completed just before I was interrupted."
_UNKNOWN: Final = (
    "I was interrupted while running /{name}. It may or may not be done: check with /status "
    "before you try again."
)


class CommandResult(NamedTuple):
    """The result of a command."""

    item_id: int | None
    reply: str | None = None
    #: Whether the reply is in the outbox.
    is_in_outbox: bool = False
    is_duplicate: bool = False


@dataclass(slots=True)
class CommandExecutor:
    """Runs the commands of one gateway. Thread-safe."""

    notes: CommandJournal
    outbox: Outbox
    #: The id of this process in the store.
    process_id: Callable[[], str]
    handle_command: HandleCommand
    #: Called when a reply is in the outbox.
    sent: Callable[[], None]
    #: Commands that ran and were answered while their end could not be stored.
    _unstored: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def execute_command(
        self, typed: TypedCommand, inbound: Inbound, key: str, *, dedupe: str | None
    ) -> CommandResult:
        """Run a command, unless it was received before.

        Raises:
            StoreUnavailable: the database cannot be reached; nothing was done.
            MessageTooLarge: it cannot be stored.
        """
        name = typed.command.name
        begun = self.notes.begin(
            key,
            self.process_id(),
            name=f"/{name}",
            payload={"inbound": inbound.to_dict(), "key": key},
            dedupe=dedupe,
            origin=inbound.source,
        )
        if begun.is_duplicate or begun.item_id is None:
            return CommandResult(begun.item_id, is_duplicate=True)
        reply = self._run(typed, inbound, key, begun.item_id)
        return CommandResult(
            begun.item_id, reply, is_in_outbox=self._end(begun.item_id, inbound, reply)
        )

    def _run(self, typed: TypedCommand, inbound: Inbound, key: str, item_id: int) -> str:
        happened = partial(self.notes.happened, item_id=item_id)
        try:
            return self.handle_command(typed, inbound, key, happened)
        except StoreUnavailable as error:
            return f"Not done: {error}"
        except HermesSessionsError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - the sender waits for a reply in any case
            logger.warning("/%s failed unexpectedly: %s", typed.command.name, where(error))
            return _UNEXPECTED.format(name=typed.command.name)

    def _end(self, item_id: int, inbound: Inbound, reply: str) -> bool:
        """Store the end of a command and its reply; return whether they are stored."""
        said = reply_to(target_of_message(inbound), reply)
        try:
            self.notes.end(item_id, partial(self._put_reply, said=said))
        except StoreUnavailable as error:
            logger.info("could not store the end of a command yet: %s", error)
            with self._lock:
                self._unstored.add(item_id)
            return False
        self.sent()
        return True

    def _put_reply(self, tx: WriteTransaction, said: NewReply) -> None:
        self.outbox.put_in(tx, said)

    # ── orphaned commands ─────────────────────────────────────────────────────────────────────

    def recover_orphaned_commands(self) -> int:
        """Run or report the commands of processes that died, and store ends that could not be
        stored before; return how many commands of others there were.

        Raises:
            StoreError: the store is unavailable; the rest is recovered at the next call.
        """
        with self._lock:
            unstored = list(self._unstored)
        for item_id in unstored:
            self.notes.end(item_id)
            with self._lock:
                self._unstored.discard(item_id)
        left = self.notes.take_over(self.process_id())
        for command in left:
            self._recover(command)
        return len(left)

    def _recover(self, left: OrphanedCommand) -> None:
        try:
            inbound = Inbound.from_dict(left.payload["inbound"])
            typed = parse_command(inbound.text, "gateway")
        except (HermesSessionsError, TypeError, KeyError) as error:
            logger.warning("cannot read an orphaned command: %s", where(error))
            self.notes.end(left.item_id)
            return
        if not isinstance(typed, TypedCommand):
            # A gateway of another version received it.
            name = inbound.text.split(maxsplit=1)[0].removeprefix("/")
            self._end(left.item_id, inbound, _UNKNOWN.format(name=name))
            return
        name = typed.command.name
        logger.info("a process died while running /%s", name)
        if left.has_happened:
            reply = _WAS_DONE.format(name=name)
        elif typed.command.may_repeat(is_too_late=left.is_too_late):
            reply = self._run(typed, inbound, left.payload["key"], left.item_id)
        else:
            reply = _UNKNOWN.format(name=name)
        self._end(left.item_id, inbound, reply)


@dataclass(slots=True)
class LaneStop:
    """Stops a lane in the transaction of another change: ends its turn and drops its queue.

    It is a `Precondition` of that change: a reset, or a suspension if a turn was running. So a lane
    is never stopped without being changed.
    """

    mailboxes: Mailboxes
    pool: WorkerPool
    cause: Literal["stop", "reset"]
    #: Called in the transaction.
    happened: MarkCommandDone
    #: Called with the dropped items after the transaction.
    tell_dropped: Callable[[tuple[int, ...]], None]
    #: The ids of the dropped items.
    dropped: tuple[int, ...] = ()
    #: Whether there was anything to stop.
    has_stopped: bool = False
    _lane_id: int | None = None

    def __call__(self, tx: WriteTransaction, lane: Lane) -> bool:
        """Stop the lane; return whether to make the other change."""
        self._lane_id = lane.id
        self.dropped = tuple(item.id for item in Mailbox.waiting(tx, lane.id))
        stopped = self.mailboxes.stop(lane, self.cause, tx=tx)
        self.has_stopped = stopped.turn is not None or bool(self.dropped)
        is_changed = self.has_stopped or self.cause == "reset"
        if is_changed:
            self.happened(tx)
        return is_changed

    def tell(self) -> None:
        """Interrupt the running turn and report dropped items, after the transaction."""
        if self._lane_id is not None:
            self.pool.interrupt(self._lane_id, self.cause)
            self.tell_dropped(self.dropped)

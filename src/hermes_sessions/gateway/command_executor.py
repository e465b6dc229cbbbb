"""Slash commands that are carried out at once: each once, whoever dies meanwhile.

A command is noted with the process that carries it out. Its end and what its sender is told are one
transaction. What a dead process left is done by another where that is safe: when the command only
looks, or its change is known not to have been made and nothing was said since. Everything else is
reported, so that its sender can look and decide.
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

#: Called in the transaction that makes the change of a command, if it makes one.
MarkCommandDone = Callable[[WriteTransaction], None]
#: Carries out a command; returns what the sender is told.
HandleCommand = Callable[[TypedCommand, Inbound, str, MarkCommandDone], str]

_UNEXPECTED: Final = (
    "/{name} failed for a reason that I did not expect; my owner finds it in the log."
)
_WAS_DONE: Final = "/{name} was carried out, just before I was interrupted."
_UNKNOWN: Final = (
    "I was interrupted while I carried out /{name}. It may have been done or not: look with "
    "/status before you ask again."
)


class CommandResult(NamedTuple):
    """What became of a command."""

    item_id: int | None
    reply: str | None = None
    #: What the sender is told is in the outbox.
    is_said: bool = False
    is_duplicate: bool = False


@dataclass(slots=True)
class CommandExecutor:
    """The commands that one gateway carries out. Thread-safe."""

    notes: CommandJournal
    outbox: Outbox
    #: This process, as others see it.
    process_id: Callable[[], str]
    handle_command: HandleCommand
    #: Something is in the outbox.
    sent: Callable[[], None]
    #: Commands that were done and told while that could not be stored.
    _unstored: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def execute_command(
        self, typed: TypedCommand, inbound: Inbound, key: str, *, dedupe: str | None
    ) -> CommandResult:
        """Carry out a command, unless it was received before.

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
        reply = self._done(typed, inbound, key, begun.item_id)
        return CommandResult(begun.item_id, reply, is_said=self._end(begun.item_id, inbound, reply))

    def _done(self, typed: TypedCommand, inbound: Inbound, key: str, item_id: int) -> str:
        happened = partial(self.notes.happened, item_id=item_id)
        try:
            return self.handle_command(typed, inbound, key, happened)
        except StoreUnavailable as error:
            return f"That was not done: {error}"
        except HermesSessionsError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            logger.warning("/%s failed unexpectedly: %s", typed.command.name, where(error))
            return _UNEXPECTED.format(name=typed.command.name)

    def _end(self, item_id: int, inbound: Inbound, reply: str) -> bool:
        """Store that a command was carried out and what is said; return whether it is stored."""
        said = reply_to(target_of_message(inbound), reply)
        try:
            self.notes.end(item_id, partial(self._put, said=said))
        except StoreUnavailable as error:
            logger.info("the end of a command is stored later: %s", error)
            with self._lock:
                self._unstored.add(item_id)
            return False
        self.sent()
        return True

    def _put(self, tx: WriteTransaction, said: NewReply) -> None:
        self.outbox.put_in(tx, said)

    # ── what others left ──────────────────────────────────────────────────────────────────────

    def recover_orphaned_commands(self) -> int:
        """Do or report what processes left that are gone, and store the ends that could not be
        stored; return how many commands of others there were. At the start, and now and then.

        Raises:
            StoreError: the store cannot be used; the rest is seen to the next time.
        """
        with self._lock:
            unstored = list(self._unstored)
        for item_id in unstored:
            self.notes.end(item_id)
            with self._lock:
                self._unstored.discard(item_id)
        left = self.notes.take_over(self.process_id())
        for command in left:
            self._see_to(command)
        return len(left)

    def _see_to(self, left: OrphanedCommand) -> None:
        try:
            inbound = Inbound.from_dict(left.payload["inbound"])
            typed = parse_command(inbound.text, "gateway")
        except (HermesSessionsError, TypeError, KeyError) as error:
            logger.warning("a command that was left cannot be read: %s", where(error))
            self.notes.end(left.item_id)
            return
        if not isinstance(typed, TypedCommand):
            # Another version of this program knew it.
            name = inbound.text.split(maxsplit=1)[0].removeprefix("/")
            self._end(left.item_id, inbound, _UNKNOWN.format(name=name))
            return
        name = typed.command.name
        logger.info("a process died while it carried out /%s", name)
        if left.has_happened:
            reply = _WAS_DONE.format(name=name)
        elif typed.command.may_repeat(is_too_late=left.is_too_late):
            reply = self._done(typed, inbound, left.payload["key"], left.item_id)
        else:
            reply = _UNKNOWN.format(name=name)
        self._end(left.item_id, inbound, reply)


# Stopping a lane: ending what runs there and dropping what waits, together with another change.


@dataclass(slots=True)
class LaneStop:
    """A `Precondition` for the change that follows: a reset, or a suspension if a turn was running.
    Both happen in one transaction, so a lane is never stopped and left unchanged.
    """

    mailboxes: Mailboxes
    pool: WorkerPool
    cause: Literal["stop", "reset"]
    #: Called in the transaction.
    happened: MarkCommandDone
    #: Told of what was dropped, afterwards.
    tell_dropped: Callable[[tuple[int, ...]], None]
    #: The numbers of what waited.
    dropped: tuple[int, ...] = ()
    #: Whether there was anything to stop.
    has_stopped: bool = False
    _lane_id: int | None = None

    def __call__(self, tx: WriteTransaction, lane: Lane) -> bool:
        """Do it; return whether the other change is to be made."""
        self._lane_id = lane.id
        self.dropped = tuple(item.id for item in Mailbox.waiting(tx, lane.id))
        stopped = self.mailboxes.stop(lane, self.cause, tx=tx)
        self.has_stopped = stopped.turn is not None or bool(self.dropped)
        is_changed = self.has_stopped or self.cause == "reset"
        if is_changed:
            self.happened(tx)
        return is_changed

    def tell(self) -> None:
        """Tell those who are concerned, now that it is so."""
        if self._lane_id is not None:
            self.pool.interrupt(self._lane_id, self.cause)
            self.tell_dropped(self.dropped)

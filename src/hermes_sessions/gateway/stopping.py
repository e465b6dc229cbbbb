"""Stopping a lane: ending what runs there and dropping what waits, together with another change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hermes_sessions.gateway.command_executor import Happened
from hermes_sessions.gateway.worker_pool import LanePool
from hermes_sessions.lifecycle.mailboxes import Mailboxes
from hermes_sessions.model.lane import Lane
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.mailbox import Mailbox


@dataclass(slots=True)
class Stopping:
    """A `First` for the change that follows: a reset, or a suspension if there was anything to
    stop. Both are one transaction, so that nobody finds a lane stopped and not changed.
    """

    mailboxes: Mailboxes
    pool: LanePool
    cause: Literal["stop", "reset"]
    #: Called in the transaction.
    happened: Happened
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

"""Tells users that their message was given up, because no attempt to answer it finished.

The process that notices tells them: the worker whose turn failed, a gateway that starts, or another
one later. They are told once, in the transaction that records it.
"""

from __future__ import annotations

from typing import Final

from hermes_sessions.gateway.delivery import reply_to
from hermes_sessions.gateway.events import Target
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.lifecycle.unfinished_turns import STUCK
from hermes_sessions.model.lane import Lane
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.mailbox import TOLD, Mailbox
from hermes_sessions.storage.repositories.outbox import Outbox

GIVEN_UP: Final = (
    "I tried three times to answer your last message and never finished, so I gave up. Your next "
    "message starts a new conversation. To continue this one: /resume {session_id}"
)
#: Older lanes are not reported any more.
_MAX_AGE: Final = 3600.0


class StuckLanes:
    """The lanes of one bot that were suspended because they are stuck."""

    def __init__(self, store: SessionStore, outbox: Outbox) -> None:
        self._deps = store.engine
        self._outbox = outbox
        self._mailbox = Mailbox(store.engine.store)

    def tell(self, lane: Lane) -> bool:
        """Tell the users of a lane, unless they were told; return whether they were told now."""
        if not is_stuck(lane):
            return False
        return self._deps.store.provider.write(
            lambda tx: self.tell_in(tx, lane.id) is not None, isolated=False
        )

    def tell_all(self) -> int:
        """Tell the users of every lane that was given up recently; return how many lanes."""
        deps = self._deps
        oldest = deps.store.clock() - _MAX_AGE
        with deps.store.provider.read() as tx:
            suspended = deps.lanes.with_status(tx, deps.namespace, "suspended")
        return sum(self.tell(lane) for lane in suspended if (lane.status_at or 0) >= oldest)

    def tell_in(self, tx: WriteTransaction, lane_id: int) -> str | None:
        """Do the same within *tx*; return the text."""
        lane = self._deps.lanes.lock_by_id(tx, lane_id)
        if lane is None or not is_stuck(lane) or lane.origin is None:
            return None
        mark = f"stuck:{lane.id}:{lane.status_at!r}"
        if self._mailbox.note(tx, lane.id, mark, reason=TOLD).is_duplicate:
            return None
        origin = lane.origin
        target = Target(origin.platform.value, origin.chat_id, origin.thread_id)
        text = GIVEN_UP.format(session_id=lane.session_id)
        self._outbox.put_in(tx, reply_to(target, text, lane_id=lane.id))
        return text


def is_stuck(lane: Lane) -> bool:
    """Tell whether a lane was suspended because its turns never finish."""
    return lane.status == "suspended" and lane.status_reason == STUCK

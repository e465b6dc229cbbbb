"""Telling people that what they asked was given up, because no attempt ever finished.

Whoever finds that out tells it: the worker whose turn failed, a gateway that starts, or one that
comes by later. It is told once, in the transaction that remembers so.
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
    "I tried three times and never came to an end, so I gave up what you asked last. The next "
    "message starts a new conversation; to go on with this one: /resume {session_id}"
)
#: What was given up longer ago is not worth a message.
_WORTH_TELLING: Final = 3600.0


class StuckLanes:
    """The lanes of one bot that were suspended because they are stuck."""

    def __init__(self, store: SessionStore, outbox: Outbox) -> None:
        self._engine = store.engine
        self._outbox = outbox
        self._mailbox = Mailbox(store.engine.store)

    def tell(self, lane: Lane) -> bool:
        """Tell those who wait for an answer, unless they were told; return whether."""
        if not is_stuck(lane):
            return False
        return self._engine.store.provider.write(
            lambda tx: self.tell_in(tx, lane.id) is not None, isolated=False
        )

    def tell_all(self) -> int:
        """Tell of every lane that was given up lately; return how many were not told before."""
        engine = self._engine
        oldest = engine.store.clock() - _WORTH_TELLING
        with engine.store.provider.read() as tx:
            suspended = engine.lanes.with_status(tx, engine.namespace, "suspended")
        return sum(self.tell(lane) for lane in suspended if (lane.status_at or 0) >= oldest)

    def tell_in(self, tx: WriteTransaction, lane_id: int) -> str | None:
        """Do so together with what else *tx* does; return what is said."""
        lane = self._engine.lanes.lock_by_id(tx, lane_id)
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

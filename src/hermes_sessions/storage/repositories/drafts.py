"""Drafts that people see: which message shows what a turn has said so far.

A draft is a row of the outbox that is not to be sent: it was. So whoever goes on with the input of
a process that died replaces that message instead of beginning another one, and a draft that nobody
goes on with is found.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from hermes_sessions.storage.provider import WriteTransaction, placeholders
from hermes_sessions.storage.repositories.outbox import DUE_ALREADY, NewReply, Outbox
from hermes_sessions.storage.store import Store

DRAFT: Final = "draft"
#: Seconds that whoever ran a turn has, after its end, to do something about its draft.
_OWN_TIME: Final = 5.0


class Drafts:
    """The drafts of one namespace. Of a turn there is one at most."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._outbox = Outbox(store, namespace)

    def note(self, shown: NewReply) -> bool:
        """Remember that a turn's draft is shown, by ``draft_id``; return False, having done
        nothing, when the turn has ended: then what it said replaces that message, or somebody else
        does.
        """
        running = (
            "SELECT 1 FROM turns WHERE id = ? AND ended_at IS NULL"
            f"{self._store.provider.dialect.for_update}"
        )

        def work(tx: WriteTransaction) -> bool:
            if tx.one(running, (shown.turn_id,)) is None:
                return False
            self._outbox.put_in(tx, shown, status=DRAFT)
            return True

        return self._store.provider.write(work, isolated=False)

    def of_turn(self, turn_id: int) -> str | None:
        """Return the message that shows what a turn has said; None when it has none, any more."""
        with self._store.provider.read() as tx:
            row = tx.one(
                "SELECT draft_id FROM outbox WHERE turn_id = ? AND status = ?", (turn_id, DRAFT)
            )
        return None if row is None else row[0]

    def adopt(self, turn_id: int, by: int) -> str | None:
        """Make the draft of a turn that did not finish that of the next one; return its message."""

        def work(tx: WriteTransaction) -> bool:
            return bool(
                tx.run(
                    "UPDATE outbox SET turn_id = ? WHERE turn_id = ? AND status = ?",
                    (by, turn_id, DRAFT),
                )
            )

        return self.of_turn(by) if self._store.provider.write(work, isolated=False) else None

    def forget(self, turn_id: int) -> bool:
        """Forget the draft of a turn; return whether there was one, and so whether it was the
        caller's.
        """
        return self._store.provider.write(lambda tx: self.forget_in(tx, turn_id), isolated=False)

    @staticmethod
    def forget_in(tx: WriteTransaction, turn_id: int) -> bool:
        """Do so together with what else *tx* does."""
        return bool(tx.run("DELETE FROM outbox WHERE turn_id = ? AND status = ?", (turn_id, DRAFT)))

    def finish_left(self, text: str, *, besides: Collection[int] = ()) -> int:
        """Have *text* put in the place of drafts that nobody goes on with; return how many.

        That is so where nothing runs or waits in the lane, nor did a moment ago, and not for the
        turns *besides*: whoever still shows a draft knows that better than a clock, which may jump.
        """
        now = self._store.clock()
        not_besides = f"AND turn_id NOT IN ({placeholders(len(besides))}) " if besides else ""
        with self._store.provider.read() as tx:
            left = tx.all(
                f"SELECT id FROM outbox WHERE namespace = ? AND status = ? {not_besides}"
                "AND NOT EXISTS (SELECT 1 FROM turns "
                "WHERE turns.lane_id = outbox.lane_id "
                "AND (turns.ended_at IS NULL OR turns.ended_at > ?)) "
                "AND NOT EXISTS (SELECT 1 FROM mailbox "
                "WHERE mailbox.lane_id = outbox.lane_id AND mailbox.status IN (?, ?))",
                (self._namespace, DRAFT, *besides, now - _OWN_TIME, "waiting", "running"),
            )
        if not left:
            return 0

        def work(tx: WriteTransaction) -> int:
            return sum(
                tx.run(
                    "UPDATE outbox SET status = ?, text = ?, next_at = ? "
                    "WHERE id = ? AND status = ?",
                    ("waiting", text, DUE_ALREADY, number, DRAFT),
                )
                for (number,) in left
            )

        return self._store.provider.write(work, isolated=False)

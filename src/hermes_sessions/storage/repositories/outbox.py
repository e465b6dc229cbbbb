"""The outbox: replies to send and sent ones, in order for each chat.

A reply is written in the transaction that ends its turn. A process claims it for a limited time to
deliver it. Other processes can claim it once the claim expires or its process has ended or was
found dead, so a reply survives the death of the process that sends it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

from hermes_sessions.errors import NotFound
from hermes_sessions.storage.batches import run_in_batches
from hermes_sessions.storage.codec import to_json
from hermes_sessions.storage.provider import Row, WriteTransaction, placeholders
from hermes_sessions.storage.store_context import StoreContext

# A draft is the message that shows an answer while it is written. Its outbox row is not sent again.
# It lets the process that continues a dead process's turn replace that message instead of starting
# another one, and it lets abandoned drafts be found.


DRAFT: Final = "draft"
#: Seconds after the end of a turn in which its process can still finish its draft.
_OWN_TIME: Final = 5.0


class Drafts:
    """The drafts of one namespace; a turn has at most one."""

    def __init__(self, store: StoreContext, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._outbox = Outbox(store, namespace)

    def note(self, shown: NewReply) -> bool:
        """Record the draft of a turn, by ``draft_id``.

        Returns False and does nothing if the turn has ended: its reply or another process
        replaces the message then.
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
        """Return the id of the message that shows a turn's draft, or None."""
        with self._store.provider.read() as tx:
            row = tx.one(
                "SELECT draft_id FROM outbox WHERE turn_id = ? AND status = ?", (turn_id, DRAFT)
            )
        return None if row is None else row[0]

    def adopt(self, turn_id: int, by: int) -> str | None:
        """Move the draft of an unfinished turn to the turn *by*; return its message id, or None."""

        def work(tx: WriteTransaction) -> bool:
            return bool(
                tx.run(
                    "UPDATE outbox SET turn_id = ? WHERE turn_id = ? AND status = ?",
                    (by, turn_id, DRAFT),
                )
            )

        return self.of_turn(by) if self._store.provider.write(work, isolated=False) else None

    def forget(self, turn_id: int) -> bool:
        """Delete the draft of a turn; return whether there was one. Of several rivals, one gets
        True.
        """
        return self._store.provider.write(lambda tx: self.forget_in(tx, turn_id), isolated=False)

    @staticmethod
    def forget_in(tx: WriteTransaction, turn_id: int) -> bool:
        """Delete the draft of a turn inside an open transaction."""
        return bool(tx.run("DELETE FROM outbox WHERE turn_id = ? AND status = ?", (turn_id, DRAFT)))

    def finish_left(self, text: str, *, besides: Collection[int] = ()) -> int:
        """Queue *text* as the replacement of abandoned drafts; return their number.

        A draft is abandoned when nothing runs or waits in its lane, nor did shortly before. Turns
        in *besides* are skipped: the caller still shows them, and a clock may jump.
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


Status = Literal["waiting", "sending", "sent", "dead"]
UNFINISHED: Final = ("waiting", "sending")
#: Due time of a new reply: in the past for every clock, even one that was set back or that of
#: another host.
DUE_ALREADY: Final = 0.0

_COLUMNS: Final = (
    "id",
    "platform",
    "chat_hash",
    "target",
    "text",
    "status",
    "attempts",
    "parts_sent",
    "draft_id",
    "sent_ids",
    "next_at",
    "error",
    "created_at",
    "finished_at",
    "lane_id",
    "turn_id",
    "claimed_by",
)
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM outbox"
_OLD: Final = "FROM outbox WHERE namespace = ? AND status = ? AND finished_at < ?"
_INSERT: Final = (
    "INSERT INTO outbox (namespace, lane_id, turn_id, platform, chat_hash, target, text, status, "
    f"draft_id, next_at, created_at) VALUES ({placeholders(11)})"
)


class Outgoing(NamedTuple):
    """A stored reply."""

    id: int
    platform: str
    chat_hash: str
    #: The destination, as JSON of the gateway.
    target: str
    text: str
    status: Status
    #: Number of failed attempts.
    attempts: int
    #: Number of parts of a long text that were sent.
    parts_sent: int
    draft_id: str | None
    sent_ids: tuple[str, ...]
    #: Time of the next attempt, unless it is `DUE_ALREADY`.
    next_at: float
    error: str | None
    created_at: float
    finished_at: float | None
    lane_id: int | None
    turn_id: int | None
    claimed_by: str | None


class NewReply(NamedTuple):
    """A reply to send; replies with the same *chat* are sent in order."""

    platform: str
    chat: str
    target: str
    text: str
    lane_id: int | None = None
    turn_id: int | None = None
    draft_id: str | None = None


class Outbox:
    """The rows of ``outbox`` in one namespace."""

    def __init__(self, store: StoreContext, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    def put(self, reply: NewReply) -> int:
        """Store a reply and return its number."""
        return self._store.provider.write(lambda tx: self.put_in(tx, reply), isolated=False)

    def put_in(
        self,
        tx: WriteTransaction,
        reply: NewReply,
        *,
        status: Literal["waiting", "draft"] = "waiting",
    ) -> int:
        """Store a reply inside an open transaction. A ``draft`` is not sent; see `Drafts`."""
        return tx.insert(
            _INSERT,
            (
                self._namespace,
                reply.lane_id,
                reply.turn_id,
                reply.platform,
                chat_hash(reply.platform, reply.chat),
                reply.target,
                reply.text,
                status,
                reply.draft_id,
                DUE_ALREADY,
                self._store.clock(),
            ),
        )

    # ── delivering ────────────────────────────────────────────────────────────────────────────

    def claim(
        self,
        platforms: Sequence[str],
        claimed_by: str,
        *,
        seconds: float,
        limit: int,
        besides: Collection[int] = (),
    ) -> list[Outgoing]:
        """Claim due replies on these platforms for *seconds*: the oldest open one of each chat.

        Replies in *besides* are skipped: the caller still sends them, and a clock may jump.
        """
        if not platforms:
            return []
        now = self._store.clock()
        not_besides = f"AND id NOT IN ({placeholders(len(besides))}) " if besides else ""
        # Earlier replies to the same chat must be sent or given up first.
        due = (
            f"{_SELECT} WHERE namespace = ? AND platform IN ({placeholders(len(platforms))}) "
            "AND ((status = ? AND next_at <= ?) OR (status = ? AND claimed_until < ?)) "
            f"{not_besides}AND NOT EXISTS (SELECT 1 FROM outbox earlier "
            "WHERE earlier.chat_hash = outbox.chat_hash AND earlier.namespace = outbox.namespace "
            "AND earlier.status IN (?, ?) AND earlier.id < outbox.id) ORDER BY id LIMIT ?"
        )
        params = (
            *(self._namespace, *platforms, "waiting", now, "sending", now),
            *(*besides, *UNFINISHED, limit),
        )

        def work(tx: WriteTransaction) -> list[Outgoing]:
            claimed = []
            for row in tx.all(due, params):
                found = _outgoing(row)
                # Rivals see the same rows; the first update wins.
                if tx.run(
                    "UPDATE outbox SET status = ?, claimed_by = ?, claimed_until = ? WHERE id = ? "
                    "AND (status = ? OR (status = ? AND claimed_until < ?))",
                    ("sending", claimed_by, now + seconds, found.id, "waiting", "sending", now),
                ):
                    claimed.append(found._replace(status="sending", claimed_by=claimed_by))
            return claimed

        return self._store.provider.write(work, isolated=False)

    def release_claims_of_ended_processes(self) -> int:
        """Release the claims of processes that ended or were found dead, before they expire; return
        the number of replies.
        """
        with self._store.provider.read() as tx:
            left = tx.all(
                "SELECT outbox.id, outbox.claimed_by FROM outbox "
                "JOIN processes ON processes.id = outbox.claimed_by "
                "WHERE outbox.namespace = ? AND outbox.status = ? "
                "AND processes.ended_at IS NOT NULL ORDER BY outbox.id",
                (self._namespace, "sending"),
            )
        if not left:
            return 0

        def work(tx: WriteTransaction) -> int:
            return sum(
                tx.run(
                    "UPDATE outbox SET status = ?, claimed_by = NULL, claimed_until = NULL "
                    "WHERE id = ? AND status = ? AND claimed_by = ?",
                    ("waiting", number, "sending", claimed_by),
                )
                for number, claimed_by in left
            )

        return self._store.provider.write(work, isolated=False)

    def part_sent(self, outgoing: Outgoing, message_id: str, *, seconds: float) -> Outgoing:
        """Record the message id of the next sent part, and extend the claim.

        Raises:
            NotFound: the claim expired, and another process has the reply.
        """
        sent_ids = (*outgoing.sent_ids, message_id)
        self._change(
            outgoing,
            "parts_sent = ?, sent_ids = ?, claimed_until = ?",
            (outgoing.parts_sent + 1, to_json(list(sent_ids)), self._store.clock() + seconds),
        )
        return outgoing._replace(parts_sent=outgoing.parts_sent + 1, sent_ids=sent_ids)

    def sent(self, outgoing: Outgoing) -> None:
        """Record that all parts were sent. Raises like `part_sent`."""
        now = self._store.clock()
        self._change(outgoing, "status = ?, finished_at = ?, error = NULL", ("sent", now))

    def postpone(self, outgoing: Outgoing, seconds: float, error: str, *, failed: bool) -> None:
        """Schedule another attempt; *failed* counts this one. Raises like `part_sent`."""
        self._change(
            outgoing,
            "status = ?, next_at = ?, attempts = ?, error = ?",
            ("waiting", self._store.clock() + seconds, outgoing.attempts + failed, error),
        )

    def give_up(self, outgoing: Outgoing, error: str) -> None:
        """Mark the reply as dead; it stays listed until an operator decides. Raises like
        `part_sent`.
        """
        self._change(
            outgoing,
            "status = ?, finished_at = ?, attempts = ?, error = ?",
            ("dead", self._store.clock(), outgoing.attempts + 1, error),
        )

    def _change(self, outgoing: Outgoing, assignments: str, params: tuple[object, ...]) -> None:
        update = f"UPDATE outbox SET {assignments} WHERE id = ? AND status = ? AND claimed_by = ?"
        owned = (outgoing.id, "sending", outgoing.claimed_by)
        if not self._store.provider.write(
            lambda tx: tx.run(update, (*params, *owned)), isolated=False
        ):
            raise NotFound(f"Reply {outgoing.id} is being sent by another process.")

    def undelivered(self, number: int, part: int, message_id: str, error: str) -> bool:
        """Record that the platform reported a sent part as undelivered.

        The reply becomes dead; `revive` sends it again from that part. Returns False and does
        nothing if the part is unknown or already reported.
        """

        def work(tx: WriteTransaction) -> bool:
            row = tx.one(
                "SELECT status, parts_sent, sent_ids FROM outbox WHERE id = ? AND namespace = ?"
                f"{self._store.provider.dialect.for_update}",
                (number, self._namespace),
            )
            if row is None:
                return False
            status, parts_sent, stored_ids = row
            if status == "dead":
                return False
            sent_ids = json.loads(stored_ids) if stored_ids else []
            # The failure may be reported before the part is recorded as sent.
            is_this = parts_sent == part if part >= len(sent_ids) else sent_ids[part] == message_id
            if not is_this:
                return False
            tx.run(
                "UPDATE outbox SET status = ?, finished_at = ?, error = ?, parts_sent = ?, "
                "sent_ids = ?, draft_id = NULL WHERE id = ?",
                ("dead", self._store.clock(), error, part, to_json(sent_ids[:part]), number),
            )
            return True

        return self._store.provider.write(work, isolated=False)

    # ── listing and deciding ──────────────────────────────────────────────────────────────────

    def list(self, statuses: Sequence[Status], *, limit: int = 100) -> list[Outgoing]:
        """Return replies in these states, newest first."""
        with self._store.provider.read() as tx:
            rows = tx.all(
                f"{_SELECT} WHERE namespace = ? AND status IN ({placeholders(len(statuses))}) "
                "ORDER BY id DESC LIMIT ?",
                (self._namespace, *statuses, limit),
            )
        return [_outgoing(row) for row in rows]

    def has_unsent(self, platform: str, chat: str) -> bool:
        """Return whether a chat has unsent replies."""
        with self._store.provider.read() as tx:
            row = tx.one(
                "SELECT 1 FROM outbox WHERE chat_hash = ? AND namespace = ? AND status IN (?, ?) "
                "LIMIT 1",
                (chat_hash(platform, chat), self._namespace, *UNFINISHED),
            )
        return row is not None

    def counts(self) -> dict[str, int]:
        """Return the number of replies by status."""
        with self._store.provider.read() as tx:
            rows = tx.all(
                "SELECT status, COUNT(*) FROM outbox WHERE namespace = ? GROUP BY status",
                (self._namespace,),
            )
        return {status: int(count) for status, count in rows}

    def revive(self, number: int) -> None:
        """Queue a dead reply again, from its first unsent part.

        Raises:
            NotFound: there is no dead reply with this number.
        """
        changed = self._store.provider.write(
            lambda tx: tx.run(
                "UPDATE outbox SET status = ?, attempts = 0, next_at = ?, finished_at = NULL "
                "WHERE id = ? AND namespace = ? AND status = ?",
                ("waiting", DUE_ALREADY, number, self._namespace, "dead"),
            ),
            isolated=False,
        )
        if not changed:
            raise NotFound(
                f"There is no undelivered reply {number}. See: hermes gateway queue --dead"
            )

    def forget(self, finished_before: float, *, batch: int = 500) -> int:
        """Delete replies that were sent or given up before that time, in short transactions; return
        their number.
        """
        total = 0
        for status in ("sent", "dead"):
            some = partial(self._forget, status=status, before=finished_before, batch=batch)
            total += run_in_batches(
                self._store.provider,
                some,
                "Forgetting finished replies",
                (f"SELECT COUNT(*) {_OLD}", (self._namespace, status, finished_before)),
                isolated=False,
            )
        return total

    def _forget(self, tx: WriteTransaction, status: str, before: float, batch: int) -> int:
        rows = tx.all(
            f"SELECT id {_OLD} LIMIT ?",
            (self._namespace, status, before, batch),
        )
        if not rows:
            return 0
        old = [row[0] for row in rows]
        return tx.run(f"DELETE FROM outbox WHERE id IN ({placeholders(len(old))})", old)


def chat_hash(platform: str, chat: str) -> str:
    """Return the digest of a chat for the index, whatever the length of its id."""
    return hashlib.sha256(f"{platform}\0{chat}".encode("utf-8", "surrogatepass")).hexdigest()


def _outgoing(row: Row) -> Outgoing:
    values = dict(zip(_COLUMNS, row, strict=True))
    sent_ids = json.loads(values["sent_ids"]) if values["sent_ids"] else []
    return Outgoing(**(values | {"sent_ids": tuple(sent_ids)}))

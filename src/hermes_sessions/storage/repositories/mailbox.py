"""The mailbox: input that a lane received and has not answered, in order.

A row is ``waiting``, then ``running`` in a turn, then ``done``; or ``dropped``, with a reason. If
it returns to ``waiting``, it keeps its turn id, so that rows taken together are taken together
again. A command that runs at once is ``doing``, perhaps ``happened``, then ``done``. Finished rows
stay for a while to recognise messages that are delivered again; their text is removed, because the
transcript has it.

Every transaction that adds to a lane or takes from it locks the lane's row first. So ids are in
order within a lane, and rivals wait instead of being retried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

from hermes_sessions.errors import InvalidInput, MessageTooLarge
from hermes_sessions.model.ids import require_bounded
from hermes_sessions.storage.batches import run_in_batches
from hermes_sessions.storage.codec import from_json, to_json
from hermes_sessions.storage.provider import ReadTransaction, Row, WriteTransaction, placeholders
from hermes_sessions.storage.store_context import StoreContext

#: A plain message; one that needs its own turn; a command; a continuation after an interruption.
Kind = Literal["message", "queue", "command", "resume"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

DEFAULT_LIMIT: Final = 32
#: States of commands that are running.
_IN_HAND: Final = ("doing", "happened")
#: The reason of a row that no sender caused: it records that users were told something once.
TOLD: Final = "told"
_COUNT_OLD: Final = (
    "SELECT COUNT(*) FROM mailbox LEFT JOIN lanes ON lanes.id = mailbox.lane_id "
    "WHERE (lanes.namespace = ? OR lanes.id IS NULL) AND mailbox.status IN (?, ?) "
    "AND (mailbox.finished_at IS NULL OR mailbox.finished_at < ?)"
)


class MailboxItem(NamedTuple):
    """A row that waits or runs."""

    id: int
    lane_id: int
    kind: Kind
    #: The sender; None if unknown.
    sender: str | None
    text: str | None
    #: Data of the host; files are under ``media``.
    payload: dict[str, Any]
    #: The turn that took it, even if that did not finish.
    turn_id: int | None
    received_at: float


_ITEM: Final = ", ".join(MailboxItem._fields)


class EnqueueResult(NamedTuple):
    """The result of receiving an item; committed when it is returned."""

    #: None if the item was refused.
    item_id: int | None
    #: Number of items waiting in the lane, including this one.
    depth: int
    #: A duplicate; nothing was added.
    is_duplicate: bool = False
    #: The mailbox is full; nothing was added.
    is_refused: bool = False


class WaitingLane(NamedTuple):
    """A lane with waiting items."""

    lane_id: int
    session_key: str
    session_id: str
    depth: int
    #: The id of its oldest item: a lower one has waited longer.
    oldest_item: int


class PendingCommand(NamedTuple):
    """A command that runs, or ran when its process died."""

    id: int
    lane_id: int
    payload: dict[str, Any]
    #: Its change has been made.
    has_happened: bool


class Mailbox:
    """The rows of ``mailbox``. Methods with a write transaction expect a locked lane."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def put(
        self,
        tx: WriteTransaction,
        lane_id: int,
        *,
        kind: Kind = "message",
        sender: str | None = None,
        text: str | None = None,
        payload: Mapping[str, Any] | None = None,
        dedupe: str | None = None,
        limit: int | None = DEFAULT_LIMIT,
    ) -> EnqueueResult:
        """Add an item to the end of a lane's mailbox, unless *limit* items wait there.

        *dedupe* identifies the message across all lanes, to recognise repeated deliveries.

        Raises:
            MessageTooLarge, InvalidInput: it cannot be stored.
            ConstraintViolated: the same message was put into another lane at the same moment.
        """
        if kind not in KINDS:
            raise InvalidInput(f"Unknown kind {kind!r}; use one of: {', '.join(KINDS)}.")
        if dedupe is not None:
            require_bounded(dedupe, "dedupe")
        stored_payload = _payload_text(payload)
        self._check_size(text, stored_payload)
        depth = self.depth(tx, lane_id)
        if (known := self.find_duplicate(tx, dedupe)) is not None:
            return EnqueueResult(known, depth, is_duplicate=True)
        if limit is not None and depth >= limit:
            return EnqueueResult(None, depth, is_refused=True)
        item_id = tx.insert(
            "INSERT INTO mailbox "
            "(lane_id, dedupe, kind, sender, text, payload, status, received_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (lane_id, dedupe, kind, sender, text, stored_payload, "waiting", self._store.clock()),
        )
        return EnqueueResult(item_id, depth + 1)

    def note(
        self,
        tx: WriteTransaction,
        lane_id: int,
        dedupe: str | None,
        *,
        reason: str,
        kind: Kind = "command",
    ) -> EnqueueResult:
        """Record an item that needs no turn; the result says whether it is a duplicate."""
        if (known := self.find_duplicate(tx, dedupe)) is not None:
            return EnqueueResult(known, 0, is_duplicate=True)
        now = self._store.clock()
        item_id = tx.insert(
            "INSERT INTO mailbox (lane_id, dedupe, kind, status, received_at, finished_at, reason) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (lane_id, dedupe, kind, "done", now, now, reason),
        )
        return EnqueueResult(item_id, 0)

    # ── commands that run at once ─────────────────────────────────────────────────

    def begin_command(
        self,
        tx: WriteTransaction,
        lane_id: int,
        dedupe: str | None,
        *,
        reason: str,
        payload: Mapping[str, Any],
    ) -> EnqueueResult:
        """Record the start of a command, unless it was received before.

        Raises:
            MessageTooLarge, InvalidInput: it cannot be stored.
        """
        stored_payload = _payload_text(payload)
        self._check_size(None, stored_payload)
        if (known := self.find_duplicate(tx, dedupe)) is not None:
            return EnqueueResult(known, 0, is_duplicate=True)
        item_id = tx.insert(
            "INSERT INTO mailbox (lane_id, dedupe, kind, payload, status, received_at, reason) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (lane_id, dedupe, "command", stored_payload, "doing", self._store.clock(), reason),
        )
        return EnqueueResult(item_id, 0)

    @staticmethod
    def command_happened(tx: WriteTransaction, item_id: int) -> None:
        """Record that a command has made its change."""
        tx.run(
            "UPDATE mailbox SET status = ? WHERE id = ? AND status = ?",
            ("happened", item_id, "doing"),
        )

    @staticmethod
    def end_command(tx: WriteTransaction, item_id: int, now: float) -> bool:
        """End a running command; return whether it was running."""
        return bool(
            tx.run(
                "UPDATE mailbox SET status = ?, finished_at = ?, payload = NULL "
                "WHERE id = ? AND status IN (?, ?)",
                ("done", now, item_id, *_IN_HAND),
            )
        )

    @staticmethod
    def change_payload(tx: WriteTransaction, item_id: int, payload: Mapping[str, Any]) -> None:
        """Replace the payload of an item."""
        tx.run("UPDATE mailbox SET payload = ? WHERE id = ?", (_payload_text(payload), item_id))

    @staticmethod
    def find_command(tx: ReadTransaction, item_id: int) -> PendingCommand | None:
        """Return a running command, or None."""
        row = tx.one(
            "SELECT id, lane_id, payload, status FROM mailbox WHERE id = ? AND status IN (?, ?)",
            (item_id, *_IN_HAND),
        )
        return None if row is None else _command(row)

    @staticmethod
    def commands_in_hand(tx: ReadTransaction, namespace: str) -> list[PendingCommand]:
        """Return the running commands, oldest first."""
        rows = tx.all(
            "SELECT mailbox.id, mailbox.lane_id, mailbox.payload, mailbox.status FROM mailbox "
            "JOIN lanes ON lanes.id = mailbox.lane_id "
            "WHERE mailbox.status IN (?, ?) AND lanes.namespace = ? ORDER BY mailbox.id",
            (*_IN_HAND, namespace),
        )
        return [_command(row) for row in rows]

    @staticmethod
    def has_later(tx: ReadTransaction, lane_id: int, item_id: int) -> bool:
        """Return whether a sender sent anything to the lane after an item."""
        row = tx.one(
            "SELECT 1 FROM mailbox WHERE lane_id = ? AND id > ? AND kind <> ? "
            "AND (reason IS NULL OR reason <> ?) LIMIT 1",
            (lane_id, item_id, "resume", TOLD),
        )
        return row is not None

    def _check_size(self, text: str | None, payload: str | None) -> None:
        size = sum(len(part.encode("utf-8", "surrogatepass")) for part in (text, payload) if part)
        if size > self._store.max_message_bytes:
            raise MessageTooLarge(size, self._store.max_message_bytes)

    # ── reading ───────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def depth(tx: ReadTransaction, lane_id: int) -> int:
        """Return the number of items waiting in a lane."""
        row = tx.one(
            "SELECT COUNT(*) FROM mailbox WHERE lane_id = ? AND status = ?", (lane_id, "waiting")
        )
        return int(row[0]) if row else 0

    @staticmethod
    def has_any(tx: ReadTransaction, lane_id: int) -> bool:
        """Return whether a lane has waiting or running items."""
        row = tx.one(
            "SELECT 1 FROM mailbox WHERE lane_id = ? AND status IN (?, ?) LIMIT 1",
            (lane_id, "waiting", "running"),
        )
        return row is not None

    @staticmethod
    def find_duplicate(tx: ReadTransaction, dedupe: str | None) -> int | None:
        """Return the id of the item received with this *dedupe* key, or None."""
        if dedupe is None:
            return None
        row = tx.one("SELECT id FROM mailbox WHERE dedupe = ?", (dedupe,))
        return None if row is None else int(row[0])

    @staticmethod
    def waiting_lanes(tx: ReadTransaction, namespace: str, limit: int) -> list[WaitingLane]:
        """Return lanes with waiting items, longest waiting first."""
        rows = tx.all(
            "SELECT lanes.id, lanes.session_key, lanes.session_id, COUNT(*), MIN(mailbox.id) "
            "FROM mailbox JOIN lanes ON lanes.id = mailbox.lane_id "
            "WHERE mailbox.status = ? AND lanes.namespace = ? "
            "GROUP BY lanes.id, lanes.session_key, lanes.session_id "
            "ORDER BY MIN(mailbox.id) LIMIT ?",
            ("waiting", namespace, limit),
        )
        return [WaitingLane(*row) for row in rows]

    @staticmethod
    def waiting(tx: ReadTransaction, lane_id: int) -> list[MailboxItem]:
        """Return the waiting items of a lane, in order."""
        return _items(tx, "lane_id = ? AND status = ?", (lane_id, "waiting"))

    @staticmethod
    def of_turn(tx: ReadTransaction, turn_id: int) -> list[MailboxItem]:
        """Return the unfinished items of a turn, in order."""
        return _items(tx, "turn_id = ? AND status = ?", (turn_id, "running"))

    # ── writing, in the caller's transaction ────────────────────────────────────────────────────

    @staticmethod
    def give_to(tx: WriteTransaction, turn_id: int, item_ids: Sequence[int]) -> None:
        """Assign waiting items to a running turn."""
        tx.run(
            f"UPDATE mailbox SET status = ?, turn_id = ? "
            f"WHERE id IN ({placeholders(len(item_ids))})",
            ("running", turn_id, *item_ids),
        )

    @staticmethod
    def settle(
        tx: WriteTransaction, turn_id: int, now: float, *, reason: str, keep_text: bool
    ) -> int:
        """Finish the items of a turn; return their number. Without *keep_text*, remove text and
        payload.
        """
        forgotten = "" if keep_text else ", text = NULL, payload = NULL"
        return tx.run(
            f"UPDATE mailbox SET status = ?, finished_at = ?, reason = ?{forgotten} "
            f"WHERE turn_id = ? AND status = ?",
            ("done", now, reason, turn_id, "running"),
        )

    @staticmethod
    def give_back(tx: WriteTransaction, turn_id: int, item_ids: Iterable[int] | None = None) -> int:
        """Return items of a turn to waiting, in their old order; return their number.

        Given ids leave the turn. Without ids, all items wait and will be taken together again.
        """
        if item_ids is None:
            return tx.run(
                "UPDATE mailbox SET status = ? WHERE turn_id = ? AND status = ?",
                ("waiting", turn_id, "running"),
            )
        return sum(
            tx.run(
                "UPDATE mailbox SET status = ?, turn_id = NULL "
                "WHERE id = ? AND turn_id = ? AND status = ?",
                ("waiting", item_id, turn_id, "running"),
            )
            for item_id in item_ids
        )

    @staticmethod
    def drop(tx: WriteTransaction, lane_id: int, now: float, *, reason: str) -> int:
        """Drop the waiting items of a lane; return their number."""
        return tx.run(
            "UPDATE mailbox SET status = ?, finished_at = ?, reason = ? "
            "WHERE lane_id = ? AND status = ?",
            ("dropped", now, reason, lane_id, "waiting"),
        )

    @staticmethod
    def drop_turn(tx: WriteTransaction, turn_id: int, now: float, *, reason: str) -> int:
        """Drop the items of a turn; return their number."""
        return tx.run(
            "UPDATE mailbox SET status = ?, finished_at = ?, reason = ? "
            "WHERE turn_id = ? AND status = ?",
            ("dropped", now, reason, turn_id, "running"),
        )

    # ── deleting ────────────────────────────────────────────────────────────────────────────

    def forget(self, namespace: str, older_than: float, *, batch: int = 500) -> int:
        """Delete items of a namespace that finished before *older_than*, in short transactions.

        Afterwards a repeated delivery of such an item counts as new. Returns the number deleted.
        """
        return run_in_batches(
            self._store.provider,
            lambda tx: _forget(tx, namespace, older_than, batch),
            "Forgetting finished messages",
            (_COUNT_OLD, (namespace, "done", "dropped", older_than)),
        )


def _forget(tx: WriteTransaction, namespace: str, older_than: float, batch: int) -> int:
    removed = 0
    for status in ("done", "dropped"):
        # In the order of ids, which is indexed and nearly the order in which rows finished.
        rows = tx.all(
            "SELECT mailbox.id, mailbox.finished_at FROM mailbox "
            "LEFT JOIN lanes ON lanes.id = mailbox.lane_id WHERE mailbox.status = ? "
            "AND (lanes.namespace = ? OR lanes.id IS NULL) ORDER BY mailbox.id LIMIT ?",
            (status, namespace, batch),
        )
        old = [item_id for item_id, finished_at in rows if (finished_at or 0) < older_than]
        if old:
            removed += tx.run(f"DELETE FROM mailbox WHERE id IN ({placeholders(len(old))})", old)
    return removed


def _command(row: Row) -> PendingCommand:
    item_id, lane_id, payload, status = row
    return PendingCommand(item_id, lane_id, from_json(payload, {}), status == "happened")


def _items(tx: ReadTransaction, condition: str, params: tuple[Any, ...]) -> list[MailboxItem]:
    rows = tx.all(f"SELECT {_ITEM} FROM mailbox WHERE {condition} ORDER BY id", params)
    found = []
    for row in rows:
        fields = dict(zip(MailboxItem._fields, row, strict=True))
        found.append(MailboxItem(**fields | {"payload": from_json(fields["payload"], {})}))
    return found


def _payload_text(payload: Mapping[str, Any] | None) -> str | None:
    if not payload:
        return None
    try:
        return to_json(dict(payload))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"The payload cannot be stored as JSON: {error}.") from error

"""The mailbox: what was received for a lane and has not been answered, in order.

A row is ``waiting``, then ``running`` with the turn that took it, then ``done``; or ``dropped``,
with a reason. A row that comes back to ``waiting`` keeps the number of the turn that had it: what
was taken together is taken together again. A command that is carried out at once is ``doing``,
maybe ``happened``, then ``done``. Finished rows stay for a while, so that a message that is
delivered again is recognised; what they said is in the transcript by then, and not kept twice.

Whoever adds to a lane or takes from it locks the lane's row first. So ids are in order inside a
lane, and rivals wait for each other instead of being run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

from hermes_sessions.errors import InvalidInput, MessageTooLarge
from hermes_sessions.model.ids import require_bounded
from hermes_sessions.storage.batched_work import run_in_batches
from hermes_sessions.storage.codec import from_json, to_json
from hermes_sessions.storage.provider import ReadTransaction, Row, WriteTransaction, placeholders
from hermes_sessions.storage.store import Store

#: A plain message; one that asked for a turn of its own; a command; going on after an interruption.
Kind = Literal["message", "queue", "command", "resume"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

DEFAULT_LIMIT: Final = 32
#: Commands that are being carried out, and not done.
_IN_HAND: Final = ("doing", "happened")
#: The reason of a note that nobody sent: that people were told something once.
TOLD: Final = "told"
_COUNT_OLD: Final = (
    "SELECT COUNT(*) FROM mailbox LEFT JOIN lanes ON lanes.id = mailbox.lane_id "
    "WHERE (lanes.namespace = ? OR lanes.id IS NULL) AND mailbox.status IN (?, ?) "
    "AND (mailbox.finished_at IS NULL OR mailbox.finished_at < ?)"
)


class MailboxItem(NamedTuple):
    """One row that waits or runs."""

    id: int
    lane_id: int
    kind: Kind
    #: Who sent it; None when that is not known.
    sender: str | None
    text: str | None
    #: What the host wants to find again; files under ``media``.
    payload: dict[str, Any]
    #: The turn that has it, or had it and did not finish.
    turn_id: int | None
    received_at: float


_ITEM: Final = ", ".join(MailboxItem._fields)


class EnqueueResult(NamedTuple):
    """What became of something that was received; durable when it is returned."""

    #: None when it was refused.
    item_id: int | None
    #: How many wait in the lane, this one included.
    depth: int
    #: It was received before; nothing was added.
    is_duplicate: bool = False
    #: The mailbox is full; nothing was added.
    is_refused: bool = False


class WaitingLane(NamedTuple):
    """A lane with something to do."""

    lane_id: int
    session_key: str
    session_id: str
    depth: int
    #: The number of its oldest item: lower has waited longer.
    oldest_item: int


class PendingCommand(NamedTuple):
    """A command that is being carried out, or was when its process died."""

    id: int
    lane_id: int
    payload: dict[str, Any]
    #: What it changes has been changed.
    has_happened: bool


class Mailbox:
    """The rows of ``mailbox``. Methods that take a transaction expect the lane to be locked."""

    def __init__(self, store: Store) -> None:
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
        """Add to the end of a lane's mailbox, in which at most *limit* wait.

        *dedupe* tells a message that is delivered again from a new one, in whatever lane.

        Raises:
            MessageTooLarge, InvalidInput: it cannot be stored.
            ConstraintViolated: the same message was put into another lane at the same moment.
        """
        if kind not in KINDS:
            raise InvalidInput(f"Kind {kind!r} is not known; known are: {', '.join(KINDS)}.")
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
        """Remember that something was received that needs no turn, and when it is received again,
        say so.
        """
        if (known := self.find_duplicate(tx, dedupe)) is not None:
            return EnqueueResult(known, 0, is_duplicate=True)
        now = self._store.clock()
        item_id = tx.insert(
            "INSERT INTO mailbox (lane_id, dedupe, kind, status, received_at, finished_at, reason) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (lane_id, dedupe, kind, "done", now, now, reason),
        )
        return EnqueueResult(item_id, 0)

    # ── commands that are carried out at once ─────────────────────────────────────────────────

    def begin_command(
        self,
        tx: WriteTransaction,
        lane_id: int,
        dedupe: str | None,
        *,
        reason: str,
        payload: Mapping[str, Any],
    ) -> EnqueueResult:
        """Note a command that somebody begins to carry out, unless it was received before.

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
        """Note that what a command changes has been changed."""
        tx.run(
            "UPDATE mailbox SET status = ? WHERE id = ? AND status = ?",
            ("happened", item_id, "doing"),
        )

    @staticmethod
    def end_command(tx: WriteTransaction, item_id: int, now: float) -> bool:
        """End a command that is being carried out; return whether it was."""
        return bool(
            tx.run(
                "UPDATE mailbox SET status = ?, finished_at = ?, payload = NULL "
                "WHERE id = ? AND status IN (?, ?)",
                ("done", now, item_id, *_IN_HAND),
            )
        )

    @staticmethod
    def change_payload(tx: WriteTransaction, item_id: int, payload: Mapping[str, Any]) -> None:
        """Replace what is kept beside the text of an item."""
        tx.run("UPDATE mailbox SET payload = ? WHERE id = ?", (_payload_text(payload), item_id))

    @staticmethod
    def find_command(tx: ReadTransaction, item_id: int) -> PendingCommand | None:
        """Return a command that is being carried out, or None."""
        row = tx.one(
            "SELECT id, lane_id, payload, status FROM mailbox WHERE id = ? AND status IN (?, ?)",
            (item_id, *_IN_HAND),
        )
        return None if row is None else _command(row)

    @staticmethod
    def commands_in_hand(tx: ReadTransaction, namespace: str) -> list[PendingCommand]:
        """Return the commands that are being carried out, oldest first."""
        rows = tx.all(
            "SELECT mailbox.id, mailbox.lane_id, mailbox.payload, mailbox.status FROM mailbox "
            "JOIN lanes ON lanes.id = mailbox.lane_id "
            "WHERE mailbox.status IN (?, ?) AND lanes.namespace = ? ORDER BY mailbox.id",
            (*_IN_HAND, namespace),
        )
        return [_command(row) for row in rows]

    @staticmethod
    def has_later(tx: ReadTransaction, lane_id: int, item_id: int) -> bool:
        """Tell whether somebody sent something to a lane after an item."""
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
        """Return how many wait in a lane."""
        row = tx.one(
            "SELECT COUNT(*) FROM mailbox WHERE lane_id = ? AND status = ?", (lane_id, "waiting")
        )
        return int(row[0]) if row else 0

    @staticmethod
    def has_any(tx: ReadTransaction, lane_id: int) -> bool:
        """Tell whether anything of a lane waits or runs."""
        row = tx.one(
            "SELECT 1 FROM mailbox WHERE lane_id = ? AND status IN (?, ?) LIMIT 1",
            (lane_id, "waiting", "running"),
        )
        return row is not None

    @staticmethod
    def find_duplicate(tx: ReadTransaction, dedupe: str | None) -> int | None:
        """Return the number of what was received under this mark, or None."""
        if dedupe is None:
            return None
        row = tx.one("SELECT id FROM mailbox WHERE dedupe = ?", (dedupe,))
        return None if row is None else int(row[0])

    @staticmethod
    def waiting_lanes(tx: ReadTransaction, namespace: str, limit: int) -> list[WaitingLane]:
        """Return lanes in which something waits, those that have waited longest first."""
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
        """Return what waits in a lane, in order."""
        return _items(tx, "lane_id = ? AND status = ?", (lane_id, "waiting"))

    @staticmethod
    def of_turn(tx: ReadTransaction, turn_id: int) -> list[MailboxItem]:
        """Return what a turn has taken and not finished, in order."""
        return _items(tx, "turn_id = ? AND status = ?", (turn_id, "running"))

    # ── writing, in somebody's transaction ────────────────────────────────────────────────────

    @staticmethod
    def give_to(tx: WriteTransaction, turn_id: int, item_ids: Sequence[int]) -> None:
        """Make rows that wait those of a running turn."""
        tx.run(
            f"UPDATE mailbox SET status = ?, turn_id = ? "
            f"WHERE id IN ({placeholders(len(item_ids))})",
            ("running", turn_id, *item_ids),
        )

    @staticmethod
    def settle(
        tx: WriteTransaction, turn_id: int, now: float, *, reason: str, keep_text: bool
    ) -> int:
        """End what a turn has; return how many that were. Without *keep_text* only the fact is
        kept that they were received.
        """
        forgotten = "" if keep_text else ", text = NULL, payload = NULL"
        return tx.run(
            f"UPDATE mailbox SET status = ?, finished_at = ?, reason = ?{forgotten} "
            f"WHERE turn_id = ? AND status = ?",
            ("done", now, reason, turn_id, "running"),
        )

    @staticmethod
    def give_back(tx: WriteTransaction, turn_id: int, item_ids: Iterable[int] | None = None) -> int:
        """Let what a turn has wait again, in its old place; return how many that were.

        Rows that are named leave the turn; without names all of them wait, to be taken together.
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
        """Drop what waits in a lane; return how many that were."""
        return tx.run(
            "UPDATE mailbox SET status = ?, finished_at = ?, reason = ? "
            "WHERE lane_id = ? AND status = ?",
            ("dropped", now, reason, lane_id, "waiting"),
        )

    @staticmethod
    def drop_turn(tx: WriteTransaction, turn_id: int, now: float, *, reason: str) -> int:
        """Drop what a turn has; return how many that were."""
        return tx.run(
            "UPDATE mailbox SET status = ?, finished_at = ?, reason = ? "
            "WHERE turn_id = ? AND status = ?",
            ("dropped", now, reason, turn_id, "running"),
        )

    # ── forgetting ────────────────────────────────────────────────────────────────────────────

    def forget(self, namespace: str, older_than: float, *, batch: int = 500) -> int:
        """Delete rows of a bot that were finished before a moment, in short steps; return how many.

        From then on a message that is delivered again is a new one.
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
        # By id, which is nearly the order in which they were finished, and has an index.
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

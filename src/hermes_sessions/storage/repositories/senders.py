"""Senders that the owner allowed by a pairing code, or blocked, per platform."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from hermes_sessions.errors import InvalidInput, NotFound
from hermes_sessions.storage.provider import Row, WriteTransaction
from hermes_sessions.storage.store_context import StoreContext

Status = Literal["pending", "allowed", "blocked"]

#: Without characters that look alike.
_ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_CODE_LENGTH: Final = 8
#: Seconds for which a code is valid.
CODE_SECONDS: Final = 3600.0
#: Pending senders per platform; further ones get no code.
MOST_PENDING: Final = 20
#: Codes per sender.
MOST_CODES: Final = 5

_KEY: Final = ("namespace", "platform", "sender_id")
_COLUMNS: Final = (
    "platform",
    "sender_id",
    "status",
    "name",
    "expires_at",
    "attempts",
    "created_at",
)
_WRITTEN: Final = (
    *_KEY,
    "status",
    "name",
    "code_hash",
    "expires_at",
    "attempts",
    "created_at",
    "decided_at",
)
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM senders"


class Sender(NamedTuple):
    """A sender that is allowed, blocked or waiting for approval."""

    platform: str
    sender_id: str
    status: Status
    name: str | None
    expires_at: float | None
    #: Number of codes issued.
    attempts: int
    created_at: float


class Senders:
    """The rows of ``senders`` in one namespace."""

    def __init__(self, store: StoreContext, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    def status(self, platform: str, sender_id: str) -> Status | None:
        """Return the status of a sender, or None if unknown."""
        with self._store.provider.read() as tx:
            row = tx.one(
                "SELECT status FROM senders WHERE namespace = ? AND platform = ? AND sender_id = ?",
                (self._namespace, platform, sender_id),
            )
        return None if row is None else row[0]

    def list(self, status: Status | None = None) -> list[Sender]:
        """Return the known senders, latest first; with *status*, only those."""
        where, params = ("", ()) if status is None else (" AND status = ?", (status,))
        with self._store.provider.read() as tx:
            rows = tx.all(
                f"{_SELECT} WHERE namespace = ?{where} ORDER BY created_at DESC, sender_id",
                (self._namespace, *params),
            )
        return [Sender(*row) for row in rows]

    def request(
        self, platform: str, sender_id: str, name: str | None, choose: Callable[[str], str]
    ) -> str | None:
        """Issue a code that the owner can approve; return None if the sender gets no more codes.

        *choose* picks a random character. Only a digest of the code is stored.
        """
        code = "".join(choose(_ALPHABET) for _ in range(_CODE_LENGTH))
        now = self._store.clock()

        def work(tx: WriteTransaction) -> str | None:
            (pending,) = _first(
                tx.one(
                    "SELECT COUNT(*) FROM senders WHERE namespace = ? AND platform = ? "
                    "AND status = ? AND expires_at > ? AND sender_id <> ?",
                    (self._namespace, platform, "pending", now, sender_id),
                )
            )
            known = self._find(tx, platform, sender_id)
            attempts = 0 if known is None else known.attempts
            if known is not None and known.expires_at is not None and known.expires_at <= now:
                attempts = 0
            is_decided = known is not None and known.status != "pending"
            if is_decided or pending >= MOST_PENDING or attempts >= MOST_CODES:
                return None
            self._write(
                tx,
                Sender(platform, sender_id, "pending", name, now + CODE_SECONDS, attempts + 1, now),
                code_hash=_digest(code),
            )
            return code

        return self._store.provider.write(work)

    def approve(self, code: str) -> Sender:
        """Allow the sender who was given this code, and return the sender.

        Raises:
            NotFound: the code is unknown or expired.
        """
        wanted = _digest(code.strip().upper().replace("-", ""))
        now = self._store.clock()

        def work(tx: WriteTransaction) -> Sender:
            rows = tx.all(
                f"SELECT code_hash, {', '.join(_COLUMNS)} FROM senders WHERE namespace = ? "
                "AND status = ? AND expires_at > ?",
                (self._namespace, "pending", now),
            )
            for code_hash, *values in rows:
                if code_hash and hmac.compare_digest(code_hash, wanted):
                    return self._decide(tx, Sender(*values), "allowed")
            raise NotFound("The code is unknown or has expired. See: hermes gateway pair --list")

        return self._store.provider.write(work)

    def decide(self, platform: str, sender_id: str, status: Literal["allowed", "blocked"]) -> None:
        """Allow or block a sender, known or not.

        Raises:
            InvalidInput: the id is empty.
        """
        if not sender_id:
            raise InvalidInput("Give the sender's id on the platform.")

        def work(tx: WriteTransaction) -> None:
            known = self._find(tx, platform, sender_id)
            fresh = Sender(platform, sender_id, status, None, None, 0, self._store.clock())
            self._decide(tx, known or fresh, status)

        self._store.provider.write(work)

    def forget(self, platform: str, sender_id: str) -> bool:
        """Delete a sender; return whether there was one."""
        return bool(
            self._store.provider.write(
                lambda tx: tx.run(
                    "DELETE FROM senders WHERE namespace = ? AND platform = ? AND sender_id = ?",
                    (self._namespace, platform, sender_id),
                )
            )
        )

    def _find(self, tx: WriteTransaction, platform: str, sender_id: str) -> Sender | None:
        row = tx.one(
            f"{_SELECT} WHERE namespace = ? AND platform = ? AND sender_id = ?",
            (self._namespace, platform, sender_id),
        )
        return None if row is None else Sender(*row)

    def _decide(
        self, tx: WriteTransaction, sender: Sender, status: Literal["allowed", "blocked"]
    ) -> Sender:
        decided = sender._replace(status=status, expires_at=None)
        self._write(tx, decided, decided_at=self._store.clock())
        return decided

    def _write(
        self,
        tx: WriteTransaction,
        sender: Sender,
        *,
        code_hash: str | None = None,
        decided_at: float | None = None,
    ) -> None:
        changed = [name for name in _WRITTEN if name not in (*_KEY, "created_at")]
        tx.run(
            self._store.provider.dialect.upsert("senders", _WRITTEN, _KEY, changed),
            (
                self._namespace,
                sender.platform,
                sender.sender_id,
                sender.status,
                sender.name,
                code_hash,
                sender.expires_at,
                sender.attempts,
                sender.created_at,
                decided_at,
            ),
        )


def _first(row: Row | None) -> Row:
    return row if row is not None else (0,)


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()

"""The spool of a chat: messages that wait in a file while the store is unavailable.

A message that cannot be stored is written to a spool (``storage.spool``) before the user is told
that it is safe. It carries an external id, so that storing it twice has no effect. It is stored
with the next message of the same chat, or at the start of the next chat.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from hermes_sessions.config.settings import SessionDBSettings
from hermes_sessions.errors import (
    ConstraintViolated,
    ConversationHeld,
    InvalidInput,
    NotADatabase,
    NotFound,
    SchemaRefused,
    StaleFence,
    StoreCorrupt,
    StoreUnavailable,
    UnsafeStore,
)
from hermes_sessions.storage.repositories.leases import Lease
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.spool import EntryFormat, Spool

#: The errors of a store that takes no messages at the moment. It may be repaired, or this program
#: updated; then spooled messages can be stored.
STORE_UNAVAILABLE_ERRORS: Final = (
    StoreUnavailable,
    StoreCorrupt,
    NotADatabase,
    SchemaRefused,
    UnsafeStore,
)
#: Seconds for which a conversation is locked while a message is added to it.
_LEASE_SECONDS: Final = 30.0
_HOLDER: Final = "a chat that stores spooled messages"
#: The fields that a message may have; a later version may have written others.
_PARAMETERS: Final = frozenset(inspect.signature(SessionDB.append_message).parameters) - {
    "self",
    "session_id",
    "fence",
}


@dataclass(frozen=True, slots=True)
class SpooledMessage:
    """A message that is not stored yet, with the fields to create its session if necessary."""

    session_id: str
    source: str
    #: Parameters of `SessionDB.append_message`; always with ``external_id`` and ``timestamp``.
    message: Mapping[str, Any]
    model: str | None = None
    system_prompt: str | None = None
    user_id: str | None = None
    #: The fence under which it should have been stored; the turn it belonged to is over.
    fence: int | None = None
    #: The directory that the chat works in.
    cwd: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it in a form that JSON can hold."""
        return {
            "session_id": self.session_id,
            "source": self.source,
            "message": dict(self.message),
            "model": self.model,
            "system_prompt": self.system_prompt,
            "user_id": self.user_id,
            "fence": self.fence,
            "cwd": self.cwd,
        }

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Return the message that `to_dict` wrote.

        Raises:
            KeyError, TypeError, ValueError: *values* are not valid.
        """
        message = dict(values["message"])
        if not (message["role"] and message["external_id"]):
            raise ValueError("a message needs a role and an id")
        if not message.keys() <= _PARAMETERS:
            raise ValueError("a later version wrote this message")
        return cls(
            str(values["session_id"]),
            str(values["source"]),
            message,
            values["model"],
            values["system_prompt"],
            values["user_id"],
            values.get("fence"),
            values.get("cwd"),
        )


class ChatSpool:
    """The messages of one process that wait for one store. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._spool: Spool[SpooledMessage] = Spool(
            directory, EntryFormat(SpooledMessage.to_dict, SpooledMessage.from_dict)
        )
        #: How many messages the store rejected for good; they were set aside.
        self.refused = 0

    @property
    def waiting(self) -> int:
        """How many messages are waiting."""
        return self._spool.waiting

    def adopt(self) -> int:
        """Take over the messages of chats that have ended; return how many are waiting.

        Raises:
            OSError: some files cannot be read and remain; the others were taken over.
        """
        return self._spool.adopt()

    def append(self, message: SpooledMessage) -> None:
        """Write a message to disk and return when it is safe there.

        Raises:
            OSError: the message was not written.
        """
        self._spool.append(message)

    def store_all(self, db: SessionDB) -> int:
        """Store the waiting messages in order; return how many. Messages that can never be stored
        are set aside and counted by `refused` only.

        Raises:
            STORE_UNAVAILABLE_ERRORS: the store is still unavailable; the rest keeps waiting.
            ConversationHeld, StaleFence: another process runs a turn there; the rest keeps waiting.
            OSError: the spool cannot be read or written; the rest keeps waiting.
        """
        refused = self.refused
        done = self._spool.replay(lambda spooled: self._store(db, spooled))
        return done - (self.refused - refused)

    @property
    def directory(self) -> Path:
        """The directory of the spool."""
        return self._spool.directory

    def close(self) -> None:
        """Release the file; messages left in it are stored at the next start."""
        self._spool.close()

    def _store(self, db: SessionDB, spooled: SpooledMessage) -> None:
        try:
            _store_message(db, spooled)
        except (ConversationHeld, StaleFence):
            raise
        except (InvalidInput, NotFound, ConstraintViolated) as error:
            # The store rejects this message, not its state. Later messages must not wait for it.
            self._spool.put_aside(spooled, error)
            self.refused += 1


def _store_message(db: SessionDB, spooled: SpooledMessage) -> None:
    if db.get_session(spooled.session_id) is None:
        db.create_session(
            spooled.session_id,
            spooled.source,
            model=spooled.model,
            system_prompt=spooled.system_prompt,
            user_id=spooled.user_id,
            started_at=spooled.message.get("timestamp"),
            cwd=spooled.cwd,
        )
    target = db.get_compression_tip(spooled.session_id)
    if db.has_external_id(spooled.session_id, spooled.message["external_id"]):
        return  # It was stored before the connection broke, then the session was compacted.
    if spooled.fence is not None:
        # The turn that held this lease could not release it, and is over.
        db.release_lease(Lease(target, target, spooled.fence, _HOLDER, None, 0.0))
    lease = db.take_lease(target, _HOLDER, ttl=_LEASE_SECONDS)
    try:
        db.append_message(target, **spooled.message, fence=lease.token)
    finally:
        db.release_lease(lease)


def new_external_id() -> str:
    """Return a new external id for a message."""
    return f"chat-{secrets.token_hex(16)}"


def chat_spool_root(home: Path) -> Path:
    """Return the directory of the spools of all stores."""
    return home / "spool"


def chat_spool_directory(home: Path, settings: SessionDBSettings) -> Path:
    """Return the directory of the spool of the configured store."""
    if settings.store_file is not None:
        # One file can be reached by several names.
        facts: tuple[object, ...] = (os.path.realpath(settings.store_file),)
    elif (server := settings.server) is not None:
        address = _without_password(server.dsn)
        facts = (address, server.host, server.port, server.database, getattr(server, "schema", ""))
    else:
        facts = (_without_password(settings.dsn),)
    named = json.dumps([settings.provider, *facts])
    return chat_spool_root(home) / hashlib.sha256(named.encode()).hexdigest()[:16]


def _without_password(url: str | None) -> str | None:
    """Return host and path of a URL: a changed password does not make another store."""
    return None if url is None else url.partition("://")[2].rpartition("@")[2]


#: Called with a message that could not be stored: the session id, the message, and the fence under
#: which it should have been stored, if any. Must not raise.
UnstoredHandler = Callable[[str, Mapping[str, Any], int | None], None]

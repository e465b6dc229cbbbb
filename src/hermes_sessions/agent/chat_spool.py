"""What was said in a chat while the store was away: kept in a file here, stored exactly once later.

A message that the store could not take is written to a spool (``storage.spool``) with the id by
which the store recognises it, before anybody is told that it is kept. It is stored at the next
chance: when the next line is said in the same chat, or at the start of the next one.
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

#: How a store fails that is away: it takes nothing now, whatever it is. It may be repaired, or this
#: program be updated, and then it takes what was kept.
STORE_UNAVAILABLE_ERRORS: Final = (
    StoreUnavailable,
    StoreCorrupt,
    NotADatabase,
    SchemaRefused,
    UnsafeStore,
)
#: Seconds for which a conversation is held while a message is added to it.
_HELD: Final = 30.0
_HOLDER: Final = "a chat that stores what was said while the store was away"
#: What a message may consist of; anything else was written by a later version.
_PARAMETERS: Final = frozenset(inspect.signature(SessionDB.append_message).parameters) - {
    "self",
    "session_id",
    "fence",
}


@dataclass(frozen=True, slots=True)
class SpooledMessage:
    """A message that is not stored yet, with what its session needs if that is not, either."""

    session_id: str
    source: str
    #: Parameters of `SessionDB.append_message`; always with ``external_id`` and ``timestamp``.
    message: Mapping[str, Any]
    model: str | None = None
    system_prompt: str | None = None
    user_id: str | None = None
    #: The token under which it was to be stored; the turn it belonged to is over.
    fence: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "session_id": self.session_id,
            "source": self.source,
            "message": dict(self.message),
            "model": self.model,
            "system_prompt": self.system_prompt,
            "user_id": self.user_id,
            "fence": self.fence,
        }

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Return what `to_dict` gave.

        Raises:
            KeyError, TypeError, ValueError: it did not give this.
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
        )


class ChatSpool:
    """The messages of one process that wait for one store. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._spool: Spool[SpooledMessage] = Spool(
            directory, EntryFormat(SpooledMessage.to_dict, SpooledMessage.from_dict)
        )
        #: How many messages the store refused for good; they were put aside.
        self.refused = 0

    @property
    def waiting(self) -> int:
        """How many messages wait."""
        return self._spool.waiting

    def adopt(self) -> int:
        """Take over what chats left that are gone; return how many messages wait.

        Raises:
            OSError: some of it cannot be read, and stays; the rest was taken over.
        """
        return self._spool.adopt()

    def keep(self, kept: SpooledMessage) -> None:
        """Write a message to disk; it is there when this returns.

        Raises:
            OSError: it is not.
        """
        self._spool.append(kept)

    def store_all(self, db: SessionDB) -> int:
        """Store what waits, in order; return how many messages. Those that can never be stored are
        put aside, and counted by `refused` alone.

        Raises:
            AWAY: the store is still away; what was not stored stays.
            ConversationHeld, StaleFence: somebody is at work in a conversation; the same.
            OSError: what waits cannot be read or put aside; the same.
        """
        refused = self.refused
        done = self._spool.replay(lambda kept: self._store(db, kept))
        return done - (self.refused - refused)

    @property
    def directory(self) -> Path:
        """Where the messages wait."""
        return self._spool.directory

    def close(self) -> None:
        """Let go of the file; what waits in it is stored at the next start."""
        self._spool.close()

    def _store(self, db: SessionDB, kept: SpooledMessage) -> None:
        try:
            _add(db, kept)
        except (ConversationHeld, StaleFence):
            raise
        except (InvalidInput, NotFound, ConstraintViolated) as error:
            # It is the message that the store does not want. Those after it must not wait for ever.
            self._spool.put_aside(kept, error)
            self.refused += 1


def _add(db: SessionDB, kept: SpooledMessage) -> None:
    if db.get_session(kept.session_id) is None:
        db.create_session(
            kept.session_id,
            kept.source,
            model=kept.model,
            system_prompt=kept.system_prompt,
            user_id=kept.user_id,
            started_at=kept.message.get("timestamp"),
        )
    target = db.get_compression_tip(kept.session_id)
    if db.has_external_id(kept.session_id, kept.message["external_id"]):
        return  # It was stored after all, before the session was continued by another.
    if kept.fence is not None:
        # Whoever held the conversation could not give it back, and is in nobody's way any more.
        db.release_lease(Lease(target, target, kept.fence, _HOLDER, None, 0.0))
    lease = db.take_lease(target, _HOLDER, ttl=_HELD)
    try:
        db.append_message(target, **kept.message, fence=lease.token)
    finally:
        db.release_lease(lease)


def new_external_id() -> str:
    """Return an id for a message, by which the store recognises it."""
    return f"chat-{secrets.token_hex(16)}"


def chat_spool_root(home: Path) -> Path:
    """Return where the messages of all stores wait that are used from a home."""
    return home / "spool"


def chat_spool_directory(home: Path, settings: SessionDBSettings) -> Path:
    """Return where messages wait for the configured store: for this one, and for no other."""
    if settings.provider == "sqlite":
        # The same file under another name is the same store.
        facts: tuple[object, ...] = (os.path.realpath(settings.sqlite.path),)
    elif settings.provider in ("postgresql", "mysql"):
        server = settings.postgresql if settings.provider == "postgresql" else settings.mysql
        place = _without_password(server.dsn)
        facts = (place, server.host, server.port, server.database, getattr(server, "schema", ""))
    else:
        facts = (_without_password(settings.dsn),)
    named = json.dumps([settings.provider, *facts])
    return chat_spool_root(home) / hashlib.sha256(named.encode()).hexdigest()[:16]


def _without_password(url: str | None) -> str | None:
    """Return what a URL says about the place: whoever changes the password moves no store."""
    return None if url is None else url.partition("://")[2].rpartition("@")[2]


#: Takes a message that could not be stored: the session's id, the message, and the token under
#: which it was to be stored, if any. Does not raise.
UnstoredHandler = Callable[[str, Mapping[str, Any], int | None], None]

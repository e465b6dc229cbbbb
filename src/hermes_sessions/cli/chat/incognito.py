"""The incognito chat: its sessions and its input history are in memory only.

This program writes nothing of it to disk: no store, no spool, no input history, no file. It is gone
when the process ends, even after a crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hermes_sessions.cli.chat.outage import OutageHandler
from hermes_sessions.errors import InvalidInput, StoreError
from hermes_sessions.storage.care.health import HEALTHY, HealthWatch
from hermes_sessions.storage.sessiondb import SessionDB

if TYPE_CHECKING:
    from hermes_sessions.agent.chat import Chat
    from hermes_sessions.cli.console import Console

SIGN: Final = "[incognito] "
ON: Final = "Incognito: this chat is not stored and is gone when you leave."
OFF: Final = "This chat is stored. hermes chat --incognito starts one that is not."
LEFT: Final = "Nothing was stored."


def open_in_memory(console: Console) -> SessionDB:
    """Open a private store in memory."""
    return SessionDB.from_url("sqlite://", clock=console.clock)


def require_stored(what: str, *, incognito: bool) -> None:
    """Reject the action *what*, which would copy messages out of an incognito chat.

    Raises:
        InvalidInput: the chat is incognito.
    """
    if incognito:
        raise InvalidInput(f"{what} is not possible in an incognito chat.")


class IncognitoOutageHandler(OutageHandler):
    """An outage handler without a spool: it writes no messages, and leaves the messages of other
    chats to their own store.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self.health = HealthWatch(HEALTHY)

    @property
    def sign(self) -> str:
        """The mark before the prompt."""
        return SIGN

    def keep(self, *_what: object) -> None:
        """Do nothing: messages may not be written to disk."""

    def store_leftovers(self) -> None:
        """Do nothing: earlier messages belong to another store."""

    def catch_up(self, chat: Chat) -> None:
        """Do nothing: no messages wait."""

    def worked(self) -> None:
        """Do nothing: the store in memory has no health to watch."""

    def failed(self, error: StoreError) -> bool:
        """Tell the user that the message was not accepted; it cannot be spooled."""
        self._tell(f"Not accepted: {error}")
        return False

    def report_pending(self) -> None:
        """Do nothing: no messages wait."""

    def close(self) -> None:
        """Do nothing: there is no file."""

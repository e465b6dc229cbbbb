"""A chat of which nothing is stored: its sessions are in memory, and so is what was typed.

Nothing of it reaches a disk through this program: no store, no spool, no input history, no file. It
is gone when the process is, however that ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hermes_sessions.cli.chat.outage import OutageHandler
from hermes_sessions.errors import InvalidInput, StoreError
from hermes_sessions.storage.care.health import HEALTHY, HealthWatch
from hermes_sessions.storage.sessiondb import SessionDB

if TYPE_CHECKING:
    from hermes_sessions.agent.conversation import Conversation
    from hermes_sessions.cli.console import Console

SIGN: Final = "[incognito] "
ON: Final = "Incognito: nothing of this chat is stored; it is gone when you leave."
OFF: Final = "This chat is stored as it happens. hermes chat --incognito begins one that is not."
LEFT: Final = "Nothing was stored."


def open_in_memory(console: Console) -> SessionDB:
    """Open a store that is nobody else's, and gone with the process."""
    return SessionDB.from_url("sqlite://", clock=console.clock)


def require_stored(what: str, *, incognito: bool) -> None:
    """Refuse *what* would bring something of an incognito chat to somewhere else.

    Raises:
        InvalidInput: the chat is one.
    """
    if incognito:
        raise InvalidInput(f"{what} is not possible in an incognito chat: nothing leaves it.")


class IncognitoOutageHandler(OutageHandler):
    """In the place of what keeps messages in a file: it keeps none, and takes up none that other
    chats left, which are for the store that there is otherwise.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self.health = HealthWatch(HEALTHY)

    @property
    def sign(self) -> str:
        """What stands before the prompt."""
        return SIGN

    def keep(self, *_what: object) -> None:
        """Keep nothing."""

    def store_leftovers(self) -> None:
        """Take up nothing."""

    def catch_up(self, conversation: Conversation) -> None:
        """Nothing waits."""

    def worked(self) -> None:
        """Nothing to note."""

    def failed(self, error: StoreError) -> bool:
        """Say that it was not taken; it cannot be kept anywhere."""
        self._tell(f"Not taken: {error}")
        return False

    def report_pending(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """There is no file."""

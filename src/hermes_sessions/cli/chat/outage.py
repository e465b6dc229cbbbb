"""A chat while the store is unavailable: messages go to a file and are stored later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from hermes_sessions.agent.chat_spool import (
    STORE_UNAVAILABLE_ERRORS,
    ChatSpool,
    SpooledMessage,
    chat_spool_directory,
)
from hermes_sessions.cli.render.chat import wrapped
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.errors import HermesSessionsError, StoreError, StoreIOError
from hermes_sessions.storage.care.health import HEALTHY, Health, HealthWatch, State

if TYPE_CHECKING:
    from hermes_sessions.agent.chat import Chat, Origin
    from hermes_sessions.cli.console import Console
    from hermes_sessions.config.settings import Settings
    from hermes_sessions.storage.sessiondb import SessionDB

_LATER: Final = "It is stored when the store is back, or by: hermes doctor --fix"


class OutageHandler:
    """Spools the messages that a chat cannot store. Not thread-safe, except for reading `sign`."""

    def __init__(
        self,
        console: Console,
        db: SessionDB,
        settings: Settings,
        origin: Origin,
        *,
        keeps_questions: bool,
    ) -> None:
        """Without *keeps_questions*, a question that cannot be stored is rejected, and the user can
        ask again: only the model's messages are spooled.
        """
        self._console = console
        self._db = db
        self._origin = origin
        self._keeps_questions = keeps_questions
        self._spool = ChatSpool(chat_spool_directory(settings.home, settings.sessiondb))
        self.health = HealthWatch(_first(db))
        self._kept = 0
        self._not_kept: OSError | None = None

    @property
    def sign(self) -> str:
        """The mark before the prompt while the store is not healthy."""
        state = self.health.now.state
        return "" if state is State.HEALTHY else f"[{state.value}] "

    def keep(
        self, session_id: str, message: Mapping[str, Any], fence: int | None, model: str
    ) -> None:
        """Spool a message that could not be stored; `failed` reports the result."""
        if message["role"] == "user" and not self._keeps_questions:
            return
        try:
            self._spool.append(
                SpooledMessage(
                    session_id,
                    self._origin.source,
                    {**message, "timestamp": self._console.clock()},
                    model,
                    self._origin.system_prompt,
                    self._origin.user_id,
                    fence,
                    self._origin.cwd,
                )
            )
        except OSError as error:
            self._not_kept = error
        else:
            self._kept += 1
        self.health.waits(self._spool.waiting)

    def store_leftovers(self) -> None:
        """At the start, store the spooled messages of chats that have ended, and say so."""
        try:
            self._spool.adopt()
        except OSError as error:
            self._tell(f"Cannot read the spooled messages of earlier chats: {error}")
        try:
            if self._spool.waiting:
                self._tell_stored(self._spool.store_all(self._db))
        except (HermesSessionsError, OSError) as error:
            number = counted(self._spool.waiting, "message")
            self._tell(f"{number} from earlier chats could not be stored yet: {error}")
        self.health.waits(self._spool.waiting)

    def catch_up(self, chat: Chat) -> None:
        """Store spooled messages before the next one is sent, so that their order is kept.

        Raises:
            STORE_UNAVAILABLE_ERRORS: the store is unavailable, or the spool cannot be read.
            ConversationHeld, StaleFence: another process runs a turn in the conversation.
        """
        if not self._spool.waiting:
            return
        chat.release_leftover_lease()
        try:
            number = self._spool.store_all(self._db)
        except OSError as error:
            if isinstance(error, STORE_UNAVAILABLE_ERRORS):
                raise
            raise StoreIOError(f"Cannot use {self._spool.directory}: {error}") from error
        self.worked()
        chat.switch_to_spooled_session()
        self._tell_stored(number)

    def worked(self) -> None:
        """Note that the store accepted a write."""
        self.health.worked()
        self.health.waits(self._spool.waiting)

    def failed(self, error: StoreError) -> bool:
        """Tell the user that the store is unavailable and where the message is; return whether it
        is safe.
        """
        self.health.failed(error)
        kept, self._kept = self._kept, 0
        not_kept, self._not_kept = self._not_kept, None
        self._tell(f"Not stored: {error}")
        if not_kept is not None:
            self._tell(
                f"It could not be written to a file, either ({not_kept.strerror or not_kept}). "
                f"Copy what you want to keep."
            )
        elif kept:
            self._tell(f"Your message is kept in a file on this machine. {_LATER}")
        return not_kept is None

    def report_pending(self) -> None:
        """Tell the user how many messages still wait."""
        waiting = self._spool.waiting
        if waiting:
            wait = "waits" if waiting == 1 else "wait"
            self._tell(
                f"{counted(waiting, 'message')} {wait} in a file on this machine. To store: start "
                f"hermes again, or run: hermes doctor --fix"
            )

    def close(self) -> None:
        """Release the file; messages left in it are stored at the next start."""
        self._spool.close()

    def _tell_stored(self, number: int) -> None:
        if number:
            waited = f"{counted(number, 'waiting message')} {'was' if number == 1 else 'were'}"
            self._tell(f"The store is back: {waited} stored.")
        refused = self._spool.refused
        if refused:
            self._spool.refused = 0
            self._tell(
                f"{counted(refused, 'waiting message')} cannot be stored; see *.refused in "
                f"{self._spool.directory}"
            )

    def _tell(self, text: str) -> None:
        self._console.tell(wrapped(text, self._console.style, "  "))


def _first(db: SessionDB) -> Health:
    if db.store.provider.read_only:
        return Health(State.READ_ONLY, "The store was opened read-only.")
    return HEALTHY

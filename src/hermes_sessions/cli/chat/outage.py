"""A chat while the store is away: what is said is kept in a file, and stored when it is back."""

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
    from hermes_sessions.agent.conversation import Conversation, Origin
    from hermes_sessions.cli.console import Console
    from hermes_sessions.config.settings import Settings
    from hermes_sessions.storage.sessiondb import SessionDB

_LATER: Final = "it is stored when the store is back, or by: hermes doctor --fix"


class OutageHandler:
    """Looks after what one chat could not store. One thread at a time may use it, and any may
    read `sign`.
    """

    def __init__(
        self,
        console: Console,
        db: SessionDB,
        settings: Settings,
        origin: Origin,
        *,
        keeps_questions: bool,
    ) -> None:
        """Without *keeps_questions*, whoever asks is told that a question was not taken, and asks
        again: only what a model said is kept.
        """
        self._console = console
        self._db = db
        self._origin = origin
        self._keeps_questions = keeps_questions
        self._keeping = ChatSpool(chat_spool_directory(settings.home, settings.sessiondb))
        self.health = HealthWatch(_first(db))
        self._kept = 0
        self._not_kept: OSError | None = None

    @property
    def sign(self) -> str:
        """What stands before the prompt while the store is not healthy."""
        state = self.health.now.state
        return "" if state is State.HEALTHY else f"[{state.value}] "

    def keep(
        self, session_id: str, message: Mapping[str, Any], fence: int | None, model: str
    ) -> None:
        """Keep a message that could not be stored. Whether that worked, `failed` tells."""
        if message["role"] == "user" and not self._keeps_questions:
            return
        try:
            self._keeping.keep(
                SpooledMessage(
                    session_id,
                    self._origin.source,
                    {**message, "timestamp": self._console.clock()},
                    model,
                    self._origin.system_prompt,
                    self._origin.user_id,
                    fence,
                )
            )
        except OSError as error:
            self._not_kept = error
        else:
            self._kept += 1
        self.health.waits(self._keeping.waiting)

    def store_leftovers(self) -> None:
        """At the start: store what chats kept that are gone, and say so."""
        try:
            self._keeping.adopt()
        except OSError as error:
            self._tell(f"What earlier chats kept cannot be read: {error}")
        try:
            if self._keeping.waiting:
                self._tell_stored(self._keeping.store_all(self._db))
        except (HermesSessionsError, OSError) as error:
            number = counted(self._keeping.waiting, "message")
            self._tell(f"{number} from earlier could not be stored yet: {error}")
        self.health.waits(self._keeping.waiting)

    def catch_up(self, conversation: Conversation) -> None:
        """Before something is said: store what waits, so that the order is kept, and say so.

        Raises:
            AWAY: the store is still away, or what waits cannot be read.
            ConversationHeld, StaleFence: somebody else is at work there.
        """
        if not self._keeping.waiting:
            return
        conversation.release_leftover_lease()
        try:
            number = self._keeping.store_all(self._db)
        except OSError as error:
            if isinstance(error, STORE_UNAVAILABLE_ERRORS):
                raise
            raise StoreIOError(f"What waits in {self._keeping.directory}: {error}") from error
        self.worked()
        conversation.switch_to_spooled_session()
        self._tell_stored(number)

    def worked(self) -> None:
        """Note that the store took something."""
        self.health.worked()
        self.health.waits(self._keeping.waiting)

    def failed(self, error: StoreError) -> bool:
        """Say that the store did not take what was said, and what became of it; return whether
        nothing is lost.
        """
        self.health.failed(error)
        kept, self._kept = self._kept, 0
        not_kept, self._not_kept = self._not_kept, None
        self._tell(f"Not stored: {error}")
        if not_kept is not None:
            self._tell(
                f"It could not be kept in a file, either ({not_kept.strerror or not_kept}). Copy "
                f"what is worth it."
            )
        elif kept:
            self._tell(f"What was said is kept in a file here; {_LATER}")
        return not_kept is None

    def report_pending(self) -> None:
        """Say what still waits."""
        waiting = self._keeping.waiting
        if waiting:
            wait = "waits" if waiting == 1 else "wait"
            self._tell(
                f"{counted(waiting, 'message')} {wait} in a file here to be stored, at the next "
                f"start of hermes, or by: hermes doctor --fix"
            )

    def close(self) -> None:
        """Let go of the file; what waits in it is stored at the next start."""
        self._keeping.close()

    def _tell_stored(self, number: int) -> None:
        if number:
            waited = f"{counted(number, 'message')} that waited {'is' if number == 1 else 'are'}"
            self._tell(f"The store is back: {waited} stored.")
        refused = self._keeping.refused
        if refused:
            self._keeping.refused = 0
            self._tell(
                f"{counted(refused, 'message')} that waited cannot be stored; see *.refused in "
                f"{self._keeping.directory}"
            )

    def _tell(self, text: str) -> None:
        self._console.tell(wrapped(text, self._console.style, "  "))


def _first(db: SessionDB) -> Health:
    if db.store.provider.read_only:
        return Health(State.READ_ONLY, "The store was opened for reading only.")
    return HEALTHY

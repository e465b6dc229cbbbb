"""Who asks, and what every shape needs to know about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from hermes_sessions.errors import InvalidInput, NotFound
from hermes_sessions.recall.dates import long_date
from hermes_sessions.recall.message_excerpts import label
from hermes_sessions.recall.scoped_store import ScopedStore

Record = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Somebody with a question: what they may see, and where they are."""

    store: ScopedStore
    #: The conversation that is going on now, which is not the past.
    current_conversation: str | None
    zone: tzinfo | None

    def past_session(self, session_id: str) -> Record:
        """Return a session.

        Raises:
            NotFound: there is none, or none that the asker may see: the answer is the same.
            InvalidInput: it belongs to the current conversation.
        """
        session = self.store.find_session(session_id)
        if session is None:
            raise NotFound("There is no session with that id.")
        if session["conversation_id"] == self.current_conversation:
            raise InvalidInput(
                "That session is part of the current conversation; session_search is for past ones."
            )
        return session

    def conversations_left_out(self, session_ids: tuple[str, ...]) -> tuple[str, ...]:
        """Return the current conversation and those of the sessions named, as far as seen."""
        named = [self.store.find_session(session_id) for session_id in session_ids]
        found = [session["conversation_id"] for session in named if session is not None]
        current = [] if self.current_conversation is None else [self.current_conversation]
        return tuple(dict.fromkeys([*current, *found]))

    def date(self, moment: float) -> str:
        """Return a moment as the asker reads it."""
        return long_date(moment, self.zone)

    def meta(self, session: Record) -> Record:
        """Return what is said about a session that is opened."""
        return {
            "when": self.date(session["started_at"]),
            "source": label(session["source"]),
            "model": label(session["model"]),
            "title": label(session["title"]),
        }

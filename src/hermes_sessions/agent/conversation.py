"""A conversation as a surface holds it: which session it is in, and what people do to it.

The session's row is made by the first message, so that looking around leaves nothing behind. Every
verb that the slash commands need is here once; terminals and messengers only show what it returns.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Event
from typing import Any, Final

from hermes_sessions.agent.compaction import compact
from hermes_sessions.agent.turn import Agent, TurnEvent
from hermes_sessions.errors import InvalidInput, NotFound, TitleTaken
from hermes_sessions.model.ids import new_session_id
from hermes_sessions.model.title import sanitize_title

Record = dict[str, Any]

#: How sessions end that are left for another one, or because the surface closes.
NEW: Final = "new_session"
RESUMED_OTHER: Final = "resumed_other"
BRANCHED: Final = "branched"
_COPIED: Final = (
    "role",
    "content",
    "tool_name",
    "tool_calls",
    "tool_call_id",
    "token_count",
    "finish_reason",
    "reasoning",
    "timestamp",
)


@dataclass(frozen=True, slots=True)
class Origin:
    """What a new session of this surface is given."""

    source: str
    user_id: str | None = None
    system_prompt: str | None = None


class Conversation:
    """One person's place in the store; not thread-safe."""

    def __init__(
        self,
        agent: Agent,
        origin: Origin,
        session_id: str | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """*session_id* names a stored session to go on with; without one, the first message
        starts a new one.
        """
        self.agent = agent
        self._origin = origin
        self._clock = clock
        #: The session, None until there is one.
        self.session_id = session_id
        #: A title for the session that is not there yet.
        self.pending_title: str | None = None

    # ── talking ───────────────────────────────────────────────────────────────────────────────

    def say(self, content: Any, *, interrupt: Event | None = None) -> Iterator[TurnEvent]:
        """Say something and be answered; see `Agent.run_turn`."""
        return self.agent.run_turn(self._begun(), content, interrupt=interrupt)

    def _begun(self) -> str:
        """Return the session, made now if there is none; a session that had ended goes on."""
        db = self.agent.db
        if self.session_id is not None:
            session = db.get_session(self.session_id)
            if session is not None and session["ended_at"] is not None:
                db.reopen_session(self.session_id)
            return self.session_id
        session_id = self._new_id()
        db.create_session(
            session_id,
            self._origin.source,
            model=self.agent.model or self.agent.client.default_model,
            user_id=self._origin.user_id,
            system_prompt=self._origin.system_prompt,
        )
        self.session_id = session_id
        if self.pending_title is not None:
            title, self.pending_title = self.pending_title, None
            try:
                db.set_session_title(session_id, title)
            except TitleTaken:
                # It was free when it was asked for; the next number is what was meant.
                db.set_auto_title_if_empty(session_id, title)
        return session_id

    def _new_id(self) -> str:
        return new_session_id(self._clock(), secrets.token_hex)

    # ── titles ────────────────────────────────────────────────────────────────────────────────

    @property
    def title(self) -> str | None:
        """The title, or the one that waits for the first message."""
        if self.session_id is None:
            return self.pending_title
        return self.agent.db.get_session_title(self.session_id)

    def set_title(self, text: str) -> str:
        """Set the title, or keep it for the first message; return it as it is stored.

        Raises:
            InvalidInput: nothing visible, too long, or another session has it.
        """
        wanted = sanitize_title(text)
        if wanted is None:
            raise InvalidInput("A title needs at least one visible character.")
        db = self.agent.db
        if self.session_id is not None:
            db.set_session_title(self.session_id, wanted)
        else:
            holder = db.get_session_by_title(wanted)
            if holder is not None:
                raise TitleTaken(wanted, holder["id"])
            self.pending_title = wanted
        return wanted

    # ── other sessions ────────────────────────────────────────────────────────────────────────

    def start_new(self, title: str | None = None) -> None:
        """Leave this session; the next message starts another one, with *title*.

        Raises:
            InvalidInput: the title cannot be used; nothing was changed.
        """
        leaving, self.session_id, self.pending_title = self.session_id, None, None
        if title:
            try:
                self.set_title(title)
            except InvalidInput:
                self.session_id = leaving
                raise
        if leaving is not None:
            self.agent.db.end_session(leaving, NEW)

    def switch_to(self, session_id: str) -> None:
        """Go on with a stored session, or with what continues it; nothing is written to it until
        something is said.

        Raises:
            NotFound: there is no such session.
        """
        db = self.agent.db
        if db.get_session(session_id) is None:
            raise NotFound(f"There is no session {session_id!r}. See: hermes sessions list")
        target = db.resolve_resume_session_id(session_id)
        if target == self.session_id:
            return
        if self.session_id is not None:
            db.end_session(self.session_id, RESUMED_OTHER)
        self.session_id, self.pending_title = target, None

    def branch(self, title: str | None = None) -> str:
        """Go on in a copy of this session; return its id. This one stays as it is.

        Raises:
            InvalidInput: nothing was said yet, or the title cannot be used.
        """
        db = self.agent.db
        session = db.get_session(self.session_id) if self.session_id else None
        messages = db.get_messages(session["id"]) if session else []
        if session is None or not messages:
            raise InvalidInput("There is nothing to branch from yet.")
        wanted = sanitize_title(title) if title else None
        if wanted and (holder := db.get_session_by_title(wanted)) is not None:
            raise TitleTaken(wanted, holder["id"])
        branch_id = self._new_id()
        db.create_session(
            branch_id,
            session["source"],
            model=session["model"],
            system_prompt=session["system_prompt"],
            parent_session_id=session["id"],
            edge_kind="branch",
        )
        db.append_messages(
            branch_id,
            [{name: message[name] for name in _COPIED} for message in messages],
        )
        db.set_auto_title_if_empty(branch_id, wanted or session["title"] or "Branch")
        db.end_session(session["id"], BRANCHED)
        self.session_id = branch_id
        return branch_id

    def compress(self, focus: str | None = None) -> str:
        """Go on with a summary of this session; return the new id. See `compaction.compact`."""
        if self.session_id is None:
            raise InvalidInput("There is nothing to summarise yet.")
        self.session_id = compact(
            self.agent.db,
            self.session_id,
            self.agent.client,
            new_session_id=self._new_id(),
            model=self.agent.model,
            focus=focus or None,
        )
        return self.session_id

    # ── taking back ───────────────────────────────────────────────────────────────────────────

    def undo(self, exchanges: int = 1) -> Record:
        """Take the last exchanges back, as many as there are; return ``count`` (messages hidden),
        ``exchanges`` and ``text`` (what the first of them asked).

        Raises:
            InvalidInput: there is nothing to take back, or the number is below 1.
        """
        if exchanges < 1:
            raise InvalidInput("Say how many exchanges to take back: 1 or more.")
        db = self.agent.db
        asked = db.list_recent_user_messages(self.session_id, exchanges) if self.session_id else []
        if self.session_id is None or not asked:
            raise InvalidInput("There is nothing to take back.")
        done = db.rewind_to_message(self.session_id, asked[-1]["id"])
        return {
            "count": done["rewound_count"],
            "exchanges": len(asked),
            "text": done["target_text"],
        }

    def retry(self, *, interrupt: Event | None = None) -> Iterator[TurnEvent]:
        """Ask the last question again; the answer it had is taken back.

        Raises:
            InvalidInput: nothing was asked yet.
        """
        db = self.agent.db
        asked = db.list_recent_user_messages(self.session_id, 1) if self.session_id else []
        if self.session_id is None or not asked:
            raise InvalidInput("There is nothing to ask again.")
        (question,) = (
            message
            for message in db.get_messages(self.session_id)
            if message["id"] == asked[0]["id"]
        )
        db.rewind_to_message(self.session_id, question["id"])
        return self.agent.run_turn(self.session_id, question["content"], interrupt=interrupt)

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def leave(self, reason: str) -> Record | None:
        """End the session; return it as it is stored, None when nothing was said."""
        if self.session_id is None:
            return None
        self.agent.db.end_session(self.session_id, reason)
        return self.agent.db.get_session(self.session_id)

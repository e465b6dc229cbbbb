"""A conversation as a surface holds it: which session it is in, and what people do to it.

The session's row is made by the first message, so that looking around leaves nothing behind. Every
verb that the slash commands need is here once; terminals and messengers only show what it returns.

Whatever is written is written under a lease, so that of two terminals that have the same session
open one at a time runs a turn, and the other is told who does.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from threading import Event, Lock
from typing import Any, Final

from hermes_sessions.agent.chat_spool import STORE_UNAVAILABLE_ERRORS, new_external_id
from hermes_sessions.agent.compaction import compact
from hermes_sessions.agent.turn import Agent, TurnEvent
from hermes_sessions.errors import InvalidInput, NotFound, TitleTaken
from hermes_sessions.lifecycle.lease_renewal import ConversationLease
from hermes_sessions.model.ids import new_session_id
from hermes_sessions.model.title import sanitize_title
from hermes_sessions.storage.repositories.leases import Lease

Record = Mapping[str, Any]

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
    #: What others are told who want to write while a turn runs here.
    holder: str | None = None

    @property
    def holder_in_words(self) -> str:
        """Who holds a conversation of this surface."""
        return self.holder or (
            f"a chat from {self.source} on {socket.gethostname()} (process {os.getpid()})"
        )


class Conversation:
    """One person's place in the store.

    One thread at a time may talk in it; titles can be read and set meanwhile.
    """

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
        #: The id of a session that could not be made yet, because the store was away.
        self._coming_id: str | None = None
        #: Leases that could not be given back for the same reason.
        self._left: list[Lease] = []
        #: A title for the session that is not there yet.
        self.pending_title: str | None = None
        #: Between making the session and giving it that title, nobody may change the title.
        self._beginning = Lock()
        self._holding: ConversationLease | None = None
        #: Whether something was said or done in the session here.
        self._is_changed = False

    # ── holding ───────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def held(self, interrupt: Event | None = None) -> Iterator[str]:
        """Hold the conversation, so that nobody else writes to it meanwhile; give the session,
        made now if there is none, or the one that continues it by now. May be nested, and does
        nothing more where the agent has a token already.

        *interrupt* is set when the conversation was taken away, because this process was silent
        for too long.

        Raises:
            ConversationHeld: somebody else runs a turn in it; the error says who.
        """
        with self._beginning:
            session_id = self._begun()
        self._is_changed = True
        if self._fence is not None:
            yield session_id
            return
        self.release_leftover_lease()
        words, on_lost = self._origin.holder_in_words, interrupt.set if interrupt else _nothing
        holding = ConversationLease(self.agent.db, session_id, words, on_lost=on_lost)
        try:
            with holding:
                self._holding = holding
                try:
                    yield self._latest_continuation(session_id)
                finally:
                    self._holding = None
        finally:
            if holding.left is not None:
                self._left.append(holding.left)

    def release_leftover_lease(self) -> None:
        """Give back what could not be given back when the store was away; else this very process
        would be in its own way.
        """
        while self._left:
            self.agent.db.release_lease(self._left[-1])
            self._left.pop()

    @property
    def _fence(self) -> int | None:
        return self._holding.token if self._holding is not None else self.agent.fence

    def _latest_continuation(self, session_id: str) -> str:
        """Return what a session goes on as, which may have been summarised in another place since;
        one that had ended goes on, too.
        """
        db = self.agent.db
        self.session_id = session_id = db.get_compression_tip(session_id)
        session = db.get_session(session_id)
        if session is not None and session["ended_at"] is not None:
            db.reopen_session(session_id)
        return session_id

    # ── talking ───────────────────────────────────────────────────────────────────────────────

    def say(
        self,
        content: Any,
        *,
        interrupt: Event | None = None,
        steering: Callable[[], str | None] = lambda: None,
    ) -> Iterator[TurnEvent]:
        """Say something and be answered; see `Agent.run_turn` and `held`.

        What the store cannot take goes to the agent's `Agent.unstored`.
        """
        with ExitStack() as stack:
            try:
                session_id = stack.enter_context(self.held(interrupt))
            except STORE_UNAVAILABLE_ERRORS:
                self.keep(content)
                raise
            agent = replace(self.agent, fence=self._fence)
            yield from agent.run_turn(session_id, content, interrupt=interrupt, steering=steering)

    def keep(self, content: Any) -> None:
        """Have what was said kept for a store that is away, where the agent can."""
        if self.agent.unstored is None:
            return
        with self._beginning:
            if self.session_id is None and self._coming_id is None:
                self._coming_id = self._new_id()
            session_id = self.session_id or self._coming_id or ""
        message = {"role": "user", "content": content, "external_id": new_external_id()}
        self.agent.unstored(session_id, message, None)

    def switch_to_spooled_session(self) -> None:
        """Go on in the session that was made when what was kept for it was stored."""
        coming = self._coming_id
        if self.session_id is None and coming and self.agent.db.get_session(coming) is not None:
            with self._beginning:
                self._begun()
            self._is_changed = True

    def answer(self, *, interrupt: Event | None = None) -> Iterator[TurnEvent]:
        """Be answered to what the session ends with; see `Agent.answer` and `held`."""
        with self.held(interrupt) as session_id:
            agent = replace(self.agent, fence=self._fence)
            yield from agent.answer(session_id, interrupt=interrupt)

    def _begun(self) -> str:
        """Return the session, made now if there is none."""
        db = self.agent.db
        if self.session_id is not None:
            return self.session_id
        # The same one, however often it has to be tried.
        session_id = self._coming_id = self._coming_id or self._new_id()
        db.create_session(
            session_id,
            self._origin.source,
            model=self.agent.asked_model,
            user_id=self._origin.user_id,
            system_prompt=self._origin.system_prompt,
        )
        self.session_id, self._coming_id = session_id, None
        if self.pending_title is not None:
            title, self.pending_title = self.pending_title, None
            try:
                db.set_session_title(session_id, title)
            except TitleTaken:
                # It was free when it was asked for; the next number is what was meant.
                db.set_auto_title_if_empty(session_id, title)
        return session_id

    def _new_id(self) -> str:
        return new_session_id(self._clock())

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
        with self._beginning:
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
        self._coming_id = None
        if title:
            try:
                self.set_title(title)
            except InvalidInput:
                self.session_id = leaving
                raise
        if leaving is not None and self._is_changed:
            self.agent.db.end_session(leaving, NEW)
        self._is_changed = False

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
        if self.session_id is not None and self._is_changed:
            db.end_session(self.session_id, RESUMED_OTHER)
        self.session_id, self.pending_title, self._coming_id = target, None, None
        self._is_changed = False

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
        self._is_changed = True
        return branch_id

    def compress(self, focus: str | None = None, *, interrupt: Event | None = None) -> str:
        """Go on with a summary of this session; return the new id. See `compaction.compact` and
        `held`.
        """
        if self.session_id is None:
            raise InvalidInput("There is nothing to summarise yet.")
        with self.held(interrupt) as session_id:
            self.session_id = compact(
                self.agent.db,
                session_id,
                self.agent.client,
                new_session_id=self._new_id(),
                model=self.agent.model,
                focus=focus or None,
                pricing=self.agent.pricing,
                interrupt=interrupt,
                fence=self._fence,
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
        if self.session_id is None:
            raise InvalidInput("There is nothing to take back.")
        db = self.agent.db
        with self.held() as session_id:
            asked = db.list_recent_user_messages(session_id, exchanges)
            if not asked:
                raise InvalidInput("There is nothing to take back.")
            done = db.rewind_to_message(session_id, asked[-1]["id"], fence=self._fence)
        return {
            "count": done["rewound_count"],
            "exchanges": len(asked),
            "text": done["target_text"],
        }

    def retry(self, *, interrupt: Event | None = None) -> Iterator[TurnEvent]:
        """Ask the last question again; the answer it had is taken back. See `held`.

        Raises:
            InvalidInput: nothing was asked yet.
        """
        if self.session_id is None:
            raise InvalidInput("There is nothing to ask again.")
        db = self.agent.db
        with self.held(interrupt) as session_id:
            asked = db.list_recent_user_messages(session_id, 1)
            if not asked:
                raise InvalidInput("There is nothing to ask again.")
            (question,) = (
                message
                for message in db.get_messages(session_id)
                if message["id"] == asked[0]["id"]
            )
            db.rewind_to_message(session_id, question["id"], fence=self._fence)
            yield from self.say(question["content"], interrupt=interrupt)

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def leave(self, reason: str) -> Record | None:
        """End the session, unless it was only looked at; return it as it is stored, None when
        there is none.
        """
        if self.session_id is None:
            return None
        if self._is_changed:
            self.agent.db.end_session(self.session_id, reason)
        return self.agent.db.get_session(self.session_id)


def _nothing() -> None:
    pass

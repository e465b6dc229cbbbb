"""A chat with an agent: its current session, and the operations on it.

The first message creates the row of the session, so that looking around leaves nothing behind. The
operations behind the slash commands are here; a terminal or messenger only shows their results.

Every write happens under a lease. If two terminals have the same session open, one at a time runs a
turn, and the other is told which process does.
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
from hermes_sessions.lifecycle.conversation_lease import ConversationLease
from hermes_sessions.model.ids import new_session_id
from hermes_sessions.model.title import sanitize_title
from hermes_sessions.storage.repositories.leases import Lease

Record = Mapping[str, Any]

#: The end reasons of sessions that the user leaves for another one, or by closing the chat.
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
    """The fields of new sessions of this surface."""

    source: str
    user_id: str | None = None
    system_prompt: str | None = None
    #: The directory that it works in, which decides the workspace.
    cwd: str | None = None
    #: Shown to other processes that want to write while a turn runs here.
    holder: str | None = None

    @property
    def holder_text(self) -> str:
        """The holder of leases of this surface, as other processes show it."""
        return self.holder or (
            f"a chat from {self.source} on {socket.gethostname()} (process {os.getpid()})"
        )


class Chat:
    """The chat of one user with an agent.

    One thread at a time may send messages; other threads may read and set the title meanwhile.
    """

    def __init__(
        self,
        agent: Agent,
        origin: Origin,
        session_id: str | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """*session_id* names a stored session to continue; without one, the first message starts a
        new session.
        """
        self.agent = agent
        self._origin = origin
        self._clock = clock
        #: The current session; None before the first message.
        self.session_id = session_id
        #: The id of a session that could not be created because the store was unavailable.
        self._planned_id: str | None = None
        #: Leases that could not be released for the same reason.
        self._unreleased_leases: list[Lease] = []
        #: The title for a session that does not exist yet.
        self.pending_title: str | None = None
        #: Held while the session is created and gets its title, so that no other title is set.
        self._creation_lock = Lock()
        self._lease: ConversationLease | None = None
        #: Whether this chat has changed the session.
        self._is_changed = False

    # ── leases ────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def held(self, interrupt: Event | None = None) -> Iterator[str]:
        """Hold the conversation so that no other process writes to it; yield the session id.

        The session is created if there is none, and is the continuation if it was compacted.
        Blocks may be nested; where the agent has a fence already, nothing is acquired.

        *interrupt* is set if the lease is lost because this process was silent for too long.

        Raises:
            ConversationHeld: another process runs a turn in it; the error says which.
        """
        with self._creation_lock:
            session_id = self._ensure_session()
        self._is_changed = True
        if self._fence is not None:
            yield session_id
            return
        self.release_leftover_lease()
        words, on_lost = self._origin.holder_text, interrupt.set if interrupt else _nothing
        lease = ConversationLease(self.agent.db, session_id, words, on_lost=on_lost)
        try:
            with lease:
                self._lease = lease
                try:
                    yield self._latest_continuation(session_id)
                finally:
                    self._lease = None
        finally:
            if lease.left is not None:
                self._unreleased_leases.append(lease.left)

    def release_leftover_lease(self) -> None:
        """Release leases that could not be released while the store was unavailable; otherwise
        this process would wait for itself.
        """
        while self._unreleased_leases:
            self.agent.db.release_lease(self._unreleased_leases[-1])
            self._unreleased_leases.pop()

    @property
    def _fence(self) -> int | None:
        return self._lease.token if self._lease is not None else self.agent.fence

    def _latest_continuation(self, session_id: str) -> str:
        """Return the session that continues *session_id*: another process may have compacted it.
        Reopens a session that had ended.
        """
        db = self.agent.db
        self.session_id = session_id = db.get_compression_tip(session_id)
        session = db.get_session(session_id)
        if session is not None and session["ended_at"] is not None:
            db.reopen_session(session_id)
        return session_id

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    def say(
        self,
        content: Any,
        *,
        interrupt: Event | None = None,
        steering: Callable[[], str | None] = lambda: None,
    ) -> Iterator[TurnEvent]:
        """Send a message and yield the events of the answer; see `Agent.run_turn` and `held`.

        Messages that cannot be stored go to `Agent.unstored`.
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
        """Give a message to the spool while the store is unavailable, if the agent has one."""
        if self.agent.unstored is None:
            return
        with self._creation_lock:
            if self.session_id is None and self._planned_id is None:
                self._planned_id = self._new_id()
            session_id = self.session_id or self._planned_id or ""
        message = {"role": "user", "content": content, "external_id": new_external_id()}
        self.agent.unstored(session_id, message, None)

    def switch_to_spooled_session(self) -> None:
        """Continue in the session that was created when its spooled messages were stored."""
        planned = self._planned_id
        if self.session_id is None and planned and self.agent.db.get_session(planned) is not None:
            with self._creation_lock:
                self._ensure_session()
            self._is_changed = True

    def answer(self, *, interrupt: Event | None = None) -> Iterator[TurnEvent]:
        """Answer the last message of the session; see `Agent.answer` and `held`."""
        with self.held(interrupt) as session_id:
            agent = replace(self.agent, fence=self._fence)
            yield from agent.answer(session_id, interrupt=interrupt)

    def _ensure_session(self) -> str:
        """Return the current session; create it if there is none."""
        db = self.agent.db
        if self.session_id is not None:
            return self.session_id
        # Every attempt uses the same id.
        session_id = self._planned_id = self._planned_id or self._new_id()
        db.create_session(
            session_id,
            self._origin.source,
            model=self.agent.asked_model,
            user_id=self._origin.user_id,
            system_prompt=self._origin.system_prompt,
            cwd=self._origin.cwd,
        )
        self.session_id, self._planned_id = session_id, None
        if self.pending_title is not None:
            title, self.pending_title = self.pending_title, None
            try:
                db.set_session_title(session_id, title)
            except TitleTaken:
                # Another session took the title meanwhile: use the next free number.
                db.set_auto_title_if_empty(session_id, title)
        return session_id

    def _new_id(self) -> str:
        return new_session_id(self._clock())

    # ── titles ────────────────────────────────────────────────────────────────────────────────

    @property
    def title(self) -> str | None:
        """The title, or the one that the first message will set."""
        if self.session_id is None:
            return self.pending_title
        return self.agent.db.get_session_title(self.session_id)

    def set_title(self, text: str) -> str:
        """Set the title now or, without a session, with the first message; return it as stored.

        Raises:
            InvalidInput: the title is blank, too long, or belongs to another session.
        """
        wanted = sanitize_title(text)
        if wanted is None:
            raise InvalidInput("A title needs at least one visible character.")
        db = self.agent.db
        with self._creation_lock:
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
            InvalidInput: the title is not valid or not free; nothing changed.
        """
        leaving, self.session_id, self.pending_title = self.session_id, None, None
        self._planned_id = None
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
        """Continue a stored session, or the one that continues it. Nothing is written to it until
        the next message.

        Raises:
            NotFound: no such session exists.
        """
        db = self.agent.db
        if db.get_session(session_id) is None:
            raise NotFound(f"There is no session {session_id!r}. See: hermes sessions list")
        target = db.resolve_resume_session_id(session_id)
        if target == self.session_id:
            return
        if self.session_id is not None and self._is_changed:
            db.end_session(self.session_id, RESUMED_OTHER)
        self.session_id, self.pending_title, self._planned_id = target, None, None
        self._is_changed = False

    def branch(self, title: str | None = None) -> str:
        """Continue in a copy of this session; return its id. The original is unchanged.

        Raises:
            InvalidInput: the session has no messages, or the title is not valid or not free.
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
        """Continue with a summary of this session; return the new id. See `compaction.compact` and
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

    # ── undo and retry ────────────────────────────────────────────────────────────────────────

    def undo(self, exchanges: int = 1) -> Record:
        """Undo the last exchanges, at most as many as there are; return ``count`` (hidden
        messages), ``exchanges`` and ``text`` (the first undone question).

        Raises:
            InvalidInput: there is nothing to undo, or the number is below 1.
        """
        if exchanges < 1:
            raise InvalidInput("Say how many exchanges to undo: 1 or more.")
        if self.session_id is None:
            raise InvalidInput("There is nothing to undo.")
        db = self.agent.db
        with self.held() as session_id:
            asked = db.list_recent_user_messages(session_id, exchanges)
            if not asked:
                raise InvalidInput("There is nothing to undo.")
            done = db.rewind_to_message(session_id, asked[-1]["id"], fence=self._fence)
        return {
            "count": done["rewound_count"],
            "exchanges": len(asked),
            "text": done["target_text"],
        }

    def retry(self, *, interrupt: Event | None = None) -> Iterator[TurnEvent]:
        """Ask the last question again; its previous answer is undone. See `held`.

        Raises:
            InvalidInput: there is no question yet.
        """
        if self.session_id is None:
            raise InvalidInput("There is no question to ask again.")
        db = self.agent.db
        with self.held(interrupt) as session_id:
            asked = db.list_recent_user_messages(session_id, 1)
            if not asked:
                raise InvalidInput("There is no question to ask again.")
            (question,) = (
                message
                for message in db.get_messages(session_id)
                if message["id"] == asked[0]["id"]
            )
            db.rewind_to_message(session_id, question["id"], fence=self._fence)
            yield from self.say(question["content"], interrupt=interrupt)

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def leave(self, reason: str) -> Record | None:
        """End the session if this chat changed it; return its row, or None if there is none."""
        if self.session_id is None:
            return None
        if self._is_changed:
            self.agent.db.end_session(self.session_id, reason)
        return self.agent.db.get_session(self.session_id)


def _nothing() -> None:
    pass

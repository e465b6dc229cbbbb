"""The messages that a turn adds to its session, stored once over all of its attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hermes_sessions.agent.turn import Agent, TurnEvent
from hermes_sessions.gateway.active_turns import ActiveTurn
from hermes_sessions.lifecycle.session_context import build_session_context, prefixed_with_sender
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.lifecycle.turn_input import TurnInput
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.repositories.identities import Author, note_author
from hermes_sessions.storage.repositories.mailbox import Mailbox, MailboxItem
from hermes_sessions.storage.repositories.turns import Outcome
from hermes_sessions.storage.sessiondb import SessionDB


def note_topic(db: SessionDB, source: SessionSource, session_key: str, session_id: str) -> None:
    """Bind the topic of a message to the session that answers it.

    Topics of private Telegram chats are separate sessions. A session that a user resumes in another
    topic leaves its old one.
    """
    is_private = source.platform is Platform.TELEGRAM and source.chat_type == "dm"
    if not is_private or not source.thread_id or not source.user_id:
        return
    here = {"chat_id": source.chat_id, "thread_id": source.thread_id}
    bound = db.get_telegram_topic_binding(**here)
    if bound is not None and bound["session_id"] == session_id:
        return
    elsewhere = db.get_telegram_topic_binding_by_session(session_id=session_id)
    if elsewhere is not None:
        db.delete_telegram_topic_binding(
            chat_id=elsewhere["chat_id"], thread_id=elsewhere["thread_id"]
        )
    db.enable_telegram_topic_mode(
        chat_id=source.chat_id, user_id=source.user_id, has_topics_enabled=True
    )
    db.bind_telegram_topic(
        **here, user_id=source.user_id, session_key=session_key, session_id=session_id
    )


_BROKEN_OFF = frozenset({"interrupted", "error"})


class Conclusion(NamedTuple):
    """How a turn ended, and its reply."""

    outcome: Outcome
    reply: str | None = None
    detail: str | None = None
    #: Whether the input waits for another attempt.
    again: bool = False


class TurnTranscript:
    """The messages of one turn and their places in the session."""

    def __init__(self, sessions: SessionStore, turn: ActiveTurn, session_id: str) -> None:
        self._sessions = sessions
        self._db = sessions.db
        self._turn = turn
        self._input: TurnInput = turn.taken.input
        self.session_id = session_id

    def stored_answer(self) -> Conclusion | None:
        """Return the end of a turn whose answer an earlier attempt stored but did not send; None if
        the model has to be asked.
        """
        is_retry, is_resumed = self._input.is_retry, self._input.kind == "resume"
        if not (is_retry or is_resumed) or not (is_resumed or self._is_question_stored()):
            return None
        rows = self._db.get_messages(self.session_id)
        if not rows or not _is_whole_answer(rows[-1]):
            return None
        # Without an earlier attempt nothing was interrupted: that answer was sent.
        return Conclusion("completed", str(rows[-1]["content"]) if is_retry else None)

    def events(self, agent: Agent, steer: Callable[[], None]) -> Iterator[TurnEvent]:
        """Store the question, unless an earlier attempt did, and yield the agent's events.

        Messages that *steer* stores are part of the session at the next request to the model.
        """

        def steering() -> str | None:
            steer()
            return None

        interrupt = self._turn.interrupt
        self._note_author(self._input.items[0])
        if self._input.kind == "resume" or (self._input.is_retry and self._is_question_stored()):
            return agent.answer(self.session_id, interrupt=interrupt, steering=steering)
        return agent.run_turn(
            self.session_id,
            self._content(self._input.items),
            external_id=_mark(self._input.items[0]),
            interrupt=interrupt,
            steering=steering,
        )

    def _is_question_stored(self) -> bool:
        """Tell whether an earlier attempt stored the question; store messages that it had included
        but not stored.
        """
        items = self._input.items
        rows = self._db.get_messages(self.session_id)
        found = [row for row in rows if row["external_id"] == _mark(items[0])]
        if not found:
            return False
        for count in range(len(items), 0, -1):
            if self._content(items[:count]) == found[0]["content"]:
                self._store(items[count:])
                break
        return True

    def store_steered(self) -> None:
        """Store messages that were added to the turn while it ran."""
        with self._sessions.engine.store.provider.read() as tx:
            items = Mailbox.of_turn(tx, self._turn.taken.turn.id)
        known = set(self._input.item_ids)
        self._store([item for item in items if item.id not in known])

    def _store(self, items: Sequence[MailboxItem]) -> None:
        for item in items:
            self._note_author(item)
            self._db.append_message(
                self.session_id,
                "user",
                self._content([item]),
                external_id=_mark(item),
                fence=self._turn.taken.turn.token,
            )

    def _note_author(self, item: MailboxItem) -> None:
        """Record the author of a message in a shared chat, so that a user can be erased there."""
        if item.sender is None or item.kind == "resume" or not self._is_shared(item):
            return
        author = Author(
            self.session_id, _mark(item), self._source_of(item).platform.value, item.sender
        )
        store, token = self._db.store, self._turn.taken.turn.token
        store.provider.write(lambda tx: note_author(tx, store, author, fence=token))

    def _source_of(self, item: MailboxItem) -> SessionSource:
        described = item.payload.get("source")
        return SessionSource.from_dict(described) if described else self._turn.source

    def _is_shared(self, item: MailboxItem) -> bool:
        context = build_session_context(self._source_of(item), self._sessions.config)
        return context.shared_multi_user_session

    def _content(self, items: Sequence[MailboxItem]) -> str:
        """Return the text for the model: with the names of the authors in a shared chat, and the
        names of attached files.
        """
        config = self._sessions.config
        source = self._source_of(items[0])
        several = TurnInput(items[0].kind, tuple(items))
        text = several.text
        if self._is_shared(items[0]):
            text = prefixed_with_sender(text, source, redact_pii=config.redact_pii)
        return with_files(text, several.media)


def _mark(item: MailboxItem) -> str:
    """Return the external id of a message: the same in every attempt."""
    return f"mailbox:{item.id}"


def _is_whole_answer(row: Mapping[str, Any]) -> bool:
    return (
        row["role"] == "assistant"
        and bool(row["content"])
        and not row["tool_calls"]
        and row["finish_reason"] not in _BROKEN_OFF
    )


def with_files(text: str, media: Sequence[dict[str, object]]) -> str:
    """Return a text with the names of its attached files, one per line."""
    lines = [f"[{_line(file.get('kind') or 'file')}: {_line(_name(file))}]" for file in media]
    return "\n".join([*([text] if text else []), *lines])


def _name(file: dict[str, object]) -> object:
    return file.get("name") or file.get("reference")


def _line(value: object) -> str:
    """Return a file name that cannot leave its brackets: senders choose it."""
    return " ".join(str(value).split()).replace("[", "(").replace("]", ")")

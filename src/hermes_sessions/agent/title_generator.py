"""Generates titles of three to seven words for sessions that have none.

The model is asked after the first exchange, in the background. Without a model, or when it fails,
the title comes from the question. A title that a user set is never overwritten.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Final

from hermes_sessions.agent.clients.port import ModelClient, ModelError, Reply, Request
from hermes_sessions.agent.pricing import UNPRICED, Pricing, record_side_call_usage
from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sessiondb import SessionDB

logger = Logger(__name__)

#: The most sessions in a `TitleQueue`.
MOST_WAITING: Final = 1_000
_LONGEST: Final = 80
_EXCERPT: Final = 500
_MOST_WORDS: Final = 7
#: An answer with this many words is a sentence, not a title.
_SENTENCE_WORDS: Final = 12
_INSTRUCTION: Final = (
    "Give this conversation a title of three to seven words, in its own language. Answer with the "
    "title alone: no quotes, no full stop, no label."
)
_LABEL: Final = re.compile(r"^\s*(?:title|titel|titre|título|标题)\s*[:：]\s*", re.IGNORECASE)
_THOUGHT: Final = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_QUOTES: Final = "\"'`“”„«»‘’「」『』*#"
_SPACE: Final = re.compile(r"\s+")
#: Phrases at the start of a question that say nothing about its subject.
_OPENING: Final = re.compile(
    r"^(?:(?:hi|hello|hey|please|ok(?:ay)?|so|can you|could you|would you|will you|help me"
    r"(?: to| with)?|i (?:want|need|would like|'d like) (?:you )?to|how (?:do|can|should) i|"
    r"let's|tell me|show me|explain)\b[\s,:]*)+",
    re.IGNORECASE,
)


def title_session(
    db: SessionDB,
    session_id: str,
    client: ModelClient | None,
    model: str | None,
    pricing: Pricing = UNPRICED,
) -> str | None:
    """Give a session a title unless it has one; return the new title, None otherwise.

    A model that fails raises nothing: the title then comes from the question.
    """
    if db.get_session_title(session_id) is not None:
        return None
    question, answer = _first_exchange(db, session_id)
    if not question:
        return None
    title = None
    if client is not None:
        try:
            title = _ask(db, session_id, client, model, question, answer, pricing)
        except ModelError as error:
            logger.info("the model returned no title: %s", error)
    title = title or title_from_question(question)
    if title and db.set_auto_title_if_empty(session_id, title):
        return db.get_session_title(session_id)
    return None


def title_from_question(question: str) -> str | None:
    """Return the first words of a question as a title; None if it has no words."""
    first = next((line for line in question.splitlines() if line.strip()), "")
    text = _SPACE.sub(" ", first).strip(_QUOTES + " ")
    text = _OPENING.sub("", text) or text
    sentence = re.split(r"(?<=[.!?。！？])\s|[。！？]", text, maxsplit=1)[0].rstrip(" .!?:;,")
    words = sentence.split(" ")
    title = " ".join(words[:_MOST_WORDS])
    if len(title) > _LONGEST:
        title = title[: _LONGEST - 1].rstrip() + "…"
    return title[:1].upper() + title[1:] if title else None


def clean_title(answer: str) -> str | None:
    """Return a model's answer as a title: without label, quotes and thoughts, and short.

    None if nothing is left, or if it is not a title.
    """
    text = _THOUGHT.sub("", answer).strip()
    text = next((line for line in text.splitlines() if line.strip()), "")
    text = _LABEL.sub("", text).strip(_QUOTES + " .")
    text = _SPACE.sub(" ", text)
    if text.count(" ") >= _SENTENCE_WORDS:
        return None
    text = " ".join(text.split(" ")[:_MOST_WORDS]).rstrip(" ,;:")
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 1].rstrip() + "…"
    return text or None


def _ask(
    db: SessionDB,
    session_id: str,
    client: ModelClient,
    model: str | None,
    question: str,
    answer: str,
    pricing: Pricing,
) -> str | None:
    used = model or client.default_model
    excerpt = f"user: {question[:_EXCERPT]}\n\nassistant: {answer[:_EXCERPT]}"
    request = Request(
        [{"role": "user", "content": f"{_INSTRUCTION}\n\n{excerpt}"}],
        used,
        max_tokens=500,
        temperature=0.3,
    )
    reply = None
    for event in client.stream(request):
        if isinstance(event, Reply):
            reply = event
    if reply is None:
        return None
    record_side_call_usage(db, session_id, "title", reply, used, pricing)
    return clean_title(reply.text)


def _first_exchange(db: SessionDB, session_id: str) -> tuple[str, str]:
    question = answer = ""
    for message in db.get_messages(session_id, limit=20):
        content = message["content"]
        text = content if isinstance(content, str) else ""
        if message["role"] == "user" and not question:
            question = text.strip()
        elif message["role"] == "assistant" and question and text.strip():
            answer = text.strip()
            break
    return question, answer


class TitleQueue:
    """Sessions that get their titles in the background, so that no turn waits. Thread-safe.

    Titles are generated one after the other, and turns may end faster. So a session is queued once,
    however many of its turns end, and the queue is limited: the next turn of a session that did not
    fit asks again.
    """

    def __init__(self, give: Callable[[str], object], *, most_waiting: int = MOST_WAITING) -> None:
        """*give* gives a session a title unless it has one; called in this object's thread."""
        from concurrent.futures import ThreadPoolExecutor

        self._give = give
        self._most_waiting = most_waiting
        self._lock = threading.Lock()
        self._waiting: set[str] = set()
        self._is_closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="titles")

    def ask(self, session_id: str) -> bool:
        """Queue a session for a title; return whether it was added now."""
        with self._lock:
            is_full = len(self._waiting) >= self._most_waiting
            if self._is_closed or is_full or session_id in self._waiting:
                return False
            self._waiting.add(session_id)
            self._thread.submit(self._work, session_id)
        return True

    def close(self) -> None:
        """Stop; a title that is being generated is not waited for."""
        with self._lock:
            self._is_closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _work(self, session_id: str) -> None:
        # Turns that end from now on queue the session again.
        with self._lock:
            self._waiting.discard(session_id)
        try:
            self._give(session_id)
        except HermesSessionsError as error:
            logger.info("could not generate a title for session %s: %s", session_id, error)

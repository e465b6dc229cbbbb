"""The fixed corpus: reading it, and storing it through the public verbs of a store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from hermes_sessions import SessionDB

HERE = Path(__file__).parent
FILES = sorted((HERE / "corpus").glob("*.jsonl"))
#: When all searches of the golden set are made: a while after the newest message.
NOW = datetime(2026, 6, 30, 12, tzinfo=UTC).timestamp()

Record = dict[str, Any]


@dataclass(frozen=True)
class Message:
    """One message. Its id is unique in the corpus, and the external id in a store."""

    id: str
    role: str
    at: float
    content: Any
    tool_name: str | None = None
    tool_calls: list[Record] | None = None
    reasoning: str | None = None
    rewound: bool = False


@dataclass(frozen=True)
class Session:
    """One session and its messages, in order."""

    id: str
    source: str
    model: str
    started: float
    user: str | None = None
    title: str | None = None
    prompt: str | None = None
    parent: str | None = None
    edge: str | None = None
    ended: str | None = None
    archived: bool = False
    trashed: bool = False
    messages: list[Message] = field(default_factory=list)


@cache
def sessions() -> tuple[Session, ...]:
    """Return all sessions; parents come before their children."""
    return tuple(session for path in FILES for session in _read(path))


def findable() -> Iterator[tuple[Session, Message]]:
    """Yield what a search may find: neither rewound nor in the trash."""
    for session in sessions():
        if not session.trashed:
            yield from ((session, m) for m in session.messages if not m.rewound)


def _read(path: Path) -> list[Session]:
    found: list[Session] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if "session" in record:
            record["started"] = _moment(record["started"])
            found.append(Session(id=record.pop("session"), **record))
        else:
            record["at"] = _moment(record["at"])
            found[-1].messages.append(Message(**record))
    return found


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


# ── storing ───────────────────────────────────────────────────────────────────────────────────


def load_corpus(db: SessionDB) -> dict[int, str]:
    """Store the corpus; return the corpus id of every stored message by its id in the store."""
    stored: dict[int, str] = {}
    for session in sessions():
        _store(db, session, stored)
    db.trash_sessions([session.id for session in sessions() if session.trashed])
    return stored


def _store(db: SessionDB, session: Session, stored: dict[int, str]) -> None:
    db.create_session(
        session.id,
        session.source,
        model=session.model,
        user_id=session.user,
        system_prompt=session.prompt,
        parent_session_id=session.parent,
        edge_kind=session.edge,
        started_at=session.started,
    )
    if session.title:
        db.set_session_title(session.id, session.title)
    for rewound, run in groupby(session.messages, key=lambda message: message.rewound):
        messages = list(run)
        numbers = db.append_messages(session.id, map(_fields, messages))
        stored.update(zip(numbers, (message.id for message in messages), strict=True))
        if rewound:
            db.rewind_to_message(session.id, numbers[0])
    if session.ended:
        db.end_session(session.id, session.ended)
    if session.archived:
        db.set_session_archived(session.id)


def _fields(message: Message) -> Record:
    return {
        "role": message.role,
        "content": message.content,
        "tool_name": message.tool_name,
        "tool_calls": message.tool_calls,
        "reasoning": message.reasoning,
        "timestamp": message.at,
        "external_id": message.id,
    }

"""What the tests of the search index share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.searching import keeper, upkeep
from hermes_sessions.storage.searching.answer import Answer
from hermes_sessions.text.encode import EncodedText, document
from tests.storage.sqlite.elsewhere import start

NOW = 1_800_000_000.0


def index_nothing_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave indexing to searches and `optimize_search`, so that a test knows what is indexed."""
    monkeypatch.setattr(keeper, "IDLE", 3_600.0)
    monkeypatch.setattr(keeper, "MANY", 10**9)


def append(db: SessionDB, *contents: str, session: str = "s") -> list[int]:
    return db.append_messages(session, [{"role": "user", "content": text} for text in contents])


def ask(db: SessionDB, query: str, **options: Any) -> Answer:
    return db.search(query, relax=False, limit=5_000, **options)


def found(db: SessionDB, query: str, **options: Any) -> list[int]:
    """The ids of all that is found, and nothing was left out."""
    answer = ask(db, query, **options)
    assert answer.account.complete
    return sorted(hit.id for hit in answer.hits)


def change(path: Path, *statements: str) -> None:
    """Have another program write, which knows nothing of the index."""
    start("change", path, *statements).succeeded()


def damage(path: Path, *statements: str) -> None:
    """Have another program write into the index."""
    start("damage", path, *statements).succeeded()


def import_elsewhere(path: Path, count: int) -> None:
    """Have another program store messages into session ``s``, of which no keeper hears."""
    change(
        path,
        "INSERT INTO messages (session_id, role, content, timestamp) "
        "WITH RECURSIVE numbers(n) AS "
        f"(SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) "
        "SELECT 's', 'user', 'imported ' || n, 1000.0 + n FROM numbers",
        f"UPDATE sessions SET message_count = message_count + {count}",
    )


def require_sound_index(db: SessionDB) -> None:
    """The index has every message once, and a thorough check finds nothing wrong with it."""
    assert db.search_index_status()["complete"]
    with db.provider.read() as tx:
        assert tx.one("PRAGMA integrity_check") == ("ok",)
        assert db.provider.search_index.damage(tx) is None
        messages = tx.all("SELECT id FROM messages ORDER BY id")
        assert tx.all("SELECT id FROM search_index_docsize WHERE id > 0 ORDER BY id") == messages


@contextmanager
def analysis_held(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Event, Event]]:
    """Hold whoever analyses a text for the index: the first event says that somebody does, the
    second lets them go on.
    """
    begun, go_on = Event(), Event()

    def encode_when_allowed(texts: Sequence[str]) -> EncodedText:
        begun.set()
        assert go_on.wait(60)
        return document(texts)

    monkeypatch.setattr(upkeep, "document", encode_when_allowed)
    try:
        yield begun, go_on
    finally:
        go_on.set()

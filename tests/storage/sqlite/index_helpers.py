"""Helpers of the search index tests."""

from __future__ import annotations

import atexit
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import Semaphore
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.search import background_indexer, index_maintenance
from hermes_sessions.storage.search.answer import SearchAnswer
from hermes_sessions.text.token_encoder import EncodedText, document
from tests.storage.sqlite.other_process import OtherProcess, start

NOW = 1_800_000_000.0


def index_nothing_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave indexing to searches and `optimize_search`, so that a test knows what is indexed."""
    monkeypatch.setattr(background_indexer, "IDLE_SECONDS", 3_600.0)
    monkeypatch.setattr(background_indexer, "MAX_WAITING", 10**9)


def append(db: SessionDB, *contents: str, session: str = "s") -> list[int]:
    return db.append_messages(session, [{"role": "user", "content": text} for text in contents])


def ask(db: SessionDB, query: str, **options: Any) -> SearchAnswer:
    return db.search(query, relax=False, limit=5_000, **options)


def found(db: SessionDB, query: str, **options: Any) -> list[int]:
    """The ids of all that is found, and nothing was left out."""
    answer = ask(db, query, **options)
    assert answer.report.complete
    return sorted(hit.id for hit in answer.hits)


def change(path: Path, *statements: str) -> None:
    """Have another program write, which knows nothing of the index."""
    _have_done("change", path, *statements)


def damage(path: Path, *statements: str) -> None:
    """Have another program write into the index."""
    _have_done("damage", path, *statements)


def _have_done(program: str, *arguments: object) -> None:
    other = _who_serves()
    other.tell(json.dumps([program, *map(str, arguments)]))
    try:
        assert other.said() == "done"
    except AssertionError:
        _who_serves.cache_clear()
        raise


@cache
def _who_serves() -> OtherProcess:
    """One process for all tests: to start one takes longer than what it does."""
    other = start("serve")
    atexit.register(other.__exit__, None, None, None)
    return other


def import_elsewhere(path: Path, count: int) -> None:
    """Have another program store messages into session ``s``, unseen by any background indexer."""
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


class HeldAnalysis:
    """Blocks the analysis of texts for the index until one more is allowed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._begun, self._allowed = Semaphore(0), Semaphore(0)
        monkeypatch.setattr(index_maintenance, "document", self._analyse)

    def _analyse(self, texts: Sequence[str]) -> EncodedText:
        self._begun.release()
        assert self._allowed.acquire(timeout=60)
        return document(texts)

    def wait(self) -> None:
        """Wait until an analysis begins."""
        assert self._begun.acquire(timeout=60)

    def allow(self, texts: int = 1_000_000) -> None:
        """Allow the analysis of this many texts, by default all."""
        self._allowed.release(texts)

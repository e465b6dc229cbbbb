"""Atomicity: a call that fails has done nothing, and the store goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.testing.conformance.helpers import exchange

GOOD = {"role": "user", "content": "good"}


class Interrupted(Exception):
    """What a caller's own iterator may raise."""


def interrupted() -> Iterator[dict[str, Any]]:
    """Yield two good messages, then fail."""
    yield GOOD
    yield GOOD
    raise Interrupted


#: What cannot be stored, at the end of a batch that is good so far.
BAD_BATCHES: dict[str, list[Any]] = {
    "no mapping": [GOOD, "text"],
    "no role": [GOOD, {"content": "x"}],
    "role of another type": [GOOD, {"role": 5}],
    "unknown field": [GOOD, {"role": "user", "colour": "red"}],
    "time of another type": [GOOD, {"role": "user", "timestamp": "noon"}],
    "time that is none": [GOOD, {"role": "user", "timestamp": float("nan")}],
    "tool calls beyond JSON": [GOOD, {"role": "user", "tool_calls": [object()]}],
    "token count of another type": [GOOD, {"role": "user", "token_count": "many"}],
    "too large": [GOOD, {"role": "user", "content": "x" * (9 * 1024 * 1024)}],
}


class TestAtomicity:
    """All of a call, or nothing of it."""

    @pytest.mark.parametrize("batch", BAD_BATCHES.values(), ids=BAD_BATCHES)
    def test_a_batch_is_stored_as_a_whole(self, db: SessionDB, batch: list[Any]) -> None:
        """One bad message, and none is stored."""
        db.create_session("s", "cli")
        exchange(db, "s", "question")
        before = db.export_all()
        with pytest.raises(HermesSessionsError):
            db.append_messages("s", batch)
        assert db.export_all() == before
        db.append_messages("s", batch[:1])
        assert db.message_count("s") == 3

    @pytest.mark.parametrize(
        "verb",
        [
            lambda db: db.append_messages("s", interrupted()),
            lambda db: db.replace_messages("s", interrupted()),
            lambda db: db.import_sessions(
                {"id": f"new {n}", "source": "cli", "messages": []}
                for n, _ in enumerate(interrupted())
            ),
        ],
        ids=["append", "replace", "import"],
    )
    def test_an_iterator_that_fails(self, db: SessionDB, verb: Callable[[SessionDB], Any]) -> None:
        """Behaviour 90: the caller's error comes through, nothing is stored, writes go on."""
        db.create_session("s", "cli")
        exchange(db, "s", "question")
        before = db.export_all()
        with pytest.raises(Interrupted):
            verb(db)
        assert db.export_all() == before
        db.append_message("s", "user", "on we go")
        assert db.message_count("s") == 3

    def test_an_iterator_that_uses_the_store(self, db: SessionDB) -> None:
        """Messages may be produced while reading and writing the same store."""
        for name in ("s", "t"):
            db.create_session(name, "cli")
        exchange(db, "s", "question", "answer")

        def copies() -> Iterator[dict[str, Any]]:
            for message in db.get_messages("s"):
                db.append_message("s", "system", f"copied {message['content']}")
                yield {"role": message["role"], "content": message["content"]}

        assert len(db.append_messages("t", copies())) == 2
        assert db.message_count("s") == 4
        assert db.message_count("t") == 2

"""Other processes around the search index: they change messages, damage the index, build it, and
die or fork meanwhile; see `tests.storage.sqlite.other_process`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence

import apsw
import pytest

from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.search import background_indexer, index_maintenance
from hermes_sessions.storage.search.index_port import IndexDocument
from hermes_sessions.storage.sqlite.search_index import FTS5Index
from hermes_sessions.text.token_encoder import EncodedText, document
from tests.storage.sqlite.fork_programs import fork, require_success
from tests.storage.sqlite.programs import listen, open_store, say


def change(path: str, *statements: str) -> None:
    """Be another program that writes with the library of Python, all in one transaction."""
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def damage(path: str, *statements: str) -> None:
    """Do the same to the index, with a library that knows its tables."""
    connection = apsw.Connection(path)
    connection.execute("BEGIN IMMEDIATE")
    for statement in statements:
        connection.execute(statement)
    connection.execute("COMMIT")
    connection.close()


def serve() -> None:
    """Execute the requests from standard input one by one, until it ends."""
    programs = {"change": change, "damage": damage}
    while True:
        name, *arguments = json.loads(listen())
        programs[name](*arguments)
        say("done")


def say_tokens(path: str) -> None:
    """Say every token of the index, and how many documents have it, as JSON."""
    connection = apsw.Connection(path)
    connection.execute("CREATE VIRTUAL TABLE temp.tokens USING fts5vocab(main, search_index, row)")
    say(json.dumps(dict(connection.execute("SELECT term, doc FROM temp.tokens"))))
    connection.close()


def build_index(path: str) -> None:
    """Index everything when told; say how much it was."""
    with open_store(path, durability="normal") as db:
        say("ready")
        listen()
        say(db.optimize_search()["indexed"])


def build_index_for_ever(path: str) -> None:
    """Store messages and rebuild the index in a loop; print each step."""
    _say_each_step()
    first = int(listen())
    db = open_store(path)
    db.create_session("s", source="test")
    for number in range(first, first + 1_000):
        db.append_message("s", role="user", content=f"stored {number}", external_id=str(number))
        say("stored", number)
        db.optimize_search(rebuild=number % 3 == 0)


def _say_each_step() -> None:
    add = FTS5Index.add

    def say_and_add(
        self: FTS5Index, tx: WriteTransaction, documents: Sequence[IndexDocument]
    ) -> None:
        say("adding", len(documents))
        add(self, tx, documents)
        say("added", len(documents))

    pytest.MonkeyPatch().setattr(FTS5Index, "add", say_and_add)
    _when_encoding(lambda: say("encoding"))


def _when_encoding(then: Callable[[], None]) -> None:
    def then_encode(texts: Sequence[str]) -> EncodedText:
        then()
        return document(texts)

    pytest.MonkeyPatch().setattr(index_maintenance, "document", then_encode)


def fork_while_indexing(path: str) -> None:
    """Fork while the thread that indexes is at work; both sides store, search and index on."""
    begun, never = threading.Event(), threading.Event()

    def go_on_when_asked_to_stop() -> None:
        if not begun.is_set():
            begun.set()
            while not db._background_indexer._is_stopping():
                never.wait(0.001)

    _when_encoding(go_on_when_asked_to_stop)
    pytest.MonkeyPatch().setattr(background_indexer, "LINGER_SECONDS", 3_600.0)
    db = open_store(path)
    db.create_session("s", source="test")
    db.append_messages("s", [{"role": "user", "content": f"before {n}"} for n in range(600)])
    begun.wait()

    def store_and_search(who: str) -> None:
        db.append_messages("s", [{"role": "user", "content": f"{who} {n}"} for n in range(600)])
        thread = db._background_indexer._thread
        assert thread is not None
        assert thread.is_alive()
        assert len(db.search(f"before OR {who}", limit=2_000).hits) == 1_200

    def child() -> None:
        store_and_search("child")
        db.close()

    pid = fork(child)
    store_and_search("parent")
    require_success(pid)
    db.optimize_search()
    assert db.search_index_status()["complete"]
    db.close()


def fork_while_waiting(path: str) -> None:
    """Fork while the thread waits for more; a child that does nothing ends at once."""
    db = open_store(path)
    db.create_session("s", source="test")
    db.append_message("s", role="user", content="before")
    require_success(fork(lambda: None))
    require_success(fork(db.close))
    db.append_message("s", role="user", content="after")
    assert len(db.search("before OR after").hits) == 2
    db.close()


def leave_without_closing(path: str) -> None:
    """End as programs do that never close anything, while there is something to index."""
    db = open_store(path)
    db.create_session("s", source="test")
    db.append_messages("s", [{"role": "user", "content": f"left {n}"} for n in range(600)])
    say(os.getpid())

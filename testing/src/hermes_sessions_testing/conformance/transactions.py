"""Port: what the repositories expect of a provider's transactions.

The statements here are in the SQL that `hermes_sessions.storage.provider` defines, on tables that
every store has. They check what no verb can show: what happens when a transaction fails midway.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hermes_sessions.errors import ConstraintViolated, HermesSessionsError
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.conformance.helpers import bases_of, contents, exchange

# Atomicity: a failed call changes nothing, and the store stays usable.


GOOD = {"role": "user", "content": "good"}


class Interrupted(Exception):
    """An error of the caller's iterator."""


def interrupted() -> Iterator[dict[str, Any]]:
    """Yield two good messages, then fail."""
    yield GOOD
    yield GOOD
    raise Interrupted


#: Invalid messages at the end of an otherwise valid batch.
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
    """A call takes effect completely or not at all."""

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
        """Behaviour 90: the caller's error is raised, nothing is stored, later writes succeed."""
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


PUT = 'INSERT INTO state_meta ("key", "value") VALUES (?, ?)'


class Abandoned(Exception):
    """Raised inside a transaction to abort it."""


class TestPort:
    """Transactions are whole, isolated, and lossless."""

    @pytest.mark.parametrize("error", [Abandoned, KeyboardInterrupt])
    def test_a_failed_transaction_did_nothing(
        self, db: SessionDB, error: type[BaseException]
    ) -> None:
        """Behaviour 90: it is rolled back, its error is raised, later writes succeed."""
        db.set_meta("k", "before")

        def work(tx: WriteTransaction) -> None:
            assert tx.run('UPDATE state_meta SET "value" = ? WHERE "key" = ?', ("lost", "k")) == 1
            tx.run(PUT, ("new", "lost"))
            assert tx.one('SELECT "value" FROM state_meta WHERE "key" = ?', ("k",)) == ("lost",)
            raise error

        with pytest.raises(error):
            db.provider.write(work)
        assert (db.get_meta("k"), db.get_meta("new")) == ("before", None)
        db.set_meta("new", "kept")
        assert db.get_meta("new") == "kept"

    def test_a_broken_rule(self, db: SessionDB) -> None:
        """Behaviour 90: the driver's error is one of ours, and an IntegrityError."""
        db.set_meta("k", "v")

        def work(tx: WriteTransaction) -> None:
            tx.run(PUT, ("first", "lost"))
            tx.run(PUT, ("k", "again"))

        with pytest.raises(ConstraintViolated) as raised:
            db.provider.write(work)
        assert "sqlite3.IntegrityError" in bases_of(raised.value)
        assert raised.value.__cause__ is not None
        assert (db.get_meta("first"), db.get_meta("k")) == (None, "v")

    def test_a_write_returns_what_its_work_returned(self, db: SessionDB) -> None:
        """And sees its own changes."""

        def work(tx: WriteTransaction) -> list[tuple[object, ...]]:
            tx.run_many(PUT, [(str(number), f"v{number}") for number in range(5)])
            return tx.all('SELECT "key", "value" FROM state_meta ORDER BY "key"')

        assert db.provider.write(work) == [(str(n), f"v{n}") for n in range(5)]

    def test_rows_that_matched(self, db: SessionDB) -> None:
        """`run` counts the rows a statement matched, changed or not."""
        db.set_meta("a", "x")
        db.set_meta("b", "x")
        update = 'UPDATE state_meta SET "value" = ? WHERE "value" = ?'
        assert db.provider.write(lambda tx: tx.run(update, ("x", "x"))) == 2
        assert db.provider.write(lambda tx: tx.run(update, ("y", "missing"))) == 0
        delete = 'DELETE FROM state_meta WHERE "key" IN (?, ?)'
        assert db.provider.write(lambda tx: tx.run(delete, ("a", "c"))) == 1

    def test_statements_of_the_dialect(self, db: SessionDB) -> None:
        """Insert-if-absent and upsert, on one key."""
        dialect = db.provider.dialect
        insert = dialect.insert_if_absent("state_meta", ("key", "value"), ("key",))
        upsert = dialect.upsert("state_meta", ("key", "value"), ("key",), ("value",))
        assert db.provider.write(lambda tx: tx.run(insert, ("k", "first"))) == 1
        assert db.provider.write(lambda tx: tx.run(insert, ("k", "second"))) == 0
        assert db.get_meta("k") == "first"
        db.provider.write(lambda tx: tx.run(upsert, ("k", "third")))
        db.provider.write(lambda tx: tx.run(upsert, ("l", "fourth")))
        assert (db.get_meta("k"), db.get_meta("l")) == ("third", "fourth")

    def test_insert_if_absent_ignores_nothing_else(self, db: SessionDB) -> None:
        """A missing value is an error, not a row silently left out."""
        columns = ("session_id", "holder", "acquired_at", "expires_at")
        insert = db.provider.dialect.insert_if_absent("compression_locks", columns, columns[:1])
        with pytest.raises(ConstraintViolated):
            db.provider.write(lambda tx: tx.run(insert, ("s", None, 1.0, 2.0)))

    def test_a_stream_may_be_left_early(self, db: SessionDB) -> None:
        """Rows are read one by one; unread rows are discarded."""
        for number in range(100):
            db.set_meta(f"{number:03}", "v")
        with db.provider.read() as tx:
            rows: Iterator[tuple[object, ...]] = tx.stream(
                'SELECT "key" FROM state_meta ORDER BY "key"'
            )
            assert [next(rows) for _ in range(3)] == [("000",), ("001",), ("002",)]
            assert tx.one("SELECT COUNT(*) FROM state_meta") == (100,)
        db.set_meta("more", "v")

    def test_text_passes_the_codec(self, db: SessionDB) -> None:
        """Behaviour 100: parameters and results of every statement."""
        text = "a\x00b\ud800\ufdd0 0000"
        db.provider.write(lambda tx: tx.run(PUT, (text, text)))
        with db.provider.read() as tx:
            found = tx.all('SELECT "key", "value" FROM state_meta WHERE "value" = ?', (text,))
        assert found == [(text, text)]

    def test_generated_ids(self, db: SessionDB) -> None:
        """`insert` returns the id of its row, and ids grow."""
        db.create_session("s", "cli")
        first, second = exchange(db, "s", "question")
        insert = (
            "INSERT INTO rewinds (session_id, target_message_id, target_ordinal, hidden_count, "
            "head_ordinal, rewound_at) VALUES (?, ?, ?, ?, ?, ?)"
        )
        given = db.provider.write(
            lambda tx: [tx.insert(insert, ("s", at, 1, 0, 0, 1.0)) for at in (first, second)]
        )
        assert given == sorted(set(given))
        assert [row["id"] for row in db.list_rewinds("s")] == given

    def test_tool_calls_that_nobody_can_read(self, db: SessionDB) -> None:
        """Behaviour 33: text that other tools left in the column reads as no tool calls."""
        db.create_session("s", "cli")
        call = {"id": "call_1"}
        message_id = db.append_message("s", "assistant", "x", tool_calls=[call])
        db.provider.write(
            lambda tx: tx.run(
                "UPDATE messages SET tool_calls = ? WHERE id = ?", ('[{"id": "ca', message_id)
            )
        )
        (stored,) = db.get_messages("s")
        assert stored["tool_calls"] == []
        (replayed,) = db.get_messages_as_conversation("s")
        assert replayed["tool_calls"] == []
        assert contents([replayed]) == ["x"]


class TestIsolation:
    """Reads and writes do not block each other."""

    def test_a_read_is_of_one_moment(self, db: SessionDB) -> None:
        """A concurrent write of another thread is not visible in an open read."""
        db.set_meta("k", "old")
        select = 'SELECT "value" FROM state_meta WHERE "key" = ?'
        with db.provider.read() as tx:
            assert tx.one(select, ("k",)) == ("old",)
            writer = threading.Thread(target=db.set_meta, args=("k", "new"))
            writer.start()
            writer.join()
            assert tx.one(select, ("k",)) == ("old",)
        assert db.get_meta("k") == "new"

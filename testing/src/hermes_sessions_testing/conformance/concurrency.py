"""Concurrency: many threads on one store lose no message and store none twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, TypeVar

from hermes_sessions.errors import TitleTaken
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.conformance.fixtures import OpenStore
from hermes_sessions_testing.conformance.helpers import assert_summary_is_true, ids, session

T = TypeVar("T")

THREADS = 8


def at_once(work: Callable[[int], T], threads: int = THREADS) -> list[T]:
    """Run *work* in *count* threads that start together; return their results."""
    start = threading.Barrier(threads)

    def run(number: int) -> T:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))


class TestThreads:
    """Threads that share one handle."""

    def test_appends_to_one_session(self, db: SessionDB) -> None:
        """Every message is there once, each thread's own in its order."""
        db.create_session("s", "cli")
        _append_from_all(db, lambda _: db)

    def test_appends_to_many_sessions(self, db: SessionDB) -> None:
        """Sessions that are created, filled and read at the same time."""

        def work(number: int) -> list[Any]:
            name = f"s{number}"
            db.create_session(name, "cli")
            for step in range(10):
                db.append_message(name, "user", step)
                assert db.message_count(name) == step + 1
            return [message["content"] for message in db.get_messages(name)]

        for said in at_once(work):
            assert said == [str(step) for step in range(10)]
        assert db.message_count() == THREADS * 10

    def test_one_session_created_by_all(self, db: SessionDB) -> None:
        """One of them creates it; its values are the first ones."""
        at_once(lambda number: db.create_session("s", f"source {number}", model=f"m{number}"))
        stored = session(db, "s")
        assert stored["source"].removeprefix("source ") == stored["model"].removeprefix("m")
        assert db.session_count() == 1

    def test_one_message_sent_by_all(self, db: SessionDB) -> None:
        """An external id is stored once, and every thread gets the same message id."""
        db.create_session("s", "telegram")
        added = at_once(lambda _: db.append_message("s", "user", "hi", external_id="m-1"))
        assert len(set(added)) == 1
        assert db.message_count("s") == 1
        assert_summary_is_true(db, "s")

    def test_one_title_wanted_by_all(self, db: SessionDB) -> None:
        """Exactly one thread gets it."""
        for number in range(THREADS):
            db.create_session(f"s{number}", "cli")

        def claim(number: int) -> bool:
            try:
                return db.set_session_title(f"s{number}", "Plan")
            except TitleTaken:
                return False

        assert sum(at_once(claim)) == 1

    def test_generated_titles(self, db: SessionDB) -> None:
        """Every thread gets its own number."""
        for number in range(THREADS):
            db.create_session(f"s{number}", "cli")
        assert all(at_once(lambda number: db.set_auto_title_if_empty(f"s{number}", "Plan")))
        titles = {db.get_session_title(f"s{number}") for number in range(THREADS)}
        assert titles == {"Plan", *(f"Plan #{number}" for number in range(2, THREADS + 1))}

    def test_one_lock_wanted_by_all(self, db: SessionDB) -> None:
        """Behaviour 94: exactly one thread gets it."""
        db.create_session("s", "cli")
        got = at_once(lambda number: db.try_acquire_compression_lock("s", f"holder {number}"))
        assert sum(got) == 1
        assert db.get_compression_lock_holder("s") == f"holder {got.index(True)}"

    def test_counters(self, db: SessionDB) -> None:
        """Behaviour 54: no increment is lost."""

        def work(_: int) -> None:
            for _ in range(10):
                db.update_token_counts("s", input_tokens=1, model="m", api_call_count=1)

        at_once(work)
        stored = session(db, "s")
        assert (stored["input_tokens"], stored["api_call_count"]) == (THREADS * 10, THREADS * 10)
        assert [row["input_tokens"] for row in db.get_model_usage("s")] == [THREADS * 10]

    def test_one_rewind_for_all(self, db: SessionDB) -> None:
        """Each message is hidden once, and every call is recorded."""
        db.create_session("s", "cli")
        added = db.append_messages("s", [{"role": "user", "content": str(n)} for n in range(20)])
        hidden = at_once(lambda _: db.rewind_to_message("s", added[5])["rewound_count"])
        assert sorted(hidden) == [0] * (THREADS - 1) + [15]
        assert session(db, "s")["rewind_count"] == THREADS
        assert_summary_is_true(db, "s")

    def test_deleting_the_same_session(self, db: SessionDB) -> None:
        """Behaviour 72: exactly one thread reports the deletion."""
        db.create_session("s", "cli")
        db.append_messages("s", [{"role": "user", "content": "x"}] * 50)
        assert sum(at_once(lambda _: db.delete_session("s"))) == 1
        assert db.message_count() == 0

    def test_readers_see_whole_writes(self, db: SessionDB) -> None:
        """A read shows a write completely or not at all, in session and messages."""
        db.create_session("s", "cli")
        done = threading.Event()

        def work(number: int) -> None:
            if number == 0:
                for _ in range(30):
                    db.append_messages("s", [{"role": "user", "content": "x"}] * 10)
                done.set()
                return
            while not done.is_set():
                exported = db.export_session("s")
                assert exported is not None
                assert exported["message_count"] == len(exported["messages"])
                assert len(exported["messages"]) % 10 == 0

        at_once(work, threads=4)
        assert db.message_count("s") == 300


class TestThreadsWithHandles:
    """Threads that each have their own handle."""

    def test_appends_to_one_session(self, db: SessionDB, open_another: OpenStore) -> None:
        """Every message is there once, each thread's own in its order."""
        db.create_session("s", "cli")
        handles = [open_another() for _ in range(THREADS)]
        _append_from_all(db, lambda number: handles[number])

    def test_handles_that_come_and_go(self, db: SessionDB, open_another: OpenStore) -> None:
        """Handles that open and close beside a writer cause no error."""

        def work(number: int) -> None:
            for step in range(3):
                with open_another() as handle:
                    handle.create_session(f"{number}-{step}", "cli")
                    handle.append_message(f"{number}-{step}", "user", "hi")

        at_once(work)
        assert (db.session_count(), db.message_count()) == (THREADS * 3, THREADS * 3)

    def test_one_session_continued_by_all(self, db: SessionDB, open_another: OpenStore) -> None:
        """Lists and tip agree on one continuation."""
        db.create_session("s", "cli")
        db.end_session("s", "compression")
        handles = [open_another() for _ in range(THREADS)]
        at_once(
            lambda number: handles[number].create_session(
                f"tip {number}", "cli", parent_session_id="s"
            )
        )
        tip = db.get_compression_tip("s")
        assert ids(db.list_sessions_rich()) == [tip]
        assert ids(db.list_sessions_rich(order_by_last_active=False)) == [tip]
        assert len(db.get_compression_lineage("s")) == THREADS + 1


def _append_from_all(db: SessionDB, handle_of: Callable[[int], SessionDB]) -> None:
    def work(number: int) -> list[int]:
        added = []
        for step in range(15):
            if step % 3:
                added.append(handle_of(number).append_message("s", "user", f"{number}:{step}"))
            else:
                batch = [{"role": "user", "content": f"{number}:{step}.{n}"} for n in range(2)]
                added += handle_of(number).append_messages("s", batch)
        return added

    added = at_once(work)
    stored = db.get_messages("s")
    assert sorted(ids(stored)) == sorted(chain.from_iterable(added))
    places = {message["id"]: place for place, message in enumerate(stored)}
    for own in added:
        assert [places[message_id] for message_id in own] == sorted(
            places[message_id] for message_id in own
        )
    assert [message["ordinal"] for message in stored] == list(range(1, len(stored) + 1))
    assert_summary_is_true(db, "s")

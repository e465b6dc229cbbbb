"""Servers that accept data and never answer: every wait ends, nothing is stored twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import StoreUnavailable
from tests.servers.server_processes import start_postgresql
from tests.servers.stores import Place

#: Far above what any of the waits here may take: what is longer is a hang.
HANG = 60


@contextmanager
def frozen(place: Place) -> Iterator[None]:
    place.server.freeze()
    try:
        yield
    finally:
        place.server.thaw()


@pytest.fixture
def db(place: Place) -> Iterator[SessionDB]:
    """A handle that is not patient, with a connection at hand."""
    with SessionDB.from_url(place.url(), lock_timeout=1.0) as handle:
        handle.create_session("s", "cli")
        handle.append_message("s", "user", "before")
        yield handle


VERBS: dict[str, Callable[[SessionDB], object]] = {
    "append": lambda db: db.append_message("s", "user", "meanwhile", external_id="one"),
    "append several": lambda db: db.append_messages("s", [{"role": "user", "content": "several"}]),
    "create": lambda db: db.create_session("t", "cli"),
    "read": lambda db: db.get_messages("s"),
    "search": lambda db: db.search_messages("before"),
}


@pytest.mark.slow
@pytest.mark.timeout(HANG)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.fault(
    "The server is frozen", "Refused with a clear error, in time; used again once it answers"
)
def test_a_frozen_server_is_given_up(place: Place, db: SessionDB, verb: str) -> None:
    with frozen(place), pytest.raises(StoreUnavailable):
        VERBS[verb](db)
    db.append_message("s", "user", "after")
    assert db.get_messages("s")[-1]["content"] == "after"


@pytest.mark.slow
@pytest.mark.timeout(HANG)
@pytest.mark.fault(
    "The server is frozen amid a commit",
    "The caller is told that the outcome is unknown; repeating it by its id stores it once",
)
def test_a_commit_without_an_answer(place: Place, db: SessionDB) -> None:
    with frozen(place), pytest.raises(StoreUnavailable, match="not known whether") as refused:
        db.append_message("s", "user", "in doubt")
    assert "external_id is safe" in str(refused.value)
    with frozen(place), pytest.raises(StoreUnavailable):
        db.append_message("s", "user", "repeated", external_id="one")
    first = db.append_message("s", "user", "repeated", external_id="one")
    assert db.append_message("s", "user", "repeated", external_id="one") == first
    texts = [message["content"] for message in db.get_messages("s")]
    assert texts.count("repeated") == 1
    assert texts.count("in doubt") <= 1


@pytest.mark.slow
@pytest.mark.timeout(HANG)
@pytest.mark.fault(
    "The server is frozen for a while, and answers again in time",
    "The write continues, and is there once",
)
def test_a_server_that_is_frozen_for_a_while(place: Place) -> None:
    """Longer than a commit waits for its answer: it is found out by the mark what became of it."""
    with SessionDB.from_url(place.url(), lock_timeout=2.0) as db:
        db.create_session("s", "cli")
        for round_ in range(2):
            place.server.freeze()
            # After it has been given up, and while it is being asked what happened.
            thaw = threading.Timer(4.5 if round_ else 1.0, place.server.thaw)
            thaw.start()
            try:
                db.append_message("s", "user", f"round {round_}")
            finally:
                thaw.join()
        texts = [message["content"] for message in db.get_messages("s")]
        assert texts == ["round 0", "round 1"]


@pytest.mark.slow
@pytest.mark.timeout(HANG)
@pytest.mark.fault("The server is frozen when a store is opened or closed", "Both end in time")
def test_opening_and_closing_while_the_server_is_frozen(place: Place) -> None:
    db = SessionDB.from_url(place.url(), lock_timeout=1.0)
    db.create_session("s", "cli")
    with frozen(place):
        db.close()
        with pytest.raises(StoreUnavailable):
            SessionDB.from_url(place.url(), lock_timeout=1.0)
    with SessionDB.from_url(place.url()) as again:
        assert again.get_session("s") is not None


#: Seconds by default, and how much longer a busy machine may take. What was there before waited for
#: 21 to 26 seconds to read, 75 to search and 30 to close.
DEFAULT_SECONDS = {"read": 18.0, "search": 21.0, "close": 6.0}
BUSY_SECONDS = 8.0


@pytest.mark.slow
@pytest.mark.timeout(2 * HANG)
@pytest.mark.fault(
    "The server is frozen, and all settings are the defaults",
    "Reads and searches are refused in about 20 seconds, closing takes less than 10",
)
def test_how_long_verbs_wait_by_default(place: Place) -> None:
    """All at once, on handles of their own: each of them waits for long."""
    handles = {name: SessionDB.from_url(place.url()) for name in DEFAULT_SECONDS}
    handles["read"].create_session("s", "cli")
    handles["close"].append_message("s", "user", "something to index")

    def took(name: str) -> float:
        started = time.monotonic()
        if name == "close":
            handles[name].close()
        else:
            with pytest.raises(StoreUnavailable):
                VERBS[name](handles[name])
        return time.monotonic() - started

    with ThreadPoolExecutor(3) as threads:
        with frozen(place):
            seconds = dict(zip(handles, threads.map(took, handles), strict=True))
        for handle in handles.values():
            handle.close()
    for name, limit in DEFAULT_SECONDS.items():
        assert seconds[name] < limit + BUSY_SECONDS, seconds


@pytest.mark.slow
@pytest.mark.timeout(HANG)
def test_all_waits_of_a_block_share_a_limit(place: Place) -> None:
    """In every kind of wait: for an answer, another connection, the outcome of a commit."""
    with SessionDB.from_url(place.url()) as db:
        db.create_session("s", "cli")
        started = time.monotonic()
        with frozen(place), db.provider.limit_waits(1.0):
            for verb in VERBS.values():
                with pytest.raises(StoreUnavailable):
                    verb(db)
        # Connecting takes two seconds at least, on PostgreSQL.
        assert time.monotonic() - started < 1.0 + 2.0 * len(VERBS) + BUSY_SECONDS
        db.append_message("s", "user", "after")


@pytest.mark.slow
@pytest.mark.timeout(HANG)
def test_a_frozen_server_that_is_destroyed_leaves_no_process() -> None:
    server = start_postgresql()
    server.freeze()
    workers = list(server._frozen)
    assert len(workers) > 1
    server.destroy()
    until = time.monotonic() + HANG / 2
    while any(Path(f"/proc/{number}").exists() for number in workers):
        assert time.monotonic() < until
        time.sleep(0.01)

"""Connections that are lost, and servers that are restarted: nothing is lost or stored twice."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.servers import driver
from tests.servers.proxy import Proxy, proxy_to
from tests.servers.stores import Place


def texts_of(db: SessionDB, session_id: str) -> list[str]:
    return [message["content"] for message in db.get_messages(session_id)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lost_requests", "lost_replies"), [(0.03, 0.0), (0.0, 0.03), (0.02, 0.02)]
)
@pytest.mark.fault(
    "Connections are cut, before or after a commit",
    "Every acknowledged message is there once, in order; nothing is written twice",
)
def test_every_acknowledged_write_is_there_once(
    place: Place, lost_requests: float, lost_replies: float, long_run: bool
) -> None:
    rounds = 2_000 if long_run else 80
    with SessionDB.from_url(place.url()) as db:
        db.create_session("s", "cli")
    expected: list[str] = []
    with proxy_to(place.port, seed=int(lost_replies * 1000)) as proxy:
        with SessionDB.from_url(place.url(proxy.port), lock_timeout=60.0) as db:
            proxy.lost_requests, proxy.lost_replies = lost_requests, lost_replies
            for number in range(rounds):
                db.append_message("s", "user", f"one {number}")
                db.append_messages(
                    "s", [{"role": "user", "content": f"{part} of two {number}"} for part in "ab"]
                )
                db.set_meta("number", str(number))
                db.append_message("s", "user", f"known {number}", external_id=str(number))
                expected += [f"one {number}", f"a of two {number}", f"b of two {number}"]
                expected.append(f"known {number}")
                db.update_token_counts("s", input_tokens=1)
            proxy.lost_requests = proxy.lost_replies = 0.0
        assert proxy.cuts > 5
    with SessionDB.from_url(place.url()) as db:
        assert texts_of(db, "s") == expected
        assert db.get_meta("number") == str(rounds - 1)
        session = db.get_session("s")
        assert session is not None
        assert session["input_tokens"] == rounds
        assert session["message_count"] == len(expected)


def test_a_read_after_the_connection_was_lost(place: Place) -> None:
    with proxy_to(place.port) as proxy, SessionDB.from_url(place.url(proxy.port)) as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "here")
        for _ in range(3):
            proxy.cut_all()
            assert texts_of(db, "s") == ["here"]
            proxy.cut_all()
            db.append_message("s", "user", "more")
            proxy.cut_all()
            assert len(db.search_messages("more")) >= 1
            db.replace_messages("s", [{"role": "user", "content": "here"}])


@pytest.mark.fault("The server stays unavailable", "Refused with a clear error, in time")
def test_a_server_that_stays_unavailable(place: Place) -> None:
    """Neither a hang nor another store: an error that says so, after the time allowed."""
    proxy = Proxy(place.port)
    with SessionDB.from_url(place.url(proxy.port), lock_timeout=0.5) as db:
        db.create_session("s", "cli")
        proxy.close()
        with pytest.raises(StoreUnavailable):
            db.append_message("s", "user", "lost")
        with pytest.raises(StoreUnavailable):
            db.get_messages("s")
    with SessionDB.from_url(place.url()) as db:
        assert texts_of(db, "s") == []


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.fault(
    "The server is restarted, or killed", "Every acknowledged message is there once, in order"
)
def test_a_server_that_is_restarted(place: Place, at_once: bool) -> None:
    acknowledged: dict[str, list[str]] = {}
    stop = threading.Event()
    enough = threading.Semaphore(0)
    with SessionDB.from_url(place.url(), lock_timeout=60.0) as db:

        def work(session_id: str) -> None:
            said = acknowledged[session_id] = []
            for number in count():
                if stop.is_set():
                    return
                db.append_message(session_id, "user", f"{number}")
                said.append(f"{number}")
                if number % 20 == 0:
                    enough.release()

        threads = []
        for name in "abcd":
            db.create_session(name, "cli")
            threads.append(threading.Thread(target=work, args=(name,)))
            threads[-1].start()
        for _ in range(8):
            enough.acquire()
        place.server.restart(at_once=at_once)
        for _ in range(8):
            enough.acquire()
        stop.set()
        for thread in threads:
            thread.join()
        for name, said in acknowledged.items():
            assert texts_of(db, name) == said


def test_a_server_is_used_as_soon_as_it_is_back_after_a_long_outage(place: Place) -> None:
    with (
        proxy_to(place.port) as proxy,
        SessionDB.from_url(place.url(proxy.port), lock_timeout=1.0) as db,
    ):
        db.create_session("s", "cli")
        proxy.lost_requests = 1.0
        proxy.cut_all()
        for _ in range(4):
            with pytest.raises(StoreUnavailable):
                db.append_message("s", "user", "Into the void")
        proxy.lost_requests = 0.0
        db.append_message("s", "user", "At once")
        assert [message["content"] for message in db.get_messages("s")] == ["At once"]


def test_threads_lose_their_connections_together(place: Place) -> None:
    with (
        proxy_to(place.port) as proxy,
        SessionDB.from_url(place.url(proxy.port), lock_timeout=60.0) as db,
    ):
        db.create_session("s", "cli")

        def work(writer: int) -> None:
            for number in range(20):
                db.append_message("s", "user", f"{writer} {number}")

        threads = [threading.Thread(target=work, args=(writer,)) for writer in range(6)]
        for thread in threads:
            thread.start()
        for _ in range(10):
            proxy.cut_all()
        for thread in threads:
            thread.join()
        stored = texts_of(db, "s")
    assert Counter(stored) == Counter(f"{w} {n}" for w in range(6) for n in range(20))
    for writer in range(6):
        mine = [text for text in stored if text.startswith(f"{writer} ")]
        assert mine == [f"{writer} {n}" for n in range(20)]


@pytest.mark.fault(
    "A process freezes in the middle of a write",
    "The server ends it after a while; others continue; it writes again when it wakes up",
)
def test_a_writer_that_freezes_holds_up_others_for_a_while_only(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SessionDB.from_url(place.url()) as others:
        others.set_meta("owner", "nobody")
        monkeypatch.setattr(driver, "IDLE_WRITE_SECONDS", 1)
        wakes_up = threading.Event()
        with SessionDB.from_url(place.url()) as frozen, ThreadPoolExecutor(1) as thread:
            tries = count(1)
            has_begun = threading.Event()

            def work(tx: WriteTransaction) -> int:
                tx.run('UPDATE state_meta SET value = ? WHERE "key" = ?', ("frozen", "owner"))
                has_begun.set()
                assert wakes_up.wait(60)
                tx.run('UPDATE state_meta SET value = ? WHERE "key" = ?', ("awake", "owner"))
                return next(tries)

            writing = thread.submit(frozen.store.provider.write, work, isolated=False)
            try:
                assert has_begun.wait(60)
                others.set_meta("owner", "others")
            finally:
                wakes_up.set()
            assert writing.result(60) == 1
        assert others.get_meta("owner") == "awake"


def test_a_slow_reader_is_left_alone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "IDLE_WRITE_SECONDS", 1)
    with SessionDB.from_url(place.url()) as db:
        db.set_meta("k", "v")
        setting = {
            "postgresql": "SELECT current_setting('idle_in_transaction_session_timeout')",
            "mariadb": "SELECT @@idle_readonly_transaction_timeout + @@idle_transaction_timeout",
        }[place.kind]
        with db.store.provider.read() as tx:
            assert str(tx.all(setting, ())[0][0]) == "0"


@pytest.mark.fault(
    "A server rolls a write back, and reports the success of its commit",
    "Run again: what was acknowledged is stored",
)
@pytest.mark.parametrize("isolated", [True, False])
def test_a_transaction_that_the_server_left(place: Place, isolated: bool) -> None:
    endings = iter(["ROLLBACK"])

    def work(tx: WriteTransaction) -> None:
        tx.run('INSERT INTO state_meta ("key", value) VALUES (?, ?)', ("a", "stored"))
        for ending in endings:
            tx.run(ending)

    with SessionDB.from_url(place.url()) as db:
        db.provider.write(work, isolated=isolated)
        assert db.get_meta("a") == "stored"

"""Two real processes compete for lanes while one of them is killed repeatedly."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hermes_sessions.lifecycle.mailboxes import Mailboxes
from hermes_sessions.lifecycle.session_store import SessionStore
from tests.lifecycle.lane_worker import chat, open_sessions
from tests.servers.stores import mysql_place, mysql_store, postgresql_place, postgresql_store

ROOT = Path(__file__).parents[2]


class LaneWorker:
    """The process, and what it says."""

    def __init__(self, url: str, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.lifecycle.lane_worker", url, str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: queue.Queue[str] = queue.Queue()
        self.listener = threading.Thread(target=self.listen)
        self.listener.start()

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.put(line)

    def wait_for(self, turns: int, is_idle: Callable[[], bool]) -> None:
        """Wait until *turns* more turns have begun, unless there is nothing left to do."""
        while turns and not is_idle() and self.process.poll() is None:
            with suppress(queue.Empty):
                turns -= self.said.get(timeout=0.05).startswith("begun")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.listener.join()

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.listener.join()
        assert self.process.stderr is not None
        complaints = self.process.stderr.read()
        self.process.stderr.close()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        assert self.process.returncode == 0, complaints


def fight(url: str, folder: Path, *, lanes: int, kills: int) -> None:
    """Send messages to every lane while one fighter is killed, and killed again; check that each
    message is answered once, in order.
    """
    sessions = open_sessions(url, str(folder))
    mail = Mailboxes(sessions.engine)
    keys = [sessions.session_key(chat(number)) for number in range(lanes)]
    sent: dict[int, str] = {}

    def send(round_: int) -> None:
        for number, key in enumerate(keys):
            put = mail.receive(
                key,
                kind="queue" if (number + round_) % 3 == 0 else "message",
                sender="ann",
                text=f"{number} {round_}",
                origin=chat(number),
            )
            assert put.item_id is not None
            sent[put.item_id] = f"{number} {round_}"

    def is_idle() -> bool:
        with sessions.db.provider.read() as tx:
            row = tx.one("SELECT COUNT(*) FROM mailbox WHERE finished_at IS NULL")
        return row == (0,)

    try:
        send(0)
        survivor, victim = LaneWorker(url, folder), LaneWorker(url, folder)
        for number in range(kills):
            send(number + 1)
            victim.wait_for(1 + number % 3, is_idle)
            victim.kill()
            victim = LaneWorker(url, folder)
        survivor.wait_for(2**31, is_idle)
        victim.end()
        survivor.end()
        check(sessions, sent, keys)
    finally:
        sessions.close()
        sessions.db.close()


def check(sessions: SessionStore, sent: dict[int, str], keys: list[str]) -> None:
    with sessions.db.provider.read() as tx:
        commits = Counter(
            int(row[0])
            for row in tx.all('SELECT value FROM state_meta WHERE "key" LIKE ?', ("commit %",))
        )
        rows = tx.all("SELECT id, kind, status, reason FROM mailbox")
        unfinished = tx.all("SELECT id FROM turns WHERE ended_at IS NULL")
        outcomes = Counter(row[0] for row in tx.all("SELECT outcome FROM turns"))
    resumed = {row[0] for row in rows if row[1] == "resume"}
    assert {item_id: times for item_id, times in commits.items() if times != 1} == {}
    assert commits.keys() - resumed == sent.keys()
    assert {row[0] for row in rows if row[1] != "resume"} == sent.keys()
    assert {row[2:] for row in rows} == {("done", "completed")}
    assert unfinished == []
    assert outcomes.keys() <= {"completed", "abandoned"}
    for number, key in enumerate(keys):
        entry = sessions.peek(chat(number))
        assert entry is not None
        assert (entry.session_key, entry.resume_pending, entry.suspended) == (key, False, False)
        messages = sessions.db.get_messages(entry.session_id)
        told = [m["content"] for m in messages if m["role"] == "user" and m["content"]]
        assert told == [text for text in sent.values() if text.partition(" ")[0] == str(number)]


@contextmanager
def store_on(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder}/state.db"
        return
    server = request.getfixturevalue(kind)
    store_of, place_of = {
        "postgresql": (postgresql_store, postgresql_place),
        "mariadb": (mysql_store, mysql_place),
    }[kind]
    with store_of(server, "fights"):
        yield place_of(server, "fights").url()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "lanes", "kills"), [("postgresql", 100, 5), ("mariadb", 25, 3), ("sqlite", 25, 3)]
)
@pytest.mark.fault(
    "Two processes fight over lanes, one is killed", "No message is lost or answered twice"
)
def test_no_message_is_lost_or_answered_twice(
    kind: str,
    lanes: int,
    kills: int,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    long_run: bool,
) -> None:
    with store_on(kind, request, tmp_path) as url:
        fight(url, tmp_path, lanes=lanes, kills=kills * 5 if long_run else kills)

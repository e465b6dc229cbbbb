"""Everything goes wrong at once: gateways are killed, the database restarts, its
connections are cut, and Telegram delivers again what it has delivered.

Afterwards every message that was accepted has one committed turn, in order in its lane, and every
reply was sent or is visible as failed.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.spool import waiting_below
from tests.gateway.fleet import Fleet
from tests.servers.launching import Server, start_postgresql
from tests.servers.proxy import Proxy, proxy_to

SEED = 20261116
#: A guard against hanging, not a measurement.
LONGEST = 900.0


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of its own, because it is killed."""
    server = start_postgresql()
    yield server
    server.destroy()


class Chaos:
    """What goes wrong, until it is told to stop; then nothing does any more."""

    def __init__(self, fleet: Fleet, server: Server, proxy: Proxy, times: int) -> None:
        self._fleet, self._server, self._proxy = fleet, server, proxy
        self._left = times
        self._random = random.Random(SEED)
        self._ends = threading.Event()
        self.events: list[str] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        mischief: list[Callable[[], None]] = [
            self.kill_a_gateway,
            self.kill_a_gateway,
            self.restart_the_database,
            self.cut_connections,
            self.lose_some,
        ]
        while self._left and not self._ends.wait(self._random.uniform(0.5, 2.0)):
            self._left -= 1
            one = self._random.choice(mischief)
            self.events.append(one.__name__)
            one()

    def kill_a_gateway(self) -> None:
        port = self._random.choice(list(self._fleet.gateways))
        self._fleet.gateways[port].kill()
        self._fleet.start(port)
        # The next one is not killed before it runs: a gateway that never gets ready does nothing.
        self._fleet.gateways[port].wait_for_line("ready")

    def restart_the_database(self) -> None:
        self._server.restart(at_once=True)

    def cut_connections(self) -> None:
        self._proxy.cut_all()

    def lose_some(self) -> None:
        self._proxy.lost_requests = self._proxy.lost_replies = 0.005
        self._ends.wait(self._random.uniform(0.5, 1.5))
        self._proxy.lost_requests = self._proxy.lost_replies = 0.0

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()
        self._proxy.lost_requests = self._proxy.lost_replies = 0.0


def wait_until(is_so: Callable[[], bool], what: Callable[[], object]) -> None:
    until = time.monotonic() + LONGEST
    while not is_so():
        assert time.monotonic() < until, what()
        time.sleep(0.2)


def deliver(fleet: Fleet, lanes: int, each: int) -> dict[int, list[str]]:
    """Let everybody write, some of it twice; return what each has written, in order."""
    chance = random.Random(SEED)
    written: dict[int, list[str]] = defaultdict(list)
    again: list[dict[str, Any]] = []
    order = [user for user in range(1000, 1000 + lanes) for _ in range(each)]
    chance.shuffle(order)
    for number, user in enumerate(order):
        text = f"{user}-{len(written[user])}"
        written[user].append(text)
        person = {"id": user, "is_bot": False, "first_name": f"U{user}"}
        message = {
            "message_id": number + 1,
            "date": 1700000000,
            "chat": {"id": user, "type": "private", "first_name": f"U{user}"},
            "from": person,
            "text": text,
        }
        fleet.telegram.push({"message": message})
        if chance.random() < 0.2:
            again.append(message)
        if again and chance.random() < 0.2:
            # Later than others that were written after it.
            fleet.telegram.push({"message": again.pop(chance.randrange(len(again)))})
    for message in again:
        fleet.telegram.push({"message": message})
    return written


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.fault(
    "Gateways are killed, the database restarted, connections cut, messages repeated",
    "Every accepted message has one turn, in order; every reply was sent or is shown as failed",
    on="postgresql",
)
def test_every_message_has_one_turn_whatever_happens(
    server: Server, tmp_path: Path, long_run: bool
) -> None:
    lanes, each, mischief = (200, 25, 100) if long_run else (200, 2, 8)
    url = f"postgresql://hermes@127.0.0.1:{server.port}/postgres?schema=chaos"
    with SessionDB.from_url(url):
        pass
    with proxy_to(server.port, SEED) as proxy:
        through = url.replace(str(server.port), str(proxy.port))
        with Fleet(tmp_path, through, lease_seconds=3) as fleet:
            for _ in range(2):
                fleet.start_and_wait()
            chaos = Chaos(fleet, server, proxy, mischief)
            try:
                written = deliver(fleet, lanes, each)
                wait_until(lambda: not fleet.telegram.waiting, lambda: chaos.events)
            finally:
                chaos.stop()
            with SessionDB.from_url(url) as db:
                # What came while the database was away waits in files first.
                wait_until(
                    lambda: waiting_below(tmp_path).entries == 0 and settled(db),
                    lambda: (chaos.events, state_of(db), waiting_below(tmp_path)),
                )
                for gateway in fleet.gateways.values():
                    gateway.signal(signal.SIGTERM)
                for gateway in fleet.gateways.values():
                    gateway.wait()
                assert chaos.events
                assert waiting_below(tmp_path).put_aside == 0
                check(db, fleet, written)


def rows(db: SessionDB, statement: str) -> list[Any]:
    with db.store.provider.read() as tx:
        return list(tx.all(statement))


def settled(db: SessionDB) -> bool:
    waiting = rows(db, "SELECT COUNT(*) FROM mailbox WHERE status IN ('waiting', 'running')")
    sending = rows(db, "SELECT COUNT(*) FROM outbox WHERE status IN ('waiting', 'sending')")
    return waiting[0][0] == 0 and sending[0][0] == 0


def state_of(db: SessionDB) -> dict[str, Any]:
    return {
        table: rows(db, f"SELECT status, COUNT(*) FROM {table} GROUP BY status")
        for table in ("mailbox", "outbox", "lanes")
    }


def check(db: SessionDB, fleet: Fleet, written: dict[int, list[str]]) -> None:
    # One committed turn for every message.
    fates = rows(
        db,
        "SELECT mailbox.status, mailbox.reason, turns.outcome, COUNT(*) FROM mailbox "
        "JOIN turns ON turns.id = mailbox.turn_id WHERE mailbox.kind = 'message' "
        "GROUP BY mailbox.status, mailbox.reason, turns.outcome",
    )
    total = sum(len(texts) for texts in written.values())
    assert [tuple(fate) for fate in fates] == [("done", "completed", "completed", total)]
    # In order, once, in the transcripts.
    for session in db.list_sessions_rich(limit=10_000):
        asked = [row["content"] for row in db.get_messages(session["id"]) if row["role"] == "user"]
        said = "\n".join(asked).split("\n")
        assert said == written.pop(int(session["user_id"]))
        replies = "\n".join(fleet.replies(int(session["user_id"])))
        answered = replies.replace("You said: ", "").split("\n")
        assert set(said) <= set(answered), (session["id"], replies)
    assert written == {}
    # Every turn's reply was sent, or can be seen.
    replied = rows(
        db,
        "SELECT turns.id, COUNT(outbox.id) FROM turns LEFT JOIN outbox "
        "ON outbox.turn_id = turns.id AND outbox.status IN ('sent', 'dead') "
        "WHERE turns.outcome = 'completed' GROUP BY turns.id HAVING COUNT(outbox.id) <> 1",
    )
    assert replied == []

"""Everything goes wrong at once: gateways are killed, the database restarts, freezes or is taken
over by its standby, its connections are cut, another SQLite library uses its file, and Telegram
delivers again what it has delivered.

Afterwards every message that was accepted has one committed turn, in order in its lane, and every
reply was sent or is visible as failed.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.spool import spool_status
from tests.gateway.fleet import HERMES, Fleet
from tests.servers.galera import Cluster
from tests.servers.proxy import Proxy, proxy_to
from tests.servers.server_processes import (
    Server,
    mysql_connection,
    start_mariadb,
    start_postgresql,
    start_synchronous_standby,
)
from tests.servers.test_standby import promote

SEED = 20261116
#: A guard against hanging, not a measurement.
LONGEST = 900.0


@dataclass
class Database:
    """Where the store is, and what can happen to it."""

    #: Gives the URL by the ports of the servers, or of what stands before them.
    url_of: Callable[[list[int]], str]
    #: Those that take part; all of them have what is acknowledged.
    servers: list[Server] = field(default_factory=list)
    #: The ``hermes`` command of the gateways that use it.
    program: tuple[str, ...] = (HERMES,)
    #: Lets another server than the first one do the work.
    take_over: Callable[[Server], None] | None = None
    proxies: list[Proxy] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Straight to the servers that are left."""
        return self.url_of([server.port for server in self.servers])

    @contextmanager
    def behind_proxies(self) -> Iterator[str]:
        """Give the URL through a proxy for each server."""
        with ExitStack() as proxies:
            self.proxies = [
                proxies.enter_context(proxy_to(server.port, SEED)) for server in self.servers
            ]
            yield self.url_of([proxy.port for proxy in self.proxies])


@contextmanager
def sqlite(home: Path) -> Iterator[Database]:
    path = str(home / "state.db")
    program = (sys.executable, "-m", "tests.gateway.beside_sqlite", path)
    yield Database(lambda _ports: f"sqlite:///{path}", program=program)


@contextmanager
def postgresql(_home: Path) -> Iterator[Database]:
    """Servers of its own, because they are killed: one, and its synchronous standby."""

    def url_of(ports: list[int]) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgresql://hermes@{hosts}/postgres?schema=chaos"

    with ExitStack() as started:
        primary = start_postgresql()
        started.callback(primary.destroy)
        standby = start_synchronous_standby(primary)
        started.callback(standby.destroy)
        yield Database(url_of, [primary, standby], take_over=promote)


@contextmanager
def mariadb(_home: Path) -> Iterator[Database]:
    with ExitStack() as started:
        server = start_mariadb()
        started.callback(server.destroy)
        with mysql_connection(server) as connection:
            connection.cursor().execute("CREATE DATABASE chaos")
        yield Database(lambda ports: f"mysql://root@127.0.0.1:{ports[0]}/chaos", [server])


@contextmanager
def galera(_home: Path) -> Iterator[Database]:
    """Three nodes that all take writes."""

    def url_of(ports: list[int]) -> str:
        return f"mysql://root@{','.join(f'127.0.0.1:{port}' for port in ports)}/chaos"

    cluster = Cluster()
    try:
        cluster.run("CREATE DATABASE chaos")
        yield Database(url_of, cluster.nodes)
    finally:
        cluster.destroy()


class Chaos:
    """What goes wrong, each of it at least once, and so many times in all."""

    def __init__(self, fleet: Fleet, database: Database, times: int) -> None:
        self._fleet, self._database = fleet, database
        self._random = random.Random(SEED)
        self._ends = threading.Event()
        self._failures: list[BaseException] = []
        self.events: list[str] = []
        mischief: list[Callable[[], None]] = [self.kill_a_gateway, self.kill_a_gateway]
        if database.servers:
            mischief += [self.restart_a_server, self.freeze_a_server]
            mischief += [self.cut_connections, self.lose_some]
        order = mischief + self._random.choices(mischief, k=max(0, times - len(mischief)))
        if database.take_over is not None:
            order.append(self.lose_the_first_server)
        self._random.shuffle(order)
        self._thread = threading.Thread(target=self._run, args=(order,))
        self._thread.start()

    def _run(self, order: list[Callable[[], None]]) -> None:
        try:
            for one in order:
                if self._ends.wait(self._random.uniform(0.3, 1.0)):
                    return
                self.events.append(one.__name__)
                one()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._failures.append(error)

    def kill_a_gateway(self) -> None:
        port = self._random.choice(list(self._fleet.gateways))
        self._fleet.gateways[port].kill()
        self._fleet.start(port)
        # The next one is not killed before it runs: a gateway that never gets ready does nothing.
        self._fleet.gateways[port].wait_for_line("ready")

    def restart_a_server(self) -> None:
        self._random.choice(self._database.servers).restart(at_once=True)

    def freeze_a_server(self) -> None:
        server = self._random.choice(self._database.servers)
        server.freeze()
        try:
            self._ends.wait(self._random.uniform(1.0, 3.0))
        finally:
            server.thaw()

    def lose_the_first_server(self) -> None:
        """It freezes, the next one takes over, and has all that was acknowledged; it is shut down
        then, as whoever lets another take over does.
        """
        assert self._database.take_over is not None
        lost = self._database.servers.pop(0)
        lost.freeze()
        self._database.take_over(self._database.servers[0])
        self._ends.wait(self._random.uniform(0.5, 1.5))
        lost.stop(signal.SIGKILL)

    def cut_connections(self) -> None:
        for proxy in self._database.proxies:
            proxy.cut_all()

    def lose_some(self) -> None:
        self._lose(0.005)
        self._ends.wait(self._random.uniform(0.5, 1.5))
        self._lose(0.0)

    def _lose(self, share: float) -> None:
        for proxy in self._database.proxies:
            proxy.lost_requests = proxy.lost_replies = share

    def finish(self) -> None:
        """Wait until everything has happened; then nothing goes wrong any more."""
        self._thread.join(LONGEST)
        assert not self._thread.is_alive(), self.events
        self.stop()
        for failure in self._failures:
            raise failure

    def stop(self) -> None:
        self._ends.set()
        self._thread.join(LONGEST)
        self._lose(0.0)


def wait_until(is_so: Callable[[], bool], what: Callable[[], object]) -> None:
    until = time.monotonic() + LONGEST
    while not is_so():
        assert time.monotonic() < until, what()
        time.sleep(0.2)


def deliver(fleet: Fleet, lanes: int, each: int) -> dict[int, list[str]]:
    """Let all users write, some messages twice; return the messages of each, in order."""
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


KILLED = "gateways are killed, messages repeated"
ON_SERVERS = "connections cut, the server is restarted and frozen"
#: What happens to each database, its kind, how many lanes there are, and how much goes wrong.
DATABASES = {
    sqlite: (f"{KILLED}; another SQLite library in them uses the file", "sqlite", 120, 4),
    postgresql: (
        f"{KILLED}, {ON_SERVERS}, a synchronous standby takes over",
        "postgresql",
        200,
        8,
    ),
    mariadb: (f"{KILLED}, {ON_SERVERS}", "mariadb", 60, 6),
    galera: (f"{KILLED}, {ON_SERVERS}, on a Galera cluster", "mariadb", 40, 6),
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("make", "lanes", "mischief"),
    [
        pytest.param(
            make,
            lanes,
            mischief,
            id=make.__name__,
            marks=pytest.mark.fault(
                f"Everything at once: {what}",
                "Every accepted message has one turn, in order; "
                "every reply was sent or is shown as failed",
                on=kind,
            ),
        )
        for make, (what, kind, lanes, mischief) in DATABASES.items()
    ],
)
def test_every_message_has_one_turn_whatever_happens(
    make: Callable[[Path], AbstractContextManager[Database]],
    lanes: int,
    mischief: int,
    tmp_path: Path,
    long_run: bool,
) -> None:
    each = 25 if long_run else 2
    with ExitStack() as started:
        database = started.enter_context(make(tmp_path))
        with SessionDB.from_url(database.url):
            pass
        through = started.enter_context(database.behind_proxies())
        fleet = started.enter_context(
            Fleet(tmp_path, through, program=database.program, lease_seconds=3)
        )
        for _ in range(2):
            fleet.start_and_wait()
        chaos = Chaos(fleet, database, 100 if long_run else mischief)
        try:
            written = deliver(fleet, lanes, each)
            chaos.finish()
            wait_until(lambda: not fleet.telegram.waiting, lambda: chaos.events)
        finally:
            chaos.stop()
        with SessionDB.from_url(database.url) as db:
            # What came while the database was away waits in files first.
            wait_until(
                lambda: spool_status(tmp_path).entries == 0 and settled(db),
                lambda: (chaos.events, state_of(db), spool_status(tmp_path)),
            )
            for gateway in fleet.gateways.values():
                gateway.signal(signal.SIGTERM)
            for gateway in fleet.gateways.values():
                gateway.wait()
            assert spool_status(tmp_path).put_aside == 0
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

"""A gateway process for tests: ``python -m tests.lifecycle.lane_worker URL FOLDER``.

It runs turns on any lane that has work until its standard input ends, and says which it
has begun and which are committed. It is made to be killed.
"""

from __future__ import annotations

import random
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

from hermes_sessions import SessionDB
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.errors import ConversationHeld, StaleFence, StoreUnreachable
from hermes_sessions.lifecycle.gateway_process import GatewayProcess
from hermes_sessions.lifecycle.mailboxes import Mailboxes, StartedTurn
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.leases import Lease, Leases

THREADS = 3
#: Never waited for: a process that finds another one gone releases its leases.
TTL = 3600.0


def chat(number: int) -> SessionSource:
    """One of the lanes that are fought over."""
    return SessionSource(Platform.TELEGRAM, str(number), user_id="ann")


def open_sessions(url: str, folder: str) -> SessionStore:
    config = GatewayConfig(write_sessions_json=False, mailbox_limit=1_000)
    # Long enough for a server that is restarted on a busy machine.
    return SessionStore(Path(folder), config, db=SessionDB.from_url(url, lock_timeout=120.0))


class LaneWorker:
    """One process with several threads, each of which takes any lane it can get."""

    def __init__(self, url: str, folder: str) -> None:
        self.sessions = open_sessions(url, folder)
        self.mail = Mailboxes(self.sessions.engine)
        self.leases = Leases(self.sessions.db.store)
        self.process = GatewayProcess(self.sessions.engine)
        self.stop = threading.Event()
        self.failed: list[BaseException] = []

    def run(self) -> int:
        self.process.start()
        threads = [threading.Thread(target=self.guarded, args=(work,)) for work in self.works()]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        self.stop.set()
        for thread in threads:
            thread.join()
        is_clean = self.process.end()
        self.sessions.db.close()
        for error in self.failed:
            print(f"failed {error!r}", flush=True)
        return 0 if is_clean and not self.failed else 1

    def works(self) -> list[object]:
        return [self.look_after_peers] + [partial(self.fight, n) for n in range(THREADS)]

    def guarded(self, work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as error:
            self.failed.append(error)
            self.stop.set()
            raise

    def look_after_peers(self) -> None:
        while not self.stop.wait(0.02):
            # A server that is stopped in the middle of an answer cannot give it; ask again.
            with suppress(StoreUnreachable):
                self.process.beat()
                self.process.recover()
                self.process.resume()

    def fight(self, seed: int) -> None:
        chance = random.Random(f"{self.process.id} {seed}")
        while not self.stop.is_set():
            with suppress(StoreUnreachable):
                waiting = self.mail.waiting_lanes(limit=10)
                if not waiting:
                    self.stop.wait(0.01)
                    continue
                one = chance.choice(waiting)
                self.run_lane(int(one.session_key.rpartition(":")[2]), one.lane_id)

    def run_lane(self, number: int, lane_id: int) -> None:
        entry = self.sessions.get_or_create_session(chat(number))
        try:
            lease = self.leases.take(entry.session_id, self.process.holder(), TTL)
        except ConversationHeld:
            return
        try:
            taken = self.mail.take(lane_id, lease)
            if taken is not None:
                print("begun", *taken.input.item_ids, flush=True)
                self.turn(taken, lease)
        except StaleFence:
            # Another worker was faster: the lane has another session, or another holder.
            return
        finally:
            self.leases.release(lease)

    def turn(self, taken: StartedTurn, lease: Lease) -> None:
        """Answer as an agent does: every step is stored under the lease, and once."""
        db, session_id = self.sessions.db, taken.turn.session_id
        for item in taken.input.items:
            db.append_message(
                session_id, "user", item.text, external_id=f"in {item.id}", fence=lease.token
            )
        first = taken.input.item_ids[0]
        db.append_message(
            session_id, "assistant", "yes", external_id=f"out {first}", fence=lease.token
        )
        finished = self.mail.finish(taken.turn, "completed", also=partial(self.note, taken))
        if finished.is_accepted:
            print("committed", *taken.input.item_ids, flush=True)

    @staticmethod
    def note(taken: StartedTurn, tx: WriteTransaction) -> None:
        """Write down each commit of each message, in the commit."""
        for item_id in taken.input.item_ids:
            tx.run(
                'INSERT INTO state_meta ("key", value) VALUES (?, ?)',
                (f"commit {item_id} {taken.turn.id}", str(item_id)),
            )


if __name__ == "__main__":
    sys.exit(LaneWorker(*sys.argv[1:]).run())

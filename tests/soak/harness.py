"""A store under load from many processes, and the faults injected into it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hermes_sessions import SessionDB
from hermes_sessions.lifecycle.mailboxes import Mailboxes
from hermes_sessions.model.retention import Limits, RetentionPolicies
from hermes_sessions.storage.care.backups import (
    Backup,
    BackupRule,
    create_backup,
    list_backups,
    prune_backups,
    restore_backup,
    verify_backup,
)
from tests.lifecycle.lane_worker import chat, open_sessions
from tests.lifecycle.test_competing_processes import LaneWorker
from tests.servers.server_processes import Server
from tests.soak.workers import PATIENCE, Worker, reader, writer
from tests.update.versions import start_writer

#: Messages per thread, and looks per reader, between two things that happen.
_MESSAGES = 8
_LOOKS = 3
_LANES = 4
_DAY = 86_400.0
_OLD = "soak-old"


class SoakHarness:
    """All who use the store, and all that was acknowledged to them."""

    def __init__(self, url: str, home: Path, earlier: Path, server: Server | None, seed: int):
        self.url = url
        self.home = home
        self.chance = random.Random(seed)
        self.backups = home / "backups"
        self.acknowledged: dict[str, list[int]] = defaultdict(list)
        self.sent: dict[int, str] = {}
        self.found_full = 0
        #: Sessions that must be gone in the end.
        self.gone: set[str] = set()
        self._earlier = earlier
        self._server = server
        self._started = 0
        self._workers: list[Worker] = []
        self._gateways: list[LaneWorker] = []
        self._things = ExitStack()

    # ── moving in and out ─────────────────────────────────────────────────────────────────────

    def start_workers(self) -> None:
        """The earlier version writes; the present one starts beside it and changes the tables."""
        self._run_earlier(amid=self._open)
        self._workers += [writer(self.url, self._name("w")) for _ in range(2)]
        self._workers.append(reader(self.url))
        self._gateways = [LaneWorker(self.url, self.home / "sessions") for _ in range(2)]

    def _open(self) -> None:
        self.db = self._things.enter_context(SessionDB.from_url(self.url, lock_timeout=PATIENCE))
        self.sessions = open_sessions(self.url, str(self.home / "sessions"))
        self._things.callback(self.sessions.db.close)
        self._things.callback(self.sessions.close)
        self._mail = Mailboxes(self.sessions.engine)
        self.keys = [self.sessions.session_key(chat(number)) for number in range(_LANES)]

    def stop_workers(self) -> None:
        """Let every worker finish its work and end in order."""
        for worker in self._workers:
            worker.end()
            self._note(worker)
        self._wait_for_answers()
        for gateway in self._gateways:
            gateway.end()
        self._workers, self._gateways = [], []

    def close(self) -> None:
        for worker in self._workers:
            worker.destroy()
        for gateway in self._gateways:
            gateway.kill()
        self._things.close()

    def _name(self, kind: str) -> str:
        self._started += 1
        return f"{kind}{self._started}"

    def _note(self, worker: Worker) -> None:
        self.found_full += worker.found_full
        for who, numbers in worker.acknowledged.items():
            self.acknowledged[who] += numbers

    # ── a round ───────────────────────────────────────────────────────────────────────────────

    def incidents(self) -> dict[str, Callable[[], None]]:
        """Return the faults that may happen while the workers write."""
        happening = {
            "a writer is killed": self._kill_writer,
            "a writer is asked to end": self._end_writer,
            "a gateway is killed": self._kill_gateway,
            "the earlier version is started again": self._run_earlier,
            "a backup": self._back_up,
            "a backup is restored elsewhere": self._restore_elsewhere,
            "old backups go": self._rotate,
            "old sessions go": self._prune,
            "limits are applied": self._retain,
            "space is given back": self._give_back,
            "the doctor looks": self._look,
        }
        if self._server is None:
            happening["the disk is full"] = self._fill_disk
        else:
            happening["the server is restarted"] = self._server.restart
            happening["the server is killed"] = self._kill_server
            happening["the server is frozen"] = self._freeze_server
        return happening

    def let(self, happen: Callable[[], None], number: int) -> None:
        """Let all workers write while a fault happens."""
        for lane, key in enumerate(self.keys):
            put = self._mail.receive(key, sender="ann", text=f"{lane} {number}", origin=chat(lane))
            assert put.item_id is not None
            self.sent[put.item_id] = f"{lane} {number}"
        for worker in self._workers[:-1]:
            worker.do(_MESSAGES)
        self._workers[-1].do(_LOOKS)
        happen()

    # ── what happens ──────────────────────────────────────────────────────────────────────────

    def _replace_writer(self, end: Callable[[Worker], None]) -> None:
        index = self.chance.randrange(len(self._workers) - 1)
        end(self._workers[index])
        self._note(self._workers[index])
        self._workers[index] = writer(self.url, self._name("w"))
        self._workers[index].do(_MESSAGES)

    def _kill_writer(self) -> None:
        self._replace_writer(Worker.kill)

    def _end_writer(self) -> None:
        self._replace_writer(Worker.terminate)

    def _kill_gateway(self) -> None:
        # A turn that is interrupted three times in a row is given up, which is not what we test.
        index = self.chance.randrange(len(self._gateways))
        self._gateways[index].kill()
        self._gateways[index] = LaneWorker(self.url, self.home / "sessions")
        self._wait_for_answers()

    def _wait_for_answers(self) -> None:
        self._gateways[0].wait_for(2**31, self._is_idle)
        assert self._is_idle(), "a gateway ended by itself"

    def _is_idle(self) -> bool:
        with self.db.provider.read() as tx:
            return tx.one("SELECT COUNT(*) FROM mailbox WHERE finished_at IS NULL") == (0,)

    def _run_earlier(self, amid: Callable[[], None] = lambda: None) -> None:
        """It writes, or says why not, until it is killed or asked to end."""
        name = self._name("earlier")
        by = self.chance.choice([signal.SIGTERM, signal.SIGKILL])
        heard: list[str] = []
        enough = threading.Event()

        def listen() -> None:
            for line in process.all_lines():
                heard.append(line)
                if len(heard) == 8:
                    enough.set()
            enough.set()

        with start_writer(self._earlier, self.url, name) as process:
            assert process.said() == "ready"
            listener = threading.Thread(target=listen)
            listener.start()
            process.tell()
            assert enough.wait(PATIENCE)
            amid()
            process.send(by)
            code = process.ended()
            listener.join()
            assert code in (0, 3, -by), process.complaints()
        self.acknowledged[name] += [int(line) for line in heard if line.isdigit()]

    def _back_up(self) -> None:
        made = create_backup(self.db, self.backups, portable=self.chance.random() < 0.5)
        assert verify_backup(made.path).messages == made.messages

    def _restore_elsewhere(self) -> None:
        known = list_backups(self.backups)
        chosen: Backup = (
            self.chance.choice(known) if known else create_backup(self.db, self.backups)
        )
        target = self.home / "elsewhere.db"
        restore_backup(chosen.path, target)
        with SessionDB(target) as restored:
            for session in restored.list_sessions_rich(limit=50, source="soak"):
                texts = texts_of(restored, session["id"])
                # What was stored when it was made, and nothing else.
                assert texts_of(self.db, session["id"])[: len(texts)] == texts
        for each in self.home.glob("elsewhere.db*"):
            each.unlink()

    def _rotate(self) -> None:
        prune_backups(self.backups, BackupRule(keep=2))
        assert all(backup.state == "complete" for backup in list_backups(self.backups))

    def _prune(self) -> None:
        name = self._name("old")
        with SessionDB.from_url(self.url, lock_timeout=PATIENCE, clock=long_ago) as then:
            then.create_session(name, _OLD)
            then.append_messages(name, [{"role": "user", "content": "x" * 5_000}] * 5)
            then.end_session(name, "done")
        self.gone.add(name)
        assert self.db.prune_sessions(older_than_days=1, source=_OLD) == 1

    def _retain(self) -> None:
        for _ in range(2):
            name = self._name("cron")
            with SessionDB.from_url(self.url, lock_timeout=PATIENCE, clock=long_ago) as then:
                then.create_session(name, "cron")
                then.append_message(name, "user", "every night")
                then.end_session(name, "done")
            self.gone.add(name)
        policies = RetentionPolicies(cron=Limits(max_age_days=1))
        self.db.approve_retention(self.db.plan_retention(policies))
        assert len(self.db.run_retention(policies).moved) == 2

    def _give_back(self) -> None:
        self.db.optimize_search()
        self.db.trim()

    def _fill_disk(self) -> None:
        full = writer(self.url, self._name("full"), limit=40_000)
        full.do(200)
        full.end()
        self._note(full)

    def _kill_server(self) -> None:
        assert self._server is not None
        self._server.restart(at_once=True)

    def _freeze_server(self) -> None:
        """For longer than a commit waits for its answer."""
        assert self._server is not None
        self._server.freeze()
        thaw = threading.Timer(2.0, self._server.thaw)
        thaw.start()
        thaw.join()

    def _look(self) -> None:
        found = self.examine()
        damage = [each for each in found["findings"] if each["condition"].startswith("damaged")]
        assert damage == []

    def examine(self, *flags: str) -> dict[str, Any]:
        """What ``hermes doctor`` says about the store."""
        done = subprocess.run(
            [sys.executable, "-m", "hermes_sessions", "doctor", "--json", *flags],
            env={**os.environ, "HERMES_HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout, done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        return said


def texts_of(db: SessionDB, session_id: str) -> list[str]:
    return [message["content"] for message in db.get_messages(session_id)]


def long_ago() -> float:
    return 1_600_000_000.0

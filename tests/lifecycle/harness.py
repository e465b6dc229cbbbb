"""One bot on one store: the steps of a gateway, one line each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes_sessions import SessionDB
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.lifecycle.gateway_process import GatewayProcess, RecoveryReport
from hermes_sessions.lifecycle.lane_dependencies import HasActiveProcesses
from hermes_sessions.lifecycle.mailboxes import Mailboxes, StartedTurn, TurnEnding
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.lifecycle.turn_input import dedupe_mark
from hermes_sessions.model.lane import Lane
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.repositories.lane_transitions import history
from hermes_sessions.storage.repositories.leases import Lease, Leases
from hermes_sessions.storage.repositories.mailbox import EnqueueResult, Kind
from hermes_sessions.storage.repositories.turns import Outcome, Turns
from hermes_sessions_testing.clock import FrozenClock

#: Longer than any test lasts, unless its clock is moved.
TTL = 60.0
#: No process has this number.
UNUSED_PID = 2**22 + 1


class LifecycleHarness:
    """A store, its clock, and one gateway process after the other."""

    def __init__(
        self,
        db: SessionDB,
        clock: FrozenClock,
        home: Path,
        *,
        active_processes: HasActiveProcesses | None = None,
        **config: Any,
    ) -> None:
        self.db = db
        self.clock = clock
        self.home = home
        given = {"write_sessions_json": False, **config}
        self.sessions = SessionStore(
            home / "sessions", GatewayConfig(**given), active_processes, db=db
        )
        self.engine = self.sessions.engine
        self.mail = Mailboxes(self.engine)
        self.leases = Leases(db.store)
        self.turns = Turns(db.store)
        self.process = self.new_process()
        self.recovered: RecoveryReport = self.process.start()

    def new_process(self, **options: Any) -> GatewayProcess:
        """A process that counts as gone as soon as another is started. Its clock does not jump:
        when it is moved, so much time has passed.
        """
        given = {
            "home": self.home,
            "pid": UNUSED_PID,
            "runs_here": lambda _: True,
            "stopwatch": self.clock,
            **options,
        }
        return GatewayProcess(self.engine, **given)

    def crash(self, *, after: float = 3600.0) -> RecoveryReport:
        """Let the process die, and start another one after its heartbeats have been missed."""
        self.clock.advance(after)
        self.process = self.new_process()
        self.recovered = self.process.start()
        return self.recovered

    def restart(self) -> RecoveryReport:
        """The process ends properly, and another is started."""
        self.process.end()
        self.process = self.new_process()
        self.recovered = self.process.start()
        return self.recovered

    # ── lanes ─────────────────────────────────────────────────────────────────────────────────

    def lane(self, name: str = "1") -> Lane:
        """The lane of a private chat, in the session that a message would go to now."""
        self.sessions.get_or_create_session(source(name))
        return self.seen(name)

    def seen(self, name: str = "1") -> Lane:
        """The lane as it is."""
        with self.db.provider.read() as tx:
            found = self.engine.lanes.find(
                tx, self.engine.namespace, self.engine.key_of(source(name))
            )
        assert found is not None
        return found

    def explained(self, name: str = "1") -> list[tuple[str, str | None]]:
        """What happened to the lane, and why."""
        with self.db.provider.read() as tx:
            return [(one.action, one.reason) for one in history(tx, self.seen(name).id)]

    # ── messages and turns ────────────────────────────────────────────────────────────────────

    def say(
        self,
        text: str | None,
        *,
        to: str = "1",
        sender: str | None = "ann",
        kind: Kind = "message",
        message_id: str | None = None,
        **payload: Any,
    ) -> EnqueueResult:
        """Receive something for a lane, which need not exist."""
        return self.mail.receive(
            self.engine.key_of(source(to)),
            kind=kind,
            sender=sender,
            text=text,
            payload=payload,
            dedupe=dedupe_mark(self.engine.namespace, "telegram", to, message_id),
            origin=source(to),
        )

    def hold(self, name: str = "1") -> Lease:
        """Take the lease on the session that the lane is in."""
        return self.leases.take(self.lane(name).session_id, self.process.holder(), TTL)

    def begin(self, name: str = "1", lease: Lease | None = None) -> StartedTurn | None:
        """Begin the next turn; without a lease, take one."""
        held = lease or self.hold(name)
        taken = self.mail.take(self.seen(name), held)
        if taken is None and lease is None:
            self.leases.release(held)
        return taken

    def answer(
        self, taken: StartedTurn, outcome: Outcome = "completed", **options: Any
    ) -> TurnEnding:
        """End a turn and give the lease back."""
        finished = self.mail.finish(taken.turn, outcome, **options)
        self.leases.release(lease_of(taken))
        return finished

    def run_all(self, name: str = "1") -> list[str]:
        """Run turns until nothing waits; return what each answered."""
        said = []
        while (taken := self.begin(name)) is not None:
            said.append(taken.input.text)
            assert self.answer(taken).is_accepted
        return said

    def rows(self) -> list[tuple[str | None, str, str | None]]:
        """The mailbox: text, status, reason."""
        with self.db.provider.read() as tx:
            found = tx.all("SELECT text, status, reason FROM mailbox ORDER BY id")
        return [(text, status, reason) for text, status, reason in found]


def lease_of(taken: StartedTurn) -> Lease:
    turn = taken.turn
    return Lease(turn.chain_id, turn.session_id, turn.token, "", turn.process_id, 0)


def source(name: str = "1") -> SessionSource:
    """A private chat on Telegram."""
    return SessionSource(Platform.TELEGRAM, name, user_id="ann")

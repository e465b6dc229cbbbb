"""The expiry watcher: periodic maintenance of lanes that are no longer used.

Every pass ends the sessions of expired lanes, runs the hooks of sessions that a message ended,
evicts idle agents and, once an hour, forgets old lanes and old answered messages. Several processes
may watch one store: each lane is finalised by one of them. A lane is never touched during a turn,
while messages wait, or while a background process of it runs.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.lifecycle.lane_dependencies import LaneDependencies
from hermes_sessions.lifecycle.mailboxes import Mailboxes
from hermes_sessions.lifecycle.orphaned_sessions import OrphanedSessions
from hermes_sessions.lifecycle.session_finalization import (
    ATTEMPTS,
    FinalizationClaim,
    SessionFinalizer,
)
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.model.lane import Lane
from hermes_sessions.model.reset_policy import SessionResetPolicy, expiry_reason, last_boundary
from hermes_sessions.storage.care.retention.enforcement import enforce_if_approved
from hermes_sessions.storage.host_processes import this_process_mark
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.repositories.outbox import Outbox
from hermes_sessions.storage.repositories.turns import TurnRecovery

logger = Logger(__name__)

_PAGE: Final = 200
_HOUR: Final = 3600.0
#: Longer than the hooks of one lane may take. The claim of a dead process lapses after this.
_CLAIMED_FOR: Final = 900.0
_DAY: Final = 86_400.0

#: Receives the session that ends; raises to be called again.
FinalizeHook = Callable[[FinalizationClaim], None]
#: Runs a turn in which the agent can save state, of at most this many seconds.
SaveTurn = Callable[[FinalizationClaim, float], None]
#: Waits this many seconds; returns True to stop.
Wait = Callable[[float], bool]


class EvictableAgents(Protocol):
    """The part of an agent cache that the watcher needs; `AgentCache` implements it."""

    def evict(self, session_key: str) -> object:
        """Evict the agent of a lane and release its resources."""

    def sweep(self, now: float) -> object:
        """Evict agents that have been idle for too long."""


class FinalizationFailure(NamedTuple):
    """A lane whose finalize hooks failed."""

    session_key: str
    session_id: str
    attempt: int
    error: str

    @property
    def is_final(self) -> bool:
        """Whether it was finalised nevertheless, because all attempts were used."""
        return self.attempt >= ATTEMPTS


class ExpiryPass(NamedTuple):
    """The result of one pass."""

    #: Keys of lanes whose sessions ended.
    finalized: list[str]
    failures: list[FinalizationFailure]
    #: Sessions that a message had ended before, whose hooks ran now.
    orphaned: list[str]
    #: Number of old lanes that were removed.
    pruned: int = 0
    #: Number of old mailbox and transition rows that were deleted.
    forgotten: int = 0
    #: Number of sessions over a retention limit that were moved to the trash.
    retired: int = 0

    @property
    def left_behind(self) -> list[str]:
        """The former name of `orphaned`."""
        return self.orphaned


#: The former name.
Pass = ExpiryPass


class ExpiryWatcher:
    """Makes passes at intervals: `run` in a thread, or `run_pass` from an external scheduler."""

    def __init__(
        self,
        sessions: SessionStore,
        *,
        who: str = "watcher",
        hooks: Sequence[FinalizeHook] = (),
        save: SaveTurn | None = None,
        agents: EvictableAgents | None = None,
    ) -> None:
        """*who* names this watcher in claims.

        *hooks* are the ``on_session_finalize`` hooks. *save* is called once, before the hooks, for
        a session with messages, unless ``finalize_turn`` is off. *agents* are evicted.
        """
        self._sessions = sessions
        self._deps: LaneDependencies = sessions.engine
        self._hooks = tuple(hooks)
        self._save = save if self._deps.config.finalize_turn else None
        self._agents = agents
        self._mailboxes = Mailboxes(self._deps, remembered_days=self._deps.config.keep_days)
        seconds = _CLAIMED_FOR + self._deps.config.finalize_timeout
        # Two watchers with one name need distinct claims.
        claimant = f"{who} {secrets.token_hex(4)} {this_process_mark()}"
        self._finalizer = SessionFinalizer(self._deps, claimant, seconds)
        self._orphaned_sessions = OrphanedSessions(self._deps, claimant, seconds)
        self._pruned_at: float | None = None

    def run(self, wait: Wait) -> None:
        """Make passes until *wait* returns True.

        The first pass starts after ``expiry_first_pass`` seconds, further passes
        ``expiry_interval`` seconds apart. A pass that fails because of the store is retried.
        """
        pause = self._deps.config.expiry_first_pass
        while not wait(pause):
            pause = self._deps.config.expiry_interval
            try:
                self.run_pass()
            except HermesSessionsError as error:
                logger.warning("The expiry watcher retries in %s s: %s", pause, error)

    def run_pass(self, now: float | None = None) -> ExpiryPass:
        """Make one pass; *now* is the store's time unless given."""
        # Hooks and saving turns may take minutes each, so every claim reads the clock again.
        clock = self._deps.store.clock if now is None else lambda: now
        finalized: list[str] = []
        failures: list[FinalizationFailure] = []
        for lane in self._expired(clock()):
            claim = self._finalizer.claim(
                lane, clock(), has_processes=self._deps.has_processes(lane)
            )
            if claim is None:
                continue
            error = self._error_of(claim, failures)
            if self._finalizer.close(claim, clock(), error=error):
                finalized.append(lane.session_key)
                if self._agents is not None:
                    self._agents.evict(lane.session_key)
        if finalized:
            self._deps.changed()
        orphaned = self._finalize_orphaned_sessions(clock, failures)
        if self._agents is not None:
            self._agents.sweep(clock())
        return ExpiryPass(finalized, failures, orphaned, *self._forget(clock()))

    def _finalize_orphaned_sessions(
        self, clock: Callable[[], float], failures: list[FinalizationFailure]
    ) -> list[str]:
        seen_to: list[str] = []
        while (claim := self._orphaned_sessions.claim(clock())) is not None:
            error = self._error_of(claim, failures)
            if not self._orphaned_sessions.close(claim, error=error):
                break
            seen_to.append(claim.session_id)
        return seen_to

    def _expired(self, now: float) -> Iterator[Lane]:
        """Yield lanes that may have expired; the decision is made under their lock."""
        deps = self._deps
        with deps.store.provider.read() as tx:
            suspended = deps.lanes.with_status(tx, deps.namespace, "suspended")
        yield from (lane for lane in suspended if lane.finalized_at is None)
        until, last = _latest_expired(_policies(deps), now), None
        while True:
            with deps.store.provider.read() as tx:
                lanes = deps.lanes.page_older(
                    tx,
                    deps.namespace,
                    limit=_PAGE,
                    until=until,
                    after=last,
                    unfinalized_only=True,
                )
            if not lanes:
                return
            last = lanes[-1]
            for lane in lanes:
                policy = deps.policy_for(lane.key)
                is_expired = expiry_reason(policy, lane.updated_at, now) is not None
                if is_expired and lane.status != "suspended":
                    yield lane

    def _error_of(
        self, claim: FinalizationClaim, failures: list[FinalizationFailure]
    ) -> str | None:
        """Run the hooks at the end of a session; return and report an error."""
        errors = []
        if self._save is not None and claim.attempt == 1 and claim.message_count:
            errors.append(_bounded(self._save, claim, self._deps.config.finalize_timeout))
        errors += [_called(hook, claim) for hook in self._hooks]
        error = "; ".join(error for error in errors if error) or None
        if error is not None:
            failure = FinalizationFailure(
                claim.lane.session_key, claim.session_id, claim.attempt, error
            )
            failures.append(failure)
            logger.warning(
                "Finalizing session %s of %s failed, attempt %s of %s: %s",
                *(failure.session_id, failure.session_key, failure.attempt, ATTEMPTS, error),
            )
        return error

    def _forget(self, now: float) -> tuple[int, int, int]:
        """Once an hour, delete old finished rows; never unfinished ones."""
        if self._pruned_at is not None and 0 <= now - self._pruned_at < _HOUR:
            return 0, 0, 0
        self._pruned_at = now
        pruned = self._sessions.prune_old_entries()
        forgotten = self._mailboxes.forget(now)
        store, namespace = self._deps.store, self._deps.namespace
        oldest = now - self._deps.config.keep_days * _DAY
        forgotten += TurnRecovery(store).forget(namespace, oldest)
        forgotten += Outbox(store, namespace).forget(oldest)
        return pruned, forgotten, enforce_if_approved(store)


def _policies(deps: LaneDependencies) -> Iterator[SessionResetPolicy]:
    config = deps.config
    for platform in (None, *config.reset_by_platform):
        for chat_type in (None, *config.reset_by_type):
            yield config.get_reset_policy(platform, chat_type)


def _latest_expired(policies: Iterable[SessionResetPolicy], now: float) -> float:
    """Return a time such that no lane used at or after it has expired, by any policy."""
    moments = [0.0]
    for policy in policies:
        if policy.mode in {"idle", "both"}:
            moments.append(now - policy.idle_minutes * 60)
        if policy.mode in {"daily", "both"}:
            moments.append(last_boundary(policy, now))
    return max(moments)


def _called(hook: FinalizeHook, claim: FinalizationClaim) -> str | None:
    try:
        hook(claim)
    except Exception as error:  # noqa: BLE001 - third-party code, which is called again
        return f"{type(error).__name__}: {error}"
    return None


def _bounded(save: SaveTurn, claim: FinalizationClaim, seconds: float) -> str | None:
    """Let the agent save its state; a turn that takes too long is abandoned."""
    errors: list[str | None] = []
    turn = threading.Thread(
        target=lambda: errors.append(_called(lambda claim: save(claim, seconds), claim)),
        name=f"saving {claim.session_id}",
        daemon=True,
    )
    turn.start()
    turn.join(seconds)
    return errors[0] if errors else f"the agent took over {seconds:g} s to save its state"

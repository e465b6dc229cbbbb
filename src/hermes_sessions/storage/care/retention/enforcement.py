"""Carry out an approved retention plan, in short transactions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from hermes_sessions.errors import InvalidInput, RetentionNotApproved
from hermes_sessions.model.retention import RetentionCandidate, RetentionPolicies, RetentionRemoval
from hermes_sessions.storage.care.retention.plan import (
    APPROVAL_KEY,
    RetentionApproval,
    RetentionPlan,
    RetentionResult,
    make_plan,
)
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories.holds import conversations_on_hold
from hermes_sessions.storage.repositories.leases import leased_conversations
from hermes_sessions.storage.repositories.lineage import place_family
from hermes_sessions.storage.repositories.meta import Meta
from hermes_sessions.storage.repositories.rows import VISIBLE
from hermes_sessions.storage.repositories.stale_sessions import unsettled_conversations
from hermes_sessions.storage.repositories.trash import hide
from hermes_sessions.storage.store_context import StoreContext

logger = Logger(__name__)

#: The end reason of a session that was no longer used.
INACTIVE: Final = "inactive"
_DAY: Final = 86400.0
#: Sessions changed in one transaction, unless one conversation has more.
_STEP: Final = 100
OnProgress = Callable[[int], None]


class RetentionEnforcer:
    """Retention of one store."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def plan(self, policies: RetentionPolicies | None) -> RetentionPlan:
        """See `SessionDB.plan_retention`."""
        return make_plan(self._store, self._wanted(policies))

    def approve(self, plan: RetentionPlan) -> RetentionApproval:
        """See `SessionDB.approve_retention`."""
        if not plan.policies.has_limits:
            raise InvalidInput(
                "There are no limits to approve. Set some in config.yaml, for example "
                "retention.cron.max_age_days: 30"
            )
        consent = RetentionApproval(
            plan.policies.fingerprint, self._store.clock(), plan.sessions, plan.messages
        )
        Meta(self._store).set(APPROVAL_KEY, json.dumps(consent._asdict()))
        return consent

    def run(
        self, policies: RetentionPolicies | None, on_progress: OnProgress | None = None
    ) -> RetentionResult:
        """See `SessionDB.run_retention`."""
        plan = self.plan(policies)
        if not plan.policies.has_limits:
            return RetentionResult()
        if not plan.is_approved:
            raise RetentionNotApproved(changed=plan.consent is not None)
        closed = self._close(plan)
        moved: list[str] = []
        spared: list[str] = []
        messages = 0
        for batch in _batches(plan.removals):
            gone = self._store.provider.write(partial(self._move, batch))
            for conversation in (removal.conversation for removal in batch):
                if conversation.id in gone:
                    moved += conversation.sessions
                    messages += conversation.messages
                else:
                    spared.append(conversation.id)
            if on_progress is not None:
                on_progress(sum(len(d.conversation.sessions) for d in batch))
        return RetentionResult(tuple(moved), messages, tuple(closed), tuple(spared))

    def _wanted(self, policies: RetentionPolicies | None) -> RetentionPolicies:
        return policies or self._store.retention or RetentionPolicies()

    def _close(self, plan: RetentionPlan) -> list[str]:
        """End sessions that have been inactive for long; return those that were ended."""
        cutoff = plan.made_at - plan.policies.close_after_days * _DAY
        closed: list[str] = []
        for start in range(0, len(plan.closings), _STEP):
            some = plan.closings[start : start + _STEP]
            closed += self._store.provider.write(partial(_end, some, cutoff, self._store.clock()))
        return closed

    def _move(self, batch: Sequence[RetentionRemoval], tx: WriteTransaction) -> set[str]:
        """Move conversations to the trash if they are unchanged since the plan was made."""
        now = self._store.clock()
        protected = leased_conversations(tx, now) | conversations_on_hold(tx, self._store)
        protected |= unsettled_conversations(tx)
        gone: set[str] = set()
        for removal in batch:
            conversation = removal.conversation
            if conversation.id in protected or not _is_unchanged(tx, conversation):
                continue
            for session_id in conversation.sessions:
                hide(tx, session_id, now)
            place_family(tx, conversation.id)
            gone.add(conversation.id)
        return gone


def enforce_if_approved(store: StoreContext) -> int:
    """Move sessions over the configured limits to the trash, if the limits were approved; return
    how many.
    """
    if store.retention is None or not store.retention.has_limits:
        return 0
    try:
        return len(RetentionEnforcer(store).run(None).moved)
    except RetentionNotApproved as error:
        logger.info("%s", error)
        return 0


def _batches(going: Sequence[RetentionRemoval]) -> Iterator[list[RetentionRemoval]]:
    batch: list[RetentionRemoval] = []
    for removal in going:
        batch.append(removal)
        if sum(len(d.conversation.sessions) for d in batch) >= _STEP:
            yield batch
            batch = []
    if batch:
        yield batch


def _end(session_ids: Sequence[str], cutoff: float, now: float, tx: WriteTransaction) -> list[str]:
    held = leased_conversations(tx, now)
    ended: list[str] = []
    for session_id in session_ids:
        row = tx.one("SELECT conversation_id FROM sessions WHERE id = ?", (session_id,))
        if row is None or row[0] in held:
            continue
        changed = tx.run(
            f"UPDATE sessions SET ended_at = ?, end_reason = ? WHERE id = ? AND ended_at IS NULL "
            f"AND last_active <= ? AND {VISIBLE}",
            (now, INACTIVE, session_id, cutoff),
        )
        if changed:
            ended.append(session_id)
    return ended


def _is_unchanged(tx: ReadTransaction, conversation: RetentionCandidate) -> bool:
    """Whether a conversation has the same members, none of them open or pinned, and no new
    messages.
    """
    rows = tx.all(
        f"SELECT id, ended_at, last_active, pinned_at FROM sessions "
        f"WHERE conversation_id = ? AND {VISIBLE}",
        (conversation.id,),
    )
    return {row[0] for row in rows} == set(conversation.sessions) and not any(
        ended_at is None or active > conversation.last_active or pinned_at is not None
        for _, ended_at, active, pinned_at in rows
    )

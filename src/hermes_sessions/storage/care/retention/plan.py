"""The retention plan: what the limits would remove now, and whether they were approved."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from hermes_sessions.model.retention import (
    CLASSES,
    RetentionCandidate,
    RetentionPolicies,
    RetentionRemoval,
    retention_class,
    select_removals,
)
from hermes_sessions.storage.provider import ReadTransaction
from hermes_sessions.storage.repositories.holds import conversations_on_hold
from hermes_sessions.storage.repositories.leases import leased_conversations
from hermes_sessions.storage.repositories.meta import Meta
from hermes_sessions.storage.repositories.rows import VISIBLE
from hermes_sessions.storage.repositories.sizes import Sizes
from hermes_sessions.storage.repositories.stale_sessions import (
    settle_first,
    unsettled_conversations,
)
from hermes_sessions.storage.store_context import StoreContext

# Reading the store, and applying the limits.

#: The ``state_meta`` key of the approval.
APPROVAL_KEY: Final = "retention_consent"
_DAY: Final = 86400.0
_COLUMNS: Final = (
    "conversation_id",
    "id",
    "source",
    "edge_kind",
    "ended_at",
    "last_active",
    "pinned_at",
    "message_count",
    "title",
)


_Row = dict[str, Any]


def make_plan(store: StoreContext, policies: RetentionPolicies) -> RetentionPlan:
    """Return what *policies* would remove now."""
    now = store.clock()
    cutoff = now - policies.close_after_days * _DAY
    settle_first(store, limit=None)
    with store.provider.read() as tx:
        held = leased_conversations(tx, now)
        if not store.provider.read_only:
            # Changes of other programs that are not settled yet may be newer than they seem.
            held |= unsettled_conversations(tx)
        on_hold = conversations_on_hold(tx, store)
        families = _families(tx)
    conversations = [
        _conversation(conversation_id, rows, cutoff, held, on_hold)
        for conversation_id, rows in families.items()
    ]
    going: list[RetentionRemoval] = []
    closings: list[str] = []
    kept: Counter[str] = Counter()
    for name in CLASSES:
        limits = policies.of(name)
        if not limits.has_limits:
            continue
        members = [c for c in conversations if c.session_class == name]
        if limits.max_bytes is not None:
            members = _measured(store, members)
        going += select_removals(members, limits, now)
        closings += (one for member in members for one in member.idle_open_sessions)
        kept.update(c.kept_because for c in members if c.kept_because)
    going.sort(key=lambda d: (d.conversation.last_active, d.conversation.id))
    counts = Counter(conversation.session_class for conversation in conversations)
    return RetentionPlan(
        policies,
        now,
        tuple(going),
        tuple(closings),
        dict(sorted(kept.items())),
        {name: counts[name] for name in CLASSES},
        find_approval(store),
    )


def find_approval(store: StoreContext) -> RetentionApproval | None:
    """Return the stored approval; None if there is none, or it cannot be read."""
    text = Meta(store).find(APPROVAL_KEY)
    try:
        return None if text is None else RetentionApproval(**json.loads(text))
    except (TypeError, ValueError):
        return None


def _families(tx: ReadTransaction) -> dict[str, list[_Row]]:
    families: dict[str, list[_Row]] = {}
    for values in tx.stream(
        f"SELECT {', '.join(_COLUMNS)} FROM sessions WHERE {VISIBLE} ORDER BY started_at, id"
    ):
        row = dict(zip(_COLUMNS, values, strict=True))
        families.setdefault(row["conversation_id"] or row["id"], []).append(row)
    return families


def _conversation(
    conversation_id: str,
    rows: list[_Row],
    cutoff: float,
    held: set[str],
    on_hold: set[str],
) -> RetentionCandidate:
    # The root, or the oldest member if the root is in the trash.
    first = next((row for row in rows if row["id"] == conversation_id), rows[0])
    unended = [row for row in rows if row["ended_at"] is None]
    kept_because = None
    if conversation_id in on_hold:
        kept_because = "on hold"
    elif any(row["pinned_at"] is not None for row in rows):
        kept_because = "pinned"
    elif conversation_id in held:
        kept_because = "in use"
    elif any(row["last_active"] > cutoff for row in unended):
        kept_because = "open"
    is_idle = conversation_id not in held
    return RetentionCandidate(
        conversation_id,
        retention_class(first["source"], first["edge_kind"]),
        max(row["last_active"] for row in rows),
        tuple(row["id"] for row in rows),
        sum(row["message_count"] or 0 for row in rows),
        next((row["title"] for row in reversed(rows) if row["title"]), None),
        kept_because,
        tuple(row["id"] for row in unended if is_idle and row["last_active"] <= cutoff),
    )


def _measured(
    store: StoreContext, conversations: Iterable[RetentionCandidate]
) -> list[RetentionCandidate]:
    wanted = list(conversations)
    sizes = Sizes(store).of_sessions(one for member in wanted for one in member.sessions)
    return [member._replace(size=sum(sizes[one] for one in member.sessions)) for member in wanted]


class RetentionApproval(NamedTuple):
    """The approval of policies, after seeing their plan."""

    fingerprint: str
    approved_at: float
    #: The numbers in that plan.
    sessions: int
    messages: int


#: The former name.
Consent = RetentionApproval


class RetentionPlan(NamedTuple):
    """What the policies would remove at one moment. Making it changes nothing."""

    policies: RetentionPolicies
    made_at: float
    removals: tuple[RetentionRemoval, ...] = ()
    #: Sessions that were never ended, and would be.
    closings: tuple[str, ...] = ()
    #: Number of conversations kept by reason: pinned, on hold, ….
    kept: dict[str, int] = {}  # noqa: RUF012 - never changed
    #: Number of conversations by class.
    counts: dict[str, int] = {}  # noqa: RUF012 - never changed
    consent: RetentionApproval | None = None

    @property
    def departures(self) -> tuple[RetentionRemoval, ...]:
        """The former name of `removals`."""
        return self.removals

    @property
    def is_approved(self) -> bool:
        """Whether exactly these policies were approved."""
        return self.consent is not None and self.consent.fingerprint == self.policies.fingerprint

    @property
    def sessions(self) -> int:
        """The number of sessions to remove."""
        return sum(len(removal.conversation.sessions) for removal in self.removals)

    @property
    def messages(self) -> int:
        """The number of messages to remove."""
        return sum(removal.conversation.messages for removal in self.removals)

    def document(self) -> dict[str, Any]:
        """Return the plan as JSON-serialisable values."""
        return {
            "policies": {
                **{name: self.policies.of(name)._asdict() for name in CLASSES},
                "close_after_days": self.policies.close_after_days,
            },
            "approved": self.is_approved,
            "approved_at": self.consent.approved_at if self.consent else None,
            "conversations": self.counts,
            "kept": self.kept,
            "closings": list(self.closings),
            "sessions": self.sessions,
            "messages": self.messages,
            "departures": [
                {
                    "conversation_id": removal.conversation.id,
                    "title": removal.conversation.title,
                    "class": removal.conversation.session_class,
                    "last_active": removal.conversation.last_active,
                    "sessions": list(removal.conversation.sessions),
                    "messages": removal.conversation.messages,
                    "rule": removal.rule,
                    "reason": removal.reason,
                }
                for removal in self.removals
            ],
        }


class RetentionResult(NamedTuple):
    """The result of a run."""

    #: Sessions moved to the trash.
    moved: tuple[str, ...] = ()
    messages: int = 0
    #: Sessions that were never ended, and are now.
    closed: tuple[str, ...] = ()
    #: Conversations that were used or pinned after the plan was made.
    spared: tuple[str, ...] = ()

"""Retention rules: classes of conversations, their limits, and what exceeds them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from hermes_sessions.model.lineage import SUBAGENT

SessionClass = Literal["human", "cron", "subagent", "api"]
CLASSES: Final[tuple[SessionClass, ...]] = ("human", "cron", "subagent", "api")
Rule = Literal["age", "count", "bytes"]

_DAY: Final = 86400.0
_PROGRAMS: Final = frozenset({"api", "api_server", "webhook", "msgraph_webhook", "tool", "relay"})


def retention_class(source: str, edge_kind: str | None) -> SessionClass:
    """Return the retention class of a conversation that began with a session of this source."""
    if SUBAGENT in (edge_kind, source):
        return "subagent"
    if source == "cron":
        return "cron"
    return "api" if source in _PROGRAMS else "human"


class ClassLimits(NamedTuple):
    """The limits of one class; None means no limit."""

    max_age_days: float | None = None
    max_count: int | None = None
    max_bytes: int | None = None

    @property
    def has_limits(self) -> bool:
        """Whether any limit is set."""
        return any(limit is not None for limit in self)


#: The former name.
Limits = ClassLimits


class RetentionPolicies(NamedTuple):
    """The limits of every class."""

    human: ClassLimits = ClassLimits()
    cron: ClassLimits = ClassLimits()
    subagent: ClassLimits = ClassLimits()
    api: ClassLimits = ClassLimits()
    #: Days without activity after which a session that was never ended counts as ended.
    close_after_days: float = 30

    def of(self, name: SessionClass) -> ClassLimits:
        """Return the limits of one class."""
        limits: ClassLimits = getattr(self, name)
        return limits

    @property
    def has_limits(self) -> bool:
        """Whether any class has a limit."""
        return any(self.of(name).has_limits for name in CLASSES)

    @property
    def fingerprint(self) -> str:
        """A digest of these policies: approving one set of limits does not approve another."""
        import hashlib  # Rarely needed; imported here to keep start-up fast.
        import json

        said = {name: self.of(name)._asdict() for name in CLASSES}
        text = json.dumps([said, self.close_after_days], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class RetentionCandidate(NamedTuple):
    """A conversation as the limits see it."""

    id: str
    session_class: SessionClass
    last_active: float
    sessions: tuple[str, ...]
    messages: int
    title: str | None = None
    #: Why it is kept whatever the limits say: pinned, on hold, in use, open.
    kept_because: str | None = None
    #: Sessions that were never ended and have been inactive for long enough to close.
    idle_open_sessions: tuple[str, ...] = ()
    size: int = 0


class RetentionRemoval(NamedTuple):
    """A conversation that exceeds a limit, and why."""

    conversation: RetentionCandidate
    rule: Rule
    #: For display.
    reason: str


def select_removals(
    conversations: Iterable[RetentionCandidate], limits: ClassLimits, now: float
) -> Iterator[RetentionRemoval]:
    """Yield the conversations of one class to remove, newest first.

    Protected conversations are kept, but they count towards the limits.
    """
    total = 0
    newest_first = sorted(conversations, key=lambda c: (-c.last_active, c.id))
    for position, conversation in enumerate(newest_first, start=1):
        total += conversation.size
        if conversation.kept_because is not None:
            continue
        found = _over(conversation, limits, position, total, now)
        if found is not None:
            yield RetentionRemoval(conversation, *found)


def _over(
    conversation: RetentionCandidate, limits: ClassLimits, position: int, total: int, now: float
) -> tuple[Rule, str] | None:
    days = (now - conversation.last_active) / _DAY
    if limits.max_age_days is not None and days > limits.max_age_days:
        return "age", f"last active {days:.0f} days ago, the limit is {limits.max_age_days:g}"
    if limits.max_count is not None and position > limits.max_count:
        return "count", f"number {position} of its class, the limit is {limits.max_count}"
    # A single conversation larger than the limit could otherwise never be kept.
    if limits.max_bytes is not None and total > limits.max_bytes and position > 1:
        return "bytes", f"{total} bytes with newer ones, the limit is {limits.max_bytes}"
    return None

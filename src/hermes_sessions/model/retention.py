"""What may be kept, for how long: classes of conversations, limits, and what they come to; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from hermes_sessions.model.lineage import SUBAGENT

SessionClass = Literal["human", "cron", "subagent", "api"]
CLASSES: Final[tuple[SessionClass, ...]] = ("human", "cron", "subagent", "api")
Rule = Literal["age", "count", "bytes"]

_DAY: Final = 86400.0
_PROGRAMS: Final = frozenset({"api", "api_server", "webhook", "msgraph_webhook", "tool", "relay"})


def class_of(source: str, edge_kind: str | None) -> SessionClass:
    """Return the class of a conversation that began with a session of this source."""
    if SUBAGENT in (edge_kind, source):
        return "subagent"
    if source == "cron":
        return "cron"
    return "api" if source in _PROGRAMS else "human"


class Limits(NamedTuple):
    """What is kept of one class; None: without a limit."""

    max_age_days: float | None = None
    max_count: int | None = None
    max_bytes: int | None = None

    @property
    def is_any(self) -> bool:
        """Whether anything is limited."""
        return any(limit is not None for limit in self)


class RetentionPolicies(NamedTuple):
    """The limits of every class."""

    human: Limits = Limits()
    cron: Limits = Limits()
    subagent: Limits = Limits()
    api: Limits = Limits()
    #: After how many days without activity a session that was never ended counts as ended.
    close_after_days: float = 30

    def of(self, name: SessionClass) -> Limits:
        """Return the limits of one class."""
        limits: Limits = getattr(self, name)
        return limits

    @property
    def is_any(self) -> bool:
        """Whether anything is limited."""
        return any(self.of(name).is_any for name in CLASSES)

    @property
    def fingerprint(self) -> str:
        """What tells these policies from others: whoever approved them did not approve those."""
        import hashlib  # Needed once in a while; every start would pay for it.
        import json

        said = {name: self.of(name)._asdict() for name in CLASSES}
        text = json.dumps([said, self.close_after_days], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class Conversation(NamedTuple):
    """What is known of a conversation when the limits are applied."""

    id: str
    session_class: SessionClass
    last_active: float
    sessions: tuple[str, ...]
    messages: int
    title: str | None = None
    #: Why it stays, whatever the limits say: pinned, on hold, in use, open.
    kept_because: str | None = None
    #: Sessions that were never ended, and have not been active for long enough.
    left_open: tuple[str, ...] = ()
    size: int = 0


class Departure(NamedTuple):
    """A conversation that is to go, and why."""

    conversation: Conversation
    rule: Rule
    #: For people.
    reason: str


def departures(
    conversations: Iterable[Conversation], limits: Limits, now: float
) -> Iterator[Departure]:
    """Yield what goes of one class, the newest first. What is protected stays, and is counted."""
    total = 0
    newest_first = sorted(conversations, key=lambda c: (-c.last_active, c.id))
    for position, conversation in enumerate(newest_first, start=1):
        total += conversation.size
        if conversation.kept_because is not None:
            continue
        found = _over(conversation, limits, position, total, now)
        if found is not None:
            yield Departure(conversation, *found)


def _over(
    conversation: Conversation, limits: Limits, position: int, total: int, now: float
) -> tuple[Rule, str] | None:
    days = (now - conversation.last_active) / _DAY
    if limits.max_age_days is not None and days > limits.max_age_days:
        return "age", f"last active {days:.0f} days ago, the limit is {limits.max_age_days:g}"
    if limits.max_count is not None and position > limits.max_count:
        return "count", f"number {position} of its class, the limit is {limits.max_count}"
    # One that is larger than the limit by itself would never be kept otherwise.
    if limits.max_bytes is not None and total > limits.max_bytes and position > 1:
        return "bytes", f"{total} bytes with what is newer, the limit is {limits.max_bytes}"
    return None

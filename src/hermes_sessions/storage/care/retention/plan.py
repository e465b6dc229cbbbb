"""What retention would do now, and whether somebody has agreed to it."""

from __future__ import annotations

from typing import Any, NamedTuple

from hermes_sessions.model.retention import CLASSES, Departure, RetentionPolicies


class Consent(NamedTuple):
    """That somebody saw a plan and agreed to the policies which made it."""

    fingerprint: str
    approved_at: float
    #: What the plan said then.
    sessions: int
    messages: int


class RetentionPlan(NamedTuple):
    """What the policies come to at one moment. Nothing is changed by making it."""

    policies: RetentionPolicies
    made_at: float
    departures: tuple[Departure, ...] = ()
    #: Sessions that were never ended, and would be.
    closings: tuple[str, ...] = ()
    #: How many conversations stay for a reason that wins over limits: pinned, on hold, ….
    kept: dict[str, int] = {}  # noqa: RUF012 - never changed
    #: By class: how many conversations there are.
    counts: dict[str, int] = {}  # noqa: RUF012 - never changed
    consent: Consent | None = None

    @property
    def is_approved(self) -> bool:
        """Whether somebody agreed to these very policies."""
        return self.consent is not None and self.consent.fingerprint == self.policies.fingerprint

    @property
    def sessions(self) -> int:
        """How many sessions go."""
        return sum(len(departure.conversation.sessions) for departure in self.departures)

    @property
    def messages(self) -> int:
        """How many messages go with them."""
        return sum(departure.conversation.messages for departure in self.departures)

    def document(self) -> dict[str, Any]:
        """Return the plan for JSON."""
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
                    "conversation_id": departure.conversation.id,
                    "title": departure.conversation.title,
                    "class": departure.conversation.session_class,
                    "last_active": departure.conversation.last_active,
                    "sessions": list(departure.conversation.sessions),
                    "messages": departure.conversation.messages,
                    "rule": departure.rule,
                    "reason": departure.reason,
                }
                for departure in self.departures
            ],
        }


class RetentionResult(NamedTuple):
    """What a run did."""

    #: Sessions that are in the trash now.
    moved: tuple[str, ...] = ()
    messages: int = 0
    #: Sessions that were never ended, and are now.
    closed: tuple[str, ...] = ()
    #: Conversations that somebody came back to, or pinned, after the plan was made.
    spared: tuple[str, ...] = ()

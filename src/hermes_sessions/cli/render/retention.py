"""Retention limits, plans and holds as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermes_sessions.cli.render.humanize import counted, date, size
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.model.retention import CLASSES, ClassLimits, RetentionPolicies

if TYPE_CHECKING:
    from hermes_sessions.storage.care.retention.plan import RetentionPlan, RetentionResult

#: How many conversations are listed; --json lists all.
_LISTED = 50


def limits_lines(policies: RetentionPolicies) -> Iterator[str]:
    """Yield the limits of each class."""
    if not policies.has_limits:
        yield "No limits: nothing is deleted automatically."
        return
    yield "Limits:"
    for name in CLASSES:
        yield f"  {name}: {_limits(policies.of(name))}"


def plan_lines(plan: RetentionPlan) -> Iterator[str]:
    """Yield what a plan would do."""
    yield from limits_lines(plan.policies)
    if not plan.policies.has_limits:
        yield "To set one, add for example retention.cron.max_age_days: 30 to config.yaml"
        return
    there = ", ".join(f"{count} {name}" for name, count in plan.counts.items())
    yield f"Conversations: {there}"
    if plan.closings:
        number = counted(len(plan.closings), "session")
        days = counted(int(plan.policies.close_after_days), "day")
        yield f"Never ended, inactive for {days}: {number}"
    if plan.kept:
        stay = ", ".join(f"{count} {reason}" for reason, count in plan.kept.items())
        yield f"Protected: {stay}"
    if not plan.removals:
        yield "Nothing exceeds a limit."
    else:
        what = f"{counted(plan.sessions, 'session')} ({counted(plan.messages, 'message')})"
        yield f"Exceeding a limit, to be moved to the trash: {what}"
    for removal in plan.removals[:_LISTED]:
        conversation = removal.conversation
        title = f"  {one_line(conversation.title)}" if conversation.title else ""
        number = counted(len(conversation.sessions), "session")
        yield f"  {one_line(conversation.id)}{title}"
        yield f"    {conversation.session_class}, {number}: {removal.reason}"
    if len(plan.removals) > _LISTED:
        yield f"  … and {len(plan.removals) - _LISTED} more (--json lists all)"


def consent_line(plan: RetentionPlan) -> str:
    """Return whether the limits are approved, and what to do if not."""
    if not plan.policies.has_limits:
        return "There is nothing to approve."
    if plan.is_approved and plan.consent is not None:
        return f"Approved on {date(plan.consent.approved_at)}."
    why = "The limits have changed since they were approved" if plan.consent else "Not approved yet"
    return f"{why}; nothing is deleted. To approve, run: hermes sessions retention approve"


def result_lines(result: RetentionResult, trash_days: float) -> Iterator[str]:
    """Yield the result of a run."""
    if result.closed:
        yield f"Ended {counted(len(result.closed), 'inactive session')}."
    what = f"{counted(len(result.moved), 'session')} ({counted(result.messages, 'message')})"
    if result.moved:
        yield f"Moved {what} to the trash, where they are kept for {trash_days:g} days."
        yield "To undo: hermes sessions restore ID..."
    else:
        yield "Nothing exceeds a limit; nothing was moved."
    if result.spared:
        yield f"{counted(len(result.spared), 'conversation')} changed in the meantime and stayed."


def holds_lines(holds: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield every hold with its reason."""
    if not holds:
        yield "Nothing is on hold."
    for hold in holds:
        title = f"  {one_line(hold['title'])}" if hold["title"] else ""
        yield f"{one_line(hold['session_id'])}{title}"
        yield f"  since {date(hold['held_at'])}: {one_line(hold['reason'])}"


def _limits(limits: ClassLimits) -> str:
    texts = []
    if limits.max_age_days is not None:
        texts.append(counted(int(limits.max_age_days), "day"))
    if limits.max_count is not None:
        texts.append(counted(limits.max_count, "conversation"))
    if limits.max_bytes is not None:
        texts.append(size(limits.max_bytes))
    return ", ".join(texts) or "no limit"

"""Erasure plans and receipts, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.storage.care.erasure.coordinator import ErasurePlan
from hermes_sessions.storage.care.erasure.receipts import ErasureReceipt, ErasureStep
from hermes_sessions.storage.care.erasure.row_removal import FILES, INDEX
from hermes_sessions.storage.care.erasure.targets import ErasureSubject

#: Singular and plural of what is counted; other names are printed unchanged.
_WORDS: Final = {
    "sessions": ("session", "sessions"),
    "messages": ("message", "messages"),
    "messages in shared rooms": ("message in shared rooms", "messages in shared rooms"),
    "lanes": ("lane", "lanes"),
    "mailbox": ("received message", "received messages"),
    "outbox": ("reply", "replies"),
    "turns": ("turn", "turns"),
    "lane_transitions": ("lane transition", "lane transitions"),
    "senders": ("pairing", "pairings"),
    "identities": ("alias", "aliases"),
    "topics": ("topic", "topics"),
    "state_documents": ("state document", "state documents"),
    "foreign_rows": ("imported row", "imported rows"),
    "state_meta": ("note", "notes"),
    "files": ("file", "files"),
    "entries": ("entry", "entries"),
    "lines": ("line", "lines"),
    "backups": ("backup", "backups"),
}
_PLACE_WIDTH: Final = 20


def subject_text(subject: ErasureSubject) -> str:
    """Return the subject as text: ``user 4711 on telegram``."""
    where = f" on {one_line(subject.platform)}" if subject.platform else ""
    return f"{subject.kind} {one_line(subject.id)}{where}"


def amounts(counts: Mapping[str, int]) -> str:
    """Return the counts as text: ``2 sessions, 1 reply``."""
    said = []
    order = {what: place for place, what in enumerate(_WORDS)}
    for what, number in sorted(counts.items(), key=lambda item: order.get(item[0], len(order))):
        one, many = _WORDS.get(what, (what, what))
        said.append(f"{number} {one if number == 1 else many}")
    return ", ".join(said)


def plan_lines(plan: ErasurePlan) -> list[str]:
    """Return the subject and what would be erased, one line per place."""
    lines = [f"{subject_text(plan.targets.subject)}:"]
    for place, counts in plan.places.items():
        lines.append(_line(place, amounts(counts) or "nothing"))
    return lines


def plan_document(plan: ErasurePlan) -> dict[str, Any]:
    """Return the JSON document of a plan."""
    subject = plan.targets.subject
    return {
        "kind": subject.kind,
        "id": subject.id,
        "platform": subject.platform,
        "platforms": list(plan.targets.platforms),
        "sessions": list(plan.targets.session_ids),
        "shared_sessions": list(plan.targets.rooms),
        "places": plan.places,
        "forgotten": False,
    }


def receipt_lines(receipt: ErasureReceipt) -> list[str]:
    """Return the lines of a receipt: the result of each place, then the pending steps."""
    about = f"a {receipt.kind}" + (f" on {one_line(receipt.platform)}" if receipt.platform else "")
    when = datetime.fromtimestamp(receipt.requested_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    lines = [f"Receipt {receipt.id}: {about}, requested {when}; {receipt.status}."]
    lines += [_line(step.place, _became(step)) for step in receipt.steps]
    lines += [f"  Note: {step.why}" for step in receipt.steps if step.status == "done" and step.why]
    if receipt.status == "pending":
        lines += [f"  Pending, {step.place}: {step.why}" for step in receipt.pending]
        lines.append(f"  To finish: {finishing_command(receipt)}")
    return lines


def finishing_command(receipt: ErasureReceipt) -> str:
    """Return the command that completes the pending steps."""
    needs_rebuild = any("rebuilt" in (step.why or "") for step in receipt.pending)
    return f"hermes forget --resume {receipt.id}{' --rebuild' if needs_rebuild else ''}"


def receipt_document(receipt: ErasureReceipt) -> dict[str, Any]:
    """Return the JSON document of a receipt."""
    return {
        "receipt": receipt.id,
        "kind": receipt.kind,
        "platform": receipt.platform,
        "digest": receipt.digest,
        "status": receipt.status,
        "requested_at": receipt.requested_at,
        "finished_at": receipt.finished_at,
        "steps": [
            {
                "place": step.place,
                "status": step.status,
                "removed": dict(step.removed),
                "why": step.why,
            }
            for step in receipt.steps
        ],
    }


def _became(step: ErasureStep) -> str:
    said = amounts(step.removed)
    if step.status == "pending":
        return f"{said}; pending" if said else "pending"
    return said or ("done" if step.place in (INDEX, FILES) else "nothing")


def _line(place: str, text: str) -> str:
    return f"  {place.ljust(_PLACE_WIDTH)} {text}"

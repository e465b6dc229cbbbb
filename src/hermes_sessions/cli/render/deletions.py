"""The sessions that would be deleted, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hermes_sessions.cli.render.humanize import counted, size
from hermes_sessions.cli.render.json_output import session_document
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.render.style import Style
from hermes_sessions.cli.render.text_width import wrap

Record = Mapping[str, Any]

_INDENT = "  "


class DeletionCandidate(NamedTuple):
    """A session to be deleted."""

    session: Record
    reason: str
    #: The size of its text in bytes.
    size: int


def amount(deletions: Sequence[DeletionCandidate]) -> str:
    """Return the total: ``2 sessions (5 messages, 1.2 KB)``."""
    facts = f"{counted(_messages(deletions), 'message')}, {size(_bytes(deletions))}"
    return f"{counted(len(deletions), 'session')} ({facts})"


def deletion_lines(deletions: Iterable[DeletionCandidate], style: Style) -> Iterator[str]:
    """Yield two lines for each: the session, and its size and reason."""
    for session, reason, number_of_bytes in deletions:
        yield session_name(session)
        messages = counted(session["message_count"] or 0, "message")
        facts = f"{messages}, {size(number_of_bytes)}: {one_line(reason)}"
        room = None if style.width is None else max(style.width - len(_INDENT), 16)
        for line in wrap(facts, room) if room else [facts]:
            yield style.dim(_INDENT + line)


def session_name(session: Record) -> str:
    """Return the id, the title if any, and whether the session is pinned."""
    title = one_line(session["title"] or "")
    pinned = " (pinned)" if session.get("pinned_at") else ""
    return f"{one_line(session['id'])}{'  ' if title else ''}{title}{pinned}"


def deletions_document(deletions: Sequence[DeletionCandidate], *, purge: bool) -> dict[str, Any]:
    """Return what ``--dry-run --json`` prints."""
    return {
        "dry_run": True,
        "purge": purge,
        "messages": _messages(deletions),
        "bytes": _bytes(deletions),
        "sessions": [
            {**session_document(d.session), "bytes": d.size, "reason": d.reason} for d in deletions
        ],
    }


def _messages(deletions: Iterable[DeletionCandidate]) -> int:
    return sum(each.session["message_count"] or 0 for each in deletions)


def _bytes(deletions: Iterable[DeletionCandidate]) -> int:
    return sum(each.size for each in deletions)

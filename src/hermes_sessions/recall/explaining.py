"""Says how a question was read, and why it found nothing, without telling what is out of scope.

The account of a search is for the owner of the store; of its numbers only those that count within
the scope are used here.
"""

from __future__ import annotations

from typing import Any, Final

from hermes_sessions.recall.cutting import cut_to_written
from hermes_sessions.storage.search.answer import COUNT_LIMIT, Account
from hermes_sessions.text.query.relaxation import AS_ASKED

_EXPLAINED: Final = {
    "without common words": "Nothing matched all words; common words were left out.",
    "other forms of the words": "Nothing matched as written; other forms of the words did.",
    "any of the words": "Nothing matched all words; these have at least one of them.",
    "inside words": "Nothing matched whole words; these have the text inside longer words.",
}
#: How filters are called in the tool's arguments and in the query.
_FILTERS: Final = {
    "roles": "role_filter",
    "sources": "source",
    "exclude_conversations": "the current or an excluded conversation",
    "tools": "tool:",
    "models": "model:",
    "users": "user:",
    "sessions": "session:",
    "titles": "in:",
}
_MOST_REPAIRS: Final = 5
_LONGEST_REPAIR: Final = 100


def how_it_was_read(account: Account) -> dict[str, Any]:
    """Return ``complete``, and ``reading`` when the question was not taken as it was asked."""
    said: dict[str, Any] = {"complete": account.complete}
    reading: dict[str, Any] = {}
    if account.step != AS_ASKED:
        reading["step"] = account.step
        reading["explanation"] = _EXPLAINED.get(account.step, "The question was relaxed.")
    if account.repairs:
        kept = account.repairs[:_MOST_REPAIRS]
        reading["repairs"] = [cut_to_written(repair, _LONGEST_REPAIR) for repair in kept]
    if reading:
        said["reading"] = reading
    if not account.complete:
        said["incomplete_because"] = (
            "Only the newest messages were looked into; narrow the search to reach further back."
            if account.scanned
            else "The search index is still being built; ask again later for older messages."
        )
    return said


def why_nothing(account: Account) -> str:
    """Return what to tell when nothing was found."""
    parts = ["Nothing was found."]
    hidden = [
        f"{_FILTERS.get(name, name)} ({number:,}{' or more' if number >= COUNT_LIMIT else ''})"
        for name, number in account.removed.items()
    ]
    if hidden:
        parts.append(f"Matches were left out by: {', '.join(hidden)}.")
    parts += account.notes
    parts.append("Try fewer or other words.")
    return " ".join(parts)

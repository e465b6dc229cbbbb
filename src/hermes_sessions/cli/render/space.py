"""What takes up space, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hermes_sessions.cli.render.quantity import counted, size
from hermes_sessions.cli.render.safe_text import one_line

#: How many tables and indexes are listed; --json has them all.
_LISTED = 10


def space_lines(space: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that show what `SessionDB.get_space` found."""
    measured = counted(space["text_messages"], "message")
    only = "" if space["text_complete"] else f", the text of the newest {measured} alone"
    for name, label in (("classes", "By class"), ("sources", "By source")):
        if space[name]:
            yield f"{label}{only}:"
        for key, facts in space[name].items():
            if facts["sessions"] or name == "classes":
                number = counted(facts["sessions"], "session")
                messages = counted(facts["messages"], "message")
                yield f"  {one_line(key)}: {size(facts['text_bytes'])} ({number}, {messages})"
    yield from _parts(space)
    if space["free_bytes"]:
        yield f"Free: {size(space['free_bytes'])} (to give it back: hermes sessions optimize)"
    if space["log_bytes"]:
        yield f"Log: {size(space['log_bytes'])}"
    if space["uncounted_bytes"]:
        yield f"In use by what was not looked at: {size(space['uncounted_bytes'])}"
    if not space["complete"]:
        yield (
            "There was no time for everything; to look at it all: "
            "hermes sessions stats --space --full"
        )


def _parts(space: Mapping[str, Any]) -> Iterator[str]:
    about = "at least " if space["uncounted_bytes"] else "about " if space["estimated"] else ""
    for name, label in (("tables", "Tables"), ("indexes", "Indexes")):
        parts = space[name]
        if not parts:
            continue
        yield f"{label}: {about}{size(sum(parts.values()))}"
        for key, number in list(parts.items())[:_LISTED]:
            yield f"  {one_line(key)}: {size(number)}"
        if len(parts) > _LISTED:
            rest = sum(list(parts.values())[_LISTED:])
            yield f"  {len(parts) - _LISTED} others: {size(rest)}"

"""Titles: cleaning, and numbered families such as ``my project``, ``my project #2``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hermes_sessions.errors import InvalidTitle
from hermes_sessions.model.ids import ascii_lower

MAX_TITLE_LENGTH = 100

# Compiled on first use: most processes set no title.
_INVISIBLE = (
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f"  # C0 controls except TAB, LF, CR; DEL
    "\x80-\x84\x86-\x9f"  # C1 controls except NEL, which is a line break
    "\u200b-\u200f\u2028-\u202e\u2060-\u2069"  # zero width, separators, bidi overrides, isolates
    "\ufeff\ufff9-\ufffc]"  # byte order mark, annotations, object replacement
)
_WHITESPACE = r"\s+"
_NUMBERED = r"(?s)^(?P<base>.*) #(?P<number>[0-9]+)$"


def sanitize_title(title: str | None) -> str | None:
    """Return the title as it is stored, or None when nothing visible is left.

    Raises:
        InvalidTitle: more than `MAX_TITLE_LENGTH` characters after cleaning.
        TypeError: not text.
    """
    if not title:
        return None
    cleaned = re.sub(_WHITESPACE, " ", re.sub(_INVISIBLE, "", title)).strip()
    if not cleaned:
        return None
    if len(cleaned) > MAX_TITLE_LENGTH:
        raise InvalidTitle(
            f"Title too long: {len(cleaned)} characters (max {MAX_TITLE_LENGTH}). Shorten it."
        )
    return cleaned


def split_number(title: str) -> tuple[str, int | None]:
    """Split ``base #7`` into its base and number; an unnumbered title has number None."""
    match = re.match(_NUMBERED, title)
    return (match["base"], int(match["number"])) if match else (title, None)


def family_key(title: str) -> str:
    """Return the part that all numbered variants of a title share, with ASCII case folded."""
    return ascii_lower(split_number(title)[0])


def next_in_family(title: str, stored_titles: Iterable[str]) -> str:
    """Return the next free title of the family of *title*.

    An unused family starts with the bare base; otherwise the highest number plus one, the bare
    base counting as 1. The caller's letter case is kept.
    """
    base = split_number(title)[0]
    numbers = [
        number or 1
        for stored_base, number in map(split_number, stored_titles)
        if ascii_lower(stored_base) == ascii_lower(base)
    ]
    return f"{base} #{max(numbers) + 1}" if numbers else base

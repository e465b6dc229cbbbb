"""Where a text may be cut: never between a letter and its marks, nor inside an emoji.

A cluster is what a reader sees as one character: a base with everything that belongs to it, an
emoji with its modifiers and what it is joined to, a flag of two letters. No folding rule reaches
across the boundary of a cluster.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from hermes_sessions.text import characters

_JOINER: Final = "\u200d"
# Nothing legible has more code points: longer clusters, and longer rows of flags, may be cut.
_LONGEST: Final = 1_000


@cache
def cluster_pattern() -> re.Pattern[str]:
    """Return the pattern that matches one cluster at any boundary."""
    return re.compile(_cluster(), re.DOTALL)


def cluster_start(text: str, position: int) -> int:
    """Return the start of the cluster that *position* is in: *position* itself at a boundary."""
    return _cluster_at(text, position)[0]


def cluster_end(text: str, position: int) -> int:
    """Return the end of the cluster that *position* is in: *position* itself at a boundary."""
    return _cluster_at(text, position)[1]


def _cluster_at(text: str, position: int) -> tuple[int, int]:
    if not 0 < position < len(text) or text[position].isascii():
        return position, position
    start = position
    while start > 0 and not _is_certain_start(text, start):
        start -= 1
        if position - start > _LONGEST:
            return position, position
    match = cluster_pattern().match
    end = start
    while end < position:
        start = end
        found = match(text, start, position + _LONGEST)
        end = start + 1 if found is None else found.end()
    return (start, end) if end > position else (position, position)


def _is_certain_start(text: str, position: int) -> bool:
    """Whether a cluster starts here whatever stands before."""
    return text[position - 1] != _JOINER and _may_follow().match(text, position) is None


@cache
def _may_follow() -> re.Pattern[str]:
    return re.compile(f"[{characters.EXTENDER}{characters.REGIONAL_INDICATOR}]")


def _cluster() -> str:
    extenders = f"[{characters.EXTENDER}]*+"
    flag = f"[{characters.REGIONAL_INDICATOR}]{{2}}"
    emoji = f"[{characters.SYMBOL}]{extenders}(?:(?<={_JOINER})[{characters.SYMBOL}]{extenders})*+"
    return f"{flag}{extenders}|{emoji}|.{extenders}"

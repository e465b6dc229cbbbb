"""Cuts long texts to what is worth reading: the place where the matches are, else the start."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from hermes_sessions.text.clusters import cluster_end, cluster_start
from hermes_sessions.text.snippet import Mark, densest

DOTS: Final = "..."


def written_length(value: Any) -> int:
    """Return how many characters a value takes in a JSON document."""
    return len(json.dumps(value, ensure_ascii=False))


def cut(text: str, size: int, marks: Sequence[Mark] = ()) -> str:
    """Return at most *size* characters, dots for what was left out included.

    The piece starts a quarter of its length before the densest group of matches, or at the start
    of the text when there is none.
    """
    if len(text) <= size:
        return text
    room = size - 2 * len(DOTS)
    if room <= 0:
        return text[: cluster_start(text, max(size, 0))]
    first, last = densest(text, marks, room) if marks else (0, 0)
    start = max(first - room // 4, last - room, 0)
    start = cluster_end(text, min(start, first, len(text) - room))
    end = max(cluster_start(text, start + room), start)
    before = DOTS if start > 0 else ""
    after = DOTS if end < len(text) else ""
    return before + text[start:end] + after


def cut_to_written(text: str, size: int, marks: Sequence[Mark] = ()) -> str:
    """Return text cut so that it takes at most *size* characters in JSON, quotes not counted."""
    kept = cut(text, size, marks)
    allowed = size
    while kept and (taken := written_length(kept) - 2) > size:
        # Escapes take more than one character each.
        allowed = min(allowed - 1, allowed * size // taken)
        kept = cut(text, max(allowed, 0), marks)
    return kept

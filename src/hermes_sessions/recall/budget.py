"""The token budget: how an answer's size is estimated, and how room is shared.

A token is taken to be four characters of the JSON text. That is close for English and code and too
few for Chinese, Japanese and Korean, where a character is about a token; every answer states the
estimate and how it was made.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from hermes_sessions.text.characters import cluster_end, cluster_start
from hermes_sessions.text.snippet import Mark, densest

# Cuts long texts to what is worth reading: the place where the matches are, else the start.


DOTS: Final = "..."


def json_length(value: Any) -> int:
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


def cut_to_json_length(text: str, size: int, marks: Sequence[Mark] = ()) -> str:
    """Return text cut so that it takes at most *size* characters in JSON, quotes not counted."""
    kept = cut(text, size, marks)
    allowed = size
    while kept and (taken := json_length(kept) - 2) > size:
        # Escapes take more than one character each.
        allowed = min(allowed - 1, allowed * size // taken)
        kept = cut(text, max(allowed, 0), marks)
    return kept


CHARACTERS_PER_TOKEN: Final = 4
METHOD: Final = "characters / 4"


def estimate_tokens(value: Any) -> int:
    """Return about how many tokens a value takes in a JSON document."""
    return -(-json_length(value) // CHARACTERS_PER_TOKEN)


def share_out(wanted: Sequence[int], weights: Sequence[int], available: int) -> list[int]:
    """Return how much each gets: what it wants where that is little, the rest by weight.

    The sum is at most *available*, and nobody gets more than wanted.
    """
    given = [0] * len(wanted)
    left, weight_left = max(available, 0), sum(weights)
    for i in sorted(range(len(wanted)), key=lambda i: (wanted[i] / weights[i], i)):
        given[i] = min(wanted[i], left * weights[i] // weight_left)
        left -= given[i]
        weight_left -= weights[i]
    return given


def stated(result: dict[str, Any], max_tokens: int) -> dict[str, Any]:
    """Return the answer with the budget and the estimate of its own size."""
    answer = _with_estimate(result, max_tokens, max_tokens)
    # The number is part of the text it measures: a smaller one may save a digit, and so again.
    while (estimated := estimate_tokens(answer)) < answer["tokens"]["estimated"]:
        answer = _with_estimate(result, max_tokens, estimated)
    return answer


def room_for(envelope: dict[str, Any], max_tokens: int) -> int:
    """Return how many characters are left beside an answer's fixed parts."""
    widest = _with_estimate(envelope, max_tokens, max_tokens)
    return max_tokens * CHARACTERS_PER_TOKEN - json_length(widest)


def _with_estimate(result: dict[str, Any], budget: int, estimated: int) -> dict[str, Any]:
    return result | {"tokens": {"budget": budget, "estimated": estimated, "estimate": METHOD}}

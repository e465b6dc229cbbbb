"""The token budget: estimates the size of a result and divides the available space.

A token is estimated as four characters of JSON. This is close for English and code, and too low for
Chinese, Japanese and Korean, where a character is about a token. Every result states the estimate
and its method.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from hermes_sessions.text.characters import cluster_end, cluster_start
from hermes_sessions.text.snippet import Mark, densest

# Cutting long texts to the part worth reading: around the matches, or else the start.


DOTS: Final = "..."


def json_length(value: Any) -> int:
    """Return the number of characters of a value in a JSON document."""
    return len(json.dumps(value, ensure_ascii=False))


def cut(text: str, size: int, marks: Sequence[Mark] = ()) -> str:
    """Return at most *size* characters, including an ellipsis for omitted text.

    The piece starts a quarter of its length before the densest group of matches, or at the start
    of the text without matches.
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
    """Return text cut to at most *size* characters in JSON, not counting quotes."""
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
    """Return the estimated number of tokens of a value in a JSON document."""
    return -(-json_length(value) // CHARACTERS_PER_TOKEN)


def share_out(wanted: Sequence[int], weights: Sequence[int], available: int) -> list[int]:
    """Return each share: small requests are met in full, the rest is divided by weight.

    The sum is at most *available*, and no share exceeds its request.
    """
    given = [0] * len(wanted)
    left, weight_left = max(available, 0), sum(weights)
    for i in sorted(range(len(wanted)), key=lambda i: (wanted[i] / weights[i], i)):
        given[i] = min(wanted[i], left * weights[i] // weight_left)
        left -= given[i]
        weight_left -= weights[i]
    return given


def stated(result: dict[str, Any], max_tokens: int) -> dict[str, Any]:
    """Return the result with the budget and the estimate of its own size."""
    answer = _with_estimate(result, max_tokens, max_tokens)
    # The estimate is part of the text it measures, so a smaller number may save a digit. Repeat
    # until it is stable.
    while (estimated := estimate_tokens(answer)) < answer["tokens"]["estimated"]:
        answer = _with_estimate(result, max_tokens, estimated)
    return answer


def room_for(envelope: dict[str, Any], max_tokens: int) -> int:
    """Return the number of characters available beside the fixed parts of a result."""
    widest = _with_estimate(envelope, max_tokens, max_tokens)
    return max_tokens * CHARACTERS_PER_TOKEN - json_length(widest)


def _with_estimate(result: dict[str, Any], budget: int, estimated: int) -> dict[str, Any]:
    return result | {"tokens": {"budget": budget, "estimated": estimated, "estimate": METHOD}}

"""The token budget: estimates the size of a result and divides the available space.

A token is estimated as up to eight letters of a Latin word, three digits, two other letters or two
signs; each character of Chinese, Japanese and Korean is one. Tokenizers of current models count a
little less for plain English and about as much for code and JSON. Every result states the estimate
and its method.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from hermes_sessions.text.characters import cluster_end, cluster_start
from hermes_sessions.text.snippet import Mark, densest

# Cutting long texts to the part worth reading: around the matches, or else the start.


DOTS: Final = "..."


#: Each match is about one token.
_PIECES: Final = re.compile(
    "[A-Za-z]{1,8}|[0-9]{1,3}|[\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00010000-\U0003ffff]"
    r"|[^\W\d_A-Za-z]{1,2}|[^\w\s]{1,2}|[\d_]"
)


def count_tokens(text: str) -> int:
    """Return the estimated number of tokens of a text."""
    return len(_PIECES.findall(text))


def json_tokens(value: Any) -> int:
    """Return the estimated number of tokens of a value in a JSON document."""
    return count_tokens(json.dumps(value, ensure_ascii=False))


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


def cut_to_tokens(text: str, size: int, marks: Sequence[Mark] = ()) -> str:
    """Return text cut to at most *size* tokens in JSON, not counting quotes."""
    if (taken := _string_tokens(text)) <= size:
        return text
    kept, allowed = text, len(text)
    while kept and taken > size:
        allowed = max(min(allowed - 1, allowed * size // taken), 0)
        kept = cut(text, allowed, marks)
        taken = _string_tokens(kept)
    return kept


def _string_tokens(text: str) -> int:
    return count_tokens(json.dumps(text, ensure_ascii=False)[1:-1])


METHOD: Final = "pieces of words"


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
    while (estimated := json_tokens(answer)) < answer["tokens"]["estimated"]:
        answer = _with_estimate(result, max_tokens, estimated)
    return answer


def room_for(envelope: dict[str, Any], max_tokens: int) -> int:
    """Return the number of tokens available beside the fixed parts of a result."""
    return max_tokens - json_tokens(_with_estimate(envelope, max_tokens, max_tokens))


def _with_estimate(result: dict[str, Any], budget: int, estimated: int) -> dict[str, Any]:
    return result | {"tokens": {"budget": budget, "estimated": estimated, "estimate": METHOD}}

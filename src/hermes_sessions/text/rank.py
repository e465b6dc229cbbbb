"""Orders matches by relevance: the same list in the same order on every database.

A match scores by how often the query's terms stand in it and how rare they are among the
candidates (BM25), how many of the terms it has, whether they stand together, whether the session's
title has them, and a little by how new it is. Everything is computed from the candidates alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from hermes_sessions.text.query.matching import Analysed, occurrences
from hermes_sessions.text.query.tree import Substring, Term

_K1: Final = 1.2
_B: Final = 0.6
_COVERAGE: Final = 3.0
_TOGETHER: Final = 1.0
_TITLE: Final = 1.5
_ROLE: Final = {"user": 0.3, "assistant": 0.2}
_RECENCY: Final = 0.5
_RECENCY_DAYS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Match:
    """One candidate: what is scored, and what breaks ties."""

    document: Analysed
    title: Analysed
    role: str
    timestamp: float
    session_id: str
    ordinal: int


def scores(matches: Sequence[Match], terms: Sequence[Term | Substring]) -> list[float]:
    """Return the score of each match, in their order."""
    if not matches:
        return []
    counts = [[occurrences(term, match.document) for term in terms] for match in matches]
    total = len(matches)
    average = sum(match.document.length for match in matches) / total or 1.0
    weights = [
        math.log(1 + (total - having + 0.5) / (having + 0.5)) + 0.1
        for having in (sum(1 for row in counts if row[i]) for i in range(len(terms)))
    ]
    newest = max(match.timestamp for match in matches)
    result = []
    for match, row in zip(matches, counts, strict=True):
        length = _K1 * (1 - _B + _B * match.document.length / average)
        score = sum(
            weight * count * (_K1 + 1) / (count + length)
            for weight, count in zip(weights, row, strict=True)
        )
        if terms:
            score += _COVERAGE * sum(1 for count in row if count) / len(terms)
            in_title = sum(1 for term in terms if occurrences(term, match.title, enough=1))
            score += _TITLE * in_title / len(terms)
        score += _TOGETHER * _pairs_together(terms, match.document)
        score += _ROLE.get(match.role, 0.0)
        age_days = max(0.0, newest - match.timestamp) / 86400
        score += _RECENCY / (1 + age_days / _RECENCY_DAYS)
        # A fixed number of digits, so that no machine's rounding changes the order.
        result.append(round(score, 9))
    return result


def order(matches: Sequence[Match], points: Sequence[float]) -> list[int]:
    """Return positions of *matches*, best first; ties by time, session and place in it."""
    return sorted(
        range(len(matches)),
        key=lambda i: (
            -points[i],
            -matches[i].timestamp,
            matches[i].session_id,
            -matches[i].ordinal,
        ),
    )


def _pairs_together(terms: Sequence[Term | Substring], document: Analysed) -> float:
    """Return the share of neighbouring query terms that stand next to each other."""
    pairs = [
        Term(first.parts + second.parts, "", second.prefix)
        for first, second in pairwise(terms)
        if isinstance(first, Term) and isinstance(second, Term) and not first.prefix
    ]
    if not pairs:
        return 0.0
    return sum(1 for pair in pairs if occurrences(pair, document, enough=1)) / len(pairs)

"""Orders matches by relevance: the same list in the same order on every database.

A match scores by how often the query's terms stand in it and how rare they are among the
candidates (BM25), how many of the terms it has, whether they stand together, whether the session's
title has them, and a little by how new it is. Everything is computed from the candidates alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from hermes_sessions.model.computed_once import computed_once
from hermes_sessions.text.query.matcher import counter, folded
from hermes_sessions.text.query.tree import Substring, Term

_K1: Final = 1.2
_B: Final = 0.6
_COVERAGE: Final = 3.0
_TOGETHER: Final = 1.0
_TITLE: Final = 1.5
_ROLE: Final = {"user": 0.3, "assistant": 0.2}
#: Sources whose messages nobody wrote or reads: reports and machine work.
BACKGROUND_SOURCES: Final = frozenset({"cron", "tool", "subagent"})
_BACKGROUND_COST: Final = 1.0
_RECENCY: Final = 0.5
_RECENCY_DAYS: Final = 30.0
#: Of a very long text, so much is looked at.
_LONGEST: Final = 50_000


class Match:
    """One candidate: what is scored, and what breaks ties."""

    def __init__(
        self,
        texts: Sequence[str],
        *,
        title: str,
        source: str,
        role: str,
        timestamp: float,
        session_id: str,
        ordinal: int,
    ) -> None:
        self.texts = texts
        self.title = title
        self.source = source
        self.role = role
        self.timestamp = timestamp
        self.session_id = session_id
        self.ordinal = ordinal

    @computed_once
    def folded(self) -> str:
        """Its texts, folded, as one."""
        return folded("\n".join(self.texts)[:_LONGEST])


def scores(matches: Sequence[Match], terms: Sequence[Term | Substring]) -> list[float]:
    """Return the score of each match, in their order."""
    if not matches:
        return []
    counters = [counter(term) for term in terms]
    counts = [[count(match.folded) for count in counters] for match in matches]
    total = len(matches)
    average = sum(len(match.folded) for match in matches) / total or 1.0
    weights = [
        math.log(1 + (total - having + 0.5) / (having + 0.5)) + 0.1
        for having in (sum(1 for row in counts if row[i]) for i in range(len(terms)))
    ]
    newest = max(match.timestamp for match in matches)
    pairs = _neighbours(terms)
    titles: dict[str, float] = {}
    result = []
    for match, row in zip(matches, counts, strict=True):
        length = _K1 * (1 - _B + _B * len(match.folded) / average)
        score = sum(
            weight * number * (_K1 + 1) / (number + length)
            for weight, number in zip(weights, row, strict=True)
        )
        if terms:
            score += _COVERAGE * sum(1 for number in row if number) / len(terms)
            if match.title not in titles:
                titles[match.title] = _share(counters, folded(match.title))
            score += _TITLE * titles[match.title]
        if pairs:
            # Words stand together at most where both stand.
            together = [count for i, count in pairs if row[i] and row[i + 1]]
            score += _TOGETHER * sum(1 for count in together if count(match.folded)) / len(pairs)
        score += _ROLE.get(match.role, 0.0)
        if match.source in BACKGROUND_SOURCES:
            score -= _BACKGROUND_COST
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


def _neighbours(terms: Sequence[Term | Substring]) -> list[tuple[int, Callable[[str], int]]]:
    """Return which words stand next to each other in the query, and what counts such pairs."""
    return [
        (i, counter(Term(first.parts + second.parts, f"{first.raw} {second.raw}", second.prefix)))
        for i, (first, second) in enumerate(pairwise(terms))
        if isinstance(first, Term) and isinstance(second, Term) and not first.prefix
    ]


def _share(counters: Sequence[Callable[[str], int]], text: str) -> float:
    """Return how many of the terms stand in a folded text, as a share of all."""
    if not counters or not text:
        return 0.0
    return sum(1 for count in counters if count(text)) / len(counters)

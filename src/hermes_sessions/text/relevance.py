"""Rank matches by relevance: the same list in the same order on every database.

A match scores by how often it contains the query's terms and how rare they are among the candidates
(BM25), how many of the terms it has, whether they are adjacent, whether the session's title
contains them, and slightly by its age. Only the candidates are used for all of this.
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
#: Sources without a human writer or reader: reports and background work.
BACKGROUND_SOURCES: Final = frozenset({"cron", "tool", "subagent"})
_BACKGROUND_COST: Final = 1.0
_RECENCY: Final = 0.5
_RECENCY_DAYS: Final = 30.0
#: Only this many characters of a text are examined.
_LONGEST: Final = 50_000


class Match:
    """One candidate: its texts to score, and the fields that break ties."""

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
        """Its texts, folded and joined."""
        return folded("\n".join(self.texts)[:_LONGEST])


def scores(matches: Sequence[Match], terms: Sequence[Term | Substring]) -> list[float]:
    """Return the score of each match, in the given order."""
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
            # A pair can only be adjacent where both words occur.
            together = [count for i, count in pairs if row[i] and row[i + 1]]
            score += _TOGETHER * sum(1 for count in together if count(match.folded)) / len(pairs)
        score += _ROLE.get(match.role, 0.0)
        if match.source in BACKGROUND_SOURCES:
            score -= _BACKGROUND_COST
        age_days = max(0.0, newest - match.timestamp) / 86400
        score += _RECENCY / (1 + age_days / _RECENCY_DAYS)
        # Rounded, so that floating-point differences between machines do not change the order.
        result.append(round(score, 9))
    return result


def order(matches: Sequence[Match], points: Sequence[float]) -> list[int]:
    """Return positions of *matches*, best first; ties broken by time, session and ordinal."""
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
    """Return adjacent words of the query, each with a function that counts the pair in a text."""
    return [
        (i, counter(Term(first.parts + second.parts, f"{first.raw} {second.raw}", second.prefix)))
        for i, (first, second) in enumerate(pairwise(terms))
        if isinstance(first, Term) and isinstance(second, Term) and not first.prefix
    ]


def _share(counters: Sequence[Callable[[str], int]], text: str) -> float:
    """Return the share of terms that occur in a folded text."""
    if not counters or not text:
        return 0.0
    return sum(1 for count in counters if count(text)) / len(counters)

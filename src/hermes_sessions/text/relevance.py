"""Rank matches by relevance: the same list in the same order on every database.

A match scores by how often it contains the query's words and how rare these are among the
candidates (BM25; all forms of a word count as one), how many of them it has, whether they are
adjacent, whether the session's title contains them, and slightly by its age. Then the messages
around it count: an answer stands next to its question, and one good match makes its neighbours and
its session more likely. Only the candidates are used for all of this.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from hermes_sessions.model.computed_once import computed_once
from hermes_sessions.text.query.matcher import counter, folded, likeness_of
from hermes_sessions.text.query.tree import Forms, Term
from hermes_sessions.text.tokenizer import analyse, is_cjk

_K1: Final = 0.9
_B: Final = 0.3
_COVERAGE: Final = 2.5
_TOGETHER: Final = 1.0
_TITLE: Final = 1.5
_ROLE: Final = {"user": 0.2, "assistant": 0.1}
#: Sources without a human writer or reader: reports and background work.
BACKGROUND_SOURCES: Final = frozenset({"cron", "tool", "subagent"})
_BACKGROUND_COST: Final = 1.0
_RECENCY: Final = 0.3
_RECENCY_DAYS: Final = 30.0
#: What a match adds to the message after it, to the one before it and to those two places away, as
#: a share of its score for words that they lack; and the share of the best score of a session that
#: all its matches get.
_TO_NEXT: Final = 0.5
_TO_PREVIOUS: Final = 0.4
_TWO_AWAY: Final = 0.3
_TO_SESSION: Final = 0.25
#: For a question: what a match loses that is a question, too, and what a match gains that has a
#: time where the question asks for one.
_ALSO_ASKS: Final = 0.5
_HAS_TIME: Final = 1.0
#: Only this many characters of a text are examined; analysing beyond ASCII takes longer.
_LONGEST: Final = 50_000
_LONGEST_NOT_ASCII: Final = 10_000

_ASKS: Final = frozenset(
    "what when where which who whom whose why how did does do is are was were can could should "
    "wann was wer wie warum wo welche quand comment pourquoi qui que quel quelle où cuándo cómo "
    "qué quién dónde quando come perché chi cosa como quem onde".split()
)
_ASKS_FOR_TIME: Final = frozenset("when wann quand cuándo cuando quando когда".split())
_TIME_ASKED: Final = re.compile(
    r"\b(?:how long|(?:what|which) (?:date|day|month|year|time|week))\b"
    r"|何時|何时|什么时候|いつ|언제"
)
_TIMES: Final = frozenset(
    "yesterday today tomorrow tonight last next ago week weeks weekend month months year years day "
    "days morning evening night monday tuesday wednesday thursday friday saturday sunday january "
    "february march april may june july august september october november december recently since "
    "summer winter spring autumn fall soon".split()
)


class Question(NamedTuple):
    """What the wording of a query asks for."""

    #: Whether it is a question, not a list of keywords.
    is_one: bool = False
    #: Whether it is plain language: many words without symbols, of which a match can lack some.
    is_plain: bool = False
    asks_for_time: bool = False


#: From this many words without symbols a query counts as plain language.
_PLAIN_WORDS: Final = 4
_PLAIN_WORD: Final = re.compile(r"\w+(?:['’-]\w+)*[’',.!?\uff1f;:]*")
_OPERATORS: Final = frozenset({"AND", "OR", "NOT"})
_QUESTION_MARKS: Final = ("?", "\uff1f", "\u061f")
_KEYWORDS: Final = Question()


def question_in(text: str) -> Question:
    """Return what the wording of a query asks for."""
    lowered = text.lower()
    words = lowered.split()
    if not words:
        return _KEYWORDS
    has_words_only = all(map(_PLAIN_WORD.fullmatch, words)) and _OPERATORS.isdisjoint(text.split())
    is_one = has_words_only and (words[0] in _ASKS or words[-1].endswith(_QUESTION_MARKS))
    is_plain = is_one or (has_words_only and len(words) >= _PLAIN_WORDS)
    for_time = words[0] in _ASKS_FOR_TIME or _TIME_ASKED.search(lowered) is not None
    return Question(is_one, is_plain, for_time)


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
    def text(self) -> str:
        """Its texts, joined and cut."""
        text = self.texts[0] if len(self.texts) == 1 else "\n".join(self.texts)
        if len(text) <= _LONGEST_NOT_ASCII or (len(text) <= _LONGEST and text.isascii()):
            return text
        return text[: _LONGEST if text[:_LONGEST].isascii() else _LONGEST_NOT_ASCII]

    @computed_once
    def folded(self) -> str:
        """Its texts, folded and joined."""
        return folded(self.text)

    @computed_once
    def words(self) -> Counter[str]:
        """How often it has each token; the parts of compound words count, too."""
        return token_counts(self.text)


def token_counts(text: str) -> Counter[str]:
    """Return how often a text has each token, parts of compound words included."""
    words, extras = analyse(text)
    counts = Counter(words)
    if extras:
        counts.update(extras)
    return counts


class _WordCounter:
    """Counts one word of the query, in all its forms, in a match."""

    def __init__(self, forms: Forms) -> None:
        self._tokens: set[str] = set()
        self._like: list[Term] = []
        self._others: list[Callable[[str], int]] = []
        for term in forms:
            if isinstance(term, Term) and term.likeness is not None:
                self._like.append(term)
                continue
            if isinstance(term, Term) and len(term.parts) == 1 and not term.parts[0].prefix:
                token = term.parts[0].token
                if not is_cjk(token):
                    self._tokens.add(token)
                    continue
            self._others.append(counter(term))

    def count(self, words: Counter[str], text: str) -> float:
        """Count in the tokens and the folded text of a match."""
        found = 0.0
        for token in self._tokens & words.keys():
            found += words[token]
        if self._like:
            found += sum(
                number * max(likeness_of(term, token) for term in self._like)
                for token, number in words.items()
                if token not in self._tokens
            )
        for count in self._others:
            found += count(text)
        return found


def scores(
    matches: Sequence[Match], wanted: Sequence[Forms], question: Question = _KEYWORDS
) -> list[float]:
    """Return the score of each match, in the given order; *wanted* are the words of the query."""
    if not matches:
        return []
    counters = [_WordCounter(forms) for forms in wanted]
    counts = [[c.count(match.words, match.folded) for c in counters] for match in matches]
    total = len(matches)
    average = sum(len(match.folded) for match in matches) / total or 1.0
    weights = [
        math.log(1 + (total - having + 0.5) / (having + 0.5)) + 0.1
        for having in (sum(1 for row in counts if row[i]) for i in range(len(wanted)))
    ]
    pairs = _neighbours(wanted)
    titles: dict[str, float] = {}
    bases: list[float] = []
    parts: list[list[float]] = []
    for match, row in zip(matches, counts, strict=True):
        length = _K1 * (1 - _B + _B * len(match.folded) / average)
        part = [
            weight * number * (_K1 + 1) / (number + length)
            + _COVERAGE * min(1.0, number) / len(wanted)
            if number
            else 0.0
            for weight, number in zip(weights, row, strict=True)
        ]
        parts.append(part)
        score = sum(part)
        if wanted:
            if match.title not in titles:
                titles[match.title] = _share(counters, match.title)
            score += _TITLE * titles[match.title]
        if pairs:
            # A pair can only be adjacent where both words occur.
            together = [count for i, count in pairs if row[i] and row[i + 1]]
            score += _TOGETHER * sum(1 for count in together if count(match.folded)) / len(pairs)
        if question.is_one and match.text.rstrip().endswith(_QUESTION_MARKS):
            score -= _ALSO_ASKS
        if question.asks_for_time and _has_time(match):
            score += _HAS_TIME
        bases.append(score)
    newest = max(match.timestamp for match in matches)
    around = _surroundings(matches, bases, parts)
    # Rounded, so that floating-point differences between machines do not change the order.
    return [
        round(bases[i] + around[i] + _prior(match, newest), 9) for i, match in enumerate(matches)
    ]


def _surroundings(
    matches: Sequence[Match], bases: Sequence[float], parts: Sequence[Sequence[float]]
) -> list[float]:
    """Return what each match gains from the matches around it and from its session.

    A match gains from others only for words that it lacks, so that a session which repeats one
    word does not lift itself.
    """
    places = {(match.session_id, match.ordinal): i for i, match in enumerate(matches)}
    best: dict[str, float] = {}
    for match, base in zip(matches, bases, strict=True):
        best[match.session_id] = max(best.get(match.session_id, 0.0), base)

    def gain(match: Match, own: Sequence[float], distance: int) -> float:
        other = places.get((match.session_id, match.ordinal + distance))
        if other is None:
            return 0.0
        return sum(part for part, mine in zip(parts[other], own, strict=True) if not mine)

    return [
        max(_TO_NEXT * gain(match, own, -1), _TO_PREVIOUS * gain(match, own, 1))
        + _TWO_AWAY * max(gain(match, own, -2), gain(match, own, 2))
        + _TO_SESSION * best[match.session_id]
        for match, own in zip(matches, parts, strict=True)
    ]


def _prior(match: Match, newest: float) -> float:
    """Return the part of the score that does not depend on the query."""
    score = _ROLE.get(match.role, 0.0)
    if match.source in BACKGROUND_SOURCES:
        score -= _BACKGROUND_COST
    age_days = max(0.0, newest - match.timestamp) / 86400
    return score + _RECENCY / (1 + age_days / _RECENCY_DAYS)


def _has_time(match: Match) -> bool:
    words = match.words
    return not _TIMES.isdisjoint(words) or any(word.isdecimal() for word in words)


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


def _neighbours(wanted: Sequence[Forms]) -> list[tuple[int, Callable[[str], int]]]:
    """Return adjacent words of the query, each with a function that counts the pair in a text."""
    return [
        (i, counter(Term(first.parts + second.parts, f"{first.raw} {second.raw}", second.prefix)))
        for i, (first, second) in enumerate(pairwise(forms[0] for forms in wanted))
        if isinstance(first, Term) and isinstance(second, Term) and not first.prefix
    ]


def _share(counters: Sequence[_WordCounter], title: str) -> float:
    """Return the share of words that occur in a title."""
    if not counters or not title:
        return 0.0
    words, text = token_counts(title), folded(title)
    return sum(1 for each in counters if each.count(words, text)) / len(counters)

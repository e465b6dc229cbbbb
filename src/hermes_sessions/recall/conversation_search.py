"""Collects hits so that many conversations have their say.

A search gives the best hits; a session that mentions the words a thousand times could fill them
all, and so could a thousand runs of a scheduled job. So the question is asked again without the
conversations that have already answered, first among ordinary sources and then among those that
are demoted, until there are enough conversations to choose from or no more hits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hermes_sessions.model.message import text_of
from hermes_sessions.recall.scoped_store import DEMOTED_WHEN_SEARCHING, ScopedStore
from hermes_sessions.storage.search.answer import Hit, SearchAnswer, SearchReport
from hermes_sessions.text.query.filters import SearchConditions
from hermes_sessions.text.query.matcher import TokenizedDocument, matches
from hermes_sessions.text.query.relaxation import AS_ASKED, INSIDE_WORDS, steps
from hermes_sessions.text.query.tree import Node, Query, terms_of
from hermes_sessions.text.relevance import Match, scores

# Puts conversations in order: the best first, however much a noisy one has to say.

#: Hits of a conversation that decide about its place.
_DECIDING: Final = 3
#: What the second and third hit add, so that a conversation about the matter comes before one that
#: mentions it once, and a thousand mentions count no more than three.
_FURTHER_HITS: Final = 0.1


@dataclass(frozen=True, slots=True)
class RankedConversation:
    """A conversation that answers: its hits, best first."""

    conversation_id: str
    hits: list[Hit]
    demoted: bool


@dataclass(frozen=True, slots=True, order=True)
class _Worth:
    """How good a hit is: smaller is better."""

    #: Which reading of the question it matches; 0 is the strictest.
    reading: int
    cost: float


#: A hit that does not decide.
_WORTHLESS: Final = _Worth(99, 0.0)


def best_conversations(
    store: ScopedStore, gathered: CollectedHits, *, sort: str, limit: int
) -> list[RankedConversation]:
    """Return the best conversations, in the order asked for; demoted sources come last."""
    by_conversation: dict[str, list[Hit]] = {}
    for hit in {hit.id: hit for hit in gathered.hits}.values():
        by_conversation.setdefault(hit.conversation_id, []).append(hit)
    if sort != "relevance" or not terms_of(gathered.tree):
        return _by_time(by_conversation, gathered, oldest=sort == "oldest")[:limit]
    if gathered.searches == 1 and not gathered.is_relaxed:
        worth = {hit.id: _Worth(0, -(hit.score or 0.0)) for hit in gathered.hits}
    else:
        worth = _comparable(store, by_conversation, gathered)
    return _by_worth(by_conversation, gathered, worth)[:limit]


def _by_time(
    by_conversation: dict[str, list[Hit]], gathered: CollectedHits, *, oldest: bool
) -> list[RankedConversation]:
    sign = 1 if oldest else -1
    found = []
    for conversation_id, hits in by_conversation.items():
        hits.sort(key=lambda hit: (gathered.is_demoted(hit), sign * hit.timestamp, sign * hit.id))
        found.append(RankedConversation(conversation_id, hits, gathered.is_demoted(hits[0])))
    return sorted(
        found, key=lambda item: (item.demoted, sign * item.hits[0].timestamp, item.conversation_id)
    )


def _by_worth(
    by_conversation: dict[str, list[Hit]], gathered: CollectedHits, worth: dict[int, _Worth]
) -> list[RankedConversation]:
    ordered = []
    for conversation_id, hits in by_conversation.items():
        hits.sort(
            key=lambda hit: (
                gathered.is_demoted(hit),
                worth.get(hit.id, _WORTHLESS),
                -hit.timestamp,
                -hit.id,
            )
        )
        best, *others = hits
        found = RankedConversation(conversation_id, hits, gathered.is_demoted(best))
        value = worth.get(best.id, _WORTHLESS)
        further = sum(worth[hit.id].cost for hit in others[: _DECIDING - 1] if hit.id in worth)
        whole = _Worth(value.reading, round(value.cost + _FURTHER_HITS * further, 9))
        ordered.append(((found.demoted, whole, -best.timestamp, conversation_id), found))
    return [found for _, found in sorted(ordered, key=lambda pair: pair[0])]


def _comparable(
    store: ScopedStore, by_conversation: dict[str, list[Hit]], gathered: CollectedHits
) -> dict[int, _Worth]:
    """Judge the deciding hits against each other.

    The scores of one search, or of one reading of the question, say nothing about those of
    another: each depends on how rare the words are among its own candidates.
    """
    deciding: list[tuple[Hit, Match]] = []
    for hits in by_conversation.values():
        # As the searches gave them, so that a stricter reading stays in front of a weaker one.
        for hit in hits[:_DECIDING]:
            window = store.messages_around(hit.session_id, hit.id, 0)["window"]
            if window:
                deciding.append((hit, _match(hit, window[0])))
    points = scores([match for _, match in deciding], terms_of(gathered.tree))
    return {
        hit.id: _Worth(_reading(gathered.readings, hit, match), -score)
        for (hit, match), score in zip(deciding, points, strict=True)
    }


def _reading(readings: Sequence[Node], hit: Hit, match: Match) -> int:
    document = TokenizedDocument([match.title] if hit.matched == "title" else match.texts)
    fitting = (i for i, tree in enumerate(readings) if matches(tree, document))
    return next(fitting, len(readings))


def _match(hit: Hit, message: dict[str, Any]) -> Match:
    return Match(
        _texts(message),
        title=hit.title or "",
        source=hit.source,
        role=hit.role,
        timestamp=hit.timestamp,
        session_id=hit.session_id,
        ordinal=hit.ordinal,
    )


def _texts(message: dict[str, Any]) -> Sequence[str]:
    texts = [text_of(message["content"]), message["tool_name"] or ""]
    if message["tool_calls"]:
        texts.append(json.dumps(message["tool_calls"], ensure_ascii=False))
    return [text for text in texts if text]


#: Hits of one search.
_PAGE: Final = 60
#: Where any word will do, a search gives a part of each word's hits, this many or more; so fewer
#: hits than this are all there are.
_PART: Final = 50
#: To choose the best, there should be this many times the conversations that are shown; asked for
#: in a few rounds. To have enough at all, as many rounds as it takes.
_CHOICE: Final = 3
_ROUNDS_FOR_CHOICE: Final = 3


@dataclass(slots=True)
class CollectedHits:
    """Hits of one or more searches, and how they were found."""

    account: SearchReport
    #: How the question was read: what the first hits match, then what weaker ones do.
    readings: list[Node]
    #: Whether demoted sources count as any other, because they were asked for.
    is_level: bool
    hits: list[Hit] = field(default_factory=list)
    searches: int = 0

    @property
    def tree(self) -> Node | None:
        """The strictest reading that found something."""
        return self.readings[0] if self.readings else None

    @property
    def is_relaxed(self) -> bool:
        """Whether the question found nothing as it was asked."""
        return self.account.step != AS_ASKED

    def add(self, answer: SearchAnswer) -> None:
        """Take over the hits of one more search."""
        self.hits += answer.hits
        self.searches += 1
        self.account.complete = self.account.complete and answer.account.complete

    def is_demoted(self, hit: Hit) -> bool:
        """Whether a hit comes after those of people's conversations."""
        return not self.is_level and hit.source in DEMOTED_WHEN_SEARCHING

    def conversations(self, *, demoted: bool) -> set[str]:
        """Return the conversations with hits of this kind."""
        return {hit.conversation_id for hit in self.hits if self.is_demoted(hit) is demoted}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of the store, and how many conversations are to be shown."""

    text: str
    parsed: Query
    conditions: SearchConditions
    sort: str
    wanted: int


def collect_hits(store: ScopedStore, question: Question) -> CollectedHits:
    """Return hits of as many conversations as wanted, if there are that many, and of more to
    choose from.
    """
    first = store.search(
        question.text, question.conditions, limit=_PAGE, sort=question.sort, relax=True
    )
    filters = question.parsed.filters
    gathered = CollectedHits(
        account=first.account,
        readings=_readings(question.parsed.node, first.account.step),
        is_level=question.conditions.sources is not None
        or any(item.name == "source" and not item.excluded for item in filters),
    )
    gathered.add(first)
    if not _is_all(first, gathered):
        for tier in _tiers(question.conditions, gathered):
            _ask_again(store, question, tier, gathered)
    return gathered


@dataclass(frozen=True, slots=True)
class _Tier:
    """A group of sources, by whether they are demoted."""

    conditions: SearchConditions
    demoted: bool


def _tiers(conditions: SearchConditions, gathered: CollectedHits) -> Iterator[_Tier]:
    if gathered.is_level:
        yield _Tier(conditions, demoted=False)
        return
    excluded = (*conditions.exclude_sources, *DEMOTED_WHEN_SEARCHING)
    yield _Tier(replace(conditions, exclude_sources=excluded), demoted=False)
    yield _Tier(replace(conditions, sources=DEMOTED_WHEN_SEARCHING), demoted=True)


def _ask_again(
    store: ScopedStore, question: Question, tier: _Tier, gathered: CollectedHits
) -> None:
    while not _is_enough(gathered, tier, question.wanted):
        known = gathered.conversations(demoted=tier.demoted)
        left_out = (*tier.conditions.exclude_conversations, *sorted(known))
        answer = store.search(
            question.text,
            replace(tier.conditions, exclude_conversations=left_out),
            limit=_PAGE,
            sort=question.sort,
            relax=gathered.is_relaxed,
        )
        if answer.account.step == INSIDE_WORDS != gathered.account.step:
            # The last resort, for questions that find nothing else.
            return
        gathered.add(answer)
        if _is_all(answer, gathered):
            return


def _is_all(answer: SearchAnswer, gathered: CollectedHits) -> bool:
    """Whether a search gave every hit there is."""
    if not answer.hits:
        return True
    is_part = gathered.is_relaxed and len(answer.hits) >= _PART
    return answer.next_cursor is None and not is_part


def _is_enough(gathered: CollectedHits, tier: _Tier, wanted: int) -> bool:
    found = len(gathered.conversations(demoted=False))
    if tier.demoted:
        # Only to fill up what ordinary sources leave empty.
        return found + len(gathered.conversations(demoted=True)) >= wanted
    if found >= wanted and gathered.searches >= _ROUNDS_FOR_CHOICE:
        return True
    return found >= wanted * _CHOICE


def _readings(node: Node | None, step: str) -> list[Node]:
    """Return the trees of this step and those after it."""
    if node is None:
        return []
    named = list(steps(node))
    names = [name for name, _ in named]
    start = names.index(step) if step in names else 0
    return [tree for _, tree in named[start:]]

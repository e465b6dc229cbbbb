"""Collect search hits from many conversations.

A single search returns the best hits. One session that mentions the words a thousand times, or a
thousand runs of a scheduled job, could fill them all. So the search is repeated without the
conversations already found, first among ordinary sources and then among demoted ones, until there
are enough conversations to choose from or no more hits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from hermes_sessions.model.message import text_of
from hermes_sessions.recall.scoped_store import DEMOTED_WHEN_SEARCHING, ScopedStore
from hermes_sessions.storage.search.answer import Hit, SearchAnswer, SearchReport
from hermes_sessions.text.query.filters import SearchConditions
from hermes_sessions.text.query.matcher import TokenizedDocument, matches
from hermes_sessions.text.query.relaxation import AS_ASKED, INSIDE_WORDS, steps
from hermes_sessions.text.query.tree import Node, Query, terms_of, words_of
from hermes_sessions.text.relevance import Match, scores

if TYPE_CHECKING:
    from hermes_sessions.storage.records import MessageRecord

# Ranking of conversations: the best first, however many hits a noisy one has.

#: The number of hits that decide the rank of a conversation.
_DECIDING: Final = 3
#: The weight of the second and third hit. A conversation about the topic ranks before one that
#: mentions it once, and a thousand mentions count no more than three.
_FURTHER_HITS: Final = 0.1


@dataclass(frozen=True, slots=True)
class RankedConversation:
    """A matching conversation with its hits, best first."""

    conversation_id: str
    hits: list[Hit]
    demoted: bool


@dataclass(frozen=True, slots=True, order=True)
class _HitRank:
    """The rank of a hit; smaller is better."""

    #: The relaxation step it matches; 0 is the strictest.
    reading: int
    cost: float


#: The rank of a hit beyond `_DECIDING`.
_UNRANKED: Final = _HitRank(99, 0.0)


def best_conversations(
    store: ScopedStore, gathered: CollectedHits, *, sort: str, limit: int
) -> list[RankedConversation]:
    """Return the best conversations in the requested order; demoted sources come last."""
    by_conversation: dict[str, list[Hit]] = {}
    for hit in {hit.id: hit for hit in gathered.hits}.values():
        by_conversation.setdefault(hit.conversation_id, []).append(hit)
    if sort != "relevance" or not terms_of(gathered.tree):
        return _by_time(by_conversation, gathered, oldest=sort == "oldest")[:limit]
    if gathered.searches == 1:
        ranks = _in_search_order(gathered.hits)
    else:
        ranks = _comparable(store, by_conversation, gathered)
    return _by_rank(by_conversation, gathered, ranks)[:limit]


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


def _by_rank(
    by_conversation: dict[str, list[Hit]], gathered: CollectedHits, ranks: dict[int, _HitRank]
) -> list[RankedConversation]:
    ordered = []
    for conversation_id, hits in by_conversation.items():
        hits.sort(
            key=lambda hit: (
                gathered.is_demoted(hit),
                ranks.get(hit.id, _UNRANKED),
                -hit.timestamp,
                -hit.id,
            )
        )
        best, *others = hits
        found = RankedConversation(conversation_id, hits, gathered.is_demoted(best))
        value = ranks.get(best.id, _UNRANKED)
        further = sum(ranks[hit.id].cost for hit in others[: _DECIDING - 1] if hit.id in ranks)
        whole = _HitRank(value.reading, round(value.cost + _FURTHER_HITS * further, 9))
        ordered.append(((found.demoted, whole, -best.timestamp, conversation_id), found))
    return [found for _, found in sorted(ordered, key=lambda pair: pair[0])]


def _in_search_order(hits: Sequence[Hit]) -> dict[int, _HitRank]:
    """Rank the hits of one search as it did. Where scores rise, a weaker step begins."""
    ranks: dict[int, _HitRank] = {}
    step, last = 0, math.inf
    for hit in hits:
        score = hit.score or 0.0
        step += score > last
        ranks[hit.id] = _HitRank(step, -score)
        last = score
    return ranks


def _comparable(
    store: ScopedStore, by_conversation: dict[str, list[Hit]], gathered: CollectedHits
) -> dict[int, _HitRank]:
    """Rank the deciding hits of all conversations together.

    Scores of different searches, or of different relaxation steps, are not comparable: each
    depends on how rare the words are among its own candidates.
    """
    deciding: list[tuple[Hit, Match]] = []
    for hits in by_conversation.values():
        # In search order, so that a match of a stricter step stays before one of a weaker step.
        for hit in hits[:_DECIDING]:
            window = store.messages_around(hit.session_id, hit.id, 0)["window"]
            if window:
                deciding.append((hit, _match(hit, window[0])))
    points = scores([match for _, match in deciding], words_of(gathered.tree))
    return {
        hit.id: _HitRank(_reading(gathered.readings, hit, match), -score)
        for (hit, match), score in zip(deciding, points, strict=True)
    }


def _reading(readings: Sequence[Node], hit: Hit, match: Match) -> int:
    document = TokenizedDocument([match.title] if hit.matched == "title" else match.texts)
    fitting = (i for i, tree in enumerate(readings) if matches(tree, document))
    return next(fitting, len(readings))


def _match(hit: Hit, message: MessageRecord) -> Match:
    return Match(
        _texts(message),
        title=hit.title or "",
        source=hit.source,
        role=hit.role,
        timestamp=hit.timestamp,
        session_id=hit.session_id,
        ordinal=hit.ordinal,
    )


def _texts(message: MessageRecord) -> Sequence[str]:
    texts = [text_of(message["content"]), message["tool_name"] or ""]
    if message["tool_calls"]:
        texts.append(json.dumps(message["tool_calls"], ensure_ascii=False))
    return [text for text in texts if text]


#: Hits per search.
_PAGE: Final = 60
#: In the step "any of the words" a search returns at least this many hits of each word. A search
#: with fewer hits than this has returned all of them.
_PART: Final = 50
#: Collect this many times the conversations that are shown, to choose the best, within a few
#: rounds. To have enough at all, there is no limit of rounds.
_CHOICE: Final = 3
_ROUNDS_FOR_CHOICE: Final = 3


@dataclass(slots=True)
class CollectedHits:
    """Hits of one or more searches, and how they were found."""

    report: SearchReport
    #: The relaxation steps as trees: that of the first hits, then weaker ones.
    readings: list[Node]
    #: Whether demoted sources rank like others, because the query asks for them.
    is_level: bool
    hits: list[Hit] = field(default_factory=list)
    searches: int = 0

    @property
    def tree(self) -> Node | None:
        """The strictest step that found something."""
        return self.readings[0] if self.readings else None

    @property
    def is_relaxed(self) -> bool:
        """Whether the query found nothing as typed."""
        return self.report.step != AS_ASKED

    def add(self, answer: SearchAnswer) -> None:
        """Add the hits of one more search."""
        self.hits += answer.hits
        self.searches += 1
        self.report.complete = self.report.complete and answer.report.complete

    def is_demoted(self, hit: Hit) -> bool:
        """Whether a hit ranks after those of ordinary conversations."""
        return not self.is_level and hit.source in DEMOTED_WHEN_SEARCHING

    def conversations(self, *, demoted: bool) -> set[str]:
        """Return the ids of conversations with demoted, or with ordinary, hits."""
        return {hit.conversation_id for hit in self.hits if self.is_demoted(hit) is demoted}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuery:
    """A query against the store, and the number of conversations to show."""

    text: str
    parsed: Query
    conditions: SearchConditions
    sort: str
    wanted: int


def collect_hits(store: ScopedStore, question: RecallQuery) -> CollectedHits:
    """Return hits of at least ``question.wanted`` conversations, if that many match."""
    first = store.search(
        question.text, question.conditions, limit=_PAGE, sort=question.sort, relax=True
    )
    filters = question.parsed.filters
    gathered = CollectedHits(
        report=first.report,
        readings=_readings(question.parsed.node, first.report.step),
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
    """A group of sources: the demoted ones or the others."""

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
    store: ScopedStore, question: RecallQuery, tier: _Tier, gathered: CollectedHits
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
        if answer.report.step == INSIDE_WORDS != gathered.report.step:
            # The last resort, for queries that find nothing else.
            return
        gathered.add(answer)
        if _is_all(answer, gathered):
            return


def _is_all(answer: SearchAnswer, gathered: CollectedHits) -> bool:
    """Whether a search returned every existing hit."""
    if not answer.hits:
        return True
    is_part = gathered.is_relaxed and len(answer.hits) >= _PART
    return answer.next_cursor is None and not is_part


def _is_enough(gathered: CollectedHits, tier: _Tier, wanted: int) -> bool:
    found = len(gathered.conversations(demoted=False))
    if tier.demoted:
        # Demoted sources only fill up what ordinary sources leave empty.
        return found + len(gathered.conversations(demoted=True)) >= wanted
    if found >= wanted and gathered.searches >= _ROUNDS_FOR_CHOICE:
        return True
    return found >= wanted * _CHOICE


def _readings(node: Node | None, step: str) -> list[Node]:
    """Return the trees of this step and of the steps after it."""
    if node is None:
        return []
    named = list(steps(node))
    names = [name for name, _ in named]
    start = names.index(step) if step in names else 0
    return [tree for _, tree in named[start:]]

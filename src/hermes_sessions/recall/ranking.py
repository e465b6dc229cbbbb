"""Puts conversations in order: the best first, however much a noisy one has to say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from hermes_sessions.model.message import text_of
from hermes_sessions.recall.conversation_search import Gathered
from hermes_sessions.recall.scoped_store import ScopedStore
from hermes_sessions.storage.search.answer import Hit
from hermes_sessions.text.query.matcher import Analysed, matches
from hermes_sessions.text.query.tree import Node, terms_of
from hermes_sessions.text.relevance import Match, scores

#: Hits of a conversation that decide about its place.
_DECIDING: Final = 3
#: What the second and third hit add, so that a conversation about the matter comes before one that
#: mentions it once, and a thousand mentions count no more than three.
_FURTHER_HITS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Found:
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
    store: ScopedStore, gathered: Gathered, *, sort: str, limit: int
) -> list[Found]:
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
    by_conversation: dict[str, list[Hit]], gathered: Gathered, *, oldest: bool
) -> list[Found]:
    sign = 1 if oldest else -1
    found = []
    for conversation_id, hits in by_conversation.items():
        hits.sort(key=lambda hit: (gathered.is_demoted(hit), sign * hit.timestamp, sign * hit.id))
        found.append(Found(conversation_id, hits, gathered.is_demoted(hits[0])))
    return sorted(
        found, key=lambda item: (item.demoted, sign * item.hits[0].timestamp, item.conversation_id)
    )


def _by_worth(
    by_conversation: dict[str, list[Hit]], gathered: Gathered, worth: dict[int, _Worth]
) -> list[Found]:
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
        found = Found(conversation_id, hits, gathered.is_demoted(best))
        value = worth.get(best.id, _WORTHLESS)
        further = sum(worth[hit.id].cost for hit in others[: _DECIDING - 1] if hit.id in worth)
        whole = _Worth(value.reading, round(value.cost + _FURTHER_HITS * further, 9))
        ordered.append(((found.demoted, whole, -best.timestamp, conversation_id), found))
    return [found for _, found in sorted(ordered, key=lambda pair: pair[0])]


def _comparable(
    store: ScopedStore, by_conversation: dict[str, list[Hit]], gathered: Gathered
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
    document = Analysed([match.title] if hit.matched == "title" else match.texts)
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

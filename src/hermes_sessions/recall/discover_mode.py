"""Discover mode: find the conversations that answer a query, and the matching messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hermes_sessions.recall.arguments import DEFAULT_ROLES, RecallArguments
from hermes_sessions.recall.budget import cut_to_tokens, json_tokens, room_for
from hermes_sessions.recall.conversation_search import (
    RankedConversation,
    RecallQuery,
    best_conversations,
    collect_hits,
)
from hermes_sessions.recall.message_excerpts import (
    Marker,
    MessageExcerpt,
    fit,
    label,
    marker_of,
)
from hermes_sessions.recall.scoped_store import RecallContext
from hermes_sessions.recall.summaries import Summaries, SummaryTopic
from hermes_sessions.storage.search.answer import COUNT_LIMIT, Hit, SearchReport
from hermes_sessions.text.query.filters import SearchConditions
from hermes_sessions.text.query.parser import parse
from hermes_sessions.text.query.relaxation import AS_ASKED

if TYPE_CHECKING:
    from hermes_sessions.storage.records import MessageRecord

# How the query was interpreted, or why it found nothing, without revealing what is out of scope.
#
# A search report is written for the owner of the store; only numbers that count within the scope
# are used here.


_EXPLAINED: Final = {
    "without common words": "Nothing matched all words; common words were ignored.",
    "other forms of the words": "Nothing matched as written; other forms of the words did.",
    "any of the words": "Nothing matched all words; these have at least one of them.",
    "inside words": "Nothing matched whole words; these have the text inside longer words.",
}
#: Names of filters in the tool's arguments and in the query.
_FILTERS: Final = {
    "roles": "role_filter",
    "sources": "source",
    "exclude_conversations": "the current or an excluded conversation",
    "tools": "tool:",
    "models": "model:",
    "users": "user:",
    "sessions": "session:",
    "titles": "in:",
}


_MOST_REPAIRS: Final = 5


_LONGEST_REPAIR: Final = 30


def describe_interpretation(report: SearchReport) -> dict[str, Any]:
    """Return ``complete``, and ``reading`` when the query was adjusted or relaxed."""
    said: dict[str, Any] = {"complete": report.complete}
    reading: dict[str, Any] = {}
    if report.step != AS_ASKED:
        reading["step"] = report.step
        reading["explanation"] = _EXPLAINED.get(report.step, "The query was relaxed.")
    if report.repairs:
        kept = report.repairs[:_MOST_REPAIRS]
        reading["repairs"] = [cut_to_tokens(repair, _LONGEST_REPAIR) for repair in kept]
    if reading:
        said["reading"] = reading
    if not report.complete:
        said["incomplete_because"] = (
            "Only the newest messages were searched; narrow the search to reach further back."
            if report.scanned
            else "The search index is still being built; try again later for older messages."
        )
    return said


def explain_no_results(report: SearchReport) -> str:
    """Return the message for a search without results."""
    parts = ["Nothing was found."]
    hidden = [
        f"{_FILTERS.get(name, name)} ({number:,}{' or more' if number >= COUNT_LIMIT else ''})"
        for name, number in report.removed.items()
    ]
    if hidden:
        parts.append(f"Matches were removed by: {', '.join(hidden)}.")
    parts += report.notes
    parts.append("Try fewer or other words.")
    return " ".join(parts)


Record = dict[str, Any]

#: Filters in the query that ask for messages which the default roles would hide.
_ABOUT_ROLES: Final = frozenset({"role", "tool", "has"})
_ECHO: Final = 50
_LONGEST_SNIPPET: Final = 75
#: The least room of a conversation shown with its context: a few are shown well rather than many
#: badly. Matches of other conversations are shown alone.
_WORTH_SHOWING: Final = 400
#: Room for each conversation from which facts beyond the essential ones are shown.
_ROOMY: Final = 1_000
#: The most room of a summary, as a share of what its conversation has.
_SUMMARY_SHARE: Final = 2
#: The most matches besides the best of each conversation.
_MOST_MATCHES: Final = 60
# What is dropped first when room is short: larger numbers go first. Matches have their rank. After
# the best few come the closest neighbours of the best match, then those of the next, and so on.
_NEIGHBOURS: Final = 5.5
_EACH_STEP: Final = 5
_EACH_CONVERSATION: Final = 3
_BOOKENDS: Final = 40.5


def discover(
    context: RecallContext, arguments: RecallArguments, summaries: Summaries | None
) -> Record:
    """Return the best matching conversations, each with its match in context."""
    result = arguments.opening() | {
        "query": cut_to_tokens(arguments.query, _ECHO),
        "results": [],
        "count": 0,
    }
    question = _question(context, arguments)
    if question.parsed.is_empty:
        return result | {"message": "This query contains nothing to search for."}
    gathered = collect_hits(context.store, question)
    found = best_conversations(context.store, gathered, sort=arguments.sort, limit=arguments.limit)
    room = room_for(result | {"sessions_searched": 99_999}, arguments.max_tokens)
    most = max(1, room // _WORTH_SHOWING)
    ranked = {hit.id: i for i, hit in enumerate(gathered.hits)}
    entries = [
        entry
        for i, item in enumerate(found[:most])
        if (entry := _entry(context, item, i, ranked)) is not None
    ]
    if not entries:
        as_asked = context.store.search(
            question.text, question.conditions, limit=1, sort=question.sort, count=True
        )
        message = explain_no_results(as_asked.report)
        return result | describe_interpretation(gathered.report) | {"message": message}
    marker = marker_of(gathered.tree)
    if summaries is not None:
        _summarise(context, arguments.query, entries, marker, summaries)
    searched = {hit.conversation_id for hit in gathered.hits}
    result |= {"count": len(entries), "sessions_searched": len(searched)}
    result |= describe_interpretation(gathered.report)
    room = room_for(result | {"more_matches": []}, arguments.max_tokens)
    entries = _settle(entries, room)
    _fill(result, entries, _others(context, gathered.hits, entries), room, marker)
    result["count"] = len(result["results"])
    if not result["results"]:
        result["message"] = "max_tokens is too small to show the results."
    return result


def _question(context: RecallContext, arguments: RecallArguments) -> RecallQuery:
    parsed = parse(arguments.query)
    roles = arguments.roles
    if roles is None:
        named = {item.name for item in parsed.filters}
        roles = () if named & _ABOUT_ROLES else DEFAULT_ROLES
    conditions = SearchConditions(
        roles=roles,
        sources=arguments.sources,
        after=arguments.after,
        before=arguments.before,
        workspaces=() if arguments.workspace is None else (arguments.workspace,),
        exclude_conversations=context.excluded_conversations(arguments.exclude),
    )
    return RecallQuery(
        text=arguments.query,
        parsed=parsed,
        conditions=conditions,
        sort=arguments.sort,
        wanted=arguments.limit,
    )


# One conversation


@dataclass(slots=True)
class _Entry:
    """A conversation that is being prepared for the result."""

    hit: Hit
    #: The facts that every entry has, and those that are shown if there is room.
    facts: Record
    further_facts: Record
    messages: list[MessageExcerpt]
    #: How many of the messages form the first bookend, and how many the last.
    first: int
    last: int
    counts: Record

    def shown(self, shown: Sequence[Record | None]) -> Record:
        """Return the entry with its messages as they are shown; None for those left out."""
        end = len(shown) - self.last
        entry = self.facts | {
            "bookend_start": [item for item in shown[: self.first] if item],
            "messages": [item for item in shown[self.first : end] if item],
            "bookend_end": [item for item in shown[end:] if item],
            **self.counts,
        }
        if None in shown:
            entry["left_out"] = shown.count(None)
        return entry

    def settle(self, room: int) -> None:
        """Choose the facts that are shown in an entry of *room* tokens."""
        if room >= _ROOMY:
            self.facts = self.further_facts | self.facts
        if summary := self.facts.get("summary"):
            self.facts["summary"] = cut_to_tokens(summary, room // _SUMMARY_SHARE)

    def frame_length(self) -> int:
        """Return the room that the entry takes without its messages."""
        empty: Record = {"bookend_start": [], "messages": [], "bookend_end": [], "left_out": 99}
        return json_tokens(self.facts | self.counts | empty) + 1


def _entry(
    context: RecallContext, found: RankedConversation, place: int, ranked: dict[int, int]
) -> _Entry | None:
    """Return the entry of a conversation; None if it was deleted meanwhile."""
    hit = found.hits[0]
    view = context.store.anchored_view(hit.session_id, hit.id)
    window = view["window"]
    if not window:
        return None
    middle = next(i for i, message in enumerate(window) if message["id"] == hit.id)
    start, end = view["bookend_start"], view["bookend_end"]
    nearest = _NEIGHBOURS + _EACH_CONVERSATION * place
    drafts = [_excerpt(message, _BOOKENDS + i, ranked) for i, message in enumerate(start)]
    for i, message in enumerate(window):
        if i == middle:
            drafts.append(MessageExcerpt(message, -1, 4, anchor=True, matches=True))
        else:
            distance = abs(i - middle)
            priority = nearest + _EACH_STEP * (distance - 1)
            drafts.append(_excerpt(message, priority, ranked, 2 if distance <= 2 else 1))
    drafts += [_excerpt(message, _BOOKENDS + i, ranked) for i, message in enumerate(end[::-1])][
        ::-1
    ]
    return _Entry(
        hit=hit,
        facts=_facts(context, found),
        further_facts=_further_facts(context, hit),
        messages=drafts,
        first=len(start),
        last=len(end),
        counts={name: view[name] for name in ("messages_before", "messages_after")},
    )


def _excerpt(
    message: MessageRecord, priority: float, ranked: dict[int, int], weight: int = 1
) -> MessageExcerpt:
    """Return a message beside the match; one that matches, too, is as important as its rank."""
    rank = ranked.get(message["id"])
    if rank is None:
        return MessageExcerpt(message, priority, weight)
    return MessageExcerpt(message, min(rank, priority), weight, matches=True)


def _facts(context: RecallContext, found: RankedConversation) -> Record:
    hit = found.hits[0]
    facts: Record = {"session_id": hit.session_id, "when": context.date(hit.session_started)}
    if hit.title:
        facts["title"] = label(hit.title)
    facts["match_message_id"] = hit.id
    if hit.matched != "message":
        facts["matched"] = hit.matched
        facts["snippet"] = cut_to_tokens(hit.snippet, _LONGEST_SNIPPET)
    if found.conversation_id != hit.session_id:
        root = context.store.find_session(found.conversation_id)
        if root is not None:
            facts["parent_session_id"] = root["id"]
    return facts


def _further_facts(context: RecallContext, hit: Hit) -> Record:
    return {
        "session_id": hit.session_id,
        "when": context.date(hit.session_started),
        "source": label(hit.source),
        "model": label(hit.model),
        "title": label(hit.title),
        "matched_role": label(hit.role),
        "match_message_id": hit.id,
        "match_when": context.date(hit.timestamp),
        "snippet": cut_to_tokens(hit.snippet, _LONGEST_SNIPPET),
    }


# Matches besides


@dataclass(slots=True)
class _OtherMatch:
    """A match that no entry's window shows."""

    excerpt: MessageExcerpt
    #: The position of the entry of its conversation, if there is one.
    place: int | None


def _others(
    context: RecallContext, hits: Sequence[Hit], entries: Sequence[_Entry]
) -> list[_OtherMatch]:
    """Return the matches that are in no entry's window, best first, without copies."""
    in_sight = {draft.record["id"] for entry in entries for draft in entry.messages}
    texts = {draft.text for entry in entries for draft in entry.messages}
    places = {entry.hit.conversation_id: i for i, entry in enumerate(entries)}
    sessions = {entry.hit.session_id for entry in entries}
    others = []
    for rank, hit in enumerate(hits[:_MOST_MATCHES]):
        if hit.id in in_sight or hit.matched != "message":
            continue
        window = context.store.messages_around(hit.session_id, hit.id, 0)["window"]
        if window:
            session_id = None if hit.session_id in sessions else hit.session_id
            excerpt = MessageExcerpt(window[0], rank, 2, matches=True, session_id=session_id)
            if excerpt.text and excerpt.text in texts:
                continue
            texts.add(excerpt.text)
            others.append(_OtherMatch(excerpt, places.get(hit.conversation_id)))
    return others


# All conversations


def _fill(
    result: Record,
    entries: list[_Entry],
    others: list[_OtherMatch],
    room: int,
    marker: Marker,
) -> None:
    """Add to the result what fits: matches first, then what stands around the best."""
    room -= sum(entry.frame_length() for entry in entries)
    drafts = [draft for entry in entries for draft in entry.messages]
    drafts += [other.excerpt for other in others]
    shown = fit(drafts, room, marker)
    for entry in entries:
        size = len(entry.messages)
        result["results"].append(entry.shown(shown[:size]))
        shown = shown[size:]
    for other, message in zip(others, shown, strict=True):
        if message is not None and other.place is None:
            result.setdefault("more_matches", []).append(message)
        elif message is not None and other.place is not None:
            result["results"][other.place].setdefault("other_matches", []).append(message)


def _settle(entries: list[_Entry], room: int) -> list[_Entry]:
    """Choose the facts of each entry, and return the first entries for which there is room."""
    for entry in entries:
        entry.settle(room // len(entries))
    kept: list[_Entry] = []
    left = room
    for entry in entries:
        left -= entry.frame_length()
        if kept and left < _WORTH_SHOWING:
            break
        kept.append(entry)
    return kept


def _summarise(
    context: RecallContext, query: str, entries: list[_Entry], marker: Marker, summaries: Summaries
) -> None:
    topics = []
    for entry in entries[: summaries.bounds.sessions]:
        hit = entry.hit
        around = context.store.messages_around(
            hit.session_id, hit.id, summaries.bounds.messages_each_side
        )
        topics.append(SummaryTopic(query=query, messages=around["window"], marker=marker))
    for entry, outcome in zip(entries, summaries.of(topics), strict=False):
        entry.facts |= outcome
    for entry in entries[len(topics) :]:
        entry.facts |= {"summary": None, "summary_note": "not summarised: plain result"}

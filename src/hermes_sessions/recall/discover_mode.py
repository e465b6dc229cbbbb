"""Discover mode: find the conversations that answer a query, and the matching messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from hermes_sessions.recall.arguments import DEFAULT_ROLES, RecallArguments
from hermes_sessions.recall.budget import cut_to_json_length, json_length, room_for, share_out
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
    wanted_room,
)
from hermes_sessions.recall.scoped_store import RecallContext
from hermes_sessions.recall.summaries import Summaries, SummaryTopic
from hermes_sessions.storage.search.answer import COUNT_LIMIT, Hit, SearchReport
from hermes_sessions.text.query.filters import SearchConditions
from hermes_sessions.text.query.parser import parse
from hermes_sessions.text.query.relaxation import AS_ASKED

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


_LONGEST_REPAIR: Final = 100


def describe_interpretation(report: SearchReport) -> dict[str, Any]:
    """Return ``complete``, and ``reading`` when the query was adjusted or relaxed."""
    said: dict[str, Any] = {"complete": report.complete}
    reading: dict[str, Any] = {}
    if report.step != AS_ASKED:
        reading["step"] = report.step
        reading["explanation"] = _EXPLAINED.get(report.step, "The query was relaxed.")
    if report.repairs:
        kept = report.repairs[:_MOST_REPAIRS]
        reading["repairs"] = [cut_to_json_length(repair, _LONGEST_REPAIR) for repair in kept]
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
_OTHER_MATCHES: Final = 2
_ECHO: Final = 200
_LONGEST_SNIPPET: Final = 300
#: The least room of a conversation: a few are shown well rather than many badly.
_WORTH_SHOWING: Final = 200
#: Bookends come after the closest neighbours of the match and before more distant ones.
_BOOKEND_PRIORITY: Final = 2.5


def discover(
    context: RecallContext, arguments: RecallArguments, summaries: Summaries | None
) -> Record:
    """Return the best matching conversations, each with its match in context."""
    result = arguments.opening() | {
        "query": cut_to_json_length(arguments.query, _ECHO),
        "results": [],
        "count": 0,
    }
    question = _question(context, arguments)
    if question.parsed.is_empty:
        return result | {"message": "This query contains nothing to search for."}
    gathered = collect_hits(context.store, question)
    found = best_conversations(context.store, gathered, sort=arguments.sort, limit=arguments.limit)
    entries = [entry for item in found if (entry := _entry(context, item)) is not None]
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
    result["results"] = _fitted(entries, room_for(result, arguments.max_tokens), marker)
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
    facts: Record
    messages: list[MessageExcerpt]
    #: How many of the messages form the first bookend, and how many the last.
    first: int
    last: int
    counts: Record

    def shown(self, room: int, marker: Marker) -> Record:
        """Return the entry with its messages cut to *room* characters."""
        shown = fit(self.messages, room, marker)
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

    def lighten(self, room: int) -> None:
        """Drop optional parts if the entry does not fit otherwise."""
        excess = self.frame_length() + _WORTH_SHOWING - room
        if excess > 0:
            self.facts.pop("other_matches", None)
            excess = self.frame_length() + _WORTH_SHOWING - room
        summary = self.facts.get("summary")
        if excess > 0 and summary:
            size = json_length(summary) - 2 - excess
            self.facts["summary"] = cut_to_json_length(summary, max(size, _WORTH_SHOWING))

    def frame_length(self) -> int:
        """Return the room that the entry takes without its messages."""
        empty: Record = {"bookend_start": [], "messages": [], "bookend_end": [], "left_out": 99}
        return json_length(self.facts | self.counts | empty) + 2


def _entry(context: RecallContext, found: RankedConversation) -> _Entry | None:
    """Return the entry of a conversation; None if it was deleted meanwhile."""
    hit = found.hits[0]
    view = context.store.anchored_view(hit.session_id, hit.id)
    window = view["window"]
    if not window:
        return None
    middle = next(i for i, message in enumerate(window) if message["id"] == hit.id)
    start, end = view["bookend_start"], view["bookend_end"]
    drafts = [
        *[MessageExcerpt(message, _BOOKEND_PRIORITY + i) for i, message in enumerate(start)],
        *[
            MessageExcerpt(message, abs(i - middle), _weight(abs(i - middle)), anchor=i == middle)
            for i, message in enumerate(window)
        ],
        *[MessageExcerpt(message, _BOOKEND_PRIORITY + i) for i, message in enumerate(end[::-1])][
            ::-1
        ],
    ]
    in_sight = {message["id"] for message in (*start, *window, *end)}
    return _Entry(
        hit=hit,
        facts=_facts(context, found, in_sight),
        messages=drafts,
        first=len(start),
        last=len(end),
        counts={name: view[name] for name in ("messages_before", "messages_after")},
    )


def _weight(distance: int) -> int:
    return 4 if distance == 0 else 2 if distance <= 2 else 1


def _facts(context: RecallContext, found: RankedConversation, in_sight: set[int]) -> Record:
    hit = found.hits[0]
    facts: Record = {
        "session_id": hit.session_id,
        "when": context.date(hit.session_started),
        "source": label(hit.source),
        "model": label(hit.model),
        "title": label(hit.title),
        "matched_role": label(hit.role),
        "match_message_id": hit.id,
        "match_when": context.date(hit.timestamp),
        "snippet": cut_to_json_length(hit.snippet, _LONGEST_SNIPPET),
    }
    if hit.matched != "message":
        facts["matched"] = hit.matched
    if found.conversation_id != hit.session_id:
        root = context.store.find_session(found.conversation_id)
        if root is not None:
            facts["parent_session_id"] = root["id"]
    others = [other for other in found.hits[1:] if other.id not in in_sight]
    if others:
        facts["other_matches"] = [
            {
                "session_id": other.session_id,
                "message_id": other.id,
                "role": label(other.role),
                "snippet": cut_to_json_length(other.snippet, _LONGEST_SNIPPET),
            }
            for other in others[:_OTHER_MATCHES]
        ]
    return facts


# All conversations


def _fitted(entries: list[_Entry], room: int, marker: Marker) -> list[Record]:
    """Return as many entries as fit, sharing the room fairly."""
    kept: list[_Entry] = []
    frames = 0
    for entry in entries:
        left = room - frames - _WORTH_SHOWING * len(kept)
        entry.lighten(left)
        if entry.frame_length() > (left - _WORTH_SHOWING if kept else left):
            break
        frames += entry.frame_length()
        kept.append(entry)
    rooms = share_out(
        [wanted_room(entry.messages) for entry in kept], [1] * len(kept), room - frames
    )
    return [entry.shown(size, marker) for entry, size in zip(kept, rooms, strict=True)]


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

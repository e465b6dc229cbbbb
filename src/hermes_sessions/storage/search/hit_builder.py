"""Load the messages that a search found, and build hits with snippets and context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hermes_sessions.model.message import text_of, without_base64
from hermes_sessions.storage.codec import decode_searchable
from hermes_sessions.storage.provider import ReadTransaction, placeholders
from hermes_sessions.storage.search.answer import Hit
from hermes_sessions.storage.search.message_texts import DOCUMENT_COLUMNS, texts_of, time_of
from hermes_sessions.text.characters import cluster_end, cluster_start
from hermes_sessions.text.query.matcher import (
    TokenizedDocument,
    find_marks,
    matches,
    matches_title,
    positions,
)
from hermes_sessions.text.query.tree import Node, Substring, Term, terms_of
from hermes_sessions.text.relevance import Match
from hermes_sessions.text.snippet import Snippet, cut_snippet

CONTEXT_LENGTH: Final = 200
_CHUNK: Final = 500
#: Texts up to this length are marked completely; of longer ones, at most `_MAX_MARKED` characters.
_PIECE: Final = 600
_MAX_MARKED: Final = 20_000
#: The most stretches of a text that are searched for something to mark.
_STRETCHES: Final = 50


class MessageFacts(NamedTuple):
    """Columns of a message, and of its session."""

    id: int
    session_id: str
    role: str
    timestamp: Any
    tool_name: str | None
    ordinal: int
    source: str
    model: str | None
    started_at: float
    title: str | None
    conversation_id: str


_OF_MESSAGE: Final = ("id", "session_id", "role", "timestamp", "tool_name", "ordinal")
_SELECTED: Final = ", ".join(
    (
        *(f"{'m' if name in _OF_MESSAGE else 's'}.{name}" for name in MessageFacts._fields),
        *(f"m.{name}" for name in DOCUMENT_COLUMNS),
    )
)
_FACTS: Final = len(MessageFacts._fields)


@dataclass(slots=True, eq=False)
class MatchedMessage:
    """A message that matches, with the values that ranking and the hit need."""

    facts: MessageFacts
    match: Match
    matched: str
    score: float | None = None
    #: The tree that matched, whose terms are marked in the snippet.
    reading: Node | None = None
    _document: TokenizedDocument | None = None

    @property
    def id(self) -> int:
        """The message's id."""
        return int(self.facts.id)

    @property
    def time_key(self) -> tuple[float, str, int]:
        """The sort key: timestamp, then session, then ordinal."""
        return self.match.timestamp, self.match.session_id, self.match.ordinal

    def has_title(self, node: Node) -> bool:
        """Return whether the session's title matches and no excluded term is in the message."""
        return matches_title(node, TokenizedDocument([self.match.title]), self._analysed)

    def is_match(self, node: Node) -> bool:
        """Return whether the message's texts match."""
        return matches(node, self._analysed)

    @property
    def _analysed(self) -> TokenizedDocument:
        if self._document is None:
            self._document = TokenizedDocument(self.match.texts)
        return self._document


def load_messages(
    tx: ReadTransaction, ids: Sequence[int], *, matched: str = "message"
) -> list[MatchedMessage]:
    """Return the messages with these ids, in this order; unknown ids are skipped."""
    loaded: dict[int, MatchedMessage] = {}
    for start in range(0, len(ids), _CHUNK):
        chunk = ids[start : start + _CHUNK]
        for row in tx.stream(
            f"SELECT {_SELECTED} FROM messages m JOIN sessions s ON s.id = m.session_id "
            f"WHERE m.id IN ({placeholders(len(chunk))})",
            chunk,
        ):
            facts = MessageFacts._make(row[:_FACTS])
            match = Match(
                texts_of(*row[_FACTS:]),
                title=facts.title or "",
                source=facts.source,
                role=facts.role,
                timestamp=time_of(facts.timestamp),
                session_id=facts.session_id,
                ordinal=facts.ordinal,
            )
            loaded[facts.id] = MatchedMessage(facts, match, matched)
    return [loaded[number] for number in ids if number in loaded]


def build_hits(
    tx: ReadTransaction, found: Sequence[MatchedMessage], *, include_rewound: bool = False
) -> list[Hit]:
    """Return hits with snippets and context."""
    return [_hit(tx, item, include_rewound=include_rewound) for item in found]


def _hit(tx: ReadTransaction, item: MatchedMessage, *, include_rewound: bool) -> Hit:
    facts = item.facts
    texts = [facts.title or ""] if item.matched == "title" else item.match.texts
    snippet = _snippet(texts, item.reading)
    return Hit(
        id=facts.id,
        session_id=facts.session_id,
        role=facts.role,
        snippet=snippet.marked,
        timestamp=facts.timestamp,
        tool_name=facts.tool_name,
        source=facts.source,
        model=facts.model,
        session_started=facts.started_at,
        context=_context(tx, facts.session_id, facts.ordinal, include_rewound=include_rewound),
        title=facts.title,
        conversation_id=facts.conversation_id,
        ordinal=facts.ordinal,
        matched=item.matched,
        score=item.score,
        snippet_text=snippet.text,
        spans=snippet.spans,
    )


def _snippet(texts: Sequence[str], node: Node | None) -> Snippet:
    """Return the snippet of the first text with a match, else the start of the first text."""
    terms = terms_of(node)
    for text in texts if terms else ():
        for piece in _pieces(text, terms):
            marks = find_marks(node, piece)
            if marks:
                return cut_snippet(piece, marks)
    return cut_snippet(_start_of(texts[0]) if texts else "", [])


def _pieces(text: str, terms: Sequence[Term | Substring]) -> Iterator[str]:
    """Yield parts of a text that may contain a match, the most likely first."""
    yield _piece(text, terms)
    for start in range(0, min(len(text), _STRETCHES * _MAX_MARKED), _MAX_MARKED):
        if len(text) > _PIECE:
            # Stretches overlap, so that a match at the boundary is complete in one of them.
            first = cluster_start(text, max(0, start - _PIECE))
            yield text[first : cluster_start(text, start + _MAX_MARKED)]


def _piece(text: str, terms: Sequence[Term | Substring]) -> str:
    """Return the part of a long text around the first place with the most different terms.

    Marking the whole of a long text would cost more than finding it.
    """
    if len(text) <= _PIECE:
        return text
    if not text.isascii() and len(text.lower()) != len(text):
        return _start_of(text)
    lowered = text.lower()
    # A term that occurs twice in the query counts once.
    different = dict.fromkeys(terms)
    found = [
        (position, i) for i, term in enumerate(different) for position in positions(term, lowered)
    ]
    if not found:
        return _start_of(text)
    best = _densest(sorted(found), _PIECE // 2)
    start = cluster_start(text, max(0, best - _PIECE // 3))
    end = cluster_end(text, min(len(text), best + _PIECE))
    before = "... " if start > 0 else ""
    after = " ..." if end < len(text) else ""
    return before + text[start:end] + after


def _densest(found: Sequence[tuple[int, int]], width: int) -> int:
    """Return the start of the first *width* characters with the most different terms.

    *found* contains (offset, number of the term) in order. Queries can have a thousand terms, so
    one pass must be enough.
    """
    inside: Counter[int] = Counter()
    end = most = best = 0
    for position, number in found:
        while end < len(found) and found[end][0] < position + width:
            inside[found[end][1]] += 1
            end += 1
        if len(inside) > most:
            most, best = len(inside), position
        inside[number] -= 1
        if not inside[number]:
            del inside[number]
    return best


def _start_of(text: str) -> str:
    return text[: cluster_start(text, _MAX_MARKED)]


def _context(
    tx: ReadTransaction, session_id: str, ordinal: int, *, include_rewound: bool
) -> list[dict[str, str]]:
    columns = "SELECT role, content, content_type, ordinal FROM messages WHERE session_id = ?"
    shown = "ORDER BY ordinal" if include_rewound else "AND active = 1 ORDER BY ordinal"
    before = tx.all(f"{columns} AND ordinal < ? {shown} DESC LIMIT 1", (session_id, ordinal))
    after = tx.all(f"{columns} AND ordinal >= ? {shown} LIMIT 2", (session_id, ordinal))
    return [
        {"role": role, "content": _short(decode_searchable(content, content_type))}
        for role, content, content_type, _ in (*before, *after)
    ]


def _short(content: Any) -> str:
    if content is None:
        return ""
    text = without_base64(text_of(content))
    if not text and not isinstance(content, str):
        text = "[multimodal content]"
    return text[: cluster_start(text, CONTEXT_LENGTH)]

"""Decide whether a text matches a query tree, and where: the same on every database."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final
from unicodedata import is_normalized

from hermes_sessions.model.computed_once import computed_once
from hermes_sessions.text.normalisation import fold
from hermes_sessions.text.query.tree import And, Node, Not, Or, Substring, Term, terms_of
from hermes_sessions.text.tokenizer import (
    Analysis,
    PositionedTokens,
    QueryToken,
    analyse,
    find_folded,
    inner_spans,
    is_cjk,
    kind_of,
)

# Fast counts and positions of terms in a text, for ranking and for choosing what to show.
#
# A term is searched as written, in folded text. This also counts prefixes and infixes of words,
# which is good enough for weights; `matches` below decides what matches.


_BETWEEN: Final = r"[\W_]+"
#: Latin, Greek and Cyrillic letters beyond ASCII, and marks: folding may change them.
_HAS_ACCENTS: Final = re.compile("[\u00c0-\u052f\u1e00-\u1fff\u0300-\u036f]")


def folded(text: str) -> str:
    """Return a text in the form in which terms are searched."""
    if text.isascii():
        return text.lower()
    # Skip the expensive folding for text without accents and compatibility forms.
    if is_normalized("NFKC", text) and not _HAS_ACCENTS.search(text):
        return text.casefold()
    return fold(text)


def counter(term: Term | Substring) -> Callable[[str], int]:
    """Return a function that counts a term in `folded` texts, including inside words."""
    written = _written(term)
    if isinstance(written, str):
        return lambda text: text.count(written)
    return lambda text: len(written.findall(text))


def positions(term: Term | Substring, text: str, most: int = 20) -> list[int]:
    """Return the first *most* positions where a term begins in a `folded` text."""
    written = _written(term)
    pattern = re.compile(re.escape(written)) if isinstance(written, str) else written
    return [match.start() for match in islice(pattern.finditer(text), most)]


@lru_cache(maxsize=512)
def _written(term: Term | Substring) -> str | re.Pattern[str]:
    """Return how a term appears in folded text: one piece, or words with separators between."""
    if isinstance(term, Substring):
        return fold(term.raw)
    tokens = [part.token for part in term.parts]
    if len(tokens) == 1:
        return tokens[0]
    if all(kind_of(token) == "word" for token in tokens):
        return re.compile(_BETWEEN.join(map(re.escape, tokens)))
    # Runs without blanks and symbols appear in a text as typed.
    return fold(term.raw).strip()


class TokenizedDocument:
    """The tokens of one message's texts, computed on first use."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    @computed_once
    def _analyses(self) -> list[Analysis]:
        return [analyse(text) for text in self.texts]

    @property
    def streams(self) -> list[list[str]]:
        """The phrase stream of each text."""
        return [analysis.words for analysis in self._analyses]

    @computed_once
    def tokens(self) -> set[str]:
        """All tokens, including those outside the phrase streams."""
        return {token for found in self._analyses for kind in found for token in kind}

    @computed_once
    def folded(self) -> list[str]:
        """Each text, folded."""
        return [fold(text) for text in self.texts]


def matches(node: Node, document: TokenizedDocument) -> bool:
    """Return whether a document matches a tree."""
    if isinstance(node, And):
        return all(matches(child, document) for child in node.nodes)
    if isinstance(node, Or):
        return any(matches(child, document) for child in node.nodes)
    if isinstance(node, Not):
        return not matches(node.node, document)
    return occurrences(node, document, enough=1) > 0


def matches_title(node: Node, title: TokenizedDocument, message: TokenizedDocument) -> bool:
    """Return whether a title matches a tree and its message has no excluded term."""
    if isinstance(node, And):
        return all(matches_title(child, title, message) for child in node.nodes)
    if isinstance(node, Or):
        return any(matches_title(child, title, message) for child in node.nodes)
    return matches(node, title) and (not isinstance(node, Not) or matches(node, message))


def occurrences(term: Term | Substring, document: TokenizedDocument, *, enough: int = 50) -> int:
    """Return how often a term occurs in a document; counting stops at *enough*."""
    if isinstance(term, Substring):
        needle = fold(term.raw)
        return min(enough, sum(text.count(needle) for text in document.folded)) if needle else 0
    first = term.parts[0]
    if term.likeness is not None:
        return min(enough, sum(is_like(term, token) for s in document.streams for token in s))
    if len(term.parts) == 1:
        return _count_single(first, document, enough)
    count = 0
    for stream in document.streams:
        for position in _starts(first, stream):
            if _follows(term.parts, stream, position):
                count += 1
                if count >= enough:
                    return count
    return count


def is_like(term: Term, token: str) -> bool:
    """Whether a token is one of the words that a term with a likeness means."""
    return likeness_of(term, token) > 0


def likeness_of(term: Term, token: str) -> float:
    """Return how much a token counts as one of the words that a term with a likeness means."""
    if term.likeness is None or not token.startswith(term.parts[0].token):
        return 0.0
    return term.likeness.weight(token)


def _count_single(part: QueryToken, document: TokenizedDocument, enough: int) -> int:
    if part.prefix:
        found = sum(token.startswith(part.token) for s in document.streams for token in s)
    elif part.token in document.tokens:
        found = sum(stream.count(part.token) for stream in document.streams)
    else:
        return 0
    if not found and any(_is(part, token) for token in document.tokens):
        found = 1  # A part of a longer word, such as ``query`` in ``parseQuery``.
    return min(found, enough)


def _is(part: QueryToken, token: str) -> bool:
    return token.startswith(part.token) if part.prefix else token == part.token


def _starts(part: QueryToken, stream: list[str]) -> Iterable[int]:
    if part.prefix:
        return [i for i, token in enumerate(stream) if token.startswith(part.token)]
    found = []
    position = -1
    try:
        while True:
            position = stream.index(part.token, position + 1)
            found.append(position)
    except ValueError:
        return found


def _follows(parts: Sequence[QueryToken], stream: Sequence[str], start: int) -> bool:
    if start + len(parts) > len(stream):
        return False
    return all(_is(part, stream[start + i]) for i, part in enumerate(parts))


# Positions of matches


def find_marks(node: Node | None, text: str) -> list[tuple[int, int]]:
    """Return the spans of a tree's wanted terms in the original text, in order."""
    tokens = PositionedTokens(text)
    stream = tokens.tokens
    joined = "\n".join(stream)
    marks: set[tuple[int, int]] = set()
    for term in terms_of(node):
        if isinstance(term, Substring):
            marks.update(find_folded(text, term.raw))
        elif term.parts[0].token not in joined:
            continue  # Most terms of a long query occur in none of its pieces.
        elif term.likeness is not None:
            marks.update(
                tokens.span(i, i) for i, token in enumerate(stream) if is_like(term, token)
            )
        elif len(term.parts) == 1:
            marks.update(_single_marks(term.parts[0], tokens, text))
        else:
            last = len(term.parts) - 1
            length = _length(term.parts[last])
            for start in _starts(term.parts[0], stream):
                if _follows(term.parts, stream, start):
                    marks.add(tokens.span(start, start + last, length))
    return sorted(marks)


def _single_marks(
    part: QueryToken, tokens: PositionedTokens, text: str
) -> Iterable[tuple[int, int]]:
    length = _length(part)
    for position, token in enumerate(tokens.tokens):
        if part.token not in token:
            continue
        if _is(part, token):
            yield tokens.span(position, position, length)
        elif kind_of(token) == "word":
            # Perhaps a part of a compound word.
            for inner in inner_spans(text, *tokens.span(position, position)):
                if _is(part, inner.token):
                    yield inner.start, inner.end


def _length(part: QueryToken) -> int | None:
    """Return how many characters of a matching token to mark; None marks the whole word.

    In a pair of CJK characters only those that were asked for are marked.
    """
    return len(part.token) if part.prefix and is_cjk(part.token) else None

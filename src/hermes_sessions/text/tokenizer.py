"""Turns text into tokens: the one analysis behind every index and every query.

The phrase stream of a text is its words and signs in order, folded. A word is a run of letters,
digits and their marks; everything else separates, underscores included. Text without blanks
between words (Han, Kana, Hangul, Bopomofo) becomes overlapping pairs of characters and the last
character alone, so that any piece of it is found: ``数据库`` is 数据, 据库, 库. Emoji and other
signs beyond ASCII are tokens of their own, a flag is one. The parts of ``parseQuery`` are extras:
found singly, outside the stream.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from itertools import islice
from typing import Final, Literal, NamedTuple

from hermes_sessions.text import characters
from hermes_sessions.text.alignment import Alignment
from hermes_sessions.text.identifiers import compound_words
from hermes_sessions.text.normalisation import fold, plain

#: Raised when the same text gives other tokens than before: indexes are then built anew.
SEGMENTER_VERSION: Final = 1

Kind = Literal["word", "cjk", "symbol"]

_ASCII_TOKEN: Final = re.compile("([a-z0-9]+)")
# Every byte as its lower-case letter, as its digit, or as a blank.
_ASCII_FOLDING: Final = bytes(
    ord(character.lower()) if character.isascii() and character.isalnum() else ord(" ")
    for character in map(chr, range(256))
)


class Span(NamedTuple):
    """A token of the phrase stream and where it stands in the original text."""

    token: str
    start: int
    end: int
    kind: Kind
    #: The words that this word is made of, as `extras` gives them.
    parts: tuple[Span, ...] = ()


class Part(NamedTuple):
    """What one token of a phrase must be: this, or with *prefix* anything that starts so."""

    token: str
    prefix: bool = False


class Analysis(NamedTuple):
    """Everything an index keeps of a text."""

    words: list[str]
    extras: list[str]


def words(text: str) -> list[str]:
    """Return the phrase stream of a text."""
    if text.isascii():
        return text.encode().translate(_ASCII_FOLDING).decode().split()
    return _tokens().findall(fold(text))


def extras(text: str) -> list[str]:
    """Return the parts of words such as ``parseQuery`` and ``HTTPServer``, in order, folded."""
    return _extras(plain(text))


def analyse(text: str) -> Analysis:
    """Return the phrase stream and the extras of a text; cheaper than asking for each."""
    if text.isascii():
        return Analysis(words(text), _extras(text))
    cased = plain(text)
    return Analysis(_tokens().findall(cased.casefold()), _extras(cased))


def query_parts(term: str, *, prefix: bool = False) -> list[Part]:
    """Return what a term of a query asks for: parts that follow each other in a phrase stream.

    An empty list means that the term has nothing to search for. With *prefix* the last part
    stands for everything that starts with it.

    A CJK run is found anywhere inside a longer one: as its pairs of characters, or a single
    character as a prefix of pairs. The last character alone, which closes each run of a stream,
    is asked for where the term goes on after the run (``使用Kubernetes``), because there it
    stands between the run and what follows; at the end of the term the run may go on.
    """
    parts = [Part(token) for token in words(term)]
    if not parts:
        return parts
    last = parts[-1].token
    if len(last) == 1 and is_cjk(last):
        if len(parts) > 1 and len(parts[-2].token) == 2 and is_cjk(parts[-2].token):
            parts.pop()
        else:
            prefix = True
    if prefix:
        parts[-1] = Part(parts[-1].token, prefix=True)
    return parts


def is_cjk(token: str) -> bool:
    """Whether a token of a phrase stream is a character or a pair of a CJK run."""
    return not token.isascii() and _cjk().match(token) is not None


def kind_of(token: str) -> Kind:
    """Return what a token of a phrase stream is."""
    if token.isascii() or _word_start().match(token):
        return "word"
    return "cjk" if _cjk().match(token) else "symbol"


# ── with offsets ──────────────────────────────────────────────────────────────────────────────


def spans(text: str) -> list[Span]:
    """Return the tokens of `words`, each with its place in the text and the parts it has.

    Places never divide a letter from its marks nor an emoji from its modifiers: tokens of one
    emoji (its skin tone, the people of a family) have the same place. Pairs of a CJK run overlap.
    """
    alignment = Alignment(text, fold)
    return [_span(text, alignment, found) for found in _found(alignment.transformed)]


class PlacedTokens:
    """The tokens of `words`; the places of those that matter are found when asked for."""

    def __init__(self, text: str) -> None:
        self._alignment = Alignment(text, fold)
        self._found = list(_found(self._alignment.transformed))
        self.tokens = [found[1] for found in self._found]

    def place(self, first: int, last: int, length: int | None = None) -> tuple[int, int]:
        """Return where the tokens from *first* to *last* stand in the text, as `spans` does; of
        the last one only the first *length* characters.
        """
        found = self._found[last]
        end = found.end(1) if length is None else min(found.start(1) + length, found.end(1))
        return self._alignment.start(self._found[first].start(1)), self._alignment.end(end)


def inner_spans(text: str, start: int, end: int) -> list[Span]:
    """Return the parts of the word at this place, as `spans` gives them."""
    return list(_parts(text[start:end], start))


def locate(text: str, positions: Collection[int]) -> list[Span]:
    """Return the spans of the tokens at these positions of `words`, in the order of the text.

    Much cheaper than `spans` for a few tokens.
    """
    if not positions:
        return []
    wanted = frozenset(positions)
    alignment = Alignment(text, fold)
    tokens = islice(_found(alignment.transformed), max(wanted) + 1)
    return [
        _span(text, alignment, found) for position, found in enumerate(tokens) if position in wanted
    ]


def find_folded(text: str, piece: str) -> list[tuple[int, int]]:
    """Return where *piece* stands in the text, folded alike, inside words too; none overlap."""
    wanted = fold(piece)
    if not wanted:
        return []
    found = []
    alignment = Alignment(text, fold)
    place = alignment.transformed.find(wanted)
    while place >= 0:
        after = place + len(wanted)
        found.append((alignment.start(place), alignment.end(after)))
        place = alignment.transformed.find(wanted, after)
    return found


def _found(folded: str) -> Iterator[re.Match[str]]:
    pattern = _ASCII_TOKEN if folded.isascii() else _tokens()
    return pattern.finditer(folded)


def _span(text: str, alignment: Alignment, found: re.Match[str]) -> Span:
    token = found[1]
    start, end = alignment.start(found.start(1)), alignment.end(found.end(1))
    kind = kind_of(token)
    parts = tuple(_parts(text[start:end], start)) if kind == "word" else ()
    return Span(token, start, end, kind, parts)


def _parts(word: str, offset: int) -> Iterator[Span]:
    if word.isascii() and (word.islower() or word[1:].islower()):
        return
    compounds = list(compound_words(plain(word)))
    if not compounds:
        return
    alignment = Alignment(word, plain)
    for places in compounds:
        for start, end in places:
            token = alignment.transformed[start:end].casefold()
            yield Span(token, offset + alignment.start(start), offset + alignment.end(end), "word")


def _extras(cased: str) -> list[str]:
    return [
        cased[start:end].casefold() for places in compound_words(cased) for start, end in places
    ]


# The tables make patterns of some milliseconds' work each: only texts beyond ASCII pay for them.


@cache
def _tokens() -> re.Pattern[str]:
    cjk = f"[{characters.CJK}]"
    word = f"[{characters.WORD_START}][{characters.WORD_PART}]*+"
    flag = f"[{characters.REGIONAL_INDICATOR}]{{1,2}}"
    # A token is seen ahead and then passed, of CJK only its first character: pairs overlap.
    return re.compile(f"(?=({cjk}{{1,2}}|{word}|{flag}|[{characters.SYMBOL}]))(?:{cjk}|\\1)")


@cache
def _cjk() -> re.Pattern[str]:
    return re.compile(f"[{characters.CJK}]")


@cache
def _word_start() -> re.Pattern[str]:
    return re.compile(f"[{characters.WORD_START}]")

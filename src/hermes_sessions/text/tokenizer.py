"""Turn text into tokens: the one analysis behind every index and every query.

The phrase stream of a text is its words and symbols in order, folded. A word is a run of letters,
digits and their marks; everything else separates, including underscores. Scripts without blanks
between words (Han, Kana, Hangul, Bopomofo) become overlapping pairs of characters plus the last
character alone, so that any part of a run can be found: ``数据库`` is 数据, 据库, 库. Emoji and
other non-ASCII symbols are tokens of their own; a flag is one token. The parts of
``parseQuery`` are extras: found individually, outside the stream.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from functools import cache
from itertools import islice
from typing import Final, Literal, NamedTuple

from hermes_sessions.text import characters
from hermes_sessions.text.characters import cluster_pattern
from hermes_sessions.text.normalisation import fold, plain

# Compound words: ``parseQuery`` contains ``parse`` and ``query``.
#
# These work on text before case folding (`normalisation.plain`), for Latin, Greek and Cyrillic.
#
# Longer runs are data, not names; many short pieces in a row are random strings such as base64.
_LONGEST: Final = 64


_RANDOM_PIECES: Final = 4


_RANDOM_LENGTH: Final = 3


_UPPER: Final = "A-Z\u0391-\u03a9\u0400-\u042f"


_LOWER: Final = "a-z\u00df\u03b1-\u03c9\u0430-\u045f"

# Classifies UTF-8 bytes: U is upper case, l is lower case or digit, ? starts a Greek, Cyrillic or
# sharp S letter, a blank is everything else.
_SHAPES: Final = bytes(
    ord(
        "U" if byte in range(0x41, 0x5B)
        else "l" if byte in range(0x30, 0x3A) or byte in range(0x61, 0x7B)
        else "?" if byte in {0xC3, 0xCE, 0xCF, 0xD0, 0xD1}
        else " "
    )
    for byte in range(256)
)  # fmt: skip


def compound_words(text: str) -> Iterator[list[tuple[int, int]]]:
    """Yield, for each compound word of *text*, the spans of its parts.

    A part starts at a capital after a small letter or digit, and at the last capital of several
    before a small letter: ``getHTTP2Response`` is get, HTTP2, Response.
    """
    shape = text.encode("utf-8", "surrogatepass").translate(_SHAPES)
    if b"lU" not in shape and b"UUl" not in shape and b"?" not in shape:
        return
    for word in _compound().finditer(text):
        start, end = word.span()
        # Without lower-case letters it is a constant or a hexadecimal number: A1B2C3.
        if end - start > _LONGEST or word[0].isupper():
            continue
        parts = [part.span() for part in _part().finditer(text, start, end)]
        if len(parts) < 2:
            continue
        if len(parts) > _RANDOM_PIECES and end - start < _RANDOM_LENGTH * len(parts):
            continue
        yield parts


@cache
def _compound() -> re.Pattern[str]:
    letters = f"{_UPPER}{_LOWER}0-9"
    capital_inside = f"[{_UPPER}]*+[{_LOWER}0-9]++[{_UPPER}]"
    capitals_first = f"[{_UPPER}]{{2,}}+[{_LOWER}]"
    return re.compile(f"(?<![{letters}])(?:{capital_inside}|{capitals_first})[{letters}]*+")


@cache
def _part() -> re.Pattern[str]:
    plural = f"[{_UPPER}]{{2,}}+s(?![{_LOWER}0-9])"  # URLs is one part, not UR and Ls
    return re.compile(
        f"{plural}|[{_UPPER}]+(?=[{_UPPER}][{_LOWER}])|[{_UPPER}]*+[{_LOWER}0-9]++|[{_UPPER}]++"
    )


# Maps positions in a folded text back to the original text.


class Alignment:
    """Maps a transformed text back to the original.

    The transformation must treat clusters independently of each other, as those of
    `normalisation` do. Where it does not, offsets become coarser but never wrong.
    """

    def __init__(self, text: str, transform: Callable[[str], str]) -> None:
        self.transformed = transform(text)
        # One entry per stretch: its start in the transformed text and its position in the original.
        # A stretch is even when each of its characters became exactly one character.
        self._positions: list[int] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._is_even: list[bool] = []
        self._is_identity = text.isascii() and len(text) == len(self.transformed)
        if self._is_identity:
            return
        for pattern in (_stretches(), _between_ascii(), _everything()):
            if self._follow(text, transform, pattern):
                break

    def start(self, position: int) -> int:
        """Return the original start of the character at *position* of the transformed text."""
        if self._is_identity:
            return position
        index = bisect_right(self._positions, position) - 1
        offset = position - self._positions[index] if self._is_even[index] else 0
        return self._starts[index] + offset

    def end(self, position: int) -> int:
        """Return the original end of the character before *position* of the transformed text."""
        if self._is_identity:
            return position
        index = bisect_right(self._positions, position - 1) - 1
        if self._is_even[index]:
            return self._starts[index] + position - self._positions[index]
        return self._ends[index]

    def _follow(
        self,
        text: str,
        transform: Callable[[str], str],
        pattern: re.Pattern[str],
    ) -> bool:
        """Align stretch by stretch; return whether the pieces add up to the transformed text."""
        for entries in (self._positions, self._starts, self._ends, self._is_even):
            entries.clear()
        position = 0
        pieces: list[str] = []
        for found in pattern.finditer(text):
            piece = transform(found[0])
            if piece:
                pieces.append(piece)
                is_even = found.lastgroup == "even" and len(piece) == len(found[0])
                self._add(position, found.start(), found.end(), is_even=is_even)
                position += len(piece)
        return "".join(pieces) == self.transformed

    def _add(self, position: int, start: int, end: int, *, is_even: bool) -> None:
        self._positions.append(position)
        self._starts.append(start)
        self._ends.append(end)
        self._is_even.append(is_even)


@cache
def _stretches() -> re.Pattern[str]:
    # Characters that folding changes at most in case, one to one, unless extended by a mark.
    even = "\x00-\x7f\u3001\u3002\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fff\uac00-\ud7a3"
    return re.compile(
        f"(?P<even>[{even}]+(?![{characters.EXTENDER}]))|{cluster_pattern().pattern}", re.DOTALL
    )


@cache
def _between_ascii() -> re.Pattern[str]:
    # No Unicode rule joins an ASCII character to the one before it.
    return re.compile("^[^\x00-\x7f]+|[\x00-\x7f][^\x00-\x7f]*")


@cache
def _everything() -> re.Pattern[str]:
    return re.compile(".+", re.DOTALL)


#: Increase when the same text yields different tokens; indexes are then rebuilt.
SEGMENTER_VERSION: Final = 1

Kind = Literal["word", "cjk", "symbol"]

_ASCII_TOKEN: Final = re.compile("([a-z0-9]+)")
# Maps every byte to its lower-case letter, its digit, or a blank.
_ASCII_FOLDING: Final = bytes(
    ord(character.lower()) if character.isascii() and character.isalnum() else ord(" ")
    for character in map(chr, range(256))
)


class TokenSpan(NamedTuple):
    """A token of the phrase stream and its position in the original text."""

    token: str
    start: int
    end: int
    kind: Kind
    #: The parts of a compound word, as `extras` returns them.
    parts: tuple[TokenSpan, ...] = ()


class QueryToken(NamedTuple):
    """A token that a query requires; with *prefix*, any token that starts with it."""

    token: str
    prefix: bool = False


class Analysis(NamedTuple):
    """The indexed parts of a text."""

    words: list[str]
    extras: list[str]


def words(text: str) -> list[str]:
    """Return the phrase stream of a text."""
    if text.isascii():
        return text.encode().translate(_ASCII_FOLDING).decode().split()
    return _tokens().findall(fold(text))


def extras(text: str) -> list[str]:
    """Return the parts of compound words such as ``parseQuery`` and ``HTTPServer``, folded, in
    order.
    """
    return _extras(plain(text))


def analyse(text: str) -> Analysis:
    """Return the phrase stream and the extras of a text; cheaper than computing each."""
    if text.isascii():
        return Analysis(words(text), _extras(text))
    cased = plain(text)
    return Analysis(_tokens().findall(cased.casefold()), _extras(cased))


def query_parts(term: str, *, prefix: bool = False) -> list[QueryToken]:
    """Return the consecutive tokens of a phrase stream that a query term requires.

    An empty list means that the term has nothing to search for. With *prefix* the last token
    matches everything that starts with it.

    A CJK run is found anywhere inside a longer run: as its pairs of characters, or a single
    character as a prefix of pairs. The last character alone, which closes each run of a stream,
    is required where the term continues after the run (``使用Kubernetes``), because there it
    stands between the run and what follows. At the end of the term the run may continue.
    """
    parts = [QueryToken(token) for token in words(term)]
    if not parts:
        return parts
    last = parts[-1].token
    if len(last) == 1 and is_cjk(last):
        if len(parts) > 1 and len(parts[-2].token) == 2 and is_cjk(parts[-2].token):
            parts.pop()
        else:
            prefix = True
    if prefix:
        parts[-1] = QueryToken(parts[-1].token, prefix=True)
    return parts


def is_cjk(token: str) -> bool:
    """Whether a token of a phrase stream is a character or a pair of a CJK run."""
    return not token.isascii() and _cjk().match(token) is not None


def kind_of(token: str) -> Kind:
    """Return the kind of a token of a phrase stream."""
    if token.isascii() or _word_start().match(token):
        return "word"
    return "cjk" if _cjk().match(token) else "symbol"


# Tokens with offsets


def spans(text: str) -> list[TokenSpan]:
    """Return the tokens of `words`, each with its position in the text and its parts.

    Positions never separate a letter from its marks nor an emoji from its modifiers: the tokens of
    one emoji (its skin tone, the people of a family) share a position. Pairs of a CJK run overlap.
    """
    alignment = Alignment(text, fold)
    return [_span(text, alignment, found) for found in _found(alignment.transformed)]


class PositionedTokens:
    """The tokens of `words`; positions are computed on demand."""

    def __init__(self, text: str) -> None:
        self._alignment = Alignment(text, fold)
        self._found = list(_found(self._alignment.transformed))
        self.tokens = [found[1] for found in self._found]

    def span(self, first: int, last: int, length: int | None = None) -> tuple[int, int]:
        """Return the span of the tokens from *first* to *last* in the text, as `spans` does.

        With *length*, only that many characters of the last token are included.
        """
        found = self._found[last]
        end = found.end(1) if length is None else min(found.start(1) + length, found.end(1))
        return self._alignment.start(self._found[first].start(1)), self._alignment.end(end)


def inner_spans(text: str, start: int, end: int) -> list[TokenSpan]:
    """Return the parts of the word at this position, as `spans` gives them."""
    return list(_parts(text[start:end], start))


def locate(text: str, positions: Collection[int]) -> list[TokenSpan]:
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
    """Return the non-overlapping spans of *piece* in the text, both folded, also inside words."""
    wanted = fold(piece)
    if not wanted:
        return []
    found = []
    alignment = Alignment(text, fold)
    position = alignment.transformed.find(wanted)
    while position >= 0:
        after = position + len(wanted)
        found.append((alignment.start(position), alignment.end(after)))
        position = alignment.transformed.find(wanted, after)
    return found


def _found(folded: str) -> Iterator[re.Match[str]]:
    pattern = _ASCII_TOKEN if folded.isascii() else _tokens()
    return pattern.finditer(folded)


def _span(text: str, alignment: Alignment, found: re.Match[str]) -> TokenSpan:
    token = found[1]
    start, end = alignment.start(found.start(1)), alignment.end(found.end(1))
    kind = kind_of(token)
    parts = tuple(_parts(text[start:end], start)) if kind == "word" else ()
    return TokenSpan(token, start, end, kind, parts)


def _parts(word: str, offset: int) -> Iterator[TokenSpan]:
    if word.isascii() and (word.islower() or word[1:].islower()):
        return
    compounds = list(compound_words(plain(word)))
    if not compounds:
        return
    alignment = Alignment(word, plain)
    for parts in compounds:
        for start, end in parts:
            token = alignment.transformed[start:end].casefold()
            yield TokenSpan(
                token, offset + alignment.start(start), offset + alignment.end(end), "word"
            )


def _extras(cased: str) -> list[str]:
    return [cased[start:end].casefold() for parts in compound_words(cased) for start, end in parts]


# Compiling these tables takes some milliseconds each; only texts beyond ASCII need them.


@cache
def _tokens() -> re.Pattern[str]:
    cjk = f"[{characters.CJK}]"
    word = f"[{characters.WORD_START}][{characters.WORD_PART}]*+"
    flag = f"[{characters.REGIONAL_INDICATOR}]{{1,2}}"
    # The lookahead captures a token; CJK advances by one character only, because pairs overlap.
    return re.compile(f"(?=({cjk}{{1,2}}|{word}|{flag}|[{characters.SYMBOL}]))(?:{cjk}|\\1)")


@cache
def _cjk() -> re.Pattern[str]:
    return re.compile(f"[{characters.CJK}]")


@cache
def _word_start() -> re.Pattern[str]:
    return re.compile(f"[{characters.WORD_START}]")

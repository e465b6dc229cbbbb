"""Writes tokens as words that every database keeps as they are.

An encoded token is 3 to 60 characters of ``a-z``, ``0-9`` and ``_``, and its first letter says
what it is: ``x`` a word, ``q`` CJK, ``z`` a sign; other letters are marks of ours. So none is a
number, a stop word of a server or syntax of a query, and none is split or dropped. An index must
take ``_`` for a letter (FTS5: ``tokenize="ascii tokenchars '_'"``).

ASCII letters and digits of words stand for themselves. Every other character has a code in base
36 from which it can be read back: ``_`` and 3 digits, or ``__`` and 4, in words; 3 digits, or
``_`` and 4, in CJK; 4 digits in signs. A code is never cut, so that a prefix of a token is a
prefix of its encoding. Different tokens are encoded differently unless they are too long: those
are cut, and what an index finds for them has to be checked.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

from hermes_sessions.text.tokenizer import Kind, analyse, kind_of

MAX_LENGTH: Final = 60
#: Stands between texts, and between extras: no phrase reaches across it.
GAP: Final = "g__"
#: Stands at the end of what an index stores for a message that has more tokens than that. Such a
#: message may have a word that the index says it has not.
CUT: Final = "c__"
#: Of a longer phrase stream, so much is indexed from its start and its end.
HEAD_TOKENS: Final = 12_000
TAIL_TOKENS: Final = 4_000
MAX_TOKENS: Final = HEAD_TOKENS + TAIL_TOKENS
# Room for extras even when the stream takes everything; all positions together stay below the
# 16,384 that PostgreSQL counts.
_LEAST_EXTRAS: Final = 150

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_PAIRS: Final = [first + second for first in _DIGITS for second in _DIGITS]
_THREE_DIGITS: Final = 36**3
_LONGEST_CODE: Final = 6
_FIRST_CJK: Final = 0x2E80  # Kana, Han and Hangul of the first plane are within three digits of it

# A longer text is analysed piece by piece, cut where words end, to bound the memory it takes.
_PIECE: Final = 200_000
_BREAK: Final = re.compile(r"[\s,.;。，、！？：；]")
_REMEMBERED: Final = 32_000
_LONGEST_REMEMBERED: Final = 16  # longer ones are mostly hashes, which do not come again


@dataclass(frozen=True, slots=True)
class EncodedText:
    """What an index stores for one message."""

    #: Encoded tokens and marks, one blank between them.
    tokens: str
    #: How many tokens these are, marks not counted.
    count: int
    #: Whether the message had more tokens than are indexed.
    is_cut: bool


def encode(token: str) -> str:
    """Return the encoded form of a token of `segment.words` or `segment.extras`.

    Raises:
        ValueError: the token is empty.
    """
    if 1 < len(token) < MAX_LENGTH and token.isascii():
        return "x" + token
    return encode_prefix(token).ljust(3, "_")


def encode_prefix(prefix: str) -> str:
    """Return what the encoded forms of all tokens that start with *prefix* start with.

    Raises:
        ValueError: the prefix is empty.
    """
    if not prefix:
        raise ValueError("an empty token cannot be encoded")
    if prefix.isascii():
        return "x" + prefix[: MAX_LENGTH - 1]
    kind = kind_of(prefix)
    code_of = _CODES[kind]
    encoded = _MARKS[kind]
    for character in prefix:
        code = code_of(character)
        if len(encoded) + len(code) > MAX_LENGTH:
            break
        encoded += code
    return encoded


def is_cut(token: str) -> bool:
    """Whether longer tokens may be encoded as this one is, so that matches must be checked."""
    return len(encode_prefix(token)) > MAX_LENGTH - _LONGEST_CODE


def document(text_parts: Iterable[str]) -> EncodedText:
    """Return what an index stores for the texts of one message.

    First the phrase streams of all texts, then their extras that are in no stream; of a stream
    that is longer than `MAX_TOKENS` its first `HEAD_TOKENS` and last `TAIL_TOKENS`, and the mark
    `CUT`.
    """
    stream = _Stream()
    extras: dict[str, None] = {}
    for text in text_parts:
        stream.begin_text()
        for piece in _pieces(text):
            analysis = analyse(piece)
            stream.extend(analysis.words)
            if analysis.extras and len(extras) < MAX_TOKENS:
                extras.update(dict.fromkeys(analysis.extras))
    tokens = stream.tokens()
    is_too_long = stream.total > MAX_TOKENS
    if extras:
        others = extras.keys() - tokens
        kept = [extra for extra in extras if extra in others]
        room = max(_LEAST_EXTRAS, (MAX_TOKENS - len(tokens)) // 2)
        is_too_long = is_too_long or len(kept) > room
        for extra in kept[:room]:
            tokens += ("", extra)
    encoded = " ".join(map(_encoded.__getitem__, tokens))
    if is_too_long:
        encoded += f" {CUT}"
    return EncodedText(encoded, len(tokens) - tokens.count(""), is_too_long)


class _Stream:
    """The start and the end of a long list of tokens; an empty token is a gap."""

    def __init__(self) -> None:
        self.total = 0
        self._head: list[str] = []
        self._tail: deque[str] = deque(maxlen=TAIL_TOKENS)
        self._needs_gap = False

    def begin_text(self) -> None:
        self._needs_gap = self.total > 0

    def extend(self, tokens: list[str]) -> None:
        if self._needs_gap and tokens:
            tokens = ["", *tokens]
            self._needs_gap = False
        self.total += len(tokens)
        room = HEAD_TOKENS - len(self._head)
        if room >= len(tokens):
            self._head += tokens
        else:
            self._head += tokens[:room]
            self._tail.extend(islice(tokens, room, None))

    def tokens(self) -> list[str]:
        if self.total > MAX_TOKENS:
            return [*self._head, "", *self._tail]
        return [*self._head, *self._tail] if self._tail else self._head


class _Encoded(dict[str, str]):
    """Encodings that were needed lately; most words of a text were in the one before it."""

    def __missing__(self, token: str) -> str:
        if not token:
            return GAP
        encoded = encode(token)
        if len(token) <= _LONGEST_REMEMBERED:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[token] = encoded
        return encoded


_encoded: Final = _Encoded()


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > _PIECE:
        found = _BREAK.search(text, start + _PIECE)
        if found is None:
            break
        yield text[start : found.end()]
        start = found.end()
    yield text[start:] if start else text


@lru_cache(maxsize=4096)
def _word_code(character: str) -> str:
    if character.isascii():
        return character
    number = ord(character)
    return "_" + _three(number) if number < _THREE_DIGITS else "__" + _four(number)


@lru_cache(maxsize=8192)
def _cjk_code(character: str) -> str:
    number = ord(character)
    if 0 <= number - _FIRST_CJK < _THREE_DIGITS:
        return _three(number - _FIRST_CJK)
    return "_" + _four(number)


def _symbol_code(character: str) -> str:
    return _four(ord(character))


def _three(number: int) -> str:
    return _DIGITS[number // 1296] + _PAIRS[number % 1296]


def _four(number: int) -> str:
    return _PAIRS[number // 1296] + _PAIRS[number % 1296]


_MARKS: Final[dict[Kind, str]] = {"word": "x", "cjk": "q", "symbol": "z"}
_CODES: Final[dict[Kind, Callable[[str], str]]] = {
    "word": _word_code,
    "cjk": _cjk_code,
    "symbol": _symbol_code,
}

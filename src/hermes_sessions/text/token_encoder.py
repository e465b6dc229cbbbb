"""Encode tokens as words that every database stores unchanged.

An encoded token has 3 to 60 characters of ``a-z``, ``0-9`` and ``_``. Its first letter is its kind:
``x`` a word, ``q`` CJK, ``z`` a symbol; other letters are internal markers. So no token is a
number, a server's stop word or query syntax, and none is split or dropped. The index must treat
``_`` as a letter (FTS5: ``tokenize="ascii tokenchars '_'"``).

ASCII letters and digits of words represent themselves. Every other character has a reversible code
in base 36: ``_`` and 3 digits, or ``__`` and 4, in words; 3 digits, or ``_`` and 4, in CJK; 4
digits in symbols. A code is never cut, so a prefix of a token is a prefix of its encoding.
Different tokens have different encodings unless they are too long: those are cut, and index matches
for them must be verified.
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
#: Separates texts, and extras: no phrase crosses it.
GAP: Final = "g__"
#: Ends the entry of a message with more tokens than are indexed. The message may contain words that
#: the index does not have.
CUT: Final = "c__"
#: How much of a longer phrase stream is indexed, from its start and its end.
HEAD_TOKENS: Final = 12_000
TAIL_TOKENS: Final = 4_000
MAX_TOKENS: Final = HEAD_TOKENS + TAIL_TOKENS
# Reserves room for extras even when the stream is full; all positions together stay below
# PostgreSQL's limit of 16,384.
_LEAST_EXTRAS: Final = 150

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_PAIRS: Final = [first + second for first in _DIGITS for second in _DIGITS]
_THREE_DIGITS: Final = 36**3
_LONGEST_CODE: Final = 6
_FIRST_CJK: Final = 0x2E80  # three digits from here cover Kana, Han and Hangul of the first plane

# Longer texts are analysed in pieces, cut at word ends, to bound memory.
_PIECE: Final = 200_000
_BREAK: Final = re.compile(r"[\s,.;。，、！？：；]")
_REMEMBERED: Final = 32_000
_LONGEST_REMEMBERED: Final = 16  # longer tokens are mostly hashes, which do not recur


@dataclass(frozen=True, slots=True)
class EncodedText:
    """The index entry of one message."""

    #: Encoded tokens and markers, separated by single blanks.
    tokens: str
    #: The number of tokens, not counting markers.
    count: int
    #: Whether the message had more tokens than are indexed.
    is_cut: bool


def encode(token: str) -> str:
    """Return the encoded form of a token from `tokenizer.words` or `tokenizer.extras`.

    Raises:
        ValueError: the token is empty.
    """
    if 1 < len(token) < MAX_LENGTH and token.isascii():
        return "x" + token
    return encode_prefix(token).ljust(3, "_")


def encode_prefix(prefix: str) -> str:
    """Return the common prefix of the encoded forms of all tokens that start with *prefix*.

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
    """Whether longer tokens may share this token's encoding, so that matches must be verified."""
    return len(encode_prefix(token)) > MAX_LENGTH - _LONGEST_CODE


def document(text_parts: Iterable[str]) -> EncodedText:
    """Return the index entry for the texts of one message.

    It holds the phrase streams of all texts, then the extras that are in no stream. A stream longer
    than `MAX_TOKENS` is reduced to its first `HEAD_TOKENS` and last `TAIL_TOKENS`, followed by the
    marker `CUT`.
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
    """A cache of recent encodings; most words of a text also occurred in the one before."""

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

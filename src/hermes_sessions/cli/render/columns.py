"""Text measured in terminal columns: Chinese is two columns wide, an accent none.

The table of all widths is slow to load. Text of the commonest scripts is measured without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# One column each: Latin, Greek, Cyrillic, Armenian, typographic punctuation, currency, box drawing.
_NARROW = (
    "\x20-\x7e\xa0-\xac\xae-\u02ff\u0370-\u0482\u048a-\u0590\u2010-\u2027\u2030-\u205e\u2500-\u257f"
)
# Two columns each: kana, CJK ideographs, Hangul syllables, full-width forms, CJK punctuation.
_WIDE = (
    "\u3001-\u3029\u3041-\u3096\u309b-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60"
)

_ONLY_KNOWN = re.compile(f"[{_NARROW}{_WIDE}]*")
_WIDE_CHARACTERS = re.compile(f"[{_WIDE}]")

_JOINER = "\u200d"
_REGIONAL_INDICATORS = ("\U0001f1e6", "\U0001f1ff")
_SKIN_TONES = ("\U0001f3fb", "\U0001f3ff")


def display_width(text: str) -> int:
    """Return how many columns a terminal needs for *text*, which has no control characters."""
    if text.isascii():
        return len(text)
    if _ONLY_KNOWN.fullmatch(text):
        return len(text) + len(_WIDE_CHARACTERS.findall(text))
    return sum(width for _, width in _characters(text))


def cut(text: str, columns: int, ellipsis: str) -> str:
    """Return *text* if it fits, else as much of it as fits before *ellipsis*."""
    if display_width(text) <= columns:
        return text
    room = columns - display_width(ellipsis)
    if room <= 0:
        return ellipsis[: max(columns, 0)]
    kept: list[str] = []
    for character, width in _characters(text):
        room -= width
        if room < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + ellipsis


def pad(text: str, columns: int) -> str:
    """Return *text* followed by blanks up to that many columns."""
    return text + " " * (columns - display_width(text))


def wrap(text: str, columns: int) -> list[str]:
    """Return one line of text as lines of at most that many columns, broken at blanks."""
    if display_width(text) <= columns:
        return [text]
    wrapped: list[str] = []
    line, used = "", 0
    for word in _pieces(text, columns):
        visible = display_width(word.rstrip(" "))
        if used and used + visible > columns:
            wrapped.append(line.rstrip(" "))
            line, used = "", 0
        line += word
        used += display_width(word)
    wrapped.append(line.rstrip(" "))
    return wrapped


def _pieces(text: str, columns: int) -> Iterator[str]:
    """Yield words with the blanks after them; a word longer than a line in several pieces."""
    for word in re.split("(?<= )(?! )", text):
        rest = word
        while display_width(rest.rstrip(" ")) > columns:
            piece = _as_much_as_fits(rest, columns)
            yield piece
            rest = rest[len(piece) :]
        yield rest


def _as_much_as_fits(text: str, columns: int) -> str:
    kept, used = "", 0
    for character, width in _characters(text):
        used += width
        # The first character is taken whatever its width, so that narrow windows make progress.
        if used > columns and kept:
            break
        kept += character
    return kept


def _characters(text: str) -> Iterator[tuple[str, int]]:
    """Yield what a reader sees as one character, with its width."""
    if _ONLY_KNOWN.fullmatch(text):
        for character in text:
            yield character, 2 if _WIDE_CHARACTERS.match(character) else 1
        return
    from wcwidth import wcswidth, wcwidth

    cluster = ""
    for character in text:
        if cluster and (wcwidth(character) == 0 or _continues(cluster, character)):
            cluster += character
            continue
        if cluster:
            yield cluster, max(wcswidth(cluster), 0)
        cluster = character
    if cluster:
        yield cluster, max(wcswidth(cluster), 0)


def _continues(cluster: str, character: str) -> bool:
    if cluster[-1] == _JOINER or _SKIN_TONES[0] <= character <= _SKIN_TONES[1]:
        return True
    first, last = _REGIONAL_INDICATORS
    return first <= character <= last and len(cluster) == 1 and first <= cluster <= last

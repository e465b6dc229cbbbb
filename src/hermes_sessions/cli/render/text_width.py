"""Text measured in terminal columns: Chinese is two columns wide, an accent none.

The table of all widths is slow to load. Text of the commonest scripts is measured without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

#: First and last code point of a range, and the width of its characters.
_KNOWN = (
    (0x20, 0x7E, 1),  # ASCII
    (0xA0, 0xAC, 1),
    (0xAE, 0x2FF, 1),  # Latin
    (0x370, 0x482, 1),  # Greek, Cyrillic
    (0x48A, 0x590, 1),
    (0x2010, 0x2027, 1),  # typographic punctuation
    (0x2030, 0x205E, 1),
    (0x2190, 0x21FF, 1),  # arrows
    (0x2500, 0x257F, 1),  # line drawing
    (0x2580, 0x259F, 1),  # blocks
    (0x25A0, 0x25FC, 1),  # geometric signs
    (0x2605, 0x2606, 1),  # stars
    (0x3001, 0x3029, 2),  # CJK punctuation
    (0x3041, 0x3096, 2),  # kana
    (0x309B, 0x30FF, 2),
    (0x3400, 0x4DBF, 2),  # CJK ideographs
    (0x4E00, 0x9FFF, 2),
    (0xAC00, 0xD7A3, 2),  # Hangul
    (0xFF01, 0xFF60, 2),  # full-width forms
)

_JOINER = "\u200d"
_REGIONAL_INDICATORS = ("\U0001f1e6", "\U0001f1ff")
_SKIN_TONES = ("\U0001f3fb", "\U0001f3ff")


@cache
def known_width(character: str) -> int | None:
    """Return the width of a character of the most common scripts, or None for any other."""
    code = ord(character)
    for first, last, width in _KNOWN:
        if first <= code <= last:
            return width
    return None


def display_width(text: str) -> int:
    """Return the terminal columns of *text*, which must not contain control characters."""
    if text.isascii():
        return len(text)
    return sum(width for _, width in _characters(text))


def cut(text: str, columns: int, ellipsis: str) -> str:
    """Return *text* if it fits, else its beginning followed by *ellipsis*."""
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
    """Pad *text* with blanks to *columns* columns."""
    return text + " " * (columns - display_width(text))


def wrap(text: str, columns: int) -> list[str]:
    """Wrap one line of text at blanks to at most *columns* columns."""
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
    """Yield words with the blanks after them; split words longer than a line."""
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
        # Always take the first character, so that the loop ends even in a very narrow window.
        if used > columns and kept:
            break
        kept += character
    return kept


def _characters(text: str) -> Iterator[tuple[str, int]]:
    """Yield each grapheme cluster (one visible character) with its width."""
    known = [known_width(character) for character in text]
    if None not in known:
        yield from zip(text, known, strict=True)
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

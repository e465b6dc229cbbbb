"""Leads from a folded text back to the original: which characters became this one?"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cache

from hermes_sessions.text import characters
from hermes_sessions.text.clusters import cluster_pattern


class Alignment:
    """A text, the same text transformed, and the way back from one to the other.

    The transformation must treat clusters independently of each other, as those of `normalise`
    do; where it does not, offsets are as coarse as they must be, and never wrong.
    """

    def __init__(self, text: str, transform: Callable[[str], str]) -> None:
        self.transformed = transform(text)
        # One entry for each stretch: where it starts in the transformed text and where it stands
        # in the original. A stretch is even when each of its characters became one character.
        self._places: list[int] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._is_even: list[bool] = []
        self._is_identity = text.isascii() and len(text) == len(self.transformed)
        if self._is_identity:
            return
        for pattern in (_stretches(), _between_ascii(), _everything()):
            if self._follow(text, transform, pattern):
                break

    def start(self, place: int) -> int:
        """Return where the character at *place* of the transformed text starts originally."""
        if self._is_identity:
            return place
        index = bisect_right(self._places, place) - 1
        offset = place - self._places[index] if self._is_even[index] else 0
        return self._starts[index] + offset

    def end(self, place: int) -> int:
        """Return where the character before *place* of the transformed text ends originally."""
        if self._is_identity:
            return place
        index = bisect_right(self._places, place - 1) - 1
        if self._is_even[index]:
            return self._starts[index] + place - self._places[index]
        return self._ends[index]

    def _follow(
        self,
        text: str,
        transform: Callable[[str], str],
        pattern: re.Pattern[str],
    ) -> bool:
        """Align stretch by stretch; return whether the pieces make up the transformed text."""
        for entries in (self._places, self._starts, self._ends, self._is_even):
            entries.clear()
        place = 0
        pieces: list[str] = []
        for found in pattern.finditer(text):
            piece = transform(found[0])
            if piece:
                pieces.append(piece)
                is_even = found.lastgroup == "even" and len(piece) == len(found[0])
                self._add(place, found.start(), found.end(), is_even=is_even)
                place += len(piece)
        return "".join(pieces) == self.transformed

    def _add(self, place: int, start: int, end: int, *, is_even: bool) -> None:
        self._places.append(place)
        self._starts.append(start)
        self._ends.append(end)
        self._is_even.append(is_even)


@cache
def _stretches() -> re.Pattern[str]:
    # Characters that folding changes in case at most, one to one, unless something extends them.
    even = "\x00-\x7f\u3001\u3002\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fff\uac00-\ud7a3"
    return re.compile(
        f"(?P<even>[{even}]+(?![{characters.EXTENDER}]))|{cluster_pattern().pattern}", re.DOTALL
    )


@cache
def _between_ascii() -> re.Pattern[str]:
    # No rule of Unicode joins an ASCII character to what stands before it.
    return re.compile("^[^\x00-\x7f]+|[\x00-\x7f][^\x00-\x7f]*")


@cache
def _everything() -> re.Pattern[str]:
    return re.compile(".+", re.DOTALL)

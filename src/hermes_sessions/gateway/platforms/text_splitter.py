"""Split long replies into parts that fit the limits of a messenger.

The same text and limit always give the same parts: the outbox remembers how many were sent.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from hermes_sessions.errors import InvalidInput
from hermes_sessions.text.characters import cluster_start

if TYPE_CHECKING:
    from hermes_sessions.gateway.platforms.port import Limits

LengthUnit = Literal["characters", "utf16", "bytes"]

#: Leaves room for some characters in every unit, besides fences.
SMALLEST_LIMIT: Final = 16

_FENCE_LINE: Final = re.compile(r"^([ \t]*)(`{3,}|~{3,})[ \t]*([^\n]*)$", re.MULTILINE)
_SENTENCE_END: Final = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？]+[」』”’）]*")
_WHITE: Final = re.compile(r"\s*\n|\s+")
_LANGUAGE: Final = re.compile(r"[^\s`]{1,32}")


class TextPart(NamedTuple):
    """A part, and which characters of the whole it holds."""

    text: str
    start: int
    end: int


class Fence(NamedTuple):
    """A block of code between fences."""

    #: Where the opening line begins, and the line after it.
    start: int
    inside: int
    #: Where the closing line begins and ends; both the end of the text when there is none.
    closing: int
    end: int
    #: What opens the block again in another part, and what closes it.
    opener: str
    closer: str


def split(text: str, limits: Limits) -> list[str]:
    """Return *text* in parts that fit *limits*; see `cut`."""
    return [part.text for part in cut(text, limits.text, limits.length_unit)]


def cut(text: str, limit: int, unit: LengthUnit = "characters") -> Iterator[TextPart]:
    """Yield *text* in parts of at most *limit*, none of them blank.

    Cuts are made between paragraphs if possible, else lines, sentences, words, visible characters;
    white space at a cut is dropped. A block of code that is cut is closed and opened again with its
    language, unless its fences would take half a part: then they are treated as text.

    Raises:
        InvalidInput: the limit is too small for any text.
    """
    if limit < SMALLEST_LIMIT:
        raise InvalidInput(f"A part must be allowed at least {SMALLEST_LIMIT} {unit}, not {limit}.")
    return _Cutter(text, limit, unit).parts()


def measure(text: str, unit: LengthUnit) -> int:
    """Return the length of *text* in *unit*."""
    match unit:
        case "characters":
            return len(text)
        case "utf16":
            return len(text.encode("utf-16-le", "surrogatepass")) // 2
        case "bytes":
            return len(text.encode("utf-8", "surrogatepass"))


def find_fences(text: str) -> list[Fence]:
    """Return the fenced code blocks in order; one that is never closed extends to the end."""
    fences: list[Fence] = []
    opening: re.Match[str] | None = None
    for line in _FENCE_LINE.finditer(text):
        _, marks, info = line.groups()
        if opening is None:
            if marks[0] != "`" or "`" not in info:
                opening = line
        elif marks.startswith(opening[2]) and not info.strip():
            fences.append(_fence(text, opening, line.start(), line.end()))
            opening = None
    if opening is not None:
        fences.append(_fence(text, opening, len(text), len(text)))
    return fences


def _fence(text: str, opening: re.Match[str], closing: int, end: int) -> Fence:
    indent, marks, info = opening.groups()
    language = _LANGUAGE.match(info)
    return Fence(
        start=opening.start(),
        inside=min(opening.end() + 1, len(text)),
        closing=closing,
        end=end,
        opener=f"{indent}{marks}{language[0] if language else ''}\n",
        closer=f"\n{indent}{marks}",
    )


@dataclass(slots=True)
class _Cutter:
    text: str
    limit: int
    unit: LengthUnit

    def parts(self) -> Iterator[TextPart]:
        fences = [fence for fence in find_fences(self.text) if self._leaves_room(fence)]
        number = 0
        start, end = 0, len(self.text)
        while start < end:
            while number < len(fences) and fences[number].end <= start:
                number += 1
            around = fences[number] if number < len(fences) else None
            opener = around.opener if around and around.inside <= start else ""
            part, start = self._next(start, opener, fences[number : number + self.limit])
            if self.text[part.start : part.end].strip():
                yield part

    def _leaves_room(self, fence: Fence) -> bool:
        opening = max(fence.inside - fence.start, measure(fence.opener, self.unit))
        return opening + measure(fence.closer, self.unit) <= self.limit // 2

    def _next(self, start: int, opener: str, fences: Sequence[Fence]) -> tuple[TextPart, int]:
        """Return the part that begins at *start*, and where the next one does."""
        room = self.limit - measure(opener, self.unit)
        furthest = self._reach(start, room)
        if furthest == len(self.text):
            return TextPart(opener + self.text[start:], start, furthest), furthest
        around = next((each for each in fences if each.start < furthest < each.end), None)
        if around is None:
            return self._cut_prose(start, self._best_cut(start, furthest, fences), opener)
        if self._belongs_to_the_next(around, start, furthest, room):
            return self._cut_prose(start, around.start, opener)
        return self._cut_code(start, room, opener, around)

    def _belongs_to_the_next(self, fence: Fence, start: int, furthest: int, room: int) -> bool:
        """Tell whether a block is better begun in the next part than in what is left of this one.

        It is when nothing of its code would fit, or when little is lost and it then stays whole.
        """
        if not self.text[start : fence.start].strip():
            return False
        if self._reach(start, room - measure(fence.closer, self.unit)) <= fence.inside:
            return True
        is_half_full = fence.start - start >= (furthest - start) // 2
        return is_half_full and self._reach(fence.start, self.limit) >= fence.end

    def _cut_prose(self, start: int, cut_at: int, opener: str) -> tuple[TextPart, int]:
        white = _WHITE.match(self.text, cut_at)
        kept = self.text[start:cut_at].rstrip()
        part = TextPart(opener + kept, start, start + len(kept))
        return part, white.end() if white else cut_at

    def _best_cut(self, start: int, furthest: int, fences: Sequence[Fence]) -> int:
        """Return where to cut prose: the best point in the second half, else anywhere."""
        window = self.text[start : furthest + 1]
        for fence in fences:  # whole ones, in which no cut is needed
            if fence.start >= furthest:
                break
            first, last = max(fence.start - start, 0), fence.end - start
            window = window[:first] + "x" * (last - first) + window[last:]
        half = (furthest - start) // 2
        kinds: tuple[Callable[[str], int], ...] = (
            lambda text: text.rfind("\n\n"),
            lambda text: text.rfind("\n"),
            _last_sentence,
            _last_blank,
        )
        for least in (half, 0):
            for kind in kinds:
                cut_at = kind(window)
                if cut_at > least and window[:cut_at].strip():
                    return start + cut_at
        return _whole(self.text, furthest, after=start)

    def _cut_code(self, start: int, room: int, opener: str, fence: Fence) -> tuple[TextPart, int]:
        """Cut inside a block: between lines if possible, and nothing of the code is dropped."""
        furthest = self._reach(start, room - measure(fence.closer, self.unit))
        begin = max(start, fence.inside)
        # Otherwise the next part would contain nothing but fences.
        cut_at = min(furthest, fence.closing - 1)
        if self.text[cut_at] != "\n":
            line = self.text.rfind("\n", begin + 1, cut_at)
            cut_at = line if line > begin else _whole(self.text, cut_at, after=begin)
        part = TextPart(opener + self.text[start:cut_at] + fence.closer, start, cut_at)
        following = cut_at + (self.text[cut_at] == "\n")
        return part, fence.end if following >= fence.closing else following

    def _reach(self, start: int, room: int) -> int:
        """Return the end of the longest part that starts at *start*."""
        window = self.text[start : start + max(room, 0)]
        if measure(window, self.unit) <= room:
            return start + len(window)
        # The longest prefix that fits: the first that does not, less one.
        too_long = bisect_right(
            range(len(window) + 1), room, key=lambda length: measure(window[:length], self.unit)
        )
        return start + too_long - 1


def _whole(text: str, at: int, *, after: int) -> int:
    """Return the last position in (*after*, *at*] that does not split a visible character.

    If there is none, a character is longer than a part: then only surrogate pairs stay together.
    """
    cut_at = cluster_start(text, at)
    if cut_at <= after:
        cut_at = at
    # Text from faulty JSON contains lone surrogates.
    is_pair = "\ud800" <= text[cut_at - 1] <= "\udbff" and "\udc00" <= text[cut_at] <= "\udfff"
    return cut_at - 1 if is_pair and cut_at - 1 > after else cut_at


def _last_sentence(text: str) -> int:
    cut_at = -1
    for end in _SENTENCE_END.finditer(text, 0, len(text) - 1):
        if cluster_start(text, end.end()) == end.end():
            cut_at = end.end()
    return cut_at


def _last_blank(text: str) -> int:
    return max((text.rfind(blank) for blank in (" ", "\t", "\u3000")), default=-1)

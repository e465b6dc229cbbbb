"""Build snippets that show matches in the original text, identical on every database.

Matches are (start, end) offsets into the text, one per phrase. Touching or overlapping matches
share one pair of markers. Text is never cut inside a cluster: a letter keeps its marks and an emoji
its modifiers.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from hermes_sessions.text.characters import cluster_end, cluster_start

#: Characters of text in a snippet, about 40 tokens, not counting markers and ellipses.
WIDTH: Final = 160
OPENING: Final = ">>>"
CLOSING: Final = "<<<"
ELLIPSIS: Final = "..."

Mark = tuple[int, int]


class Snippet(NamedTuple):
    """A part of a text, and where the matches are in it."""

    #: Without markers; ellipses included.
    text: str
    #: (start, end) offsets into ``text``, in order, never touching.
    spans: list[Mark]

    @property
    def marked(self) -> str:
        """The text with each match between ``>>>`` and ``<<<``."""
        return _insert_markers(self.text, self.spans)


_BLANKS: Final = re.compile(r"\s+")
# At most this many matches are considered, and this many widths around the best position, because
# white space is collapsed before characters are counted.
_MOST_MARKS: Final = 1_000
_CONTEXT_WIDTHS: Final = 4
# A snippet starts and ends on a word boundary if one is within this many characters.
_WORD_REACH: Final = 20


def make_snippet(text: str, marks: Iterable[Mark], *, width: int = WIDTH) -> str:
    """Return the snippet that `cut_snippet` cuts, with markers around the matches."""
    return cut_snippet(text, marks, width=width).marked


def cut_snippet(text: str, marks: Iterable[Mark], *, width: int = WIDTH) -> Snippet:
    """Return about *width* characters of the text around the densest group of matches.

    Distinct matches count more than repeated ones, and earlier positions win ties. White space is
    collapsed to single blanks, and an ellipsis marks omitted text. Without matches the snippet is
    the start of the text. Apart from sorting the matches, long texts cost no more than short ones.
    """
    joined = _join(text, marks)
    first, last = densest(text, joined, width)
    context = _CONTEXT_WIDTHS * width
    start = cluster_start(text, max(0, first - context))
    end = cluster_start(text, min(len(text), min(last, first + width) + context))
    nearby = [(max(a, start), min(b, end)) for a, b in joined if a < end and b > start]
    shown, shown_marks = _fold_blanks(text, start, end, nearby)
    focus = [mark for mark, (a, _) in zip(shown_marks, nearby, strict=True) if first <= a < last]
    left, right = _window(shown, focus, width)
    is_cut_before = start > 0 or shown[:left].strip() != ""
    is_cut_after = end < len(text) or shown[right:].strip() != ""
    visible = [(max(a, left) - left, min(b, right) - left) for a, b in shown_marks]
    body, spans = _strip(shown[left:right], [(a, b) for a, b in visible if a < b])
    before = ELLIPSIS if is_cut_before else ""
    moved = [(a + len(before), b + len(before)) for a, b in spans]
    return Snippet(before + body + (ELLIPSIS if is_cut_after else ""), moved)


def highlight(text: str, marks: Iterable[Mark]) -> str:
    """Return the whole text with its matches marked and white space unchanged."""
    return _insert_markers(text, _join(text, marks))


def _join(text: str, marks: Iterable[Mark]) -> list[Mark]:
    """Return the marks in order, merged where they touch, on cluster boundaries."""
    joined: list[Mark] = []
    for start, end in sorted(marks):
        if not 0 <= start < end <= len(text):
            continue
        whole_start, whole_end = cluster_start(text, start), cluster_end(text, end)
        if joined and whole_start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(whole_end, joined[-1][1]))
        else:
            joined.append((whole_start, whole_end))
    return joined


def densest(text: str, marks: Sequence[Mark], width: int) -> Mark:
    """Return the span of the best group of matches within *width*; (0, 0) without matches."""
    best, best_score = (0, 0), (0, 0)
    group: deque[tuple[Mark, str]] = deque()
    kinds: Counter[str] = Counter()
    for mark in islice(marks, _MOST_MARKS):
        kind = text[mark[0] : min(mark[1], mark[0] + width)].casefold()
        group.append((mark, kind))
        kinds[kind] += 1
        while mark[1] - group[0][0][0] > width and len(group) > 1:
            dropped = group.popleft()[1]
            kinds[dropped] -= 1
            if not kinds[dropped]:
                del kinds[dropped]
        score = (len(kinds), len(group))
        if score > best_score:
            best, best_score = (group[0][0][0], mark[1]), score
    return best


def _fold_blanks(text: str, start: int, end: int, marks: Sequence[Mark]) -> tuple[str, list[Mark]]:
    """Return a part of the text with white space collapsed, and its marks moved accordingly."""
    folded = ""
    moved: list[Mark] = []
    done = start
    for mark_start, mark_end in marks:
        folded = _append_folded(folded, text[done:mark_start])
        position = len(folded)
        folded = _append_folded(folded, text[mark_start:mark_end])
        moved.append((position, len(folded)))
        done = mark_end
    return _append_folded(folded, text[done:end]), moved


def _append_folded(folded: str, piece: str) -> str:
    piece = _BLANKS.sub(" ", piece)
    return folded + (piece[1:] if folded.endswith(" ") and piece.startswith(" ") else piece)


def _window(shown: str, focus: Sequence[Mark], width: int) -> Mark:
    """Return the span to show: *width* characters of whole words, centred on the focus."""
    first, last = (focus[0][0], focus[-1][1]) if focus else (0, 0)
    left = max(0, first - max(0, width - (last - first)) // 2)
    right = min(len(shown), left + width)
    if right == len(shown):
        left = max(0, min(left, right - width))
    if left > 0 and shown[left - 1] != " ":
        blank = shown.find(" ", left, min(first, left + _WORD_REACH))
        left = blank + 1 if blank >= 0 else cluster_start(shown, left)
    if right < len(shown) and shown[right] != " ":
        blank = shown.rfind(" ", max(last, right - _WORD_REACH), right)
        right = blank if blank >= 0 else max(cluster_start(shown, right), left)
    return left, right


def _strip(text: str, marks: Sequence[Mark]) -> tuple[str, list[Mark]]:
    """Return the text without white space at its ends, unless that is part of a match."""
    first, last = (marks[0][0], marks[-1][1]) if marks else (len(text), 0)
    left = min(len(text) - len(text.lstrip()), first)
    right = max(len(text.rstrip()), last, left)
    return text[left:right], [(a - left, b - left) for a, b in marks]


def _insert_markers(text: str, marks: Sequence[Mark]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in marks:
        pieces += (text[done:start], OPENING, text[start:end], CLOSING)
        done = end
    pieces.append(text[done:])
    return "".join(pieces)

"""Convert Markdown to Signal's format: plain text with ranges that are bold, italic, ….

Ranges are counted in UTF-16 units. The text is never longer than the Markdown, so that a part that
fits the limit still does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hermes_sessions.gateway.platforms.markdown import (
    DEEPEST,
    HEADING,
    blocks,
    inline_pattern,
    segments,
    whole_characters,
)
from hermes_sessions.gateway.platforms.text_splitter import Fence, measure

_BULLET: Final = re.compile(r"([ \t]*)[*+]([ \t]+)(.*)")

_INLINE: Final = inline_pattern()
_STYLES: Final = (
    ("bolded", "BOLD"),
    ("struck", "STRIKETHROUGH"),
    ("starred", "ITALIC"),
    ("lined", "ITALIC"),
)


class Formatted(NamedTuple):
    """The text, and its styles as signal-cli expects them, ``start:length:STYLE``."""

    text: str
    styles: tuple[str, ...] = ()


def to_signal(markdown: str) -> Formatted:
    """Return *markdown* in Signal's format; never empty unless the Markdown is blank."""
    text = readable(markdown)
    page = _Page()
    for each in segments(text):
        if isinstance(each, Fence):
            page.styled(text[each.inside : each.closing].removesuffix("\n"), "MONOSPACE")
        else:
            page.prose(each)
    return page.finished() or Formatted(text)


def readable(text: str) -> str:
    """Return *text* without lone surrogates and NUL, which cannot be sent."""
    whole = whole_characters(text)
    return whole.replace("\0", " ")


class _Range(NamedTuple):
    start: int
    length: int
    style: str


@dataclass(slots=True)
class _Page:
    """The text and ranges so far."""

    pieces: list[str] = field(default_factory=list)
    ranges: list[_Range] = field(default_factory=list)
    #: In UTF-16 units.
    length: int = 0

    def write(self, text: str) -> None:
        self.pieces.append(text)
        self.length += measure(text, "utf16")

    def styled(self, text: str, style: str) -> None:
        start = self.length
        self.write(text)
        self.mark(start, style)

    def mark(self, start: int, style: str) -> None:
        if self.length > start:
            self.ranges.append(_Range(start, self.length - start, style))

    def finished(self) -> Formatted | None:
        """Return the stripped text with its ranges; None if nothing is left."""
        text = "".join(self.pieces)
        shown = text.strip()
        if not shown:
            return None
        before = measure(text[: len(text) - len(text.lstrip())], "utf16")
        length = measure(shown, "utf16")
        styles = []
        for each in sorted(self.ranges):
            start = max(each.start - before, 0)
            end = min(each.start + each.length - before, length)
            if end > start:
                styles.append(f"{start}:{end - start}:{each.style}")
        return Formatted(shown, tuple(styles))

    def prose(self, text: str) -> None:
        for number, block in enumerate(blocks(text)):
            if number:
                self.write("\n")
            if len(block) > 1:
                self.styled("\n".join(block), "MONOSPACE")
            else:
                self.line(block[0])

    def line(self, line: str) -> None:
        if heading := HEADING.fullmatch(line):
            start = self.length
            self.inline(heading[1], 1)
            self.mark(start, "BOLD")
        elif bullet := _BULLET.fullmatch(line):
            self.write(f"{bullet[1]}-{bullet[2]}")
            self.inline(bullet[3], 0)
        else:
            self.inline(line, 0)

    def inline(self, text: str, depth: int) -> None:
        if depth > DEEPEST:
            self.write(text)
            return
        at = 0
        for found in _INLINE.finditer(text):
            self.write(text[at : found.start()])
            self.marked(found, depth + 1)
            at = found.end()
        self.write(text[at:])

    def marked(self, found: re.Match[str], depth: int) -> None:
        if found["escaped"]:
            self.write(found["escaped"][1:])
        elif found["code"]:
            self.styled(found["code"], "MONOSPACE")
        elif found["label"]:
            self.link(found)
        else:
            start = self.length
            name, style = next(each for each in _STYLES if found[each[0]])
            self.inline(found[name], depth)
            self.mark(start, style)

    def link(self, found: re.Match[str]) -> None:
        """Write a link as text: Signal makes links only of URLs."""
        label, address = found["label"], found["address"]
        self.write(address if label == address else f"{label} ({address})")

"""Markup by signs, as Slack and WhatsApp have it: ``*bold*``, ``_italic_``, ``~strike~`` and code
between ticks.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from functools import partial
from typing import ClassVar, Final

from hermes_sessions.gateway.platforms.markdown import (
    BULLET,
    DEEPEST,
    HEADING,
    QUOTE,
    RULE,
    blocks,
    inline_pattern,
    readable,
    rewrite,
    segments,
)
from hermes_sessions.gateway.platforms.text_splitter import Fence

_TICKS: Final = "```"
_SIGNS: Final = (("bolded", "*"), ("struck", "~"), ("starred", "_"), ("lined", "_"))


class SignMarkup(ABC):
    """Writes Markdown with signs; a messenger's own class says what it does otherwise."""

    bullet: ClassVar[str]
    pattern: ClassVar[re.Pattern[str]] = inline_pattern()

    def show(self, markdown: str) -> str:
        """Return *markdown* in this markup; as it stands where nothing would be left."""
        text = readable(markdown)
        shown = "".join(
            self._code(text, each) if isinstance(each, Fence) else self._prose(each)
            for each in segments(text)
        ).strip("\n")
        return shown if shown.strip() else self.escape(text)

    @abstractmethod
    def escape(self, text: str) -> str:
        """Return *text* so that it is shown as it stands, as far as the messenger has a way."""

    @abstractmethod
    def quotation(self, found: re.Match[str]) -> str:
        """Return a quoted line, found by `QUOTE`."""

    @abstractmethod
    def link(self, found: re.Match[str], depth: int) -> str:
        """Return a link, found by `pattern` inside so many marks."""

    def other(self, found: re.Match[str]) -> str:
        """Return what an alternative of the messenger's own found."""
        return found[0]

    def inline(self, text: str, depth: int = 0) -> str:
        """Return what stands in a line, inside so many marks."""
        if depth > DEEPEST:
            return self.escape(text)
        marked = partial(self._marked, depth=depth + 1)
        return rewrite(self.pattern, text, found=marked, rest=self.escape)

    def _code(self, text: str, fence: Fence) -> str:
        """Return a block of code without its language, which would be shown as code."""
        code = text[fence.inside : fence.closing].removesuffix("\n")
        if not code.strip():
            return self.escape(text[fence.start : fence.end])
        if _TICKS in code:
            return self.escape(code)  # they would end the block
        if fence.closing == fence.end:
            # It is never closed, and may be as long as the limit.
            return f"{_TICKS}\n{self.escape(code)}"
        return f"{_TICKS}\n{self.escape(code)}\n{_TICKS}"

    def _prose(self, text: str) -> str:
        return "\n".join(
            self._table(*block) if len(block) > 1 else self._line(block[0])
            for block in blocks(text)
        )

    def _table(self, head: str, rule: str, *rows: str) -> str:
        """Return a table in a fixed width, if the rule under its head has room for that."""
        table = "\n".join((head, *rows))
        if len(rule) + 1 < 2 * len(_TICKS) or "`" in table:
            return self.escape("\n".join((head, rule, *rows)))
        return f"{_TICKS}{self.escape(table)}{_TICKS}"

    def _line(self, line: str) -> str:
        if heading := HEADING.fullmatch(line):
            return _bold(self.inline(heading[1], 1))
        if RULE.fullmatch(line):
            return "———"
        if bullet := BULLET.fullmatch(line):
            return f"{bullet[1]}{self.bullet}{bullet[2]}{self.inline(bullet[3])}"
        if quote := QUOTE.fullmatch(line):
            return self.quotation(quote)
        return self.inline(line)

    def _marked(self, found: re.Match[str], depth: int) -> str:
        for name, sign in _SIGNS:
            if found[name]:
                return f"{sign}{self.inline(found[name], depth)}{sign}"
        if found["escaped"]:
            return self.escape(found["escaped"][1:])
        if code := found["code"]:
            return self.escape(code.strip()) if "`" in code else f"`{self.escape(code)}`"
        return self.link(found, depth) if found["label"] else self.other(found)


def _bold(title: str) -> str:
    """Return a title in bold; signs of the same kind in it would end that."""
    if not title.strip() or "*" in title:
        return title
    return f"*{title}*"

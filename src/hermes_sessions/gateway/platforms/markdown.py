"""Parse the Markdown that models write, as far as it is the same for every messenger.

Each platform renders it in its own ``formatting`` module.
"""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar, Final

from hermes_sessions.gateway.platforms.text_splitter import Fence, find_fences

#: Emphasis nested deeper than this is left as it is written.
DEEPEST: Final = 8

HEADING: Final = re.compile(r"#{1,6}[ \t]+(.*?)[ \t]*#*")
BULLET: Final = re.compile(r"([ \t]*)[-*+]([ \t]+)(.*)")
RULE: Final = re.compile(r"[ \t]*(?:-[ \t]*){3,}|[ \t]*(?:\*[ \t]*){3,}|[ \t]*(?:_[ \t]*){3,}")
QUOTE: Final = re.compile(r"[ \t]{0,3}>[ \t]?(.*)")
#: The line under the head of a table.
_TABLE_RULE: Final = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)+\|?[ \t]*")
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9_+#.-]{1,32}")


def segments(text: str) -> Iterator[str | Fence]:
    """Yield prose, which may be empty, and blocks of code in turn."""
    at = 0
    for fence in find_fences(text):
        yield text[at : fence.start]
        yield fence
        at = fence.end
    yield text[at:]


def language_of(text: str, fence: Fence) -> str | None:
    """Return the language of a code block, if it is a valid name."""
    named = text[fence.start : fence.inside].strip().lstrip("`~").strip()
    language = _LANGUAGE.match(named)
    return language[0] if language else None


def blocks(prose: str) -> Iterator[list[str]]:
    """Yield the lines one by one, those of a table together: its head, its rule, its rows."""
    lines = prose.split("\n")
    at = 0
    while at < len(lines):
        until = max(table_end(lines, at), at + 1)
        yield lines[at:until]
        at = until


def table_end(lines: Sequence[str], at: int) -> int:
    """Return the end of the table that starts at a line; *at* if there is none."""
    rule = at + 1
    if "|" not in lines[at] or rule == len(lines) or not _TABLE_RULE.fullmatch(lines[rule]):
        return at
    return run_end(lines, at, lambda line: "|" in line)


def run_end(lines: Sequence[str], at: int, belongs: Callable[[str], object]) -> int:
    """Return the end of the group of lines that starts at *at*."""
    while at < len(lines) and belongs(lines[at]):
        at += 1
    return at


def inline_pattern(*more: str) -> re.Pattern[str]:
    """Return the pattern of inline markup, with the groups ``escaped``, ``code``, ``label`` and
    ``address``, ``bolded``, ``struck``, ``starred``, ``lined``. *more* are alternatives of one
    messenger, which match after code and before everything else.
    """
    alternatives = (
        r"(?P<escaped>\\[!-/:-@\[-`{-~])",
        r"(?P<ticks>`+)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)",
        *more,
        (
            r"!?\[(?P<label>[^\[\]\n]+)\]\((?P<address>[^\s()<>]+(?:\([^\s()<>]*\))?)"
            r"(?:[ \t]+\"[^\"\n]*\")?\)"
        ),
        r"(?P<bold>\*\*|__)(?=\S)(?P<bolded>.+?)(?<=\S)(?P=bold)",
        r"~~(?=\S)(?P<struck>.+?)(?<=\S)~~",
        r"(?<!\w)\*(?=[^\s*])(?P<starred>[^*]*?[^\s*])\*(?!\*)",
        r"(?<!\w)_(?=[^\s_])(?P<lined>[^_]*?[^\s_])_(?!\w)",
    )
    return re.compile("|".join(alternatives), re.DOTALL)


def rewrite(
    pattern: re.Pattern[str],
    text: str,
    *,
    found: Callable[[re.Match[str]], str],
    rest: Callable[[str], str],
) -> str:
    """Return *text* with matches of *pattern* replaced by *found*, and the rest by *rest*."""
    written: list[str] = []
    at = 0
    for match in pattern.finditer(text):
        written += (rest(text[at : match.start()]), found(match))
        at = match.end()
    written.append(rest(text[at:]))
    return "".join(written)


def whole_characters(text: str) -> str:
    """Return *text* with lone surrogates replaced, which cannot be encoded."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def readable(text: str) -> str:
    """Return *text* without lone surrogates and NUL, which cannot be sent."""
    return whole_characters(text).replace("\0", "\ufffd")


# Inline markup as HTML: Matrix and Telegram differ in the tags and URLs they allow.
#
# All text is escaped, and tags are always nested, so that the result is valid whatever the model
# wrote.


_PATTERN: Final = inline_pattern()


def escape(text: str) -> str:
    """Return *text* escaped for HTML."""
    return html.escape(text, quote=False)


class InlineHtml:
    """Renders inline markup as HTML."""

    def __init__(self, *, tags: Mapping[str, str], addresses: re.Pattern[str]) -> None:
        """*tags* are by the groups of `inline_pattern` for emphasis; links whose URL does not
        start with one of *addresses* are left as they are written.
        """
        self._tags = tags
        self._addresses = addresses

    def show(self, text: str, depth: int = 0) -> str:
        """Return *text* as HTML, at this depth of nesting."""
        if depth > DEEPEST:
            return escape(text)
        return rewrite(_PATTERN, text, found=partial(self._marked, depth=depth + 1), rest=escape)

    def _marked(self, found: re.Match[str], depth: int) -> str:
        if found["escaped"]:
            return escape(found["escaped"][1:])
        if found["code"]:
            return f"<code>{escape(found['code'])}</code>"
        if found["label"]:
            return self._link(found, depth)
        tag, inside = next((tag, found[name]) for name, tag in self._tags.items() if found[name])
        return f"<{tag}>{self.show(inside, depth)}</{tag}>"

    def _link(self, found: re.Match[str], depth: int) -> str:
        if not self._addresses.match(found["address"]):
            return escape(found[0])
        address = html.escape(found["address"])
        return f'<a href="{address}">{self.show(found["label"], depth)}</a>'


# The markup of Slack and WhatsApp: ``*bold*``, ``_italic_``, ``~strike~`` and code between
# backticks.


_TICKS: Final = "```"


_SIGNS: Final = (("bolded", "*"), ("struck", "~"), ("starred", "_"), ("lined", "_"))


class SymbolMarkup(ABC):
    """Renders Markdown in this markup; a subclass overrides what its messenger does differently."""

    bullet: ClassVar[str]
    pattern: ClassVar[re.Pattern[str]] = inline_pattern()

    def show(self, markdown: str) -> str:
        """Return *markdown* in this markup; unchanged if the result would be empty."""
        text = readable(markdown)
        shown = "".join(
            self._code(text, each) if isinstance(each, Fence) else self._prose(each)
            for each in segments(text)
        ).strip("\n")
        return shown if shown.strip() else self.escape(text)

    @abstractmethod
    def escape(self, text: str) -> str:
        """Return *text* escaped, as far as the messenger supports it."""

    @abstractmethod
    def quotation(self, found: re.Match[str]) -> str:
        """Return a quoted line, found by `QUOTE`."""

    @abstractmethod
    def link(self, found: re.Match[str], depth: int) -> str:
        """Return a link, found by `pattern` at this depth of nesting."""

    def other(self, found: re.Match[str]) -> str:
        """Return the match of an alternative of this messenger."""
        return found[0]

    def inline(self, text: str, depth: int = 0) -> str:
        """Return inline markup, at this depth of nesting."""
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
            # It is not closed, and may be as long as the limit.
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
    """Return a heading in bold, without bold inside, which would end it."""
    if not title.strip() or "*" in title:
        return title
    return f"*{title}*"

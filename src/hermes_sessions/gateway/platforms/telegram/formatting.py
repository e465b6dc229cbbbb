"""Render Markdown as Telegram's HTML.

Telegram refuses a message with invalid markup. So all text is escaped, and tags are always nested.
The visible text is never longer than the Markdown, so that a part that fits the limit still does.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Final

from hermes_sessions.gateway.platforms.markdown import (
    BULLET,
    HEADING,
    QUOTE,
    RULE,
    InlineHtml,
    escape,
    language_of,
    readable,
    run_end,
    segments,
    table_end,
)
from hermes_sessions.gateway.platforms.text_splitter import Fence

_INLINE: Final = InlineHtml(
    tags={"bolded": "b", "struck": "s", "starred": "i", "lined": "i"},
    addresses=re.compile(r"(?:https?|tg|mailto|tel):", re.IGNORECASE),
)


def to_html(markdown: str) -> str:
    """Return *markdown* as HTML that Telegram always accepts."""
    text = readable(markdown)
    return "".join(
        _block(text, each) if isinstance(each, Fence) else _prose(each) for each in segments(text)
    ).strip("\n")


def _block(text: str, fence: Fence) -> str:
    code = text[fence.inside : fence.closing].removesuffix("\n")
    if not code.strip():
        return escape(code)
    language = language_of(text, fence)
    if language is None:
        return f"<pre>{escape(code)}</pre>"
    return f'<pre><code class="language-{html.escape(language)}">{escape(code)}</code></pre>'


def _prose(text: str) -> str:
    return "\n".join(_lines(text.split("\n")))


def _lines(lines: list[str]) -> Iterator[str]:
    """Yield the lines; those of a quotation or a table as one."""
    at = 0
    while at < len(lines):
        if (until := run_end(lines, at, QUOTE.fullmatch)) > at:
            inner = [QUOTE.sub(r"\1", quoted, count=1) for quoted in lines[at:until]]
            yield _quotation("\n".join(_line(each) for each in inner))
        elif (until := table_end(lines, at)) > at:
            table = "\n".join(lines[at:until])
            yield f"<pre>{escape(table)}</pre>"
        else:
            until = at + 1
            yield _line(lines[at])
        at = until


def _quotation(shown: str) -> str:
    # An empty one is refused.
    return f"<blockquote>{shown}</blockquote>" if shown.strip() else shown


def _line(line: str) -> str:
    if heading := HEADING.fullmatch(line):
        title = _INLINE.show(heading[1], 1)
        return f"<b>{title}</b>" if title.strip() else title
    if RULE.fullmatch(line):
        return "———"
    if bullet := BULLET.fullmatch(line):
        return f"{bullet[1]}•{bullet[2]}{_INLINE.show(bullet[3])}"
    return _INLINE.show(line)

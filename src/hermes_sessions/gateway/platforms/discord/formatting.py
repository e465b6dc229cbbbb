"""Adapt Markdown to Discord.

Discord renders most of it. Deep headings, rules, tables and pictures, which it does not render, are
rewritten. Code blocks are left alone.
"""

from __future__ import annotations

import re
from typing import Final

from hermes_sessions.gateway.platforms.markdown import RULE, blocks, readable, segments
from hermes_sessions.gateway.platforms.text_splitter import Fence, measure

#: Discord's limit for one message.
MAX_TEXT: Final = 2000

#: Discord has headings of three sizes.
_DEEP_HEADING: Final = re.compile(r"#{4,6}[ \t]+(.*?)[ \t]*#*")
_PICTURE: Final = re.compile(r"!(?=\[[^\[\]\n]*\]\([^\s()<>]+\))")
#: Replaces a message without visible text: Discord refuses an empty one.
_NOTHING: Final = "…"


def to_discord(markdown: str) -> str:
    """Return *markdown* adapted to Discord; it fits the limit if *markdown* does."""
    text = readable(markdown)
    shown = "".join(
        text[each.start : each.end] if isinstance(each, Fence) else _prose(each)
        for each in segments(text)
    ).strip("\n")
    if measure(shown, "utf16") > MAX_TEXT >= measure(text, "utf16"):
        shown = text
    return shown if shown.strip() else _NOTHING


def _prose(text: str) -> str:
    return "\n".join(_table(each) if len(each) > 1 else _line(each[0]) for each in blocks(text))


def _table(lines: list[str]) -> str:
    """Return a table in a fixed width."""
    return "\n".join(("```", *lines, "```"))


def _line(line: str) -> str:
    if (heading := _DEEP_HEADING.fullmatch(line)) and heading[1]:
        return f"**{heading[1]}**"
    if RULE.fullmatch(line):
        return "———"
    return line if "`" in line else _PICTURE.sub("", line)

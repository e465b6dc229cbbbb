"""The Markdown that models write, as far as every messenger reads it in the same way.

What is made of it is each messenger's own: see the ``formatting`` of a platform.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hermes_sessions.gateway.platforms.text_splitter import Fence, find_fences

#: Emphasis inside emphasis inside …: what is deeper is left as it is written.
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
    """Return the language that a block of code names, if it can be one."""
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
    """Return where the table that begins at a line ends; *at* if none does."""
    rule = at + 1
    if "|" not in lines[at] or rule == len(lines) or not _TABLE_RULE.fullmatch(lines[rule]):
        return at
    return run_end(lines, at, lambda line: "|" in line)


def run_end(lines: Sequence[str], at: int, belongs: Callable[[str], object]) -> int:
    """Return where the lines from *at* on that belong together end."""
    while at < len(lines) and belongs(lines[at]):
        at += 1
    return at


def inline_pattern(*more: str) -> re.Pattern[str]:
    """Return what finds marks inside a line, by the groups ``escaped``, ``code``, ``label`` and
    ``address``, ``bolded``, ``struck``, ``starred``, ``lined``; *more* are alternatives of a
    messenger's own, looked for after code and before everything else.
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
    """Return *text* with what *pattern* finds as *found* writes it, and all else as *rest* does."""
    written: list[str] = []
    at = 0
    for match in pattern.finditer(text):
        written += (rest(text[at : match.start()]), found(match))
        at = match.end()
    written.append(rest(text[at:]))
    return "".join(written)


def whole_characters(text: str) -> str:
    """Return *text* with a sign in place of every half of a character, which nobody can send."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def readable(text: str) -> str:
    """Return *text* without what cannot be sent: halves of characters, NUL."""
    return whole_characters(text).replace("\0", "\ufffd")

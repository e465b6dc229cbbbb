"""What a chat says besides answers, laid out for the width of the window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hermes_sessions.agent.command_table import Command
from hermes_sessions.cli.render.humanize import relative_time
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.render.style import Style
from hermes_sessions.cli.render.text_width import cut, display_width, pad, wrap

Record = Mapping[str, Any]

_INDENT: Final = "    "
#: With less room than this beside a name, what is said about it goes below.
_LEAST: Final = 30
_NAME_AT_LEAST: Final = 20
_AGE: Final = 11


def wrapped(text: str, style: Style, indent: str = "") -> list[str]:
    """Return a text in lines that fit, broken at blanks; all but the first are indented."""
    if style.width is None:
        return [text]
    first, *others = wrap(text, max(style.width, 16))
    if not others:
        return [first]
    rest = text[len(first) :].lstrip()
    room = max(style.width - len(indent), 16)
    return [first, *(indent + line for line in wrap(rest, room))]


def command_lines(commands: Sequence[Command], style: Style) -> Iterator[str]:
    """Yield how commands are written and what they do."""
    width = max(len(command.usage) for command in commands) + 2
    room = None if style.width is None else style.width - width
    for command in commands:
        if room is not None and room < _LEAST:
            yield command.usage
            yield from (_INDENT + line for line in wrapped(command.summary, _narrower(style)))
            continue
        first, *others = wrap(command.summary, room) if room else [command.summary]
        yield pad(command.usage, width) + first
        yield from (" " * width + line for line in others)


def numbered_sessions(
    rows: Sequence[Record], *, current: str | None, now: float, style: Style
) -> Iterator[str]:
    """Yield sessions with the numbers by which they can be chosen; ``*`` marks the current one."""
    longest = max((display_width(row["id"]) for row in rows), default=0)
    width = 79 if style.width is None else style.width
    room = width - longest - _AGE - len("  1* ") - 4
    for number, row in enumerate(rows, 1):
        mark = "*" if row["id"] == current else " "
        name = one_line(row["title"] or row["preview"] or "") or style.nothing
        age = relative_time(row["last_active"], now)
        begin = f"{number:>3}{mark} "
        if room < _NAME_AT_LEAST:
            yield begin + cut(name, width - len(begin), style.ellipsis)
            yield f"{_INDENT}{one_line(row['id'])}  {style.dim(age)}"
        else:
            shown = pad(cut(name, room, style.ellipsis), room)
            yield f"{begin}{shown}  {style.dim(pad(age, _AGE))}  {one_line(row['id'])}"


def _narrower(style: Style) -> Style:
    return style if style.width is None else style._replace(width=style.width - len(_INDENT))

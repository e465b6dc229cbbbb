"""The recap, command list and session list of a chat, laid out for the window width."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hermes_sessions.agent.slash_commands import Command
from hermes_sessions.cli.render.humanize import counted, relative_time
from hermes_sessions.cli.render.safe_text import lines as safe_lines
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.render.style import Style
from hermes_sessions.cli.render.text_width import cut, display_width, pad, wrap
from hermes_sessions.cli.render.transcript import called_tools
from hermes_sessions.model.message import text_of

# ── recap of a resumed conversation ───────────────────────────────────────────────────────────

TITLE = "Previous Conversation"
#: The number of entries shown: ten exchanges.
_ENTRIES = 20


_OF_A_USER = 300


_OF_AN_ASSISTANT = 200


_LINES_OF_AN_ASSISTANT = 3


_WIDEST = 100


_NARROWEST = 24


def recap(messages: Sequence[Record], style: Style) -> list[str]:
    """Return the recap panel for the messages of a session; empty if there are none to show.

    Omits system messages, tool results and reasoning; counts tool calls. Shows the last answer in
    full; shortens and dims everything else.
    """
    entries = [message for message in messages if _is_shown(message)]
    shown = entries[-_ENTRIES:]
    if not shown:
        return []
    earlier = len(entries) - len(shown)
    body: list[str] = []
    if earlier:
        body.append(
            style.dim(f"{style.ellipsis} {counted(earlier, 'earlier message')} {style.ellipsis}")
        )
    for place, message in enumerate(shown):
        is_last_answer = place == len(shown) - 1 and message["role"] == "assistant"
        body += _entry(message, style, whole=is_last_answer)
    return list(_framed(body, style))


def _is_shown(message: Record) -> bool:
    if message.get("role") == "user":
        return bool(_text(message))
    return message.get("role") == "assistant" and bool(_text(message) or message.get("tool_calls"))


def _text(message: Record) -> str:
    content = message.get("content")
    text = text_of(content).strip()
    return text or ("[image]" if content and not isinstance(content, str) else "")


def _entry(message: Record, style: Style, *, whole: bool) -> Iterator[str]:
    is_user = message["role"] == "user"
    mark = "*" if style.ascii_only else ("●" if is_user else "◆")
    label = (style.gold if is_user else style.green)(f"{mark} {'You' if is_user else 'Hermes'}")
    light = (lambda text: text) if whole else style.dim
    text = _text(message)
    said = safe_lines(text) if text else []
    if not whole:
        said = _shortened(said, style, is_user=is_user)
    calls = called_tools(message.get("tool_calls"), False, style)
    if calls:
        said = [*said, calls]
    yield label
    for line in said:
        for piece in wrap(line, _width(style) - 2) or [""]:
            yield "  " + light(piece)


def _shortened(said: list[str], style: Style, *, is_user: bool) -> list[str]:
    if is_user:
        return [cut(" ".join(said), _OF_A_USER, style.ellipsis)]
    kept = said[:_LINES_OF_AN_ASSISTANT]
    text = "\n".join(kept)
    if len(text) > _OF_AN_ASSISTANT:
        return (text[:_OF_AN_ASSISTANT].rstrip() + style.ellipsis).split("\n")
    if len(said) > len(kept) and kept:
        kept[-1] += f" {style.ellipsis}"
    return kept


def _width(style: Style) -> int:
    return max(_NARROWEST, min(style.width or _WIDEST, _WIDEST) - 4)


def _framed(body: Sequence[str], style: Style) -> Iterator[str]:
    inner = _width(style)
    title = f" {TITLE} "
    yield style.dim(f"{style.line * 2}{title}{style.line * max(0, inner - len(title))}")
    yield from (f"  {line}" for line in body)
    yield style.dim(style.line * (inner + 2))


Record = Mapping[str, Any]

_INDENT: Final = "    "
#: With fewer columns than this beside the usage, the summary goes on the next line.
_LEAST: Final = 30
_NAME_AT_LEAST: Final = 20
_AGE: Final = 11


def wrapped(text: str, style: Style, indent: str = "") -> list[str]:
    """Wrap *text* at blanks to the window width; indent all lines but the first."""
    if style.width is None:
        return [text]
    first, *others = wrap(text, max(style.width, 16))
    if not others:
        return [first]
    rest = text[len(first) :].lstrip()
    room = max(style.width - len(indent), 16)
    return [first, *(indent + line for line in wrap(rest, room))]


def command_lines(commands: Sequence[Command], style: Style) -> Iterator[str]:
    """Yield the usage and summary of each command."""
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
    """Yield the numbered list of sessions to choose from; ``*`` marks the current one."""
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

"""Search results as lines of text: each hit with its context, and a report on the search.

Matches are coloured on a terminal with colours, and marked with ``>>>`` and ``<<<`` elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from hermes_sessions.cli.render.humanize import moment
from hermes_sessions.cli.render.safe_text import one_line, piece
from hermes_sessions.cli.render.shell_commands import command_on
from hermes_sessions.cli.render.style import Style
from hermes_sessions.cli.render.text_width import cut, display_width, wrap
from hermes_sessions.cli.render.transcript import one_line_summary, painter, speaker
from hermes_sessions.storage.search.answer import COUNT_LIMIT, Hit, SearchAnswer, SearchReport
from hermes_sessions.storage.search.executor import RANKED
from hermes_sessions.text.query.relaxation import AS_ASKED, INSIDE_WORDS

#: Display names of filters; others are shown as they are.
_FILTERS = {
    "sources": "source",
    "roles": "role",
    "tools": "tool",
    "models": "model",
    "users": "user",
    "sessions": "session",
    "titles": "title",
    "workspaces": "workspace",
    "conversations": "conversation",
    "after": "since",
    "before": "until",
}


def search_report_lines(answer: SearchAnswer, style: Style) -> list[str]:
    """Return the report of a search, wrapped to the available width."""
    text = " ".join(_sentences(answer))
    return wrap(text, max(style.width, 16)) if style.width else [text]


def _sentences(answer: SearchAnswer) -> Iterator[str]:
    report = answer.report
    yield _count(len(answer.hits), report)
    if report.step not in (AS_ASKED, INSIDE_WORDS):
        # For matches inside words, the search adds a note of its own.
        yield f"Nothing matched exactly; relaxed to: {report.step}."
    for repair in map(one_line, report.repairs):
        yield f"{repair[:1].upper()}{repair[1:]}."
    if report.removed:
        removed = [_removed(name, number, report) for name, number in report.removed.items()]
        yield f"Filtered out: {', '.join(removed)}."
    yield from map(one_line, report.notes)
    if report.total > report.ranked >= RANKED and answer.hits:
        yield f"The newest {report.ranked:,} are ranked by relevance; the others follow by time."
    if not report.complete and report.not_indexed:
        yield "To index them now, run: hermes sessions optimize"


def _count(shown: int, report: SearchReport) -> str:
    if not shown:
        return "Nothing found."
    total = f"{report.total:,}" if report.total_is_exact else f"{report.total:,}+"
    if report.total <= shown:
        matches = f"{report.total:,} match{'' if report.total == 1 else 'es'}"
        return f"{matches}." if report.total_is_exact else f"At least {matches}."
    return f"{shown} of {total} matches."


def _removed(name: str, number: int, report: SearchReport) -> str:
    # Counting stops at a limit, with the filter and without it.
    more = "+" if number + report.total >= COUNT_LIMIT else ""
    excluded = name.removeprefix("exclude_").removeprefix("not ")
    label = _FILTERS.get(excluded, excluded)
    return f"{number:,}{more} by {'-' if excluded != name else ''}{label}"


Record = Mapping[str, Any]

_INDENT = "  "
#: Marks the hit; its neighbours are indented.
_POINTER = "> "
#: The width of a neighbour's line where the layout has no width.
_NEIGHBOUR = 110
_AT_LEAST = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class HitContext:
    """What is shown around a hit."""

    #: The session's title, or a preview.
    name: str
    before: Record | None = None
    after: Record | None = None


class _Paint(NamedTuple):
    start: int
    end: int
    colour: Callable[[str], str]


def hit_lines(hit: Hit, hit_context: HitContext, *, now: float, style: Style) -> list[str]:
    """Return the lines of one hit, ending with the command that opens it."""
    name = one_line(hit_context.name) or style.nothing
    lines = [style.bold(cut(name, style.width, style.ellipsis) if style.width else name)]
    lines += [_INDENT + style.dim(line) for line in _facts(hit, now, style)]
    if hit_context.before is not None:
        lines.append(_neighbour(hit_context.before, style))
    lines += _match(hit, style)
    if hit_context.after is not None:
        lines.append(_neighbour(hit_context.after, style))
    # The command is never wrapped, so that it can be copied.
    opening = command_on("show", hit.session_id, options=("--around", str(hit.id)))
    return [*lines, _INDENT + style.dim(opening)]


def _facts(hit: Hit, now: float, style: Style) -> Iterator[str]:
    """Yield the time and place, in as few lines as fit."""
    facts = [
        moment(hit.timestamp, now),
        one_line(hit.source),
        one_line(hit.session_id),
        f"message {hit.id}",
    ]
    room = None if style.width is None else max(style.width - len(_INDENT), _AT_LEAST)
    line = ""
    for fact in facts:
        joined = line + style.separator + fact if line else fact
        if line and room is not None and display_width(joined) > room:
            yield line
            joined = fact
        line = joined
    yield line


def _neighbour(message: Record, style: Style) -> str:
    text = f"{speaker(message, style)}: {one_line_summary(message, style)}"
    room = _NEIGHBOUR if style.width is None else max(style.width - len(_INDENT), _AT_LEAST)
    return _INDENT + style.dim(cut(text, room, style.ellipsis))


def _match(hit: Hit, style: Style) -> list[str]:
    who: Record = {"role": hit.role, "tool_name": hit.tool_name}
    of_title = hit.matched == "title"
    label = "title" if of_title else speaker(who, style)
    colour = style.dim if of_title else painter(who, style)
    text, paints = label + ": ", [_Paint(0, len(label) + 1, colour)]
    done = 0
    for start, end in hit.spans:
        text += piece(hit.snippet_text[done:start])
        matched = piece(hit.snippet_text[start:end])
        if style.colour:
            paints.append(_Paint(len(text), len(text) + len(matched), style.match))
            text += matched
        else:
            text += style.match(matched)
        done = end
    text += piece(hit.snippet_text[done:])
    room = None if style.width is None else max(style.width - 2 * len(_INDENT), _AT_LEAST)
    first, *others = _painted(text, paints, room)
    return [_POINTER + first, *(2 * _INDENT + line for line in others)]


def _painted(text: str, paints: list[_Paint], columns: int | None) -> Iterator[str]:
    """Yield the text wrapped to *columns* and painted; a match may span lines."""
    end = 0
    for line in wrap(text, columns) if columns else [text]:
        start = text.index(line, end)
        end = start + len(line)
        yield _paint_line(text, start, end, paints)


def _paint_line(text: str, start: int, end: int, paints: list[_Paint]) -> str:
    line, done = "", start
    for paint in paints:
        first, last = max(paint.start, start), min(paint.end, end)
        if first < last:
            line += text[done:first] + paint.colour(text[first:last])
            done = last
    return line + text[done:end]

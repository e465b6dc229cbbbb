"""Usage insights as text: totals, tables and charts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

from hermes_sessions.cli.render import humanize
from hermes_sessions.cli.render.costs import dollars
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.render.style import Style
from hermes_sessions.cli.render.text_width import cut, display_width, pad, wrap

# ── bars ──────────────────────────────────────────────────────────────────────────────────────

#: Characters filled by 0 to 8 eighths of their height, and of their width.
_RISING = " ▁▂▃▄▅▆▇█"


_GROWING = " ▏▎▍▌▋▊▉█"


_ASCII = "#"


_HEIGHT = 4


def bar(value: float, largest: float, columns: int, style: Style) -> str:
    """Return a bar of at most *columns* columns; a value above zero is always visible."""
    if value <= 0 or largest <= 0:
        return ""
    eighths = max(1, round(min(value / largest, 1) * columns * 8))
    if style.ascii_only:
        return _ASCII * max(1, round(eighths / 8))
    full, rest = divmod(eighths, 8)
    return _GROWING[8] * full + (_GROWING[rest] if rest else "")


def columns_chart(values: Sequence[int], style: Style, *, wide: bool) -> list[str]:
    """Return the lines of a column chart of *values*, the tallest at full height.

    A column is two characters wide if *wide*, else one.
    """
    largest = max(values, default=0)
    if not largest:
        return []
    eighths = [max(1, round(value / largest * _HEIGHT * 8)) if value else 0 for value in values]
    lines = []
    for row in range(_HEIGHT - 1, -1, -1):
        cells = [_cell(number - row * 8, style) for number in eighths]
        lines.append("".join(cell * 2 if wide else cell for cell in cells).rstrip())
    return lines


def _cell(eighths: int, style: Style) -> str:
    if style.ascii_only:
        return _ASCII if eighths > 0 else " "
    return _RISING[min(max(eighths, 0), 8)]


Record = Mapping[str, Any]

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_LABEL_WIDTH = 14
_INDENT = "  "
_GAP = "  "
_NAME_AT_LEAST, _NAME_AT_MOST = 12, 40
_BAR_AT_LEAST, _BAR_AT_MOST = 6, 40
#: How many rows of each table are shown; ``--json`` prints all.
_MODELS, _TOOLS, _PLATFORMS = 10, 15, 15
_TOP = 3
#: The limits up to which the chart shows single days, then weeks; beyond, it shows months.
_BY_DAY, _BY_WEEK = 31, 190
_TOP_NAMES = {
    "longest": "Longest",
    "most_messages": "Most messages",
    "most_tokens": "Most tokens",
    "most_tool_calls": "Most tool calls",
}


def insights_lines(report: Record, style: Style) -> Iterator[str]:
    """Yield the lines of a report of `SessionDB.get_insights`."""
    if report["empty"]:
        of = f" of source {one_line(report['source'])}" if report["source"] else ""
        yield f"No sessions{of} {_period(report['days'], 'started ')}."
        return
    source = f", {one_line(report['source'])}" if report["source"] else ""
    yield style.bold(f"Insights: {_period(report['days'])}{source}")
    yield from _section("", _overview(report, style), style)
    yield from _section("Models", _usage_table("model", report["models"][:_MODELS], style), style)
    if [row["source"] for row in report["platforms"]] != ["cli"]:
        rows = report["platforms"][:_PLATFORMS]
        yield from _section("Platforms", _usage_table("source", rows, style), style)
    yield from _section("Tools", _tools(report["tools"][:_TOOLS], style), style)
    activity = report["activity"]
    yield from _section("By weekday", _weekdays(activity, style), style)
    yield from _section("By hour", _hours(activity, style), style)
    yield from _section("Over time", _over_time(report["over_time"], style), style)
    yield from _section("Top sessions", _top(report["top_sessions"], style), style)


def cost(row: Record) -> str:
    """Return the cost as text, as far as it is known."""
    if row["cost_usd"] is None:
        return "unknown"
    amount = dollars(row["cost_usd"])
    return amount if row["cost_complete"] else f"at least {amount}"


def _period(days: float, prefix: str = "") -> str:
    if not days:
        return "started at any time" if prefix else "all time"
    return f"{prefix}{'in the ' if prefix else ''}last {days:g} day{'' if days == 1 else 's'}"


def _section(heading: str, lines: Iterator[str], style: Style) -> Iterator[str]:
    """Yield a heading and its lines; nothing if there are no lines."""
    first = next(lines, None)
    if first is None:
        return
    if heading:
        yield ""
        yield style.bold(heading)
    yield _INDENT + first
    for line in lines:
        yield (_INDENT + line).rstrip()


def _room(style: Style) -> int | None:
    return None if style.width is None else max(style.width - len(_INDENT), 16)


# ── sums ──────────────────────────────────────────────────────────────────────────────────────


def _overview(report: Record, style: Style) -> Iterator[str]:
    room = _room(style)
    for label, value in _facts(report["overview"], report["activity"]):
        pieces = wrap(value, max(room - _LABEL_WIDTH, 16)) if room else [value]
        yield style.dim(f"{label + ':':<{_LABEL_WIDTH}}") + pieces[0]
        yield from (" " * _LABEL_WIDTH + piece for piece in pieces[1:])


def _facts(overview: Record, activity: Record) -> Iterator[tuple[str, str]]:
    first, last = humanize.date(overview["first"]), humanize.date(overview["last"])
    yield "Period", first if first == last else f"{first} to {last}"
    yield "Sessions", f"{overview['sessions']:,}"
    kinds = [
        f"{overview[f'{role}_messages']:,} {role}"
        for role in ("user", "assistant", "tool")
        if overview[f"{role}_messages"]
    ]
    roles = f" ({', '.join(kinds)})" if kinds else ""
    yield "Messages", f"{overview['messages']:,}{roles}"
    yield "Per session", f"{overview['messages_per_session']:.1f} messages"
    yield "Tool calls", f"{overview['tool_calls']:,}"
    yield "Tokens", _tokens(overview)
    yield "Cost", cost(overview)
    yield (
        "Time",
        (
            f"{overview['hours']:.1f} hours, {_duration(overview['average_duration_seconds'])} "
            f"per session"
        ),
    )
    yield "Active days", f"{activity['active_days']}, longest streak {activity['longest_streak']}"


def _tokens(overview: Record) -> str:
    kinds = [
        f"{overview[f'{kind}_tokens']:,} {kind.replace('_', ' ')}"
        for kind in ("input", "output", "cache_read", "cache_write", "reasoning")
        if overview[f"{kind}_tokens"]
    ]
    of_kinds = f" ({', '.join(kinds)})" if kinds else ""
    return f"{overview['total_tokens']:,}{of_kinds}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


# ── tables ────────────────────────────────────────────────────────────────────────────────────


def _usage_table(name: str, rows: Sequence[Record], style: Style) -> Iterator[str]:
    cells = [
        (one_line(row[name]), f"{row['sessions']:,}", f"{row['total_tokens']:,}", cost(row))
        for row in rows
    ]
    headings = (name.capitalize(), "Sessions", "Tokens", "Cost")
    widths = [max(display_width(row[n]) for row in (headings, *cells)) for n in range(4)]
    room = _room(style)
    others = sum(widths[1:]) + 3 * len(_GAP)
    if room is not None and room - others < min(widths[0], _NAME_AT_LEAST):
        for key, sessions, tokens, price in cells:
            yield cut(key, room, style.ellipsis)
            facts = f"{counted(int(sessions.replace(',', '')), 'session')}, {tokens} tokens"
            yield from (_INDENT + piece for piece in wrap(f"{facts}, {price}", room - 2))
        return
    widths[0] = min(widths[0], _NAME_AT_MOST, _NAME_AT_MOST if room is None else room - others)
    yield style.dim(_aligned(headings, widths, style))
    yield from (_aligned(row, widths, style) for row in cells)


def _aligned(cells: Sequence[str], widths: Sequence[int], style: Style) -> str:
    first = pad(cut(cells[0], widths[0], style.ellipsis), widths[0])
    numbers = [f"{cell:>{width}}" for cell, width in zip(cells[1:-1], widths[1:-1], strict=True)]
    return _GAP.join([first, *numbers, cells[-1]]).rstrip()


# ── charts ────────────────────────────────────────────────────────────────────────────────────


class _Bar(NamedTuple):
    """One line of a chart: a name, the length of the bar, and the text after it."""

    name: str
    value: float
    text: str


def _bars(rows: Sequence[_Bar], style: Style) -> Iterator[str]:
    if not rows:
        return
    largest = max(row.value for row in rows)
    room = _room(style)
    name_width = min(max(display_width(row.name) for row in rows), _NAME_AT_MOST)
    text_width = max(display_width(row.text) for row in rows)
    columns = _BAR_AT_MOST
    if room is not None:
        # Names matter more than bars: if both do not fit, the bars are omitted.
        shortened = min(name_width, max(room - text_width - _BAR_AT_LEAST - 2 * len(_GAP), 12))
        columns = min(_BAR_AT_MOST, room - shortened - text_width - 2 * len(_GAP))
        if columns >= _BAR_AT_LEAST:
            name_width = shortened
    for row in rows:
        name = pad(cut(row.name, name_width, style.ellipsis), name_width)
        parts = [name]
        if columns >= _BAR_AT_LEAST:
            parts.append(pad(bar(row.value, largest, columns, style), columns))
        yield _GAP.join([*parts, row.text])


def _tools(tools: Sequence[Record], style: Style) -> Iterator[str]:
    widest = max((len(f"{tool['calls']:,}") for tool in tools), default=0)
    rows = [
        _Bar(
            one_line(tool["tool"]),
            tool["calls"],
            f"{tool['calls']:>{widest},} ({tool['percent']:.0f}%)",
        )
        for tool in tools
    ]
    yield from _bars(rows, style)


def _weekdays(activity: Record, style: Style) -> Iterator[str]:
    if activity["busiest_weekday"] is None:
        return
    days = zip(_WEEKDAYS, activity["by_weekday"], strict=True)
    yield from _bars([_Bar(name, count, f"{count:,}") for name, count in days], style)


def _hours(activity: Record, style: Style) -> Iterator[str]:
    if activity["busiest_hour"] is None:
        return
    room = _room(style)
    wide = room is None or room >= 48
    yield from columns_chart(activity["by_hour"], style, wide=wide)
    step = 2 if wide else 1
    marks = "".join(f"{hour:<{6 * step}}" for hour in (0, 6, 12, 18))
    yield style.dim(marks.rstrip())
    hour = activity["busiest_hour"]
    count = activity["by_hour"][hour]
    yield f"Busiest: {hour:02}:00 to {(hour + 1) % 24:02}:00, {counted(count, 'message')}"


def _over_time(days: Sequence[Record], style: Style) -> Iterator[str]:
    rows = [
        _Bar(
            row["date"],
            row["total_tokens"],
            f"{row['total_tokens']:,} tokens, {cost(row)}"
            if row["total_tokens"] or row["cost_usd"] is not None
            else counted(row["messages"], "message")
            if row["messages"]
            else counted(row["sessions"], "session"),
        )
        for row in _grouped(days)
    ]
    yield from _bars(rows, style)


def _grouped(days: Sequence[Record]) -> list[Record]:
    """Return the days unchanged, or summed by week or month if there are many."""
    if not days:
        return []
    first, last = (date.fromisoformat(days[n]["date"]) for n in (0, -1))
    span = (last - first).days + 1
    if span <= _BY_DAY:
        return list(days)
    groups: dict[str, dict[str, Any]] = {}
    for row in days:
        day = date.fromisoformat(row["date"])
        if span <= _BY_WEEK:
            name = f"{day - timedelta(days=day.weekday())} week"
        else:
            name = row["date"][:7]
        group = groups.get(name)
        groups[name] = {**row, "date": name} if group is None else _sum(group, row)
    return list(groups.values())


def _sum(group: Record, row: Record) -> dict[str, Any]:
    known = [r["cost_usd"] for r in (group, row) if r["cost_usd"] is not None]
    return {
        "date": group["date"],
        **{key: group[key] + row[key] for key in ("sessions", "messages", "total_tokens")},
        "cost_usd": sum(known) if known else None,
        "cost_complete": group["cost_complete"] and row["cost_complete"],
    }


# ── sessions ──────────────────────────────────────────────────────────────────────────────────


def _top(top: Record, style: Style) -> Iterator[str]:
    room = _room(style)
    for kind, label in _TOP_NAMES.items():
        if not top[kind]:
            continue
        yield style.dim(label)
        for row in top[kind][:_TOP]:
            value = _duration(row["value"]) if kind == "longest" else f"{row['value']:,}"
            title = one_line(row["title"] or "")
            line = f"{_INDENT}{value}  {one_line(row['id'])}"
            # Ids are never cut, so that they can be copied; the title gets the remaining columns.
            left = _NAME_AT_MOST if room is None else room - display_width(line) - len(_GAP)
            if title and left >= _NAME_AT_LEAST:
                line += _GAP + cut(title, left, style.ellipsis)
            yield line

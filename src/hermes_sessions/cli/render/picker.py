"""The picker's screen as lines: the search, the list, a preview of the selected session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from hermes_sessions.cli.render.humanize import relative_time
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.render.style import Style
from hermes_sessions.cli.render.text_width import cut, display_width, pad

#: The smallest supported window.
LEAST_COLUMNS, LEAST_LINES = 40, 5
_BESIDE_FROM = 100
_BELOW_FROM = 16
_WHEN = 12
#: Sources are shown from this list width on, at most this wide.
_SOURCES_FROM, _SOURCE = 60, 12
_KEYS = "Enter resume  Esc clear/quit  Up/Down PgUp/PgDn move"


class Listed(Protocol):
    """A session as the list shows it."""

    @property
    def name(self) -> str:
        """Its title, or a preview."""

    @property
    def source(self) -> str:
        """Where it came from."""

    @property
    def last_active(self) -> float | None:
        """When it was last used."""

    @property
    def pinned(self) -> bool:
        """Whether it is protected from pruning."""


class Layout(NamedTuple):
    """The division of a window into list and preview."""

    columns: int
    #: Lines of the list, and columns.
    list_lines: int
    list_columns: int
    #: Lines of the preview (0 if there is no preview), and columns.
    preview_lines: int
    preview_columns: int

    @property
    def beside(self) -> bool:
        """Whether the preview is beside the list, not below it."""
        return self.list_columns < self.columns


#: A piece of a line and how it looks: "", "bold", "dim" or "reverse".
Piece = tuple[str, str]


def layout(columns: int, lines: int) -> Layout:
    """Return the layout for a window of this size."""
    body = lines - 3
    if columns >= _BESIDE_FROM:
        left = columns // 2
        return Layout(columns, body, left, body, columns - left - 3)
    if lines >= _BELOW_FROM:
        below = body // 2
        return Layout(columns, body - below - 1, columns, below, columns)
    return Layout(columns, body, columns, 0, 0)


def picker_lines(
    text: str,
    listed: Sequence[Listed],
    selected: int,
    preview: Sequence[str],
    *,
    size: Layout,
    now: float,
    style: Style,
    more: bool = False,
) -> list[list[Piece]]:
    """Return the lines of the screen.

    *listed* are the rows loaded so far; with *more*, others may follow.
    """
    count = f"{len(listed)}{'+' if more else ''}"
    heading = f"Search: {one_line(text) if text else ''}"
    room = size.columns - len(count) - 1
    screen: list[list[Piece]] = [
        [("bold", pad(cut(heading, room, style.ellipsis), room + 1)), ("dim", count)],
        [("dim", style.line * size.columns)],
    ]
    first = max(0, min(selected - size.list_lines // 2, len(listed) - size.list_lines))
    visible = listed[first : first + size.list_lines]
    sources = max((display_width(one_line(row.source)) for row in visible), default=0)
    widths = (size.list_columns, min(sources, _SOURCE) if size.list_columns >= _SOURCES_FROM else 0)
    rows = [
        _row(row, number == selected, widths, now, style)
        for number, row in enumerate(visible, first)
    ]
    if not listed:
        rows = [("dim", pad("Nothing found.", size.list_columns))]
    empty: Piece = ("", " " * size.list_columns)
    rows += [empty] * (size.list_lines - len(rows))
    shown = [cut(line, size.preview_columns, style.ellipsis) for line in preview]
    shown = shown[: size.preview_lines]
    if size.beside:
        shown += [""] * (size.list_lines - len(shown))
        divider = " | " if style.ascii_only else " │ "
        screen += [
            [row, ("dim", divider), ("", line)] for row, line in zip(rows, shown, strict=True)
        ]
    else:
        screen += [[row] for row in rows]
        if size.preview_lines:
            shown += [""] * (size.preview_lines - len(shown))
            screen.append([("dim", style.line * size.columns)])
            screen += [[("", line)] for line in shown]
    screen.append([("dim", cut(_KEYS, size.columns, style.ellipsis))])
    return screen


def _row(
    row: Listed, is_selected: bool, widths: tuple[int, int], now: float, style: Style
) -> Piece:
    columns, source_width = widths
    when = relative_time(row.last_active, now)
    mark = f"{style.pin} " if row.pinned else ""
    source = cut(one_line(row.source), source_width, style.ellipsis) if source_width else ""
    room = columns - _WHEN - source_width - 3
    name = cut(mark + (one_line(row.name) or style.nothing), room, style.ellipsis)
    line = f" {pad(name, room)} {pad(when, _WHEN)} {pad(source, source_width)}"
    return ("reverse" if is_selected else "", pad(cut(line, columns, style.ellipsis), columns))

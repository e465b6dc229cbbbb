"""Workspaces as a table, and one in detail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hermes_sessions.cli.render.humanize import moment, relative_time
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.render.style import Style
from hermes_sessions.cli.render.text_width import cut, display_width, pad

Record = Mapping[str, Any]

_GAP = 2
_NAME_AT_MOST = 32
_PATH_AT_LEAST = 16
_LABEL_WIDTH = 14


def workspace_table(workspaces: Sequence[Record], *, now: float, style: Style) -> list[str]:
    """Return one line for each workspace, and in a narrow window two."""
    rows = [
        [
            one_line(workspace["name"]),
            str(workspace["sessions"]),
            relative_time(workspace["last_active"], now),
            one_line(workspace["id"]),
            one_line(workspace["path"] or ""),
        ]
        for workspace in workspaces
    ]
    headings = ["Name", "Sessions", "Last Active", "ID", "Directory"]
    columns = list(zip(headings, *rows, strict=True))
    widths = [max(map(display_width, column)) + _GAP for column in columns]
    widths[0] = min(widths[0], _NAME_AT_MOST)
    if style.width is not None:
        room = style.width - sum(widths[:-1])
        if room < _PATH_AT_LEAST:
            return _stacked(rows, style)
        widths[-1] = min(widths[-1], room)
    lines = [_line(row, widths, style) for row in (headings, *rows)]
    rule = style.dim(style.line * (sum(widths) - _GAP))
    return [style.bold(lines[0]), rule, *lines[1:]]


def _line(cells: Sequence[str], widths: Sequence[int], style: Style) -> str:
    # The directory comes last and keeps its end, which says more than its beginning.
    *shown, path = zip(cells, widths, strict=True)
    start = "".join(pad(cut(cell, width - _GAP, style.ellipsis), width) for cell, width in shown)
    return (start + cut(*path, style.ellipsis)).rstrip()


def _stacked(rows: Sequence[Sequence[str]], style: Style) -> list[str]:
    lines = []
    for name, sessions, when, workspace_id, _ in rows:
        lines.append(style.bold(cut(name, style.width or _NAME_AT_MOST, style.ellipsis)))
        lines += [f"  {workspace_id}", f"  {sessions}{style.separator}{when}"]
    return lines


def workspace_lines(workspace: Record, *, now: float, style: Style) -> list[str]:
    """Return the details of a workspace, one per line; none is cut, so that they can be copied."""
    return [
        style.dim(f"{label + ':':<{_LABEL_WIDTH}}") + value
        for label, value in _facts(workspace, now)
    ]


def _facts(workspace: Record, now: float) -> Iterator[tuple[str, str]]:
    yield "Name", one_line(workspace["name"])
    yield "ID", one_line(workspace["id"])
    kind, _, value = (workspace["identity"] or "").partition(":")
    label = {"remote": "Remote", "commit": "First commit"}.get(kind)
    if label is not None:
        yield label, one_line(value)
    yield "Directory", one_line(workspace["path"] or "")
    yield "Sessions", str(workspace["sessions"])
    if workspace["last_active"] is not None:
        yield "Last active", moment(workspace["last_active"], now)
    for merged in workspace["merged"]:
        yield "Merged", f"{one_line(merged['name'])} ({one_line(merged['id'])})"

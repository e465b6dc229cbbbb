"""Sessions as a table: one line each, ids always in full.

Three layouts. With titles: Title, Preview, Last Active, ID. When no row has a title: Preview, Last
Active, Src, ID. In a window too narrow for either: two lines per session.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hermes_sessions.cli.render.humanize import relative_time
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.render.style import Style
from hermes_sessions.cli.render.text_width import cut, display_width, pad

Record = Mapping[str, Any]

#: Blank columns between two cells; the widths below include them.
_GAP = 2
_TITLE, _TITLE_AT_LEAST, _TITLE_AT_MOST = 30, 16, 52
# A stored preview is never longer than 63 characters.
_PREVIEW, _PREVIEW_AT_LEAST, _PREVIEW_AT_MOST = 42, 18, 65
_PREVIEW_ALONE = 50
_WHEN = 13
_SOURCE_AT_LEAST = 6
_LABEL_AT_MOST = 28
NO_LABELS: Mapping[str, Sequence[str]] = {}
_RULE_WITH_TITLES, _RULE_WITHOUT_TITLES = 110, 95


class When(NamedTuple):
    """The time column of the table, and its heading."""

    column: str
    heading: str


LAST_ACTIVE = When(column="last_active", heading="Last Active")
STARTED = When(column="started_at", heading="Started")
DELETED = When(column="trashed_at", heading="Deleted")


class _Entry(NamedTuple):
    """The sanitized cells of one session."""

    #: The mark before the name of a pinned session, or empty.
    mark: str
    title: str
    preview: str
    when: str
    source: str
    id: str


def session_table(
    sessions: Sequence[Record],
    *,
    now: float,
    style: Style,
    when: When = LAST_ACTIVE,
    labels: Mapping[str, Sequence[str]] = NO_LABELS,
) -> list[str]:
    """Return the lines of the table; *sessions* must not be empty.

    *labels* are more columns, by heading, one text for each session. They are shown before the id
    if the window is wide enough.
    """
    entries = [
        _Entry(
            mark=f"{style.pin} " if session.get("pinned_at") else "",
            title=one_line(session.get("title") or ""),
            preview=one_line(session.get("preview") or ""),
            when=relative_time(session.get(when.column), now),
            source=one_line(session.get("source") or ""),
            id=one_line(session["id"]),
        )
        for session in sessions
    ]
    titled = any(entry.title for entry in entries)
    more = _label_columns(labels, entries, style.width)
    room = None if style.width is None else style.width - sum(more.values())
    widths = (_widths_with_titles if titled else _widths_without_titles)(entries, room)
    if widths is None:
        return _stacked(entries, style)
    if titled:
        headings = ["Title", "Preview", when.heading, "ID"]
        # Without a preview column, the preview replaces a missing title.
        untitled = [style.nothing if widths[1] else e.preview or style.nothing for e in entries]
        rows = [
            [entry.mark + (entry.title or dash), entry.preview, entry.when, entry.id]
            for entry, dash in zip(entries, untitled, strict=True)
        ]
    else:
        headings = ["Preview", when.heading, "Src", "ID"]
        rows = [[e.mark + (e.preview or style.nothing), e.when, e.source, e.id] for e in entries]
    widths[-1:-1] = more.values()
    headings[-1:-1] = more
    for number, row in enumerate(rows):
        row[-1:-1] = [one_line(labels[heading][number]) for heading in more]
    rule = sum(widths)
    if style.width is None:
        rule = max(rule, _RULE_WITH_TITLES if titled else _RULE_WITHOUT_TITLES)
    return [
        style.bold(_line(headings, widths, style)),
        style.dim(style.line * rule),
        *(_line(row, widths, style) for row in rows),
    ]


def _label_columns(
    labels: Mapping[str, Sequence[str]], entries: Sequence[_Entry], available: int | None
) -> dict[str, int]:
    """Return the width of each column of labels; none if there is no room for all of them."""
    widths = {
        heading: min(_longest([heading, *map(one_line, texts)]), _LABEL_AT_MOST)
        for heading, texts in labels.items()
    }
    needed = _TITLE_AT_LEAST + _PREVIEW_AT_LEAST + _WHEN + _SOURCE_AT_LEAST + _id_width(entries)
    if available is not None and available < needed + sum(widths.values()):
        return {}
    return widths


def _widths_with_titles(entries: Sequence[_Entry], available: int | None) -> list[int] | None:
    """Return the width of each column, 0 if omitted, or None if the table does not fit."""
    id_width = _id_width(entries)
    if available is None:
        return [_TITLE, _PREVIEW, _WHEN, id_width]
    room = available - _WHEN - id_width
    if room < _TITLE_AT_LEAST:
        return None
    if room < _TITLE_AT_LEAST + _PREVIEW_AT_LEAST:
        return [min(room, _TITLE_AT_MOST), 0, _WHEN, id_width]
    # Title and preview share the remaining width; neither is wider than its longest text.
    longest = _longest(entry.mark + entry.title for entry in entries)
    share = max(_TITLE_AT_LEAST, room * _TITLE // (_TITLE + _PREVIEW))
    title = min(max(longest, _TITLE_AT_LEAST), share, _TITLE_AT_MOST)
    preview = min(room - title, _preview_needed(entries))
    return [max(title, min(longest, room - preview, _TITLE_AT_MOST)), preview, _WHEN, id_width]


def _widths_without_titles(entries: Sequence[_Entry], available: int | None) -> list[int] | None:
    id_width = _id_width(entries)
    source = max(_SOURCE_AT_LEAST, _longest(entry.source for entry in entries))
    if available is None:
        return [_PREVIEW_ALONE, _WHEN, source, id_width]
    room = available - _WHEN - source - id_width
    if room < _PREVIEW_AT_LEAST:
        return None
    return [min(room, _preview_needed(entries)), _WHEN, source, id_width]


def _preview_needed(entries: Sequence[_Entry]) -> int:
    longest = _longest(entry.mark + entry.preview for entry in entries)
    return min(max(longest, _PREVIEW_AT_LEAST), _PREVIEW_AT_MOST)


def _longest(texts: Iterable[str]) -> int:
    return max(map(display_width, texts)) + _GAP


def _id_width(entries: Sequence[_Entry]) -> int:
    return max(display_width(entry.id) for entry in entries)


def _line(cells: Sequence[str], widths: Sequence[int], style: Style) -> str:
    shown = [(cell, width) for cell, width in zip(cells, widths, strict=True) if width]
    padded = [pad(cut(cell, width - _GAP, style.ellipsis), width) for cell, width in shown[:-1]]
    return "".join(padded) + shown[-1][0]


def _stacked(entries: Sequence[_Entry], style: Style) -> list[str]:
    width = style.width or _RULE_WITHOUT_TITLES
    lines: list[str] = []
    for entry in entries:
        name = entry.mark + (entry.title or entry.preview or style.nothing)
        lines.append(style.bold(cut(name, width, style.ellipsis)))
        facts = f"  {entry.id}  {entry.when}"
        if display_width(facts) <= width:
            lines.append(facts)
        else:
            # The id has its own line and is never cut, so that it can be copied.
            lines += [f"  {entry.id}", f"  {entry.when}"]
    return lines

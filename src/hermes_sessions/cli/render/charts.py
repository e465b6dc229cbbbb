"""Numbers as bars, in characters that every terminal has."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_sessions.cli.render.style import Style

#: How far an eighth of a character's height, or width, is filled.
_RISING = " ▁▂▃▄▅▆▇█"
_GROWING = " ▏▎▍▌▋▊▉█"
_ASCII = "#"
_HEIGHT = 4


def bar(value: float, largest: float, columns: int, style: Style) -> str:
    """Return a bar of at most *columns* columns; what is not zero is always seen."""
    if value <= 0 or largest <= 0:
        return ""
    eighths = max(1, round(min(value / largest, 1) * columns * 8))
    if style.ascii_only:
        return _ASCII * max(1, round(eighths / 8))
    full, rest = divmod(eighths, 8)
    return _GROWING[8] * full + (_GROWING[rest] if rest else "")


def columns_chart(values: Sequence[int], style: Style, *, wide: bool) -> list[str]:
    """Return lines that show *values* as columns beside each other, the tallest at full height.

    A column is two characters wide, or one where there is little room.
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

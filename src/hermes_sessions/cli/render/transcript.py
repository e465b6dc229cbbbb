"""The messages of a session as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hermes_sessions.cli.render.humanize import counted, date_and_time
from hermes_sessions.cli.render.safe_text import lines as safe_lines
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.render.style import Style
from hermes_sessions.cli.render.text_width import cut, display_width, wrap
from hermes_sessions.model.message import is_payload_only, text_of, without_base64

Record = Mapping[str, Any]

_INDENT = "  "
_NO_TEXT = "[non-text content]"
#: Limits per message unless the full text is requested.
_LINES_SHOWN = 12
_LINES_SHOWN_OF_TOOL_RESULTS = 3
_COLUMNS_SHOWN = 400
_TOOL_NAMES_SHOWN = 4
#: How much of a text is processed for a one-line summary.
_CHARACTERS_OF_A_LINE = 2_000


def message_lines(message: Record, *, style: Style, full: bool, note: str = "") -> list[str]:
    """Return the lines of one message: speaker and time, then the indented text.

    Unless *full*, long texts are cut and marked as such. A *note* follows the time.
    """
    when = style.dim(date_and_time(message.get("timestamp")))
    heading = f"{painter(message, style)(speaker(message, style))}  {when}"
    if note:
        heading += "  " + style.bold(f"{'<-' if style.ascii_only else '←'} {note}")
    return [heading, *_body(message, style, full)]


def speaker(message: Record, style: Style) -> str:
    """Return the speaker: a mark for the role, the role, and the tool name if any."""
    role = one_line(str(message.get("role") or "?"))
    name = one_line(message.get("tool_name") or "")
    mark = "*" if style.ascii_only else {"user": "●", "assistant": "◆"}.get(role, "·")
    return f"{mark} {role} {name}" if name else f"{mark} {role}"


def painter(message: Record, style: Style) -> Callable[[str], str]:
    """Return the function that colours the speaker."""
    return {"user": style.gold, "assistant": style.green}.get(str(message.get("role")), style.dim)


def one_line_summary(message: Record, style: Style) -> str:
    """Return the beginning of the text, or the called tools, as one line."""
    text = one_line(without_base64(text_of(message.get("content")))[:_CHARACTERS_OF_A_LINE])
    if not text and (message.get("content") or is_payload_only(message)):
        text = _NO_TEXT
    return text or called_tools(message.get("tool_calls"), False, style)


def _body(message: Record, style: Style, full: bool) -> Iterator[str]:
    text = without_base64(text_of(message.get("content")))
    if not text and (message.get("content") or is_payload_only(message)):
        text = _NO_TEXT
    if text:
        shown = safe_lines(text)
        limit = _LINES_SHOWN_OF_TOOL_RESULTS if message.get("role") == "tool" else _LINES_SHOWN
        left_out = 0 if full else max(len(shown) - limit, 0)
        for line in shown[: len(shown) - left_out]:
            yield from _indented(line if full else cut(line, _COLUMNS_SHOWN, style.ellipsis), style)
        if left_out:
            yield style.dim(f"{_INDENT}{style.ellipsis} {counted(left_out, 'more line')}")
    calls = called_tools(message.get("tool_calls"), full, style)
    if calls:
        yield from (style.dim(line) for line in _indented(calls, style))


def _indented(line: str, style: Style) -> Iterator[str]:
    if style.width is None or display_width(line) + len(_INDENT) <= style.width:
        yield (_INDENT + line).rstrip()
        return
    for piece in wrap(line, max(style.width - len(_INDENT), 16)):
        yield _INDENT + piece


def called_tools(tool_calls: Any, full: bool, style: Style) -> str:
    """Return the number and names of the called tools; only the first few unless *full*."""
    if not tool_calls:
        return ""
    calls = tool_calls if isinstance(tool_calls, list) else [tool_calls]
    names = [_name_of_call(call) for call in calls]
    distinct = list(dict.fromkeys(name for name in names if name))
    shown = distinct if full else distinct[:_TOOL_NAMES_SHOWN]
    listed = ", ".join(shown) + (f", {style.ellipsis}" if len(shown) < len(distinct) else "")
    return f"[{counted(len(calls), 'tool call')}{': ' if listed else ''}{listed}]"


def _name_of_call(call: Any) -> str:
    if not isinstance(call, dict):
        return ""
    function = call.get("function")
    name = function.get("name") if isinstance(function, dict) else call.get("name")
    return one_line(name) if isinstance(name, str) else ""

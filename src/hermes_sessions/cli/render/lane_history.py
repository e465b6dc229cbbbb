"""The history of a lane: each transition and its reason."""

from __future__ import annotations

from typing import Any

from hermes_sessions.cli.render.humanize import date_and_time
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.render.style import Style
from hermes_sessions.cli.render.text_width import wrap
from hermes_sessions.lifecycle.lane_explanation import LaneExplanation

_TIME_WIDTH = len("2025-03-05 15:00:00  ")
_ID_WIDTH = len("20250305_150000_0123abcd ")
#: The namespace of a home with a single bot; it is not shown.
_USUAL_NAMESPACE = "default"


def lane_history(explanation: LaneExplanation, *, style: Style) -> list[str]:
    """Return the lines about a lane, oldest step first."""
    lane = explanation.lane
    name = f" ({one_line(lane.display_name)})" if lane.display_name else ""
    bot = f" of {one_line(lane.namespace)}" if lane.namespace != _USUAL_NAMESPACE else ""
    lines = [style.bold(one_line(lane.session_key)) + style.dim(f"{name}{bot}")]
    lines += _wrapped(one_line(explanation.state), style, 0)
    lines.append("")
    # The id of a session must fit beside the time.
    is_narrow = style.width is not None and style.width < _TIME_WIDTH + _ID_WIDTH
    indent = 2 if is_narrow else _TIME_WIDTH
    for step in explanation.steps:
        told = _wrapped(one_line(step.what), style, indent)
        if step.why:
            told += _wrapped(one_line(step.why), style, indent)
        when = date_and_time(step.transition.at)
        if is_narrow:
            lines.append(style.dim(when))
        else:
            told[0] = style.dim(f"{when}  ") + told[0].lstrip()
        lines += told
    return lines


def _wrapped(text: str, style: Style, indent: int) -> list[str]:
    room = None if style.width is None else max(style.width - indent, 16)
    return [" " * indent + piece for piece in (wrap(text, room) if room else [text])]


def lane_document(explanation: LaneExplanation) -> dict[str, Any]:
    """Return the JSON document of a lane."""
    lane = explanation.lane
    return {
        "session_key": lane.session_key,
        "namespace": lane.namespace,
        "display_name": lane.display_name,
        "session_id": lane.session_id or None,
        "status": lane.status,
        "status_reason": lane.status_reason,
        "status_at": lane.status_at,
        "created_at": lane.created_at,
        "updated_at": lane.updated_at,
        "state": explanation.state,
        "steps": [
            {
                "at": step.transition.at,
                "what": step.what,
                "why": step.why,
                **{
                    name: getattr(step.transition, name)
                    for name in (
                        "action",
                        "reason",
                        "actor",
                        "from_session_id",
                        "to_session_id",
                        "policy",
                        "facts",
                    )
                },
            }
            for step in explanation.steps
        ],
    }

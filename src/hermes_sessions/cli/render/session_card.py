"""The details of one session, one per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hermes_sessions.cli.render.costs import cost_text
from hermes_sessions.cli.render.humanize import counted, moment
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.render.style import Style
from hermes_sessions.cli.render.text_width import wrap

Record = Mapping[str, Any]

_LABEL_WIDTH = 14
_IDS = frozenset({"ID", "Parent", "Child"})
_TOKEN_KINDS = (
    ("input_tokens", "input"),
    ("output_tokens", "output"),
    ("cache_read_tokens", "cache read"),
    ("cache_write_tokens", "cache write"),
    ("reasoning_tokens", "reasoning"),
)


def session_card(
    session: Record,
    *,
    conversation: Sequence[Record],
    usage: Sequence[Record] = (),
    workspace: str | None = None,
    now: float,
    style: Style,
) -> list[str]:
    """Return the details of *session*.

    *conversation* are all sessions of its conversation, *usage* its tokens and cost by model and
    task, *workspace* the name of its workspace.
    """
    lines: list[str] = []
    room = None if style.width is None else max(style.width - _LABEL_WIDTH, 16)
    for label, value in _facts(session, conversation, usage, workspace, now, style):
        # Ids are never wrapped, so that they can be copied.
        pieces = wrap(value, room) if room and label not in _IDS else [value]
        lines.append(style.dim(f"{label + ':':<{_LABEL_WIDTH}}") + pieces[0])
        lines += [" " * _LABEL_WIDTH + piece for piece in pieces[1:]]
    return lines


def _facts(
    session: Record,
    conversation: Sequence[Record],
    usage: Sequence[Record],
    workspace: str | None,
    now: float,
    style: Style,
) -> Iterator[tuple[str, str]]:
    yield "Title", one_line(session.get("title") or "") or style.nothing
    yield "ID", one_line(session["id"])
    yield "Source", _joined(session, ("source", "user_id"), style)
    if session.get("model"):
        yield "Model", one_line(session["model"])
    yield "Started", moment(session.get("started_at"), now)
    if session.get("last_active"):
        yield "Last active", moment(session["last_active"], now)
    if session.get("ended_at"):
        reason = one_line(session.get("end_reason") or "")
        yield "Ended", moment(session["ended_at"], now) + (f", {reason}" if reason else "")
    yield "Messages", _messages(session, style)
    tokens = _tokens(session)
    if tokens:
        yield "Tokens", tokens
    cost = cost_text(session, usage)
    if cost:
        yield "Cost", cost
    if session.get("archived_at"):
        yield "Archived", moment(session["archived_at"], now)
    if session.get("pinned_at"):
        yield "Pinned", moment(session["pinned_at"], now)
    if session.get("tags"):
        yield "Tags", ", ".join(map(one_line, session["tags"]))
    if session.get("metadata"):
        yield "Metadata", ", ".join(_metadata(session["metadata"]))
    if session.get("cwd"):
        branch = f" ({one_line(session['git_branch'])})" if session.get("git_branch") else ""
        yield "Directory", one_line(session["cwd"]) + branch
    if workspace:
        yield "Workspace", one_line(workspace)
    yield from _family(session, conversation)


def _joined(session: Record, columns: Sequence[str], style: Style) -> str:
    values = [one_line(str(session[column])) for column in columns if session.get(column)]
    return style.separator.join(values) or style.nothing


def _messages(session: Record, style: Style) -> str:
    parts = [str(session.get("message_count") or 0)]
    if session.get("tool_call_count"):
        parts.append(counted(session["tool_call_count"], "tool call"))
    if session.get("api_call_count"):
        parts.append(counted(session["api_call_count"], "model call"))
    return style.separator.join(parts)


def _metadata(metadata: Record) -> Iterator[str]:
    for key, value in metadata.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"{one_line(key)}={one_line(text)}"


def _tokens(session: Record) -> str:
    return ", ".join(
        f"{session[column]} {name}" for column, name in _TOKEN_KINDS if session.get(column)
    )


def _family(session: Record, conversation: Sequence[Record]) -> Iterator[tuple[str, str]]:
    if session.get("parent_session_id"):
        kind = session.get("edge_kind")
        suffix = f" ({one_line(kind)})" if kind else ""
        yield "Parent", one_line(session["parent_session_id"]) + suffix
    children = [r for r in conversation if r.get("parent_session_id") == session["id"]]
    for child in children:
        kind = child.get("edge_kind")
        yield "Child", one_line(child["id"]) + (f" ({one_line(kind)})" if kind else "")

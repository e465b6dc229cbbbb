"""Exported sessions as Markdown, or as one self-contained HTML page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from hermes_sessions.cli.render.humanize import date_and_time
from hermes_sessions.cli.render.safe_text import lines, one_line
from hermes_sessions.model.message import is_payload_only, text_of, without_base64
from hermes_sessions.storage.attachment_texts import images_in

Record = Mapping[str, Any]

NO_TEXT = "[non-text content]"
_PRIVATE = "[private payload]"
_UNTITLED = "Untitled session"
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|])")

# ── HTML ──────────────────────────────────────────────────────────────────────────────────────

_ROLES = frozenset({"user", "assistant", "tool", "system"})
#: The page loads and runs nothing, whatever a stored text contains.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
section { margin-bottom: 4rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; opacity: .8; }
dd { margin: 0; overflow-wrap: anywhere; }
article { border-left: .25rem solid #8888; padding: .25rem 1rem; margin: 1rem 0; }
article.user { border-color: #b8860b; }
article.assistant { border-color: #2e8b57; }
h3 { margin: 0; font-size: 1rem; }
time { opacity: .6; font-weight: normal; }
img { max-width: 100%; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: inherit; margin: .5rem 0; }
details pre { font: .875rem/1.4 ui-monospace, monospace; }
"""


def html_begin() -> str:
    """Return the head of the page."""
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>Sessions</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    )


def html_end() -> str:
    """Return the end of the page."""
    return "</body>\n</html>\n"


def html_session(record: Record) -> Iterator[str]:
    """Yield one export record as pieces of the page."""
    yield f"<section>\n<h2>{escape(session_title(record))}</h2>\n<dl>\n"
    for label, value in session_facts(record):
        yield f"<dt>{label}</dt><dd>{escape(value)}</dd>\n"
    yield "</dl>\n"
    for message in messages_shown(record):
        yield from _message(message)
    yield "</section>\n"


def _message(message: Record) -> Iterator[str]:
    role = str(message.get("role"))
    when = date_and_time(message.get("timestamp"))
    yield f'<article class="{role if role in _ROLES else "other"}">\n'
    yield f"<h3>{escape(speaker_of(message))} <time>{when}</time></h3>\n"
    text = readable_text(message)
    if text and (role == "tool" or is_payload_only(message)):
        summary = "Result" if role == "tool" else "Payload"
        yield f"<details><summary>{summary}</summary><pre>{escape(text)}</pre></details>\n"
    elif text:
        yield f"<pre>{escape(text)}</pre>\n"
    for media_type, encoded in images_in(message.get("content")):
        yield f'<p><img alt="Image" src="data:{escape(media_type)};base64,{encoded}"></p>\n'
    for name, arguments in calls_of(message):
        yield (
            f"<details><summary>Calls {escape(name)}</summary>"
            f"<pre>{escape(arguments)}</pre></details>\n"
        )
    yield "</article>\n"


# ── Markdown ──────────────────────────────────────────────────────────────────────────────────


def markdown_session(record: Record) -> Iterator[str]:
    """Yield one export record as pieces of text: a heading, its facts, and its messages."""
    yield f"# {_plain(session_title(record))}\n\n"
    for label, value in session_facts(record):
        yield f"- {label}: {_plain(value)}\n"
    yield "\n"
    for message in messages_shown(record):
        yield f"## {_plain(speaker_of(message))}\n\n*{date_and_time(message.get('timestamp'))}*\n\n"
        text = readable_text(message)
        if text:
            is_data = message.get("role") == "tool" or is_payload_only(message)
            yield (_fenced(text) if is_data else text) + "\n\n"
        for media_type, encoded in images_in(message.get("content")):
            yield f"![Image](data:{media_type};base64,{encoded})\n\n"
        for name, arguments in calls_of(message):
            yield f"Calls {_plain(name)}:\n\n{_fenced(arguments)}\n\n"


# ── shared by both formats ─────────────────────────────────────────────────────────────────────


def session_title(record: Record) -> str:
    """Return the title, or a placeholder."""
    return one_line(record.get("title") or "") or _UNTITLED


def session_facts(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the facts about a session, as label and value."""
    yield "Session", one_line(str(record["id"]))
    yield "Source", one_line(str(record.get("source") or "?"))
    if record.get("model"):
        yield "Model", one_line(str(record["model"]))
    yield "Started", date_and_time(record.get("started_at"))
    yield "Last active", date_and_time(record.get("last_active"))
    if record.get("parent_session_id"):
        kind = f" ({one_line(str(record['edge_kind']))})" if record.get("edge_kind") else ""
        yield "Parent", one_line(str(record["parent_session_id"])) + kind


def messages_shown(record: Record) -> Iterator[Record]:
    """Yield the messages of a record, without rewound ones."""
    for message in record.get("messages") or ():
        if message.get("active", 1):
            yield message


def speaker_of(message: Record) -> str:
    """Return the role, and the name of a tool."""
    name = one_line(str(message.get("tool_name") or ""))
    role = one_line(str(message.get("role") or "?"))
    return f"{role} {name}" if name else role


def readable_text(message: Record) -> str:
    """Return the text of a message, or the payload of one that has nothing else, unless it is
    private; without control characters. Images are not part of it.
    """
    content = message.get("content")
    text = without_base64(text_of(content))
    if is_payload_only(message):
        if message.get("payload_private"):
            return _PRIVATE
        text = without_base64(json.dumps(message["payload"], ensure_ascii=False, indent=2))
    if not text and content:
        return "" if any(images_in(content)) else NO_TEXT
    return "\n".join(lines(text)) if text else ""


def calls_of(message: Record) -> Iterator[tuple[str, str]]:
    """Yield the name and arguments of each tool call."""
    calls = message.get("tool_calls")
    if not calls:
        return
    for call in calls if isinstance(calls, list) else [calls]:
        function = call.get("function") if isinstance(call, dict) else None
        called = function if isinstance(function, dict) else call
        if isinstance(called, dict):
            arguments = called.get("arguments", "")
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, indent=2)
            yield one_line(str(called.get("name") or "?")), "\n".join(lines(text))
        else:
            yield "?", "\n".join(lines(str(called)))


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"

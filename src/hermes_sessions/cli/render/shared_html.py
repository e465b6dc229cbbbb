"""Sessions as one HTML page that needs nothing else: no script, no font, no picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from hermes_sessions.cli.render.export import (
    calls_of,
    messages_shown,
    readable_text,
    session_facts,
    session_title,
    speaker_of,
)
from hermes_sessions.cli.render.humanize import date_and_time

Record = Mapping[str, Any]

_ROLES = frozenset({"user", "assistant", "tool", "system"})
#: Nothing is loaded or run, whatever a stored text contains.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
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
    if text and role == "tool":
        yield f"<details><summary>Result</summary><pre>{escape(text)}</pre></details>\n"
    elif text:
        yield f"<pre>{escape(text)}</pre>\n"
    for name, arguments in calls_of(message):
        yield (
            f"<details><summary>Calls {escape(name)}</summary>"
            f"<pre>{escape(arguments)}</pre></details>\n"
        )
    yield "</article>\n"

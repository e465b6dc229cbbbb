"""What somebody wrote on Slack, as they wrote it. Pure.

Slack escapes ``&``, ``<`` and ``>``, and puts links and mentions between angle brackets. Links are
written out; mentions stay as they are, so that the agent can repeat them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from hermes_sessions.gateway.platforms.markdown import rewrite
from hermes_sessions.gateway.platforms.payloads import short

_CONTROL: Final = re.compile(r"<([^<>\n]*)>")
_ENTITY: Final = re.compile(r"&(amp|lt|gt);")
_SIGNS: Final = {"amp": "&", "lt": "<", "gt": ">"}
#: What may stand between somebody's name and what is said to them.
_AFTER_NAME: Final = " \t\n\u00a0,:"
_MENTION: Final = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^<>]*)?>")
#: As much of a message of somebody else as makes clear what is meant, and so many of them.
_MAX_QUOTED: Final = 4000
_MOST_QUOTED: Final = 10


def plain(raw: str) -> str:
    """Return a text of Slack as it was typed."""
    return rewrite(_CONTROL, raw, found=_written_out, rest=_unescaped)


def is_mentioned(raw: str, user_id: str) -> bool:
    """Tell whether a text, as Slack sent it, names somebody."""
    return any(mention[1] == user_id for mention in _MENTION.finditer(raw))


def begins_with_other(raw: str, user_id: str) -> bool:
    """Tell whether a text begins by naming somebody else: then it is said to them."""
    mention = _MENTION.match(raw.lstrip())
    return mention is not None and mention[1] != user_id


def without_name(raw: str, user_id: str) -> str:
    """Return a text without somebody's name at its beginning."""
    begun = raw.lstrip()
    mention = _MENTION.match(begun)
    if mention is None or mention[1] != user_id:
        return raw
    return begun[mention.end() :].lstrip(_AFTER_NAME)


def shared_words(attachments: object) -> str:
    """Return messages of others that were forwarded, as quotations; other attachments are previews
    of links, which are in the text.
    """
    if not isinstance(attachments, list):
        return ""
    quoted = [_quotation(each) for each in attachments[:_MOST_QUOTED] if isinstance(each, Mapping)]
    return "\n\n".join(each for each in quoted if each)


def _quotation(attachment: Mapping[str, Any]) -> str:
    if not (attachment.get("is_share") or attachment.get("is_msg_unfurl")):
        return ""
    text, files = attachment.get("text"), attachment.get("files")
    text = text if isinstance(text, str) and text.strip() else ""
    words = plain(text[:_MAX_QUOTED]) + ("…" if len(text) > _MAX_QUOTED else "")
    # The app may not see them where they are: they are named, so that nobody seems to be ignored.
    names = [
        f"[file: {short(file.get('name')) or 'without a name'}]"
        for file in (files[:_MOST_QUOTED] if isinstance(files, list) else ())
        if isinstance(file, Mapping)
    ]
    lines = [f"> {line}" for line in (*words.splitlines(), *names)]
    author = short(attachment.get("author_name")) or "somebody"
    return "\n".join((f"[Forwarded from {author}]", *lines)) if lines else ""


def _unescaped(text: str) -> str:
    return _ENTITY.sub(lambda entity: _SIGNS[entity[1]], text)


def _written_out(control: re.Match[str]) -> str:
    inside = control[1]
    if inside[:1] in {"@", "#", "!"}:
        return control[0]
    address, _, label = (_unescaped(part) for part in inside.partition("|"))
    bare = address.removeprefix("mailto:").removeprefix("tel:")
    # Slack makes links of what looks like one: `example.org` has the address http://example.org.
    if not label or label in {address, bare} or address in {f"http://{label}", f"https://{label}"}:
        return label or bare
    return f"{label} ({address})"

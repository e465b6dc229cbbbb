"""Convert Markdown to HTML for Matrix.

All text is escaped, and tags are nested by construction, so that every client can render it. Only
tags that the specification recommends are used.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.platforms.markdown import (
    DEEPEST,
    QUOTE,
    RULE,
    InlineHtml,
    escape,
    language_of,
    run_end,
    segments,
    table_end,
    whole_characters,
)
from hermes_sessions.gateway.platforms.matrix.identifiers import is_event_id
from hermes_sessions.gateway.platforms.text_splitter import Fence

# The content of events, within the size limit of an event. Pure.

#: Bytes of one message's text. An event has at most 65,536 bytes; an edit contains the text twice,
#: JSON escapes some characters, and encryption turns three bytes into four.
TEXT_BYTES: Final = 10_000
#: A larger text is sent without markup, so that it fits even when encrypted.
_CONTENT_BYTES: Final = 45_000


def message_content(target: Target, markdown: str) -> dict[str, Any]:
    """Return the content of a message, in the thread of *target*, and as a reply in groups."""
    relation = _relation(target)
    related = {"m.relates_to": relation} if relation else {}
    return _within_limit(
        lambda with_markup: {**_words(markdown, with_markup=with_markup), **related}
    )


def edit_content(message_id: str, markdown: str) -> dict[str, Any]:
    """Return the content that replaces a message."""

    def content(with_markup: bool) -> dict[str, Any]:
        new = _words(markdown, with_markup=with_markup)
        # For clients without support for edits.
        shown = {**new, "body": f"* {new['body']}"}
        if "formatted_body" in new:
            shown["formatted_body"] = f"* {new['formatted_body']}"
        relation = {"rel_type": "m.replace", "event_id": message_id}
        return {**shown, "m.new_content": new, "m.relates_to": relation}

    return _within_limit(content)


def notice_content(text: str, answered: str) -> dict[str, Any]:
    """Return a notice about a message that was not understood; other bots ignore notices."""
    return {
        "msgtype": "m.notice",
        "body": text,
        "m.mentions": {},
        "m.relates_to": {"m.in_reply_to": {"event_id": answered}},
    }


def transaction_id(salt: str, room_id: str, key: str) -> str:
    """Return the transaction id, under which the homeserver accepts a message once.

    *salt* belongs to the store that made the key: another store counts from one again.
    """
    named = f"{salt}\0{room_id}\0{key}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(named).hexdigest()[:40]


def _words(markdown: str, *, with_markup: bool) -> dict[str, Any]:
    text = sendable(markdown)
    # Names in the text are not mentions, least of all @room.
    words: dict[str, Any] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
    html = to_html(text) if with_markup else None
    if html is not None:
        words |= {"format": "org.matrix.custom.html", "formatted_body": html}
    return words


def _relation(target: Target) -> dict[str, Any]:
    answered = target.reply_to if is_event_id(target.reply_to) else None
    if is_event_id(target.thread_id):
        return {
            "rel_type": "m.thread",
            "event_id": target.thread_id,
            "is_falling_back": True,
            "m.in_reply_to": {"event_id": answered or target.thread_id},
        }
    if answered and target.extra.get("is_group"):
        return {"m.in_reply_to": {"event_id": answered}}
    return {}


def _within_limit(content: Any) -> dict[str, Any]:
    with_markup: dict[str, Any] = content(True)
    if len(json.dumps(with_markup, ensure_ascii=False).encode()) <= _CONTENT_BYTES:
        return with_markup
    without: dict[str, Any] = content(False)
    return without


_HEADING: Final = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*")
_ITEM: Final = re.compile(r"([ \t]*)(?:[-*+]|([0-9]{1,9})[.)])[ \t]+(.*)")
_CELL_END: Final = re.compile(r"(?<!\\)\|")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

_INLINE: Final = InlineHtml(
    tags={"bolded": "strong", "struck": "del", "starred": "em", "lined": "em"},
    # Tags that the specification allows.
    addresses=re.compile(r"(?:https?|ftp|mailto|magnet):", re.IGNORECASE),
)


def to_html(markdown: str) -> str | None:
    """Return *markdown* as HTML, None if plain text would look the same."""
    text = sendable(markdown)
    shown = "".join(
        _block(text, each) if isinstance(each, Fence) else _prose(each, 0)
        for each in segments(text)
    )
    return shown if shown and shown != _plain(text) else None


def sendable(text: str) -> str:
    """Return *text* without lone surrogates and control characters, which cannot be sent; not
    longer than before.
    """
    whole = whole_characters(text)
    return _CONTROLS.sub("?", whole.replace("\r\n", "\n"))


def _plain(text: str) -> str:
    paragraphs = [escape(part) for part in re.split(r"\n{2,}", text.strip("\n"))]
    return "".join(f"<p>{part.replace(chr(10), '<br>')}</p>" for part in paragraphs if part.strip())


def _block(text: str, fence: Fence) -> str:
    language = language_of(text, fence)
    named = f' class="language-{html.escape(language)}"' if language else ""
    return f"<pre><code{named}>{escape(text[fence.inside : fence.closing])}</code></pre>"


def _prose(text: str, depth: int) -> str:
    return "".join(_blocks(text.split("\n"), depth))


def _blocks(lines: list[str], depth: int) -> Iterator[str]:
    """Yield the blocks: paragraphs, quotes, tables, lists."""
    paragraph: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        until, shown = _special_block(lines, at, depth)
        if shown is not None or not line.strip():
            if paragraph:
                yield f"<p>{'<br>'.join(paragraph)}</p>"
                paragraph = []
            yield shown or ""
        else:
            paragraph.append(_INLINE.show(line))
        at = until
    if paragraph:
        yield f"<p>{'<br>'.join(paragraph)}</p>"


def _special_block(lines: list[str], at: int, depth: int) -> tuple[int, str | None]:
    """Return the end and the HTML of a block that is not a paragraph; None if there is none."""
    line = lines[at]
    if (found := _HEADING.fullmatch(line)) and found[2].strip():
        level = len(found[1])
        return at + 1, f"<h{level}>{_INLINE.show(found[2])}</h{level}>"
    if RULE.fullmatch(line):
        return at + 1, "<hr>"
    if QUOTE.fullmatch(line) and depth < DEEPEST:
        until = run_end(lines, at, QUOTE.fullmatch)
        inner = "\n".join(QUOTE.sub(r"\1", each, count=1) for each in lines[at:until])
        return until, f"<blockquote>{_prose(inner, depth + 1)}</blockquote>"
    if (until := table_end(lines, at)) > at:
        return until, _table([lines[at], *lines[at + 2 : until]])
    if _ITEM.fullmatch(line):
        until = run_end(lines, at, _ITEM.fullmatch)
        return until, _list([_item(each) for each in lines[at:until]])
    return at + 1, None


def _item(line: str) -> tuple[int, str | None, str]:
    """Return the indentation of an item, its number and its text."""
    found = _ITEM.fullmatch(line)
    if found is None:
        return 0, None, line
    return len(found[1].expandtabs(4)), found[2], found[3]


def _list(items: list[tuple[int, str | None, str]]) -> str:
    """Return a list; deeper items form a list inside the item before them."""
    shown: list[str] = []
    #: Open lists, by indentation.
    opened: list[tuple[int, str]] = []
    for indent, number, text in items:
        while opened and indent < opened[-1][0] and len(opened) > 1:
            shown.append(f"</li></{opened.pop()[1]}>")
        if not opened or (indent > opened[-1][0] + 1 and len(opened) < DEEPEST):
            tag = "ul" if number is None else "ol"
            start = f' start="{int(number)}"' if number and int(number) != 1 else ""
            shown.append(f"<{tag}{start}>")
            opened.append((indent, tag))
        else:
            shown.append("</li>")
        shown.append(f"<li>{_INLINE.show(text)}")
    shown += [f"</li></{tag}>" for _, tag in reversed(opened)]
    return "".join(shown)


def _table(lines: list[str]) -> str:
    rows = [_CELL_END.split(line.strip().removeprefix("|").removesuffix("|")) for line in lines]
    shown = [
        "".join(f"<{tag}>{_INLINE.show(cell.strip())}</{tag}>" for cell in row)
        for row, tag in zip(rows, ["th", *["td"] * (len(rows) - 1)], strict=True)
    ]
    body = "".join(f"<tr>{row}</tr>" for row in shown[1:])
    return (
        f"<table><thead><tr>{shown[0]}</tr></thead>"
        + (f"<tbody>{body}</tbody>" if body else "")
        + "</table>"
    )

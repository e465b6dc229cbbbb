"""A parser of Telegram's HTML, as strict as Telegram's servers."""

from __future__ import annotations

import re
from typing import Final

_TAG: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)((?:[^<>\"]|\"[^\"]*\")*)>")
_ENTITY: Final = re.compile(r"&(lt|gt|amp|quot|#\d{1,7}|#x[0-9A-Fa-f]{1,6});")
_NAMED: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_TAGS: Final = frozenset(
    "b strong i em u ins s strike del span tg-spoiler a tg-emoji code pre blockquote".split()
)


class MarkupError(ValueError):
    """A text cannot be parsed; the message is the one that Telegram returns."""


def shown_text(html: str) -> str:
    """Return the visible text of Telegram's HTML.

    Raises:
        MarkupError: Telegram would reject the text.
    """
    shown: list[str] = []
    opened: list[str] = []
    at = 0
    while at < len(html):
        if html[at] == "<":
            tag = _TAG.match(html, at)
            if tag is None:
                raise MarkupError(f"Unclosed start tag at byte offset {_offset(html, at)}")
            _nest(opened, tag, html)
            at = tag.end()
        elif html[at] == "&" and (entity := _ENTITY.match(html, at)):
            shown.append(_character(entity[1]))
            at = entity.end()
        else:
            shown.append(html[at])
            at += 1
    if opened:
        raise MarkupError(f'Can\'t find end tag corresponding to start tag "{opened[-1]}"')
    return "".join(shown)


def _nest(opened: list[str], tag: re.Match[str], html: str) -> None:
    name = tag[2].lower()
    place = _offset(html, tag.start())
    if tag[1]:
        if not opened:
            raise MarkupError(f"Unexpected end tag at byte offset {place}")
        if opened[-1] != name:
            raise MarkupError(
                f'Unmatched end tag at byte offset {place}, expected "</{opened[-1]}>", '
                f'found "</{name}>"'
            )
        opened.pop()
        return
    if name not in _TAGS:
        raise MarkupError(f'Unsupported start tag "{name}" at byte offset {place}')
    if name == "blockquote" and name in opened:
        raise MarkupError(f"Blockquotes can't be nested, at byte offset {place}")
    opened.append(name)


def _character(name: str) -> str:
    if name in _NAMED:
        return _NAMED[name]
    digits = name[1:]
    number = int(digits[1:], base=16) if digits[0] in "xX" else int(digits)
    return chr(number) if number <= 0x10FFFF else "\ufffd"


def _offset(html: str, at: int) -> int:
    return len(html[:at].encode("utf-8", "surrogatepass"))

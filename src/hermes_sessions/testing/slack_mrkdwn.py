"""Slack's markup as its clients show it."""

from __future__ import annotations

import re
from typing import Final

_CODE: Final = re.compile(r"```\n?(?P<block>.+?)\n?```|`(?P<code>[^`\n]+)`", re.DOTALL)
_CONTROL: Final = re.compile(r"<(?P<inside>[^<>\n]*)>")
_EMPHASIS: Final = re.compile(r"(?<![\w*_~])([*_~])(?=\S)([^\n]+?)(?<=\S)\1(?![\w*_~])")
_ENTITY: Final = re.compile(r"&(amp|lt|gt);")
_SIGNS: Final = {"amp": "&", "lt": "<", "gt": ">"}


def shown_text(mrkdwn: str) -> str:
    """Return what people read of a message."""
    pieces: list[str] = []
    at = 0
    for code in _CODE.finditer(mrkdwn):
        inside = code["block"] or code["code"]
        pieces += (_prose(mrkdwn[at : code.start()]), unescape(inside))
        at = code.end()
    pieces.append(_prose(mrkdwn[at:]))
    return "".join(pieces)


def unescape(text: str) -> str:
    """Return *text* with the signs that were escaped."""
    return _ENTITY.sub(lambda entity: _SIGNS[entity[1]], text)


def escape(text: str) -> str:
    """Return what a client sends when somebody types *text*; links and mentions are not found."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _prose(text: str) -> str:
    text = _CONTROL.sub(lambda control: control["inside"].rpartition("|")[2], text)
    for _ in range(3):  # emphasis in emphasis
        text = _EMPHASIS.sub(r"\2", text)
    return unescape(text)

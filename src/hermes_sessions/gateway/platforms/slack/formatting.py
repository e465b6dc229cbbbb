"""Markdown as Slack shows it: its own *mrkdwn*.

``*bold*``, ``_italic_``, ``~strike~``, code between ticks, ``<address|label>``. ``&``, ``<`` and
``>`` are escaped, which is all that makes a text longer; Slack counts what it is sent.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from hermes_sessions.gateway.platforms.markdown import SymbolMarkup, inline_pattern

_SAFE_ADDRESS: Final = re.compile(r"(?:https?|mailto|tel):", re.IGNORECASE)


def to_mrkdwn(markdown: str) -> str:
    """Return *markdown* in Slack's own markup; as it stands where nothing would be left."""
    return _MRKDWN.show(markdown)


def escape(text: str) -> str:
    """Return *text* so that Slack finds no control sequence in it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class _Mrkdwn(SymbolMarkup):
    bullet: ClassVar[str] = "•"
    pattern: ClassVar[re.Pattern[str]] = inline_pattern(
        # People and channels may be named as Slack names them; `<!channel>` calls everybody, and
        # may not.
        r"(?P<named><@[UW][A-Z0-9]{2,30}>|<\#C[A-Z0-9]{2,30}>)",
        r"<(?P<bare>(?:https?://|mailto:)[^\s<>|]+)>",
    )

    def escape(self, text: str) -> str:
        return escape(text)

    def quotation(self, found: re.Match[str]) -> str:
        return f">{self.inline(found[1])}" if found[1].strip() else escape(found[0])

    def link(self, found: re.Match[str], depth: int) -> str:  # noqa: ARG002 - a label has no marks
        """Return a link. Slack shows no markup in its label, and ends it at the first bar."""
        label, address = found["label"], found["address"]
        if not _SAFE_ADDRESS.match(address) or "|" in address:
            return escape(found[0])
        if label == address:
            return f"<{escape(address)}>"
        if "|" in label:
            return f"{escape(label)} <{escape(address)}>"
        return f"<{escape(address)}|{escape(label)}>"

    def other(self, found: re.Match[str]) -> str:
        return f"<{escape(found['bare'])}>" if found["bare"] else found["named"]


_MRKDWN: Final = _Mrkdwn()

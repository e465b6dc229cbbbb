"""Convert Markdown to Slack's *mrkdwn*.

``*bold*``, ``_italic_``, ``~strike~``, code in backticks, ``<URL|label>``. ``&``, ``<`` and ``>``
are escaped; only that makes a text longer, and Slack counts the escaped text.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from hermes_sessions.gateway.platforms.markdown import SymbolMarkup, inline_pattern

_SAFE_ADDRESS: Final = re.compile(r"(?:https?|mailto|tel):", re.IGNORECASE)


def to_mrkdwn(markdown: str) -> str:
    """Return *markdown* as mrkdwn; unchanged if nothing would be left."""
    return _MRKDWN.show(markdown)


def escape(text: str) -> str:
    """Return *text* with Slack's control characters escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class _Mrkdwn(SymbolMarkup):
    bullet: ClassVar[str] = "•"
    pattern: ClassVar[re.Pattern[str]] = inline_pattern(
        # Mentions of users and channels are allowed; `<!channel>`, which notifies all members, is
        # not.
        r"(?P<named><@[UW][A-Z0-9]{2,30}>|<\#C[A-Z0-9]{2,30}>)",
        r"<(?P<bare>(?:https?://|mailto:)[^\s<>|]+)>",
    )

    def escape(self, text: str) -> str:
        return escape(text)

    def quotation(self, found: re.Match[str]) -> str:
        return f">{self.inline(found[1])}" if found[1].strip() else escape(found[0])

    def link(self, found: re.Match[str], depth: int) -> str:  # noqa: ARG002 - a label has no marks
        """Return a link. Slack renders no markup in its label, and ends it at the first bar."""
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

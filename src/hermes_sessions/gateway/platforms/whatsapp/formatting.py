"""Convert Markdown to WhatsApp's markup: ``*bold*``, ``_italic_``, ``~strike~``, code in backticks.

WhatsApp refuses no markup, and cannot escape its special characters. The result is never longer
than the Markdown, so that a part that fits the limit still does.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from hermes_sessions.gateway.platforms.markdown import SymbolMarkup


def to_whatsapp(markdown: str) -> str:
    """Return *markdown* in WhatsApp's markup; unchanged if nothing would be left."""
    return _MARKUP.show(markdown)


class _WhatsAppMarkup(SymbolMarkup):
    bullet: ClassVar[str] = "-"

    def escape(self, text: str) -> str:
        return text

    def quotation(self, found: re.Match[str]) -> str:
        before = found[0][: found.start(1)]
        return f"{before}{self.inline(found[1])}"

    def link(self, found: re.Match[str], depth: int) -> str:
        """Return a link as text: WhatsApp makes links only of URLs."""
        label, address = found["label"], found["address"]
        return address if label == address else f"{self.inline(label, depth)} ({address})"


_MARKUP: Final = _WhatsAppMarkup()

"""Marks inside a line as HTML: Matrix and Telegram differ in the tags and addresses they allow.

Everything is escaped, and tags are nested because they are made from nested pieces: whoever shows
it can read it, whatever was written.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from hermes_sessions.gateway.platforms.markdown import DEEPEST, inline_pattern, rewrite

_PATTERN: Final = inline_pattern()


def escape(text: str) -> str:
    """Return *text* as it stands between tags."""
    return html.escape(text, quote=False)


class InlineHtml:
    """Writes what stands in a line."""

    def __init__(self, *, tags: Mapping[str, str], addresses: re.Pattern[str]) -> None:
        """*tags* by the groups of `inline_pattern` that stand for emphasis; links whose address
        does not begin as *addresses* says are left as they are written.
        """
        self._tags = tags
        self._addresses = addresses

    def show(self, text: str, depth: int = 0) -> str:
        """Return *text*, inside so many marks, as HTML."""
        if depth > DEEPEST:
            return escape(text)
        return rewrite(_PATTERN, text, found=partial(self._marked, depth=depth + 1), rest=escape)

    def _marked(self, found: re.Match[str], depth: int) -> str:
        if found["escaped"]:
            return escape(found["escaped"][1:])
        if found["code"]:
            return f"<code>{escape(found['code'])}</code>"
        if found["label"]:
            return self._link(found, depth)
        tag, inside = next((tag, found[name]) for name, tag in self._tags.items() if found[name])
        return f"<{tag}>{self.show(inside, depth)}</{tag}>"

    def _link(self, found: re.Match[str], depth: int) -> str:
        if not self._addresses.match(found["address"]):
            return escape(found[0])
        address = html.escape(found["address"])
        return f'<a href="{address}">{self.show(found["label"], depth)}</a>'

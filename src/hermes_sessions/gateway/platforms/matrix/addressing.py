"""Whether a message in a room is for the bot, and what it says besides the bot's name. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from hermes_sessions.gateway.platforms.matrix.identifiers import local_part

Record = Mapping[str, Any]

#: What clients without a better way put before an answer: lines of the message that it answers.
_FALLBACK: Final = re.compile(r"> (?:\* )?<(@[^>\s]+)> ?([^\n]*(?:\n>[^\n]*)*)\n\n?")
_BANG: Final = re.compile(r"!([A-Za-z][A-Za-z_-]*)(?=\s|$)")


@dataclass(frozen=True, slots=True)
class Fallback:
    """The words that an answer repeats."""

    author: str
    text: str


@dataclass(frozen=True, slots=True)
class Addressee:
    """The bot, as people call it."""

    user_id: str
    #: What the room shows for it.
    display_name: str | None = None
    #: Names of commands, which may also be written with an exclamation mark: clients keep what
    #: begins with a slash for themselves.
    commands: frozenset[str] = frozenset()

    def is_meant(self, content: Record, text: str) -> bool:
        """Tell whether a message mentions the bot, or is a command; *text* is all that it says."""
        mentions = content.get("m.mentions")
        if isinstance(mentions, Mapping):
            named = mentions.get("user_ids")
            if isinstance(named, list) and self.user_id in named:
                return True
        if text.startswith("/") or self.user_id in text or self._opening().match(text):
            return True
        markup = content.get("formatted_body")
        if not isinstance(markup, str):
            return False
        links = (self.user_id, quote(self.user_id, safe="@:"), quote(self.user_id, safe=""))
        return any(f"matrix.to/#/{link}" in markup for link in links)

    def without_name(self, text: str) -> str:
        """Return *text* without the bot's name at its beginning."""
        found = self._opening().match(text)
        return text[found.end() :] if found else text

    def as_command(self, text: str) -> str:
        """Return ``!new`` as ``/new``, if there is such a command; anything else as it is."""
        found = _BANG.match(text)
        if found and found[1].lower() in self.commands:
            return f"/{text[1:]}"
        return text

    def _opening(self) -> re.Pattern[str]:
        whole, short = re.escape(self.user_id), re.escape(local_part(self.user_id))
        shown = f"|{re.escape(self.display_name)}" if self.display_name else ""
        # A name without a sign before it must be followed by one: "Hermes is a god" is no address.
        # After a short name with one, a colon may be a part of the id of somebody else.
        opening = rf"(?:{whole}(?:[,:]|(?=\s|$))|@{short}[,:]?(?=\s|$)|(?:{short}{shown})[,:])\s*"
        return re.compile(opening, re.IGNORECASE)


def split_fallback(content: Record, text: str) -> tuple[Fallback | None, str]:
    """Return what an answer repeats, and what it says itself."""
    relation = content.get("m.relates_to")
    if not isinstance(relation, Mapping) or "m.in_reply_to" not in relation:
        return None, text
    found = _FALLBACK.match(text)
    if found is None:
        return None, text
    lines = found[2].split("\n")
    quoted = "\n".join([lines[0], *(re.sub(r"^> ?", "", line) for line in lines[1:])])
    return Fallback(found[1], quoted), text[found.end() :]

"""How the two lines on which Slack is heard hand over what they hear."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


class NotTaken(Exception):
    """A message could not be taken, and should be offered again."""


#: Takes a payload, None for one that cannot be read; raises `NotTaken` when it must not be
#: confirmed.
Take = Callable[[object], Awaitable[None]]

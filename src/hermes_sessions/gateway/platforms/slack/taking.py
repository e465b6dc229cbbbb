"""How the two lines on which Slack is heard hand over what they hear."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


class NotTaken(Exception):
    """A message could not be taken, and should be offered again."""

    def __init__(self, *, is_expected: bool) -> None:
        """*is_expected*: the gateway said why; it may take as long as it takes."""
        self.is_expected = is_expected
        super().__init__()


#: Takes a payload, None for one that cannot be read; raises `NotTaken` when it must not be
#: confirmed.
Take = Callable[[object], Awaitable[None]]

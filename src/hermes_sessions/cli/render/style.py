"""How output may be decorated: colour, line drawing, width."""

from __future__ import annotations

from typing import NamedTuple


class Style(NamedTuple):
    """What the reader of the output can see. The default is a pipe: no colour, any width."""

    colour: bool = False
    #: Decorate with ASCII only; stored text is shown as it is either way.
    ascii_only: bool = False
    #: Columns of the terminal; None when lines may be as long as the layout likes.
    width: int | None = None

    @property
    def line(self) -> str:
        """The character that rules are drawn with."""
        return "-" if self.ascii_only else "─"

    @property
    def nothing(self) -> str:
        """What stands in a cell that has no value."""
        return "-" if self.ascii_only else "—"

    @property
    def ellipsis(self) -> str:
        """What ends a text that was cut."""
        return "..." if self.ascii_only else "…"

    @property
    def pin(self) -> str:
        """What stands before the name of a session that is pinned."""
        return "*" if self.ascii_only else "★"

    @property
    def separator(self) -> str:
        """What stands between facts on one line."""
        return " | " if self.ascii_only else " · "

    def bold(self, text: str) -> str:
        """Return *text* emphasised."""
        return self._painted("1", text)

    def dim(self, text: str) -> str:
        """Return *text* in the background."""
        return self._painted("2", text)

    def gold(self, text: str) -> str:
        """Return *text* in the colour of what people say."""
        return self._painted("33", text)

    def green(self, text: str) -> str:
        """Return *text* in the colour of what models say."""
        return self._painted("32", text)

    def match(self, text: str) -> str:
        """Return *text* in the colour of what was searched for, or between marks without one."""
        return self._painted("1;31", text) if self.colour else f">>>{text}<<<"

    def _painted(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text

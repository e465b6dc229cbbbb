"""The style of output: colour, line drawing, width."""

from typing import NamedTuple


class Style(NamedTuple):
    """The capabilities of the output. The default is a pipe: no colour, any width."""

    colour: bool = False
    #: Decorate with ASCII only; does not affect stored text.
    ascii_only: bool = False
    #: Columns of the terminal; None for no limit.
    width: int | None = None

    @property
    def line(self) -> str:
        """The character for horizontal rules."""
        return "-" if self.ascii_only else "─"

    @property
    def nothing(self) -> str:
        """The text of an empty cell."""
        return "-" if self.ascii_only else "—"

    @property
    def ellipsis(self) -> str:
        """The end of a text that was cut."""
        return "..." if self.ascii_only else "…"

    @property
    def pin(self) -> str:
        """The mark before the name of a pinned session."""
        return "*" if self.ascii_only else "★"

    @property
    def separator(self) -> str:
        """The separator between facts on one line."""
        return " | " if self.ascii_only else " · "

    def bold(self, text: str) -> str:
        """Return *text* in bold."""
        return self._painted("1", text)

    def dim(self, text: str) -> str:
        """Return *text* dimmed."""
        return self._painted("2", text)

    def gold(self, text: str) -> str:
        """Return *text* in the colour of user messages."""
        return self._painted("33", text)

    def green(self, text: str) -> str:
        """Return *text* in the colour of model answers."""
        return self._painted("32", text)

    def match(self, text: str) -> str:
        """Return *text* in the colour of search matches; without colour, between marks."""
        return self._painted("1;31", text) if self.colour else f">>>{text}<<<"

    def _painted(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text

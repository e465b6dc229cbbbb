"""What keys do: the text that is searched for, the list, and the row that is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from hermes_sessions.cli.browse.rows import Row

#: Returns the rows that a text finds; they are taken as they are needed.
Find = Callable[[str], Iterator[Row]]
#: So many rows beyond those that were looked at are kept ready.
_AHEAD: Final = 50


class Picker:
    """The state of the list; the terminal shows it and tells it which key was pressed."""

    def __init__(self, find: Find, *, page: int = 10) -> None:
        self._find = find
        #: How many rows a page has.
        self.page = page
        self.text = ""
        self.rows: list[Row] = []
        self.selected = 0
        #: Whether somebody left without choosing.
        self.left = False
        self._search()

    @property
    def chosen(self) -> Row | None:
        """The row under the cursor, None in an empty list."""
        return self.rows[self.selected] if self.rows else None

    @property
    def has_more(self) -> bool:
        """Whether the list may go on behind the rows taken so far."""
        return self._has_more

    def type(self, text: str) -> None:
        """Search for more; a ``q`` leaves while nothing was typed."""
        if text == "q" and not self.text:
            self.leave()
        elif text.isprintable():
            self._change(self.text + text)

    def erase(self) -> None:
        """Take the last character back."""
        self._change(self.text[:-1])

    def clear(self) -> None:
        """Take back all that was typed."""
        self._change("")

    def escape(self) -> None:
        """Clear the search; with nothing to clear, leave."""
        if self.text:
            self.clear()
        else:
            self.leave()

    def leave(self) -> None:
        """Choose nothing."""
        self.left = True

    def move(self, steps: int) -> None:
        """Go down, or up with a negative number; one step beyond an end leads to the other."""
        if not self.rows:
            return
        wanted = self.selected + steps
        self._take(wanted + _AHEAD)
        last = len(self.rows) - 1
        if abs(steps) == 1 and not 0 <= wanted <= last:
            self.selected = 0 if wanted > last else last
        else:
            self.selected = min(max(wanted, 0), last)

    def first(self) -> None:
        """Go to the first row."""
        self.selected = 0

    def last(self) -> None:
        """Go to the last of the rows taken so far."""
        self.selected = max(len(self.rows) - 1, 0)

    def _change(self, text: str) -> None:
        if text != self.text:
            self.text = text
            self._search()

    def _search(self) -> None:
        self._coming = self._find(self.text)
        self._has_more = True
        self.rows, self.selected = [], 0
        self._take(_AHEAD)

    def _take(self, count: int) -> None:
        missing = count - len(self.rows)
        if missing > 0 and self._has_more:
            more = list(islice(self._coming, missing))
            self.rows += more
            self._has_more = len(more) == missing

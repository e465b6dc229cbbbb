"""The screen of a terminal after the bytes it received: the subset of a VT100 that we need."""

import re

from wcwidth import wcwidth

_SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\x1b[=>78]")


class Emulator:
    """Rows of text, including those that have scrolled out."""

    def __init__(self, columns: int, height: int = 30) -> None:
        self.columns = columns
        self.height = height
        self.rows: list[list[str]] = [[]]
        #: The first row that is still on the screen, and the cursor.
        self.top = self.row = self.column = 0
        self._rest = ""
        self._wraps = True
        #: Rows that continue the line above.
        self._continued: set[int] = set()

    @property
    def text(self) -> str:
        """The lines, each in one piece however often it was broken at the edge."""
        text = ""
        for number, row in enumerate(self.rows):
            line = "".join(row)
            is_broken = number + 1 in self._continued
            text += line if is_broken else line.rstrip() + "\n"
        return text.removesuffix("\n")

    def feed(self, data: str) -> None:
        data = self._rest + data
        self._rest = ""
        place = 0
        while place < len(data):
            if data[place] == "\x1b":
                found = _SEQUENCE.match(data, place)
                if found is None:
                    assert len(data) - place < 40, f"unknown: {data[place : place + 40]!r}"
                    self._rest = data[place:]
                    return
                self._control(found[1] or "", found[2] or "")
                place = found.end()
            else:
                self._put(data[place])
                place += 1

    def _control(self, numbers: str, letter: str) -> None:
        first = int(numbers.partition(";")[0]) if numbers[:1].isdigit() else 0
        count = first or 1
        match letter:
            case "A":
                self.row = max(self.top, self.row - count)
            case "B":
                self._down(count)
            case "C":
                self.column = min(self.columns - 1, self.column + count)
            case "D":
                self.column = max(0, self.column - count)
            case "H":
                self.row, self.column = self.top, 0
                self._down(count - 1)
            case "J" if first == 2:
                for row in self.rows[self.top :]:
                    row.clear()
            case "J":
                del self.rows[self.row][self.column :]
                del self.rows[self.row + 1 :]
                self._continued -= set(range(self.row + 1, self.row + 100))
            case "K":
                del self.rows[self.row][self.column :]
            case "h" | "l" if numbers == "?7":
                self._wraps = letter == "h"

    def _down(self, count: int) -> None:
        for _ in range(count):
            self.row = min(self.row + 1, self.top + self.height - 1)
            while len(self.rows) <= self.row:
                self.rows.append([])

    def _put(self, character: str) -> None:
        if character == "\n":
            self.row += 1
            if self.row - self.top >= self.height:
                self.top += 1
            if len(self.rows) <= self.row:
                self.rows.append([])
        elif character == "\r":
            self.column = 0
        elif character == "\b":
            self.column = max(0, self.column - 1)
        elif character >= " ":
            width = max(wcwidth(character), 0)
            if self.column + width > self.columns and self._wraps:
                self.column = 0
                self._put("\n")
                self._continued.add(self.row)
            row = self.rows[self.row]
            row.extend(" " * (self.column - len(row)))
            row[self.column : self.column + width] = [character, *[""] * (width - 1)]
            self.column += width

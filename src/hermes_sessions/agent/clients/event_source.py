"""Server-sent events out of bytes, wherever the bytes are cut.

Own code because lines end at ``\\n``, ``\\r`` and ``\\r\\n`` alone: what splits text at Unicode's
line separators breaks JSON that contains one.
"""

from __future__ import annotations

import re

from hermes_sessions.agent.clients.port import ModelGarbled

_LINE_END = re.compile(rb"\r\n|\n|\r")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

#: One event of a reply is a few bytes; whoever sends this much without an end sends something else.
MAX_EVENT_BYTES = 32 * 1024**2


class EventSource:
    """Takes bytes in any portions and returns the data of the events that are complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._at_start = True
        self._data: list[str] = []
        self._size = 0

    def feed(self, portion: bytes) -> list[str]:
        """Return the data of every event that ``portion`` completes.

        Raises ModelGarbled when an event has no end.
        """
        buffer = self._rest + portion
        if self._at_start:
            if BYTE_ORDER_MARK.startswith(buffer):
                self._rest = buffer
                return []
            buffer = buffer.removeprefix(BYTE_ORDER_MARK)
            self._at_start = False
        # A carriage return at the end may be half of a line's end.
        usable = len(buffer) - buffer.endswith(b"\r")
        events: list[str] = []
        begin = 0
        for end in _LINE_END.finditer(buffer, 0, usable):
            self._take(buffer[begin : end.start()], events)
            begin = end.end()
        self._rest = buffer[begin:]
        if len(self._rest) + self._size > MAX_EVENT_BYTES:
            raise ModelGarbled(
                f"The endpoint sent more than {MAX_EVENT_BYTES // 1024**2} MB without an end."
            )
        return events

    def end(self) -> list[str]:
        """Return what the end of the bytes completes: servers forget the last blank line."""
        events: list[str] = []
        self._take(self._rest.removesuffix(b"\r"), events)
        self._take(b"", events)
        self._rest = b""
        return events

    def _take(self, line: bytes, events: list[str]) -> None:
        if not line:
            if self._data:
                events.append("\n".join(self._data))
            self._data, self._size = [], 0
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
            self._size += len(value)

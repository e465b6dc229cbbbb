"""What signal-cli handed over and the gateway has not stored yet: a local file.

signal-cli has no acknowledgement: what it wrote to the connection, it has forgotten. So that a
killed process loses nothing that it read, every message is on disk before it is offered to the
gateway, and stays there until it is stored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from hermes_sessions.gateway.events import Inbound
from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)


class Journal:
    """One file, a message in each line. Its methods block, and are called by one thread at a time.

    Raises:
        OSError: the disk is full, or the folder cannot be written to.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, messages: Iterable[Inbound]) -> None:
        """Write messages; they are on disk when this returns, or none of them is."""
        lines = b"".join(json.dumps(each.to_dict()).encode() + b"\n" for each in messages)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        try:
            end = os.lseek(descriptor, 0, os.SEEK_END)
            try:
                # A write may be cut short where the disk is full.
                written = 0
                while written < len(lines):
                    written += os.write(descriptor, lines[written:])
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, end)
                raise
        finally:
            os.close(descriptor)

    def read(self) -> list[Inbound]:
        """Return what an earlier process left, in order."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return []
        # What follows the last end of a line was being written when the process died.
        *lines, rest = content.split(b"\n")
        if rest:
            os.truncate(self._path, len(content) - len(rest))
        messages = []
        for line in lines:
            try:
                messages.append(Inbound.from_dict(json.loads(line)))
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                aside = self._path.with_suffix(".unreadable")
                with aside.open("ab") as kept:
                    kept.write(line + b"\n")
                logger.warning("signal: a line of %s was put aside: %r", self._path.name, error)
        return messages

    def clear(self) -> None:
        """Forget everything: it is stored."""
        self._path.unlink(missing_ok=True)

"""A local file of messages that signal-cli has delivered and the gateway has not stored yet.

signal-cli has no acknowledgements: it forgets a message once it is written to the connection. So
every message is on disk before it is delivered to the gateway, and stays there until it is stored;
a killed process loses nothing that it read.
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
    """One file with one message per line. Its methods block, and must be called by one thread at a
    time.

    Raises:
        OSError: the disk is full, or the folder is not writable.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, messages: Iterable[Inbound]) -> None:
        """Write messages; when this returns, all of them are on disk. On an error, none is."""
        lines = b"".join(json.dumps(each.to_dict()).encode() + b"\n" for each in messages)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        try:
            end = os.lseek(descriptor, 0, os.SEEK_END)
            try:
                # A write may be incomplete if the disk is full.
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
        """Return the messages of an earlier process, in order."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return []
        # The process died while it wrote the text after the last line end.
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
                logger.warning(
                    "signal: an unreadable line of %s was skipped: %r", self._path.name, error
                )
        return messages

    def clear(self) -> None:
        """Delete all messages: they are stored."""
        self._path.unlink(missing_ok=True)

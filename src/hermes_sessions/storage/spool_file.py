"""One file of a spool: one entry per line, and a second file with the number of replayed lines.

Only the process that holds its lock may change it. A file without a lock belongs to a dead process.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

SUFFIX: Final = ".spool"
DONE: Final = ".done"
#: A file that is not locked yet; other processes ignore it instead of taking it over.
COMING: Final = ".coming"
UNREADABLE: Final = ".unreadable"
REFUSED: Final = ".refused"
#: Seconds to wait for a process that has a file locked, and between two attempts.
_PATIENCE: Final = 30.0
_NAP: Final = 0.01


class SpoolFile:
    """One entry per line, and a second file with the number of replayed lines."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._done = number_in(path.with_suffix(DONE))

    @classmethod
    def create(cls, directory: Path) -> SpoolFile:
        """Create a locked file, and its directory if it is missing.

        Raises:
            OSError: the file cannot be created.
        """
        make_private(directory)
        path = directory / f"{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        coming = path.with_suffix(COMING)
        descriptor = os.open(coming, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # Locked before it gets its name. Otherwise another process could take it over as the
            # file of a dead process, and remove it while this one writes to it.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            coming.rename(path)
            _sync_directory(directory)
        except OSError:
            os.close(descriptor)
            raise
        return cls(path, descriptor)

    @classmethod
    def take_over(cls, path: Path) -> SpoolFile | None:
        """Lock the file and return it; None while its process lives, or if it does not exist."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if not _is_at(path, descriptor):
            # Its owner finished between open and lock; its entries are stored.
            os.close(descriptor)
            return None
        return cls(path, descriptor)

    @property
    def is_there(self) -> bool:
        """Whether `path` still leads to this file. If another program removed the name, the entries
        can still be read here.
        """
        return _is_at(self.path, self._descriptor)

    def append(self, values: Mapping[str, Any]) -> None:
        """Add an entry; it is on disk when this returns.

        Raises:
            OSError: the entry was not written.
        """
        self.append_line(json.dumps(values).encode() + b"\n")

    def append_line(self, line: bytes) -> None:
        """Add a line without encoding it; see `append`."""
        end = os.lseek(self._descriptor, 0, os.SEEK_END)
        try:
            # A write may be cut short where the disk is full.
            written = 0
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, end)
            raise

    def unread(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that were not replayed, with their numbers."""
        # By the descriptor: the entries must survive if another program removed the name.
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            file.seek(0)
            for number, line in enumerate(file, 1):
                # A line without its end was never acknowledged: the process died while writing.
                if number > self._done and line.endswith(b"\n"):
                    yield number, line

    def put_aside(self, line: bytes, why: Exception) -> None:
        """Keep an unreadable line in a separate file, so that it blocks no other."""
        aside = self.path.with_suffix(UNREADABLE)
        append_to(aside, line)
        logger.warning("a spooled entry cannot be read, it was kept in %s: %s", aside, why)

    def close_with(self, lines: list[bytes]) -> None:
        """Write lines without encoding them, then release the file."""
        try:
            for line in lines:
                self.append_line(line)
        finally:
            self.close(remove=False)

    def mark_read(self, number: int) -> None:
        """Record that the entries up to this one were replayed."""
        # Not synced, and a failure is harmless: the database recognises a second replay.
        self._done = number
        with suppress(OSError):
            _write_private(self.path.with_suffix(DONE), str(number).encode(), os.O_TRUNC)

    def remove(self) -> None:
        """Release the file and delete it."""
        self.close(remove=True)

    def close(self, *, remove: bool) -> None:
        """Release the file; with *remove*, delete it as well."""
        if remove:
            self.path.unlink(missing_ok=True)
            self.path.with_suffix(DONE).unlink(missing_ok=True)
        os.close(self._descriptor)


def append_to(path: Path, line: bytes) -> None:
    """Add a line to a file that only its owner can read; it is on disk when this returns.

    Raises:
        OSError: the line was not written, for example because another process keeps the file
            locked.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            _lock(path, descriptor, until)
            if not _is_at(path, descriptor):
                continue  # `take_lines` was first.
            file.write(line)
            file.flush()
            os.fsync(descriptor)
        _sync_directory(path.parent)
        return


def take_lines(path: Path, use: Callable[[list[bytes]], list[bytes]]) -> None:
    """Pass the lines of a file written by `append_to` to *use*, and keep only the lines that it
    returns; `append_to` waits meanwhile. No-op if the file does not exist.

    Raises:
        OSError: the file cannot be read, locked or changed.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb") as file:
        _lock(path, descriptor, time.monotonic() + _PATIENCE)
        if not _is_at(path, descriptor):
            return
        left = use(file.readlines())
        if left:
            new = path.with_suffix(".rewritten")
            _write_private(new, b"".join(left), os.O_TRUNC, sync=True)
            new.replace(path)
        else:
            path.unlink()
        _sync_directory(path.parent)


def _lock(path: Path, descriptor: int, until: float) -> None:
    while time.monotonic() < until:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_NAP)
        else:
            return
    raise TimeoutError(
        errno.ETIMEDOUT,
        "another process has locked the file and does not release it: end that process",
        str(path),
    )


def _write_private(path: Path, data: bytes, how: int, *, sync: bool = False) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(descriptor)


def make_private(directory: Path) -> None:
    """Create a directory and its missing parents, accessible to their owner only."""
    for missing in reversed([each for each in directory.parents if not each.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def number_in(path: Path) -> int:
    """Return the number in a file; 0 if the file is missing or has no number."""
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return 0


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

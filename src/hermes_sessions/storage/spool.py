"""A local file of entries that the database could not store, kept in order until it can.

An entry is on disk before its sender is told that it was kept. When the database is available
again, the file is replayed from its beginning. Each entry carries a mark by which the database
recognises an entry that it already has. So each one is stored once, although the file records its
progress only after the database has committed.

Each process has its own file, locked as long as the process lives. The next process on this machine
takes over the files of dead ones.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.storage.logs import Logger, where
from hermes_sessions.storage.spool_file import (
    DONE,
    REFUSED,
    SUFFIX,
    UNREADABLE,
    SpoolFile,
    append_to,
    make_private,
    number_in,
    take_lines,
)

logger = Logger(__name__)

T = TypeVar("T")

_ASIDE: Final = (UNREADABLE, REFUSED)


class EntryFormat(NamedTuple, Generic[T]):
    """How an entry is converted to JSON and back."""

    write: Callable[[T], Mapping[str, Any]]
    #: Raises ValueError, TypeError or KeyError for values that are not a valid entry.
    read: Callable[[Any], T]


class Spool(Generic[T]):
    """The spool of one process, in *directory*; thread-safe. POSIX only."""

    def __init__(self, directory: Path, form: EntryFormat[T]) -> None:
        self._directory = directory
        self._form = form
        self._lock = threading.Lock()
        self._own: SpoolFile | None = None
        self._waiting = 0

    def adopt(self) -> int:
        """Take over the files of dead processes, the least recently written first; return how many
        entries wait.

        Raises:
            OSError: a file could not be taken over and is unchanged; the others were taken over.
        """
        failure: OSError | None = None
        with self._lock:
            for path in _oldest_first(self._directory):
                if self._own is not None and path == self._own.path:
                    continue
                try:
                    left = SpoolFile.take_over(path)
                    if left is not None:
                        self._take(left)
                except OSError as error:
                    failure = failure or error
            if failure is not None:
                raise failure
            return self._waiting

    def _take(self, left: SpoolFile) -> None:
        is_taken = False
        try:
            for _, entry in self._unread(left):
                self._append(entry)
            is_taken = True
        finally:
            left.close(remove=is_taken)

    def put_aside(self, entry: T, why: Exception) -> None:
        """Keep an entry that the database refuses in a separate file, so that it blocks no other.

        Raises:
            OSError: the entry could not be written.
        """
        make_private(self._directory)
        aside = self._directory / f"{os.getpid()}{REFUSED}"
        values = {**self._form.write(entry), "refused": str(why)}
        append_to(aside, json.dumps(values).encode() + b"\n")
        # The text of an error that is not ours may contain a user's message.
        shown = why if isinstance(why, HermesSessionsError) else where(why)
        logger.warning("an entry is refused, it was kept in %s: %s", aside, shown)

    def kept(self) -> list[T]:
        """Return the readable entries that any process put aside in the directory.

        Raises:
            OSError: a file cannot be read.
        """
        lines = [line for path in self._aside() for line in _lines(path)]
        return [found for line in lines if (found := self._read_aside(line)) is not None]

    def requeue_set_aside(self) -> int:
        """Queue the entries that were put aside again, for the next process that calls `adopt`;
        return how many. Unreadable entries stay put aside.

        Raises:
            OSError: a file cannot be changed, and stays as it is.
        """
        number = 0

        def use(lines: list[bytes]) -> list[bytes]:
            nonlocal number
            found = [(line, self._read_aside(line)) for line in lines]
            readable = [entry for _, entry in found if entry is not None]
            if readable:
                # On disk before it leaves the other file. A duplicate is stored only once.
                file = SpoolFile.create(self._directory)
                file.close_with(
                    [json.dumps(self._form.write(entry)).encode() + b"\n" for entry in readable]
                )
            number += len(readable)
            return [line for line, entry in found if entry is None]

        for path in self._aside():
            take_lines(path, use)
        return number

    def _aside(self) -> list[Path]:
        return [path for path in _files_below(self._directory) if path.suffix in _ASIDE]

    def _read_aside(self, line: bytes) -> T | None:
        try:
            values = json.loads(line)
            values.pop("refused", None)
            return self._form.read(values)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    @property
    def directory(self) -> Path:
        """The directory of the files; it need not exist."""
        return self._directory

    @property
    def waiting(self) -> int:
        """How many entries wait for the database."""
        return self._waiting

    def append(self, entry: T) -> None:
        """Write an entry to disk; it is durable when this returns.

        Raises:
            OSError: the entry was not kept, and the caller must not report that it was.
        """
        with self._lock:
            self._append(entry)

    def _append(self, entry: T) -> None:
        if self._own is None:
            self._own = SpoolFile.create(self._directory)
        elif not self._own.is_there:
            removed, self._own = self._own, SpoolFile.create(self._directory)
            for _, line in removed.unread():
                self._own.append_line(line)
            removed.close(remove=False)
        self._own.append(self._form.write(entry))
        self._waiting += 1

    def replay(self, store: Callable[[T], None]) -> int:
        """Pass every waiting entry to *store*, in order, and remove it; return how many.

        `append` blocks meanwhile. An exception from *store* ends the replay; its entry and those
        after it stay.
        """
        with self._lock:
            if self._own is None:
                return 0
            done = 0
            for number, entry in self._unread(self._own):
                store(entry)
                self._own.mark_read(number)
                self._waiting -= 1
                done += 1
            self._own.remove()
            self._own = None
            self._waiting = 0
            return done

    def close(self) -> None:
        """Release the file; entries that wait in it are replayed at the next start."""
        with self._lock:
            if self._own is not None:
                self._own.close(remove=self._waiting == 0)
                self._own = None

    def _unread(self, file: SpoolFile) -> Iterator[tuple[int, T]]:
        """Yield the entries that were not replayed, with their line numbers."""
        for number, line in file.unread():
            try:
                entry = self._form.read(json.loads(line))
            except (ValueError, TypeError, KeyError) as error:
                file.put_aside(line, error)
                continue
            yield number, entry


class SpoolStatus(NamedTuple):
    """The number and age of the entries in the spools below a directory."""

    entries: int
    #: Entries that were put aside because they cannot be read or the database refuses them.
    put_aside: int
    #: The earliest modification time of a file with waiting entries; None without any.
    since: float | None

    def describe_set_aside(
        self, directory: Path, next_step: str = "Look at them, and remove the files."
    ) -> str:
        """Return the text that tells an operator about the entries put aside in *directory*."""
        return (
            f"{self.put_aside} in {directory} cannot be read or stored, and were put aside "
            f"(*{UNREADABLE}, *{REFUSED}). {next_step}"
        )


def spool_status(directory: Path) -> SpoolStatus:
    """Return the status of all spools in *directory* and below, without locking or changing them.

    Raises:
        OSError: a file or directory cannot be read.
    """
    entries = put_aside = 0
    begun: list[float] = []
    for path in _files_below(directory):
        try:
            if path.suffix == SUFFIX:
                left = _complete_lines(path) - number_in(path.with_suffix(DONE))
                if left > 0:
                    entries += left
                    begun.append(path.stat().st_mtime)
            elif path.suffix in _ASIDE:
                put_aside += _complete_lines(path)
        except FileNotFoundError:
            continue  # It was replayed meanwhile.
    return SpoolStatus(entries, put_aside, min(begun, default=None))


class RemovedEntries(NamedTuple):
    """The result of `remove_entries`."""

    removed: int
    #: Matching entries in files of running processes, which only these may change.
    in_use: int


def count_entries(directory: Path, is_meant: Callable[[bytes], bool]) -> int:
    """Return how many lines in *directory* and below match, those of running processes included,
    without locking or changing anything.
    """
    files = [path for path in _files_below(directory) if path.suffix in (SUFFIX, *_ASIDE)]
    return sum(is_meant(line) for path in files for line in _lines(path))


def remove_entries(directory: Path, is_meant: Callable[[bytes], bool]) -> RemovedEntries:
    """Remove matching lines from the files of dead processes in *directory* and below; other lines
    still wait. If this process dies meanwhile, an entry may be there twice, and is stored once.

    Raises:
        OSError: a file cannot be changed; lines that were already removed stay removed.
    """
    removed = in_use = 0
    files = _files_below(directory)
    for path in (each for each in files if each.suffix == SUFFIX):
        found = sum(map(is_meant, _lines(path)))
        if not found:
            continue
        left = SpoolFile.take_over(path)
        if left is None:
            in_use += found if path.exists() else 0
            continue
        kept = [line for _, line in left.unread() if not is_meant(line)]
        if kept:
            SpoolFile.create(path.parent).close_with(kept)
        left.remove()
        removed += found
    for path in (each for each in files if each.suffix in _ASIDE):

        def use(lines: list[bytes]) -> list[bytes]:
            nonlocal removed
            kept = [line for line in lines if not is_meant(line)]
            removed += len(lines) - len(kept)
            return kept

        take_lines(path, use)
    return RemovedEntries(removed, in_use)


def _files_below(directory: Path) -> list[Path]:
    """Return the files below *directory*, sorted; an empty list if it does not exist.

    Raises:
        OSError: a directory cannot be read, so its entries are unknown.
    """

    def fail(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    found = os.walk(directory, onerror=fail)
    return sorted(Path(directory) / name for directory, _, names in found for name in names)


def _oldest_first(directory: Path) -> list[Path]:
    """Return the spools in a directory, the least recently written first."""
    found: list[tuple[int, Path]] = []
    for path in directory.glob(f"*{SUFFIX}"):
        with suppress(FileNotFoundError):  # It was replayed meanwhile.
            found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found)]


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []  # It was replayed meanwhile.


def _complete_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(line.endswith(b"\n") for line in file)

"""What a gateway shows of itself on its host: two small files.

``.clean_shutdown`` and ``restart_counts.json`` mirror what the database knows, for people and
scripts that look there; nothing but the first start after an upgrade reads them.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from hermes_sessions.errors import StoreError
from hermes_sessions.storage.logs import Logger

# ``sessions.json``: the lanes as a file, for people and programs that read the documented format.
#
# It is an export of the database, never a second truth. It is replaced as a whole, so that a reader
# sees the old one or the new one, in the background and only so often: a thousand messages do not
# rewrite it a thousand times.


logger = Logger(__name__)


SESSIONS_JSON: Final = "sessions.json"
#: Seconds in which changes are collected before they are written.
DEFAULT_INTERVAL: Final = 2.0
#: Writing takes at most this part of the time, however many lanes there are.
_SHARE_OF_TIME: Final = 0.05
#: A target that cannot be replaced: on another file system, or mounted by itself.
_NOT_REPLACEABLE: Final = frozenset({errno.EXDEV, errno.EBUSY})


Document = Mapping[str, Any]


class SessionsJsonFile:
    """Writes what *document* returns to *path*, some time after `changed` was called.

    *pause* waits so many seconds, or until it is told to stop; tests have their own.
    """

    def __init__(
        self,
        path: Path,
        document: Callable[[], Document],
        *,
        interval: float = DEFAULT_INTERVAL,
        pause: Callable[[float], object] | None = None,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._document = document
        self._interval = interval
        self._stopped = threading.Event()
        self._pause = pause or self._stopped.wait
        self._stopwatch = stopwatch
        self._lock = threading.Lock()
        self._is_dirty = False
        self._thread: threading.Thread | None = None
        #: Nobody writes while somebody else does.
        self._writing = threading.Lock()

    def changed(self) -> None:
        """Have the file written soon; returns at once."""
        with self._lock:
            self._is_dirty = True
            # After a fork the thread is the parent's.
            if not self._stopped.is_set() and not (self._thread and self._thread.is_alive()):
                self._thread = threading.Thread(
                    target=self._run, name="hermes-sessions-json", daemon=True
                )
                self._thread.start()

    def flush(self) -> None:
        """Write the file now if something changed since it was last written.

        Raises:
            OSError: it cannot be written.
            StoreError: the lanes cannot be read.
        """
        with self._writing:
            with self._lock:
                is_dirty, self._is_dirty = self._is_dirty, False
            if not is_dirty:
                return
            try:
                write_atomically(self._path, json.dumps(self._document(), indent=2) + "\n")
            except BaseException:
                with self._lock:
                    self._is_dirty = True
                raise

    def close(self) -> None:
        """Write what has changed and stop; a second call does nothing."""
        self._stopped.set()
        self._flush_or_warn()

    def _run(self) -> None:
        interval = self._interval
        while not self._stopped.is_set():
            self._pause(interval)
            if self._stopped.is_set():
                return
            began = self._stopwatch()
            is_written = self._flush_or_warn()
            took = self._stopwatch() - began
            interval = max(self._interval, took / _SHARE_OF_TIME)
            with self._lock:
                # What could not be written is not tried over and over again.
                if not self._is_dirty or not is_written:
                    self._thread = None
                    return

    def _flush_or_warn(self) -> bool:
        try:
            self.flush()
            return True
        except (OSError, StoreError) as error:
            logger.warning(
                "%s was not written, and is behind the database until the next change: %s",
                self._path,
                error,
            )
            return False


def write_atomically(path: Path, text: str) -> None:
    """Replace a file, which nobody else may read, by another one; a link keeps pointing at it.

    What was there is there until the new one is on the disk.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=".sessions_", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            Path(name).replace(target)
        except OSError as error:
            if error.errno not in _NOT_REPLACEABLE:
                raise
            shutil.copyfile(name, target)
            with target.open("rb") as copy:
                os.fsync(copy.fileno())
            Path(name).unlink()
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


CLEAN_SHUTDOWN: Final = ".clean_shutdown"
RESTART_COUNTS: Final = "restart_counts.json"


class HostFiles:
    """The files in a home; without one, there are none."""

    def __init__(self, home: Path | None) -> None:
        self._home = home

    def write_clean_shutdown_mark(self) -> None:
        """Leave the mark of a gateway that finished what it did."""
        if self._home is not None:
            self._home.mkdir(parents=True, exist_ok=True)
            (self._home / CLEAN_SHUTDOWN).touch()

    def pop_clean_shutdown_mark(self) -> bool:
        """Remove the mark and tell whether it was there."""
        if self._home is None:
            return False
        try:
            (self._home / CLEAN_SHUTDOWN).unlink()
        except FileNotFoundError:
            return False
        return True

    def show_counts(self, counts: Mapping[str, int]) -> None:
        """Show how often lanes were found unfinished; an empty list is no file."""
        if self._home is None:
            return
        file = self._home / RESTART_COUNTS
        if not counts:
            file.unlink(missing_ok=True)
            return
        self._home.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps(dict(counts), separators=(",", ":")) + "\n")

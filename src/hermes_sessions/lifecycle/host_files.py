"""Files that a gateway writes on its host for users and scripts.

``.clean_shutdown`` and ``restart_counts.json`` mirror the database; only the first start after an
upgrade reads them.
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

# ``sessions.json``: the lanes as a file, for users and programs that read the documented format.
#
# It is an export of the database, never a second source of truth. It is replaced as a whole, so
# that a reader sees the old or the new one. A background thread writes it at bounded intervals: a
# thousand messages do not rewrite it a thousand times.


logger = Logger(__name__)


SESSIONS_JSON: Final = "sessions.json"
#: Seconds during which changes are collected before they are written.
DEFAULT_INTERVAL: Final = 2.0
#: Writing takes at most this share of the time, however many lanes there are.
_SHARE_OF_TIME: Final = 0.05
#: The target cannot be replaced: it is on another file system or a mount point.
_NOT_REPLACEABLE: Final = frozenset({errno.EXDEV, errno.EBUSY})


Document = Mapping[str, Any]


class SessionsJsonFile:
    """Writes the result of *document* to *path*, some time after `changed` was called.

    *pause* waits this many seconds or until stopped; tests pass their own.
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
        #: Only one thread writes at a time.
        self._writing = threading.Lock()

    def changed(self) -> None:
        """Schedule a write; returns at once."""
        with self._lock:
            self._is_dirty = True
            # After a fork the thread exists only in the parent.
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
        """Write pending changes and stop; a second call does nothing."""
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
                # A failed write waits for the next change.
                if not self._is_dirty or not is_written:
                    self._thread = None
                    return

    def _flush_or_warn(self) -> bool:
        try:
            self.flush()
            return True
        except (OSError, StoreError) as error:
            logger.warning(
                "%s was not written and stays out of date until the next change: %s",
                self._path,
                error,
            )
            return False


def write_atomically(path: Path, text: str) -> None:
    """Replace a file atomically, readable by its owner only; a link keeps pointing at it.

    The old content stays until the new one is on disk.
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
    """The mirror files in a home directory; with None nothing is written."""

    def __init__(self, home: Path | None) -> None:
        self._home = home

    def write_clean_shutdown_mark(self) -> None:
        """Create the mark of a gateway that finished all its work."""
        if self._home is not None:
            self._home.mkdir(parents=True, exist_ok=True)
            (self._home / CLEAN_SHUTDOWN).touch()

    def pop_clean_shutdown_mark(self) -> bool:
        """Remove the mark and return whether it existed."""
        if self._home is None:
            return False
        try:
            (self._home / CLEAN_SHUTDOWN).unlink()
        except FileNotFoundError:
            return False
        return True

    def show_counts(self, counts: Mapping[str, int]) -> None:
        """Write how often lanes were found unfinished; with an empty mapping, remove the file."""
        if self._home is None:
            return
        file = self._home / RESTART_COUNTS
        if not counts:
            file.unlink(missing_ok=True)
            return
        self._home.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps(dict(counts), separators=(",", ":")) + "\n")

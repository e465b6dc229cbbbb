"""The engines of this process: one per file, shared by all handles, and safe across forks."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hermes_sessions.errors import StoreLocked, StoreUnavailable
from hermes_sessions.storage.sqlite.connection import SQLiteOptions
from hermes_sessions.storage.sqlite.engine import MEMORY, SQLiteEngine
from hermes_sessions.storage.sqlite.file_access import can_write, inode_of
from hermes_sessions.storage.sqlite.fork_safety import await_imports, forked_while_in_use
from hermes_sessions.storage.sqlite.opener import open_engine, open_memory

#: How long a fork waits for running reads and writes.
FORK_PATIENCE: Final = 5.0


class SharedEngines:
    """Engines by real path; each counts the handles on it."""

    def __init__(self) -> None:
        # Reentrant, because a garbage-collected object may close its handle at any allocation. Held
        # only briefly: nothing waits for a file, a lock or a thread inside.
        self._lock = threading.RLock()
        self._by_path: dict[tuple[str, bool], SQLiteEngine] = {}
        #: Including closed ones that are still reading or writing.
        self._alive: weakref.WeakSet[SQLiteEngine] = weakref.WeakSet()
        #: Files that are being opened, and how many threads are waiting.
        self._openings: dict[str, tuple[threading.Lock, int]] = {}
        self._forking: list[SQLiteEngine] = []
        #: Files whose locks this process believes to hold but does not.
        self._lost: dict[tuple[int, ...], str] = {}

    def acquire(self, path: Path, options: SQLiteOptions) -> SQLiteEngine:
        """Return the engine on *path* with one more handle; see `open_engine` for errors."""
        if str(path) == MEMORY:
            return self._register(open_memory(options), None)
        real = os.path.realpath(path)
        key = (real, options.read_only)
        with self._one_opener(real, options.lock_timeout):
            with self._lock:
                self._refuse_lost(real)
                engine = self._by_path.get(key)
                # If the file was replaced, or became writable, old handles keep their engine.
                if engine is not None and engine.same_file() and _is_as_wanted(engine, options):
                    engine.handles += 1
                    if options.durability == "full":
                        engine.make_durable()
                    return engine
            return self._register(open_engine(path, real, options), key)

    def is_open(self, real: str) -> bool:
        """Whether this process has the file open, for reading or writing, or is opening it."""
        with self._lock:
            return real in self._openings or any(
                key[0] == real and engine.same_file() for key, engine in self._by_path.items()
            )

    def _register(self, engine: SQLiteEngine, key: tuple[str, bool] | None) -> SQLiteEngine:
        with self._lock:
            engine.handles = 1
            self._alive.add(engine)
            if key is not None:
                self._by_path[key] = engine
        return engine

    @contextmanager
    def _one_opener(self, real: str, patience: float) -> Iterator[None]:
        """Let one thread at a time open a file; other files are not affected."""
        with self._lock:
            lock, wanted = self._openings.get(real, (threading.Lock(), 0))
            self._openings[real] = (lock, wanted + 1)
        try:
            if not lock.acquire(timeout=patience):
                raise StoreLocked(
                    f"{real}: database is locked: another thread of this process has been opening "
                    f"it for {patience:g} s."
                )
            try:
                yield
            finally:
                lock.release()
        finally:
            with self._lock:
                lock, wanted = self._openings.pop(real, (lock, 1))
                if wanted > 1:
                    self._openings[real] = (lock, wanted - 1)

    def release(self, engine: SQLiteEngine) -> None:
        """Drop one handle; the last one closes the engine.

        While another copy of SQLite in this process has the file open, closing is deferred.
        """
        with self._lock:
            engine.handles -= 1
            if engine.handles > 0:
                return
            unused = [one for one in {engine, *self._by_path.values()} if _can_be_closed(one)]
            for key in [key for key, other in self._by_path.items() if other in unused]:
                del self._by_path[key]
        for one in unused:
            one.close()

    # Fork

    def before_fork(self) -> None:
        """Bring every engine to rest, as far as possible in a short time."""
        self._lock.acquire()
        until = time.monotonic() + FORK_PATIENCE
        self._forking = list(self._alive)
        for engine in self._forking:
            engine.before_fork(until)
        await_imports(until)

    def after_fork_in_parent(self) -> None:
        """Let every engine continue."""
        for engine in self._forking:
            engine.after_fork_in_parent()
        self._forking = []
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Let idle engines continue, and refuse every file that was in use."""
        self._lock = threading.RLock()
        engines, self._forking = self._forking, []
        for engine in engines:
            if not engine.after_fork_in_child() and engine.inode is not None:
                self._lost[engine.inode] = engine.path
        for real in self._openings:
            inode = inode_of(real)
            if inode is not None:
                self._lost[inode] = real
        self._openings.clear()
        # SQLite keeps locks per file, so other engines on a lost file are affected, too.
        for engine in engines:
            if engine.inode in self._lost:
                engine.refuse()

    def _refuse_lost(self, real: str) -> None:
        inode = inode_of(real)
        if inode in self._lost:
            raise StoreUnavailable(forked_while_in_use(self._lost[inode]))


def _can_be_closed(engine: SQLiteEngine) -> bool:
    return engine.handles <= 0 and not engine.has_neighbour()


def _is_as_wanted(engine: SQLiteEngine, options: SQLiteOptions) -> bool:
    """Return whether the engine is writable if it should and can be."""
    return options.read_only or not engine.options.read_only or not can_write(engine.path)


shared_engines: Final = SharedEngines()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=shared_engines.before_fork,
        after_in_parent=shared_engines.after_fork_in_parent,
        after_in_child=shared_engines.after_fork_in_child,
    )

"""The SQLite provider, and the engines that handles of one process share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import apsw

from hermes_sessions.errors import InvalidInput, StoreClosed
from hermes_sessions.storage.provider import (
    Dialect,
    ReadTransaction,
    SessionDBProvider,
    WriteTransaction,
)
from hermes_sessions.storage.sqlite.connection import Options, log_size
from hermes_sessions.storage.sqlite.engine import MEMORY, Engine
from hermes_sessions.storage.sqlite.opening import open_engine

T = TypeVar("T")

DIALECT: Final = Dialect(name="sqlite", update_returning=True, for_update="", max_params=30_000)


class SQLiteSessionDBProvider(SessionDBProvider):
    """A store in one file. Handles on the same file share one engine, reference-counted."""

    name: ClassVar[str] = "sqlite"
    dialect: ClassVar[Dialect] = DIALECT

    def __init__(self, path: str | Path, options: Options | None = None) -> None:
        """Open *path*, creating or upgrading the file as needed; see `open_engine` for errors."""
        if isinstance(path, str) and "://" in path:
            raise InvalidInput(
                f"db_path is a file path, not a URL. Use SessionDB.from_url({path!r})."
            )
        self._engine: Engine | None = _engines.acquire(Path(path), options or Options())

    @property
    def engine(self) -> Engine:
        """The shared engine.

        Raises:
            StoreClosed: this handle was closed.
        """
        if self._engine is None:
            raise StoreClosed("Cannot operate on a closed database. Open a new SessionDB.")
        return self._engine

    @property
    def read_only(self) -> bool:
        """See `SessionDBProvider.read_only`."""
        return self.engine.options.read_only

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """See `SessionDBProvider.read`."""
        return self.engine.read()

    def write(self, work: Callable[[WriteTransaction], T]) -> T:
        """See `SessionDBProvider.write`."""
        return self.engine.write(work)

    def size_bytes(self) -> int:
        """Return the size of the database and its log."""
        path = self.engine.path
        if path == MEMORY:
            with self.engine.read() as tx:
                row = tx.one(
                    "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
                )
            return int(row[0]) if row else 0
        return Path(path).stat().st_size + log_size(path)

    def reclaim(self) -> None:
        """Copy the log back and rebuild the file without its free pages (VACUUM)."""
        with self.engine.writer() as connection:
            # A reader may need the log a little longer; VACUUM works all the same.
            with suppress(apsw.BusyError):
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            # Files of older layouts gain incremental reclaiming with their first VACUUM.
            connection.pragma("auto_vacuum", 2)
            connection.execute("VACUUM")

    def after_explicit_ids(self, tx: WriteTransaction, table: str) -> None:
        """AUTOINCREMENT continues above explicit ids by itself."""

    def describe(self) -> dict[str, Any]:
        """See `SessionDBProvider.describe`."""
        options = self.engine.options
        return {
            "provider": self.name,
            "path": self.engine.path,
            "sqlite_version": apsw.sqlite_lib_version(),
            "durability": options.durability,
            "read_only": options.read_only,
        }

    def close(self) -> None:
        """See `SessionDBProvider.close`."""
        engine, self._engine = self._engine, None
        if engine is not None:
            _engines.release(engine)


class _SharedEngines:
    """Engines of this process by real path; each counts the handles on it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_path: dict[tuple[str, bool], Engine] = {}
        self._open: list[Engine] = []

    def acquire(self, path: Path, options: Options) -> Engine:
        if str(path) == MEMORY:
            return open_engine(path, options)
        key = (os.path.realpath(path), options.read_only)
        with self._lock:
            engine = self._by_path.get(key)
            if engine is None or not engine.same_file():
                # A replaced file gets an engine of its own; old handles keep theirs.
                engine = self._by_path[key] = open_engine(path, options)
                self._open.append(engine)
            elif options.durability == "full":
                engine.make_durable()
            engine.handles += 1
            return engine

    def release(self, engine: Engine) -> None:
        with self._lock:
            engine.handles -= 1
            if engine.handles > 0:
                return
            self._open = [other for other in self._open if other is not engine]
            self._by_path = {k: other for k, other in self._by_path.items() if other is not engine}
            engine.close()

    def before_fork(self) -> None:
        self._lock.acquire()
        for engine in self._open:
            engine.before_fork()

    def after_fork_in_parent(self) -> None:
        for engine in self._open:
            engine.after_fork_in_parent()
        self._lock.release()

    def after_fork_in_child(self) -> None:
        for engine in self._open:
            engine.after_fork_in_child()
        self._lock = threading.Lock()


_engines: Final = _SharedEngines()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_engines.before_fork,
        after_in_parent=_engines.after_fork_in_parent,
        after_in_child=_engines.after_fork_in_child,
    )

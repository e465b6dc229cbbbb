"""The SQLite provider: one handle on the engine of a file."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import apsw

from hermes_sessions.errors import InvalidInput, StatementRefused, StoreClosed, StoreUnavailable
from hermes_sessions.storage.provider import (
    DEFAULT_OPEN_OPTIONS,
    DeletedDataTrace,
    Dialect,
    MigrationSteps,
    OpenOptions,
    ReadTransaction,
    SessionDBProvider,
    Space,
    WriteTransaction,
)
from hermes_sessions.storage.sqlite import migrations
from hermes_sessions.storage.sqlite.connection import SQLiteOptions, wal_size
from hermes_sessions.storage.sqlite.engine import MEMORY, SQLiteEngine
from hermes_sessions.storage.sqlite.shared_engines import shared_engines

if TYPE_CHECKING:
    from hermes_sessions.config.settings import SessionDBSettings
    from hermes_sessions.storage.sqlite.raw_sql import Statements
    from hermes_sessions.storage.sqlite.search_index import FTS5Index

T = TypeVar("T")

_DURABILITIES: Final = ("full", "normal")
#: Free pages that one step moves to the end of the file and cuts off.
_TRIMMED_PAGES: Final = 256
#: A file up to this size is rebuilt in much less time than a writer waits for its turn.
_REBUILT_AT_ONCE: Final = 256 * 2**20
#: Seconds that writers wait for the last reader of deleted data.
_READER_PATIENCE: Final = 2.0

DIALECT: Final = Dialect(
    name="sqlite",
    update_returning=True,
    for_update="",
    max_params=30_000,
    ids_in_order=True,
    tables_query=migrations.TABLES_QUERY,
)


class SQLiteSessionDBProvider(SessionDBProvider):
    """A store in one file. Handles on the same file share one engine, reference-counted."""

    name: ClassVar[str] = "sqlite"
    dialect: ClassVar[Dialect] = DIALECT
    is_file: ClassVar[bool] = True

    def __init__(self, path: str | Path, options: SQLiteOptions | None = None) -> None:
        """Open *path*, creating or upgrading the file as needed; see `open_engine` for errors."""
        if isinstance(path, str) and "://" in path:
            raise InvalidInput(
                f"db_path is a file path, not a URL. Use SessionDB.from_url({path!r})."
            )
        if "\0" in str(path):
            raise InvalidInput(f"db_path {str(path)!r} contains a NUL character.")
        options = options or SQLiteOptions()
        if not (
            isinstance(options.lock_timeout, (int, float))
            and 0 < options.lock_timeout <= threading.TIMEOUT_MAX
        ):
            raise InvalidInput(
                f"lock_timeout is {options.lock_timeout!r}. Use a number of seconds above 0."
            )
        if options.durability not in _DURABILITIES:
            raise InvalidInput(
                f"durability is {options.durability!r}. Choose one of: {', '.join(_DURABILITIES)}."
            )
        #: How long this handle waits, independent of other handles on the same file.
        self._lock_timeout = options.lock_timeout
        self._closing = threading.Lock()
        self._engine: SQLiteEngine | None = shared_engines.acquire(Path(path), options)

    @classmethod
    def from_path(
        cls, path: str | Path, open_options: OpenOptions = DEFAULT_OPEN_OPTIONS
    ) -> SQLiteSessionDBProvider:
        """Open a file; see `open_engine` for errors."""
        defaults = SQLiteOptions()
        return cls(
            path,
            SQLiteOptions(
                durability=open_options.durability or defaults.durability,
                lock_timeout=open_options.lock_timeout or defaults.lock_timeout,
                read_only=open_options.read_only,
                upgrade_later=open_options.upgrade_later,
            ),
        )

    @classmethod
    def from_url(
        cls, url: str, open_options: OpenOptions = DEFAULT_OPEN_OPTIONS
    ) -> SQLiteSessionDBProvider:
        """Open a URL: ``sqlite:///file.db`` is relative, ``sqlite:////tmp/file.db`` absolute,
        ``sqlite://`` in memory.
        """
        place = url.partition("://")[2]
        if "?" in place or (place and not place.startswith("/")):
            raise InvalidInput(
                f"{url!r} is not a SQLite URL. Use sqlite:///relative/file.db or "
                f"sqlite:////absolute/file.db."
            )
        from urllib.parse import unquote  # rarely needed

        return cls.from_path(unquote(place[1:]) or MEMORY, open_options)

    @classmethod
    def from_settings(
        cls, settings: SessionDBSettings, open_options: OpenOptions = DEFAULT_OPEN_OPTIONS
    ) -> SQLiteSessionDBProvider:
        """See `SessionDBProvider.from_settings`."""
        configured = settings.sqlite
        return cls(
            configured.path,
            SQLiteOptions(
                durability=open_options.durability or configured.durability,
                lock_timeout=open_options.lock_timeout or configured.lock_timeout,
                journal=configured.journal,
                read_only=open_options.read_only,
                upgrade_later=open_options.upgrade_later,
            ),
        )

    @property
    def engine(self) -> SQLiteEngine:
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

    @property
    def serves_one_thread(self) -> bool:
        """Whether it is an in-memory database, which has a single connection."""
        return self.engine.path == MEMORY

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """See `SessionDBProvider.read`."""
        return self.engine.read(self._lock_timeout)

    def write(
        self,
        work: Callable[[WriteTransaction], T],
        *,
        patience: float | None = None,
        isolated: bool = True,  # noqa: ARG002 - there is one writer at a time
    ) -> T:
        """See `SessionDBProvider.write`."""
        patience = min(patience or self._lock_timeout, self._lock_timeout)
        try:
            return self.engine.write(work, patience)
        except StatementRefused:
            # Triggers record changes for the search index, and no write may fail because of it.
            from hermes_sessions.storage.sqlite.search_index import restore_notes
            from hermes_sessions.storage.sqlite.usage_table import restore_usage_table

            are_restored = [
                self.engine.write(restore, patience)
                for restore in (restore_notes, restore_usage_table)
            ]
            if not any(are_restored):
                raise
        return self.engine.write(work, patience)

    def reading_connection(self, *, keep: bool = True) -> AbstractContextManager[apsw.Connection]:
        """Lend a connection for raw SQL that sees one snapshot of the database and cannot write.

        Without *keep* it is closed afterwards, together with its settings.
        """
        return self.engine.reading_connection(self._lock_timeout, keep=keep)

    def raw_sql(self) -> Statements:
        """See `SessionDBProvider.raw_sql`."""
        from hermes_sessions.storage.sqlite.raw_sql import Statements

        return Statements(self)

    def with_writer(self, use: Callable[[apsw.Connection], T]) -> T:
        """Lend the writer connection outside any transaction; see `SQLiteEngine.with_writer`."""
        return self.engine.with_writer(use, self._lock_timeout)

    def write_on_connection(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run *work*, which uses raw SQL, in one transaction and commit it."""
        return self.engine.write_on_connection(work, self._lock_timeout)

    @property
    def search_index(self) -> FTS5Index:
        """See `SessionDBProvider.search_index`."""
        from hermes_sessions.storage.sqlite.search_index import FTS5Index

        return FTS5Index()

    def others_are_writing(self) -> bool:
        """See `SessionDBProvider.others_are_writing`."""
        engine = self._engine
        return engine is not None and engine.others_are_writing()

    def limit_memory(self, most_bytes: int) -> None:
        """See `SessionDBProvider.limit_memory`; for this file."""
        self.engine.limit_memory(most_bytes)

    def size_bytes(self) -> int:
        """Return the size of the database and its log."""
        path = self.engine.path
        if path == MEMORY:
            with self.engine.read() as tx:
                row = tx.one(
                    "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
                )
            return int(row[0]) if row else 0
        try:
            return Path(path).stat().st_size + wal_size(path)
        except OSError as error:
            raise StoreUnavailable(f"{path} cannot be measured ({error.strerror}).") from error

    def copy_image(self, target: Path, on_progress: Callable[[int, int], None]) -> None:
        """See `SessionDBProvider.copy_image` and `store_image`."""
        from hermes_sessions.storage.sqlite.store_image import copy_snapshot

        engine = self.engine
        blocks_no_writer = engine.path == MEMORY or engine.options.journal == "wal"
        with self.reading_connection(keep=False) as connection:
            copy_snapshot(
                connection, target, blocks_no_writer=blocks_no_writer, on_progress=on_progress
            )

    def space(self, has_time: Callable[[], bool] | None = None) -> Space:
        """See `SessionDBProvider.space`; without *has_time* it reads the whole file."""
        from hermes_sessions.storage.sqlite.space_usage import measure

        with self.reading_connection() as connection:
            path = self.engine.path
            return measure(connection, 0 if path == MEMORY else wal_size(path), has_time)

    def reclaim(self) -> None:
        """Rebuild the file without its free pages (VACUUM) and copy the log back."""
        self.engine.reclaim(self._lock_timeout)

    def trim(self) -> int:
        """Cut a few free pages off the end of the file; files of older programs keep theirs until
        `reclaim`.
        """
        return self.engine.write_on_connection(_trim, self._lock_timeout)

    def leaving_no_trace(self) -> AbstractContextManager[None]:
        """See `SessionDBProvider.leaving_no_trace`."""
        return self.engine.overwriting()

    def scrub(self, *, rebuild: bool = False) -> list[DeletedDataTrace]:
        """See `SessionDBProvider.scrub`. Only a rebuilt file has no remains in the unused parts of
        its
        pages: SQLite moves rows without overwriting their old position.
        """
        engine = self.engine
        if engine.path == MEMORY:
            return []
        remains: list[DeletedDataTrace] = []
        size = self.size_bytes()
        if rebuild or size <= _REBUILT_AT_ONCE:
            is_ended = engine.reclaim(self._lock_timeout, patience=_READER_PATIENCE)
        else:
            self.trim_all()
            is_ended = engine.truncate_wal(self._lock_timeout, patience=_READER_PATIENCE)
            remains.append(
                DeletedDataTrace(
                    "pages",
                    f"The store has {size // 2**20:,} MiB. Unused parts of its pages may contain "
                    f"remains of deleted data until the file is rebuilt, which makes writers "
                    f"wait.",
                )
            )
        if not is_ended:
            remains.append(
                DeletedDataTrace(
                    "reader",
                    "A reader uses an older snapshot of the store, so the write-ahead log "
                    "cannot be truncated yet.",
                )
            )
        return remains

    def after_explicit_ids(self, tx: WriteTransaction, table: str) -> None:
        """Do nothing: AUTOINCREMENT continues above explicit ids by itself."""

    def require_level(self, tx: WriteTransaction, step: str, level: int) -> None:
        """See `SessionDBProvider.require_level`."""
        tx.run("INSERT INTO store_migrations (name, applied_at) VALUES (?, ?)", (step, time.time()))
        row = tx.one("SELECT user_version FROM pragma_user_version")
        if row is not None and row[0] < level:
            tx.run(f"PRAGMA user_version = {level:d}")

    def steps(self) -> MigrationSteps:
        """See `SessionDBProvider.steps`."""
        with self.read() as tx:
            taken = {row[0] for row in tx.all("SELECT name FROM store_migrations")}
        steps = MigrationSteps.of([(step.name, False) for step in migrations.MIGRATIONS], taken)
        return steps._replace(upgraded=self.engine.upgraded)

    def describe(self) -> dict[str, Any]:
        """See `SessionDBProvider.describe`."""
        options = self.engine.options
        return {
            "provider": self.name,
            "path": self.engine.path,
            "sqlite_version": apsw.sqlite_lib_version(),
            "durability": options.durability,
            "journal": options.journal,
            "read_only": options.read_only,
        }

    def close(self) -> None:
        """See `SessionDBProvider.close`."""
        with self._closing:
            engine, self._engine = self._engine, None
        if engine is not None:
            shared_engines.release(engine)


def _trim(connection: apsw.Connection) -> int:
    before = int(connection.pragma("page_count"))
    # Each page is one row; only reading all rows cuts off all pages.
    for _ in connection.execute(f"PRAGMA incremental_vacuum({_TRIMMED_PAGES})"):
        pass
    pages = before - int(connection.pragma("page_count"))
    return pages * int(connection.pragma("page_size"))


class MissingFileProvider(SQLiteSessionDBProvider):
    """An empty store in memory that stands for a file that does not exist yet; see
    `FileCare.open_missing`.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(MEMORY)
        self._path = os.path.realpath(path)

    def size_bytes(self) -> int:
        """Return 0."""
        return 0

    def space(self, has_time: Callable[[], bool] | None = None) -> Space:
        """Return that nothing takes up space."""
        del has_time
        return Space(free_bytes=0, log_bytes=0)

    def describe(self) -> dict[str, Any]:
        """See `SessionDBProvider.describe`; the path is the one that the store will have."""
        return {**super().describe(), "path": self._path}

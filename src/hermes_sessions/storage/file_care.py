"""The port of the tools for a store that is one file: images, replacement, repair, import.

Backups, repair and import need them whatever database is configured, so they do not belong to an
open store. `provider_registry.file_care` returns them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from hermes_sessions.errors import StoreError
from hermes_sessions.storage.provider import ReadTransaction, SessionDBProvider

if TYPE_CHECKING:
    from hermes_sessions.storage.care.repair.report import RepairOptions, RepairReport
    from hermes_sessions.storage.file_inspection import InspectedFile
    from hermes_sessions.storage.search.index_port import SearchIndex
    from hermes_sessions.storage.sessiondb import SessionDB

#: The schema of Hermes 0.13, and that of Hermes 0.19.
HermesSchema = Literal[11, 22]


class HermesExport(NamedTuple):
    """What was written for Hermes, and what its schema cannot express, by kind."""

    sessions: int
    messages: int
    left_out: dict[str, int]


class FileCare(ABC):
    """Tools for files that hold a store; an image is one that no program writes."""

    #: The name of their provider, which is also the scheme of their URLs.
    provider: ClassVar[str]
    #: Lists the tables of an image; see `Dialect.tables_query`.
    tables_query: ClassVar[str]
    #: The ``state_meta`` key that counts logs which were removed in use: ``{count, last}``.
    removed_logs_key: ClassVar[str]

    @abstractmethod
    def check_image(self, image: Path) -> None:
        """Check that an image is a store, and each of its tables with its indexes.

        Raises:
            StoreCorrupt, NotADatabase: it is not; the message says why.
        """

    @abstractmethod
    def read_image(self, image: Path) -> AbstractContextManager[ReadTransaction]:
        """Lend a transaction that reads an image.

        Raises:
            StoreCorrupt, NotADatabase, StoreError: it cannot be read.
        """

    @abstractmethod
    def prepare_image(self, image: Path) -> None:
        """Make an image ready to become a store.

        Raises:
            SchemaRefused: a newer version made it.
        """

    @abstractmethod
    def open_working_copy(self, file: Path, *, back_up_first: bool = True) -> SessionDBProvider:
        """Open a private file, which is a single file again when it is closed.

        Without *back_up_first*, pending migrations run without a backup.
        """

    @abstractmethod
    def inspect(self, file: Path, *, until: float, stopwatch: Callable[[], float]) -> InspectedFile:
        """Open a file that may be damaged, without changing it or waiting for a lock.

        Statements raise `InspectionTimeout` once *stopwatch* reaches *until*.

        Raises:
            StoreMissing: the file does not exist.
            UnfinishedWrite: an unfinished write must be rolled back first.
            StoreError: it cannot be read; see `is_emptied`.
        """

    @abstractmethod
    def is_emptied(self, error: StoreError) -> bool:
        """Return whether *error* says that a store was here whose file is now empty."""

    @property
    @abstractmethod
    def search_index(self) -> SearchIndex:
        """The search index of an inspected file."""

    @abstractmethod
    def processes_blocking_writers(self, file: Path) -> list[int]:
        """Return the processes that hold the write lock, not those that merely have the file
        open.
        """

    @abstractmethod
    def process_name(self, pid: int) -> str:
        """Return the display name of a process: ``name (process id)``."""

    @abstractmethod
    def writers_of_other_products(self, file: Path) -> list[str]:
        """Return the display names of other products' processes that may write a resolved file."""

    @abstractmethod
    def unsafe_file_system(self, file: Path) -> str | None:
        """Return the type of the file system of a resolved path if locks are unreliable there."""

    @abstractmethod
    def can_write(self, file: Path) -> bool:
        """Return whether this user may write a store, and files beside it."""

    @abstractmethod
    def prepare_directory(self, file: Path) -> None:
        """Create the parent directories of a store, private to the user.

        Raises:
            StoreUnreachable: they cannot be created.
        """

    @abstractmethod
    def require_unused(self, file: Path) -> None:
        """Refuse a store that a program has open, as far as that is visible without touching it.

        Raises:
            StoreLocked: the message names the program.
        """

    @abstractmethod
    def replace_store(self, file: Path, new: Path, kept: Path, patience: float) -> Path | None:
        """Replace the store at *file* by *new*; return where the old one is kept, None for a
        missing or empty file.

        *file* must be resolved. *new* is complete, durable and in the same directory; it may be
        gone afterwards. *kept* is an unused name there.

        Raises:
            StoreLocked: the store is in use; the message says by which program.
            SchemaRefused, UnsafeStore, StoreError, OSError: the old store is still in place.
        """

    @abstractmethod
    def open_missing(self, file: Path) -> SessionDBProvider:
        """Open an empty store that stands for a missing file: it takes up no space, and what is
        written to it is lost when it is closed.
        """

    @abstractmethod
    def check_store(self, file: Path) -> RepairReport:
        """See `hermes_sessions.storage.care.repair.file_repair.check`."""

    @abstractmethod
    def repair_store(self, file: Path, options: RepairOptions) -> RepairReport:
        """See `hermes_sessions.storage.care.repair.file_repair.repair`."""

    @abstractmethod
    def is_database(self, file: Path) -> bool:
        """Return whether a file is a database of this kind; False if it cannot be read."""

    @abstractmethod
    def require_importable(self, file: Path) -> None:
        """Refuse a file that `import_database` would refuse, before anything is created for it.

        A file that is not a database is not examined, unless it is an emptied database. Raises like
        `import_database`.
        """

    @abstractmethod
    def import_target(self, source: Path, configured_file: Path) -> Path:
        """Return the store that *source* is imported into: the configured one, or another file
        beside it if *source* itself has that path and is not a store of this product.

        Raises:
            ImportRefused: *source* is the configured store.
        """

    @abstractmethod
    def import_database(
        self, db: SessionDB, source: Path, on_progress: Callable[[int, int], None] | None = None
    ) -> dict[str, Any]:
        """Copy everything in a Hermes database into *db* and return a report.

        Raises:
            ImportRefused: the file is not a Hermes database.
            StoreCorrupt: its write-ahead log is damaged or missing.
        """

    @abstractmethod
    def export_database(
        self,
        db: SessionDB,
        target: Path,
        schema: HermesSchema,
        on_progress: Callable[[int], None] = lambda sessions: None,
    ) -> HermesExport:
        """Write all sessions of *db* that are not in the trash to a new file that released
        versions of Hermes open: 0.13 for schema 11, 0.19 for schema 22. The file, which is
        private to the user, appears complete and durable, or not at all.

        Raises:
            InvalidInput: *target* exists, or its directory does not.
            StoreError: the file cannot be written.
        """

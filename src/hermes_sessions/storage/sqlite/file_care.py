"""The tools for SQLite files; see `FileCare`. Each loads its module when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hermes_sessions.storage.file_care import FileCare, HermesExport, HermesSchema
from hermes_sessions.storage.provider import ReadTransaction, SessionDBProvider
from hermes_sessions.storage.sqlite.file_identity import REMOVED_LOGS
from hermes_sessions.storage.sqlite.migrations import TABLES_QUERY

if TYPE_CHECKING:
    from hermes_sessions.errors import StoreError
    from hermes_sessions.storage.care.repair.report import RepairOptions, RepairReport
    from hermes_sessions.storage.file_inspection import InspectedFile
    from hermes_sessions.storage.search.index_port import SearchIndex
    from hermes_sessions.storage.sessiondb import SessionDB


class SQLiteFileCare(FileCare):
    """See `FileCare`."""

    provider: ClassVar[str] = "sqlite"
    tables_query: ClassVar[str] = TABLES_QUERY
    removed_logs_key: ClassVar[str] = REMOVED_LOGS

    def check_image(self, image: Path) -> None:
        """See `FileCare.check_image`."""
        from hermes_sessions.storage.sqlite.store_image import check_image

        check_image(image)

    def read_image(self, image: Path) -> AbstractContextManager[ReadTransaction]:
        """See `FileCare.read_image`."""
        from hermes_sessions.storage.sqlite.store_image import reading_image

        return reading_image(image)

    def prepare_image(self, image: Path) -> None:
        """See `FileCare.prepare_image`."""
        from hermes_sessions.storage.sqlite.store_image import clear_wal_mark, require_known_level

        require_known_level(image)
        clear_wal_mark(image)

    def open_working_copy(self, file: Path, *, back_up_first: bool = True) -> SessionDBProvider:
        """See `FileCare.open_working_copy`."""
        from hermes_sessions.storage.sqlite.connection import SQLiteOptions
        from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider

        # With a rollback journal a closed store is a single file.
        options = SQLiteOptions(journal="delete", durability="normal", back_up_first=back_up_first)
        return SQLiteSessionDBProvider(file, options)

    def inspect(self, file: Path, *, until: float, stopwatch: Callable[[], float]) -> InspectedFile:
        """See `FileCare.inspect`."""
        from hermes_sessions.storage.sqlite.inspection import FileInspection

        return FileInspection(file, until=until, stopwatch=stopwatch)

    def is_emptied(self, error: StoreError) -> bool:
        """See `FileCare.is_emptied`."""
        from hermes_sessions.storage.sqlite.file_kind import StoreEmptied

        return isinstance(error, StoreEmptied)

    @property
    def search_index(self) -> SearchIndex:
        """See `FileCare.search_index`."""
        from hermes_sessions.storage.sqlite.search_index import FTS5Index

        return FTS5Index()

    def processes_blocking_writers(self, file: Path) -> list[int]:
        """See `FileCare.processes_blocking_writers`."""
        from hermes_sessions.storage.sqlite import file_access

        real = file.resolve()
        locks = file_access.read_lock_table(real)
        return file_access.processes_blocking_writers(real, locks, writers_only=True)

    def process_name(self, pid: int) -> str:
        """See `FileCare.process_name`."""
        from hermes_sessions.storage.sqlite.file_access import process_name

        return process_name(pid)

    def writers_of_other_products(self, file: Path) -> list[str]:
        """See `FileCare.writers_of_other_products`."""
        from hermes_sessions.storage.sqlite.exclusive_access import writers_of_other_products

        return writers_of_other_products(file)

    def unsafe_file_system(self, file: Path) -> str | None:
        """See `FileCare.unsafe_file_system`."""
        from hermes_sessions.storage.sqlite import file_access

        kind = file_access.file_system_type(str(file), file_access.read_mount_table())
        return None if file_access.supports_wal(kind) else kind

    def can_write(self, file: Path) -> bool:
        """See `FileCare.can_write`."""
        from hermes_sessions.storage.sqlite.file_access import can_write

        return can_write(str(file))

    def prepare_directory(self, file: Path) -> None:
        """See `FileCare.prepare_directory`."""
        from hermes_sessions.storage.sqlite.file_access import prepare_directory

        prepare_directory(file)

    def require_unused(self, file: Path) -> None:
        """See `FileCare.require_unused`."""
        from hermes_sessions.storage.sqlite.store_replacement import require_unused

        require_unused(file)

    def replace_store(self, file: Path, new: Path, kept: Path, patience: float) -> Path | None:
        """See `FileCare.replace_store`."""
        from hermes_sessions.storage.sqlite.store_replacement import replace_store

        return replace_store(file, new, kept, patience)

    def open_missing(self, file: Path) -> SessionDBProvider:
        """See `FileCare.open_missing`."""
        from hermes_sessions.storage.sqlite.provider import MissingFileProvider

        return MissingFileProvider(file)

    def check_store(self, file: Path) -> RepairReport:
        """See `FileCare.check_store`."""
        from hermes_sessions.storage.sqlite.repair.file_repair import check

        return check(file)

    def repair_store(self, file: Path, options: RepairOptions) -> RepairReport:
        """See `FileCare.repair_store`."""
        from hermes_sessions.storage.sqlite.repair.file_repair import repair

        return repair(file, options)

    def is_database(self, file: Path) -> bool:
        """See `FileCare.is_database`."""
        from hermes_sessions.storage.sqlite.read_only_file import is_database

        return is_database(file)

    def require_importable(self, file: Path) -> None:
        """See `FileCare.require_importable`."""
        from hermes_sessions.storage.sqlite.hermes_database import require_importable

        require_importable(file)

    def import_target(self, source: Path, configured_file: Path) -> Path:
        """See `FileCare.import_target`."""
        from hermes_sessions.storage.sqlite.read_only_file import target_for

        return target_for(source, configured_file)

    def import_database(
        self, db: SessionDB, source: Path, on_progress: Callable[[int, int], None] | None = None
    ) -> dict[str, Any]:
        """See `FileCare.import_database`."""
        from hermes_sessions.storage.sqlite.hermes_database import import_database

        return import_database(db, source, on_progress)

    def export_database(
        self,
        db: SessionDB,
        target: Path,
        schema: HermesSchema,
        on_progress: Callable[[int], None] = lambda sessions: None,
    ) -> HermesExport:
        """See `FileCare.export_database`."""
        from hermes_sessions.storage.sqlite.hermes_export import export_database

        return export_database(db, target, schema, on_progress)

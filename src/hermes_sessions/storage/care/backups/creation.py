"""Create a backup: write it under a temporary name, read it back, and only then rename it."""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from hermes_sessions.errors import StoreCorrupt
from hermes_sessions.storage.care.backups.backup_directory import (
    SUFFIX,
    UNFINISHED,
    Backup,
    Reason,
    explained,
    lock_backup_directory,
    read_manifest,
    require_free_space,
)
from hermes_sessions.storage.care.backups.container import ContainerWriter
from hermes_sessions.storage.care.backups.portable_format import (
    EXCLUDED_TABLES,
    BackedUpSession,
    counts_of,
    sum_line,
    write_rows,
)
from hermes_sessions.storage.care.backups.verification import (
    IMAGE,
    ROWS,
    SESSIONS,
    sums_of,
    verify_written_backup,
)
from hermes_sessions.storage.fsync import sync_directory
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.migration_backup import BackupSource, CopyImage
from hermes_sessions.storage.provider import ReadTransaction, SessionDBProvider
from hermes_sessions.storage.provider_registry import file_care
from hermes_sessions.storage.session_copy.reader import count_rows

if TYPE_CHECKING:
    from hermes_sessions.storage.sessiondb import SessionDB

logger = Logger(__name__)

#: Called with the current activity, the amount done, and the total.
Progress = Callable[[str, int, int], None]

_CHUNK: Final = 1024 * 1024
_KEPT_IN_MEMORY: Final = 1024 * 1024
#: Seconds to wait for another process that creates a backup.
PATIENCE: Final = 5.0


def silent(_what: str, _done: int, _total: int) -> None:
    """Ignore progress."""


def create_backup(
    store: SessionDB | SessionDBProvider,
    directory: str | Path | None = None,
    *,
    portable: bool = False,
    on_progress: Progress = silent,
    now: Callable[[], float] = time.time,
) -> Backup:
    """Back up one snapshot of a store that others may be writing, and return the backup.

    A SQLite store is copied as an image. A store on a server, or any store with *portable*, is
    written in a format that restores on every database. The file gets its name in *directory* (by
    default the configured one) only after it was read back and compared; if this raises, there is
    no new backup.

    Raises:
        StoreCorrupt: the store itself is damaged.
        DiskFull: there is no space for the backup; a SQLite store is first copied uncompressed.
        TransferRefused: a value has no portable form.
        StoreLocked: another process creates a backup in this directory.
        BackupRefused, StoreError: the directory or the store cannot be used.
    """
    provider = store if isinstance(store, SessionDBProvider) else store.provider
    place = Path(directory) if directory is not None else default_directory()
    with lock_backup_directory(place, PATIENCE):
        return make(source_of(provider), place, portable=portable, on_progress=on_progress, now=now)


def default_directory() -> Path:
    """Return the configured directory of backups."""
    from hermes_sessions.config import load_settings

    return load_settings().backups.directory


def source_of(provider: SessionDBProvider) -> BackupSource:
    """Return a provider's store as the source of a backup."""
    from hermes_sessions.storage.transfer.copy_ledger import identity

    return BackupSource(
        provider.name,
        identity(provider),
        provider.steps().taken,
        provider.size_bytes(),
        provider.read,
        provider.dialect.tables_query,
        provider.copy_image if provider.is_file else None,
    )


def make(
    source: BackupSource,
    directory: Path,
    *,
    portable: bool = False,
    reason: Reason = "asked",
    on_progress: Progress = silent,
    now: Callable[[], float] = time.time,
) -> Backup:
    """Create a backup; the caller holds `lock_backup_directory`."""
    created = now()
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(created))
    final = directory / f"{stamp}-{source.provider}-{secrets.token_hex(3)}{SUFFIX}"
    partial = directory / f".{final.name}{UNFINISHED}"
    facts: dict[str, Any] = {
        "product": f"hermes-sessions {version('hermes-sessions')}",
        "provider": source.provider,
        "store": source.store,
        "steps": list(source.steps),
        "created": float(created),
        "reason": reason,
        "left_out": {},
        "unsummed": 0,
    }
    try:
        if source.copy_image is None:
            with source.read() as tx, _written(partial) as container:
                _pack_rows(container, facts, tx, source.tables_query, on_progress)
        else:
            with _copied(source, source.copy_image, directory, final, on_progress) as image:
                pack_image(partial, facts, image, portable=portable, on_progress=on_progress)
        publish_backup(partial, final, on_progress)
    finally:
        partial.unlink(missing_ok=True)
    logger.info("%s: backed up to %s", source.store, final)
    return read_manifest(final)


def publish_backup(partial: Path, final: Path, on_progress: Progress = silent) -> None:
    """Read a written file back, and give it its final name."""
    verify_written_backup(partial, lambda done, total: on_progress("Verifying", done, total))
    with explained(final):
        partial.rename(final)
        sync_directory(final.parent)


@contextmanager
def _copied(
    source: BackupSource,
    copy_image: CopyImage,
    directory: Path,
    final: Path,
    on_progress: Progress,
) -> Iterator[Path]:
    require_free_space(directory, source.size)
    image = directory / f".{final.name}.db{UNFINISHED}"
    try:
        with explained(image):
            copy_image(image, lambda done, total: on_progress("Copying", done, total))
        yield image
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            image.with_name(image.name + suffix).unlink(missing_ok=True)


def pack_image(
    partial: Path,
    facts: dict[str, Any],
    image: Path,
    *,
    portable: bool,
    on_progress: Progress = silent,
) -> None:
    """Check the file of a store that no program writes, and write a backup of it.

    Raises:
        StoreCorrupt: it is damaged.
    """
    care = file_care()
    try:
        care.check_image(image)
    except StoreCorrupt as error:
        raise StoreCorrupt(
            f"{facts['store']} is damaged, so it was not backed up: {error}. Keep the file, "
            f"and repair it with: hermes repair"
        ) from error
    with care.read_image(image) as tx, _written(partial) as container:
        if portable:
            _pack_rows(container, facts, tx, care.tables_query, on_progress)
        else:
            _pack_pages(container, facts, tx, care.tables_query, image, on_progress)


@contextmanager
def _written(partial: Path) -> Iterator[ContainerWriter]:
    with explained(partial):
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            yield ContainerWriter(file)


def _pack_pages(
    container: ContainerWriter,
    facts: dict[str, Any],
    tx: ReadTransaction,
    tables_query: str,
    image: Path,
    on_progress: Progress,
) -> None:
    size = image.stat().st_size
    with container.section(IMAGE) as pages, image.open("rb") as file:
        while chunk := file.read(_CHUNK):
            pages.write(chunk)
            on_progress("Compressing", pages.raw_length, size)
    unsummed = 0
    with container.section(SESSIONS) as sessions:
        for found in sums_of(tx):
            sessions.write_line(sum_line(found))
            unsummed += found.checksum is None
    facts |= {
        "kind": "image",
        "counts": counts_of(tx, tables_query),
        "unsummed": unsummed,
    }
    container.finish(facts)


def _pack_rows(
    container: ContainerWriter,
    facts: dict[str, Any],
    tx: ReadTransaction,
    tables_query: str | None,
    on_progress: Progress,
) -> None:
    total, done = count_rows(tx, "messages"), 0

    def advance(messages: int) -> None:
        nonlocal done
        done += messages
        on_progress("Writing", done, total)

    with tempfile.SpooledTemporaryFile(_KEPT_IN_MEMORY) as aside:
        with container.section(ROWS) as rows:
            written = write_rows(tx, tables_query, rows, lambda found: _note(aside, found), advance)
        aside.seek(0)
        with container.section(SESSIONS) as sessions:
            for line in aside:
                sessions.write_line(line)
    facts |= {
        "kind": "portable",
        "counts": written.counts,
        "left_out": written.left_out,
        "columns": written.columns,
        "not_carried": EXCLUDED_TABLES,
    }
    container.finish(facts)


def _note(aside: IO[bytes], found: BackedUpSession) -> None:
    aside.write(sum_line(found))

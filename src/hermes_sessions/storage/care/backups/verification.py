"""Verify a backup: does it contain what was written, and is that a complete store?"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hermes_sessions.errors import BackupDamaged, StoreError, TransferRefused
from hermes_sessions.storage.care.backups.backup_directory import (
    UNPACKED,
    Backup,
    described,
    explained,
    lock_directory,
    require_free_space,
)
from hermes_sessions.storage.care.backups.container import Container, opened
from hermes_sessions.storage.care.backups.portable_format import (
    BackedUpSession,
    counts_of,
    read_rows,
    read_sums,
)
from hermes_sessions.storage.provider import ReadTransaction
from hermes_sessions.storage.provider_registry import file_care
from hermes_sessions.storage.session_copy.reader import (
    Piece,
    checksum_sessions,
    ids_page,
    messages_of,
)

#: Called with the number of bytes or messages done, and the total.
Progress = Callable[[int, int], None]

IMAGE: Final = "image"
ROWS: Final = "rows"
SESSIONS: Final = "sessions"


def _silent(_done: int, _total: int) -> None:
    pass


def verify_backup(path: str | Path, on_progress: Progress = _silent) -> Backup:
    """Read a whole backup and verify everything it states.

    This compares digests, the number of rows in every table and the checksum of every session, and
    runs SQLite's own check of every table and index of an image. An image is temporarily unpacked
    beside the backup; the backup itself is only read.

    Raises:
        BackupDamaged: it differs from what was written; the message says how.
        BackupRefused: it cannot be read, or a later version wrote it.
        DiskFull: there is no space to unpack an image.
    """
    with opened(Path(path)) as container:
        backup = described(container)
        if backup.kind == "image":
            with unpacked_image(container, Path(path).parent) as image:
                check_unpacked(container, backup, image, on_progress)
        else:
            container.check_digests()
            _check_rows(container, backup, on_progress)
        return backup


def verify_written_backup(path: Path, on_progress: Progress = _silent) -> None:
    """Verify a backup that was just written from verified data.

    An image with identical bytes needs no second check. Rows were converted, so they are read and
    their checksums computed.

    Raises:
        BackupDamaged: it differs from what was written.
    """
    with opened(path) as container:
        backup = described(container)
        if backup.kind == "portable":
            _check_rows(container, backup, on_progress)
            return
        done = 0
        for piece in container.read(IMAGE):
            done += len(piece)
            on_progress(done, container.sections[IMAGE].raw_length)
        if sum(1 for _ in read_sums(container, SESSIONS)) != backup.sessions:
            raise container.damaged("it does not list every session")


def check_digests(path: Path) -> None:
    """Compare every byte of a backup with its digests, without unpacking it.

    Raises:
        BackupDamaged, BackupRefused: see `verify_backup`.
    """
    with opened(path) as container:
        described(container)
        container.check_digests()


# Images


@contextmanager
def unpacked_image(container: Container, directory: Path) -> Iterator[Path]:
    """Lend the database of an image, unpacked in a directory for the duration of the block."""
    require_free_space(directory, container.require(IMAGE).raw_length)
    with unpack_directory(directory) as place:
        unpack_image(container, place / "image.db")
        yield place / "image.db"


@contextmanager
def unpack_directory(directory: Path) -> Iterator[Path]:
    """Lend a private temporary directory inside another, or in the system's temporary directory if
    that one cannot be written.
    """
    if not os.access(directory, os.W_OK):
        directory = Path(tempfile.gettempdir())
    with explained(directory):
        place = Path(tempfile.mkdtemp(prefix=".", suffix=UNPACKED, dir=directory))
    try:
        with lock_directory(place):
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def unpack_image(container: Container, target: Path) -> None:
    """Write the database of an image to a new file, verified and durable.

    Raises:
        BackupDamaged: it differs from what was packed.
        DiskFull: there is no space.
    """
    container.check_digests()
    with explained(target):
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            for piece in container.read(IMAGE):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())


def check_unpacked(
    container: Container, backup: Backup, image: Path, on_progress: Progress = _silent
) -> None:
    """Check the database of an image, and compare it with the manifest.

    Raises:
        BackupDamaged: it is damaged or differs.
    """
    care = file_care()
    try:
        care.check_image(image)
        with care.read_image(image) as tx:
            _compare_counts(container, backup, tx, care.tables_query)
            compare_sums(
                container, sums_of(tx), read_sums(container, SESSIONS), backup, on_progress
            )
    except StoreError as error:
        raise container.damaged(str(error).rstrip(".")) from error


def _compare_counts(
    container: Container, backup: Backup, tx: ReadTransaction, tables_query: str
) -> None:
    found = counts_of(tx, tables_query)
    for table in {*found, *backup.counts}:
        if found.get(table) != backup.counts.get(table):
            raise container.damaged(
                f"{table} has {found.get(table)} rows instead of {backup.counts.get(table)}"
            )


def sums_of(tx: ReadTransaction) -> Iterator[BackedUpSession]:
    """Yield the checksum of every session, by id; None for one that only SQLite can store."""
    after: str | None = None
    while page := ids_page(tx, after, None):
        after = page[-1]
        try:
            found = checksum_sessions(tx, page)
        except TransferRefused:
            for session_id in page:
                yield _sum_alone(tx, session_id)
            continue
        for session_id in page:
            yield BackedUpSession(
                session_id, found[session_id].messages, found[session_id].checksum
            )


def _sum_alone(tx: ReadTransaction, session_id: str) -> BackedUpSession:
    try:
        found = checksum_sessions(tx, [session_id])[session_id]
    except TransferRefused:
        return BackedUpSession(session_id, messages_of(tx, [session_id]), None)
    return BackedUpSession(session_id, found.messages, found.checksum)


def compare_sums(
    container: Container,
    found: Iterator[BackedUpSession],
    wanted: Iterator[BackedUpSession],
    backup: Backup,
    on_progress: Progress = _silent,
) -> None:
    """Compare sessions with those of a backup: the same ones, with the same checksums.

    Raises:
        BackupDamaged: a session is missing, unexpected or different.
    """
    done = number = 0
    for expected in wanted:
        actual = next(found, None)
        if actual != expected:
            raise _difference(container, expected, actual)
        number += 1
        done += expected.messages
        on_progress(done, backup.messages)
    extra = next(found, None)
    if extra is not None:
        raise container.damaged(f"it does not list session {extra.session_id!r:.100}")
    if number != backup.sessions:
        raise container.damaged(f"it lists {number} sessions instead of {backup.sessions}")


def _difference(
    container: Container, expected: BackedUpSession, actual: BackedUpSession | None
) -> BackupDamaged:
    if actual is None or actual.session_id != expected.session_id:
        return container.damaged(f"session {expected.session_id!r:.100} is missing")
    return container.damaged(f"session {expected.session_id!r:.100} has a wrong checksum")


# Rows


def _check_rows(container: Container, backup: Backup, on_progress: Progress) -> None:
    counts = dict.fromkeys(backup.counts, 0)

    def sums() -> Iterator[BackedUpSession]:
        messages = 0
        for part in read_rows(container):
            for table, rows in part.rows():
                if rows:
                    counts[table.name] = counts.get(table.name, 0) + len(rows)
            if isinstance(part, Piece):
                messages += len(part.messages)
                if part.checksum is not None:
                    yield BackedUpSession(part.session_id, messages, part.checksum)
                    messages = 0

    # Both streams are in one file, so each needs its own handle.
    with opened(container.path) as other:
        compare_sums(container, sums(), read_sums(other, SESSIONS), backup, on_progress)
    if counts != backup.counts:
        raise container.damaged("its number of rows differs from its manifest")

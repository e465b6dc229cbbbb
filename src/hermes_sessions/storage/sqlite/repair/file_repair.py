"""Repair a SQLite file: copy it, recover what can be read, check the result, put it in place.

The damaged file is only read. Everything is built in a private directory beside it, and replaces it
in one step after it was read back; the damaged file is kept.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from hermes_sessions.errors import (
    DiskFull,
    InvalidInput,
    NotADatabase,
    StoreCorrupt,
    StoreError,
    StoreMissing,
)
from hermes_sessions.storage.care.repair.report import FileFinding, RepairOptions, RepairReport
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.sqlite.exclusive_access import LockedFile, lock_file
from hermes_sessions.storage.sqlite.file_access import check_ownership
from hermes_sessions.storage.sqlite.repair.disk_format import repair_header
from hermes_sessions.storage.sqlite.repair.file_check import (
    check_copy,
    check_file,
    wal_findings,
)
from hermes_sessions.storage.sqlite.repair.salvage import salvage
from hermes_sessions.storage.sqlite.search_index import drop_damaged_search_index
from hermes_sessions.storage.sqlite.wal_files import apply_wal

# Damaged files are kept beside the repaired store, up to a limit.


COMPANIONS: Final = ("-wal", "-journal")


def kept_files(store: Path) -> list[Path]:
    """Return the damaged files kept beside *store*, oldest first."""
    name = re.compile(re.escape(store.name) + r"\.damaged-\d{8}T\d{6}Z(\.\d+)?\Z")
    return sorted(
        (path for path in store.parent.iterdir() if name.match(path.name)),
        key=lambda path: (path.name.partition(".damaged-")[2].split(".")[0], len(path.name)),
    )


def is_kept_already(store: Path) -> Path | None:
    """Return the kept file that is *store* itself: a repair was interrupted in its last step."""
    for path in kept_files(store):
        if path.samefile(store):
            return path
    return None


def log_of(store: Path) -> Path:
    """Return the path of the write-ahead log of *store*."""
    beside = Path(f"{store}-wal")
    kept = is_kept_already(store)
    if kept is not None and not (beside.exists() and beside.stat().st_size):
        return Path(f"{kept}-wal")
    return beside


def put_in_place(new: Path, store: Path, now: float, copy_to: Callable[[Path], object]) -> Path:
    """Replace *store* by *new* in one step, and return where the replaced file is kept.

    *copy_to* copies it if the file system has no links. No other program has the store open. There
    is always a file with the store's name. If its log has already been moved, it is still the
    damaged file, and the next repair finds the log.
    """
    kept = is_kept_already(store) or _free_name(store, now)
    if not kept.exists():
        try:
            os.link(store, kept)
        except OSError:
            copy_to(kept)
    _sync(store.parent)
    for ending in COMPANIONS:
        beside = Path(f"{store}{ending}")
        if beside.exists():
            # The new file would use it as its own.
            beside.replace(f"{kept}{ending}")
    Path(f"{store}-shm").unlink(missing_ok=True)
    _sync(store.parent)
    new.replace(store)
    _sync(store.parent)
    return kept


def remove_oldest(store: Path, keep: int) -> list[str]:
    """Remove all but the newest *keep* damaged files; return the removed names."""
    removed = []
    files = kept_files(store)
    for path in files[: max(0, len(files) - keep)]:
        try:
            for ending in (*COMPANIONS, ""):
                Path(f"{path}{ending}").unlink(missing_ok=True)
        except OSError as error:
            logger.warning("%s could not be removed: %s", path, error.strerror)
        else:
            removed.append(path.name)
    return removed


def _free_name(store: Path, now: float) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    path = store.with_name(f"{store.name}.damaged-{stamp}")
    number = 2
    while os.path.lexists(path):
        path = store.with_name(f"{store.name}.damaged-{stamp}.{number}")
        number += 1
    return path


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


logger = Logger(__name__)

_PATIENCE: Final = 2.0
#: Space for the copy, the rows read from it, and the new file.
_ROOM: Final = 3
_SPARE_BYTES: Final = 4 * 1024 * 1024


def check(path: Path) -> RepairReport:
    """See `FileCare.check_store`."""
    real = _existing(path)
    findings = check_file(real)
    return RepairReport(str(path), "damaged" if findings else "sound", findings)


def repair(path: Path, options: RepairOptions) -> RepairReport:
    """See `FileCare.repair_store`."""
    real = _existing(path)
    check_ownership(str(path))
    if options.to is not None and os.path.lexists(options.to):
        raise InvalidInput(f"{options.to} already exists. Choose another file.")
    report = RepairReport(str(path))
    with _held(real, options) as file, _work_directory(real, options, file.size) as work:
        options.on_progress("copying", file.size)
        report.findings, page_size = _prepare(file, work / "damaged.db", report)
        if not report.findings:
            return report
        if not _is_search_alone(report.findings):
            return _salvage(file, work, page_size, options, report)
    return _rebuild_index(path, options, report)


def _salvage(
    file: LockedFile, work: Path, page_size: int, options: RepairOptions, report: RepairReport
) -> RepairReport:
    new = work / "new.db"
    salvage(work, new, page_size, options, report)
    options.on_progress("checking", 0)
    _require_sound(new)
    report.state = "repaired"
    if options.to is not None:
        new.replace(options.to)
        report.target = str(options.to)
        return report
    file.require_alone()
    kept = put_in_place(new, file.path, options.clock(), file.copy_to)
    report.target, report.kept = report.path, kept.name
    report.removed = remove_oldest(file.path, options.keep)
    return report


def _rebuild_index(path: Path, options: RepairOptions, report: RepairReport) -> RepairReport:
    """Rebuild the search index; if that is not enough, salvage the whole file."""
    real = path.resolve()
    if options.to is None:
        try:
            try:
                _rebuild_search_index(path, options)
            except StoreCorrupt as error:
                logger.info("The index cannot be dropped: %s", error)
                drop_damaged_search_index(real, _PATIENCE)
                _rebuild_search_index(path, options)
            if not check_file(real):
                report.state, report.target = "rebuilt", report.path
                return report
        except (StoreCorrupt, NotADatabase) as error:
            logger.info("The index cannot be rebuilt in place: %s", error)
    with _held(real, options) as file, _work_directory(real, options, file.size) as work:
        _, page_size = _prepare(file, work / "damaged.db", report)
        return _salvage(file, work, page_size, options, report)


def _rebuild_search_index(path: Path, options: RepairOptions) -> None:
    with SessionDB(path, clock=options.clock) as db:
        db.optimize_search(
            rebuild=True, on_progress=lambda done, _all: options.on_progress("indexing", done)
        )


def _existing(path: Path) -> Path:
    real = path.resolve()
    if not real.is_file():
        raise StoreMissing(f"{path} does not exist. Check the path, or restore a backup.")
    return real


def _held(store: Path, options: RepairOptions) -> AbstractContextManager[LockedFile]:
    return lock_file(store, _PATIENCE, to_replace=options.to is None)


@contextmanager
def _work_directory(store: Path, options: RepairOptions, size: int) -> Iterator[Path]:
    """Lend a private directory beside the target; remains of an earlier run are removed."""
    place = store if options.to is None else options.to.absolute()
    needed = _ROOM * size + _SPARE_BYTES
    free = shutil.disk_usage(place.parent).free
    if free < needed:
        raise DiskFull(
            f"{store} was not repaired: that temporarily needs about {needed / 1e6:,.0f} MB beside "
            f"it, but {free / 1e6:,.0f} MB are free. Free some space, or write to another disk "
            f"with --to."
        )
    work = place.with_name(f"{place.name}.repairing")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(mode=0o700)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _prepare(file: LockedFile, copy: Path, report: RepairReport) -> tuple[list[FileFinding], int]:
    """Copy the file, apply its log to the copy, and return the problems."""
    findings: list[FileFinding] = []
    report.unreadable_bytes = file.copy_to(copy)
    if report.unreadable_bytes:
        findings.append(FileFinding("file", "", f"{report.unreadable_bytes} bytes cannot be read"))
    log = log_of(file.path)
    if log.exists():
        shutil.copyfile(log, f"{copy}-wal.copy")
        state = apply_wal(Path(f"{copy}-wal.copy"), copy)
        findings += wal_findings(state)
        if state.frames and file.size == 0:
            findings.append(FileFinding("file", "", "it is empty, but its write-ahead log is not"))
    journal = Path(f"{file.path}-journal")
    if journal.exists():
        shutil.copyfile(journal, f"{copy}-journal")
    mended = repair_header(copy)
    if mended.was_lost:
        findings.append(FileFinding("header", "", "the file does not start like a database"))
    if mended.missing_pages:
        detail = f"{mended.missing_pages} pages at its end are missing"
        findings.append(FileFinding("file", "", detail))
    return [*findings, *check_copy(copy, file.path)], mended.page_size


def _is_search_alone(findings: list[FileFinding]) -> bool:
    return all(finding.what == "search" for finding in findings)


def _require_sound(new: Path) -> None:
    findings = check_file(new)
    if findings:
        raise StoreError(
            f"The new file is damaged ({findings[0].detail}); the old one was not "
            f"changed. Check the disk and the memory of this machine, then try again."
        )

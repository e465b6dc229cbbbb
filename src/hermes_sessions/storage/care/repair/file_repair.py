"""Repairing a SQLite file: copy it, save what can be read, check the result, put it in place.

The damaged file is only ever read. Everything is made in a private directory beside it, and takes
its place in one step after it was read back; the damaged file is kept.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
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
from hermes_sessions.storage.care.repair.errand import Errand
from hermes_sessions.storage.care.repair.keeping import log_of, put_in_place, remove_oldest
from hermes_sessions.storage.care.repair.report import RepairReport
from hermes_sessions.storage.care.repair.salvage import save
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.sqlite.file_access import check_ownership
from hermes_sessions.storage.sqlite.repair.file_check import (
    Finding,
    check_copy,
    check_file,
    log_findings,
)
from hermes_sessions.storage.sqlite.repair.header import mend_header
from hermes_sessions.storage.sqlite.repair.holding import HeldFile, held
from hermes_sessions.storage.sqlite.repair.index import cut_out_index
from hermes_sessions.storage.sqlite.wal_files import apply_log

logger = Logger(__name__)

_PATIENCE: Final = 2.0
#: The copy, the rows read from it, and the new file.
_ROOM: Final = 3
_SPARE_BYTES: Final = 4 * 1024 * 1024


def check(path: Path) -> RepairReport:
    """Say what is wrong with a file. Nothing is changed, and others may be using it.

    Raises:
        StoreMissing: there is none.
        StoreError: it cannot be looked at.
    """
    real = _existing(path)
    findings = check_file(real)
    return RepairReport(str(path), "damaged" if findings else "sound", findings)


def repair(path: Path, errand: Errand | None = None) -> RepairReport:
    """Save what can be read of a damaged file into a new one, and put that in its place, or write
    it where the errand says and leave the damaged one where it is.

    A sound file is left alone, and one whose search index alone is damaged gets a new index.

    Raises:
        StoreLocked: somebody has it open.
        StoreMissing: there is no such file.
        NotADatabase: nothing in it looks like a session or a message. It is left where it is.
        SchemaRefused: a later Hermes wrote it, and it would be replaced: say where to instead.
        InvalidInput: there is a file already where the new one should be.
        DiskFull, StoreError: nothing was changed.
    """
    errand = errand or Errand()
    real = _existing(path)
    check_ownership(str(path))
    if errand.to is not None and os.path.lexists(errand.to):
        raise InvalidInput(f"{errand.to} exists already. Choose a file that does not.")
    report = RepairReport(str(path))
    with _held(real, errand) as file, _workshop(real, errand, file.size) as work:
        errand.on_progress("copying", file.size)
        report.findings, page_size = _prepare(file, work / "damaged.db", report)
        if not report.findings:
            return report
        if not _is_search_alone(report.findings):
            return _salvage(file, work, page_size, errand, report)
    return _rebuild_index(path, errand, report)


def _salvage(
    file: HeldFile, work: Path, page_size: int, errand: Errand, report: RepairReport
) -> RepairReport:
    new = work / "new.db"
    save(work, new, page_size, errand, report)
    errand.on_progress("checking", 0)
    _require_sound(new)
    report.state = "repaired"
    if errand.to is not None:
        new.replace(errand.to)
        report.target = str(errand.to)
        return report
    file.require_alone()
    kept = put_in_place(new, file.path, errand.clock(), file.copy_to)
    report.target, report.kept = report.path, kept.name
    report.removed = remove_oldest(file.path, errand.keep)
    return report


def _rebuild_index(path: Path, errand: Errand, report: RepairReport) -> RepairReport:
    """Make the search index anew; where that is not enough, salvage all the same."""
    real = path.resolve()
    if errand.to is None:
        try:
            try:
                _index_anew(path, errand)
            except StoreCorrupt as error:
                logger.info("the index cannot be dropped: %s", error)
                cut_out_index(real, _PATIENCE)
                _index_anew(path, errand)
            if not check_file(real):
                report.state, report.target = "rebuilt", report.path
                return report
        except (StoreCorrupt, NotADatabase) as error:
            logger.info("the index cannot be made anew in its place: %s", error)
    with _held(real, errand) as file, _workshop(real, errand, file.size) as work:
        _, page_size = _prepare(file, work / "damaged.db", report)
        return _salvage(file, work, page_size, errand, report)


def _index_anew(path: Path, errand: Errand) -> None:
    with SessionDB(path, clock=errand.clock) as db:
        db.optimize_search(
            rebuild=True, on_progress=lambda done, _all: errand.on_progress("indexing", done)
        )


def _existing(path: Path) -> Path:
    real = path.resolve()
    if not real.is_file():
        raise StoreMissing(f"{path} is not there. Check the path, or restore a backup.")
    return real


def _held(store: Path, errand: Errand) -> AbstractContextManager[HeldFile]:
    return held(store, _PATIENCE, to_replace=errand.to is None)


@contextmanager
def _workshop(store: Path, errand: Errand, size: int) -> Iterator[Path]:
    """Lend a private directory beside the new file's place; what an earlier run left is removed."""
    place = store if errand.to is None else errand.to.absolute()
    needed = _ROOM * size + _SPARE_BYTES
    free = shutil.disk_usage(place.parent).free
    if free < needed:
        raise DiskFull(
            f"{store} was not repaired: that needs about {needed / 1e6:,.0f} MB beside it for a "
            f"while, and {free / 1e6:,.0f} MB are free. Free some space, or name another place "
            f"with --to."
        )
    work = place.with_name(f"{place.name}.repairing")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(mode=0o700)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _prepare(file: HeldFile, copy: Path, report: RepairReport) -> tuple[list[Finding], int]:
    """Copy the file, put its log into the copy, and return what is wrong with it."""
    findings: list[Finding] = []
    report.unreadable_bytes = file.copy_to(copy)
    if report.unreadable_bytes:
        findings.append(Finding("file", "", f"{report.unreadable_bytes} bytes cannot be read"))
    log = log_of(file.path)
    if log.exists():
        shutil.copyfile(log, f"{copy}-wal.copy")
        state = apply_log(Path(f"{copy}-wal.copy"), copy)
        findings += log_findings(state)
        if state.frames and file.size == 0:
            findings.append(Finding("file", "", "it is empty, but its write-ahead log is not"))
    journal = Path(f"{file.path}-journal")
    if journal.exists():
        shutil.copyfile(journal, f"{copy}-journal")
    mended = mend_header(copy)
    if mended.was_lost:
        findings.append(Finding("header", "", "the file does not begin as a database does"))
    if mended.missing_pages:
        detail = f"{mended.missing_pages} pages at its end are missing"
        findings.append(Finding("file", "", detail))
    return [*findings, *check_copy(copy, file.path)], mended.page_size


def _is_search_alone(findings: list[Finding]) -> bool:
    return all(finding.what == "search" for finding in findings)


def _require_sound(new: Path) -> None:
    findings = check_file(new)
    if findings:
        raise StoreError(
            f"The file that was made is not sound ({findings[0].detail}); the damaged one was not "
            f"changed. Check the disk and the memory of this machine, then try again."
        )

"""Damaged files that are kept beside the store they were taken from, a few of them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

COMPANIONS: Final = ("-wal", "-journal")


def kept_files(store: Path) -> list[Path]:
    """Return the damaged files that are kept beside *store*, oldest first."""
    name = re.compile(re.escape(store.name) + r"\.damaged-\d{8}T\d{6}Z(\.\d+)?\Z")
    return sorted(
        (path for path in store.parent.iterdir() if name.match(path.name)),
        key=lambda path: (path.name.partition(".damaged-")[2].split(".")[0], len(path.name)),
    )


def is_kept_already(store: Path) -> Path | None:
    """Return the kept file that is *store* itself: a repair ended in the midst of its last step."""
    for path in kept_files(store):
        if path.samefile(store):
            return path
    return None


def log_of(store: Path) -> Path:
    """Return where the write-ahead log of *store* is."""
    beside = Path(f"{store}-wal")
    kept = is_kept_already(store)
    if kept is not None and not (beside.exists() and beside.stat().st_size):
        return Path(f"{kept}-wal")
    return beside


def put_in_place(new: Path, store: Path, now: float, copy_to: Callable[[Path], object]) -> Path:
    """Replace *store* by *new* in one step, and return where the replaced file is kept; *copy_to*
    copies it where the file system has no links.

    Nobody else has the store open. There is always a file with the store's name; one whose log has
    been put aside already is still the damaged one, and the next repair finds its log.
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
            # The new file would take it for its own.
            beside.replace(f"{kept}{ending}")
    Path(f"{store}-shm").unlink(missing_ok=True)
    _sync(store.parent)
    new.replace(store)
    _sync(store.parent)
    return kept


def remove_oldest(store: Path, keep: int) -> list[str]:
    """Remove all but the newest *keep* damaged files; return the names of those removed."""
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

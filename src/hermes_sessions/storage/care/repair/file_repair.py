"""Check and repair the file of a store; the provider of such files does the work."""

from __future__ import annotations

from pathlib import Path

from hermes_sessions.storage.care.repair.report import RepairOptions, RepairReport
from hermes_sessions.storage.provider_registry import file_care


def check(path: Path) -> RepairReport:
    """Report the damage of a file. Nothing is changed, and others may be using it.

    Raises:
        StoreMissing: it does not exist.
        StoreError: it cannot be read.
    """
    return file_care().check_store(path)


def repair(path: Path, options: RepairOptions | None = None) -> RepairReport:
    """Recover what can be read of a damaged file into a new one, and replace the file by it, or
    write it to ``options.to`` and leave the damaged one in place.

    An intact file is left alone. If only the search index is damaged, it is rebuilt.

    Raises:
        StoreLocked: another program has it open.
        StoreMissing: the file does not exist.
        NotADatabase: nothing in it looks like a session or a message. It is left in place.
        SchemaRefused: a later Hermes wrote it and it would be replaced; use ``options.to``.
        InvalidInput: the target exists already.
        DiskFull, StoreError: nothing was changed.
    """
    return file_care().repair_store(path, options or RepairOptions())

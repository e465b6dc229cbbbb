"""Make files and their names survive a power failure."""

from __future__ import annotations

import os
from pathlib import Path


def sync_file(path: Path) -> None:
    """Make the content of a file durable.

    Not for a database that this process has open: closing a descriptor of it drops SQLite's locks.
    """
    _sync(path)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    _sync(directory)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

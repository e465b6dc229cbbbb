"""Whether everything that a write-ahead log holds would be read.

SQLite stops at the first page in it that is not as it was written, without a word, and deletes the
log of an empty file, even to look at it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from hermes_sessions.errors import StoreCorrupt, StoreLocked
from hermes_sessions.storage.sqlite.connection import log_size


def require_whole_log(
    path: Path, repair: str = "hermes repair", go_on: Callable[[], None] = lambda: None
) -> None:
    """Refuse a file with a log of which SQLite would leave out a part; *repair* is the command
    that saves it. Nothing is changed. *go_on* raises what ends the look, page by page.

    Raises:
        StoreCorrupt: it says so.
    """
    real = os.path.realpath(path)
    if log_size(real) == 0:
        return
    if os.stat(real).st_size == 0:
        raise StoreCorrupt(
            f"{path}: it is empty, but its write-ahead log is not; nothing was changed. "
            f"To save what is in there: {repair}"
        )
    # Needed after a crash alone; not loaded otherwise.
    from hermes_sessions.storage.sqlite.store_replacement import require_unused
    from hermes_sessions.storage.sqlite.wal_files import inspect_log

    try:
        require_unused(Path(real))
    except StoreLocked:
        return  # Whoever came first has read it already, and may be writing it.
    if inspect_log(Path(f"{real}-wal"), go_on).loses_writes:
        raise StoreCorrupt(
            f"{path}: its write-ahead log is damaged, and some writes would be missing; "
            f"nothing was changed. To save them: {repair}"
        )

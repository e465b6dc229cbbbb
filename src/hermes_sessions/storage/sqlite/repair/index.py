"""Taking a search index out of a file whose pages are too damaged to drop it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from hermes_sessions.storage.sqlite.connection import Deadline, Options
from hermes_sessions.storage.sqlite.error_translation import translated
from hermes_sessions.storage.sqlite.exclusive_access import sole_use

_OWN: Final = (
    "DELETE FROM sqlite_schema WHERE name = 'search_index' OR tbl_name LIKE 'search\\_index\\_%' "
    "ESCAPE '\\'"
)


def cut_out_index(path: Path, patience: float) -> None:
    """Remove the index's tables from the list of tables, and the pages that belong to nobody then.
    It happens as a whole or not at all; the index is made anew when the store is next used.

    Raises:
        StoreLocked: somebody else has the file open; it was not changed.
        StoreCorrupt: more than the index is damaged; it was not changed.
    """
    deadline = Deadline()
    deadline.start(patience)
    options = Options(lock_timeout=patience)
    with (
        translated(str(path)),
        sole_use(path, options, deadline, gated=True, still_needed=lambda _: True) as connection,
    ):
        if connection is not None:
            _cut_out(connection)


def _cut_out(connection: apsw.Connection) -> None:
    connection.pragma("writable_schema", 1)
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_OWN)
        # Everybody who opens the file from now on sees another list of tables.
        version = int(connection.pragma("schema_version"))
        connection.pragma("schema_version", version + 1)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    finally:
        connection.execute("PRAGMA writable_schema = RESET")
    connection.execute("VACUUM")

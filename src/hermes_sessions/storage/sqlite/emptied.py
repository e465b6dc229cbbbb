"""A file without tables where a store has been: emptied, not new.

Writers of a store take turns at a gate (`gate.py`), whose file lies beside it and is made by the
first write after the tables are there. Whoever makes a new store removes the gate of one that is
gone before there is a file. So a file without tables that has a gate once had tables, too; nobody
who finds one that is just being made takes it for an emptied one, if the gate is looked for first.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import apsw

from hermes_sessions.errors import StoreCorrupt
from hermes_sessions.storage.sqlite.file_kind import Kind, nature_of


class StoreEmptied(StoreCorrupt):
    """There was a store, and nothing of it is in the file any more. It was not changed."""


def require_not_emptied(path: Path, connection: apsw.Connection) -> None:
    """Refuse a file, open on *connection* and without tables, that had some before.

    Raises:
        StoreEmptied: it says what to do.
    """
    # (Looked at again: whoever makes a store may have come to its first write meanwhile.)
    if was_written(path) and nature_of(connection).kind is Kind.EMPTY:
        raise emptied(path)


def was_written(path: Path) -> bool:
    """Return whether a store of ours was written here."""
    return os.path.exists(_gate(path))


def emptied(path: Path) -> StoreEmptied:
    """Return what to raise for a file of which nothing is left."""
    what = "it is empty" if path.stat().st_size == 0 else "it has no tables any more"
    return StoreEmptied(
        f"{path}: {what}, but a store was here, as {_gate(path)} shows; nothing was changed. To "
        f"put a backup in its place: hermes backup list. To begin anew instead, remove the file."
    )


def forget_removed_store(path: Path) -> None:
    """Remove the gate of a store that is gone, before another one is made in its place. (Who has
    the removed file open still loses nothing: a gate is about turns.)
    """
    with suppress(OSError):
        os.unlink(_gate(path))


def _gate(path: Path) -> str:
    # Beside the file itself, not beside a link to it.
    return f"{os.path.realpath(path)}.gate"

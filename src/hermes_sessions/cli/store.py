"""Functions that open the configured store, or another one, for a command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_sessions.config import load_settings
from hermes_sessions.errors import (
    DiskFull,
    SchemaRefused,
    StoreError,
    StoreReadOnly,
    StoreUnreachable,
)
from hermes_sessions.storage.provider import OpenOptions, SessionDBProvider
from hermes_sessions.storage.provider_registry import attachment_limits, open_provider, open_url
from hermes_sessions.storage.sessiondb import SessionDB

if TYPE_CHECKING:
    from hermes_sessions.cli.console import Console


@contextmanager
def open_store_at(
    location: str | None, *, read_only: bool, upgrade_later: bool = False
) -> Iterator[SessionDBProvider]:
    """Open the store at a path or URL, or the configured one; close it after the block. With
    *upgrade_later*, a file of a later Hermes is turned into a store.

    Raises:
        InvalidInput, ConfigError, StoreError: one line that says what to do.
    """
    options = OpenOptions(read_only=read_only, upgrade_later=upgrade_later)
    if location is not None and "://" in location:
        provider = open_url(location, options)
    else:
        provider = open_provider(location, options).provider
    try:
        yield provider
    finally:
        provider.close()


_BESIDE_STORE = ("-wal", "-shm", "-journal", ".gate")


def open_for_reading(console: Console) -> SessionDB:
    """Open the configured store read-only.

    Does not create a missing SQLite file, but returns an empty store instead. Upgrades a store of
    an older format first.

    Raises:
        ConfigError, StoreError: one line that says what to do.
    """
    show_warnings(console)
    if not has_store():
        return _missing_store(console)
    try:
        db = SessionDB(read_only=True, clock=console.clock)
    except (StoreReadOnly, StoreUnreachable):
        # Opening for writing upgrades it, creates tables on a server, or raises the reason.
        return SessionDB(clock=console.clock)
    _follow_other_programs(db, console)
    return db


def _follow_other_programs(db: SessionDB, console: Console) -> None:
    """Update derived columns after writes of other programs, if this user may write the store."""
    from hermes_sessions.storage.repositories.stale_sessions import has_notes, settle_first

    if not has_notes(db.store):
        return
    with suppress(StoreError), SessionDB(clock=console.clock) as writer:
        settle_first(writer.store)


def open_for_searching(console: Console) -> SessionDB:
    """Open the configured store so that a search can update its index.

    Opens a store that cannot be written read-only, so that searches still work. Creates no store;
    raises as `open_for_reading`.
    """
    show_warnings(console)
    if not has_store():
        return _missing_store(console)
    try:
        return SessionDB(clock=console.clock)
    except (StoreReadOnly, DiskFull, SchemaRefused):
        return SessionDB(read_only=True, clock=console.clock)


def open_for_writing(console: Console, path: Path | None = None) -> SessionDB:
    """Open the configured store, or the SQLite file at *path* with the same settings.

    Raises as `open_for_reading`.
    """
    show_warnings(console)
    if path is None:
        return SessionDB(clock=console.clock)
    configured = load_settings()
    settings = configured.sessiondb
    return SessionDB(
        path,
        durability=settings.sqlite.durability,
        lock_timeout=settings.sqlite.lock_timeout,
        max_message_bytes=settings.max_message_bytes,
        attachments=attachment_limits(configured),
        clock=console.clock,
    )


def has_store() -> bool:
    """Return whether the store exists, without opening it.

    Assumes so for a server and for a path that cannot be examined: opening it raises the reason.
    """
    if load_settings().sessiondb.store_file is None:
        return True
    file = os.path.realpath(configured_file())
    # Opening the store handles a write-ahead log that was left without its file.
    return not (_is_missing(file) and _is_missing(f"{file}-wal"))


def _is_missing(path: str) -> bool:
    try:
        os.stat(path)  # noqa: PTH116 - `Path.exists` hides other errors
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _missing_store(console: Console) -> SessionDB:
    from hermes_sessions.cli.missing_store import MissingStore  # rarely needed

    return MissingStore(load_settings(), console.clock)


def configured_file() -> Path:
    """Return the path of the configured SQLite file."""
    return load_settings().sessiondb.sqlite.path


def is_file_of_store(path: str) -> bool:
    """Return whether *path* names the configured SQLite file or one that SQLite keeps beside it.

    Looks at names and links only: a live database file must not be opened by anything else.
    """
    store, real = configured_file(), Path(os.path.realpath(path))
    beside = {os.path.realpath(store) + ending for ending in ("", *_BESIDE_STORE)}
    return str(real) in beside or (real.exists() and store.exists() and real.samefile(store))


def transcripts_directory() -> Path:
    """Return the directory of transcript files of older versions; sessions delete theirs."""
    return load_settings().home / "sessions"


def show_warnings(console: Console) -> None:
    """Print the warnings about the configuration."""
    for warning in load_settings().warnings:
        console.tell(f"Warning: {warning}")

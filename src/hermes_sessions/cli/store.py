"""Opening the configured store for a command."""

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
from hermes_sessions.storage.provider_registry import open_provider, open_url
from hermes_sessions.storage.sessiondb import SessionDB

if TYPE_CHECKING:
    from hermes_sessions.cli.console import Console


@contextmanager
def open_store_at(place: str | None, *, read_only: bool) -> Iterator[SessionDBProvider]:
    """Lend the store at a path or URL, or the configured one.

    Raises:
        InvalidInput, ConfigError, StoreError: one line that says what to do.
    """
    options = OpenOptions(read_only=read_only)
    if place is not None and "://" in place:
        provider = open_url(place, options)
    else:
        provider = open_provider(place, options).provider
    try:
        yield provider
    finally:
        provider.close()


_BESIDE_STORE = ("-wal", "-shm", "-journal", ".gate")


def open_for_reading(console: Console) -> SessionDB:
    """Open the configured store without the right to change it.

    A SQLite file that does not exist yet is not made: an empty store is seen. A store whose format
    is older is upgraded first.

    Raises:
        ConfigError, StoreError: one line that says what to do.
    """
    show_warnings(console)
    if not has_store():
        return _missing_store(console)
    try:
        db = SessionDB(read_only=True, clock=console.clock)
    except (StoreReadOnly, StoreUnreachable):
        # Opening for writing upgrades it, or makes tables on a server, or says why it cannot.
        return SessionDB(clock=console.clock)
    _follow_other_programs(db, console)
    return db


def _follow_other_programs(db: SessionDB, console: Console) -> None:
    """Bring derived columns up to date that depend on what other programs wrote, if this user may
    write the store.
    """
    from hermes_sessions.storage.repositories.stale_sessions import has_notes, settle_first

    if not has_notes(db.store):
        return
    with suppress(StoreError), SessionDB(clock=console.clock) as writer:
        settle_first(writer.store)


def open_for_searching(console: Console) -> SessionDB:
    """Open the configured store so that a search can bring its index up to date.

    Where the store cannot be written, it is opened for reading only: a search answers all the
    same. None is made, and what is raised is, as by `open_for_reading`.
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
    settings = load_settings().sessiondb
    return SessionDB(
        path,
        durability=settings.sqlite.durability,
        lock_timeout=settings.sqlite.lock_timeout,
        max_message_bytes=settings.max_message_bytes,
        clock=console.clock,
    )


def has_store() -> bool:
    """Return whether there is something to open, without opening it; a server is believed, and so
    is a place that cannot be looked at: opening it says why.
    """
    if load_settings().sessiondb.store_file is None:
        return True
    file = os.path.realpath(configured_file())
    # A log that was left without its store is seen to when the store is made.
    return not (_is_missing(file) and _is_missing(f"{file}-wal"))


def _is_missing(path: str) -> bool:
    try:
        os.stat(path)  # noqa: PTH116 - `Path.exists` takes more than absence for it
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _missing_store(console: Console) -> SessionDB:
    from hermes_sessions.cli.missing_store import MissingStore  # once in the life of a home

    return MissingStore(load_settings(), console.clock)


def configured_file() -> Path:
    """Return the SQLite file that is the store when no other is named."""
    return load_settings().sessiondb.sqlite.path


def is_file_of_store(path: str) -> bool:
    """Return whether *path* names the configured SQLite file or one that SQLite keeps beside it.

    Looks at names and links only: a live database file must not be opened by anything else.
    """
    store, place = configured_file(), Path(os.path.realpath(path))
    beside = {os.path.realpath(store) + ending for ending in ("", *_BESIDE_STORE)}
    return str(place) in beside or (place.exists() and store.exists() and place.samefile(store))


def transcripts_directory() -> Path:
    """Return where transcript files of older versions lie; they go when their session goes."""
    return load_settings().home / "sessions"


def show_warnings(console: Console) -> None:
    """Say what looks like a mistake in the configuration."""
    for warning in load_settings().warnings:
        console.tell(f"Warning: {warning}")

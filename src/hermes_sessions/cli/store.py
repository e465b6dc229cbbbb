"""Opening the configured store for a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hermes_sessions.config import load_settings
from hermes_sessions.errors import StoreReadOnly, StoreUnreachable
from hermes_sessions.storage.sessiondb import SessionDB

if TYPE_CHECKING:
    from hermes_sessions.cli.console import Console


def open_for_reading(console: Console) -> SessionDB:
    """Open the configured store without the right to change it.

    A store that does not exist yet, or whose format is older, is created or upgraded first.

    Raises:
        ConfigError, StoreError: one line that says what to do.
    """
    _show_warnings(console)
    try:
        return SessionDB(read_only=True, clock=console.clock)
    except (StoreReadOnly, StoreUnreachable):
        # Opening for writing creates or upgrades it, or says why that is not possible.
        return SessionDB(clock=console.clock)


def open_for_writing(console: Console, path: str | Path | None = None) -> SessionDB:
    """Open the configured store, or the SQLite file at *path*; raises as `open_for_reading`."""
    _show_warnings(console)
    return SessionDB(path, clock=console.clock)


def transcripts_directory() -> Path:
    """Return where transcript files of older versions lie; they go when their session goes."""
    return load_settings().home / "sessions"


def _show_warnings(console: Console) -> None:
    for warning in load_settings().warnings:
        console.tell(f"Warning: {warning}")

"""Which database the lanes of a directory are in, when none is given."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from hermes_sessions.config import default_store_path, load_settings
from hermes_sessions.storage.sessiondb import SessionDB

SESSIONS_DIRECTORY = "sessions"
STORE_FILE = "state.db"


def open_database(sessions_dir: Path, clock: Callable[[], float]) -> SessionDB:
    """Open the configured store. Where the configuration names none, it is that of the home for the
    home's own ``sessions`` folder, and a file inside any other.

    Raises:
        StoreError: it cannot be opened.
        ConfigError: config.yaml is wrong.
    """
    settings = load_settings()
    configured = settings.sessiondb
    is_named = configured.provider != "sqlite" or configured.sqlite.path != default_store_path(
        settings.home
    )
    if is_named or _is_same_place(sessions_dir, settings.home / SESSIONS_DIRECTORY):
        return SessionDB(clock=clock)
    return SessionDB(
        sessions_dir / STORE_FILE,
        durability=configured.sqlite.durability,
        lock_timeout=configured.sqlite.lock_timeout,
        max_message_bytes=configured.max_message_bytes,
        clock=clock,
    )


def _is_same_place(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)

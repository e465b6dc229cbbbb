"""Which database a handle gets: from a path, or from the configuration.

The only place that names a concrete provider.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hermes_sessions.errors import ConfigError
from hermes_sessions.storage.provider import SessionDBProvider

Durability = Literal["full", "normal"]


def open_provider(
    db_path: str | Path | None,
    *,
    read_only: bool = False,
    durability: Durability | None = None,
    lock_timeout: float | None = None,
) -> tuple[SessionDBProvider, int | None]:
    """Open the SQLite file at *db_path*, or the configured store without one.

    Returns the provider and the configured limit of one message, None when only a path was given.
    """
    from hermes_sessions.storage.sqlite.connection import Options
    from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider

    if db_path is not None:
        defaults = Options()
        options = Options(
            durability=durability or defaults.durability,
            lock_timeout=lock_timeout or defaults.lock_timeout,
            read_only=read_only,
        )
        return SQLiteSessionDBProvider(db_path, options), None

    from hermes_sessions.config import load_settings

    settings = load_settings().sessiondb
    if settings.provider != "sqlite":
        raise ConfigError(
            f"sessiondb.provider: {settings.provider!r} is not available in this version. "
            f"Use: sqlite."
        )
    options = Options(
        durability=durability or settings.sqlite.durability,
        lock_timeout=lock_timeout or settings.sqlite.lock_timeout,
        journal=settings.sqlite.journal,
        read_only=read_only,
    )
    return SQLiteSessionDBProvider(settings.sqlite.path, options), settings.max_message_bytes

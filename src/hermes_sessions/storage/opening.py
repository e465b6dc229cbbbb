"""Which database a handle gets: from a path, or from the configuration.

The only place that names a concrete provider.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from hermes_sessions.errors import ConfigError
from hermes_sessions.storage.provider import SessionDBProvider

Durability = Literal["full", "normal"]


class Opened(NamedTuple):
    """A provider, and what the configuration says beside it; None where only a path was given."""

    provider: SessionDBProvider
    max_message_bytes: int | None = None
    trash_days: int | None = None


def open_provider(
    db_path: str | Path | None,
    *,
    read_only: bool = False,
    durability: Durability | None = None,
    lock_timeout: float | None = None,
) -> Opened:
    """Open the SQLite file at *db_path*, or the configured store without one."""
    from hermes_sessions.storage.sqlite.connection import Options
    from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider

    if db_path is not None:
        defaults = Options()
        options = Options(
            durability=durability or defaults.durability,
            lock_timeout=lock_timeout or defaults.lock_timeout,
            read_only=read_only,
        )
        return Opened(SQLiteSessionDBProvider(db_path, options))

    from hermes_sessions.config import load_settings

    loaded = load_settings()
    settings = loaded.sessiondb
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
    return Opened(
        SQLiteSessionDBProvider(settings.sqlite.path, options),
        settings.max_message_bytes,
        loaded.sessions.trash_days,
    )

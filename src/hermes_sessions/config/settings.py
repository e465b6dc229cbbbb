"""The settings as the rest of the package sees them: frozen values, one class per section.

Fields carry the names of the keys in ``keys.py`` and have no defaults of their own; a test keeps
the two in step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hermes_sessions.config.section import SettingsSection

#: Databases that come with this package.
ProviderName = Literal["sqlite", "postgresql", "mysql"]
Durability = Literal["full", "normal"]
JournalMode = Literal["auto", "wal", "delete"]
SynchronousCommit = Literal["server", "on", "off", "local", "remote_write", "remote_apply"]
ResumeDisplay = Literal["full", "minimal"]


class SQLiteSettings(SettingsSection):
    """``sessiondb.sqlite``: one file on this machine."""

    path: Path
    durability: Durability
    lock_timeout: float
    journal: JournalMode


class PostgreSQLSettings(SettingsSection):
    """``sessiondb.postgresql``: a server, by URL or by its parts."""

    dsn: str | None
    host: str | None
    port: int
    user: str | None
    password: str | None
    database: str | None
    schema: str
    max_connections: int
    lock_timeout: float
    statement_timeout: float
    synchronous_commit: SynchronousCommit


class MySQLSettings(SettingsSection):
    """``sessiondb.mysql``: a server, by URL or by its parts."""

    dsn: str | None
    host: str | None
    port: int
    user: str | None
    password: str | None
    database: str | None
    ssl_ca: str | None
    max_connections: int
    lock_timeout: float
    statement_timeout: float


class SessionDBSettings(SettingsSection):
    """``sessiondb``: which database, and what it accepts."""

    provider: str
    dsn: str | None
    max_message_bytes: int
    sqlite: SQLiteSettings
    postgresql: PostgreSQLSettings
    mysql: MySQLSettings


class ModelSettings(SettingsSection):
    """``model``: the endpoint that answers, and how patient to be with it."""

    base_url: str | None
    api_key: str | None
    default: str | None
    context_length: int | None
    connect_timeout: float
    first_byte_timeout: float
    piece_timeout: float
    retry_time: float


class SessionsSettings(SettingsSection):
    """``sessions``: what happens to sessions over time."""

    trash_days: int


class DisplaySettings(SettingsSection):
    """``display``: what is shown on the terminal."""

    resume_display: ResumeDisplay


class Settings(SettingsSection):
    """Everything that is configured. Immutable and hashable; equal when configured equally."""

    home: Path
    """The home directory; absolute, not necessarily existing."""
    warnings: tuple[str, ...]
    """What looks like a mistake in the file but does not stop anything; one line each."""
    sessiondb: SessionDBSettings
    model: ModelSettings
    sessions: SessionsSettings
    display: DisplaySettings


SECTION_CLASSES: dict[str, type[SettingsSection]] = {
    "": Settings,
    "sessiondb": SessionDBSettings,
    "sessiondb.sqlite": SQLiteSettings,
    "sessiondb.postgresql": PostgreSQLSettings,
    "sessiondb.mysql": MySQLSettings,
    "model": ModelSettings,
    "sessions": SessionsSettings,
    "display": DisplaySettings,
}
"""The class of every section, outer sections first."""

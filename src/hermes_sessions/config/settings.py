"""The settings as the rest of the package sees them: frozen values, one class per section.

Fields carry the names of the keys in ``keys.py`` and have no defaults of their own; a test keeps
the two in step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hermes_sessions.config.care_settings import (
    RepairSettings,
    RetentionLimits,
    RetentionSettings,
)
from hermes_sessions.config.gateway_settings import (
    AgentSettings,
    BusyInputMode,
    GatewaySettings,
    HomeChannelSettings,
    PlatformSettings,
    PrivacySettings,
    ResetOverrides,
    SessionResetSettings,
    StreamingSettings,
)
from hermes_sessions.config.section import NamedValues, SettingsSection
from hermes_sessions.model.price import Price

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
    prices: tuple[tuple[str, Price], ...]


class SessionsSettings(SettingsSection):
    """``sessions``: what happens to sessions over time."""

    trash_days: int
    auto_prune: bool
    retention_days: int


class BackupsSettings(SettingsSection):
    """``backups``: where they are, how long they stay, and whether a migration makes one."""

    directory: Path
    keep: int
    max_age_days: int | None
    max_bytes: int | None
    before_migration: bool
    before_migration_max_bytes: int | None


class DisplaySettings(SettingsSection):
    """``display``: what is shown."""

    resume_display: ResumeDisplay
    busy_input_mode: BusyInputMode
    busy_ack_enabled: bool


class Settings(SettingsSection):
    """Everything that is configured. Immutable and hashable; equal when configured equally."""

    home: Path
    """The home directory; absolute, not necessarily existing."""
    warnings: tuple[str, ...]
    """What looks like a mistake in the file but does not stop anything; one line each."""
    sessiondb: SessionDBSettings
    model: ModelSettings
    sessions: SessionsSettings
    repair: RepairSettings
    retention: RetentionSettings
    backups: BackupsSettings
    display: DisplaySettings
    session_reset: SessionResetSettings
    platforms: NamedValues[PlatformSettings]
    group_sessions_per_user: bool
    thread_sessions_per_user: bool
    session_store_max_age_days: int
    gateway: GatewaySettings
    agent: AgentSettings
    privacy: PrivacySettings
    streaming: StreamingSettings


SECTION_CLASSES: dict[str, type[SettingsSection]] = {
    "": Settings,
    "sessiondb": SessionDBSettings,
    "sessiondb.sqlite": SQLiteSettings,
    "sessiondb.postgresql": PostgreSQLSettings,
    "sessiondb.mysql": MySQLSettings,
    "model": ModelSettings,
    "sessions": SessionsSettings,
    "repair": RepairSettings,
    "retention": RetentionSettings,
    "retention.human": RetentionLimits,
    "retention.cron": RetentionLimits,
    "retention.subagent": RetentionLimits,
    "retention.api": RetentionLimits,
    "backups": BackupsSettings,
    "display": DisplaySettings,
    "session_reset": SessionResetSettings,
    "session_reset.by_type.<type>": ResetOverrides,
    "platforms.<name>": PlatformSettings,
    "platforms.<name>.home_channel": HomeChannelSettings,
    "platforms.<name>.session_reset": ResetOverrides,
    "gateway": GatewaySettings,
    "agent": AgentSettings,
    "privacy": PrivacySettings,
    "streaming": StreamingSettings,
}
"""The class of every section, outer sections first; ``<…>`` stands for any name. A section of such
sections is a `NamedValues`."""

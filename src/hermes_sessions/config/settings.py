"""The settings as the rest of the package sees them: frozen values, one class per section.

Fields carry the names of the keys in ``keys.py`` and have no defaults of their own; a test keeps
the two in step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NoReturn, TypeVar, dataclass_transform

from hermes_sessions.config.error_text import is_secret
from hermes_sessions.model.price import Price

# What a section of the settings is: named values that never change, and that hide secrets.
#
# A data class would do, but defining one takes ten times as long, and every start defines them all.


V_co = TypeVar("V_co", covariant=True)


@dataclass_transform(frozen_default=True, kw_only_default=True)
class SettingsSection:
    """One value for each annotation of the class, all given by name.

    Hashable; equal to a section of the same class with equal values.
    """

    def __init__(self, **values: object) -> None:
        names = type(self).__annotations__
        if values.keys() != names.keys():
            wrong = ", ".join(sorted(values.keys() ^ names.keys()))
            raise TypeError(f"{type(self).__name__}: missing or unknown: {wrong}")
        self.__dict__.update({name: values[name] for name in names})

    def __setattr__(self, name: str, _value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be removed")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        shown = {name: value for name, value in self.__dict__.items() if not is_secret(name)}
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in shown.items())})"


class NamedValues(Mapping[str, V_co]):
    """Values under names of the user's choice. Never changes, is hashable, and hides secrets."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, V_co]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> V_co:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        shown = {name: value for name, value in self._values.items() if not is_secret(name)}
        return f"{type(self).__name__}({shown!r})"


# Settings of the lifecycle of conversations and of platforms, as the file has them.
#
# `gateway.GatewayConfig` is what the lifecycle itself takes.


ResetMode = Literal["none", "idle", "daily", "both"]


BusyInputMode = Literal["interrupt", "queue", "steer"]


ChatType = Literal["dm", "group", "channel", "thread"]


class ResetOverrides(SettingsSection):
    """``session_reset.by_type.<type>`` and ``platforms.<name>.session_reset``: what differs there;
    None: nothing.
    """

    mode: ResetMode | None
    at_hour: int | None
    idle_minutes: int | None
    notify: bool | None
    notify_exclude_platforms: tuple[str, ...] | None
    timezone: str | None


class SessionResetSettings(SettingsSection):
    """``session_reset``: when conversations start anew by themselves."""

    mode: ResetMode
    at_hour: int
    idle_minutes: int
    notify: bool
    notify_exclude_platforms: tuple[str, ...]
    timezone: str | None
    by_type: NamedValues[ResetOverrides]


class HomeChannelSettings(SettingsSection):
    """``platforms.<name>.home_channel``: where messages go when nobody says where."""

    chat_id: str | None
    name: str | None
    thread_id: str | None


class PlatformSettings(SettingsSection):
    """``platforms.<name>``: one messenger."""

    enabled: bool | None
    token: str | None
    api_key: str | None
    allowed_users: tuple[str, ...]
    allowed_chats: tuple[str, ...]
    allowed_roles: tuple[str, ...]
    pairing: bool
    messages_per_minute: int
    home_channel: HomeChannelSettings
    session_reset: ResetOverrides
    extra: NamedValues[object]
    """All other keys, for the platform's adapter: text, tuples of it, and further `NamedValues`."""

    @property
    def is_enabled(self) -> bool:
        """Whether the platform is used: as it says, or because it has a token or a key."""
        return bool(self.token or self.api_key) if self.enabled is None else self.enabled


class GatewaySettings(SettingsSection):
    """``gateway``: the process that connects the agent to messengers."""

    namespace: str
    write_sessions_json: bool | None
    expiry_first_pass: float
    expiry_interval: float
    finalize_turn: bool
    finalize_timeout: float
    agent_cache_size: int
    agent_cache_ttl: float
    mailbox_limit: int
    keep_days: int
    max_turns: int
    lease_seconds: float


class StreamingSettings(SettingsSection):
    """``streaming``: how replies are shown while they are written."""

    enabled: bool
    edit_interval: float
    buffer_threshold: int
    cursor: str


class AgentSettings(SettingsSection):
    """``agent``: how turns are run on messengers."""

    gateway_timeout: float
    gateway_timeout_warning: float
    gateway_notify_interval: float
    restart_drain_timeout: float
    gateway_auto_continue_freshness: float


class PrivacySettings(SettingsSection):
    """``privacy``: what is kept from the model."""

    redact_pii: bool


# The settings of what looks after a store; see ``settings.py``.

#: Kinds of sessions that have limits of their own; see `hermes_sessions.model.session_class`.
SESSION_CLASSES = ("human", "cron", "subagent", "api")


class RepairSettings(SettingsSection):
    """``repair``: what a repair leaves behind."""

    keep: int


class RetentionLimits(SettingsSection):
    """``retention.<class>``: how long, how many and how much; None: without a limit."""

    max_age_days: int | None
    max_count: int | None
    max_bytes: int | None


class RetentionSettings(SettingsSection):
    """``retention``: what may be deleted in time, after the plan was approved."""

    close_after_days: int
    human: RetentionLimits
    cron: RetentionLimits
    subagent: RetentionLimits
    api: RetentionLimits


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

"""Every setting, declared once: `Settings` and the sections of the store.

A new key is one field here or in ``gateway_settings.py``: its name, default, kind, environment
variables and doc. ``derived_keys.py`` derives everything else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, get_args

from hermes_sessions.config.gateway_settings import (
    AgentSettings,
    BusyInputMode,
    GatewaySettings,
    PlatformSettings,
    PrivacySettings,
    SessionResetSettings,
    StreamingSettings,
)
from hermes_sessions.config.key_types import (
    Choice,
    ChoiceOrPlugin,
    FilePath,
    HomeDefault,
    MapOf,
    ModelPrice,
    Name,
    OptionalValue,
    Seconds,
    Size,
    Text,
    TextList,
    WholeNumber,
    YesNo,
)
from hermes_sessions.config.paths import default_store_path
from hermes_sessions.config.sections import (
    NamedValues,
    SettingsSection,
    named_sections,
    section,
    setting,
)
from hermes_sessions.model.price import Price

#: Databases that come with this package.
ProviderName = Literal["sqlite", "postgresql", "mysql"]
Durability = Literal["full", "normal"]
JournalMode = Literal["auto", "wal", "delete"]
SynchronousCommit = Literal["server", "on", "off", "local", "remote_write", "remote_apply"]
ResumeDisplay = Literal["full", "minimal"]

PROVIDER_ENTRY_POINTS: Final = "hermes_sessions.providers"
"""The entry point by which packages add databases; their names may be ``sessiondb.provider``."""


class SQLiteSettings(SettingsSection):
    """``sessiondb.sqlite``: one file on this machine."""

    path: Path = setting(
        HomeDefault(
            default_store_path,
            "`hermes-sessions.db` in the home directory if it exists, else `state.db` there",
        ),
        kind=FilePath(),
        doc="The SQLite file.",
    )
    durability: Durability = setting(
        "full",
        kind=Choice(get_args(Durability)),
        doc=(
            "`full`: acknowledged writes survive power loss; `normal`: they survive a crash of the "
            "process, and power loss may cost the most recent ones."
        ),
    )
    lock_timeout: float = setting(
        16.0,
        kind=Seconds(at_most=3600),
        doc="How long a write waits for other processes before it fails.",
    )
    journal: JournalMode = setting(
        "auto",
        kind=Choice(get_args(JournalMode)),
        doc="`auto`: write-ahead log, or a rollback journal where the file system does not support "
        "one.",
    )


class ServerSettings(SettingsSection):
    """What every database server has."""

    dsn: str | None = setting(
        None,
        kind=Text(),
        doc="The URL of the database; overrides the keys below. Write secrets as `${VAR}`.",
    )
    host: str | None = setting(
        None, kind=Text(), doc="The {product} server; default: this machine.{hosts}"
    )
    user: str | None = setting(None, kind=Text(), doc="The user; default: the driver's.")
    password: str | None = setting(None, kind=Text(), doc="The password, best as `${VAR}`.")
    database: str | None = setting(None, kind=Text(), doc="The database; it must exist.")
    max_connections: int = setting(
        10,
        kind=WholeNumber(at_least=1, at_most=1000),
        doc="How many connections one process opens at most.",
    )
    lock_timeout: float = setting(
        16.0,
        kind=Seconds(at_most=3600),
        doc="How long a write waits for others, and for a server that is restarting.",
    )
    statement_timeout: float = setting(
        120.0,
        kind=Seconds(at_most=86400),
        doc="How long the server may work on one statement.",
    )


class PostgreSQLSettings(ServerSettings):
    """``sessiondb.postgresql``: a server, by URL or by its parts."""

    port: int = setting(5432, kind=WholeNumber(at_least=1, at_most=65535), doc="Its port.")
    schema: str = setting(
        "public",
        kind=Name(),
        doc="The schema that holds the tables; created if it is missing and that is allowed.",
    )
    synchronous_commit: SynchronousCommit = setting(
        "server",
        kind=Choice(get_args(SynchronousCommit)),
        doc=(
            "When a write counts as stored; `server`: as the server is configured, `off`: a crash "
            "of the server may cost the most recent writes."
        ),
    )


class MySQLSettings(ServerSettings):
    """``sessiondb.mysql``: a server, by URL or by its parts."""

    port: int = setting(3306, kind=WholeNumber(at_least=1, at_most=65535), doc="Its port.")
    ssl_ca: str | None = setting(
        None,
        kind=Text(),
        doc="A file with the certificates to trust; if set, the connection is encrypted.",
    )


class SessionDBSettings(SettingsSection):
    """``sessiondb``: which database, and what it accepts."""

    provider: str = setting(
        "sqlite",
        kind=ChoiceOrPlugin(get_args(ProviderName), PROVIDER_ENTRY_POINTS),
        doc="The database that holds the sessions; also one that an installed package provides.",
    )
    dsn: str | None = setting(
        None,
        kind=Text(),
        doc="The URL of the database, for a provider without a section here.",
    )
    max_message_bytes: int = setting(
        8 * 1024**2,
        # The upper bound leaves room for a row's other columns under SQLite's limit of one row.
        kind=Size(at_least=1024, at_most=512 * 1024**2),
        doc="A larger message is refused before anything is written.",
    )
    sqlite: SQLiteSettings = section(SQLiteSettings)
    postgresql: PostgreSQLSettings = section(PostgreSQLSettings, product="PostgreSQL", hosts="")
    mysql: MySQLSettings = section(
        MySQLSettings,
        product="MySQL or MariaDB",
        hosts=" Separate the nodes of a cluster with commas: `one,two:3307`.",
    )

    @property
    def store_file(self) -> Path | None:
        """The file that holds the configured store; None if a server holds it."""
        chosen = vars(self).get(self.provider)
        return chosen.path if isinstance(chosen, SQLiteSettings) else None

    @property
    def server(self) -> PostgreSQLSettings | MySQLSettings | None:
        """The section of the configured server; None for a file, and for a provider of a plug-in,
        which has `dsn` alone.
        """
        chosen = vars(self).get(self.provider)
        return chosen if isinstance(chosen, PostgreSQLSettings | MySQLSettings) else None


class AttachmentSettings(SettingsSection):
    """``storage.attachments``: images and files outside of the rows of messages."""

    enabled: bool = setting(
        True,
        kind=YesNo(),
        doc=(
            "Whether images and files in messages are stored as "
            "[attachments](store.md#attachments), once for all messages that have them. If not, "
            "new ones stay in the message, and earlier versions can keep writing to the store."
        ),
    )
    threshold: int = setting(
        16 * 1024,
        kind=Size(at_least=1024, at_most=1024**3),
        doc="From how many characters of base64 on.",
    )
    max_bytes: int = setting(
        64 * 1024**2,
        kind=Size(at_least=1024, at_most=1024**3),
        doc="A message with a larger one is refused before anything is written.",
    )


class StorageSettings(SettingsSection):
    """``storage``: what is kept beside the rows of messages."""

    attachments: AttachmentSettings = section(AttachmentSettings)


class SearchSettings(SettingsSection):
    """``search``: how queries are read."""

    synonyms: tuple[str, ...] = setting(
        (),
        kind=TextList(),
        doc=(
            "Words that mean the same, like `[standup = daily, kettle = boiler]`, besides a "
            "[built-in list](search.md#when-nothing-matches-as-asked)."
        ),
    )


class ModelSettings(SettingsSection, shared=True, short_form="default"):
    """``model``: the endpoint that answers, its timeouts and its prices."""

    base_url: str | None = setting(
        None,
        kind=Text(),
        doc=(
            "The URL of an OpenAI-compatible endpoint, usually ending in `/v1`: see "
            "[models](models.md)."
        ),
        may_be_unset=True,
    )
    api_key: str | None = setting(
        None,
        kind=Text(),
        doc="Its key, best as `${VAR}`; sent to that URL only.",
        may_be_unset=True,
    )
    default: str | None = setting(
        None,
        kind=Text(),
        doc="The model to use; may also be written as `model: name`.",
        may_be_unset=True,
    )
    context_length: int | None = setting(
        None,
        kind=OptionalValue(WholeNumber(at_least=256, at_most=100_000_000)),
        doc="The context window of the model in tokens; default: the one known for the model.",
    )
    connect_timeout: float = setting(
        10.0, kind=Seconds(at_most=600), doc="How long connecting to the endpoint may take."
    )
    first_byte_timeout: float = setting(
        180.0, kind=Seconds(at_most=86400), doc="How long the answer may take to begin."
    )
    piece_timeout: float = setting(
        180.0, kind=Seconds(at_most=86400), doc="How long the answer may pause after that."
    )
    retry_time: float = setting(
        60.0,
        kind=Seconds(at_most=3600),
        doc="How long a call that failed before its first token is retried, at most five times.",
    )
    prices: tuple[tuple[str, Price], ...] = setting(
        (),
        kind=MapOf(ModelPrice(), "model"),
        doc=(
            "US dollars per million tokens, for models that the "
            "[catalogue](models.md#what-it-costs) does not have or that cost you something else."
        ),
    )


class SessionsSettings(SettingsSection):
    """``sessions``: what happens to sessions over time."""

    trash_days: int = setting(
        30,
        kind=WholeNumber(at_least=0, at_most=36500),
        doc=(
            "How many days a deleted session can be restored from the trash; after that, "
            "maintenance deletes it for good."
        ),
    )
    auto_prune: bool = setting(
        False,
        kind=YesNo(),
        doc=(
            "Whether `sessions.retention_days` applies to classes without a limit of their own; "
            "nothing is deleted before the [plan](retention.md) was approved."
        ),
    )
    retention_days: int = setting(
        90,
        kind=WholeNumber(at_least=1, at_most=36500),
        doc="Days after the last activity, if `sessions.auto_prune` is on.",
    )


class RepairSettings(SettingsSection):
    """``repair``: what a repair keeps."""

    keep: int = setting(
        3,
        kind=WholeNumber(at_least=1, at_most=1000),
        doc="How many damaged files [`hermes repair`](repair.md) keeps.",
    )


class RetentionLimits(SettingsSection):
    """``retention.<class>``: how long, how many and how much; None: no limit."""

    max_age_days: int | None = setting(
        None,
        kind=OptionalValue(WholeNumber(at_least=1, at_most=36500)),
        doc=(
            "How many days after their last activity {sessions} may be deleted; see "
            "[retention](retention.md)."
        ),
    )
    max_count: int | None = setting(
        None,
        kind=OptionalValue(WholeNumber(at_least=0, at_most=10**9)),
        doc="How many {sessions} are kept, newest first.",
    )
    max_bytes: int | None = setting(
        None,
        kind=OptionalValue(Size(at_least=0, at_most=10**6 * 1024**3)),
        doc="How much text of {sessions} is kept, newest first.",
    )


class RetentionSettings(SettingsSection):
    """``retention``: what may be deleted over time, after the plan was approved.

    One section for each `hermes_sessions.model.retention.SessionClass`.
    """

    close_after_days: int = setting(
        30,
        kind=WholeNumber(at_least=1, at_most=36500),
        doc=(
            "After how many days without activity a session that was never ended counts as ended, "
            "so that the limits of its class apply."
        ),
    )
    human: RetentionLimits = section(RetentionLimits, sessions="conversations of people")
    cron: RetentionLimits = section(RetentionLimits, sessions="sessions of scheduled jobs")
    subagent: RetentionLimits = section(
        RetentionLimits, sessions="sessions of subagents that belong to no other session"
    )
    api: RetentionLimits = section(RetentionLimits, sessions="sessions of programs")


class BackupsSettings(SettingsSection):
    """``backups``: where they are, how long they stay, and whether a migration makes one."""

    directory: Path = setting(
        HomeDefault(lambda home: home / "backups", "`backups` in the home directory"),
        kind=FilePath(),
        doc="Where [backups](backup.md) are kept.",
    )
    keep: int = setting(
        10,
        kind=WholeNumber(at_least=1, at_most=1_000_000),
        doc="How many backups per store are kept; a new one replaces the oldest.",
    )
    max_age_days: int | None = setting(
        None,
        kind=OptionalValue(WholeNumber(at_least=1, at_most=36500)),
        doc="Older backups are deleted, except the newest complete one of a store.",
    )
    max_bytes: int | None = setting(
        None,
        kind=OptionalValue(Size(at_least=1024**2, at_most=1024**5)),
        doc=(
            "How much space all backups may take; the newest complete one of a store is kept "
            "anyway."
        ),
    )
    before_migration: bool = setting(
        True,
        kind=YesNo(),
        doc="Whether a store is backed up before a new version changes its tables.",
    )
    before_migration_max_bytes: int | None = setting(
        None,
        kind=OptionalValue(Size(at_least=1024**2, at_most=1024**5)),
        doc=(
            "A larger store is changed without a backup, with a warning; default: every store is "
            "backed up."
        ),
    )


class DisplaySettings(SettingsSection, shared=True):
    """``display``: what is shown."""

    resume_display: ResumeDisplay = setting(
        "full",
        kind=Choice(get_args(ResumeDisplay)),
        doc="`full`: a recap of the conversation when it is resumed; `minimal`: one line.",
    )
    busy_input_mode: BusyInputMode = setting(
        "interrupt",
        kind=Choice(get_args(BusyInputMode)),
        doc=(
            "What a message does that arrives while the agent works: `interrupt` it, wait in a "
            "`queue`, or `steer` it after the next tool call."
        ),
    )
    busy_ack_enabled: bool = setting(
        True, kind=YesNo(), doc="Whether the sender of such a message gets an acknowledgement."
    )


class Settings(SettingsSection, shared=True):
    """Everything that is configured. Immutable and hashable; equal when configured equally."""

    home: Path
    """The home directory; absolute, not necessarily existing."""
    warnings: tuple[str, ...]
    """Likely mistakes in the file that do not stop anything; one line each."""
    sessiondb: SessionDBSettings = section(SessionDBSettings)
    storage: StorageSettings = section(StorageSettings)
    search: SearchSettings = section(SearchSettings)
    model: ModelSettings = section(ModelSettings)
    sessions: SessionsSettings = section(SessionsSettings)
    repair: RepairSettings = section(RepairSettings)
    retention: RetentionSettings = section(RetentionSettings)
    backups: BackupsSettings = section(BackupsSettings)
    display: DisplaySettings = section(DisplaySettings)
    session_reset: SessionResetSettings = section(SessionResetSettings)
    group_sessions_per_user: bool = setting(
        True,
        kind=YesNo(),
        doc="Whether each user in a group or channel has a conversation of their own.",
    )
    thread_sessions_per_user: bool = setting(
        False,
        kind=YesNo(),
        doc="Whether each user in a thread has one, too; otherwise its members share one.",
    )
    session_store_max_age_days: int = setting(
        0,
        kind=WholeNumber(at_least=0, at_most=36500),
        doc=(
            "After how many unused days a chat no longer continues its session; the session stays. "
            "0: never."
        ),
    )
    platforms: NamedValues[PlatformSettings] = named_sections("name", PlatformSettings)
    gateway: GatewaySettings = section(GatewaySettings)
    streaming: StreamingSettings = section(StreamingSettings)
    agent: AgentSettings = section(AgentSettings)
    privacy: PrivacySettings = section(PrivacySettings)

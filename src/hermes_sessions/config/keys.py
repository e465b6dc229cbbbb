"""Every key of the configuration file, declared once.

Validation, error messages, suggestions and the reference in ``docs/configuration.md`` come from
this table. A new key is one entry here and one field of the same name in ``settings.py``.
"""

from __future__ import annotations

from typing import get_args

from hermes_sessions.config.gateway_keys import GATEWAY_DISPLAY_KEYS, GATEWAY_KEYS
from hermes_sessions.config.key_types import (
    Choice,
    ChoiceOrPlugin,
    FilePath,
    HomeDefault,
    Key,
    MapOf,
    ModelPrice,
    Name,
    OptionalValue,
    Seconds,
    Size,
    Text,
    WholeNumber,
    YesNo,
)
from hermes_sessions.config.paths import default_store_path
from hermes_sessions.config.settings import (
    SESSION_CLASSES,
    Durability,
    JournalMode,
    ProviderName,
    ResumeDisplay,
    SynchronousCommit,
)

# Keys of what looks after a store; see ``keys.py``.


_WHO = {
    "human": "conversations of people",
    "cron": "sessions of scheduled jobs",
    "subagent": "sessions of subagents that nobody else belongs to",
    "api": "sessions of programs",
}


def _limits(name: str) -> tuple[Key, ...]:
    who = _WHO[name]
    return (
        Key(
            f"retention.{name}.max_age_days",
            OptionalValue(WholeNumber(at_least=1, at_most=36500)),
            None,
            f"How many days after their last activity {who} may be deleted; see "
            f"[retention](retention.md).",
        ),
        Key(
            f"retention.{name}.max_count",
            OptionalValue(WholeNumber(at_least=0, at_most=10**9)),
            None,
            f"How many {who} are kept, the newest first.",
        ),
        Key(
            f"retention.{name}.max_bytes",
            OptionalValue(Size(at_least=0, at_most=10**6 * 1024**3)),
            None,
            f"How much text of {who} is kept, the newest first.",
        ),
    )


CARE_KEYS: tuple[Key, ...] = (
    Key(
        "sessions.auto_prune",
        YesNo(),
        False,
        "Whether classes without a limit of their own have that of `sessions.retention_days`; "
        "nothing goes before the [plan](retention.md) was approved.",
    ),
    Key(
        "sessions.retention_days",
        WholeNumber(at_least=1, at_most=36500),
        90,
        "That many days after the last activity, if `sessions.auto_prune` is on.",
    ),
    Key(
        "repair.keep",
        WholeNumber(at_least=1, at_most=1000),
        3,
        "How many damaged files [`hermes repair`](repair.md) keeps.",
    ),
    Key(
        "retention.close_after_days",
        WholeNumber(at_least=1, at_most=36500),
        30,
        "After how many days without activity a session that was never ended counts as ended, so "
        "that its class's limits reach it.",
    ),
    *(key for name in SESSION_CLASSES for key in _limits(name)),
)


PROVIDER_ENTRY_POINTS = "hermes_sessions.providers"
"""The entry point by which packages bring databases; their names may be ``sessiondb.provider``."""


def _server_keys(section: str, *, product: str, port: int, hosts: str = "") -> tuple[Key, ...]:
    """Return the keys that every server has; *hosts* says what else can stand for a host."""
    return (
        Key(
            f"{section}.dsn",
            Text(),
            None,
            "The URL of the database; wins over the parts below. Secrets as `${VAR}`.",
        ),
        Key(
            f"{section}.host",
            Text(),
            None,
            f"The {product} server; without one, on this machine.{hosts}",
        ),
        Key(f"{section}.port", WholeNumber(at_least=1, at_most=65535), port, "Its port."),
        Key(f"{section}.user", Text(), None, "The user; without one, the driver's default."),
        Key(f"{section}.password", Text(), None, "The password, best as `${VAR}`."),
        Key(f"{section}.database", Text(), None, "The database; it must exist."),
        Key(
            f"{section}.max_connections",
            WholeNumber(at_least=1, at_most=1000),
            10,
            "How many connections one process opens at most.",
        ),
        Key(
            f"{section}.lock_timeout",
            Seconds(at_most=3600),
            16.0,
            "How long a write waits for others, and for a server that is being restarted.",
        ),
        Key(
            f"{section}.statement_timeout",
            Seconds(at_most=86400),
            120.0,
            "How long the server may work on one statement.",
        ),
    )


BACKUPS_KEYS: tuple[Key, ...] = (
    Key(
        "backups.directory",
        FilePath(),
        HomeDefault(lambda home: home / "backups", "`backups` in the home directory"),
        "Where [backups](backup.md) are kept.",
    ),
    Key(
        "backups.keep",
        WholeNumber(at_least=1, at_most=1_000_000),
        10,
        "How many backups of one store stay; the oldest go when a new one is made.",
    ),
    Key(
        "backups.max_age_days",
        OptionalValue(WholeNumber(at_least=1, at_most=36500)),
        None,
        "Older backups go; the newest whole one of a store never does.",
    ),
    Key(
        "backups.max_bytes",
        OptionalValue(Size(at_least=1024**2, at_most=1024**5)),
        None,
        "How much all backups together may take; the newest whole one of a store stays all the "
        "same.",
    ),
    Key(
        "backups.before_migration",
        YesNo(),
        True,
        "Whether a store is backed up before a new version changes its tables.",
    ),
    Key(
        "backups.before_migration_max_bytes",
        OptionalValue(Size(at_least=1024**2, at_most=1024**5)),
        None,
        "A larger store is changed without a backup, with a warning; not set: every store is "
        "backed up.",
    ),
)

KEYS: tuple[Key, ...] = (
    Key(
        "sessiondb.provider",
        ChoiceOrPlugin(get_args(ProviderName), PROVIDER_ENTRY_POINTS),
        "sqlite",
        "The database that holds the sessions; also one that an installed package provides.",
    ),
    Key(
        "sessiondb.dsn",
        Text(),
        None,
        "The URL of the database, for a provider that has no section of its own here.",
    ),
    Key(
        "sessiondb.max_message_bytes",
        # The upper bound leaves room for a row's other columns under SQLite's limit of one row.
        Size(at_least=1024, at_most=512 * 1024**2),
        8 * 1024**2,
        "A larger message is refused before anything is written.",
    ),
    Key(
        "sessiondb.sqlite.path",
        FilePath(),
        HomeDefault(
            default_store_path,
            "`hermes-sessions.db` in the home directory if it exists, else `state.db` there",
        ),
        "The SQLite file.",
    ),
    Key(
        "sessiondb.sqlite.durability",
        Choice(get_args(Durability)),
        "full",
        "`full`: what was acknowledged survives power loss; `normal`: it survives the death of "
        "the process, and power loss may cost the last moments.",
    ),
    Key(
        "sessiondb.sqlite.lock_timeout",
        Seconds(at_most=3600),
        16.0,
        "How long a write waits for other processes before it gives up.",
    ),
    Key(
        "sessiondb.sqlite.journal",
        Choice(get_args(JournalMode)),
        "auto",
        "`auto`: write-ahead log, and a rollback journal where the file system cannot carry one.",
    ),
    *_server_keys("sessiondb.postgresql", product="PostgreSQL", port=5432),
    Key(
        "sessiondb.postgresql.schema",
        Name(),
        "public",
        "The schema that holds the tables; created if it is missing and that is allowed.",
    ),
    Key(
        "sessiondb.postgresql.synchronous_commit",
        Choice(get_args(SynchronousCommit)),
        "server",
        "When a write counts as stored; `server`: as the server is set up, `off`: a crash of the "
        "server may cost the last moments.",
    ),
    *_server_keys(
        "sessiondb.mysql",
        product="MySQL or MariaDB",
        port=3306,
        hosts=" The nodes of a cluster with commas between them: `one,two:3307`.",
    ),
    Key(
        "sessiondb.mysql.ssl_ca",
        Text(),
        None,
        "A file with the certificates to trust; the connection is encrypted then.",
    ),
    Key(
        "model.base_url",
        Text(),
        None,
        "The address of an OpenAI-compatible endpoint, usually ending in `/v1`: see "
        "[models](models.md).",
        may_be_unset=True,
    ),
    Key(
        "model.api_key",
        Text(),
        None,
        "Its key, best as `${VAR}`; sent to that address only.",
        may_be_unset=True,
    ),
    Key(
        "model.default",
        Text(),
        None,
        "The model to ask; may also be written as `model: name`.",
        may_be_unset=True,
    ),
    Key(
        "model.context_length",
        OptionalValue(WholeNumber(at_least=256, at_most=100_000_000)),
        None,
        "How many tokens the model takes in; when it is not set, what is known of the model.",
    ),
    Key(
        "model.connect_timeout",
        Seconds(at_most=600),
        10.0,
        "How long connecting to the endpoint may take.",
    ),
    Key(
        "model.first_byte_timeout",
        Seconds(at_most=86400),
        180.0,
        "How long the endpoint may think before its answer begins.",
    ),
    Key(
        "model.piece_timeout",
        Seconds(at_most=86400),
        180.0,
        "How long it may fall silent after that.",
    ),
    Key(
        "model.retry_time",
        Seconds(at_most=3600),
        60.0,
        "How long a call that failed before its first piece is tried again, at most five times.",
    ),
    Key(
        "model.prices",
        MapOf(ModelPrice(), "model"),
        (),
        "US dollars per million tokens of models that the [catalogue](models.md#what-it-costs) "
        "does not know, or at your own price.",
    ),
    Key(
        "sessions.trash_days",
        WholeNumber(at_least=0, at_most=36500),
        30,
        "How many days a deleted session stays in the trash and can be restored; after that, the "
        "maintenance that programs run deletes it for good.",
    ),
    *BACKUPS_KEYS,
    Key(
        "display.resume_display",
        Choice(get_args(ResumeDisplay)),
        "full",
        "`full`: a recap of the conversation when it is resumed; `minimal`: one line.",
    ),
    *CARE_KEYS,
    *GATEWAY_DISPLAY_KEYS,
    *GATEWAY_KEYS,
)

FIXED_KEYS: tuple[Key, ...] = tuple(key for key in KEYS if "<" not in key.path)
"""The keys whose whole path is known; in the others a part like ``<name>`` stands for any name."""

KEY_AT: dict[str, Key] = {key.path: key for key in KEYS}

SECTIONS: frozenset[str] = frozenset(
    path.rsplit(".", depth)[0] for path in KEY_AT for depth in range(1, path.count(".") + 1)
)
"""Every path that leads to a key and must hold further keys."""

NAMED_SECTIONS: dict[str, str] = {
    path.rpartition(".")[0]: path.rpartition(".")[2] for path in SECTIONS if path.endswith(">")
}
"""Sections that hold further sections under names of the user's choice, and what stands for one."""


def declared_path(path: str) -> str:
    """Return the path under which a key or section is declared: names as what stands for them."""
    declared = ""
    for part in path.split("."):
        found = NAMED_SECTIONS.get(declared, part)
        declared = f"{declared}.{found}" if declared else found
    return declared


SHORT_FORMS: dict[str, str] = {
    "model": "model.default",
    "platforms.<name>.home_channel": "platforms.<name>.home_channel.chat_id",
}
"""Sections that may be written as a single value, and the key that value is for."""

SHARED_SECTIONS: frozenset[str] = frozenset(
    {"", "agent", "display", "gateway", "model", "platforms.<name>", "privacy", "streaming"}
)
"""Where other programs that read the same file keep keys of their own ("" is the top level): an
unknown key is mentioned only when it looks like a misspelt one of ours."""

FREE_SECTIONS: frozenset[str] = frozenset({"platforms.<name>"})
"""Sections whose further keys are kept for somebody who knows them."""

RESERVED: frozenset[str] = frozenset(
    {
        "approvals",
        "compression",
        "max_concurrent_sessions",
        "sessions.min_interval_hours",
        "sessions.vacuum_after_prune",
        "sessions.write_json_snapshots",
    }
)
"""Names that belong to other parts and programs: neither read nor warned about."""

"""Every key of the configuration file, declared once.

Validation, error messages, suggestions and the reference in ``docs/configuration.md`` come from
this table. A new key is one entry here and one field of the same name in ``settings.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, get_args

from hermes_sessions.config.kinds import (
    Choice,
    ChoiceOrPlugin,
    FilePath,
    Kind,
    Name,
    OrNothing,
    Seconds,
    Size,
    Text,
    WholeNumber,
)
from hermes_sessions.config.paths import default_store_path
from hermes_sessions.config.settings import (
    Durability,
    JournalMode,
    ProviderName,
    ResumeDisplay,
    SynchronousCommit,
)

PROVIDER_ENTRY_POINTS = "hermes_sessions.providers"
"""The entry point by which packages bring databases; their names may be ``sessiondb.provider``."""


class ByHome(NamedTuple):
    """A default that depends on the home directory, and how the reference describes it."""

    value: Callable[[Path], object]
    described: str


class Key(NamedTuple):
    """One key: its dotted path, what may be written, the default, and one line about it."""

    path: str
    kind: Kind
    default: object
    doc: str
    environment: tuple[str, ...] = ()
    """Environment variables that win over the file; the first that is set and not empty."""

    may_be_unset: bool = False
    """Whether a `${VAR}` that is not set means the default: the store can do without this key."""

    @property
    def default_text(self) -> str:
        """The default in words, as errors and the reference show it."""
        if isinstance(self.default, ByHome):
            return self.default.described
        if self.default is None:
            return "not set"
        return self.kind.show(self.default)

    def default_value(self, home: Path) -> object:
        """The value of the key when it is not configured."""
        return self.default.value(home) if isinstance(self.default, ByHome) else self.default


def _server_keys(section: str, *, product: str, port: int) -> tuple[Key, ...]:
    """Return the keys that every server has."""
    return (
        Key(
            f"{section}.dsn",
            Text(),
            None,
            "The URL of the database; wins over the parts below. Secrets as `${VAR}`.",
        ),
        Key(
            f"{section}.host", Text(), None, f"The {product} server; without one, on this machine."
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
        ByHome(
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
    *_server_keys("sessiondb.mysql", product="MySQL or MariaDB", port=3306),
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
        OrNothing(WholeNumber(at_least=256, at_most=100_000_000)),
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
        "sessions.trash_days",
        WholeNumber(at_least=0, at_most=36500),
        30,
        "How many days a deleted session stays in the trash and can be restored; after that, the "
        "maintenance that programs run deletes it for good.",
    ),
    Key(
        "display.resume_display",
        Choice(get_args(ResumeDisplay)),
        "full",
        "`full`: a recap of the conversation when it is resumed; `minimal`: one line.",
    ),
)

KEY_AT: dict[str, Key] = {key.path: key for key in KEYS}

SECTIONS: frozenset[str] = frozenset(
    path.rsplit(".", depth)[0] for path in KEY_AT for depth in range(1, path.count(".") + 1)
)
"""Every path that leads to a key and must hold further keys."""

SHORT_FORMS: dict[str, str] = {"model": "model.default"}
"""Sections that may be written as a single value, and the key that value is for."""

SHARED_SECTIONS: frozenset[str] = frozenset({"", "display", "model"})
"""Where other programs that read the same file keep keys of their own ("" is the top level): an
unknown key is mentioned only when it looks like a misspelt one of ours."""

RESERVED: frozenset[str] = frozenset(
    {
        "agent",
        "approvals",
        "compression",
        "gateway",
        "group_sessions_per_user",
        "max_concurrent_sessions",
        "platforms",
        "privacy",
        "session_reset",
        "session_store_max_age_days",
        "sessions.auto_prune",
        "sessions.min_interval_hours",
        "sessions.retention_days",
        "sessions.vacuum_after_prune",
        "sessions.write_json_snapshots",
        "streaming",
        "thread_sessions_per_user",
    }
)
"""Names that belong to other parts and programs: neither read nor warned about."""

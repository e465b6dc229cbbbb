"""The tables of a store: each column declared once, with its traits.

SQLite, PostgreSQL and MySQL render their tables from here; records, export, import, comparison,
backups, repair and the reference in docs/tables.md take their lists of columns from here. To add a
column, declare it at the end of its table with ``since``, and add that step to `COLUMN_STEPS`. See
docs/decisions/0019-columns.md.
"""

from typing import Final, Literal, NamedTuple

#: ``serial``: a generated number. ``name``: text of bounded length that may be part of a key.
Kind = Literal["serial", "name", "text", "real", "integer", "bytes"]
#: What the value is: ``amount`` is money, ``flag`` 0 or 1, ``number`` an id or a position.
#: ``json`` is text for callers; ``value`` is JSON that they give and see as the value it says.
Holds = Literal[
    "text", "json", "value", "content", "time", "count", "amount", "flag", "number", "bytes"
]
#: ``given``: callers state and see it. ``shown``: they see it. ``exported``: only exports have it.
#: ``hidden``: the store's own.
Access = Literal["given", "shown", "exported", "hidden"]
#: How whole stores are copied: ``session`` and ``lane``: a row belongs to one of these; ``row``: on
#: its own; ``proof``: likewise, but it stays in a copy when its original goes; ``blob``: before
#: what refers to it; ``backup``: only backups have it.
Carried = Literal["session", "lane", "row", "proof", "blob", "backup"]

_HELD: Final[dict[Kind, Holds]] = {
    "serial": "number",
    "name": "text",
    "text": "text",
    "real": "time",
    "integer": "count",
    "bytes": "bytes",
}


class Column(NamedTuple):
    """One column.

    ``references`` names a table whose id it holds. ``holds`` follows from the kind unless stated.
    ``compared`` as ``place``: the value depends on other sessions of the store; as ``never``:
    sessions that differ in it alone are the same. A column that is not ``copied`` describes one
    database only. ``generated``: the database computes it.
    """

    name: str
    kind: Kind
    doc: str = ""
    required: bool = False
    default: int | None = None
    references: str | None = None
    access: Access = "given"
    meaning: Holds | None = None
    compared: Literal["content", "place", "never"] = "content"
    copied: bool = True
    documented: bool = False
    #: Whether only messages of an assistant have it.
    assistant_only: bool = False
    #: The migration that adds it; None when its table was created with it.
    since: str | None = None
    generated: bool = False

    @property
    def holds(self) -> Holds:
        """What the value is."""
        return self.meaning or _HELD[self.kind]


class Index(NamedTuple):
    """An index; a unique one allows any number of NULLs.

    ``sqlite`` is what SQLite has instead: the columns in another order and a condition; ``UNIQUE``
    for a constraint of the table; ``none`` for nothing.
    """

    name: str
    columns: tuple[str, ...]
    unique: bool = False
    sqlite: str = ""
    #: The migration that adds it; None when its table was created with it.
    since: str | None = None


class Table:
    """One table; ``key`` is its primary key."""

    __slots__ = (
        "carried",
        "columns",
        "copied",
        "copied_names",
        "doc",
        "imported",
        "indexes",
        "key",
        "local",
        "name",
        "sqlite_key",
    )

    def __init__(
        self,
        name: str,
        key: tuple[str, ...],
        columns: tuple[Column, ...],
        indexes: tuple[Index, ...] = (),
        *,
        doc: str = "",
        local: str = "",
        carried: Carried = "row",
        imported: bool = False,
        sqlite_key: Literal["column", "constraint", "none"] = "constraint",
    ) -> None:
        """Declare a table. *local* says why it describes one database only, so that backups and
        copies omit it; otherwise *carried* says how they take it. An import from the file of
        another store adds its rows if it is *imported*. *sqlite_key* is how SQLite declares the
        key.
        """
        self.name = name
        self.key = key
        self.columns = columns
        self.indexes = indexes
        self.doc = doc
        self.local = local
        self.carried = carried
        self.imported = imported
        self.sqlite_key = sqlite_key
        #: The columns of a portable backup and of a copy in another database, in order.
        self.copied = tuple([c for c in columns if c.copied])
        self.copied_names = tuple([c.name for c in self.copied])

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    @property
    def row_key(self) -> tuple[str, ...]:
        """The columns that identify a row in every store: not a number that the database gives."""
        if not any(self.column(name).kind == "serial" for name in self.key):
            return self.key
        return next((index.columns for index in self.indexes if index.unique), self.key)

    def column(self, name: str) -> Column:
        """Return the column of this name."""
        return next(column for column in self.columns if column.name == name)

    def created_with(self) -> tuple[Column, ...]:
        """Return the columns that the table is created with; the others come with later steps."""
        return tuple([column for column in self.columns if column.since is None])

    def indexes_of(self, step: str | None = None) -> list[Index]:
        """Return the indexes that a migration adds; those of the created table for None."""
        return [index for index in self.indexes if index.since == step]


def names_of(table: Table, *access: Access) -> list[str]:
    """Return the names of the columns with one of these kinds of access, in order."""
    return [column.name for column in table.columns if column.access in access]


def given(table: Table, *holds: Holds) -> list[str]:
    """Return the names of the columns that callers state and that hold one of these."""
    return [c.name for c in table.columns if c.access == "given" and c.holds in holds]


def _added(step: str, *columns: Column) -> tuple[Column, ...]:
    """Return columns that a migration adds to an existing table."""
    return tuple([column._replace(since=step) for column in columns])


SESSIONS: Final = Table(
    "sessions",
    ("id",),
    (
        Column(
            "id",
            "name",
            "The session's id, given by the caller.",
            required=True,
            access="shown",
            documented=True,
        ),
        Column(
            "source",
            "text",
            "Where the session came from, such as `cli` or `telegram`.",
            required=True,
            documented=True,
        ),
        Column("user_id", "text", "The user the session belongs to.", documented=True),
        Column("model", "text", "The model that answers in the session.", documented=True),
        Column(
            "model_config",
            "text",
            "Settings of the model, as a JSON object.",
            meaning="json",
            documented=True,
        ),
        Column("system_prompt", "text", "The system prompt, byte for byte.", documented=True),
        Column(
            "parent_session_id",
            "name",
            "The session that this one continues, branches from or is a subagent of.",
            references="sessions",
            access="shown",
            documented=True,
        ),
        Column("started_at", "real", "When the session started.", required=True, documented=True),
        Column("ended_at", "real", "When it ended; NULL while it is open.", documented=True),
        Column(
            "end_reason",
            "text",
            "Why it ended, such as `compression` or `branched`.",
            documented=True,
        ),
        Column(
            "message_count",
            "integer",
            "Number of messages that are neither rewound nor replaced by a summary.",
            default=0,
            access="shown",
            documented=True,
        ),
        Column(
            "tool_call_count",
            "integer",
            "Number of tool calls in these messages.",
            default=0,
            documented=True,
        ),
        Column(
            "input_tokens",
            "integer",
            "Input tokens that were neither read from nor written to the model's cache.",
            default=0,
            documented=True,
        ),
        Column(
            "output_tokens",
            "integer",
            "Output tokens of the model, including its reasoning.",
            default=0,
            documented=True,
        ),
        Column(
            "cache_read_tokens",
            "integer",
            "Input tokens read from the model's cache.",
            default=0,
            documented=True,
        ),
        Column(
            "cache_write_tokens",
            "integer",
            "Input tokens written to the model's cache.",
            default=0,
            documented=True,
        ),
        Column(
            "reasoning_tokens",
            "integer",
            "Reasoning tokens, which are part of the output tokens.",
            default=0,
            documented=True,
        ),
        Column("billing_provider", "text", "The provider that bills the calls.", documented=True),
        Column("billing_base_url", "text", "The base URL of the model's API.", documented=True),
        Column(
            "billing_mode",
            "text",
            "How calls are priced, such as `catalogue` and a version, or `included`.",
            documented=True,
        ),
        Column(
            "estimated_cost_usd",
            "real",
            "The cost computed from prices, in US dollars.",
            meaning="amount",
            documented=True,
        ),
        Column(
            "actual_cost_usd",
            "real",
            "The cost that the provider reported, in US dollars.",
            meaning="amount",
            documented=True,
        ),
        Column(
            "cost_status",
            "text",
            "How the cost is known: `actual`, `estimated`, `included` or `unknown`.",
            documented=True,
        ),
        Column(
            "cost_source",
            "text",
            "The source of the prices, such as `catalogue`, `config` or `provider`.",
            documented=True,
        ),
        Column("pricing_version", "text", "The version of the price list.", documented=True),
        Column(
            "title",
            "name",
            "The title, unique among the sessions of the store.",
            compared="place",
            documented=True,
        ),
        Column(
            "api_call_count", "integer", "Number of calls to the model.", default=0, documented=True
        ),
        Column(
            "handoff_state",
            "text",
            "State of the last handoff: `pending`, `running`, `completed` or `failed`.",
            documented=True,
        ),
        Column(
            "handoff_platform",
            "text",
            "The platform that the session is handed to.",
            documented=True,
        ),
        Column(
            "handoff_error",
            "text",
            "Why the last handoff failed; NULL if it did not.",
            documented=True,
        ),
        Column(
            "conversation_id",
            "name",
            "The id of the conversation's first session.",
            access="shown",
            compared="place",
        ),
        Column(
            "edge_kind",
            "text",
            "The relation to the parent: `compression`, `branch`, `subagent` or `handoff`.",
            access="shown",
        ),
        Column(
            "chain_id",
            "name",
            "The first session of the compression chain that this session is part of.",
            access="hidden",
            compared="place",
        ),
        Column(
            "tip_id",
            "name",
            "On the first session of a listed chain: the session that continues it now.",
            access="hidden",
            compared="place",
        ),
        Column(
            "listed",
            "integer",
            "1 if lists show the session.",
            required=True,
            default=0,
            access="hidden",
            meaning="flag",
            compared="place",
        ),
        Column(
            "last_active",
            "real",
            "Time of the newest message, or of the start; on a tip, the latest in its chain.",
            access="exported",
            compared="place",
        ),
        Column(
            "preview",
            "text",
            "The beginning of the first user message that is in force.",
            access="hidden",
        ),
        Column(
            "next_ordinal",
            "integer",
            "The position that the next message gets.",
            required=True,
            default=1,
            access="hidden",
            meaning="number",
        ),
        Column(
            "rewind_count", "integer", "Number of rewinds of the session.", required=True, default=0
        ),
        Column("archived_at", "real", "When the session was archived; NULL if it is not."),
        Column(
            "pinned_at",
            "real",
            "When it was pinned; NULL if it is not. Pinned conversations are never pruned.",
        ),
        Column(
            "trashed_at",
            "real",
            "When it was moved to the trash; 0 while it is being deleted.",
            access="hidden",
        ),
        Column(
            "trashed_title",
            "text",
            "The title it had before it was moved to the trash.",
            access="hidden",
        ),
        Column(
            "extra",
            "text",
            "Columns of other layouts that came with an import, as a JSON object.",
            access="exported",
            meaning="json",
        ),
        Column(
            "title_key",
            "name",
            "The title without its number, in lower case: equal for all numbered variants.",
            access="hidden",
            copied=False,
            generated=True,
        ),
        Column(
            "fence",
            "integer",
            "The fencing token that appends must present; NULL while the chain is not leased.",
            access="hidden",
            meaning="number",
            copied=False,
            since="0003_lifecycle",
        ),
        *_added(
            "0009_integrations",
            Column("session_key", "name", "The key of the messenger chat that it belongs to."),
            Column("chat_id", "name", "The id of the messenger chat."),
            Column("chat_type", "text", "The kind of chat, such as `dm` or `group`."),
            Column("thread_id", "name", "The id of the thread in the chat."),
            Column("display_name", "text", "The name of the chat, for people."),
            Column("origin_json", "text", "Where it came from, as a JSON object.", meaning="json"),
            Column(
                "expiry_finalized",
                "integer",
                "1 once a messenger gateway has run the hooks of its end.",
                default=0,
                meaning="flag",
            ),
            Column("cwd", "text", "The working directory when it started."),
            Column("git_branch", "text", "The git branch of that directory."),
            Column("git_repo_root", "text", "The root of the git repository there."),
            Column(
                "compression_failure_cooldown_until",
                "real",
                "Until when compression is not tried again after a failure.",
            ),
            Column("compression_failure_error", "text", "Why the last compression failed."),
            Column(
                "compression_fallback_streak",
                "integer",
                "Number of compressions in a row that fell back to a simple summary.",
                required=True,
                default=0,
            ),
            Column("profile_name", "text", "The profile of the agent; NULL for the default."),
            Column(
                "archived",
                "integer",
                "1 if the session is archived: whether `archived_at` is set.",
                access="shown",
                meaning="flag",
                copied=False,
                generated=True,
            ),
            Column(
                "change_count",
                "integer",
                "Number of changes of messages or state that are neither appends nor rewinds.",
                required=True,
                default=0,
                access="hidden",
                compared="never",
            ),
            Column(
                "revision",
                "integer",
                "Increases with every change of messages or state: appends, rewinds and others.",
                access="shown",
                meaning="number",
                copied=False,
                generated=True,
            ),
            Column("metadata", "text", "Values of the caller, as a JSON object.", meaning="json"),
            Column("tags", "text", "Tags, as a sorted JSON array of texts.", meaning="json"),
            Column(
                "workspace_id",
                "name",
                "The project that the session belongs to; see `workspaces`.",
                compared="place",
            ),
        ),
    ),
    (
        Index("idx_sessions_parent", ("parent_session_id",)),
        Index("idx_sessions_started", ("started_at",), sqlite="(started_at DESC)"),
        Index(
            "idx_sessions_title_unique",
            ("title",),
            unique=True,
            sqlite="(title) WHERE title IS NOT NULL",
        ),
        Index(
            "idx_sessions_title_key",
            ("title_key",),
            sqlite="(title_key) WHERE title_key IS NOT NULL",
        ),
        Index("idx_sessions_conversation", ("conversation_id",)),
        Index(
            "idx_sessions_active",
            ("last_active", "started_at", "id"),
            sqlite="(last_active DESC, started_at DESC, id DESC, listed, source)",
        ),
        Index(
            "idx_sessions_user",
            ("user_id", "last_active", "started_at", "id"),
            sqlite="(user_id, last_active DESC, started_at DESC, id DESC, listed, source) "
            "WHERE user_id IS NOT NULL",
        ),
        Index(
            "idx_sessions_trashed",
            ("trashed_at",),
            sqlite="(trashed_at) WHERE trashed_at IS NOT NULL",
        ),
        Index(
            "idx_sessions_session_key",
            ("session_key", "started_at"),
            sqlite="(session_key, started_at) WHERE session_key IS NOT NULL",
            since="0009_integrations",
        ),
        Index(
            "idx_sessions_chat",
            ("chat_id",),
            sqlite="(chat_id) WHERE chat_id IS NOT NULL",
            since="0009_integrations",
        ),
        Index(
            "idx_sessions_workspace",
            ("workspace_id",),
            sqlite="(workspace_id) WHERE workspace_id IS NOT NULL",
            since="0009_integrations",
        ),
    ),
    doc="One stored transcript. Lists read this table alone.",
    carried="session",
    sqlite_key="column",
)

MESSAGES: Final = Table(
    "messages",
    ("id",),
    (
        Column(
            "id", "serial", "The message's id.", access="shown", compared="place", documented=True
        ),
        Column(
            "session_id",
            "name",
            "The session that the message belongs to.",
            required=True,
            references="sessions",
            access="shown",
            documented=True,
        ),
        Column(
            "role",
            "text",
            "The author's role, such as `user`, `assistant` or `tool`.",
            required=True,
            documented=True,
        ),
        Column(
            "content",
            "text",
            "The content, encoded as `content_type` says.",
            meaning="content",
            documented=True,
        ),
        Column(
            "tool_call_id",
            "text",
            "The id of the tool call that this result answers.",
            documented=True,
        ),
        Column(
            "tool_calls",
            "text",
            "The tool calls of an assistant's message, as a JSON array.",
            meaning="json",
            documented=True,
        ),
        Column(
            "tool_name", "text", "The name of the tool that produced this result.", documented=True
        ),
        Column(
            "timestamp", "real", "When the message was written.", required=True, documented=True
        ),
        Column(
            "token_count",
            "integer",
            "Length in tokens; NULL if the caller did not state it.",
            documented=True,
        ),
        Column(
            "finish_reason",
            "text",
            "Why the model stopped, as its provider reported it.",
            documented=True,
        ),
        Column(
            "reasoning",
            "text",
            "The model's reasoning, as text.",
            documented=True,
            assistant_only=True,
        ),
        Column(
            "reasoning_content",
            "text",
            "Reasoning that must be sent back to the model as it was.",
            documented=True,
            assistant_only=True,
        ),
        Column(
            "reasoning_details",
            "text",
            "Structured reasoning, as JSON.",
            meaning="json",
            documented=True,
            assistant_only=True,
        ),
        Column(
            "codex_reasoning_items",
            "text",
            "Reasoning items of Codex, as JSON.",
            meaning="json",
            documented=True,
            assistant_only=True,
        ),
        Column(
            "codex_message_items",
            "text",
            "Message items of Codex, as JSON.",
            meaning="json",
            documented=True,
            assistant_only=True,
        ),
        Column(
            "ordinal",
            "integer",
            "Position in the session, assigned under the session's lock; clocks do not matter.",
            access="shown",
            meaning="number",
        ),
        Column(
            "content_type",
            "text",
            "The encoding of `content`: NULL for text, `json` or `base64`.",
            access="exported",
        ),
        Column(
            "external_id",
            "name",
            "The caller's id of the message; appending it twice stores it once.",
        ),
        Column(
            "active",
            "integer",
            "0 if rewound: hidden from replay and search, kept for audit and restore.",
            required=True,
            default=1,
            access="shown",
            meaning="flag",
        ),
        Column(
            "compacted",
            "integer",
            "1 if replaced by a summary: hidden from replay, still found by search.",
            required=True,
            default=0,
            access="shown",
            meaning="flag",
        ),
        Column(
            "rewind_id",
            "integer",
            "The rewind that hid the message.",
            access="exported",
            meaning="number",
            compared="place",
        ),
        Column(
            "extra",
            "text",
            "Columns of other layouts that came with an import, as a JSON object.",
            access="exported",
            meaning="json",
        ),
        *_added(
            "0009_integrations",
            Column(
                "effect_disposition",
                "text",
                "What became of a tool's effect, as the agent that ran it states.",
            ),
            Column("platform_message_id", "name", "The id of the message on its messenger."),
            Column(
                "observed",
                "integer",
                "1 if the agent only observed it, without being addressed.",
                default=0,
                meaning="flag",
            ),
            Column("api_content", "text", "The text sent to the model, where `content` differs."),
            Column(
                "payload", "text", "The object of an agent framework, as JSON.", meaning="value"
            ),
            Column(
                "payload_private",
                "integer",
                "1 if previews, search and exports for reading must not show the payload.",
                default=0,
                meaning="flag",
            ),
            Column(
                "attachments",
                "text",
                "What is stored as blobs: a JSON array of `id` (the digest), `column`, "
                "`media_type`, `name`, `size`. In that column, `[attachment <id>]` stands for it.",
                access="hidden",
                meaning="json",
            ),
        ),
    ),
    (
        Index("idx_messages_ordinal", ("session_id", "ordinal"), unique=True),
        Index(
            "idx_messages_external",
            ("session_id", "external_id"),
            unique=True,
            sqlite="(session_id, external_id) WHERE external_id IS NOT NULL",
        ),
        Index(
            "idx_messages_platform",
            ("session_id", "platform_message_id"),
            sqlite="(session_id, platform_message_id) WHERE platform_message_id IS NOT NULL",
            since="0009_integrations",
        ),
    ),
    doc="The messages of all sessions, rewound ones included.",
    carried="session",
)

USAGE: Final = Table(
    "session_model_usage",
    ("session_id", "route_key"),
    (
        Column(
            "session_id",
            "name",
            "The session that the calls were made for.",
            required=True,
            references="sessions",
            access="hidden",
        ),
        Column(
            "route_key",
            "name",
            "Digest of model, provider, base URL, billing mode and task.",
            required=True,
            access="hidden",
        ),
        Column("model", "text", "The model that was called."),
        Column("billing_provider", "text", "The provider that bills the calls."),
        Column("billing_base_url", "text", "The base URL of the model's API."),
        Column(
            "billing_mode",
            "text",
            "How calls are priced, such as `catalogue` and a version, or `included`.",
        ),
        Column("task", "text", "The auxiliary task, such as `title`; empty for the conversation."),
        Column(
            "input_tokens",
            "integer",
            "Input tokens that were neither read from nor written to the model's cache.",
            required=True,
            default=0,
        ),
        Column(
            "output_tokens",
            "integer",
            "Output tokens of the model, including its reasoning.",
            required=True,
            default=0,
        ),
        Column(
            "cache_read_tokens",
            "integer",
            "Input tokens read from the model's cache.",
            required=True,
            default=0,
        ),
        Column(
            "cache_write_tokens",
            "integer",
            "Input tokens written to the model's cache.",
            required=True,
            default=0,
        ),
        Column(
            "reasoning_tokens",
            "integer",
            "Reasoning tokens, which are part of the output tokens.",
            required=True,
            default=0,
        ),
        Column(
            "api_call_count", "integer", "Number of calls to the model.", required=True, default=0
        ),
        Column(
            "estimated_cost_usd",
            "real",
            "The cost computed from prices, in US dollars.",
            meaning="amount",
        ),
        Column(
            "actual_cost_usd",
            "real",
            "The cost that the provider reported, in US dollars.",
            meaning="amount",
        ),
        Column("first_at", "real", "When the first call was recorded.", required=True),
        Column("last_at", "real", "When the last call was recorded.", required=True),
    ),
    doc="Tokens and cost by session, model, route and task.",
    carried="session",
)

REWINDS: Final = Table(
    "rewinds",
    ("id",),
    (
        Column("id", "serial", "The rewind's id.", compared="place"),
        Column(
            "session_id",
            "name",
            "The session that was rewound.",
            required=True,
            references="sessions",
            access="shown",
        ),
        Column(
            "target_message_id",
            "integer",
            "The user message that the rewind went back to; it is hidden, too.",
            required=True,
            meaning="number",
            compared="place",
        ),
        Column(
            "target_ordinal",
            "integer",
            "The position of that message.",
            required=True,
            meaning="number",
        ),
        Column(
            "hidden_count",
            "integer",
            "Number of messages that the rewind hid.",
            required=True,
            meaning="number",
        ),
        Column(
            "head_ordinal",
            "integer",
            "The position of the last message that stayed in force; 0 if none did.",
            required=True,
            meaning="number",
        ),
        Column("rewound_at", "real", "When the session was rewound.", required=True),
        Column("restored_at", "real", "When the rewind was undone; NULL while it is in force."),
    ),
    (Index("idx_rewinds_session", ("session_id",)),),
    doc="Every rewind of a session.",
    carried="session",
)

TABLES: Final = (
    SESSIONS,
    MESSAGES,
    Table(
        "state_meta",
        ("key",),
        (
            Column("key", "name", "The name of the value.", required=True),
            Column("value", "text", "The value, as text."),
        ),
        doc="Values that callers and the store keep by key.",
        imported=True,
        sqlite_key="column",
    ),
    REWINDS,
    USAGE,
    Table(
        "compression_locks",
        ("session_id",),
        (
            Column("session_id", "name", "The session that is being compacted.", required=True),
            Column("holder", "text", "The process that holds the lock.", required=True),
            Column("acquired_at", "real", "When the holder acquired the lock.", required=True),
            Column(
                "expires_at", "real", "When the lock expires unless it is renewed.", required=True
            ),
        ),
        doc="Locks on sessions that are being compacted.",
        local="who compresses a session right now",
        sqlite_key="column",
    ),
    Table(
        "foreign_rows",
        ("id",),
        (
            Column("id", "serial", "The row's id."),
            Column("origin", "text", "The store that the row came from.", required=True),
            Column("table_name", "name", "The table that the row was in.", required=True),
            Column("row_key", "name", "The key of the row in that table.", required=True),
            Column(
                "row",
                "text",
                "The row, as a JSON object; in the ledger of a copy, a checksum.",
                required=True,
            ),
        ),
        (Index("idx_foreign_rows_key", ("table_name", "row_key"), unique=True, sqlite="UNIQUE"),),
        doc="Rows of other programs' tables, and ledgers of copies.",
        imported=True,
    ),
)

#: Lanes, leases, turns and mailboxes: see docs/decisions/0014-lifecycle.md. Times are seconds
#: since the epoch; ids of sessions are not foreign keys, because a lane outlives its session.
LIFECYCLE_TABLES: Final = (
    Table(
        "lanes",
        ("id",),
        (
            Column("id", "serial", "The lane's id."),
            Column(
                "namespace",
                "name",
                "The namespace of the bot that the lane belongs to.",
                required=True,
            ),
            Column(
                "key_hash",
                "name",
                "Digest of the key, which can be longer than an index allows.",
                required=True,
            ),
            Column(
                "session_key",
                "text",
                "The key, such as `agent:main:telegram:dm:123`.",
                required=True,
            ),
            Column("profile", "text", "The agent's profile in the key."),
            Column("platform", "text", "The messenger in the key, such as `telegram`."),
            Column("chat_type", "text", "The type of the chat, such as `dm` or `group`."),
            Column("chat_id", "text", "The chat's id on the messenger."),
            Column("thread_id", "text", "The id of the thread in the chat."),
            Column(
                "participant_id",
                "text",
                "The user's id, in chats where each user has a session; otherwise NULL.",
            ),
            Column(
                "session_id",
                "name",
                "The session that the lane points at; empty before the first one.",
                required=True,
            ),
            Column(
                "created_at",
                "real",
                "When the lane got its current session, or was created without one.",
                required=True,
            ),
            Column("updated_at", "real", "When the lane was last used.", required=True),
            Column("status", "name", "`active`, `resume_pending` or `suspended`.", required=True),
            Column("status_reason", "text", "Why the lane has this status."),
            Column(
                "status_at",
                "real",
                "When the lane was last marked as `resume_pending` or `suspended`.",
            ),
            Column(
                "origin",
                "text",
                "The sender and chat of the last message, to which replies go, as JSON.",
            ),
            Column("display_name", "text", "The name of the chat, for display."),
            Column(
                "notice",
                "text",
                "A notice for the user, such as about a reset, as JSON; delivered once.",
            ),
            Column(
                "last_prompt_tokens",
                "integer",
                "Length of the last prompt in tokens.",
                required=True,
                default=0,
            ),
            Column(
                "unfinished_starts",
                "integer",
                "Number of abandoned turns since the last completed one.",
                required=True,
                default=0,
            ),
            Column("finalized_at", "real", "When the lane's expired session was finalized."),
            Column(
                "finalize_attempts",
                "integer",
                "Number of attempts to finalize the session.",
                required=True,
                default=0,
            ),
            Column(
                "finalize_error",
                "text",
                "The error of the last attempt; during an attempt, its claim as JSON.",
            ),
        ),
        (
            Index("idx_lanes_key", ("namespace", "key_hash"), unique=True),
            Index("idx_lanes_session", ("session_id",)),
            Index("idx_lanes_updated", ("namespace", "updated_at", "id")),
            Index("idx_lanes_unfinalized", ("namespace", "finalized_at", "updated_at")),
            Index("idx_lanes_status", ("namespace", "status")),
        ),
        doc="Conversation keys, and the session each points at now.",
        carried="lane",
    ),
    Table(
        "lane_transitions",
        ("id",),
        (
            Column("id", "serial", "The transition's id."),
            Column("lane_id", "integer", "The lane that changed.", required=True),
            Column("at", "real", "When the lane changed.", required=True),
            Column(
                "action",
                "text",
                "The change, such as `create`, `reset`, `switch` or `suspend`.",
                required=True,
            ),
            Column("reason", "text", "Why the lane changed, such as `idle`."),
            Column("actor", "text", "The component that made the change, such as `gateway`."),
            Column("from_session_id", "text", "The session that the lane pointed at before."),
            Column("to_session_id", "text", "The session that the lane points at afterwards."),
            Column("policy", "text", "The reset policy in force, if it mattered, as JSON."),
            Column("facts", "text", "The facts behind the decision, as JSON."),
        ),
        (Index("idx_lane_transitions_lane", ("lane_id", "id")),),
        doc="Why lanes point at the sessions they do.",
        carried="lane",
    ),
    Table(
        "leases",
        ("chain_id",),
        (
            Column("chain_id", "name", "The first session of the leased chain.", required=True),
            Column(
                "token",
                "integer",
                "The fencing token, which grows with every lease and is never reused.",
                required=True,
            ),
            Column(
                "holder", "text", "A description of the holder; NULL while the chain is not leased."
            ),
            Column(
                "process_id",
                "name",
                "The holder's process: an id in `processes`, or a mark of a local process.",
            ),
            Column("taken_at", "real", "When the lease was taken or last renewed."),
            Column("expires_at", "real", "When the lease expires unless it is renewed."),
        ),
        (Index("idx_leases_process", ("process_id",)),),
        doc="Which process holds a conversation, and its fencing token.",
        local="who holds a conversation right now",
    ),
    Table(
        "turns",
        ("id",),
        (
            Column("id", "serial", "The turn's id."),
            Column("lane_id", "integer", "The lane that the turn answers; NULL without one."),
            Column("chain_id", "name", "The first session of the leased chain.", required=True),
            Column("session_id", "name", "The session in which the turn started.", required=True),
            Column("process_id", "name", "The process that runs the turn.", required=True),
            Column("token", "integer", "The fencing token of the turn's lease.", required=True),
            Column(
                "attempt",
                "integer",
                "1 for the first turn with this input, 2 for the next one, and so on.",
                required=True,
                default=1,
            ),
            Column("started_at", "real", "When the turn started.", required=True),
            Column(
                "ended_at",
                "real",
                "When the turn ended; NULL while it runs, or if its process died.",
            ),
            Column("outcome", "text", "`completed`, `interrupted`, `failed` or `abandoned`."),
            Column("detail", "text", "Why the turn had this outcome, such as `superseded`."),
        ),
        (
            Index("idx_turns_lane", ("lane_id", "id")),
            Index("idx_turns_process", ("process_id", "ended_at")),
            Index("idx_turns_chain", ("chain_id", "ended_at")),
        ),
        doc="Turns: runs of the agent, from an input to its answer.",
        carried="lane",
    ),
    Table(
        "processes",
        ("id",),
        (
            Column("id", "name", "The id under which the process is registered.", required=True),
            Column(
                "namespace",
                "name",
                "The namespace of the bot that the process runs.",
                required=True,
            ),
            Column("kind", "text", "The kind of process, such as `gateway`."),
            Column("host", "text", "The name of its host."),
            Column("pid", "integer", "Its process id on that host."),
            Column("version", "text", "The version of the program."),
            Column("started_at", "real", "When the process registered.", required=True),
            Column(
                "heartbeat_at", "real", "When the process last sent a heartbeat.", required=True
            ),
            Column(
                "ended_at", "real", "When the process ended or was found dead; NULL while it runs."
            ),
            Column(
                "clean",
                "integer",
                "1 if the process finished its work before it ended.",
                required=True,
                default=0,
            ),
        ),
        (Index("idx_processes_living", ("namespace", "ended_at")),),
        doc="Gateways and other processes that use the store.",
        local="which processes run right now",
    ),
    Table(
        "mailbox",
        ("id",),
        (
            Column("id", "serial", "The item's id."),
            Column("lane_id", "integer", "The lane that received the item.", required=True),
            Column(
                "dedupe",
                "name",
                "A key that identifies the message, to recognise repeated deliveries.",
            ),
            Column("kind", "name", "`message`, `queue`, `command` or `resume`.", required=True),
            Column("sender", "text", "The sender; NULL if unknown."),
            Column("text", "text", "The text of the message; removed once the transcript has it."),
            Column("payload", "text", "Further data, such as attached files, as JSON."),
            Column(
                "status",
                "name",
                "`waiting`, `running`, `done` or `dropped`; of commands, `doing` or `happened`.",
                required=True,
            ),
            Column(
                "turn_id", "integer", "The last turn that took the item, even if it did not finish."
            ),
            Column("received_at", "real", "When the item arrived.", required=True),
            Column("finished_at", "real", "When the item was done or dropped."),
            Column(
                "reason",
                "text",
                "How the item was finished or why it was dropped; of commands, their name.",
            ),
        ),
        (
            Index("idx_mailbox_dedupe", ("dedupe",), unique=True),
            Index("idx_mailbox_lane", ("lane_id", "status", "id")),
            Index("idx_mailbox_status", ("status", "id")),
            Index("idx_mailbox_turn", ("turn_id",)),
        ),
        doc="Messages and commands that a lane received, in order.",
        carried="lane",
    ),
    Table(
        "identities",
        ("platform", "alias"),
        (
            Column("platform", "name", "The messenger, such as `whatsapp`.", required=True),
            Column("alias", "name", "An id or name of a user on that messenger.", required=True),
            Column(
                "canonical",
                "name",
                "The id that stands for this user in keys of lanes.",
                required=True,
            ),
            Column(
                "decided_at",
                "real",
                "When the alias was first assigned to the user.",
                required=True,
            ),
        ),
        doc="Which names on a platform mean the same user.",
    ),
)

#: State of a gateway that must survive a restart: see docs/decisions/0015-gateway.md.
GATEWAY_TABLES: Final = (
    Table(
        "outbox",
        ("id",),
        (
            Column("id", "serial", "The reply's id."),
            Column(
                "namespace", "name", "The namespace of the bot that sends the reply.", required=True
            ),
            Column("lane_id", "integer", "The lane that the reply belongs to."),
            Column("turn_id", "integer", "The turn that wrote the reply."),
            Column("platform", "name", "The messenger, such as `telegram`.", required=True),
            Column(
                "chat_hash",
                "name",
                "Digest of the chat; replies with the same digest are sent in order.",
                required=True,
            ),
            Column("target", "text", "The destination, as JSON.", required=True),
            Column("text", "text", "The text to send.", required=True),
            Column(
                "status", "name", "`draft`, `waiting`, `sending`, `sent` or `dead`.", required=True
            ),
            Column(
                "attempts",
                "integer",
                "Number of failed attempts to send the reply.",
                required=True,
                default=0,
            ),
            Column(
                "parts_sent",
                "integer",
                "Number of parts of a long text that were sent.",
                required=True,
                default=0,
            ),
            Column(
                "draft_id",
                "text",
                "The messenger's id of the message that shows the reply while it is written.",
            ),
            Column("sent_ids", "text", "The messenger's ids of the sent parts, as a JSON array."),
            Column("next_at", "real", "Time of the next attempt; 0 for at once.", required=True),
            Column("claimed_by", "name", "The process that last claimed the reply to send it."),
            Column("claimed_until", "real", "When that claim expires."),
            Column("error", "text", "Why the last attempt failed."),
            Column("created_at", "real", "When the reply was stored.", required=True),
            Column("finished_at", "real", "When the reply was sent or given up."),
        ),
        (
            Index("idx_outbox_due", ("namespace", "status", "next_at")),
            Index("idx_outbox_chat", ("chat_hash", "status", "id")),
            Index("idx_outbox_turn", ("turn_id",)),
        ),
        doc="Replies to send, sent ones for a while, and drafts.",
        # Two stores would send them twice.
        carried="backup",
    ),
    Table(
        "senders",
        ("namespace", "platform", "sender_id"),
        (
            Column(
                "namespace",
                "name",
                "The namespace of the bot that the sender wrote to.",
                required=True,
            ),
            Column("platform", "name", "The messenger, such as `telegram`.", required=True),
            Column("sender_id", "name", "The sender's id on that messenger.", required=True),
            Column("status", "name", "`pending`, `allowed` or `blocked`.", required=True),
            Column("name", "text", "The sender's display name."),
            Column(
                "code_hash",
                "text",
                "Digest of the pairing code; NULL once the sender is allowed or blocked.",
            ),
            Column("expires_at", "real", "When the pairing code expires."),
            Column(
                "attempts",
                "integer",
                "Number of codes issued, each before the previous one expired.",
                required=True,
                default=0,
            ),
            Column("created_at", "real", "When the sender was first recorded.", required=True),
            Column("decided_at", "real", "When the sender was allowed or blocked."),
        ),
        (Index("idx_senders_status", ("namespace", "status")),),
        doc="Senders that may write to a bot, or may not, or wait for approval.",
    ),
    Table(
        "topic_modes",
        ("chat_id",),
        (
            Column("chat_id", "name", "The id of the private chat.", required=True),
            Column("user_id", "name", "The id of the chat's user.", required=True),
            Column(
                "enabled",
                "integer",
                "1 if each topic of the chat has its own session.",
                required=True,
                default=1,
            ),
            Column(
                "has_topics_enabled",
                "integer",
                "1 if Telegram lets the bot use topics; NULL if unknown.",
            ),
            Column(
                "allows_users_to_create_topics",
                "integer",
                "1 if users may create topics; NULL if unknown.",
            ),
            Column(
                "activated_at",
                "real",
                "When the mode was first enabled for this chat.",
                required=True,
            ),
            Column("updated_at", "real", "When the row last changed.", required=True),
        ),
        doc="Private Telegram chats in which each topic has its own session.",
        imported=True,
    ),
    Table(
        "topics",
        ("chat_id", "thread_id"),
        (
            Column("chat_id", "name", "The id of the private chat.", required=True),
            Column("thread_id", "name", "The id of the topic.", required=True),
            Column("user_id", "name", "The id of the chat's user.", required=True),
            Column("session_key", "text", "The key of the topic's lane.", required=True),
            Column("session_id", "name", "The session that the topic is bound to.", required=True),
            Column(
                "managed_mode", "text", "How the topic was bound, such as `auto`.", required=True
            ),
            Column("linked_at", "real", "When the topic was first bound.", required=True),
            Column("updated_at", "real", "When the binding last changed.", required=True),
        ),
        (Index("idx_topics_session", ("session_id",), unique=True),),
        doc="Telegram topics and their sessions.",
        imported=True,
    ),
)

#: Authors of messages, and receipts of erasures: see docs/erasure.md.
ERASURE_TABLES: Final = (
    Table(
        "erasures",
        ("id",),
        (
            Column("id", "name", "The receipt's id.", required=True),
            Column("kind", "name", "What was erased: `user`, `chat` or `session`.", required=True),
            Column("platform", "name", "The messenger of the erased user or chat."),
            Column(
                "digest",
                "name",
                "Digest of the receipt's id and the erased id, which it does not reveal.",
                required=True,
            ),
            Column("status", "name", "`pending` or `done`.", required=True),
            Column("requested_at", "real", "When the erasure was requested.", required=True),
            Column("finished_at", "real", "When the erasure was complete."),
            Column(
                "targets",
                "text",
                "What is still to be erased, as JSON; NULL once no step needs it.",
            ),
            Column("steps", "text", "The result in each place, as a JSON array."),
        ),
        (Index("idx_erasures_requested", ("requested_at", "id")),),
        doc="Receipts of erasures.",
        carried="proof",
    ),
    Table(
        "authors",
        ("session_id", "external_id"),
        (
            Column("session_id", "name", "The session of the shared room.", required=True),
            Column("external_id", "name", "The `external_id` of the message.", required=True),
            Column("platform", "name", "The messenger, such as `discord`.", required=True),
            Column(
                "author",
                "name",
                "The author's id on the messenger, or its digest if it is too long for a key.",
                required=True,
            ),
        ),
        (Index("idx_authors_author", ("author",)),),
        doc="Authors of messages in rooms that several users share.",
        imported=True,
    ),
)

#: Protection from deletion: see docs/retention.md.
HOLD_TABLES: Final = (
    Table(
        "holds",
        ("session_id",),
        (
            Column(
                "session_id",
                "name",
                "The session with the hold, which applies to its whole conversation.",
                required=True,
            ),
            Column("reason", "text", "Why the conversation must not be deleted.", required=True),
            Column("held_at", "real", "When the hold was first placed.", required=True),
        ),
        doc="Conversations that nothing may delete.",
        imported=True,
    ),
)

#: Sessions that other programs changed; see ``repositories.stale_sessions``.
STALE_TABLES: Final = (
    Table(
        "stale_sessions",
        ("seq",),
        (
            Column("seq", "serial", "The note's number, in the order of changes."),
            Column(
                "session_id",
                "name",
                "The session whose derived columns must be recomputed.",
                required=True,
            ),
        ),
        (Index("idx_stale_sessions_session", ("session_id",)),),
        doc="Sessions that other programs changed; triggers fill it.",
        local="derived columns to work out again; after a restore, all are",
    ),
)

WORKSPACES: Final = Table(
    "workspaces",
    ("id",),
    (
        Column("id", "name", "The workspace's id.", required=True),
        Column("name", "text", "The name, for people.", required=True),
        Column("identity", "text", "The repository's remote or first commit, or the path."),
        Column("path", "text", "The directory where it was last seen."),
        Column("created_at", "real", "When it was first seen.", required=True),
        Column("merged_into", "name", "The workspace that it was merged into."),
    ),
    (Index("idx_workspaces_identity", ("identity",)),),
    doc="Projects that sessions belong to, wherever their directory is.",
    imported=True,
)

ROUTING: Final = Table(
    "gateway_routing",
    ("scope", "session_key"),
    (
        Column("scope", "name", "The gateway whose map this is, or empty.", required=True),
        Column("session_key", "name", "The key of the messenger chat.", required=True),
        Column("entry_json", "text", "The entry, as its gateway wrote it.", required=True),
        Column("updated_at", "real", "When the entry was last written.", required=True),
    ),
    doc="Maps of messenger chats to sessions that Hermes gateways keep.",
    imported=True,
)

STATE_DOCUMENTS: Final = Table(
    "state_documents",
    ("scope", "owner", "name"),
    (
        Column("scope", "name", "What it belongs to: `session`, `user`, `app`.", required=True),
        Column("owner", "name", "The id of that session, user or app.", required=True),
        Column("name", "name", "The name of the document.", required=True),
        Column("value", "text", "The value, as JSON.", required=True, meaning="json"),
        Column(
            "revision",
            "integer",
            "Increases with every change of the document.",
            required=True,
            meaning="number",
        ),
        Column("updated_at", "real", "When the document last changed.", required=True),
    ),
    doc="Small JSON documents that frameworks keep for a session, a user or an app.",
    imported=True,
)

#: What other programs keep beside sessions: today's Hermes and agent frameworks.
INTEGRATION_TABLES: Final = (
    ROUTING,
    STATE_DOCUMENTS,
    WORKSPACES,
)

#: Bytes by content address: see docs/decisions/0024-blobs.md.
BLOBS: Final = Table(
    "blobs",
    ("digest",),
    (
        Column("digest", "name", "The BLAKE2b-256 of the bytes, in hex.", required=True),
        Column("size", "integer", "The number of bytes.", required=True),
        Column("parts", "integer", "The number of parts.", required=True),
        Column("compression", "text", "`zlib`; empty if the parts are as they are.", required=True),
        Column("created_at", "real", "When it was first stored.", required=True),
        Column(
            "kept_until",
            "real",
            "Until when it is kept without a reference; 0 if its reference came with it.",
            required=True,
        ),
    ),
    doc="Bytes that are stored once, such as attachments and checkpoints.",
    imported=True,
    carried="blob",
)
BLOB_PARTS: Final = Table(
    "blob_parts",
    ("digest", "part"),
    (
        Column("digest", "name", "The blob that it is a part of.", required=True),
        Column("part", "integer", "Its number, from 0.", required=True, meaning="number"),
        Column("data", "bytes", "At most 256 KiB of the blob, compressed or not.", required=True),
    ),
    doc="The bytes of blobs.",
    imported=True,
    carried="blob",
)
BLOB_REFERENCES: Final = Table(
    "blob_references",
    ("kind", "owner", "item", "digest"),
    (
        Column(
            "kind",
            "name",
            "What needs the blob: `message`, `namespace`, or `state:` and the scope of a document.",
            required=True,
        ),
        Column(
            "owner",
            "name",
            "The message's session, the namespace, or the owner of the document.",
            required=True,
        ),
        Column(
            "item",
            "name",
            "The message's ordinal, the key in the namespace, or the document's name.",
            required=True,
        ),
        Column("digest", "name", "The blob.", required=True),
    ),
    (Index("idx_blob_references_digest", ("digest",)),),
    doc="What needs a blob; one without any is removed.",
    imported=True,
)
BLOB_TABLES: Final = (BLOBS, BLOB_PARTS, BLOB_REFERENCES)

#: Kept beside the search index, which each database declares itself.
SEARCH_TABLES: Final = (
    Table(
        "search_state",
        ("segmenter",),
        (
            Column(
                "segmenter",
                "integer",
                "The version of the rules that split text into tokens.",
                required=True,
            ),
            Column(
                "indexed_through",
                "integer",
                "Messages up to this id are indexed, except those in `search_queue`.",
                required=True,
            ),
            Column(
                "newest", "real", "The latest time of an indexed message.", required=True, default=0
            ),
            Column(
                "ordered_from",
                "integer",
                "Above this id, later messages have higher ids, but for `disorder`.",
                required=True,
                default=0,
            ),
            Column(
                "disorder",
                "real",
                "The most seconds by which a message above `ordered_from` can be out of order.",
                required=True,
                default=0,
            ),
        ),
        doc="How far the search index has got, and how well ids follow times.",
        local="search index, built again",
        sqlite_key="none",
    ),
    Table(
        "search_queue",
        ("seq",),
        (
            Column("seq", "serial", "The note's number, in the order of changes."),
            Column(
                "message_id",
                "integer",
                "The message to index again or to remove from the index.",
                required=True,
            ),
        ),
        (Index("idx_search_queue_message", ("message_id",), sqlite="none"),),
        doc="Messages to index again or to remove from the search index.",
        local="search index, built again",
    ),
    Table(
        "search_titles",
        ("number",),
        (
            Column("number", "serial", "The number of the title's document in the search index."),
            Column("session_id", "name", "The session that has the title.", required=True),
            Column(
                "stale",
                "integer",
                "1 if the title changed since it was indexed.",
                required=True,
                default=1,
            ),
        ),
        (
            Index("idx_search_titles_session", ("session_id",), unique=True, sqlite="UNIQUE"),
            Index("idx_search_titles_stale", ("stale",), sqlite="(stale) WHERE stale = 1"),
        ),
        doc="Titles as documents of the search index.",
        local="search index, built again",
    ),
)

#: Tables of servers only; SQLite has its own table of migrations.
SERVER_TABLES: Final = (
    Table(
        "store_migrations",
        ("name",),
        (
            Column("name", "name", "The name of the migration.", required=True),
            Column(
                "applied_at",
                "real",
                "When the migration was applied; on MySQL, 0 while it runs.",
                required=True,
            ),
            Column(
                "writer_level",
                "integer",
                "The level that a program must know to write to the store afterwards.",
                required=True,
            ),
        ),
        doc="The migrations that were applied to this store.",
        local="steps of the database it came from; the target takes its own",
    ),
    Table(
        "write_marks",
        ("mark",),
        (
            Column("mark", "name", "The id of the unit of work.", required=True),
            Column(
                "message_id",
                "integer",
                "The message that it appended; NULL if it did not append one.",
            ),
            Column("marked_at", "real", "When the mark was written.", required=True),
        ),
        doc="Commits of the last hour, to tell after a lost connection whether a commit succeeded.",
        local="commits of the last hour",
    ),
)

#: Tables by the migration that creates them, on every database.
TABLES_BY_STEP: Final = {
    "0001_base": TABLES,
    "0002_search": SEARCH_TABLES,
    "0003_lifecycle": LIFECYCLE_TABLES,
    "0004_gateway": GATEWAY_TABLES,
    "0006_erasure": ERASURE_TABLES,
    "0007_holds": HOLD_TABLES,
    "0008_changes": STALE_TABLES,
    "0009_integrations": (*INTEGRATION_TABLES, *BLOB_TABLES),
}
#: Every table that all databases have.
ALL_TABLES: Final = tuple(table for tables in TABLES_BY_STEP.values() for table in tables)
#: The migration that creates each table, by its name.
CREATED_BY: Final = {table.name: step for step, some in TABLES_BY_STEP.items() for table in some}
#: Migrations that only add what carries their name: columns, indexes, tables; in order, after all
#: others.
COLUMN_STEPS: Final[tuple[str, ...]] = ("0009_integrations",)
#: A step that a store takes with its first attachment, and the level that it requires of writers:
#: programs that do not know attachments would store the placeholders as text.
ATTACHMENTS_STEP: Final = "attachments"
ATTACHMENTS_LEVEL: Final = 2
#: The highest level that this version knows.
KNOWN_LEVEL: Final = ATTACHMENTS_LEVEL


def added_by(step: str) -> list[tuple[Table, Column]]:
    """Return the columns that a migration adds."""
    return [
        (table, column) for table in ALL_TABLES for column in table.columns if column.since == step
    ]

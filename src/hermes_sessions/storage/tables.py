"""The tables of a store: each column declared once, with its traits.

SQLite, PostgreSQL and MySQL render their tables from here; records, export, import, comparison,
backups, repair and the reference in docs/tables.md take their lists of columns from here. To add a
column, declare it at the end of its table with ``since``, and add that step to `COLUMN_STEPS`. See
docs/decisions/0019-columns.md.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

#: ``serial``: a generated number. ``name``: text of bounded length that may be part of a key.
Kind = Literal["serial", "name", "text", "real", "integer"]
#: What the value is: ``amount`` is money, ``flag`` 0 or 1, ``number`` an id or a position.
Holds = Literal["text", "json", "content", "time", "count", "amount", "flag", "number"]
#: ``given``: callers state and see it. ``shown``: they see it. ``exported``: only exports have it.
#: ``hidden``: the store's own.
Access = Literal["given", "shown", "exported", "hidden"]

_HELD: Final[dict[Kind, Holds]] = {
    "serial": "number",
    "name": "text",
    "text": "text",
    "real": "time",
    "integer": "count",
}


class Column(NamedTuple):
    """One column.

    ``references`` names a table whose id it holds. ``holds`` follows from the kind unless stated.
    ``compared`` as ``place``: the value depends on other sessions of the store. A column that is
    not ``copied`` describes one database only. ``generated``: the database computes it.
    """

    name: str
    kind: Kind
    doc: str = ""
    required: bool = False
    default: int | None = None
    references: str | None = None
    access: Access = "given"
    meaning: Holds | None = None
    compared: Literal["content", "place"] = "content"
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


class Table:
    """One table; ``key`` is its primary key."""

    __slots__ = ("columns", "copied", "doc", "indexes", "key", "local", "name", "sqlite_key")

    def __init__(
        self,
        name: str,
        key: tuple[str, ...],
        columns: tuple[Column, ...],
        indexes: tuple[Index, ...] = (),
        *,
        doc: str = "",
        local: str = "",
        sqlite_key: Literal["column", "constraint", "none"] = "constraint",
    ) -> None:
        """Declare a table. *local* says why it describes one database only, so that backups and
        copies omit it. *sqlite_key* is how SQLite declares the key.
        """
        self.name = name
        self.key = key
        self.columns = columns
        self.indexes = indexes
        self.doc = doc
        self.local = local
        self.sqlite_key = sqlite_key
        #: The columns of a portable backup and of a copy in another database, in order.
        self.copied = tuple([c for c in columns if c.copied])

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    def column(self, name: str) -> Column:
        """Return the column of this name."""
        return next(column for column in self.columns if column.name == name)

    def created_with(self) -> tuple[Column, ...]:
        """Return the columns that the table is created with; the others come with later steps."""
        return tuple([column for column in self.columns if column.since is None])


def names_of(table: Table, *access: Access) -> list[str]:
    """Return the names of the columns with one of these kinds of access, in order."""
    return [column.name for column in table.columns if column.access in access]


def given(table: Table, *holds: Holds) -> list[str]:
    """Return the names of the columns that callers state and that hold one of these."""
    return [c.name for c in table.columns if c.access == "given" and c.holds in holds]


SESSIONS: Final = Table(
    "sessions",
    ("id",),
    (
        Column(
            "id",
            "name",
            "The id that the caller gave.",
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
        Column("model", "text", "The model that answers.", documented=True),
        Column(
            "model_config",
            "text",
            "Settings of the model, as JSON.",
            meaning="json",
            documented=True,
        ),
        Column("system_prompt", "text", "The system prompt, byte for byte.", documented=True),
        Column(
            "parent_session_id",
            "name",
            "The session that this one continues, branches from or works for.",
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
            "Messages in force: neither rewound nor replaced by a summary.",
            default=0,
            access="shown",
            documented=True,
        ),
        Column(
            "tool_call_count",
            "integer",
            "Tool calls in these messages.",
            default=0,
            documented=True,
        ),
        Column(
            "input_tokens",
            "integer",
            "Tokens sent to the model, without those read from its cache.",
            default=0,
            documented=True,
        ),
        Column(
            "output_tokens", "integer", "Tokens that the model wrote.", default=0, documented=True
        ),
        Column(
            "cache_read_tokens",
            "integer",
            "Tokens read from the model's cache.",
            default=0,
            documented=True,
        ),
        Column(
            "cache_write_tokens",
            "integer",
            "Tokens written to the model's cache.",
            default=0,
            documented=True,
        ),
        Column(
            "reasoning_tokens",
            "integer",
            "Tokens of reasoning, which are part of the output.",
            default=0,
            documented=True,
        ),
        Column("billing_provider", "text", "The company that bills.", documented=True),
        Column("billing_base_url", "text", "The address that was called.", documented=True),
        Column(
            "billing_mode",
            "text",
            "How the calls were priced.",
            documented=True,
        ),
        Column(
            "estimated_cost_usd",
            "real",
            "The cost by list prices, in US dollars.",
            meaning="amount",
            documented=True,
        ),
        Column(
            "actual_cost_usd",
            "real",
            "The cost that the provider stated, in US dollars.",
            meaning="amount",
            documented=True,
        ),
        Column(
            "cost_status",
            "text",
            "How sure the cost is, such as `estimated` or `included`.",
            documented=True,
        ),
        Column("cost_source", "text", "Where the prices came from.", documented=True),
        Column("pricing_version", "text", "The version of the price list.", documented=True),
        Column(
            "title", "name", "The title, unique among sessions.", compared="place", documented=True
        ),
        Column("api_call_count", "integer", "Calls of the model.", default=0, documented=True),
        Column(
            "handoff_state",
            "text",
            "`pending`, `running`, `completed` or `failed`.",
            documented=True,
        ),
        Column(
            "handoff_platform",
            "text",
            "The platform that the session is handed to.",
            documented=True,
        ),
        Column("handoff_error", "text", "Why the last handoff failed.", documented=True),
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
            "Why there is a parent: `compression`, `branch`, `subagent`, `handoff`.",
            access="shown",
        ),
        Column(
            "chain_id",
            "name",
            "The first session of the compression chain.",
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
            "1 when lists show the session.",
            required=True,
            default=0,
            access="hidden",
            meaning="flag",
            compared="place",
        ),
        Column(
            "last_active",
            "real",
            "Time of the newest message, or of the start.",
            access="exported",
            compared="place",
        ),
        Column("preview", "text", "The beginning of the first user message.", access="hidden"),
        Column(
            "next_ordinal",
            "integer",
            "The position of the next message.",
            required=True,
            default=1,
            access="hidden",
            meaning="number",
        ),
        Column("rewind_count", "integer", "How many rewinds there were.", required=True, default=0),
        Column("archived_at", "real", "When it was archived."),
        Column("pinned_at", "real", "When it was pinned; pinned sessions are never pruned."),
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
            "What numbered variants of a title share.",
            access="hidden",
            copied=False,
            generated=True,
        ),
        Column(
            "fence",
            "integer",
            "The token that holds the chain, NULL when it is free: what an append compares.",
            access="hidden",
            meaning="number",
            copied=False,
            since="0003_lifecycle",
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
    ),
    doc="One stored transcript. Lists read this table alone.",
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
            "The session.",
            required=True,
            references="sessions",
            access="shown",
            documented=True,
        ),
        Column(
            "role",
            "text",
            "Who speaks, such as `user`, `assistant` or `tool`.",
            required=True,
            documented=True,
        ),
        Column(
            "content",
            "text",
            "What was said, as `content_type` says.",
            meaning="content",
            documented=True,
        ),
        Column("tool_call_id", "text", "The call that a tool's result answers.", documented=True),
        Column(
            "tool_calls",
            "text",
            "The calls of an assistant's message, as JSON.",
            meaning="json",
            documented=True,
        ),
        Column("tool_name", "text", "The tool that was called.", documented=True),
        Column("timestamp", "real", "When it was said.", required=True, documented=True),
        Column("token_count", "integer", "Its length in tokens, if stated.", documented=True),
        Column("finish_reason", "text", "Why the model stopped.", documented=True),
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
            "Position in the session, given under the session's lock; order is never a clock.",
            access="shown",
            meaning="number",
        ),
        Column(
            "content_type",
            "text",
            "How `content` is written: NULL for text, `json` or `base64`.",
            access="exported",
        ),
        Column(
            "external_id",
            "name",
            "The caller's own id of the message: appending it twice stores it once.",
        ),
        Column(
            "active",
            "integer",
            "0: rewound, hidden from replay and search, kept for audit and restore.",
            required=True,
            default=1,
            access="shown",
            meaning="flag",
        ),
        Column(
            "compacted",
            "integer",
            "1: replaced by a summary, hidden from replay, still found by search.",
            required=True,
            default=0,
            access="shown",
            meaning="flag",
        ),
        Column(
            "rewind_id",
            "integer",
            "The rewind that hid it.",
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
    ),
    (
        Index("idx_messages_ordinal", ("session_id", "ordinal"), unique=True),
        Index(
            "idx_messages_external",
            ("session_id", "external_id"),
            unique=True,
            sqlite="(session_id, external_id) WHERE external_id IS NOT NULL",
        ),
    ),
    doc="The messages of all sessions, rewound ones included.",
)

USAGE: Final = Table(
    "session_model_usage",
    ("session_id", "route_key"),
    (
        Column(
            "session_id",
            "name",
            "The session.",
            required=True,
            references="sessions",
            access="hidden",
        ),
        Column(
            "route_key", "name", "Digest of model, route and task.", required=True, access="hidden"
        ),
        Column("model", "text", "The model."),
        Column("billing_provider", "text", "The company that bills."),
        Column("billing_base_url", "text", "The address that was called."),
        Column("billing_mode", "text", "How the calls were priced."),
        Column("task", "text", "The auxiliary task, such as `title`; empty for the conversation."),
        Column(
            "input_tokens",
            "integer",
            "Tokens sent to the model, without those read from its cache.",
            required=True,
            default=0,
        ),
        Column(
            "output_tokens", "integer", "Tokens that the model wrote.", required=True, default=0
        ),
        Column(
            "cache_read_tokens",
            "integer",
            "Tokens read from the model's cache.",
            required=True,
            default=0,
        ),
        Column(
            "cache_write_tokens",
            "integer",
            "Tokens written to the model's cache.",
            required=True,
            default=0,
        ),
        Column(
            "reasoning_tokens",
            "integer",
            "Tokens of reasoning, which are part of the output.",
            required=True,
            default=0,
        ),
        Column("api_call_count", "integer", "Calls of the model.", required=True, default=0),
        Column(
            "estimated_cost_usd",
            "real",
            "The cost by list prices, in US dollars.",
            meaning="amount",
        ),
        Column(
            "actual_cost_usd",
            "real",
            "The cost that the provider stated, in US dollars.",
            meaning="amount",
        ),
        Column("first_at", "real", "Time of the first call.", required=True),
        Column("last_at", "real", "Time of the last call.", required=True),
    ),
    doc="Tokens and cost by session, model, route and task.",
)

REWINDS: Final = Table(
    "rewinds",
    ("id",),
    (
        Column("id", "serial", "The rewind's id.", compared="place"),
        Column(
            "session_id",
            "name",
            "The session.",
            required=True,
            references="sessions",
            access="shown",
        ),
        Column(
            "target_message_id",
            "integer",
            "The user message that was taken back.",
            required=True,
            meaning="number",
            compared="place",
        ),
        Column("target_ordinal", "integer", "Its position.", required=True, meaning="number"),
        Column(
            "hidden_count", "integer", "How many messages it hid.", required=True, meaning="number"
        ),
        Column(
            "head_ordinal",
            "integer",
            "The position of the last message before it.",
            required=True,
            meaning="number",
        ),
        Column("rewound_at", "real", "When it happened.", required=True),
        Column("restored_at", "real", "When it was undone; NULL while it is in force."),
    ),
    (Index("idx_rewinds_session", ("session_id",)),),
    doc="Every rewind of a session.",
)

TABLES: Final = (
    SESSIONS,
    MESSAGES,
    Table(
        "state_meta",
        ("key",),
        (
            Column("key", "name", "The key.", required=True),
            Column("value", "text", "The value, as text."),
        ),
        doc="Values that callers and the store keep by key.",
        sqlite_key="column",
    ),
    REWINDS,
    USAGE,
    Table(
        "compression_locks",
        ("session_id",),
        (
            Column("session_id", "name", "The session.", required=True),
            Column("holder", "text", "Who has the lock.", required=True),
            Column("acquired_at", "real", "When it was taken.", required=True),
            Column("expires_at", "real", "When it expires.", required=True),
        ),
        doc="Who may compact a session.",
        local="who compresses a session right now",
        sqlite_key="column",
    ),
    Table(
        "foreign_rows",
        ("id",),
        (
            Column("id", "serial", "The row's id."),
            Column("origin", "text", "The store it came from.", required=True),
            Column("table_name", "name", "The table it stood in.", required=True),
            Column("row_key", "name", "Its key there.", required=True),
            Column("row", "text", "The row, as JSON.", required=True),
        ),
        (Index("idx_foreign_rows_key", ("table_name", "row_key"), unique=True, sqlite="UNIQUE"),),
        doc="Rows of other programs' tables, and ledgers of copies.",
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
            Column("namespace", "name", "The gateway's namespace.", required=True),
            Column(
                "key_hash",
                "name",
                "Digest of the key: it can be longer than an index allows.",
                required=True,
            ),
            Column(
                "session_key",
                "text",
                "The key, such as `agent:main:telegram:dm:123`.",
                required=True,
            ),
            Column("profile", "text", "The agent's profile."),
            Column("platform", "text", "The messenger."),
            Column("chat_type", "text", "What kind of chat it is, such as `dm` or `group`."),
            Column("chat_id", "text", "The chat."),
            Column("thread_id", "text", "The thread in the chat."),
            Column("participant_id", "text", "The user, where each has a session of their own."),
            Column("session_id", "name", "The session that the lane points at.", required=True),
            Column("created_at", "real", "When the lane was created.", required=True),
            Column("updated_at", "real", "When it was last used.", required=True),
            Column("status", "name", "`active`, `resume_pending` or `suspended`.", required=True),
            Column("status_reason", "text", "Why it has this status."),
            Column("status_at", "real", "Since when."),
            Column("origin", "text", "Where messages came from last, as JSON."),
            Column("display_name", "text", "The name to show."),
            Column("notice", "text", "What to tell the user next; handed out once."),
            Column(
                "last_prompt_tokens",
                "integer",
                "Tokens of the last prompt.",
                required=True,
                default=0,
            ),
            Column(
                "unfinished_starts",
                "integer",
                "Starts of a gateway that found an unfinished turn, since the last good one.",
                required=True,
                default=0,
            ),
            Column("finalized_at", "real", "When the ended session was finalized."),
            Column(
                "finalize_attempts",
                "integer",
                "How often that was tried.",
                required=True,
                default=0,
            ),
            Column("finalize_error", "text", "Why it failed last."),
        ),
        (
            Index("idx_lanes_key", ("namespace", "key_hash"), unique=True),
            Index("idx_lanes_session", ("session_id",)),
            Index("idx_lanes_updated", ("namespace", "updated_at", "id")),
            Index("idx_lanes_unfinalized", ("namespace", "finalized_at", "updated_at")),
            Index("idx_lanes_status", ("namespace", "status")),
        ),
        doc="Conversation keys, and the session each points at now.",
    ),
    Table(
        "lane_transitions",
        ("id",),
        (
            Column("id", "serial", "The transition's id."),
            Column("lane_id", "integer", "The lane.", required=True),
            Column("at", "real", "When it happened.", required=True),
            Column("action", "text", "What was decided.", required=True),
            Column("reason", "text", "Why."),
            Column("actor", "text", "Who decided."),
            Column("from_session_id", "text", "The session before."),
            Column("to_session_id", "text", "The session after."),
            Column("policy", "text", "The policy in force, as JSON."),
            Column("facts", "text", "What the decision was made from, as JSON."),
        ),
        (Index("idx_lane_transitions_lane", ("lane_id", "id")),),
        doc="Why lanes point at the sessions they do.",
    ),
    Table(
        "leases",
        ("chain_id",),
        (
            Column("chain_id", "name", "The first session of the chain.", required=True),
            Column(
                "token",
                "integer",
                "Grows with every holder and is never given out again.",
                required=True,
            ),
            Column("holder", "text", "Who holds it; NULL when it is free."),
            Column("process_id", "name", "The holder's process."),
            Column("taken_at", "real", "When it was taken or renewed."),
            Column("expires_at", "real", "When it expires."),
        ),
        (Index("idx_leases_process", ("process_id",)),),
        doc="Who holds a conversation.",
        local="who holds a conversation right now",
    ),
    Table(
        "turns",
        ("id",),
        (
            Column("id", "serial", "The turn's id."),
            Column("lane_id", "integer", "The lane, if any."),
            Column("chain_id", "name", "The conversation's chain.", required=True),
            Column("session_id", "name", "The session.", required=True),
            Column("process_id", "name", "The process that runs it.", required=True),
            Column("token", "integer", "The token of its lease.", required=True),
            Column("attempt", "integer", "Which attempt this is.", required=True, default=1),
            Column("started_at", "real", "When it started.", required=True),
            Column(
                "ended_at", "real", "When it ended; NULL while it runs, or when its process died."
            ),
            Column("outcome", "text", "How it ended."),
            Column("detail", "text", "More about that."),
        ),
        (
            Index("idx_turns_lane", ("lane_id", "id")),
            Index("idx_turns_process", ("process_id", "ended_at")),
            Index("idx_turns_chain", ("chain_id", "ended_at")),
        ),
        doc="Runs of an agent.",
    ),
    Table(
        "processes",
        ("id",),
        (
            Column("id", "name", "The process's id.", required=True),
            Column("namespace", "name", "The gateway's namespace.", required=True),
            Column("kind", "text", "What it is."),
            Column("host", "text", "The host it runs on."),
            Column("pid", "integer", "Its process id there."),
            Column("version", "text", "Its version."),
            Column("started_at", "real", "When it started.", required=True),
            Column("heartbeat_at", "real", "When it was last heard of.", required=True),
            Column("ended_at", "real", "When it ended."),
            Column("clean", "integer", "1 when it ended in order.", required=True, default=0),
        ),
        (Index("idx_processes_living", ("namespace", "ended_at")),),
        doc="Gateways and other processes that use the store.",
        local="which processes run right now",
    ),
    Table(
        "mailbox",
        ("id",),
        (
            Column("id", "serial", "The entry's id."),
            Column("lane_id", "integer", "The lane.", required=True),
            Column("dedupe", "name", "Tells a message that is delivered again from a new one."),
            Column("kind", "name", "What it is.", required=True),
            Column("sender", "text", "Who sent it."),
            Column("text", "text", "Its text."),
            Column("payload", "text", "More of it, as JSON."),
            Column("status", "name", "Where it stands.", required=True),
            Column("turn_id", "integer", "The turn that took it."),
            Column("received_at", "real", "When it arrived.", required=True),
            Column("finished_at", "real", "When it was done with."),
            Column("reason", "text", "Why it was dropped."),
        ),
        (
            Index("idx_mailbox_dedupe", ("dedupe",), unique=True),
            Index("idx_mailbox_lane", ("lane_id", "status", "id")),
            Index("idx_mailbox_status", ("status", "id")),
            Index("idx_mailbox_turn", ("turn_id",)),
        ),
        doc="Messages that wait for a turn.",
    ),
    Table(
        "identities",
        ("platform", "alias"),
        (
            Column("platform", "name", "The messenger.", required=True),
            Column("alias", "name", "A name.", required=True),
            Column("canonical", "name", "The user it means.", required=True),
            Column("decided_at", "real", "When that was decided.", required=True),
        ),
        doc="Which names on a platform mean the same user.",
    ),
)

FENCE: Final = SESSIONS.column("fence")

#: State of a gateway that must survive a restart: see docs/decisions/0015-gateway.md.
GATEWAY_TABLES: Final = (
    Table(
        "outbox",
        ("id",),
        (
            Column("id", "serial", "The reply's id."),
            Column("namespace", "name", "The gateway's namespace.", required=True),
            Column("lane_id", "integer", "The lane."),
            Column("turn_id", "integer", "The turn."),
            Column("platform", "name", "The messenger.", required=True),
            Column(
                "chat_hash",
                "name",
                "Digest of the chat: replies to one chat are sent in order.",
                required=True,
            ),
            Column("target", "text", "Where it goes, as JSON.", required=True),
            Column("text", "text", "What is sent.", required=True),
            Column("status", "name", "`waiting`, `sending`, `sent` or `dead`.", required=True),
            Column("attempts", "integer", "How often it was tried.", required=True, default=0),
            Column(
                "parts_sent",
                "integer",
                "How many of its parts were sent.",
                required=True,
                default=0,
            ),
            Column(
                "draft_id", "text", "The message that was shown while the reply was being written."
            ),
            Column("sent_ids", "text", "The messenger's ids of the parts, as JSON."),
            Column("next_at", "real", "When to try next.", required=True),
            Column("claimed_by", "name", "The process that sends it."),
            Column("claimed_until", "real", "Until when."),
            Column("error", "text", "Why it failed last."),
            Column("created_at", "real", "When it was written.", required=True),
            Column("finished_at", "real", "When it was sent or given up."),
        ),
        (
            Index("idx_outbox_due", ("namespace", "status", "next_at")),
            Index("idx_outbox_chat", ("chat_hash", "status", "id")),
            Index("idx_outbox_turn", ("turn_id",)),
        ),
        doc="Replies that wait to be sent.",
    ),
    Table(
        "senders",
        ("namespace", "platform", "sender_id"),
        (
            Column("namespace", "name", "The gateway's namespace.", required=True),
            Column("platform", "name", "The messenger.", required=True),
            Column("sender_id", "name", "The sender.", required=True),
            Column("status", "name", "`pending`, `allowed` or `blocked`.", required=True),
            Column("name", "text", "The sender's name."),
            Column("code_hash", "text", "Digest of the pairing code."),
            Column("expires_at", "real", "When the code expires."),
            Column("attempts", "integer", "Number of codes issued.", required=True, default=0),
            Column("created_at", "real", "When the sender first wrote.", required=True),
            Column("decided_at", "real", "When that was decided."),
        ),
        (Index("idx_senders_status", ("namespace", "status")),),
        doc="Who may talk to a gateway.",
    ),
    Table(
        "topic_modes",
        ("chat_id",),
        (
            Column("chat_id", "name", "The chat.", required=True),
            Column("user_id", "name", "The user.", required=True),
            Column("enabled", "integer", "1 when topics are enabled.", required=True, default=1),
            Column("has_topics_enabled", "integer", "1 when the bot may use topics."),
            Column("allows_users_to_create_topics", "integer", "1 when users may create topics."),
            Column("activated_at", "real", "When it was first enabled.", required=True),
            Column("updated_at", "real", "When it was last changed.", required=True),
        ),
        doc="Telegram chats whose topics are sessions of their own.",
    ),
    Table(
        "topics",
        ("chat_id", "thread_id"),
        (
            Column("chat_id", "name", "The chat.", required=True),
            Column("thread_id", "name", "The topic.", required=True),
            Column("user_id", "name", "The user.", required=True),
            Column("session_key", "text", "The lane's key.", required=True),
            Column("session_id", "name", "The session.", required=True),
            Column(
                "managed_mode", "text", "How the binding came about, such as `auto`.", required=True
            ),
            Column("linked_at", "real", "When it was bound.", required=True),
            Column("updated_at", "real", "When it was last changed.", required=True),
        ),
        (Index("idx_topics_session", ("session_id",), unique=True),),
        doc="Telegram topics and their sessions.",
    ),
)

#: Authors of messages, and receipts of erasures: see docs/erasure.md.
ERASURE_TABLES: Final = (
    Table(
        "erasures",
        ("id",),
        (
            Column("id", "name", "The receipt's id.", required=True),
            Column("kind", "name", "`user`, `chat` or `session`.", required=True),
            Column("platform", "name", "The messenger."),
            Column(
                "digest",
                "name",
                "Digest of the erased id with the receipt's: the id cannot be read from it.",
                required=True,
            ),
            Column("status", "name", "`pending` or `done`.", required=True),
            Column("requested_at", "real", "When it was asked for.", required=True),
            Column("finished_at", "real", "When it was done."),
            Column(
                "targets",
                "text",
                "What is to be erased, as JSON; NULL as soon as nothing needs it.",
            ),
            Column("steps", "text", "What was done in each place, as JSON."),
        ),
        (Index("idx_erasures_requested", ("requested_at", "id")),),
        doc="Receipts of erasures.",
    ),
    Table(
        "authors",
        ("session_id", "external_id"),
        (
            Column("session_id", "name", "The session.", required=True),
            Column("external_id", "name", "The message's external id.", required=True),
            Column("platform", "name", "The messenger.", required=True),
            Column("author", "name", "Who wrote it.", required=True),
        ),
        (Index("idx_authors_author", ("author",)),),
        doc="Who wrote a message in a room that several users share.",
    ),
)

#: Protection from deletion: see docs/retention.md.
HOLD_TABLES: Final = (
    Table(
        "holds",
        ("session_id",),
        (
            Column("session_id", "name", "A session of the conversation.", required=True),
            Column("reason", "text", "Why.", required=True),
            Column("held_at", "real", "Since when.", required=True),
        ),
        doc="Conversations that nothing may delete.",
    ),
)

#: Sessions that other programs changed; see ``repositories.stale_sessions``.
STALE_TABLES: Final = (
    Table(
        "stale_sessions",
        ("seq",),
        (
            Column("seq", "serial", "The note's number."),
            Column("session_id", "name", "The session.", required=True),
        ),
        (Index("idx_stale_sessions_session", ("session_id",)),),
        doc="Sessions that other programs changed; triggers fill it.",
        local="derived columns to work out again; after a restore, all are",
    ),
)

#: Kept beside the search index, which each database declares itself.
SEARCH_TABLES: Final = (
    Table(
        "search_state",
        ("segmenter",),
        (
            Column("segmenter", "integer", "The version of the rules for tokens.", required=True),
            Column(
                "indexed_through", "integer", "Messages up to this id are indexed.", required=True
            ),
            Column("newest", "real", "The newest time among them.", required=True, default=0),
            Column(
                "ordered_from",
                "integer",
                "Above this id, ids and times of messages agree.",
                required=True,
                default=0,
            ),
            Column(
                "disorder",
                "real",
                "How many seconds the others are out of order.",
                required=True,
                default=0,
            ),
        ),
        doc="How far the search index is.",
        local="search index, built again",
        sqlite_key="none",
    ),
    Table(
        "search_queue",
        ("seq",),
        (
            Column("seq", "serial", "The note's number."),
            Column("message_id", "integer", "The message.", required=True),
        ),
        (Index("idx_search_queue_message", ("message_id",), sqlite="none"),),
        doc="Indexed messages that changed.",
        local="search index, built again",
    ),
    Table(
        "search_titles",
        ("number",),
        (
            Column("number", "serial", "The document's number."),
            Column("session_id", "name", "The session.", required=True),
            Column(
                "stale",
                "integer",
                "1 when the title changed since it was indexed.",
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
            Column("name", "name", "The migration.", required=True),
            Column("applied_at", "real", "When it was taken; 0 while it runs.", required=True),
            Column(
                "writer_level",
                "integer",
                "What a program must know to write the store afterwards.",
                required=True,
            ),
        ),
        doc="The migrations that this store has taken.",
        local="steps of the database it came from; the target takes its own",
    ),
    Table(
        "write_marks",
        ("mark",),
        (
            Column("mark", "name", "The unit of work.", required=True),
            Column("message_id", "integer", "The message it appended."),
            Column("marked_at", "real", "When.", required=True),
        ),
        doc="Commits of the last hour, to tell whether a lost one happened.",
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
}
#: Every table that all databases have.
ALL_TABLES: Final = tuple(table for tables in TABLES_BY_STEP.values() for table in tables)
#: Migrations that only add columns, those with this name in ``since``; in order, after all others.
COLUMN_STEPS: Final[tuple[str, ...]] = ()


def added_by(step: str) -> list[tuple[Table, Column]]:
    """Return the columns that a migration adds."""
    return [
        (table, column) for table in ALL_TABLES for column in table.columns if column.since == step
    ]

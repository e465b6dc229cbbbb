"""The records that the store returns, typed. They are plain dicts, as documented; only type
checkers and editors read these classes, so that nothing loads them at run time.

The columns in them are declared in ``storage/tables.py``, and a test demands that the two agree.
"""

# Without postponed annotations: at run time, the classes tell required keys from others.
from typing import Any, Literal, NotRequired, Required, TypedDict

# Sessions

#: Values that a caller keeps with a session, as a JSON object.
Metadata = dict[str, Any]


class SessionRecord(TypedDict):
    """One session; see docs/tables.md for what each column means."""

    id: str
    source: str
    user_id: str | None
    model: str | None
    #: JSON text.
    model_config: str | None
    system_prompt: str | None
    parent_session_id: str | None
    started_at: float
    ended_at: float | None
    end_reason: str | None
    message_count: int
    tool_call_count: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    billing_provider: str | None
    billing_base_url: str | None
    billing_mode: str | None
    estimated_cost_usd: float | None
    actual_cost_usd: float | None
    cost_status: str | None
    cost_source: str | None
    pricing_version: str | None
    title: str | None
    api_call_count: int
    handoff_state: str | None
    handoff_platform: str | None
    handoff_error: str | None
    conversation_id: str
    edge_kind: str | None
    rewind_count: int
    archived_at: float | None
    pinned_at: float | None
    session_key: str | None
    chat_id: str | None
    chat_type: str | None
    thread_id: str | None
    display_name: str | None
    #: JSON text.
    origin_json: str | None
    expiry_finalized: int
    cwd: str | None
    git_branch: str | None
    git_repo_root: str | None
    compression_failure_cooldown_until: float | None
    compression_failure_error: str | None
    compression_fallback_streak: int
    profile_name: str | None
    archived: int
    revision: int
    #: Values of the caller; {} without any.
    metadata: Metadata
    #: Sorted; [] without any.
    tags: list[str]
    workspace_id: str | None


class RecentSession(SessionRecord):
    """A session with the time of its newest message, or of its start."""

    last_active: float


class SessionSummary(RecentSession):
    """A session with the beginning of its first user message, or None."""

    preview: str | None


class SessionListing(RecentSession):
    """One row of a list. With *compact_rows*, ``system_prompt`` is missing."""

    preview: str
    #: The id of the thread's first session, when the row shows a later one.
    _lineage_root_id: NotRequired[str]


class TrashedSession(RecentSession):
    """A session in the trash, with the title it had before."""

    preview: str
    trashed_at: float


class WorkspaceIdentity(TypedDict):
    """What a workspace is: in exports, and one that was merged into another."""

    id: str
    name: str
    identity: str | None
    path: str | None


class WorkspaceRecord(WorkspaceIdentity):
    """A project that sessions belong to."""

    created_at: float
    #: How many sessions it has, and their last activity; merged workspaces included.
    sessions: int
    last_active: float | None
    merged: list[WorkspaceIdentity]


# Messages


class MessageRecord(TypedDict):
    """One message, content and tool calls decoded; see docs/tables.md for the columns."""

    id: int
    session_id: str
    role: str
    #: Text, structured content, bytes or None, as it was given.
    content: Any
    tool_call_id: str | None
    tool_calls: Any
    tool_name: str | None
    timestamp: float
    token_count: int | None
    finish_reason: str | None
    reasoning: str | None
    reasoning_content: str | None
    #: JSON text, like the next two.
    reasoning_details: str | None
    codex_reasoning_items: str | None
    codex_message_items: str | None
    ordinal: int
    external_id: str | None
    active: int
    compacted: int
    effect_disposition: str | None
    platform_message_id: str | None
    observed: int
    api_content: str | None
    #: The framework's object, as it was given.
    payload: Any
    payload_private: int


class ConversationMessage(TypedDict, total=False):
    """One message in the form that model providers take; empty fields are missing."""

    role: Required[str]
    content: Required[Any]
    tool_call_id: str
    tool_name: str
    tool_calls: Any
    finish_reason: str
    reasoning: str
    reasoning_content: str
    reasoning_details: Any
    codex_reasoning_items: Any
    codex_message_items: Any


class MessageWindow(TypedDict):
    """Messages around one of them, and how many lie beyond on each side."""

    window: list[MessageRecord]
    messages_before: int
    messages_after: int


class AnchoredView(MessageWindow):
    """A window with the first and last messages of the session that have text."""

    bookend_start: list[MessageRecord]
    bookend_end: list[MessageRecord]


class RewindResult(TypedDict):
    """What a rewind did."""

    rewind_id: int
    rewound_count: int
    target_text: str
    #: The message that is last now.
    new_head_id: int | None


class StateDocument(TypedDict):
    """A JSON value that a framework keeps for a session, a user or an app."""

    scope: Literal["session", "user", "app"]
    #: The id of that session, user or app.
    owner: str
    name: str
    #: The value, as it was given.
    value: Any
    revision: int
    updated_at: float


class SuffixReplacement(TypedDict):
    """What replacing the end of a transcript did."""

    #: The rewind that restores what was hidden; None if nothing was.
    rewind_id: int | None
    hidden_count: int
    #: The new messages, in order.
    message_ids: list[int]
    #: The revision of the session afterwards.
    revision: int


class RewindRecord(TypedDict):
    """One rewind of a session."""

    id: int
    session_id: str
    target_message_id: int
    target_ordinal: int
    hidden_count: int
    head_ordinal: int
    rewound_at: float
    restored_at: float | None


# Search


class ContextMessage(TypedDict):
    """A message beside a hit, cut short."""

    role: str
    content: str


class SearchHit(TypedDict):
    """A message that `SessionDB.search_messages` found."""

    id: int
    session_id: str
    role: str
    #: Text around the matches, marked ``>>>match<<<``.
    snippet: str
    timestamp: float
    tool_name: str | None
    source: str
    model: str | None
    session_started: float
    context: list[ContextMessage]
    title: str | None
    conversation_id: str
    ordinal: int
    #: ``title`` when only the session's title matches.
    matched: str
    #: The snippet without markers, and where the matches are in it: (start, end), in order.
    snippet_text: str
    spans: list[tuple[int, int]]


class IndexStatus(TypedDict):
    """How far the search index is."""

    complete: bool
    pending: int
    indexed_through: int


class OptimizeResult(TypedDict):
    """What optimizing the search index did."""

    indexed: int
    rebuilt: bool


class DirectoryUse(TypedDict):
    """A working directory and its sessions."""

    cwd: str
    sessions: int
    last_active: float


class CompressionCooldown(TypedDict):
    """Until when compression is not to be tried again after a failure."""

    cooldown_until: float
    remaining_seconds: float
    error: str | None


# Usage, holds, handoffs, topics


class ModelUsage(TypedDict):
    """Tokens and cost of one session by model, route and task."""

    model: str | None
    billing_provider: str | None
    billing_base_url: str | None
    billing_mode: str | None
    task: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    api_call_count: int
    estimated_cost_usd: float | None
    actual_cost_usd: float | None
    first_at: float
    last_at: float


class HoldRecord(TypedDict):
    """A conversation that nothing may delete."""

    session_id: str
    reason: str
    held_at: float
    title: str | None
    conversation_id: str


class HandoffState(TypedDict):
    """Where a handoff stands."""

    state: Literal["pending", "running", "completed", "failed"] | None
    platform: str | None
    error: str | None


class TopicBinding(TypedDict):
    """A Telegram topic and its session."""

    chat_id: str
    thread_id: str
    user_id: str
    session_key: str
    session_id: str
    managed_mode: str
    linked_at: float
    updated_at: float


# Export and import


class ExportedMessage(MessageRecord):
    """A message of an export; the last three are there when they hold something."""

    content_type: NotRequired[str]
    rewind_id: NotRequired[int]
    extra: NotRequired[Any]


class ExportedRewind(TypedDict):
    """A rewind of an export."""

    id: int
    target_message_id: int
    target_ordinal: int
    hidden_count: int
    head_ordinal: int
    rewound_at: float
    restored_at: float | None


class ExportedSession(RecentSession):
    """A session with everything that belongs to it."""

    messages: list[ExportedMessage]
    model_usage: NotRequired[list[ModelUsage]]
    rewinds: NotRequired[list[ExportedRewind]]
    workspace: NotRequired[WorkspaceIdentity]
    #: Columns that came with an import from another layout.
    extra: NotRequired[Any]


class ImportReport(TypedDict):
    """What an import did."""

    ok: bool
    imported: int
    extended: int
    skipped: int
    #: Sessions that were stored without their parent, because that is missing.
    detached: int
    imported_ids: list[str]
    extended_ids: list[str]
    skipped_ids: list[str]
    #: ``id`` and ``reason`` of sessions that were not imported.
    conflicts: list[dict[str, Any]]
    #: ``index`` and ``error`` of invalid records, with their ``id`` if they have one.
    errors: list[dict[str, Any]]
    #: ``id`` and ``note`` of values that the import changed.
    notes: list[dict[str, Any]]


# The store as a whole


class SourceStats(TypedDict):
    """Totals of one source."""

    sessions: int
    messages: int


class StoreStats(TypedDict):
    """Totals of a store."""

    sessions: int
    messages: int
    sources: dict[str, SourceStats]
    archived: int
    trashed: int
    size_bytes: int


class StoreSizes(TypedDict):
    """What takes up space, in bytes."""

    size_bytes: int
    text_bytes: int
    subagent_bytes: int
    archived_bytes: int
    trashed_bytes: int
    sources: dict[str, int]
    roles: dict[str, int]


class SpaceShare(TypedDict):
    """What one class or source of sessions takes up."""

    sessions: int
    messages: int
    text_bytes: int


class SpaceReport(TypedDict):
    """What takes up space, by class, source, table and index."""

    size_bytes: int
    classes: dict[str, SpaceShare]
    sources: dict[str, SpaceShare]
    tables: dict[str, int]
    indexes: dict[str, int]
    free_bytes: int | None
    log_bytes: int | None
    estimated: bool
    uncounted_bytes: int
    text_messages: int
    text_complete: bool
    complete: bool


class AttachmentFacts(TypedDict):
    """An attachment; its id is the digest of its bytes."""

    id: str
    media_type: str
    name: str | None
    size: int


class AttachmentRecord(AttachmentFacts):
    """An attachment of a message."""

    message_id: int
    ordinal: int
    role: str


class Attachment(AttachmentFacts):
    """An attachment with its bytes."""

    data: bytes


class BlobReference(TypedDict):
    """Who keeps a blob."""

    namespace: str
    key: str
    digest: str


class BlobSweep(TypedDict):
    """The blobs that a sweep removed."""

    removed: int
    bytes: int


class MaintenanceReport(TypedDict):
    """What automatic maintenance did."""

    skipped: bool
    pruned: int
    vacuumed: bool
    retired: NotRequired[int]
    purged: NotRequired[int]
    error: NotRequired[str]


class InsightsReport(TypedDict):
    """How a store was used."""

    days: float
    source: str | None
    generated_at: float
    empty: bool
    overview: dict[str, Any]
    models: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    platforms: list[dict[str, Any]]
    activity: dict[str, Any]
    over_time: list[dict[str, Any]]
    top_sessions: dict[str, list[dict[str, Any]]]

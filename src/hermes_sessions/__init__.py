"""Hermes Sessions: the session layer for AI agents.

>>> from hermes_sessions import SessionDB
>>> db = SessionDB(":memory:")
>>> session_id = db.create_session(source="cli")
>>> db.append_message(session_id, role="user", content="Hello") > 0
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes_sessions.errors import (
    BackupDamaged,
    BackupRefused,
    BlobDamaged,
    ConfigError,
    ConstraintViolated,
    ConversationHeld,
    DiskFull,
    HermesSessionsError,
    ImportRefused,
    InvalidInput,
    InvalidTitle,
    MessageTooLarge,
    NotADatabase,
    NotFound,
    RevisionConflict,
    SchemaRefused,
    StaleFence,
    StatementRefused,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreIOError,
    StoreLocked,
    StoreReadOnly,
    StoreRefused,
    StoreUnavailable,
    StoreUnreachable,
    TitleTaken,
    UnknownSession,
    UnsafeStore,
)
from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.provider import SessionDBProvider
from hermes_sessions.storage.sessiondb import SessionDB

if TYPE_CHECKING:
    from hermes_sessions.agent.tools.registry import Tool
    from hermes_sessions.agent.turn import Agent, AgentResult
    from hermes_sessions.config.gateway_config import GatewayConfig, HomeChannel
    from hermes_sessions.lifecycle.agent_cache import AgentCache, agent_signature
    from hermes_sessions.lifecycle.conversation_lease import ConversationLease, Holding
    from hermes_sessions.lifecycle.expiry_watcher import ExpiryWatcher
    from hermes_sessions.lifecycle.gateway_process import GatewayProcess
    from hermes_sessions.lifecycle.mailboxes import Mailboxes
    from hermes_sessions.lifecycle.session_context import (
        SessionContext,
        build_session_context,
        build_session_context_prompt,
        prefixed_with_sender,
    )
    from hermes_sessions.lifecycle.session_entry import SessionEntry
    from hermes_sessions.lifecycle.session_store import SessionStore
    from hermes_sessions.lifecycle.turn_input import dedupe_mark, sender_of
    from hermes_sessions.model.ids import new_session_id
    from hermes_sessions.model.lane import (
        LaneKey,
        LaneNotice,
        Notice,
        build_session_key,
        is_shared_multi_user_session,
        parse_key,
    )
    from hermes_sessions.model.prune_filters import PruneFilters
    from hermes_sessions.model.reset_policy import SessionResetPolicy
    from hermes_sessions.model.source import Platform, SessionSource
    from hermes_sessions.storage.async_db import AsyncSessionDB
    from hermes_sessions.storage.care.backups import (
        Backup,
        BackupRule,
        create_backup,
        list_backups,
        prune_backups,
        restore_backup,
        verify_backup,
    )
    from hermes_sessions.storage.records import (
        AnchoredView,
        CompressionCooldown,
        ConversationMessage,
        DirectoryUse,
        ExportedMessage,
        ExportedSession,
        HandoffState,
        HoldRecord,
        ImportReport,
        IndexStatus,
        InsightsReport,
        MaintenanceReport,
        MessageRecord,
        MessageWindow,
        ModelUsage,
        OptimizeResult,
        RecentSession,
        RewindRecord,
        RewindResult,
        SearchHit,
        SessionListing,
        SessionRecord,
        SessionSummary,
        SpaceReport,
        StateDocument,
        StoreSizes,
        StoreStats,
        SuffixReplacement,
        TopicBinding,
        TrashedSession,
    )
    from hermes_sessions.storage.repositories.leases import HeldBy, Holder, Lease
    from hermes_sessions.text.query.filters import Conditions, SearchConditions

__all__ = [
    "Agent",
    "AgentCache",
    "AgentResult",
    "AnchoredView",
    "AsyncSessionDB",
    "Backup",
    "BackupDamaged",
    "BackupRefused",
    "BackupRule",
    "BlobDamaged",
    "CompressionCooldown",
    "Conditions",
    "ConfigError",
    "ConstraintViolated",
    "ConversationHeld",
    "ConversationLease",
    "ConversationMessage",
    "DirectoryUse",
    "DiskFull",
    "ExpiryWatcher",
    "ExportedMessage",
    "ExportedSession",
    "GatewayConfig",
    "GatewayProcess",
    "HandoffState",
    "HeldBy",
    "HermesSessionsError",
    "HoldRecord",
    "Holder",
    "Holding",
    "HomeChannel",
    "ImportRefused",
    "ImportReport",
    "IndexStatus",
    "InsightsReport",
    "InvalidInput",
    "InvalidTitle",
    "LaneKey",
    "LaneNotice",
    "Lease",
    "Mailboxes",
    "MaintenanceReport",
    "MessageRecord",
    "MessageTooLarge",
    "MessageWindow",
    "ModelUsage",
    "NotADatabase",
    "NotFound",
    "Notice",
    "OptimizeResult",
    "Platform",
    "PruneFilters",
    "RecentSession",
    "RevisionConflict",
    "RewindRecord",
    "RewindResult",
    "SchemaRefused",
    "Scope",
    "SearchConditions",
    "SearchHit",
    "SessionContext",
    "SessionDB",
    "SessionDBProvider",
    "SessionEntry",
    "SessionListing",
    "SessionRecord",
    "SessionResetPolicy",
    "SessionSource",
    "SessionStore",
    "SessionSummary",
    "SpaceReport",
    "StaleFence",
    "StateDocument",
    "StatementRefused",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreIOError",
    "StoreLocked",
    "StoreReadOnly",
    "StoreRefused",
    "StoreSizes",
    "StoreStats",
    "StoreUnavailable",
    "StoreUnreachable",
    "SuffixReplacement",
    "TitleTaken",
    "Tool",
    "TopicBinding",
    "TrashedSession",
    "UnknownSession",
    "UnsafeStore",
    "agent_signature",
    "build_session_context",
    "build_session_context_prompt",
    "build_session_key",
    "create_backup",
    "dedupe_mark",
    "is_shared_multi_user_session",
    "list_backups",
    "new_session_id",
    "parse_key",
    "prefixed_with_sender",
    "prune_backups",
    "restore_backup",
    "sender_of",
    "verify_backup",
]


#: Loaded on first use: most programs that open a store do not search, run an event loop, an agent
#: or a gateway.
_MODULE_OF = {
    "Agent": "agent.turn",
    "AgentCache": "lifecycle.agent_cache",
    "AgentResult": "agent.turn",
    "AnchoredView": "storage.records",
    "AsyncSessionDB": "storage.async_db",
    "Backup": "storage.care.backups.backup_directory",
    "BackupRule": "storage.care.backups.rotation",
    "Conditions": "text.query.filters",
    "CompressionCooldown": "storage.records",
    "ConversationLease": "lifecycle.conversation_lease",
    "ConversationMessage": "storage.records",
    "DirectoryUse": "storage.records",
    "ExpiryWatcher": "lifecycle.expiry_watcher",
    "ExportedMessage": "storage.records",
    "ExportedSession": "storage.records",
    "GatewayConfig": "config.gateway_config",
    "GatewayProcess": "lifecycle.gateway_process",
    "HandoffState": "storage.records",
    "HeldBy": "storage.repositories.leases",
    "HoldRecord": "storage.records",
    "Holder": "storage.repositories.leases",
    "Holding": "lifecycle.conversation_lease",
    "HomeChannel": "config.gateway_config",
    "ImportReport": "storage.records",
    "IndexStatus": "storage.records",
    "InsightsReport": "storage.records",
    "LaneKey": "model.lane",
    "LaneNotice": "model.lane",
    "Lease": "storage.repositories.leases",
    "Mailboxes": "lifecycle.mailboxes",
    "MaintenanceReport": "storage.records",
    "MessageRecord": "storage.records",
    "MessageWindow": "storage.records",
    "ModelUsage": "storage.records",
    "Notice": "model.lane",
    "OptimizeResult": "storage.records",
    "Platform": "model.source",
    "PruneFilters": "model.prune_filters",
    "RecentSession": "storage.records",
    "RewindRecord": "storage.records",
    "RewindResult": "storage.records",
    "SearchConditions": "text.query.filters",
    "SearchHit": "storage.records",
    "SessionContext": "lifecycle.session_context",
    "SessionEntry": "lifecycle.session_entry",
    "SessionListing": "storage.records",
    "SessionRecord": "storage.records",
    "SessionResetPolicy": "model.reset_policy",
    "SessionSource": "model.source",
    "SessionStore": "lifecycle.session_store",
    "SessionSummary": "storage.records",
    "SpaceReport": "storage.records",
    "StateDocument": "storage.records",
    "StoreSizes": "storage.records",
    "StoreStats": "storage.records",
    "SuffixReplacement": "storage.records",
    "Tool": "agent.tools.registry",
    "TopicBinding": "storage.records",
    "TrashedSession": "storage.records",
    "agent_signature": "lifecycle.agent_cache",
    "build_session_context": "lifecycle.session_context",
    "build_session_context_prompt": "lifecycle.session_context",
    "build_session_key": "model.lane",
    "create_backup": "storage.care.backups.creation",
    "dedupe_mark": "lifecycle.turn_input",
    "is_shared_multi_user_session": "model.lane",
    "list_backups": "storage.care.backups.backup_directory",
    "new_session_id": "model.ids",
    "parse_key": "model.lane",
    "prefixed_with_sender": "lifecycle.session_context",
    "prune_backups": "storage.care.backups.rotation",
    "restore_backup": "storage.care.backups.restore",
    "sender_of": "lifecycle.turn_input",
    "verify_backup": "storage.care.backups.verification",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value

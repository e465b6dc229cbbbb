"""AsyncSessionDB: `SessionDB` for asyncio, verb by verb.

Made from sessiondb.py by scripts/async_twin.py: change that, not this. What a verb does is said
there; what threads and cancelling have to do with it, in `hermes_sessions.storage.async_handle`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, Unpack

from hermes_sessions.errors import StoreClosed
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.async_handle import DEFAULT_THREADS, AsyncHandle, Opening
from hermes_sessions.storage.provider import SessionDBProvider
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.store_context import LEASE_SECONDS, AttachmentLimits, StoreContext

if TYPE_CHECKING:
    from datetime import tzinfo
    from os import PathLike
    from pathlib import Path

    from hermes_sessions.model.prune_filters import PruneFilters
    from hermes_sessions.model.retention import RetentionPolicies
    from hermes_sessions.storage.care.retention.plan import (
        RetentionApproval,
        RetentionPlan,
        RetentionResult,
    )
    from hermes_sessions.storage.records import (
        AnchoredView,
        Attachment,
        AttachmentRecord,
        BlobReference,
        BlobSweep,
        CompressionCooldown,
        ConversationMessage,
        DirectoryUse,
        ExportedSession,
        HandoffState,
        HoldRecord,
        ImportReport,
        IndexStatus,
        InsightsReport,
        MaintenanceReport,
        MessageRecord,
        MessageWindow,
        Metadata,
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
        WorkspaceRecord,
    )
    from hermes_sessions.storage.repositories.leases import HeldBy, Holder, Lease
    from hermes_sessions.storage.search.answer import SearchAnswer
    from hermes_sessions.text.query.filters import SearchConditions


class AsyncSessionDB(AsyncHandle):
    """Every verb of `SessionDB`, awaitable; for asyncio only.

    Open one with `open` or `from_url`, or give it a `SessionDB`, which is closed with it. Callbacks
    and iterables given to a verb are used in the verb's thread.
    """

    MAX_TITLE_LENGTH: ClassVar[int] = SessionDB.MAX_TITLE_LENGTH

    @classmethod
    def open(
        cls,
        db_path: str | Path | None = None,
        *,
        provider: SessionDBProvider | None = None,
        read_only: bool = False,
        durability: Literal["full", "normal"] | None = None,
        lock_timeout: float | None = None,
        max_message_bytes: int | None = None,
        attachments: AttachmentLimits | None = None,
        clock: Callable[[], float] = time.time,
        threads: int = DEFAULT_THREADS,
    ) -> Opening[Self]:
        """Open a store as `SessionDB` does: ``async with AsyncSessionDB.open(...) as db`` closes it
        again, ``await AsyncSessionDB.open(...)`` leaves that to the caller.

        *threads* is how many calls run at the same time. If opening is cancelled, the store is
        closed.
        """
        return cls._open(
            threads,
            SessionDB,
            db_path,
            provider=provider,
            read_only=read_only,
            durability=durability,
            lock_timeout=lock_timeout,
            max_message_bytes=max_message_bytes,
            attachments=attachments,
            clock=clock,
        )

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        read_only: bool = False,
        durability: Literal["full", "normal"] | None = None,
        lock_timeout: float | None = None,
        threads: int = DEFAULT_THREADS,
        **options: Any,
    ) -> Opening[Self]:
        """Open a store as `SessionDB.from_url` does; otherwise like `open`."""
        return cls._open(
            threads,
            SessionDB.from_url,
            url,
            read_only=read_only,
            durability=durability,
            lock_timeout=lock_timeout,
            **options,
        )

    # ── the store itself ──────────────────────────────────────────────────────────────────────

    @property
    def provider(self) -> SessionDBProvider:
        """See `SessionDB.provider`."""
        return self._db.provider

    @property
    def store(self) -> StoreContext:
        """See `SessionDB.store`."""
        return self._db.store

    async def describe(self) -> dict[str, Any]:
        """See `SessionDB.describe`."""
        return await self._call(self._db.describe)

    # ── sessions ──────────────────────────────────────────────────────────────────────────────

    async def create_session(
        self,
        session_id: str | None = None,
        source: str = "unknown",
        *,
        model: str | None = None,
        model_config: Mapping[str, Any] | None = None,
        system_prompt: str | None = None,
        user_id: str | None = None,
        parent_session_id: str | None = None,
        edge_kind: str | None = None,
        started_at: float | None = None,
        session_key: str | None = None,
        chat_id: str | None = None,
        chat_type: str | None = None,
        thread_id: str | None = None,
        profile_name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] | None = None,
        cwd: str | PathLike[str] | None = None,
        fence: int | None = None,
    ) -> str:
        """See `SessionDB.create_session`."""
        return await self._call(
            self._db.create_session,
            session_id,
            source,
            model=model,
            model_config=model_config,
            system_prompt=system_prompt,
            user_id=user_id,
            parent_session_id=parent_session_id,
            edge_kind=edge_kind,
            started_at=started_at,
            session_key=session_key,
            chat_id=chat_id,
            chat_type=chat_type,
            thread_id=thread_id,
            profile_name=profile_name,
            metadata=metadata,
            tags=tags,
            cwd=cwd,
            fence=fence,
        )

    async def ensure_session(
        self, session_id: str, source: str = "unknown", model: str | None = None, **kwargs: Any
    ) -> str:
        """See `SessionDB.ensure_session`."""
        return await self._call(self._db.ensure_session, session_id, source, model, **kwargs)

    async def get_session(self, session_id: str, *, scope: Scope = OWNER) -> SessionRecord | None:
        """See `SessionDB.get_session`."""
        return await self._call(self._db.get_session, session_id, scope=scope)

    async def end_session(self, session_id: str, end_reason: str) -> None:
        """See `SessionDB.end_session`."""
        await self._call(self._db.end_session, session_id, end_reason)

    async def reopen_session(self, session_id: str) -> None:
        """See `SessionDB.reopen_session`."""
        await self._call(self._db.reopen_session, session_id)

    async def promote_to_session_reset(self, session_id: str, reason: str | None = None) -> bool:
        """See `SessionDB.promote_to_session_reset`."""
        return await self._call(self._db.promote_to_session_reset, session_id, reason)

    async def update_system_prompt(self, session_id: str, system_prompt: str | None) -> None:
        """See `SessionDB.update_system_prompt`."""
        await self._call(self._db.update_system_prompt, session_id, system_prompt)

    async def update_session_model(self, session_id: str, model: str | None) -> None:
        """See `SessionDB.update_session_model`."""
        await self._call(self._db.update_session_model, session_id, model)

    async def update_session_meta(
        self, session_id: str, model_config_json: str | None, model: str | None = None
    ) -> None:
        """See `SessionDB.update_session_meta`."""
        await self._call(self._db.update_session_meta, session_id, model_config_json, model)

    async def update_session_cwd(
        self,
        session_id: str,
        cwd: str,
        git_branch: str | None = None,
        git_repo_root: str | None = None,
    ) -> None:
        """See `SessionDB.update_session_cwd`."""
        await self._call(self._db.update_session_cwd, session_id, cwd, git_branch, git_repo_root)

    async def distinct_session_cwds(self, include_archived: bool = False) -> list[DirectoryUse]:
        """See `SessionDB.distinct_session_cwds`."""
        return await self._call(self._db.distinct_session_cwds, include_archived)

    async def backfill_repo_roots(self, cwd_to_root: Mapping[str, str]) -> None:
        """See `SessionDB.backfill_repo_roots`."""
        await self._call(self._db.backfill_repo_roots, cwd_to_root)

    async def update_session_billing_route(
        self,
        session_id: str,
        *,
        provider: str | None,
        base_url: str | None,
        billing_mode: str | None = None,
    ) -> None:
        """See `SessionDB.update_session_billing_route`."""
        await self._call(
            self._db.update_session_billing_route,
            session_id,
            provider=provider,
            base_url=base_url,
            billing_mode=billing_mode,
        )

    async def resolve_session_id(self, session_id_or_prefix: str) -> str | None:
        """See `SessionDB.resolve_session_id`."""
        return await self._call(self._db.resolve_session_id, session_id_or_prefix)

    async def find_session_ids(self, prefix: str, limit: int = 20) -> list[str]:
        """See `SessionDB.find_session_ids`."""
        return await self._call(self._db.find_session_ids, prefix, limit)

    # ── titles ────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def sanitize_title(title: str | None) -> str | None:
        """See `SessionDB.sanitize_title`; not awaited, because it asks no database."""
        return SessionDB.sanitize_title(title)

    async def set_session_title(
        self, session_id: str, title: str | None, *, expected_revision: int | None = None
    ) -> bool:
        """See `SessionDB.set_session_title`."""
        return await self._call(
            self._db.set_session_title, session_id, title, expected_revision=expected_revision
        )

    async def set_auto_title_if_empty(self, session_id: str, title: str) -> bool:
        """See `SessionDB.set_auto_title_if_empty`."""
        return await self._call(self._db.set_auto_title_if_empty, session_id, title)

    async def get_session_title(self, session_id: str) -> str | None:
        """See `SessionDB.get_session_title`."""
        return await self._call(self._db.get_session_title, session_id)

    async def get_session_by_title(self, title: str) -> SessionRecord | None:
        """See `SessionDB.get_session_by_title`."""
        return await self._call(self._db.get_session_by_title, title)

    async def find_session_titles(self, prefix: str, limit: int = 20) -> list[tuple[str, str]]:
        """See `SessionDB.find_session_titles`."""
        return await self._call(self._db.find_session_titles, prefix, limit)

    async def resolve_session_by_title(self, title: str) -> str | None:
        """See `SessionDB.resolve_session_by_title`."""
        return await self._call(self._db.resolve_session_by_title, title)

    async def get_next_title_in_lineage(self, base_title: str) -> str:
        """See `SessionDB.get_next_title_in_lineage`."""
        return await self._call(self._db.get_next_title_in_lineage, base_title)

    # ── tags and metadata ─────────────────────────────────────────────────────────────────────

    async def add_tags(self, session_id: str, tags: Iterable[str]) -> list[str]:
        """See `SessionDB.add_tags`."""
        return await self._call(self._db.add_tags, session_id, tags)

    async def remove_tags(self, session_id: str, tags: Iterable[str]) -> list[str]:
        """See `SessionDB.remove_tags`."""
        return await self._call(self._db.remove_tags, session_id, tags)

    async def set_tags(
        self, session_id: str, tags: Iterable[str], *, expected_revision: int | None = None
    ) -> list[str]:
        """See `SessionDB.set_tags`."""
        return await self._call(
            self._db.set_tags, session_id, tags, expected_revision=expected_revision
        )

    async def list_tags(self, *, scope: Scope = OWNER) -> dict[str, int]:
        """See `SessionDB.list_tags`."""
        return await self._call(self._db.list_tags, scope=scope)

    async def get_metadata(self, session_id: str, *, scope: Scope = OWNER) -> Metadata:
        """See `SessionDB.get_metadata`."""
        return await self._call(self._db.get_metadata, session_id, scope=scope)

    async def set_metadata(
        self, session_id: str, metadata: Mapping[str, Any], *, expected_revision: int | None = None
    ) -> Metadata:
        """See `SessionDB.set_metadata`."""
        return await self._call(
            self._db.set_metadata, session_id, metadata, expected_revision=expected_revision
        )

    async def update_metadata(
        self, session_id: str, changes: Mapping[str, Any], *, expected_revision: int | None = None
    ) -> Metadata:
        """See `SessionDB.update_metadata`."""
        return await self._call(
            self._db.update_metadata, session_id, changes, expected_revision=expected_revision
        )

    # ── workspaces ────────────────────────────────────────────────────────────────────────────

    async def list_workspaces(self, *, scope: Scope = OWNER) -> list[WorkspaceRecord]:
        """See `SessionDB.list_workspaces`."""
        return await self._call(self._db.list_workspaces, scope=scope)

    async def find_workspaces(
        self, reference: str, *, scope: Scope = OWNER
    ) -> list[WorkspaceRecord]:
        """See `SessionDB.find_workspaces`."""
        return await self._call(self._db.find_workspaces, reference, scope=scope)

    async def get_workspace_at(self, directory: str | PathLike[str]) -> WorkspaceRecord | None:
        """See `SessionDB.get_workspace_at`."""
        return await self._call(self._db.get_workspace_at, directory)

    async def get_workspace_names(self) -> dict[str, str]:
        """See `SessionDB.get_workspace_names`."""
        return await self._call(self._db.get_workspace_names)

    async def rename_workspace(self, workspace_id: str, name: str) -> None:
        """See `SessionDB.rename_workspace`."""
        await self._call(self._db.rename_workspace, workspace_id, name)

    async def move_workspace(self, workspace_id: str, directory: str | PathLike[str]) -> None:
        """See `SessionDB.move_workspace`."""
        await self._call(self._db.move_workspace, workspace_id, directory)

    async def merge_workspaces(self, workspace_id: str, into: str) -> None:
        """See `SessionDB.merge_workspaces`."""
        await self._call(self._db.merge_workspaces, workspace_id, into)

    async def separate_workspaces(self, workspace_id: str) -> int:
        """See `SessionDB.separate_workspaces`."""
        return await self._call(self._db.separate_workspaces, workspace_id)

    # ── lineage ───────────────────────────────────────────────────────────────────────────────

    async def get_compression_tip(self, session_id: str) -> str:
        """See `SessionDB.get_compression_tip`."""
        return await self._call(self._db.get_compression_tip, session_id)

    async def resolve_resume_session_id(self, session_id: str) -> str:
        """See `SessionDB.resolve_resume_session_id`."""
        return await self._call(self._db.resolve_resume_session_id, session_id)

    async def get_conversation_root(self, session_id: str) -> str:
        """See `SessionDB.get_conversation_root`."""
        return await self._call(self._db.get_conversation_root, session_id)

    async def list_conversation(
        self, session_id: str, *, scope: Scope = OWNER
    ) -> list[SessionRecord]:
        """See `SessionDB.list_conversation`."""
        return await self._call(self._db.list_conversation, session_id, scope=scope)

    async def get_compression_lineage(self, session_id: str) -> list[str]:
        """See `SessionDB.get_compression_lineage`."""
        return await self._call(self._db.get_compression_lineage, session_id)

    async def continue_session(
        self,
        session_id: str,
        new_session_id: str,
        messages: Iterable[Mapping[str, Any]] = (),
        *,
        system_prompt: str | None = None,
        fence: int | None = None,
        expected_revision: int | None = None,
    ) -> str:
        """See `SessionDB.continue_session`."""
        return await self._call(
            self._db.continue_session,
            session_id,
            new_session_id,
            messages,
            system_prompt=system_prompt,
            fence=fence,
            expected_revision=expected_revision,
        )

    async def finalize_orphaned_compression_sessions(self) -> int:
        """See `SessionDB.finalize_orphaned_compression_sessions`."""
        return await self._call(self._db.finalize_orphaned_compression_sessions)

    # ── listing ───────────────────────────────────────────────────────────────────────────────

    async def list_sessions_rich(
        self,
        source: str | None = None,
        exclude_sources: Sequence[str] | None = None,
        limit: int = 20,
        offset: int = 0,
        include_children: bool = False,
        project_compression_tips: bool = True,
        order_by_last_active: bool = True,
        *,
        include_archived: bool = False,
        archived_only: bool = False,
        pinned_only: bool = False,
        min_message_count: int = 0,
        since: float | None = None,
        until: float | None = None,
        cwd_prefix: str | None = None,
        id_query: str | None = None,
        search_query: str | None = None,
        compact_rows: bool = False,
        tags: Sequence[str] = (),
        exclude_tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        workspace: str | None = None,
        scope: Scope = OWNER,
    ) -> list[SessionListing]:
        """See `SessionDB.list_sessions_rich`."""
        return await self._call(
            self._db.list_sessions_rich,
            source,
            exclude_sources,
            limit,
            offset,
            include_children,
            project_compression_tips,
            order_by_last_active,
            include_archived=include_archived,
            archived_only=archived_only,
            pinned_only=pinned_only,
            min_message_count=min_message_count,
            since=since,
            until=until,
            cwd_prefix=cwd_prefix,
            id_query=id_query,
            search_query=search_query,
            compact_rows=compact_rows,
            tags=tags,
            exclude_tags=exclude_tags,
            metadata=metadata,
            workspace=workspace,
            scope=scope,
        )

    async def search_sessions_by_id(
        self,
        query: str | None,
        limit: int = 20,
        include_archived: bool = True,
        *,
        scope: Scope = OWNER,
    ) -> list[SessionListing]:
        """See `SessionDB.search_sessions_by_id`."""
        return await self._call(
            self._db.search_sessions_by_id, query, limit, include_archived, scope=scope
        )

    async def list_cron_job_runs(
        self, job_id: str, limit: int = 20, offset: int = 0
    ) -> list[SessionSummary]:
        """See `SessionDB.list_cron_job_runs`."""
        return await self._call(self._db.list_cron_job_runs, job_id, limit, offset)

    async def search_sessions(
        self, source: str | None = None, limit: int = 20, offset: int = 0
    ) -> list[RecentSession]:
        """See `SessionDB.search_sessions`."""
        return await self._call(self._db.search_sessions, source, limit, offset)

    async def session_count(
        self,
        source: str | None = None,
        *,
        include_archived: bool = False,
        archived_only: bool = False,
        exclude_children: bool = False,
        exclude_sources: Sequence[str] | None = None,
        min_message_count: int = 0,
        cwd_prefix: str | None = None,
    ) -> int:
        """See `SessionDB.session_count`."""
        return await self._call(
            self._db.session_count,
            source,
            include_archived=include_archived,
            archived_only=archived_only,
            exclude_children=exclude_children,
            exclude_sources=exclude_sources,
            min_message_count=min_message_count,
            cwd_prefix=cwd_prefix,
        )

    async def message_count(
        self, session_id: str | None = None, *, include_inactive: bool = False
    ) -> int:
        """See `SessionDB.message_count`."""
        return await self._call(
            self._db.message_count, session_id, include_inactive=include_inactive
        )

    async def get_stats(self) -> StoreStats:
        """See `SessionDB.get_stats`."""
        return await self._call(self._db.get_stats)

    async def get_sizes(self) -> StoreSizes:
        """See `SessionDB.get_sizes`."""
        return await self._call(self._db.get_sizes)

    async def get_space(self, *, within: float | None = None) -> SpaceReport:
        """See `SessionDB.get_space`."""
        return await self._call(self._db.get_space, within=within)

    async def measure_sessions(self, session_ids: Iterable[str]) -> dict[str, int]:
        """See `SessionDB.measure_sessions`."""
        return await self._call(self._db.measure_sessions, session_ids)

    async def get_insights(
        self,
        days: float = 30,
        source: str | None = None,
        *,
        zone: tzinfo | None = None,
        scope: Scope = OWNER,
    ) -> InsightsReport:
        """See `SessionDB.get_insights`."""
        return await self._call(self._db.get_insights, days, source, zone=zone, scope=scope)

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    async def append_message(
        self,
        session_id: str,
        role: str,
        content: Any = None,
        tool_name: str | None = None,
        tool_calls: Any = None,
        tool_call_id: str | None = None,
        token_count: int | None = None,
        finish_reason: str | None = None,
        reasoning: str | None = None,
        reasoning_content: str | None = None,
        reasoning_details: Any = None,
        codex_reasoning_items: Any = None,
        codex_message_items: Any = None,
        *,
        timestamp: float | None = None,
        external_id: str | None = None,
        platform_message_id: str | None = None,
        observed: bool = False,
        effect_disposition: str | None = None,
        api_content: str | None = None,
        payload: Any = None,
        payload_private: bool = False,
        fence: int | None = None,
        expected_revision: int | None = None,
    ) -> int:
        """See `SessionDB.append_message`."""
        return await self._call(
            self._db.append_message,
            session_id,
            role,
            content,
            tool_name,
            tool_calls,
            tool_call_id,
            token_count,
            finish_reason,
            reasoning,
            reasoning_content,
            reasoning_details,
            codex_reasoning_items,
            codex_message_items,
            timestamp=timestamp,
            external_id=external_id,
            platform_message_id=platform_message_id,
            observed=observed,
            effect_disposition=effect_disposition,
            api_content=api_content,
            payload=payload,
            payload_private=payload_private,
            fence=fence,
            expected_revision=expected_revision,
        )

    async def append_messages(
        self,
        session_id: str,
        messages: Iterable[Mapping[str, Any]],
        *,
        fence: int | None = None,
        expected_revision: int | None = None,
    ) -> list[int]:
        """See `SessionDB.append_messages`."""
        return await self._call(
            self._db.append_messages,
            session_id,
            messages,
            fence=fence,
            expected_revision=expected_revision,
        )

    async def replace_messages(
        self,
        session_id: str,
        messages: Iterable[Mapping[str, Any]],
        *,
        active_only: bool = False,
        fence: int | None = None,
        expected_revision: int | None = None,
    ) -> None:
        """See `SessionDB.replace_messages`."""
        await self._call(
            self._db.replace_messages,
            session_id,
            messages,
            active_only=active_only,
            fence=fence,
            expected_revision=expected_revision,
        )

    async def archive_and_compact(
        self,
        session_id: str,
        compacted_messages: Iterable[Mapping[str, Any]],
        *,
        fence: int | None = None,
        expected_revision: int | None = None,
    ) -> int:
        """See `SessionDB.archive_and_compact`."""
        return await self._call(
            self._db.archive_and_compact,
            session_id,
            compacted_messages,
            fence=fence,
            expected_revision=expected_revision,
        )

    async def has_archived_messages(self, session_id: str) -> bool:
        """See `SessionDB.has_archived_messages`."""
        return await self._call(self._db.has_archived_messages, session_id)

    async def set_latest_user_api_content(
        self, session_id: str, content: Any, api_content: str | None, *, fence: int | None = None
    ) -> int:
        """See `SessionDB.set_latest_user_api_content`."""
        return await self._call(
            self._db.set_latest_user_api_content, session_id, content, api_content, fence=fence
        )

    async def clear_messages(
        self,
        session_id: str,
        *,
        soft: bool = False,
        fence: int | None = None,
        expected_revision: int | None = None,
    ) -> None:
        """See `SessionDB.clear_messages`."""
        await self._call(
            self._db.clear_messages,
            session_id,
            soft=soft,
            fence=fence,
            expected_revision=expected_revision,
        )

    async def pop_message(
        self, session_id: str, *, fence: int | None = None, expected_revision: int | None = None
    ) -> MessageRecord | None:
        """See `SessionDB.pop_message`."""
        return await self._call(
            self._db.pop_message, session_id, fence=fence, expected_revision=expected_revision
        )

    async def replace_suffix(
        self,
        session_id: str,
        *,
        expected_revision: int | None,
        keep: int,
        messages: Iterable[Mapping[str, Any]],
        fence: int | None = None,
    ) -> SuffixReplacement:
        """See `SessionDB.replace_suffix`."""
        return await self._call(
            self._db.replace_suffix,
            session_id,
            expected_revision=expected_revision,
            keep=keep,
            messages=messages,
            fence=fence,
        )

    async def get_messages(
        self,
        session_id: str,
        *,
        limit: int | None = None,
        offset: int = 0,
        include_inactive: bool = False,
        scope: Scope = OWNER,
    ) -> list[MessageRecord]:
        """See `SessionDB.get_messages`."""
        return await self._call(
            self._db.get_messages,
            session_id,
            limit=limit,
            offset=offset,
            include_inactive=include_inactive,
            scope=scope,
        )

    async def get_messages_as_conversation(
        self,
        session_id: str,
        include_ancestors: bool = False,
        *,
        include_inactive: bool = False,
        repair_alternation: bool = False,
    ) -> list[ConversationMessage]:
        """See `SessionDB.get_messages_as_conversation`."""
        return await self._call(
            self._db.get_messages_as_conversation,
            session_id,
            include_ancestors,
            include_inactive=include_inactive,
            repair_alternation=repair_alternation,
        )

    async def get_payloads(
        self,
        session_id: str,
        *,
        first_ordinal: int | None = None,
        last_ordinal: int | None = None,
        limit: int | None = None,
        scope: Scope = OWNER,
    ) -> list[Any]:
        """See `SessionDB.get_payloads`."""
        return await self._call(
            self._db.get_payloads,
            session_id,
            first_ordinal=first_ordinal,
            last_ordinal=last_ordinal,
            limit=limit,
            scope=scope,
        )

    async def get_messages_around(
        self, session_id: str, around_message_id: int, window: int = 5, *, scope: Scope = OWNER
    ) -> MessageWindow:
        """See `SessionDB.get_messages_around`."""
        return await self._call(
            self._db.get_messages_around, session_id, around_message_id, window, scope=scope
        )

    async def get_anchored_view(
        self,
        session_id: str,
        around_message_id: int,
        window: int = 5,
        bookend: int = 3,
        keep_roles: Sequence[str] | None = ("user", "assistant"),
        *,
        scope: Scope = OWNER,
    ) -> AnchoredView:
        """See `SessionDB.get_anchored_view`."""
        return await self._call(
            self._db.get_anchored_view,
            session_id,
            around_message_id,
            window,
            bookend,
            keep_roles,
            scope=scope,
        )

    async def has_external_id(self, session_id: str, external_id: str) -> bool:
        """See `SessionDB.has_external_id`."""
        return await self._call(self._db.has_external_id, session_id, external_id)

    async def has_platform_message_id(self, session_id: str, platform_message_id: str) -> bool:
        """See `SessionDB.has_platform_message_id`."""
        return await self._call(self._db.has_platform_message_id, session_id, platform_message_id)

    # ── rewind ────────────────────────────────────────────────────────────────────────────────

    async def rewind_to_message(
        self,
        session_id: str,
        message_id: int,
        *,
        fence: int | None = None,
        expected_revision: int | None = None,
    ) -> RewindResult:
        """See `SessionDB.rewind_to_message`."""
        return await self._call(
            self._db.rewind_to_message,
            session_id,
            message_id,
            fence=fence,
            expected_revision=expected_revision,
        )

    async def restore_rewound(
        self,
        session_id: str,
        *,
        rewind_id: int | None = None,
        fence: int | None = None,
        expected_revision: int | None = None,
    ) -> int:
        """See `SessionDB.restore_rewound`."""
        return await self._call(
            self._db.restore_rewound,
            session_id,
            rewind_id=rewind_id,
            fence=fence,
            expected_revision=expected_revision,
        )

    async def list_rewinds(self, session_id: str) -> list[RewindRecord]:
        """See `SessionDB.list_rewinds`."""
        return await self._call(self._db.list_rewinds, session_id)

    async def list_recent_user_messages(
        self, session_id: str, limit: int = 10
    ) -> list[MessageRecord]:
        """See `SessionDB.list_recent_user_messages`."""
        return await self._call(self._db.list_recent_user_messages, session_id, limit)

    # ── leases ────────────────────────────────────────────────────────────────────────────────

    async def take_lease(
        self, session_id: str, holder: Holder | str, *, ttl: float = LEASE_SECONDS
    ) -> Lease:
        """See `SessionDB.take_lease`."""
        return await self._call(self._db.take_lease, session_id, holder, ttl=ttl)

    async def renew_lease(self, lease: Lease, *, ttl: float = LEASE_SECONDS) -> Lease:
        """See `SessionDB.renew_lease`."""
        return await self._call(self._db.renew_lease, lease, ttl=ttl)

    async def release_lease(self, lease: Lease) -> None:
        """See `SessionDB.release_lease`."""
        await self._call(self._db.release_lease, lease)

    async def lease_of(self, session_id: str) -> HeldBy | None:
        """See `SessionDB.lease_of`."""
        return await self._call(self._db.lease_of, session_id)

    # ── handoff ───────────────────────────────────────────────────────────────────────────────

    async def request_handoff(self, session_id: str, platform: str) -> bool:
        """See `SessionDB.request_handoff`."""
        return await self._call(self._db.request_handoff, session_id, platform)

    async def get_handoff_state(self, session_id: str) -> HandoffState | None:
        """See `SessionDB.get_handoff_state`."""
        return await self._call(self._db.get_handoff_state, session_id)

    async def list_pending_handoffs(self) -> list[SessionRecord]:
        """See `SessionDB.list_pending_handoffs`."""
        return await self._call(self._db.list_pending_handoffs)

    async def claim_handoff(self, session_id: str) -> bool:
        """See `SessionDB.claim_handoff`."""
        return await self._call(self._db.claim_handoff, session_id)

    async def complete_handoff(self, session_id: str) -> None:
        """See `SessionDB.complete_handoff`."""
        await self._call(self._db.complete_handoff, session_id)

    async def fail_handoff(self, session_id: str, error: str) -> None:
        """See `SessionDB.fail_handoff`."""
        await self._call(self._db.fail_handoff, session_id, error)

    # ── chats of messengers ───────────────────────────────────────────────────────────────────

    async def record_gateway_session_peer(
        self,
        session_id: str,
        *,
        source: str,
        user_id: str | None = None,
        session_key: str | None = None,
        chat_id: str | None = None,
        chat_type: str | None = None,
        thread_id: str | None = None,
        display_name: str | None = None,
        origin_json: str | None = None,
    ) -> None:
        """See `SessionDB.record_gateway_session_peer`."""
        await self._call(
            self._db.record_gateway_session_peer,
            session_id,
            source=source,
            user_id=user_id,
            session_key=session_key,
            chat_id=chat_id,
            chat_type=chat_type,
            thread_id=thread_id,
            display_name=display_name,
            origin_json=origin_json,
        )

    async def find_latest_gateway_session_for_peer(
        self,
        *,
        source: str,
        user_id: str | None = None,
        session_key: str | None = None,
        chat_id: str | None = None,
        chat_type: str | None = None,
        thread_id: str | None = None,
    ) -> SessionRecord | None:
        """See `SessionDB.find_latest_gateway_session_for_peer`."""
        return await self._call(
            self._db.find_latest_gateway_session_for_peer,
            source=source,
            user_id=user_id,
            session_key=session_key,
            chat_id=chat_id,
            chat_type=chat_type,
            thread_id=thread_id,
        )

    async def list_gateway_sessions(
        self, *, platform: str | None = None, active_only: bool = True
    ) -> list[RecentSession]:
        """See `SessionDB.list_gateway_sessions`."""
        return await self._call(
            self._db.list_gateway_sessions, platform=platform, active_only=active_only
        )

    async def find_session_by_origin(
        self,
        *,
        platform: str,
        chat_id: str | int,
        thread_id: str | None = None,
        user_id: str | None = None,
    ) -> str | None:
        """See `SessionDB.find_session_by_origin`."""
        return await self._call(
            self._db.find_session_by_origin,
            platform=platform,
            chat_id=chat_id,
            thread_id=thread_id,
            user_id=user_id,
        )

    async def set_expiry_finalized(self, session_id: str, finalized: bool = True) -> None:
        """See `SessionDB.set_expiry_finalized`."""
        await self._call(self._db.set_expiry_finalized, session_id, finalized)

    async def load_gateway_routing_entries(self, *, scope: str = "") -> dict[str, str]:
        """See `SessionDB.load_gateway_routing_entries`."""
        return await self._call(self._db.load_gateway_routing_entries, scope=scope)

    async def replace_gateway_routing_entries(
        self, entries: Mapping[str, str] | None, *, scope: str = ""
    ) -> None:
        """See `SessionDB.replace_gateway_routing_entries`."""
        await self._call(self._db.replace_gateway_routing_entries, entries, scope=scope)

    async def save_gateway_routing_entry(
        self, session_key: str, entry_json: str, *, scope: str = ""
    ) -> None:
        """See `SessionDB.save_gateway_routing_entry`."""
        await self._call(self._db.save_gateway_routing_entry, session_key, entry_json, scope=scope)

    async def delete_gateway_routing_entries(
        self, session_keys: Iterable[str], *, scope: str = ""
    ) -> None:
        """See `SessionDB.delete_gateway_routing_entries`."""
        await self._call(self._db.delete_gateway_routing_entries, session_keys, scope=scope)

    # ── topics of Telegram ────────────────────────────────────────────────────────────────────

    async def apply_telegram_topic_migration(self) -> None:
        """See `SessionDB.apply_telegram_topic_migration`."""
        await self._call(self._db.apply_telegram_topic_migration)

    async def enable_telegram_topic_mode(
        self,
        *,
        chat_id: str | int,
        user_id: str | int,
        has_topics_enabled: bool | None = None,
        allows_users_to_create_topics: bool | None = None,
    ) -> None:
        """See `SessionDB.enable_telegram_topic_mode`."""
        await self._call(
            self._db.enable_telegram_topic_mode,
            chat_id=chat_id,
            user_id=user_id,
            has_topics_enabled=has_topics_enabled,
            allows_users_to_create_topics=allows_users_to_create_topics,
        )

    async def disable_telegram_topic_mode(
        self, *, chat_id: str | int, clear_bindings: bool = True
    ) -> None:
        """See `SessionDB.disable_telegram_topic_mode`."""
        await self._call(
            self._db.disable_telegram_topic_mode, chat_id=chat_id, clear_bindings=clear_bindings
        )

    async def is_telegram_topic_mode_enabled(
        self, *, chat_id: str | int, user_id: str | int
    ) -> bool:
        """See `SessionDB.is_telegram_topic_mode_enabled`."""
        return await self._call(
            self._db.is_telegram_topic_mode_enabled, chat_id=chat_id, user_id=user_id
        )

    async def get_telegram_topic_binding(
        self, *, chat_id: str | int, thread_id: str | int
    ) -> TopicBinding | None:
        """See `SessionDB.get_telegram_topic_binding`."""
        return await self._call(
            self._db.get_telegram_topic_binding, chat_id=chat_id, thread_id=thread_id
        )

    async def get_telegram_topic_binding_by_session(
        self, *, session_id: str
    ) -> TopicBinding | None:
        """See `SessionDB.get_telegram_topic_binding_by_session`."""
        return await self._call(
            self._db.get_telegram_topic_binding_by_session, session_id=session_id
        )

    async def list_telegram_topic_bindings_for_chat(
        self, *, chat_id: str | int
    ) -> list[TopicBinding]:
        """See `SessionDB.list_telegram_topic_bindings_for_chat`."""
        return await self._call(self._db.list_telegram_topic_bindings_for_chat, chat_id=chat_id)

    async def bind_telegram_topic(
        self,
        *,
        chat_id: str | int,
        thread_id: str | int,
        user_id: str | int,
        session_key: str,
        session_id: str,
        managed_mode: str = "auto",
    ) -> None:
        """See `SessionDB.bind_telegram_topic`."""
        await self._call(
            self._db.bind_telegram_topic,
            chat_id=chat_id,
            thread_id=thread_id,
            user_id=user_id,
            session_key=session_key,
            session_id=session_id,
            managed_mode=managed_mode,
        )

    async def delete_telegram_topic_binding(
        self, *, chat_id: str | int, thread_id: str | int
    ) -> bool:
        """See `SessionDB.delete_telegram_topic_binding`."""
        return await self._call(
            self._db.delete_telegram_topic_binding, chat_id=chat_id, thread_id=thread_id
        )

    async def is_telegram_session_linked_to_topic(self, *, session_id: str) -> bool:
        """See `SessionDB.is_telegram_session_linked_to_topic`."""
        return await self._call(self._db.is_telegram_session_linked_to_topic, session_id=session_id)

    async def list_unlinked_telegram_sessions_for_user(
        self, *, chat_id: str | int, user_id: str | int, limit: int = 10
    ) -> list[SessionSummary]:
        """See `SessionDB.list_unlinked_telegram_sessions_for_user`."""
        return await self._call(
            self._db.list_unlinked_telegram_sessions_for_user,
            chat_id=chat_id,
            user_id=user_id,
            limit=limit,
        )

    # ── usage ─────────────────────────────────────────────────────────────────────────────────

    async def update_token_counts(
        self,
        session_id: str,
        input_tokens: int = 0,
        output_tokens: int = 0,
        model: str | None = None,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        reasoning_tokens: int = 0,
        estimated_cost_usd: float | None = None,
        actual_cost_usd: float | None = None,
        cost_status: str | None = None,
        cost_source: str | None = None,
        pricing_version: str | None = None,
        billing_provider: str | None = None,
        billing_base_url: str | None = None,
        billing_mode: str | None = None,
        api_call_count: int = 0,
        absolute: bool = False,
    ) -> None:
        """See `SessionDB.update_token_counts`."""
        await self._call(
            self._db.update_token_counts,
            session_id,
            input_tokens,
            output_tokens,
            model,
            cache_read_tokens,
            cache_write_tokens,
            reasoning_tokens,
            estimated_cost_usd,
            actual_cost_usd,
            cost_status,
            cost_source,
            pricing_version,
            billing_provider,
            billing_base_url,
            billing_mode,
            api_call_count,
            absolute,
        )

    async def record_auxiliary_usage(
        self,
        session_id: str,
        task: str,
        *,
        model: str | None = None,
        billing_provider: str | None = None,
        billing_base_url: str | None = None,
        billing_mode: str | None = None,
        estimated_cost_usd: float | None = None,
        actual_cost_usd: float | None = None,
        api_call_count: int = 1,
        create: bool = True,
        **tokens: int,
    ) -> None:
        """See `SessionDB.record_auxiliary_usage`."""
        await self._call(
            self._db.record_auxiliary_usage,
            session_id,
            task,
            model=model,
            billing_provider=billing_provider,
            billing_base_url=billing_base_url,
            billing_mode=billing_mode,
            estimated_cost_usd=estimated_cost_usd,
            actual_cost_usd=actual_cost_usd,
            api_call_count=api_call_count,
            create=create,
            **tokens,
        )

    async def get_model_usage(self, session_id: str) -> list[ModelUsage]:
        """See `SessionDB.get_model_usage`."""
        return await self._call(self._db.get_model_usage, session_id)

    # ── archive, trash, delete ────────────────────────────────────────────────────────────────

    async def set_session_archived(self, session_id: str, archived: bool = True) -> bool:
        """See `SessionDB.set_session_archived`."""
        return await self._call(self._db.set_session_archived, session_id, archived)

    async def set_session_pinned(self, session_id: str, pinned: bool = True) -> bool:
        """See `SessionDB.set_session_pinned`."""
        return await self._call(self._db.set_session_pinned, session_id, pinned)

    async def trash_sessions(self, session_ids: Iterable[str]) -> list[str]:
        """See `SessionDB.trash_sessions`."""
        return await self._call(self._db.trash_sessions, session_ids)

    async def restore_sessions(self, session_ids: Iterable[str]) -> list[str]:
        """See `SessionDB.restore_sessions`."""
        return await self._call(self._db.restore_sessions, session_ids)

    async def list_trash(self) -> list[TrashedSession]:
        """See `SessionDB.list_trash`."""
        return await self._call(self._db.list_trash)

    async def purge_trash(
        self, older_than_days: float = 0, sessions_dir: str | Path | None = None
    ) -> int:
        """See `SessionDB.purge_trash`."""
        return await self._call(self._db.purge_trash, older_than_days, sessions_dir)

    async def delete_session(self, session_id: str, sessions_dir: str | Path | None = None) -> bool:
        """See `SessionDB.delete_session`."""
        return await self._call(self._db.delete_session, session_id, sessions_dir)

    async def delete_sessions(
        self, session_ids: Iterable[str], sessions_dir: str | Path | None = None
    ) -> int:
        """See `SessionDB.delete_sessions`."""
        return await self._call(self._db.delete_sessions, session_ids, sessions_dir)

    async def list_prune_candidates(
        self,
        older_than_days: float | None = 90,
        source: str | None = None,
        *,
        tags: Sequence[str] = (),
        exclude_tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        workspace: str | None = None,
        **filters: Unpack[PruneFilters],
    ) -> list[SessionSummary]:
        """See `SessionDB.list_prune_candidates`."""
        return await self._call(
            self._db.list_prune_candidates,
            older_than_days,
            source,
            tags=tags,
            exclude_tags=exclude_tags,
            metadata=metadata,
            workspace=workspace,
            **filters,
        )

    async def prune_sessions(
        self,
        older_than_days: float | None = 90,
        source: str | None = None,
        sessions_dir: str | Path | None = None,
        *,
        tags: Sequence[str] = (),
        exclude_tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        workspace: str | None = None,
        on_progress: Callable[[int], None] | None = None,
        **filters: Unpack[PruneFilters],
    ) -> int:
        """See `SessionDB.prune_sessions`."""
        return await self._call(
            self._db.prune_sessions,
            older_than_days,
            source,
            sessions_dir,
            tags=tags,
            exclude_tags=exclude_tags,
            metadata=metadata,
            workspace=workspace,
            on_progress=on_progress,
            **filters,
        )

    async def archive_sessions(
        self,
        older_than_days: float | None = None,
        source: str | None = None,
        **filters: Unpack[PruneFilters],
    ) -> int:
        """See `SessionDB.archive_sessions`."""
        return await self._call(self._db.archive_sessions, older_than_days, source, **filters)

    async def prune_empty_ghost_sessions(self, sessions_dir: str | Path | None = None) -> int:
        """See `SessionDB.prune_empty_ghost_sessions`."""
        return await self._call(self._db.prune_empty_ghost_sessions, sessions_dir)

    async def delete_session_if_empty(
        self, session_id: str, sessions_dir: str | Path | None = None
    ) -> bool:
        """See `SessionDB.delete_session_if_empty`."""
        return await self._call(self._db.delete_session_if_empty, session_id, sessions_dir)

    async def count_empty_sessions(self) -> int:
        """See `SessionDB.count_empty_sessions`."""
        return await self._call(self._db.count_empty_sessions)

    async def delete_empty_sessions(self, sessions_dir: str | Path | None = None) -> int:
        """See `SessionDB.delete_empty_sessions`."""
        return await self._call(self._db.delete_empty_sessions, sessions_dir)

    # ── holds and retention ───────────────────────────────────────────────────────────────────

    async def hold_session(self, session_id: str, reason: str) -> bool:
        """See `SessionDB.hold_session`."""
        return await self._call(self._db.hold_session, session_id, reason)

    async def lift_hold(self, session_id: str) -> bool:
        """See `SessionDB.lift_hold`."""
        return await self._call(self._db.lift_hold, session_id)

    async def list_holds(self) -> list[HoldRecord]:
        """See `SessionDB.list_holds`."""
        return await self._call(self._db.list_holds)

    async def plan_retention(self, policies: RetentionPolicies | None = None) -> RetentionPlan:
        """See `SessionDB.plan_retention`."""
        return await self._call(self._db.plan_retention, policies)

    async def approve_retention(self, plan: RetentionPlan) -> RetentionApproval:
        """See `SessionDB.approve_retention`."""
        return await self._call(self._db.approve_retention, plan)

    async def run_retention(
        self,
        policies: RetentionPolicies | None = None,
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> RetentionResult:
        """See `SessionDB.run_retention`."""
        return await self._call(self._db.run_retention, policies, on_progress=on_progress)

    # ── export and import ─────────────────────────────────────────────────────────────────────

    async def export_session(self, session_id: str) -> ExportedSession | None:
        """See `SessionDB.export_session`."""
        return await self._call(self._db.export_session, session_id)

    async def export_session_lineage(self, session_id: str) -> list[ExportedSession]:
        """See `SessionDB.export_session_lineage`."""
        return await self._call(self._db.export_session_lineage, session_id)

    async def export_all(self, source: str | None = None) -> list[ExportedSession]:
        """See `SessionDB.export_all`."""
        return await self._call(self._db.export_all, source)

    def iter_export(
        self,
        source: str | None = None,
        *,
        since: float | None = None,
        until: float | None = None,
        title: str | None = None,
        tags: Sequence[str] = (),
        exclude_tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        workspace: str | None = None,
        scope: Scope = OWNER,
    ) -> AsyncGenerator[ExportedSession, None]:
        """See `SessionDB.iter_export`; leave it early inside ``contextlib.aclosing``."""
        return self._iterate(
            self._db.iter_export,
            source,
            since=since,
            until=until,
            title=title,
            tags=tags,
            exclude_tags=exclude_tags,
            metadata=metadata,
            workspace=workspace,
            scope=scope,
        )

    async def import_sessions(
        self, sessions: Iterable[Mapping[str, Any]], *, leave_out_invalid: bool = False
    ) -> ImportReport:
        """See `SessionDB.import_sessions`."""
        return await self._call(
            self._db.import_sessions, sessions, leave_out_invalid=leave_out_invalid
        )

    # ── search ────────────────────────────────────────────────────────────────────────────────

    async def search_messages(
        self,
        query: str | None,
        source_filter: Sequence[str] | None = None,
        exclude_sources: Sequence[str] | None = None,
        role_filter: Sequence[str] | None = None,
        limit: int = 20,
        offset: int = 0,
        *,
        sort: str | None = None,
        include_inactive: bool = False,
        conditions: SearchConditions | None = None,
        scope: Scope = OWNER,
    ) -> list[SearchHit]:
        """See `SessionDB.search_messages`."""
        return await self._call(
            self._db.search_messages,
            query,
            source_filter,
            exclude_sources,
            role_filter,
            limit,
            offset,
            sort=sort,
            include_inactive=include_inactive,
            conditions=conditions,
            scope=scope,
        )

    async def search(
        self,
        query: str,
        *,
        conditions: SearchConditions | None = None,
        limit: int = 20,
        sort: str | None = None,
        cursor: str | None = None,
        relax: bool = True,
        count: bool = True,
        scope: Scope = OWNER,
    ) -> SearchAnswer:
        """See `SessionDB.search`."""
        return await self._call(
            self._db.search,
            query,
            conditions=conditions,
            limit=limit,
            sort=sort,
            cursor=cursor,
            relax=relax,
            count=count,
            scope=scope,
        )

    async def search_index_status(self) -> IndexStatus:
        """See `SessionDB.search_index_status`."""
        return await self._call(self._db.search_index_status)

    async def optimize_search(
        self, *, rebuild: bool = False, on_progress: Callable[[int, int], None] | None = None
    ) -> OptimizeResult:
        """See `SessionDB.optimize_search`."""
        return await self._call(self._db.optimize_search, rebuild=rebuild, on_progress=on_progress)

    # ── attachments and blobs ─────────────────────────────────────────────────────────────────────

    async def list_attachments(
        self, session_id: str, *, scope: Scope = OWNER
    ) -> list[AttachmentRecord]:
        """See `SessionDB.list_attachments`."""
        return await self._call(self._db.list_attachments, session_id, scope=scope)

    async def get_attachment(self, attachment_id: str, *, scope: Scope = OWNER) -> Attachment:
        """See `SessionDB.get_attachment`."""
        return await self._call(self._db.get_attachment, attachment_id, scope=scope)

    async def put_blob(
        self, data: bytes | bytearray | memoryview, *, namespace: str | None = None, key: str = ""
    ) -> str:
        """See `SessionDB.put_blob`."""
        return await self._call(self._db.put_blob, data, namespace=namespace, key=key)

    async def get_blob(self, digest: str) -> bytes:
        """See `SessionDB.get_blob`."""
        return await self._call(self._db.get_blob, digest)

    def iter_blob(self, digest: str) -> AsyncGenerator[bytes, None]:
        """See `SessionDB.iter_blob`; leave it early inside ``contextlib.aclosing``."""
        return self._iterate(self._db.iter_blob, digest)

    async def get_blob_size(self, digest: str) -> int | None:
        """See `SessionDB.get_blob_size`."""
        return await self._call(self._db.get_blob_size, digest)

    async def add_blob_reference(self, digest: str, namespace: str, key: str = "") -> None:
        """See `SessionDB.add_blob_reference`."""
        await self._call(self._db.add_blob_reference, digest, namespace, key)

    async def remove_blob_references(self, namespace: str, key: str | None = None) -> int:
        """See `SessionDB.remove_blob_references`."""
        return await self._call(self._db.remove_blob_references, namespace, key)

    async def list_blob_references(
        self, namespace: str, key: str | None = None
    ) -> list[BlobReference]:
        """See `SessionDB.list_blob_references`."""
        return await self._call(self._db.list_blob_references, namespace, key)

    async def sweep_blobs(self) -> BlobSweep:
        """See `SessionDB.sweep_blobs`."""
        return await self._call(self._db.sweep_blobs)

    # ── state of frameworks ───────────────────────────────────────────────────────────────────

    async def get_state(self, scope: str, owner: str, name: str) -> StateDocument | None:
        """See `SessionDB.get_state`."""
        return await self._call(self._db.get_state, scope, owner, name)

    async def list_state(self, scope: str, owner: str, *, prefix: str = "") -> list[StateDocument]:
        """See `SessionDB.list_state`."""
        return await self._call(self._db.list_state, scope, owner, prefix=prefix)

    async def set_state(
        self,
        scope: str,
        owner: str,
        name: str,
        value: Any,
        *,
        expected_revision: int | None = None,
        fence: int | None = None,
    ) -> int:
        """See `SessionDB.set_state`."""
        return await self._call(
            self._db.set_state,
            scope,
            owner,
            name,
            value,
            expected_revision=expected_revision,
            fence=fence,
        )

    async def delete_state(
        self,
        scope: str,
        owner: str,
        name: str,
        *,
        expected_revision: int | None = None,
        fence: int | None = None,
    ) -> bool:
        """See `SessionDB.delete_state`."""
        return await self._call(
            self._db.delete_state,
            scope,
            owner,
            name,
            expected_revision=expected_revision,
            fence=fence,
        )

    # ── meta, locks, maintenance ──────────────────────────────────────────────────────────────

    async def get_meta(self, key: str) -> str | None:
        """See `SessionDB.get_meta`."""
        return await self._call(self._db.get_meta, key)

    async def set_meta(self, key: str, value: Any) -> None:
        """See `SessionDB.set_meta`."""
        await self._call(self._db.set_meta, key, value)

    async def try_acquire_compression_lock(
        self, session_id: str, holder: str, ttl_seconds: float = 300
    ) -> bool:
        """See `SessionDB.try_acquire_compression_lock`."""
        return await self._call(
            self._db.try_acquire_compression_lock, session_id, holder, ttl_seconds
        )

    async def refresh_compression_lock(
        self, session_id: str, holder: str, ttl_seconds: float = 300
    ) -> bool:
        """See `SessionDB.refresh_compression_lock`."""
        return await self._call(self._db.refresh_compression_lock, session_id, holder, ttl_seconds)

    async def release_compression_lock(self, session_id: str, holder: str) -> bool:
        """See `SessionDB.release_compression_lock`."""
        return await self._call(self._db.release_compression_lock, session_id, holder)

    async def get_compression_lock_holder(self, session_id: str) -> str | None:
        """See `SessionDB.get_compression_lock_holder`."""
        return await self._call(self._db.get_compression_lock_holder, session_id)

    async def get_compression_failure_cooldown(self, session_id: str) -> CompressionCooldown | None:
        """See `SessionDB.get_compression_failure_cooldown`."""
        return await self._call(self._db.get_compression_failure_cooldown, session_id)

    async def record_compression_failure_cooldown(
        self, session_id: str, cooldown_until: float, error: str | None = None
    ) -> None:
        """See `SessionDB.record_compression_failure_cooldown`."""
        await self._call(
            self._db.record_compression_failure_cooldown, session_id, cooldown_until, error
        )

    async def clear_compression_failure_cooldown(self, session_id: str) -> None:
        """See `SessionDB.clear_compression_failure_cooldown`."""
        await self._call(self._db.clear_compression_failure_cooldown, session_id)

    async def get_compression_fallback_streak(self, session_id: str) -> int:
        """See `SessionDB.get_compression_fallback_streak`."""
        return await self._call(self._db.get_compression_fallback_streak, session_id)

    async def set_compression_fallback_streak(self, session_id: str, streak: int) -> None:
        """See `SessionDB.set_compression_fallback_streak`."""
        await self._call(self._db.set_compression_fallback_streak, session_id, streak)

    async def vacuum(self) -> None:
        """See `SessionDB.vacuum`."""
        await self._call(self._db.vacuum)

    async def trim(self) -> int:
        """See `SessionDB.trim`."""
        return await self._call(self._db.trim)

    async def maybe_auto_prune_and_vacuum(
        self,
        retention_days: int = 90,
        min_interval_hours: int = 24,
        vacuum: bool = True,
        sessions_dir: str | Path | None = None,
        *,
        trash_days: float | None = None,
    ) -> MaintenanceReport:
        """See `SessionDB.maybe_auto_prune_and_vacuum`."""
        try:
            return await self._call(
                self._db.maybe_auto_prune_and_vacuum,
                retention_days,
                min_interval_hours,
                vacuum,
                sessions_dir,
                trash_days=trash_days,
            )
        except StoreClosed as error:
            return {"skipped": False, "pruned": 0, "vacuumed": False, "error": str(error)}

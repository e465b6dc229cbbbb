"""SessionDB: the public face of the store.

The documented verbs, each one line of delegation. Behaviour lives in ``repositories``. Every verb
is safe to call from any thread; every write is one transaction and durable when the call returns,
unless its docstring says otherwise. A write with *expected_revision* happens only if the session
still has the ``revision`` that `SessionDB.get_session` returned; else it raises `RevisionConflict`.
Sessions in the trash are hidden from every verb but those of the trash itself. To verbs that take a
*scope*, a session outside it does not exist.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, Unpack

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model import title as titles_model
from hermes_sessions.model.computed_once import computed_once
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.provider import OpenOptions, SessionDBProvider
from hermes_sessions.storage.store_context import (
    DEFAULT_ATTACHMENT_LIMITS,
    DEFAULT_MAX_MESSAGE_BYTES,
    DEFAULT_TRASH_DAYS,
    LEASE_SECONDS,
    AttachmentLimits,
    LazyRepository,
    StoreContext,
)

if TYPE_CHECKING:
    from datetime import tzinfo
    from os import PathLike
    from pathlib import Path

    from hermes_sessions.model.prune_filters import PruneFilters
    from hermes_sessions.model.retention import RetentionPolicies
    from hermes_sessions.storage.care.retention.enforcement import RetentionEnforcer
    from hermes_sessions.storage.care.retention.plan import (
        RetentionApproval,
        RetentionPlan,
        RetentionResult,
    )
    from hermes_sessions.storage.provider_registry import OpenedProvider
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
    from hermes_sessions.storage.repositories.attachments import Attachments
    from hermes_sessions.storage.repositories.blobs import Blobs
    from hermes_sessions.storage.repositories.compaction import (
        CompressionLocks,
        Continuations,
        InPlaceCompaction,
    )
    from hermes_sessions.storage.repositories.compression_state import CompressionState
    from hermes_sessions.storage.repositories.deletion import Deletion
    from hermes_sessions.storage.repositories.empty_sessions import EmptySessions
    from hermes_sessions.storage.repositories.export_import import ExportImport
    from hermes_sessions.storage.repositories.gateway_routing import GatewayRouting
    from hermes_sessions.storage.repositories.handoffs import Handoffs
    from hermes_sessions.storage.repositories.holds import Holds
    from hermes_sessions.storage.repositories.insights import Insights
    from hermes_sessions.storage.repositories.label_conditions import LabelFilter
    from hermes_sessions.storage.repositories.labels import Labels
    from hermes_sessions.storage.repositories.leases import HeldBy, Holder, Lease, Leases
    from hermes_sessions.storage.repositories.lineage import Lineage
    from hermes_sessions.storage.repositories.messages import Messages
    from hermes_sessions.storage.repositories.messenger_peers import MessengerPeers
    from hermes_sessions.storage.repositories.meta import Meta
    from hermes_sessions.storage.repositories.rewinds import Rewinds
    from hermes_sessions.storage.repositories.search import Search
    from hermes_sessions.storage.repositories.session_directories import SessionDirectories
    from hermes_sessions.storage.repositories.session_lists import SessionLists
    from hermes_sessions.storage.repositories.sessions import Sessions
    from hermes_sessions.storage.repositories.sizes import Sizes
    from hermes_sessions.storage.repositories.state_documents import StateDocuments
    from hermes_sessions.storage.repositories.titles import Titles
    from hermes_sessions.storage.repositories.topics import Topics
    from hermes_sessions.storage.repositories.transcript_tail import TranscriptTail
    from hermes_sessions.storage.repositories.transcripts import MessageWindows, TranscriptReplay
    from hermes_sessions.storage.repositories.trash import Trash
    from hermes_sessions.storage.repositories.usage import Usage
    from hermes_sessions.storage.repositories.workspaces import Workspaces
    from hermes_sessions.storage.search.answer import SearchAnswer
    from hermes_sessions.text.query.filters import SearchConditions


def _require_limit(size: object) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InvalidInput(
            f"max_message_bytes is {size!r}. Give a number of bytes above 0, such as 8388608."
        )


class SessionDB:
    """Every session and message, stored durably."""

    MAX_TITLE_LENGTH: ClassVar[int] = titles_model.MAX_TITLE_LENGTH

    _sessions: LazyRepository[Sessions] = LazyRepository("sessions", "Sessions")
    _transcript_replay: LazyRepository[TranscriptReplay] = LazyRepository(
        "transcripts", "TranscriptReplay"
    )
    _message_windows: LazyRepository[MessageWindows] = LazyRepository(
        "transcripts", "MessageWindows"
    )
    _titles: LazyRepository[Titles] = LazyRepository("titles", "Titles")
    _workspaces: LazyRepository[Workspaces] = LazyRepository("workspaces", "Workspaces")
    _labels: LazyRepository[Labels] = LazyRepository("labels", "Labels")
    _lineage: LazyRepository[Lineage] = LazyRepository("lineage", "Lineage")
    _session_lists: LazyRepository[SessionLists] = LazyRepository("session_lists", "SessionLists")
    _insights: LazyRepository[Insights] = LazyRepository("insights", "Insights")
    _sizes: LazyRepository[Sizes] = LazyRepository("sizes", "Sizes")
    _usage: LazyRepository[Usage] = LazyRepository("usage", "Usage")
    _rewinds: LazyRepository[Rewinds] = LazyRepository("rewinds", "Rewinds")
    _deletion: LazyRepository[Deletion] = LazyRepository("deletion", "Deletion")
    _trash: LazyRepository[Trash] = LazyRepository("trash", "Trash")
    _holds: LazyRepository[Holds] = LazyRepository("holds", "Holds")
    _compression_locks: LazyRepository[CompressionLocks] = LazyRepository(
        "compaction", "CompressionLocks"
    )
    _compression_state: LazyRepository[CompressionState] = LazyRepository(
        "compression_state", "CompressionState"
    )
    _empty_sessions: LazyRepository[EmptySessions] = LazyRepository(
        "empty_sessions", "EmptySessions"
    )
    _directories: LazyRepository[SessionDirectories] = LazyRepository(
        "session_directories", "SessionDirectories"
    )
    _peers: LazyRepository[MessengerPeers] = LazyRepository("messenger_peers", "MessengerPeers")
    _routing: LazyRepository[GatewayRouting] = LazyRepository("gateway_routing", "GatewayRouting")
    _handoffs: LazyRepository[Handoffs] = LazyRepository("handoffs", "Handoffs")
    _leases: LazyRepository[Leases] = LazyRepository("leases", "Leases")
    _topics: LazyRepository[Topics] = LazyRepository("topics", "Topics")
    _attachments: LazyRepository[Attachments] = LazyRepository("attachments", "Attachments")
    _blobs: LazyRepository[Blobs] = LazyRepository("blobs", "Blobs")
    _state_documents: LazyRepository[StateDocuments] = LazyRepository(
        "state_documents", "StateDocuments"
    )
    _meta: LazyRepository[Meta] = LazyRepository("meta", "Meta")
    _export_import: LazyRepository[ExportImport] = LazyRepository("export_import", "ExportImport")

    def __init__(
        self,
        db_path: str | Path | None = None,
        *,
        provider: SessionDBProvider | None = None,
        read_only: bool = False,
        durability: Literal["full", "normal"] | None = None,
        lock_timeout: float | None = None,
        max_message_bytes: int | None = None,
        attachments: AttachmentLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open a store.

        Args:
            db_path: a SQLite file, created with its directories when missing, or ``:memory:``.
                Without it, and without *provider*, the configured store is opened.
            provider: a database that is already configured.
            read_only: refuse writes.
            durability: ``full`` (default): acknowledged writes survive power loss;
                ``normal``: they survive the death of the process.
            lock_timeout: seconds to wait for other writers (default 16).
            max_message_bytes: limit of one message without its attachments (default 8 MiB).
            attachments: from which size on base64 is stored as an attachment (default 16 KiB), and
                the limit of one (default 64 MiB).
            clock: seconds since the epoch.

        Raises:
            StoreError: a subclass says why the store cannot be used and what to do.
            ConfigError: config.yaml is wrong (only when the configured store is opened).
        """
        from hermes_sessions.storage.missing_columns import reading_older
        from hermes_sessions.storage.search.background_indexer import BackgroundIndexer

        if max_message_bytes is not None:
            _require_limit(max_message_bytes)
        trash_days = find_retention = None
        synonyms: tuple[str, ...] = ()
        if provider is None:
            opened = self._open(db_path, OpenOptions(read_only, durability, lock_timeout))
            provider, configured_limit, trash_days, find_retention, limits, synonyms = opened
            max_message_bytes = max_message_bytes or configured_limit
            attachments = attachments or limits
        self._provider = provider
        self._store = StoreContext(
            provider=reading_older(provider),
            clock=clock,
            max_message_bytes=max_message_bytes or DEFAULT_MAX_MESSAGE_BYTES,
            attachments=attachments or DEFAULT_ATTACHMENT_LIMITS,
            synonyms=synonyms,
            trash_days=DEFAULT_TRASH_DAYS if trash_days is None else trash_days,
            find_retention=find_retention,
        )
        self._background_indexer = BackgroundIndexer(self._index_what_waits)

    def _open(self, db_path: str | Path | None, options: OpenOptions) -> OpenedProvider:
        from hermes_sessions.storage.provider_registry import open_provider

        return open_provider(db_path, options)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        read_only: bool = False,
        durability: Literal["full", "normal"] | None = None,
        lock_timeout: float | None = None,
        **options: Any,
    ) -> Self:
        """Open the store that *url* names: ``sqlite:///state.db``, ``postgresql://user@host/db``,
        ``mysql://user@host/db``, or that of a provider an installed package brings.

        *options* are those of the constructor.

        Raises:
            InvalidInput: no provider supports the URL.
            StoreError: the store cannot be opened.
        """
        from hermes_sessions.storage.provider_registry import open_url

        provider = open_url(url, OpenOptions(read_only, durability, lock_timeout))
        try:
            return cls(provider=provider, **options)
        except BaseException:
            provider.close()
            raise

    @computed_once
    def _messages(self) -> Messages:
        from hermes_sessions.storage.repositories.messages import Messages

        return Messages(self._store, on_change=self._noticed)

    @computed_once
    def _transcript_tail(self) -> TranscriptTail:
        from hermes_sessions.storage.repositories.transcript_tail import TranscriptTail

        return TranscriptTail(self._store, on_change=self._noticed)

    @computed_once
    def _continuations(self) -> Continuations:
        from hermes_sessions.storage.repositories.compaction import Continuations

        return Continuations(self._store, on_change=self._noticed)

    @computed_once
    def _compaction(self) -> InPlaceCompaction:
        from hermes_sessions.storage.repositories.compaction import InPlaceCompaction

        return InPlaceCompaction(self._store, on_change=self._noticed)

    @computed_once
    def _search(self) -> Search:
        from hermes_sessions.storage.repositories.search import Search

        return Search(self._store, on_backlog=self._noticed)

    @computed_once
    def _retention_care(self) -> RetentionEnforcer:
        from hermes_sessions.storage.care.retention.enforcement import RetentionEnforcer

        return RetentionEnforcer(self._store)

    # ── the store itself ──────────────────────────────────────────────────────────────────────

    @property
    def provider(self) -> SessionDBProvider:
        """The database behind this store."""
        return self._provider

    @property
    def store(self) -> StoreContext:
        """Provider, clock and limits, for the layers of this package above storage."""
        return self._store

    def describe(self) -> dict[str, Any]:
        """Return where the store is and how it is set up; never a secret."""
        return self._provider.describe()

    def close(self) -> None:
        """Release this handle. A second call does nothing; any other verb then raises
        `StoreClosed`.
        """
        # Other processes that are writing would wait for this index work, so they do the rest.
        has_work = self._background_indexer.stop(self._provider.closing_seconds)
        if has_work and not self._provider.others_are_writing():
            self._search.finish()
        self._provider.close()

    def _label_filter(
        self,
        tags: Sequence[str],
        exclude_tags: Sequence[str],
        metadata: Mapping[str, Any] | None,
        workspace: str | None,
        scope: Scope = OWNER,
    ) -> LabelFilter | None:
        if not (tags or exclude_tags or metadata or workspace):
            return None
        from hermes_sessions.storage.repositories.label_conditions import LabelFilter

        ids = self._workspaces.ids_of(workspace, scope) if workspace else None
        return LabelFilter(tags, exclude_tags, metadata, ids)

    def _noticed(self, messages: int) -> None:
        if messages:
            self._background_indexer.notify(messages)

    def _index_what_waits(self, is_unwanted: Callable[[], bool]) -> None:
        self._search.catch_up(is_unwanted)

    def __enter__(self) -> SessionDB:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    # ── sessions ──────────────────────────────────────────────────────────────────────────────

    def create_session(
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
        """Create a session if its id is new and return the id; without an id, make a new one.

        An existing session keeps its values; those it lacks (model, configuration, prompt, user,
        parent, chat, profile, metadata, tags, directory) are filled in. *edge_kind* (compression,
        branch, subagent, handoff) says why there is a parent; unstated, it follows from how the
        parent ended. Without *user_id*, a compression, branch or subagent from its parent's source
        gets its parent's user. A continuation by compression without *metadata* or *tags* gets its
        parent's. *cwd* is the directory that the session works in: it decides the workspace, and
        git tells branch and repository; without it, a child works where its parent does. Only the
        holder of a conversation can create its continuation by compression, which the same lease
        then covers: *fence* is the holder's token.

        Raises:
            InvalidInput: the id, source, edge kind, metadata or a tag cannot be used, or the id is
                in the trash.
            UnknownSession: the parent does not exist.
            StaleFence, ConversationHeld: it would continue a conversation that others hold.
        """
        return self._sessions.create(
            session_id,
            source,
            model=model,
            model_config=model_config,
            system_prompt=system_prompt,
            user_id=user_id,
            parent_session_id=parent_session_id,
            edge_kind=edge_kind,
            started_at=started_at,
            metadata=metadata,
            tags=tags,
            cwd=cwd,
            fence=fence,
            session_key=session_key,
            chat_id=chat_id,
            chat_type=chat_type,
            thread_id=thread_id,
            profile_name=profile_name,
        )

    def ensure_session(
        self, session_id: str, source: str = "unknown", model: str | None = None, **kwargs: Any
    ) -> str:
        """Create a session if its id is new, as `create_session` does; return the id."""
        return self.create_session(session_id, source, model=model, **kwargs)

    def get_session(self, session_id: str, *, scope: Scope = OWNER) -> SessionRecord | None:
        """Return all columns of a session, or None. ``model_config`` stays JSON text."""
        return self._sessions.find(session_id, scope)

    def end_session(self, session_id: str, end_reason: str) -> None:
        """Mark a session as ended; the first reason and time win."""
        self._sessions.end(session_id, end_reason)

    def reopen_session(self, session_id: str) -> None:
        """Clear the end of a session."""
        self._sessions.reopen(session_id)

    def promote_to_session_reset(self, session_id: str, reason: str | None = None) -> bool:
        """Turn an accidental end (agent_close, ws_orphan_reap) into ``session_reset``, or into
        *reason*, with which an open session ends, too; return whether that was done.
        """
        return self._sessions.promote_to_session_reset(session_id, reason)

    def update_system_prompt(self, session_id: str, system_prompt: str | None) -> None:
        """Overwrite the stored prompt; it reads back byte for byte."""
        self._sessions.set_columns(session_id, system_prompt=system_prompt)

    def update_session_model(self, session_id: str, model: str | None) -> None:
        """Overwrite the model of a session."""
        self._sessions.set_columns(session_id, model=model)

    def update_session_meta(
        self, session_id: str, model_config_json: str | None, model: str | None = None
    ) -> None:
        """Replace the model's configuration, given as JSON text, which is stored as it is; and the
        model, if there is one.
        """
        self._sessions.set_config(session_id, model_config_json, model)

    def update_session_cwd(
        self,
        session_id: str,
        cwd: str,
        git_branch: str | None = None,
        git_repo_root: str | None = None,
    ) -> None:
        """Record that a session works in another directory, which decides its workspace. Git tells
        the branch and the root of the repository, unless they are given. No-op without *cwd*.
        """
        self._directories.update(session_id, cwd, git_branch, git_repo_root)

    def distinct_session_cwds(self, include_archived: bool = False) -> list[DirectoryUse]:
        """Return the directories that sessions work in, each with the number of ``sessions`` and
        when the newest of them ended or, if it is open, started (``last_active``).
        """
        return self._directories.in_use(include_archived=include_archived)

    def backfill_repo_roots(self, cwd_to_root: Mapping[str, str]) -> None:
        """Record the root of the repository around each directory for the sessions that work there
        and have none.
        """
        self._directories.fill_repository_roots(cwd_to_root)

    def update_session_billing_route(
        self,
        session_id: str,
        *,
        provider: str | None,
        base_url: str | None,
        billing_mode: str | None = None,
    ) -> None:
        """Replace the provider that bills the session and its URL, and the mode, if there is one.
        The stored prompt, which belongs to the former model, is removed.
        """
        self._sessions.set_billing_route(session_id, provider, base_url, billing_mode)

    def resolve_session_id(self, session_id_or_prefix: str) -> str | None:
        """Return the session with this id, or the only one whose id starts with it (ASCII case
        ignored); None when there is none or more than one.
        """
        return self._sessions.resolve_prefix(session_id_or_prefix)

    def find_session_ids(self, prefix: str, limit: int = 20) -> list[str]:
        """Return ids that start with *prefix* (ASCII case ignored), newest activity first."""
        return self._sessions.ids_with_prefix(prefix, limit)

    # ── titles ────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def sanitize_title(title: str | None) -> str | None:
        """Return a title as it would be stored, None when nothing visible is left; see
        `hermes_sessions.model.title.sanitize_title`.
        """
        return titles_model.sanitize_title(title)

    def set_session_title(
        self, session_id: str, title: str | None, *, expected_revision: int | None = None
    ) -> bool:
        """Set the title, or clear it with a blank one; return whether the session exists.

        A title held by an earlier session of the same compression chain moves to this one.

        Raises:
            TitleTaken, InvalidTitle: both are ValueErrors; nothing was written.
            RevisionConflict: the session is not at *expected_revision*.
        """
        return self._titles.set(session_id, title, expected_revision=expected_revision)

    def set_auto_title_if_empty(self, session_id: str, title: str) -> bool:
        """Set a generated title unless the session has one; a taken title gets the next number.
        Return whether it was set.
        """
        return self._titles.set_if_empty(session_id, title, numbered=True)

    def get_session_title(self, session_id: str) -> str | None:
        """Return the title; None for an untitled or unknown session."""
        return self._titles.find(session_id)

    def get_session_by_title(self, title: str) -> SessionRecord | None:
        """Return the session with exactly this title, or None."""
        return self._titles.find_session(title)

    def find_session_titles(self, prefix: str, limit: int = 20) -> list[tuple[str, str]]:
        """Return titles that start with *prefix* (ASCII case ignored), each with its session's id,
        newest activity first.
        """
        return self._titles.with_prefix(prefix, limit)

    def resolve_session_by_title(self, title: str) -> str | None:
        """Return the most recently active session among *title* and ``title #<number>``."""
        return self._titles.resolve(title)

    def get_next_title_in_lineage(self, base_title: str) -> str:
        """Return the next free title of the numbered family; see
        `hermes_sessions.model.title.next_in_family`.
        """
        return self._titles.next_in_family(base_title)

    # ── tags and metadata ─────────────────────────────────────────────────────────────────────

    def add_tags(self, session_id: str, tags: Iterable[str]) -> list[str]:
        """Add tags to a session and to the rest of its compression chain; return all its tags.

        A tag is trimmed and its case is folded; it has at most 64 characters.

        Raises:
            UnknownSession: there is no such session.
            InvalidInput: a tag is not valid, or the session would have more than 100.
        """
        return self._labels.add_tags(session_id, tags)

    def remove_tags(self, session_id: str, tags: Iterable[str]) -> list[str]:
        """Remove tags from a session, like `add_tags`; return those that remain. A tag that the
        session does not have is ignored.
        """
        return self._labels.remove_tags(session_id, tags)

    def set_tags(
        self, session_id: str, tags: Iterable[str], *, expected_revision: int | None = None
    ) -> list[str]:
        """Replace all tags of a session, like `add_tags`; return them, sorted.

        Raises:
            RevisionConflict: the session is not at *expected_revision*.
        """
        return self._labels.set_tags(session_id, tags, expected_revision=expected_revision)

    def list_tags(self, *, scope: Scope = OWNER) -> dict[str, int]:
        """Return each tag and how many sessions have it, the most frequent first."""
        return self._labels.count_tags(scope)

    def get_metadata(self, session_id: str, *, scope: Scope = OWNER) -> Metadata:
        """Return the metadata of a session; {} without any and for an unknown id."""
        return self._labels.metadata(session_id, scope)

    def set_metadata(
        self,
        session_id: str,
        metadata: Mapping[str, Any],
        *,
        expected_revision: int | None = None,
    ) -> Metadata:
        """Replace the metadata of a session and of the rest of its compression chain; return it.

        Raises:
            UnknownSession: there is no such session.
            InvalidInput: it is not a JSON object, or is larger than 64 KiB.
            RevisionConflict: the session is not at *expected_revision*.
        """
        return self._labels.set_metadata(session_id, metadata, expected_revision=expected_revision)

    def update_metadata(
        self,
        session_id: str,
        changes: Mapping[str, Any],
        *,
        expected_revision: int | None = None,
    ) -> Metadata:
        """Overwrite the keys of *changes* in the metadata of a session, like `set_metadata`, and
        keep the others; return all of it. The value None removes a key.
        """
        return self._labels.update_metadata(
            session_id, changes, expected_revision=expected_revision
        )

    # ── workspaces ────────────────────────────────────────────────────────────────────────────

    def list_workspaces(self, *, scope: Scope = OWNER) -> list[WorkspaceRecord]:
        """Return the projects that sessions belong to, newest activity first. Those that were
        merged are in ``merged`` of the workspace that they are part of.
        """
        return self._workspaces.in_use(scope)

    def find_workspaces(self, reference: str, *, scope: Scope = OWNER) -> list[WorkspaceRecord]:
        """Return the workspaces with this id or name, case ignored."""
        return self._workspaces.find(reference, scope)

    def get_workspace_at(self, directory: str | PathLike[str]) -> WorkspaceRecord | None:
        """Return the workspace of a directory, or None if no session was created there."""
        return self._workspaces.at(directory)

    def get_workspace_names(self) -> dict[str, str]:
        """Return the name of each workspace by its id, for the ``workspace_id`` of sessions; the
        ids of merged ones have the name of the workspace that they are part of.
        """
        return self._workspaces.names()

    def rename_workspace(self, workspace_id: str, name: str) -> None:
        """Give a workspace another name. Names need not be unique.

        Raises:
            NotFound: there is no such workspace.
            InvalidInput: the name is blank, longer than 100 characters, or has control characters;
                or the workspace was merged into another one.
        """
        self._workspaces.rename(workspace_id, name)

    def move_workspace(self, workspace_id: str, directory: str | PathLike[str]) -> None:
        """Say where a project is now, if its directory was moved and it has no repository, or
        another remote. Its sessions stay in it.

        Raises:
            NotFound: there is no such workspace.
            InvalidInput: the directory belongs to another workspace: merge the two.
        """
        self._workspaces.move(workspace_id, directory)

    def merge_workspaces(self, workspace_id: str, into: str) -> None:
        """Make a workspace, and those merged into it, part of another one. Lists and searches of
        the other one show its sessions, which are not changed: `separate_workspaces` undoes it.

        Raises:
            NotFound, InvalidInput: one is missing, merged already, or both are the same.
        """
        self._workspaces.merge(workspace_id, into)

    def separate_workspaces(self, workspace_id: str) -> int:
        """Undo every merge into a workspace; return how many are workspaces of their own again.

        Raises:
            NotFound: there is no such workspace.
        """
        return self._workspaces.separate(workspace_id)

    # ── lineage ───────────────────────────────────────────────────────────────────────────────

    def get_compression_tip(self, session_id: str) -> str:
        """Return the session that continues this one now; itself when nothing does."""
        return self._lineage.tip_of(session_id)

    def resolve_resume_session_id(self, session_id: str) -> str:
        """Return the session to load when this one is resumed: the tip of its chain, or, when it
        is empty, the nearest descendant with messages.
        """
        return self._lineage.resume_target(session_id)

    def get_conversation_root(self, session_id: str) -> str:
        """Return the id of the conversation, which is its first session's and never changes."""
        return self._lineage.conversation_of(session_id)

    def list_conversation(self, session_id: str, *, scope: Scope = OWNER) -> list[SessionRecord]:
        """Return every session of the conversation this one belongs to, oldest first."""
        return self._lineage.family_of(session_id, scope)

    def get_compression_lineage(self, session_id: str) -> list[str]:
        """Return the ids of the compression chain this session is part of, oldest first."""
        return self._lineage.chain_of(session_id)

    def continue_session(
        self,
        session_id: str,
        new_session_id: str,
        messages: Iterable[Mapping[str, Any]] = (),
        *,
        system_prompt: str | None = None,
        fence: int | None = None,
        expected_revision: int | None = None,
    ) -> str:
        """Continue a session under a new id, with *messages* instead of its own, and return that
        id; all of it happens or nothing.

        The new session has its source, user, model and prompt (unless one is given), the next
        number of its title, and the edge kind ``compression``. The old one ends with the reason
        ``compression``; its messages stay as they are, and are found. A lease holds both.

        Raises:
            UnknownSession: there is no such session.
            InvalidInput: it is continued already, or the new id or a message cannot be used.
            StaleFence, ConversationHeld: *fence* is not the token that holds the conversation.
            RevisionConflict: the session is not at *expected_revision*.
        """
        return self._continuations.start(
            session_id,
            new_session_id,
            messages,
            system_prompt=system_prompt,
            fence=fence,
            expected_revision=expected_revision,
        )

    def finalize_orphaned_compression_sessions(self) -> int:
        """End continuations of a week or older that never reached a model; return how many."""
        return self._lineage.finalize_orphans()

    # ── listing ───────────────────────────────────────────────────────────────────────────────

    def list_sessions_rich(
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
        """Return sessions with ``preview`` and ``last_active``, newest activity first.

        One row per conversation thread: a compression chain is shown with its head's identity and
        its tip's state (then ``_lineage_root_id`` is the head's id), subagents are hidden,
        branches are shown. *limit* -1 means all. *since* and *until* bound the last activity.
        *cwd_prefix* is the working directory or one above it. *id_query* is part of an id of the
        thread; *search_query*, of an id or a title, whose punctuation may be left out; the case of
        ASCII letters is ignored. *compact_rows* leaves the system prompt out. Listed sessions have
        all *tags*, none of the *exclude_tags*, all values of *metadata*, and belong to the
        *workspace* with this id or name.
        """
        from hermes_sessions.storage.repositories.session_lists import ListFilters

        return self._session_lists.rich(
            ListFilters(
                source=source,
                exclude_sources=exclude_sources,
                include_archived=include_archived,
                archived_only=archived_only,
                pinned_only=pinned_only,
                min_message_count=min_message_count,
                since=since,
                until=until,
                cwd_prefix=cwd_prefix,
                id_query=id_query,
                search_query=search_query,
                labels=self._label_filter(tags, exclude_tags, metadata, workspace, scope),
                scope=scope,
            ),
            limit=limit,
            offset=offset,
            include_children=include_children,
            project_tips=project_compression_tips,
            by_activity=order_by_last_active,
            compact=compact_rows,
        )

    def search_sessions_by_id(
        self,
        query: str | None,
        limit: int = 20,
        include_archived: bool = True,
        *,
        scope: Scope = OWNER,
    ) -> list[SessionListing]:
        """Return the rows of `list_sessions_rich` with *query* in an id of their thread, ASCII case
        ignored: an equal id first, then ids that begin with it, each by activity.
        """
        return self._session_lists.by_id(query, limit, scope, include_archived=include_archived)

    def list_cron_job_runs(
        self, job_id: str, limit: int = 20, offset: int = 0
    ) -> list[SessionSummary]:
        """Return the sessions that a cron job ran in, archived ones too, newest start first."""
        return self._session_lists.cron_runs(job_id, limit, offset)

    def search_sessions(
        self, source: str | None = None, limit: int = 20, offset: int = 0
    ) -> list[RecentSession]:
        """Return sessions, children included, with ``last_active``, newest activity first."""
        return self._session_lists.flat(source, limit, offset)

    def session_count(
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
        """Return how many sessions there are, children included; with *exclude_children*, how many
        rows `list_sessions_rich` has. The other filters are as there.
        """
        from hermes_sessions.storage.repositories.session_lists import ListFilters

        return self._session_lists.count(
            ListFilters(
                source=source,
                exclude_sources=exclude_sources,
                include_archived=include_archived,
                archived_only=archived_only,
                min_message_count=min_message_count,
                cwd_prefix=cwd_prefix,
            ),
            exclude_children=exclude_children,
        )

    def message_count(
        self, session_id: str | None = None, *, include_inactive: bool = False
    ) -> int:
        """Return how many messages a session, or the whole store, has; those that were rewound or
        replaced by a summary only with *include_inactive*.
        """
        return self._session_lists.message_count(session_id, include_inactive=include_inactive)

    def get_stats(self) -> StoreStats:
        """Return totals for people: sessions and messages, by source, archived, in the trash,
        and the size of the store in bytes.
        """
        return self._session_lists.stats()

    def get_sizes(self) -> StoreSizes:
        """Return what takes up space: ``size_bytes`` of the store, ``text_bytes`` of all messages,
        how much of that subagents, archived sessions and the trash hold, and bytes by ``sources``
        and ``roles``, largest first; the trash is not in the last two. Looks at every message.
        """
        return self._sizes.by_class()

    def get_space(self, *, within: float | None = None) -> SpaceReport:
        """Return what takes up space: ``classes`` (human, cron, subagent, api) and ``sources``,
        each with ``sessions``, ``messages`` and ``text_bytes``, the trash included; ``tables`` and
        ``indexes`` in bytes, largest first, ``free_bytes`` that can be used again and
        ``log_bytes``, as far as the database tells, and whether these are ``estimated``.

        Measures the whole store, or *within* that number of seconds as much as there is time for.
        Then a large SQLite file is measured by its map of pages, without what is still in the log
        (``estimated``); ``uncounted_bytes`` are in use but were not measured, and ``text_bytes``
        are those of the newest ``text_messages``, unless ``text_complete``.
        ``complete`` says that there was time for everything.
        """
        return self._sizes.space(within)

    def measure_sessions(self, session_ids: Iterable[str]) -> dict[str, int]:
        """Return the bytes of text that each session holds, those in the trash included; 0 for an
        unknown id.
        """
        return self._sizes.of_sessions(session_ids)

    def get_insights(
        self,
        days: float = 30,
        source: str | None = None,
        *,
        zone: tzinfo | None = None,
        scope: Scope = OWNER,
    ) -> InsightsReport:
        """Return how the store was used by sessions that started in the last *days*, 0 for all:
        ``overview``, ``models``, ``tools``, ``platforms``, ``activity`` by hour and weekday,
        ``over_time`` by day, and ``top_sessions``.

        Hours and days are in the time zone *zone*, by default the machine's. An unknown cost is
        None; ``cost_complete`` is False if a sum lacks some. Archived sessions, subagents and side
        calls count; the trash does not.

        Raises:
            InvalidInput: *days* is not a number of 0 or more.
        """
        return self._insights.report(days, source, zone, scope)

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    def append_message(
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
        """Store one message at the end of a session and return its id.

        With *external_id*, the caller's own id of the message, a second append returns the id of
        the first and changes nothing. *platform_message_id* is its id on a messenger, *observed*
        says that the agent was not addressed, *effect_disposition* what became of a tool's effect,
        and *api_content* is the text that was sent to the model, where it differs. *payload* is any
        JSON value, such as the object of an agent framework, and reads back deep-equal; the other
        fields say what of it is shown, searched and replayed. Exports for reading do not show a
        payload with *payload_private*.

        Raises:
            UnknownSession: create the session first.
            MessageTooLarge, InvalidInput: nothing was written.
            StaleFence: *fence* is not the token that holds the conversation.
            ConversationHeld: *fence* is None, and another holder has a lease on the conversation.
            RevisionConflict: the session is not at *expected_revision*.
        """
        return self._messages.append(
            session_id,
            {
                "role": role,
                "content": content,
                "tool_name": tool_name,
                "tool_calls": tool_calls,
                "tool_call_id": tool_call_id,
                "token_count": token_count,
                "finish_reason": finish_reason,
                "reasoning": reasoning,
                "reasoning_content": reasoning_content,
                "reasoning_details": reasoning_details,
                "codex_reasoning_items": codex_reasoning_items,
                "codex_message_items": codex_message_items,
                "timestamp": timestamp,
                "external_id": external_id,
                "platform_message_id": platform_message_id,
                "observed": observed,
                "effect_disposition": effect_disposition,
                "api_content": api_content,
                "payload": payload,
                "payload_private": payload_private,
            },
            fence=fence,
            expected_revision=expected_revision,
        )

    def append_messages(
        self,
        session_id: str,
        messages: Iterable[Mapping[str, Any]],
        *,
        fence: int | None = None,
        expected_revision: int | None = None,
    ) -> list[int]:
        """Store several messages in one transaction and return their ids, in order.

        Each is a mapping with the parameters of `append_message`; all are stored or none.
        """
        return self._messages.append_many(
            session_id, messages, fence=fence, expected_revision=expected_revision
        )

    def replace_messages(
        self,
        session_id: str,
        messages: Iterable[Mapping[str, Any]],
        *,
        active_only: bool = False,
        fence: int | None = None,
        expected_revision: int | None = None,
    ) -> None:
        """Replace the whole transcript, in one transaction; the old one survives any error. With
        *active_only*, messages that were rewound or replaced by a summary stay.

        Raises:
            StaleFence, ConversationHeld: *fence* is not the token that holds the conversation.
            RevisionConflict: the session is not at *expected_revision*.
        """
        self._messages.replace(
            session_id,
            messages,
            active_only=active_only,
            fence=fence,
            expected_revision=expected_revision,
        )

    def archive_and_compact(
        self,
        session_id: str,
        compacted_messages: Iterable[Mapping[str, Any]],
        *,
        fence: int | None = None,
        expected_revision: int | None = None,
    ) -> int:
        """Replace the transcript in force by a shorter one, in one transaction; return its length.

        The former messages stay, marked as compacted: search finds them, replay leaves them out.
        `continue_session` does the same under a new id.

        Raises:
            UnknownSession: there is no such session, and there are messages.
            StaleFence, ConversationHeld: *fence* is not the token that holds the conversation.
            RevisionConflict: the session is not at *expected_revision*.
        """
        return self._compaction.compact(
            session_id, compacted_messages, fence=fence, expected_revision=expected_revision
        )

    def has_archived_messages(self, session_id: str) -> bool:
        """Return whether a session has messages that were rewound or replaced by a summary."""
        return self._compaction.has_archived(session_id)

    def set_latest_user_api_content(
        self,
        session_id: str,
        content: Any,
        api_content: str | None,
        *,
        fence: int | None = None,
    ) -> int:
        """Set ``api_content`` of the newest user message in force, if *content* is its content;
        return how many messages that were.

        Raises:
            StaleFence, ConversationHeld: *fence* is not the token that holds the conversation.
        """
        return self._compaction.set_api_content(session_id, content, api_content, fence=fence)

    def clear_messages(
        self,
        session_id: str,
        *,
        soft: bool = False,
        fence: int | None = None,
        expected_revision: int | None = None,
    ) -> None:
        """Delete every message of a session and keep its row; *fence* and *expected_revision* as
        in `replace_messages`. With *soft*, hide the messages instead, as a rewind does:
        `restore_rewound` brings them back.
        """
        clear = self._transcript_tail.hide_all if soft else self._messages.clear
        clear(session_id, fence=fence, expected_revision=expected_revision)

    def pop_message(
        self, session_id: str, *, fence: int | None = None, expected_revision: int | None = None
    ) -> MessageRecord | None:
        """Take the newest message in force, of any role, off a session and return it as it was;
        None when there is none or the session is unknown.

        It is hidden as by a rewind: `restore_rewound` brings it back. Of concurrent callers, each
        gets another message.

        Raises:
            StaleFence, ConversationHeld: *fence* is not the token that holds the conversation.
            RevisionConflict: the session is not at *expected_revision*.
        """
        return self._transcript_tail.pop(
            session_id, fence=fence, expected_revision=expected_revision
        )

    def replace_suffix(
        self,
        session_id: str,
        *,
        expected_revision: int | None,
        keep: int,
        messages: Iterable[Mapping[str, Any]],
        fence: int | None = None,
    ) -> SuffixReplacement:
        """Keep the first *keep* messages in force, hide the others as by a rewind, and append
        *messages*, in one transaction.

        Returns ``rewind_id`` and ``hidden_count`` of what was hidden, ``message_ids`` of what was
        stored, and the ``revision`` afterwards. An *expected_revision* of None replaces whatever is
        there. Each message is a mapping with the parameters of `append_message`.

        Raises:
            UnknownSession: there is no such session.
            InvalidInput: fewer messages are in force than should be kept, or a message cannot be
                used or has an external id that is taken.
            StaleFence, ConversationHeld: *fence* is not the token that holds the conversation.
            RevisionConflict: the session is not at *expected_revision*.
        """
        return self._transcript_tail.replace_suffix(
            session_id, messages, keep=keep, fence=fence, expected_revision=expected_revision
        )

    def get_messages(
        self,
        session_id: str,
        *,
        limit: int | None = None,
        offset: int = 0,
        include_inactive: bool = False,
        scope: Scope = OWNER,
    ) -> list[MessageRecord]:
        """Return messages in order, with content and tool calls decoded; [] for an unknown id.

        Those that were rewound or replaced by a summary are there with *include_inactive*.
        """
        return self._messages.list(
            session_id,
            limit=limit,
            offset=offset,
            include_inactive=include_inactive,
            scope=scope,
        )

    def get_messages_as_conversation(
        self,
        session_id: str,
        include_ancestors: bool = False,
        *,
        include_inactive: bool = False,
        repair_alternation: bool = False,
    ) -> list[ConversationMessage]:
        """Return the transcript in the format of model providers; with *include_ancestors*, after
        the transcripts of the sessions that it continues. Items that are only a payload are left
        out. Messages that were rewound or replaced by a summary are there with *include_inactive*.

        *repair_alternation* joins neighbouring messages of the user, or of the assistant, and drops
        results of tools that no message called, which some providers refuse.
        """
        return self._transcript_replay.load(
            session_id,
            include_ancestors=include_ancestors,
            include_inactive=include_inactive,
            repair_alternation=repair_alternation,
        )

    def get_payloads(
        self,
        session_id: str,
        *,
        first_ordinal: int | None = None,
        last_ordinal: int | None = None,
        limit: int | None = None,
        scope: Scope = OWNER,
    ) -> list[Any]:
        """Return the payloads of the messages in force, oldest first; [] for an unknown id.

        The ordinals bound the range, both included. With *limit*, the newest of them (-1 means
        all). Messages without a payload, rewound ones and those that a summary replaced are left
        out.
        """
        return self._transcript_replay.payloads(
            session_id,
            first_ordinal=first_ordinal,
            last_ordinal=last_ordinal,
            limit=limit,
            scope=scope,
        )

    def get_messages_around(
        self,
        session_id: str,
        around_message_id: int,
        window: int = 5,
        *,
        scope: Scope = OWNER,
    ) -> MessageWindow:
        """Return ``window``: up to *window* messages on each side of one, itself included, and
        ``messages_before`` and ``messages_after``: how many lie beyond. An unknown anchor gives
        an empty window.
        """
        return self._message_windows.around(session_id, around_message_id, window, scope)

    def get_anchored_view(
        self,
        session_id: str,
        around_message_id: int,
        window: int = 5,
        bookend: int = 3,
        keep_roles: Sequence[str] | None = ("user", "assistant"),
        *,
        scope: Scope = OWNER,
    ) -> AnchoredView:
        """Return `get_messages_around` limited to *keep_roles* (the anchor always stays), with
        ``bookend_start`` and ``bookend_end``: the first and last messages with text outside the
        window.
        """
        return self._message_windows.view(
            session_id, around_message_id, window, bookend, keep_roles, scope
        )

    def has_external_id(self, session_id: str, external_id: str) -> bool:
        """Return whether a message with this external id is stored in the session."""
        return self._messages.has_external_id(session_id, external_id)

    def has_platform_message_id(self, session_id: str, platform_message_id: str) -> bool:
        """Return whether a session has a message with this id of its messenger, rewound or not."""
        return self._messages.has_platform_message_id(session_id, platform_message_id)

    # ── rewind ────────────────────────────────────────────────────────────────────────────────

    def rewind_to_message(
        self,
        session_id: str,
        message_id: int,
        *,
        fence: int | None = None,
        expected_revision: int | None = None,
    ) -> RewindResult:
        """Hide a user message and everything after it; nothing is deleted.

        Returns ``rewind_id``, ``rewound_count``, ``target_text`` and ``new_head_id`` (the message
        that is last now). Each call is recorded.

        Raises:
            InvalidInput: the message is not a user message of this session.
            StaleFence, ConversationHeld: *fence* is not the token that holds the conversation.
            RevisionConflict: the session is not at *expected_revision*.
        """
        return self._rewinds.rewind(
            session_id, message_id, fence=fence, expected_revision=expected_revision
        )

    def restore_rewound(
        self,
        session_id: str,
        *,
        rewind_id: int | None = None,
        fence: int | None = None,
        expected_revision: int | None = None,
    ) -> int:
        """Undo the newest rewind that is still in force, or the one with *rewind_id*; return how
        many messages came back.

        Messages come back only behind the message that they followed, so that a transcript is
        always one that there was.

        Raises:
            InvalidInput: the session has new messages or was rewound further; the error names
                the calls that lead back; or it has no such rewind.
            StaleFence, ConversationHeld: *fence* is not the token that holds the conversation.
            RevisionConflict: the session is not at *expected_revision*.
        """
        return self._rewinds.restore(
            session_id, rewind_id, fence=fence, expected_revision=expected_revision
        )

    def list_rewinds(self, session_id: str) -> list[RewindRecord]:
        """Return the record of every rewind of a session, oldest first."""
        return self._rewinds.history(session_id)

    def list_recent_user_messages(self, session_id: str, limit: int = 10) -> list[MessageRecord]:
        """Return the newest user messages still in force, newest first: what one can rewind to."""
        return self._rewinds.recent_user_messages(session_id, limit)

    # ── leases ────────────────────────────────────────────────────────────────────────────────

    def take_lease(
        self, session_id: str, holder: Holder | str, *, ttl: float = LEASE_SECONDS
    ) -> Lease:
        """Take the right to write to a session and its continuations by compaction, for *ttl*
        seconds; return it. Pass its ``token`` as ``fence`` to write.

        Until it is released, writes without the token are refused. A lease that was not renewed in
        time ends when another caller writes or acquires it; from then on its token is refused.
        *holder* names the holder in messages. The lease of a process that ended on this host is
        free at once; a `Holder` with a ``process_id`` of your own keeps it until it expires.
        Branches and subagents have leases of their own.

        Raises:
            ConversationHeld: another holder has the lease; the error names it.
            UnknownSession: there is no such session.
        """
        return self._leases.take(session_id, holder, ttl)

    def renew_lease(self, lease: Lease, *, ttl: float = LEASE_SECONDS) -> Lease:
        """Extend a lease to *ttl* seconds from now, and return it as it is then.

        Raises:
            StaleFence: it does not hold the conversation any more.
        """
        return self._leases.renew(lease, ttl)

    def release_lease(self, lease: Lease) -> None:
        """Release a lease. No-op if it has already ended."""
        self._leases.release(lease)

    def lease_of(self, session_id: str) -> HeldBy | None:
        """Return the holder of the lease on a session's conversation, or None."""
        return self._leases.of(session_id)

    # ── handoff ───────────────────────────────────────────────────────────────────────────────

    def request_handoff(self, session_id: str, platform: str) -> bool:
        """Request that a session continues on another platform; return False if the session is
        unknown or already has a handoff in progress.

        Raises:
            InvalidInput: no platform is named.
        """
        return self._handoffs.request(session_id, platform)

    def get_handoff_state(self, session_id: str) -> HandoffState | None:
        """Return ``state`` (None, pending, running, completed or failed), ``platform`` and
        ``error``; None for an unknown session.
        """
        return self._handoffs.state(session_id)

    def list_pending_handoffs(self) -> list[SessionRecord]:
        """Return the sessions that wait to be handed over, the one that started first first."""
        return self._handoffs.pending()

    def claim_handoff(self, session_id: str) -> bool:
        """Claim a pending handoff; of concurrent callers, exactly one gets True."""
        return self._handoffs.claim(session_id)

    def complete_handoff(self, session_id: str) -> None:
        """Record that the session continues on the platform it was handed to."""
        self._handoffs.complete(session_id)

    def fail_handoff(self, session_id: str, error: str) -> None:
        """Note why a handoff failed, in up to 500 characters; it can be asked for again."""
        self._handoffs.fail(session_id, error)

    # ── chats of messengers ───────────────────────────────────────────────────────────────────

    def record_gateway_session_peer(
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
        """Overwrite the chat that a session belongs to, also with None; the name and the origin
        only when they are given. No-op without *session_key*.

        Raises:
            InvalidInput: a value cannot be stored.
        """
        self._peers.record(
            session_id,
            source,
            user_id=user_id,
            session_key=session_key,
            chat_id=chat_id,
            chat_type=chat_type,
            thread_id=thread_id,
            display_name=display_name,
            origin_json=origin_json,
        )

    def find_latest_gateway_session_for_peer(
        self,
        *,
        source: str,
        user_id: str | None = None,
        session_key: str | None = None,
        chat_id: str | None = None,
        chat_type: str | None = None,
        thread_id: str | None = None,
    ) -> SessionRecord | None:
        """Return the session of a chat that started last, among those with messages that are open
        or were ended by accident (agent_close, ws_orphan_reap); None without *session_key*.

        A session with this key and source comes first; without one, one whose source, user, chat
        and thread are all equal.
        """
        return self._peers.latest(
            source,
            user_id=user_id,
            session_key=session_key,
            chat_id=chat_id,
            chat_type=chat_type,
            thread_id=thread_id,
        )

    def list_gateway_sessions(
        self, *, platform: str | None = None, active_only: bool = True
    ) -> list[RecentSession]:
        """Return the session of each messenger chat that started last, with ``last_active``, newest
        activity first; with *active_only*, among open ones.
        """
        return self._peers.listed(platform, active_only=active_only)

    def find_session_by_origin(
        self,
        *,
        platform: str,
        chat_id: str | int,
        thread_id: str | None = None,
        user_id: str | None = None,
    ) -> str | None:
        """Return the open session of a chat that started last; None if it could be that of another
        user. An empty *thread_id* means no thread, None any.
        """
        return self._peers.by_origin(platform, chat_id, thread_id, user_id)

    def set_expiry_finalized(self, session_id: str, finalized: bool = True) -> None:
        """Record that a gateway ran the hooks of the session's end, or that it did not."""
        self._peers.set_finalized(session_id, finalized=finalized)

    def load_gateway_routing_entries(self, *, scope: str = "") -> dict[str, str]:
        """Return a gateway's map of chats to entries, which are as they were stored."""
        return self._routing.load(scope)

    def replace_gateway_routing_entries(
        self, entries: Mapping[str, str] | None, *, scope: str = ""
    ) -> None:
        """Replace a gateway's whole map in one transaction; empty keys and entries are left out.

        Raises:
            InvalidInput: a key or an entry is not text, or a key or *scope* is too long.
        """
        self._routing.replace(entries, scope)

    def save_gateway_routing_entry(
        self, session_key: str, entry_json: str, *, scope: str = ""
    ) -> None:
        """Store one entry of a gateway's map. No-op if one of the two is empty."""
        self._routing.save(session_key, entry_json, scope)

    def delete_gateway_routing_entries(
        self, session_keys: Iterable[str], *, scope: str = ""
    ) -> None:
        """Delete entries of a gateway's map."""
        self._routing.delete(session_keys, scope)

    # ── topics of Telegram ────────────────────────────────────────────────────────────────────

    def apply_telegram_topic_migration(self) -> None:
        """Note that topics are used. Their tables always exist, so this does nothing else."""
        self._topics.prepare()

    def enable_telegram_topic_mode(
        self,
        *,
        chat_id: str | int,
        user_id: str | int,
        has_topics_enabled: bool | None = None,
        allows_users_to_create_topics: bool | None = None,
    ) -> None:
        """Make every topic of a private chat a separate session.

        Omitted values stay unchanged, and so does the time when topics were first enabled.

        Raises:
            InvalidInput: an id is missing or too long.
        """
        self._topics.enable(chat_id, user_id, has_topics_enabled, allows_users_to_create_topics)

    def disable_telegram_topic_mode(
        self, *, chat_id: str | int, clear_bindings: bool = True
    ) -> None:
        """Let a private chat be one session again; the bindings of its topics go, if wanted."""
        self._topics.disable(chat_id, clear_bindings=clear_bindings)

    def is_telegram_topic_mode_enabled(self, *, chat_id: str | int, user_id: str | int) -> bool:
        """Tell whether topics are enabled in this person's private chat."""
        return self._topics.is_enabled(chat_id, user_id)

    def get_telegram_topic_binding(
        self, *, chat_id: str | int, thread_id: str | int
    ) -> TopicBinding | None:
        """Return what a topic is bound to, or None: chat_id, thread_id, user_id, session_key,
        session_id, managed_mode, linked_at and updated_at.
        """
        return self._topics.find(chat_id, thread_id)

    def get_telegram_topic_binding_by_session(self, *, session_id: str) -> TopicBinding | None:
        """Return the binding of a session, or None."""
        return self._topics.find_by_session(session_id)

    def list_telegram_topic_bindings_for_chat(self, *, chat_id: str | int) -> list[TopicBinding]:
        """Return the bindings of a chat's topics, the oldest first."""
        return self._topics.of_chat(chat_id)

    def bind_telegram_topic(
        self,
        *,
        chat_id: str | int,
        thread_id: str | int,
        user_id: str | int,
        session_key: str,
        session_id: str,
        managed_mode: str = "auto",
    ) -> None:
        """Bind a session to a topic, replacing an earlier binding; deleting the session removes the
        binding.

        Raises:
            InvalidInput: the session is bound to another topic, or an id is missing or too long.
            UnknownSession: there is no such session.
        """
        self._topics.bind(chat_id, thread_id, user_id, session_key, session_id, managed_mode)

    def delete_telegram_topic_binding(self, *, chat_id: str | int, thread_id: str | int) -> bool:
        """Forget the binding of a topic and return whether there was one; with the last one of a
        chat, its topic mode ends.
        """
        return self._topics.delete(chat_id, thread_id)

    def is_telegram_session_linked_to_topic(self, *, session_id: str) -> bool:
        """Tell whether a session has a topic."""
        return self._topics.find_by_session(session_id) is not None

    def list_unlinked_telegram_sessions_for_user(
        self,
        *,
        chat_id: str | int,  # noqa: ARG002 - documented, and without a meaning
        user_id: str | int,
        limit: int = 10,
    ) -> list[SessionSummary]:
        """Return a person's Telegram sessions that have no topic, newest activity first, with
        ``preview`` and ``last_active``; *chat_id* makes no difference.
        """
        return self._topics.unlinked(user_id, limit)

    # ── usage ─────────────────────────────────────────────────────────────────────────────────

    def update_token_counts(
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
        """Add to the session's counters, or set them with *absolute*; a missing session is
        created with source ``unknown``. Added amounts are also kept per model and route.
        """
        self._usage.update(
            session_id,
            tokens={
                "input_tokens": input_tokens,
                "output_tokens": output_tokens,
                "cache_read_tokens": cache_read_tokens,
                "cache_write_tokens": cache_write_tokens,
                "reasoning_tokens": reasoning_tokens,
                "api_call_count": api_call_count,
            },
            estimated_cost_usd=estimated_cost_usd,
            actual_cost_usd=actual_cost_usd,
            labels={
                "cost_status": cost_status,
                "cost_source": cost_source,
                "pricing_version": pricing_version,
            },
            route={
                "model": model,
                "billing_provider": billing_provider,
                "billing_base_url": billing_base_url,
                "billing_mode": billing_mode,
            },
            absolute=absolute,
        )

    def record_auxiliary_usage(
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
        """Record a side call (title, summary, …) under its task, apart from the session's own
        counters. *tokens* are input_tokens, output_tokens, cache_read_tokens,
        cache_write_tokens, reasoning_tokens. An unknown session is created; without
        *create*, nothing is recorded for it, because it may have been deleted meanwhile.
        """
        self._usage.record_auxiliary(
            session_id,
            task,
            route={
                "model": model,
                "billing_provider": billing_provider,
                "billing_base_url": billing_base_url,
                "billing_mode": billing_mode,
            },
            tokens={"api_call_count": api_call_count, **tokens},
            estimated_cost_usd=estimated_cost_usd,
            actual_cost_usd=actual_cost_usd,
            create=create,
        )

    def get_model_usage(self, session_id: str) -> list[ModelUsage]:
        """Return tokens and cost per model, route and task of a session, oldest first."""
        return self._usage.list(session_id)

    # ── archive, trash, delete ────────────────────────────────────────────────────────────────

    def set_session_archived(self, session_id: str, archived: bool = True) -> bool:
        """Take the whole compression chain of a session out of lists, or put it back; return
        whether the session exists.
        """
        return self._trash.set_archived(session_id, archived=archived)

    def set_session_pinned(self, session_id: str, pinned: bool = True) -> bool:
        """Protect the whole compression chain of a session, and so its conversation, from pruning,
        or undo that; return whether the session exists. Explicit deletes still work.
        """
        return self._trash.set_pinned(session_id, pinned=pinned)

    def trash_sessions(self, session_ids: Iterable[str]) -> list[str]:
        """Move sessions, and the subagents they started, to the trash; return the ids moved.
        They are hidden from every verb and their titles are free.

        Raises:
            ConversationHeld: one of the conversations has a lease; no session is moved.
        """
        return self._trash.put(session_ids)

    def restore_sessions(self, session_ids: Iterable[str]) -> list[str]:
        """Bring sessions back from the trash and return their ids; a title taken meanwhile gets
        the next number.
        """
        return self._trash.restore(session_ids)

    def list_trash(self) -> list[TrashedSession]:
        """Return the sessions in the trash with ``trashed_at``, newest first."""
        return self._trash.list()

    def purge_trash(
        self, older_than_days: float = 0, sessions_dir: str | Path | None = None
    ) -> int:
        """Delete for good what has been in the trash that long; return how many sessions."""
        gone = self._deletion.purge_trash(older_than_days, sessions_dir)
        self._noticed(gone)
        return gone

    def delete_session(self, session_id: str, sessions_dir: str | Path | None = None) -> bool:
        """Delete a session for good, with the subagents it started; return whether it existed.

        Other children stay, without a parent. With *sessions_dir* its transcript files go too. A
        very large session is hidden at once and deleted in steps.

        Raises:
            ConversationHeld: the conversation has a lease.
        """
        return self.delete_sessions([session_id], sessions_dir) > 0

    def delete_sessions(
        self, session_ids: Iterable[str], sessions_dir: str | Path | None = None
    ) -> int:
        """Delete several sessions as `delete_session` does; return how many existed."""
        gone = self._deletion.delete(session_ids, sessions_dir)
        self._noticed(gone)
        return gone

    def list_prune_candidates(
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
        """Return what `prune_sessions` would delete, oldest activity first."""
        labels = self._label_filter(tags, exclude_tags, metadata, workspace)
        return self._deletion.candidates(older_than_days, source, filters, labels)

    def prune_sessions(
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
        """Delete conversations that ended and were last active that long ago; return how many
        sessions went. A conversation goes as a whole or, with a live, pinned or held member, not at
        all. The write lock is held for short steps only.

        With a source or labels, all its sessions but subagents must have them. *filters* are those
        of `PruneFilters`: a conversation goes if all its threads match.

        Raises:
            TypeError: there is no such filter.
        """
        labels = self._label_filter(tags, exclude_tags, metadata, workspace)
        gone = self._deletion.prune(
            older_than_days, source, sessions_dir, on_progress, filters, labels
        )
        self._noticed(gone)
        return gone

    def archive_sessions(
        self,
        older_than_days: float | None = None,
        source: str | None = None,
        **filters: Unpack[PruneFilters],
    ) -> int:
        """Archive every thread that ended and matches, as `set_session_archived` does; return how
        many sessions. Without an age, any; *filters* as in `prune_sessions`, except that sessions
        in the archive match only with ``archived=None``.
        """
        return self._trash.archive_matching(older_than_days, source, filters)

    def prune_empty_ghost_sessions(self, sessions_dir: str | Path | None = None) -> int:
        """Delete untitled, ended, empty ``tui`` sessions older than a day that are not pinned;
        return how many.
        """
        return self._empty_sessions.delete_ghosts(sessions_dir)

    def delete_session_if_empty(
        self, session_id: str, sessions_dir: str | Path | None = None
    ) -> bool:
        """Delete a session that has no title, no message of any kind and no children; return
        whether that was done.
        """
        return self._empty_sessions.delete_if_empty(session_id, sessions_dir)

    def count_empty_sessions(self) -> int:
        """Return how many sessions `delete_empty_sessions` would delete."""
        return self._empty_sessions.count()

    def delete_empty_sessions(self, sessions_dir: str | Path | None = None) -> int:
        """Delete the sessions that ended without a message of any kind and are neither archived,
        pinned nor held; return how many.
        """
        return self._empty_sessions.delete_ended(sessions_dir)

    # ── holds and retention ───────────────────────────────────────────────────────────────────

    def hold_session(self, session_id: str, reason: str) -> bool:
        """Let nothing delete the conversation of a session, not even by name, until the hold is
        lifted; return whether the session exists. A second hold replaces the reason.

        Raises:
            InvalidInput: the reason is blank or too long.
        """
        return self._holds.put(session_id, reason)

    def lift_hold(self, session_id: str) -> bool:
        """Lift every hold on the conversation of a session; return whether there was one."""
        return self._holds.lift(session_id)

    def list_holds(self) -> list[HoldRecord]:
        """Return the holds, oldest first: ``session_id``, ``reason``, ``held_at``, ``title``,
        ``conversation_id``.
        """
        return self._holds.list()

    def plan_retention(self, policies: RetentionPolicies | None = None) -> RetentionPlan:
        """Return what *policies* (default: the configured ones) would remove now; change nothing.

        A conversation is removed as a whole. Sessions that are pinned, on hold, in use or open
        stay; one that was never ended is open until it was inactive for ``close_after_days``.
        """
        return self._retention_care.plan(policies)

    def approve_retention(self, plan: RetentionPlan) -> RetentionApproval:
        """Record that the user has seen a plan and approves the policies behind it.

        Raises:
            InvalidInput: the policies limit nothing.
        """
        return self._retention_care.approve(plan)

    def run_retention(
        self,
        policies: RetentionPolicies | None = None,
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> RetentionResult:
        """End inactive sessions and move expired conversations to the trash, in short steps. A
        conversation that is used, pinned or put on hold meanwhile stays.

        Raises:
            RetentionNotApproved: exactly these policies were not approved; nothing was changed.
        """
        return self._retention_care.run(policies, on_progress)

    # ── export and import ─────────────────────────────────────────────────────────────────────

    def export_session(self, session_id: str) -> ExportedSession | None:
        """Return a session with its ``messages``, rewound ones included, or None."""
        return self._export_import.export(session_id)

    def export_session_lineage(self, session_id: str) -> list[ExportedSession]:
        """Return every session of the conversation as `export_session` does, oldest first."""
        return self._export_import.export_family(session_id)

    def export_all(self, source: str | None = None) -> list[ExportedSession]:
        """Return all sessions as `export_session` does, with ``last_active``, newest first."""
        return list(self._export_import.iter_export(source))

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
    ) -> Iterator[ExportedSession]:
        """Yield what `export_all` returns, one session at a time, of one consistent state; only
        those last active from *since* on, before *until*, with *title* in their title, case
        ignored, and with the labels and workspace, as for `list_sessions_rich`.
        """
        labels = self._label_filter(tags, exclude_tags, metadata, workspace, scope)
        return self._export_import.iter_export(
            source, since=since, until=until, title=title, labels=labels, scope=scope
        )

    def import_sessions(
        self, sessions: Iterable[Mapping[str, Any]], *, leave_out_invalid: bool = False
    ) -> ImportReport:
        """Store exported sessions; importing them again changes nothing.

        Everything is checked first: with any invalid session nothing is written, unless those are
        to be left out. Returns ``ok``, ``imported``, ``extended`` (sessions that had grown),
        ``skipped`` (already there), ``conflicts`` (same id, other content: left alone) and
        ``errors`` (``index``, ``error``).
        """
        result = self._export_import.import_all(sessions, leave_out_invalid=leave_out_invalid)
        self._noticed(result["imported"] + result["extended"])
        return result

    # ── search ────────────────────────────────────────────────────────────────────────────────

    def search_messages(
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
        """Return messages that match, best first, with ``snippet`` (``>>>match<<<``), the same
        without markers as ``snippet_text`` and ``spans`` ((start, end) offsets of the matches in
        it), and ``context`` (the message before, this one, the one after).

        Any text is a query and none raises; see docs/search.md for the language. *limit* -1 means
        all. *sort* is relevance (default), newest or oldest. With *include_inactive* rewound
        messages are found, too. *conditions* are the filters of `search`. Every filter given as a
        parameter holds; one in the text narrows further. `search` tells more, and has pages.
        """
        return self._search.messages(
            query,
            source_filter=source_filter,
            exclude_sources=exclude_sources,
            role_filter=role_filter,
            limit=limit,
            offset=offset,
            sort=sort,
            include_inactive=include_inactive,
            conditions=conditions,
            scope=scope,
        )

    def search(
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
        """Return hits and a report: how many matches there are, how many each filter removed, how
        the query was interpreted, and whether everything was searched.

        A query without exact matches is relaxed in documented steps, unless *relax* is False.
        *conditions* apply whatever the query contains; filters in the query narrow further.
        *cursor* continues the list of the same query. Without *count*, the report has no totals
        beyond the page and no counts by filter. Only messages within *scope* are found or counted.

        Raises:
            InvalidInput: a limit below 1, an unknown order, or a cursor of another query.
        """
        return self._search.answer(
            query,
            conditions=conditions,
            limit=limit,
            sort=sort,
            cursor=cursor,
            relax=relax,
            count=count,
            scope=scope,
        )

    def search_index_status(self) -> IndexStatus:
        """Return whether the index is ``complete``, and how many messages are ``pending``."""
        return self._search.status()

    def optimize_search(
        self, *, rebuild: bool = False, on_progress: Callable[[int, int], None] | None = None
    ) -> OptimizeResult:
        """Bring the index up to date and merge its pieces, in short steps while others write;
        with *rebuild*, build it again from the messages. Returns ``indexed`` and ``rebuilt``.
        """
        return self._search.optimize(rebuild=rebuild, on_progress=on_progress)

    # ── attachments and blobs ─────────────────────────────────────────────────────────────────────

    def list_attachments(self, session_id: str, *, scope: Scope = OWNER) -> list[AttachmentRecord]:
        """Return the images and files in a session's messages that are stored as attachments, in
        the order of the messages; one for each message that has it.
        """
        return self._attachments.list(session_id, scope)

    def get_attachment(self, attachment_id: str, *, scope: Scope = OWNER) -> Attachment:
        """Return an attachment by its ``id``, with its bytes as ``data``.

        Raises:
            NotFound: no message that *scope* may see has it.
            BlobDamaged: its bytes are not those that were stored.
        """
        return self._attachments.get(attachment_id, scope)

    def put_blob(
        self, data: bytes | bytearray | memoryview, *, namespace: str | None = None, key: str = ""
    ) -> str:
        """Store bytes and return their digest, the BLAKE2b-256 in hex; equal bytes are stored once.

        With *namespace*, in which your program keeps blobs, and a *key* of yours, it is kept until
        `remove_blob_references`. Without, for a day: refer to it until then.
        """
        return self._blobs.put(data, namespace, key)

    def get_blob(self, digest: str) -> bytes:
        """Return the bytes of a blob.

        Raises:
            NotFound: it does not exist.
            BlobDamaged: its bytes are not those that were stored.
        """
        return self._blobs.get(digest)

    def iter_blob(self, digest: str) -> Iterator[bytes]:
        """Yield the bytes of a blob in parts of at most 256 KiB, each read on its own; raises as
        `get_blob` does, for damage after the last part at the latest.
        """
        return self._blobs.iterate(digest)

    def get_blob_size(self, digest: str) -> int | None:
        """Return the number of bytes of a blob, or None if it does not exist."""
        return self._blobs.size(digest)

    def add_blob_reference(self, digest: str, namespace: str, key: str = "") -> None:
        """Keep a stored blob until the reference is removed; a reference that exists stays.

        Raises:
            NotFound: the blob does not exist.
        """
        self._blobs.refer(digest, namespace, key)

    def remove_blob_references(self, namespace: str, key: str | None = None) -> int:
        """Remove the references of a key, or of a whole namespace; return how many there were.

        `sweep_blobs`, and maintenance, then remove blobs that nothing refers to.
        """
        return self._blobs.remove_references(namespace, key)

    def list_blob_references(self, namespace: str, key: str | None = None) -> list[BlobReference]:
        """Return the references of a namespace, or of one key in it, in the order of the keys."""
        return self._blobs.references(namespace, key)

    def sweep_blobs(self) -> BlobSweep:
        """Remove the blobs that nothing refers to, in one short transaction each; return how many
        were ``removed``, and their ``bytes``.
        """
        return self._blobs.sweep()

    # ── state of frameworks ───────────────────────────────────────────────────────────────────

    def get_state(self, scope: str, owner: str, name: str) -> StateDocument | None:
        """Return a state document, or None: ``value``, deep-equal to what was stored, and its
        ``revision``.

        *scope* says what *owner* is the id of: ``session``, ``user`` or ``app``.

        Raises:
            InvalidInput: another scope, or an id or name that cannot be stored.
        """
        return self._state_documents.find(scope, owner, name)

    def list_state(self, scope: str, owner: str, *, prefix: str = "") -> list[StateDocument]:
        """Return the state documents of a session, user or app whose names begin with *prefix*, by
        name.
        """
        return self._state_documents.list(scope, owner, prefix)

    def set_state(
        self,
        scope: str,
        owner: str,
        name: str,
        value: Any,
        *,
        expected_revision: int | None = None,
        fence: int | None = None,
    ) -> int:
        """Store any JSON value as a state document and return its revision, 1 for a new one.

        *expected_revision* is that of the document, 0 if it must not exist yet. A document of a
        session changes the session: it needs its *fence*, raises its revision, and is deleted with
        it.

        Raises:
            InvalidInput: not a JSON value, over 1 MiB, or the owner has 1,000 documents already.
            UnknownSession: there is no such session.
            StaleFence, ConversationHeld: *fence* is not the token that holds the conversation.
            RevisionConflict: the document is not at *expected_revision*.
        """
        return self._state_documents.set(
            scope, owner, name, value, expected_revision=expected_revision, fence=fence
        )

    def delete_state(
        self,
        scope: str,
        owner: str,
        name: str,
        *,
        expected_revision: int | None = None,
        fence: int | None = None,
    ) -> bool:
        """Delete a state document; return whether it existed. *fence* and *expected_revision* as
        in `set_state`.
        """
        return self._state_documents.delete(
            scope, owner, name, expected_revision=expected_revision, fence=fence
        )

    # ── meta, locks, maintenance ──────────────────────────────────────────────────────────────

    def get_meta(self, key: str) -> str | None:
        """Return a stored value, or None."""
        return self._meta.find(key)

    def set_meta(self, key: str, value: Any) -> None:
        """Store a value as text, overwriting an old one."""
        self._meta.set(key, value)

    def try_acquire_compression_lock(
        self, session_id: str, holder: str, ttl_seconds: float = 300
    ) -> bool:
        """Take or renew the right to compact a session; False when another holder has it."""
        return self._compression_locks.acquire(session_id, holder, ttl_seconds)

    def refresh_compression_lock(
        self, session_id: str, holder: str, ttl_seconds: float = 300
    ) -> bool:
        """Extend a lock this holder has; return whether it still had it."""
        return self._compression_locks.refresh(session_id, holder, ttl_seconds)

    def release_compression_lock(self, session_id: str, holder: str) -> bool:
        """Give the lock back; return whether this holder had it."""
        return self._compression_locks.release(session_id, holder)

    def get_compression_lock_holder(self, session_id: str) -> str | None:
        """Return the holder that may compact the session now, or None."""
        return self._compression_locks.holder(session_id)

    def get_compression_failure_cooldown(self, session_id: str) -> CompressionCooldown | None:
        """Return until when compression is not to be tried again, or None: ``cooldown_until``,
        ``remaining_seconds`` and ``error``.
        """
        return self._compression_state.cooldown(session_id)

    def record_compression_failure_cooldown(
        self, session_id: str, cooldown_until: float, error: str | None = None
    ) -> None:
        """Note that compression failed, and until when it is not to be tried again."""
        self._compression_state.set_cooldown(session_id, cooldown_until, error)

    def clear_compression_failure_cooldown(self, session_id: str) -> None:
        """Allow compression again."""
        self._compression_state.set_cooldown(session_id, None, None)

    def get_compression_fallback_streak(self, session_id: str) -> int:
        """Return how many compressions in a row fell back to a simple summary."""
        return self._compression_state.streak(session_id)

    def set_compression_fallback_streak(self, session_id: str, streak: int) -> None:
        """Store how many compressions in a row fell back to a simple summary.

        Raises:
            InvalidInput: it is not a whole number; a negative one counts as 0.
        """
        self._compression_state.set_streak(session_id, streak)

    def vacuum(self) -> None:
        """Give unused space back to the system; on SQLite this rewrites the file."""
        self._provider.reclaim()

    def trim(self) -> int:
        """Give unused space back in short steps while others write; return how many bytes.

        On SQLite, a file of an older layout can only do so after its first `vacuum`.
        """
        return self._deletion.trim()

    def maybe_auto_prune_and_vacuum(
        self,
        retention_days: int = 90,
        min_interval_hours: int = 24,
        vacuum: bool = True,
        sessions_dir: str | Path | None = None,
        *,
        trash_days: float | None = None,
    ) -> MaintenanceReport:
        """Prune sessions, move conversations that exceed the approved retention limits to the
        trash, delete sessions that have been in the trash for *trash_days* (as configured, 30 by
        default), and vacuum; at most once per interval.

        Never raises: returns ``skipped``, ``pruned``, ``vacuumed``, and ``retired`` if limits moved
        sessions, ``purged`` if sessions left the trash, ``error`` if a step failed.
        """
        return self._deletion.maintain(
            retention_days, min_interval_hours, vacuum, sessions_dir, trash_days
        )

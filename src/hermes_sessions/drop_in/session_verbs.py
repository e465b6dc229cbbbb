"""Verbs of sessions: lifecycle, titles, lists, counts, usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermes_sessions.drop_in.shapes import PRUNED_KEYS, reshaped, session_dicts, session_or_none
from hermes_sessions.errors import ConstraintViolated, StoreClosed, StoreError
from hermes_sessions.model.computed_once import computed_once
from hermes_sessions.model.lineage import COMPRESSION
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sessiondb import SessionDB as Facade

if TYPE_CHECKING:
    from pathlib import Path

    from hermes_sessions.storage.repositories.session_lists import SessionLists
    from hermes_sessions.storage.repositories.usage import Usage

logger = Logger(__name__)


class SessionVerbs(Facade):
    """Verbs of sessions as Hermes calls them."""

    @computed_once
    def _usage(self) -> Usage:
        from hermes_sessions.storage.repositories.usage import Usage

        return Usage(self.store, first_call_decides=True)

    @computed_once
    def _session_lists(self) -> SessionLists:
        from hermes_sessions.storage.repositories.session_lists import SessionLists

        return SessionLists(self.store, without_delegates=True)

    def create_session(
        self, session_id: str | None = None, source: str | None = "unknown", **options: Any
    ) -> str:
        """Create a session, or fill in what an existing one lacks; return its id.

        Raises:
            ConstraintViolated: the source is None, or the parent does not exist.
        """
        if source is None:
            raise ConstraintViolated(
                "NOT NULL constraint failed: sessions.source. Pass a source, such as 'cli'."
            )
        given = options | {"cwd": options.get("cwd") or None}
        if session_id and given.get("user_id") is not None and super().get_session(session_id):
            del given["user_id"]  # Hermes leaves an existing session to its user, even to none.
        return super().create_session(session_id, source, **given)

    get_session = reshaped(Facade.get_session, session_or_none)
    get_session_by_title = reshaped(Facade.get_session_by_title, session_or_none)

    def end_session(self, session_id: str, end_reason: str) -> None:
        """Mark a session as ended; the first reason and time win. A child that was created while
        its parent was being compressed continues it.
        """
        super().end_session(session_id, end_reason)
        if end_reason == COMPRESSION:
            self._lineage.adopt_continuations(session_id)

    def promote_to_session_reset(
        self, session_id: str, reason: str | None = "session_reset"
    ) -> bool:
        """End a session that is open, or was ended by accident, with this reason; return whether
        that was done.
        """
        return super().promote_to_session_reset(session_id, reason or "session_reset")

    def update_system_prompt(self, session_id: str, system_prompt: str | None) -> None:
        """Overwrite the stored prompt. Hermes does so before it creates the session: a no-op."""
        self._sessions.try_set_columns(session_id, system_prompt=system_prompt)

    def set_auto_title_if_empty(self, session_id: str, title: str) -> bool:
        """Set a generated title unless the session has one; return whether it was set.

        Raises:
            TitleTaken: another session has it.
        """
        return self._titles.set_if_empty(session_id, title, numbered=False)

    def resolve_resume_session_id(self, session_id: str) -> str:
        """Return the session to load when this one is resumed: of the tip of its chain and the
        children that continue it, the last one with messages.
        """
        return self._lineage.deepest_continuation(session_id)

    # ── lists ─────────────────────────────────────────────────────────────────────────────────

    def list_sessions_rich(
        self,
        source: str | None = None,
        exclude_sources: Sequence[str] | None = None,
        limit: int = 20,
        offset: int = 0,
        include_children: bool = False,
        project_compression_tips: bool = True,
        order_by_last_active: bool = False,
        **options: Any,
    ) -> Any:
        """Return sessions with ``preview`` and ``last_active``, newest start first."""
        return session_dicts(
            super().list_sessions_rich(
                source,
                exclude_sources,
                limit,
                offset,
                include_children,
                project_compression_tips,
                order_by_last_active,
                **options,
            )
        )

    search_sessions = reshaped(Facade.search_sessions, session_dicts)
    search_sessions_by_id = reshaped(Facade.search_sessions_by_id, session_dicts)
    list_cron_job_runs = reshaped(Facade.list_cron_job_runs, session_dicts)
    list_gateway_sessions = reshaped(Facade.list_gateway_sessions, session_dicts)
    find_latest_gateway_session_for_peer = reshaped(
        Facade.find_latest_gateway_session_for_peer, session_or_none
    )
    list_pending_handoffs = reshaped(Facade.list_pending_handoffs, session_dicts)
    list_unlinked_telegram_sessions_for_user = reshaped(
        Facade.list_unlinked_telegram_sessions_for_user, session_dicts
    )

    def message_count(self, session_id: str | None = None, *, include_inactive: bool = True) -> int:
        """Return how many messages a session, or the whole store, has, of any kind."""
        return super().message_count(session_id, include_inactive=include_inactive)

    # ── deletion ──────────────────────────────────────────────────────────────────────────────

    def list_prune_candidates(
        self,
        older_than_days: float | None = None,
        source: str | None = None,
        **filters: Any,
    ) -> Any:
        """Return what `prune_sessions` would delete, oldest start first; without an age or a
        filter, every session that ended.
        """
        found = super().list_prune_candidates(_age(older_than_days, filters), source, **filters)
        oldest_first = sorted(found, key=lambda row: (row["started_at"], row["id"]))
        return [{key: dict(row)[key] for key in PRUNED_KEYS} for row in oldest_first]

    def prune_sessions(
        self,
        older_than_days: float | None = 90,
        source: str | None = None,
        sessions_dir: str | Path | None = None,
        **options: Any,
    ) -> int:
        """Delete conversations that ended and were last active that long ago, and match."""
        age = _age(older_than_days, options)
        return super().prune_sessions(age, source, sessions_dir, **options)

    def delete_sessions(
        self, session_ids: Iterable[Any] | None, sessions_dir: str | Path | None = None
    ) -> int:
        """Delete several sessions; return how many existed. Values that are not ids are ignored."""
        ids = [session_id for session_id in session_ids or () if isinstance(session_id, str)]
        return super().delete_sessions(ids, sessions_dir)

    # ── usage and compression ─────────────────────────────────────────────────────────────────

    def record_auxiliary_usage(self, session_id: str, task: str, **usage: Any) -> None:
        """Record a side call under its task; nothing without an id or a task."""
        if session_id and task:
            super().record_auxiliary_usage(session_id, task, **usage)

    def record_compression_failure_cooldown(
        self, session_id: str, cooldown_until: float, error: str | None = None
    ) -> None:
        """Note that compression failed; a failure to store that is logged."""
        try:
            super().record_compression_failure_cooldown(session_id, cooldown_until, error)
        except StoreError as failure:
            logger.warning("the pause of compression could not be stored: %s", failure)

    def clear_compression_failure_cooldown(self, session_id: str) -> None:
        """Allow compression again; a failure to store that is logged."""
        try:
            super().clear_compression_failure_cooldown(session_id)
        except StoreError as failure:
            logger.warning("the end of the pause of compression could not be stored: %s", failure)

    def get_compression_fallback_streak(self, session_id: str) -> int:
        """Return how many compressions in a row fell back to a simple summary; 0 once closed."""
        try:
            return super().get_compression_fallback_streak(session_id)
        except StoreClosed:
            return 0


def _age(older_than_days: float | None, filters: Mapping[str, Any]) -> float | None:
    """Return the age for the store, which refuses to prune without an age or a filter."""
    is_filtered = any(filters[name] not in (None, "") for name in filters.keys() - {"on_progress"})
    return 0 if older_than_days is None and not is_filtered else older_than_days

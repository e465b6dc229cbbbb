"""SessionStore: which session each conversation is in.

The documented methods, each one line of delegation. Lanes are rows beside the sessions they point
at, so a change of both is one transaction, and two processes on one lane agree. Every method is
thread-safe.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hermes_sessions.config import default_store_path, load_settings
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.config.paths import hermes_home
from hermes_sessions.lifecycle.host_files import SESSIONS_JSON, SessionsJsonFile
from hermes_sessions.lifecycle.lane_dependencies import HasActiveProcesses, LaneDependencies
from hermes_sessions.lifecycle.lane_explanation import STOPPED, LaneExplanation, explain_lane
from hermes_sessions.lifecycle.lane_operations import (
    LaneChanges,
    LaneReader,
    LaneSweeps,
    Precondition,
)
from hermes_sessions.lifecycle.lane_updates import LaneWithSession
from hermes_sessions.lifecycle.legacy_files import ImportReport, LegacyFiles, LidMapping
from hermes_sessions.lifecycle.session_entry import SessionEntry, entry_of
from hermes_sessions.lifecycle.session_routing import route_to_session
from hermes_sessions.lifecycle.transcript_messages import Transcripts
from hermes_sessions.model.lane import LaneNotice
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.model.source import SessionSource
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider_registry import attachment_limits
from hermes_sessions.storage.repositories.identities import Identities
from hermes_sessions.storage.repositories.lanes import Lanes
from hermes_sessions.storage.sessiondb import SessionDB

if TYPE_CHECKING:
    from hermes_sessions.storage.records import ConversationMessage

# The default database of a sessions directory.


SESSIONS_DIRECTORY = "sessions"


STORE_FILE = "state.db"


def open_database(sessions_dir: Path, clock: Callable[[], float]) -> SessionDB:
    """Open the configured store. Without configuration, the home's ``sessions`` directory uses the
    store of the home, and any other directory a file inside it.

    Raises:
        StoreError: it cannot be opened.
        ConfigError: config.yaml is invalid.
    """
    settings = load_settings()
    configured = settings.sessiondb
    # Also for a server, which has no file.
    is_named = configured.store_file != default_store_path(settings.home)
    if is_named or _is_same_place(sessions_dir, settings.home / SESSIONS_DIRECTORY):
        return SessionDB(clock=clock)
    return SessionDB(
        sessions_dir / STORE_FILE,
        durability=configured.sqlite.durability,
        lock_timeout=configured.sqlite.lock_timeout,
        max_message_bytes=configured.max_message_bytes,
        attachments=attachment_limits(settings),
        clock=clock,
    )


def _is_same_place(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


logger = Logger(__name__)

Record = dict[str, Any]


class SessionStore:
    """The lanes of one bot, and the sessions they point at."""

    def __init__(
        self,
        sessions_dir: str | PathLike[str],
        config: GatewayConfig | None = None,
        has_active_processes_fn: HasActiveProcesses | None = None,
        *,
        db: SessionDB | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Open the lanes; imports files of an older installation in *sessions_dir* first.

        Args:
            sessions_dir: the directory of ``sessions.json``.
            config: policies, isolation, namespace; the documented defaults by default.
            has_active_processes_fn: tells by a lane's key whether background processes of it are
                running; such a lane neither expires nor is pruned. If it raises, the lane counts as
                having some.
            db: the store, which stays open when this is closed. By default the configured one;
                without configuration, ``state.db`` beside the home's ``sessions`` directory, and
                inside any other.
            clock: seconds since the epoch; the store's clock by default.

        Raises:
            StoreError: the store cannot be used.
            ConfigError: config.yaml is invalid.
        """
        directory = Path(sessions_dir)
        self._owns_db = db is None
        self.db = open_database(directory, clock or time.time) if db is None else db
        try:
            store = self.db.store if clock is None else self.db.store._replace(clock=clock)
            self.engine = LaneDependencies(
                store,
                config or GatewayConfig(),
                Lanes(store),
                Identities(store, LidMapping(hermes_home()).aliases_of).canonical,
                has_active_processes_fn,
                changed=self._changed,
            )
            self._changes = LaneChanges(self.engine)
            self._sweeps = LaneSweeps(self.engine)
            self._lane_reader = LaneReader(self.engine)
            self._index = self._open_files(directory)
        except BaseException:
            self.close()
            raise

    _index: SessionsJsonFile | None = None
    #: The import from an older installation when this store was opened; None if there was nothing
    #: to import.
    import_report: ImportReport | None = None

    def _open_files(self, directory: Path) -> SessionsJsonFile | None:
        if self.db.provider.read_only:
            return None
        older = LegacyFiles(directory, self.db, self.engine)
        wanted = self.engine.config.write_sessions_json
        if wanted is None:
            wanted = self.db.provider.is_file
        if (wanted or older.are_there()) and (owner := older.owner()) != self.engine.namespace:
            logger.info(
                "%s belongs to the bot %r, not to this one", directory / SESSIONS_JSON, owner
            )
            return None
        self.import_report = older.import_once()
        if not wanted or (self.import_report and self.import_report.unreadable is not None):
            return None
        index = SessionsJsonFile(directory / SESSIONS_JSON, lambda: self._document(older))
        if (directory / SESSIONS_JSON).exists():
            # The file may be older than the database, after a crash or from another installation.
            index.changed()
        return index

    def _document(self, older: LegacyFiles) -> Record:
        document = dict(older.kept_entries())
        lanes: Record = {}
        for entry in self._lane_reader.entries(None):
            # Of two lanes with the same string, keep the one used last.
            lanes.setdefault(entry.session_key, entry.to_dict())
        return document | lanes

    @property
    def config(self) -> GatewayConfig:
        """Policies, isolation, namespace."""
        return self.engine.config

    def close(self) -> None:
        """Write ``sessions.json`` if something changed, and close the store if it was opened here.
        A second call does nothing.
        """
        if self._index is not None:
            self._index.close()
        if self._owns_db:
            self.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def flush(self) -> None:
        """Write ``sessions.json`` now if it is enabled and something changed.

        Raises:
            OSError: it cannot be written.
        """
        if self._index is not None:
            self._index.flush()

    def _changed(self) -> None:
        if self._index is not None:
            self._index.changed()

    def _shown(self, placed: LaneWithSession | None) -> SessionEntry | None:
        if placed is None:
            return None
        self._changed()
        return entry_of(*placed)

    def _noted(self, has_changed: bool) -> bool:
        if has_changed:
            self._changed()
        return has_changed

    # The session of a lane

    def session_key(self, source: SessionSource) -> str:
        """Return the key of the lane that messages from *source* belong to."""
        return self.engine.key_of(source).render()

    def get_or_create_session(self, source: SessionSource, force_new: bool = False) -> SessionEntry:
        """Return the lane of *source*, with the session that a message from there belongs to now.

        A suspended lane gets a new session; a recently interrupted one continues; an expired one
        gets a new session, unless a turn or process of it is running; any other continues. A lane
        whose session was compacted follows it; one whose session is missing or in the trash gets a
        new one. *force_new* always begins a new one. Everything happens in one transaction: the old
        session is ended, the new one created, the lane changed, and the reason recorded.
        """
        placed = route_to_session(self.engine, source, force_new=force_new)
        self._changed()
        return entry_of(*placed)

    def peek(self, source: SessionSource) -> SessionEntry | None:
        """Return the lane of *source* without changing anything; None if it never had a session.
        After compaction it is in the continuation.
        """
        return self._lane_reader.find(self.engine.key_of(source))

    def update_session(
        self,
        session_key: str,
        last_prompt_tokens: int | None = None,
        *,
        session_id: str | None = None,
    ) -> bool:
        """Record that a lane was used now, and the length of its last prompt; returns whether the
        lane exists.

        With *session_id*, only if the lane is still in that session or another one of its chain: a
        run that ends after a reset must not touch the new session.
        """
        return self._noted(self._changes.used(session_key, last_prompt_tokens, session_id))

    def reset_session(
        self,
        session_key: str,
        display_name: str | None = None,
        *,
        first: Precondition | None = None,
    ) -> SessionEntry | None:
        """Give a lane a new session at the user's request; None for an unknown key.

        *first* runs before, in the same transaction; if it returns False, nothing else changes.
        """
        return self._shown(self._changes.reset(session_key, display_name, first))

    def switch_session(
        self, session_key: str, target_session_id: str, *, scope: Scope = OWNER
    ) -> SessionEntry | None:
        """Point a lane at another session, or its latest continuation; None for an unknown key.

        Ends the current session and reopens the other one.

        Raises:
            NotFound: the session does not exist, is in the trash or out of *scope*; nothing was
                changed.
        """
        return self._shown(self._changes.switch(session_key, target_session_id, scope))

    def accept_handoff(self, session_id: str, source: SessionSource) -> SessionEntry | None:
        """Continue a session that was handed off to the platform of *source* in its lane.

        None if no handoff is pending (any more): of several processes that accept it, one succeeds.
        One transaction: either the handoff is completed and the lane is in the session, or neither.
        """
        return self._shown(self._changes.accept_handoff(session_id, source))

    def suspend_session(
        self, session_key: str, reason: str = STOPPED, *, first: Precondition | None = None
    ) -> bool:
        """Make the next message start a new session in any case; False for an unknown key.
        *first* is as in `reset_session`.
        """
        return self._noted(self._changes.suspend(session_key, reason, first))

    def mark_resume_pending(self, session_key: str, reason: str = "restart_timeout") -> bool:
        """Let an interrupted lane resume its session; False if it is suspended or unknown."""
        return self._noted(self._changes.mark_resume(session_key, reason))

    def clear_resume_pending(self, session_key: str, *, session_id: str | None = None) -> bool:
        """Remove the resume mark after a successful turn; returns whether there was one.

        With *session_id*, only if the lane is still in that session, as in `update_session`.
        """
        return self._noted(self._changes.clear_resume(session_key, session_id))

    def take_notice(self, session_key: str) -> LaneNotice | None:
        """Return the pending notice about the lane's last change, once: of any number of callers,
        in any process, one gets it.
        """
        notice = self._changes.take_notice(session_key)
        self._noted(notice is not None)
        return notice

    def explain(self, session_key: str) -> LaneExplanation | None:
        """Return the history of a lane with reasons, in words; None for an unknown key."""
        return explain_lane(self.engine.store, self.engine.namespace, session_key)

    # Many lanes

    def suspend_recently_active(self, max_age_seconds: float = 120) -> int:
        """Mark lanes used in the last *max_age_seconds* as interrupted; return how many.

        For a start after a crash without process records. Suspended lanes, and those already
        marked, stay as they are.
        """
        marked = self._sweeps.mark_recent(max_age_seconds, "restart_interrupted")
        self._noted(marked > 0)
        return marked

    def prune_old_entries(self, max_age_days: float | None = None) -> int:
        """Remove lanes unused for *max_age_days* (by default as configured); returns how many.

        Their sessions end, so that retention applies to them. 0 removes none. Lanes stay that are
        suspended, have pending work, or have or may have a running process.
        """
        days = self.config.session_store_max_age_days if max_age_days is None else max_age_days
        if days <= 0:
            return 0
        pruned = self._sweeps.prune(days)
        self._noted(pruned > 0)
        return pruned

    def list_sessions(self, active_minutes: float | None = None) -> list[SessionEntry]:
        """Return all lanes, or those used in the last *active_minutes*, latest use first."""
        return list(self._lane_reader.entries(active_minutes))

    def lookup_by_session_id(self, session_id: str) -> SessionEntry | None:
        """Return the lane in this session or another one of its chain; None if there is none."""
        return self._lane_reader.by_session(session_id)

    def has_any_sessions(self, *, besides: str | None = None) -> bool:
        """Return whether any session other than *besides* was ever stored."""
        return self._lane_reader.has_any_sessions(besides)

    # Transcripts

    @cached_property
    def _transcripts(self) -> Transcripts:
        return Transcripts(self.db)

    def append_to_transcript(
        self,
        session_id: str,
        message: Mapping[str, Any],
        skip_db: bool = False,
        *,
        fence: int | None = None,
    ) -> int | None:
        """Append a message to a session and return its id; with *skip_db*, when the agent has
        already stored it, do nothing.

        A message without a role is stored as ``unknown``. One with ``platform_message_id`` or
        ``message_id`` is stored once.

        Raises:
            UnknownSession, InvalidInput, MessageTooLarge: nothing was written.
            StaleFence, ConversationHeld: another process holds the conversation; nothing was
            written.
        """
        return None if skip_db else self._transcripts.append(session_id, message, fence)

    def rewrite_transcript(
        self,
        session_id: str,
        messages: Iterable[Mapping[str, Any]],
        *,
        fence: int | None = None,
    ) -> None:
        """Replace the messages of a session, all or nothing; raises as `append_to_transcript`."""
        self._transcripts.rewrite(session_id, messages, fence)

    def load_transcript(self, session_id: str) -> list[ConversationMessage]:
        """Return the messages of a session in the form for models; [] for an unknown id."""
        return self._transcripts.load(session_id)

    def rewind_session(
        self, session_id: str, n: int = 1, *, fence: int | None = None
    ) -> Record | None:
        """Undo the last *n* user turns, at least one and at most all; nothing is deleted.

        Returns ``rewound_count``, ``turns_undone`` and ``target_text``; None if there is no user
        message yet.
        """
        return self._transcripts.rewind(session_id, n, fence)

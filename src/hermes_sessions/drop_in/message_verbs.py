"""Verbs of messages: writing, reading, replay, rewinds, export and import."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hermes_sessions.drop_in.conversations import client_shows_facts, conversation
from hermes_sessions.drop_in.shapes import (
    Record,
    given_message,
    in_force,
    message_dict,
    message_dicts,
    platform_id,
    session_dict,
    window_dict,
)
from hermes_sessions.errors import ConstraintViolated, InvalidInput
from hermes_sessions.model.alternation import alternating
from hermes_sessions.model.message import text_of
from hermes_sessions.storage.sessiondb import SessionDB as Facade

#: Characters of a message in a list of messages to rewind to.
_PREVIEW: Final = 80
_SORTS: Final = ("newest", "oldest")
#: What Hermes prints after maintenance: messages and titles are indexed.
_SEARCH_INDEXES: Final = 2


class MessageVerbs(Facade):
    """Verbs of messages as Hermes calls them."""

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
        platform_message_id: Any = None,
        observed: Any = False,
        effect_disposition: str | None = None,
        timestamp: Any = None,
        api_content: Any = None,
        **options: Any,
    ) -> int:
        """Store one message at the end of a session and return its id.

        Raises:
            ConstraintViolated: the role is None, or there is no such session.
        """
        if role is None:
            raise ConstraintViolated(
                "NOT NULL constraint failed: messages.role. Pass a role, such as 'user'."
            )
        given = given_message(
            {
                "platform_message_id": platform_message_id,
                "timestamp": timestamp,
                "api_content": api_content,
            }
        )
        return super().append_message(
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
            observed=bool(observed),
            effect_disposition=effect_disposition,
            **given,
            **options,
        )

    def has_platform_message_id(self, session_id: str, platform_message_id: Any) -> bool:
        """Return whether a session has a message with this id of its messenger."""
        return super().has_platform_message_id(session_id, platform_id(platform_message_id) or "")

    def replace_messages(
        self,
        session_id: str,
        messages: Iterable[Mapping[str, Any]],
        active_only: bool = False,
        **options: Any,
    ) -> None:
        """Replace the whole transcript, or with *active_only* the messages in force."""
        given = [given_message(message) for message in messages]
        super().replace_messages(session_id, given, active_only=active_only, **options)

    def archive_and_compact(
        self, session_id: str, compacted_messages: Iterable[Mapping[str, Any]], **options: Any
    ) -> int:
        """Replace the messages in force by a shorter transcript; return its length."""
        given = [given_message(message) for message in compacted_messages]
        return super().archive_and_compact(session_id, given, **options)

    def set_latest_user_api_content(
        self, session_id: str, content: Any, api_content: str | None, **options: Any
    ) -> int:
        """Set ``api_content`` of the newest user message if it has this content; return 0 or 1."""
        if not session_id:
            return 0
        return super().set_latest_user_api_content(session_id, content, api_content, **options)

    # ── reading ───────────────────────────────────────────────────────────────────────────────

    def get_messages(
        self,
        session_id: str,
        include_inactive: bool = False,
        limit: int | None = None,
        offset: int = 0,
        **options: Any,
    ) -> Any:
        """Return the messages in force, or all, with the keys of schema 22."""
        return message_dicts(
            super().get_messages(
                session_id,
                include_inactive=include_inactive,
                limit=limit,
                offset=offset,
                **options,
            )
        )

    def get_messages_around(
        self, session_id: str, around_message_id: int, window: int = 5, **options: Any
    ) -> Any:
        """Return a window of messages with the keys of schema 22."""
        found = super().get_messages_around(session_id, around_message_id, window, **options)
        return window_dict(found, around_message_id)

    def get_anchored_view(
        self,
        session_id: str,
        around_message_id: int,
        window: int = 5,
        bookend: int = 3,
        keep_roles: Sequence[str] | None = ("user", "assistant"),
        **options: Any,
    ) -> Any:
        """Return a window and the edges of the session, with the keys of schema 22."""
        found = super().get_anchored_view(
            session_id, around_message_id, window, bookend, keep_roles, **options
        )
        return window_dict(found, around_message_id)

    def get_messages_as_conversation(
        self,
        session_id: str,
        include_ancestors: bool = False,
        include_inactive: bool | None = None,
        repair_alternation: bool | None = None,
    ) -> Any:
        """Return the transcript in the format of model providers.

        Hermes 0.17 and later, and callers that pass one of the later parameters, also get
        ``api_content``, ``timestamp``, ``effect_disposition``, ``message_id`` and ``observed``.
        """
        is_later = include_inactive is not None or repair_alternation is not None
        if not is_later and not client_shows_facts():
            return super().get_messages_as_conversation(session_id, include_ancestors)
        records = self._transcript_replay.records(
            session_id,
            include_ancestors=include_ancestors,
            include_inactive=bool(include_inactive),
        )
        messages = conversation(records, with_ancestors=include_ancestors)
        return alternating(messages) if repair_alternation else messages

    def get_resume_conversations(self, session_id: str) -> tuple[list[Record], list[Record]]:
        """Return what a resume sends to the model, and what it shows, with ancestors."""
        records = self._records_with_ancestors(session_id)
        own = [record for record in records if record["session_id"] == session_id]
        return (
            alternating(conversation(sorted(own, key=lambda record: record["ordinal"]))),
            conversation(records, with_ancestors=True),
        )

    def get_ancestor_display_prefix(self, session_id: str) -> list[Record]:
        """Return the transcripts of the sessions that this one continues, without its own."""
        records = self._records_with_ancestors(session_id)
        return conversation(
            (record for record in records if record["session_id"] != session_id),
            with_ancestors=True,
        )

    def _records_with_ancestors(self, session_id: str) -> list[Any]:
        if not session_id:
            return []
        return list(
            self._transcript_replay.records(
                session_id, include_ancestors=True, include_inactive=False
            )
        )

    def search_messages(
        self,
        query: str | None,
        source_filter: Sequence[str] | None = None,
        exclude_sources: Sequence[str] | None = None,
        role_filter: Sequence[str] | None = None,
        limit: int = 20,
        offset: int = 0,
        sort: Any = None,
        include_inactive: bool = False,
        **options: Any,
    ) -> Any:
        """Return messages that match; an unknown order means relevance."""
        return super().search_messages(
            query,
            source_filter,
            exclude_sources,
            role_filter,
            limit,
            offset,
            sort=sort if sort in _SORTS else None,
            include_inactive=include_inactive,
            **options,
        )

    # ── rewinds ───────────────────────────────────────────────────────────────────────────────

    def rewind_to_message(  # type: ignore[override]  # Hermes names the parameter in its own way
        self,
        session_id: str,
        target_message_id: int | None = None,
        *,
        message_id: int | None = None,
        **options: Any,
    ) -> Any:
        """Hide a user message and everything after it; return ``rewound_count``,
        ``target_message`` and ``new_head_id``, and what `hermes_sessions.SessionDB` returns.

        Raises:
            InvalidInput: the message is not a user message of this session.
        """
        target = message_id if target_message_id is None else target_message_id
        if target is None:
            raise TypeError("rewind_to_message() needs the id of a message")
        message = self._messages.find(session_id, target)
        result = super().rewind_to_message(session_id, target, **options)
        return {
            "rewound_count": result["rewound_count"],
            "target_message": message_dict(message) if message else None,
            "new_head_id": result["new_head_id"],
            "rewind_id": result["rewind_id"],
            "target_text": result["target_text"],
        }

    def restore_rewound(
        self,
        session_id: str,
        since_message_id: int | None = None,
        *,
        fence: int | None = None,
        **options: Any,
    ) -> int:
        """Undo the rewinds that went back to a message or a later one; return how many messages
        came back. Compacted messages stay compacted.
        """
        if since_message_id is None:
            return super().restore_rewound(session_id, fence=fence, **options)
        return self._rewinds.restore_since(session_id, since_message_id, fence=fence)

    def list_recent_user_messages(
        self, session_id: str, limit: int = 20, include_inactive: bool = False
    ) -> Any:
        """Return ``id``, ``timestamp`` and ``preview`` of the newest user messages."""
        return [
            {
                "id": message["id"],
                "timestamp": message["timestamp"],
                "preview": _preview(message["content"]),
            }
            for message in self._rewinds.recent_user_messages(
                session_id, limit, include_inactive=include_inactive
            )
        ]

    # ── export and import ─────────────────────────────────────────────────────────────────────

    def export_session(self, session_id: str) -> Any:
        """Return a session with its ``messages`` in force, or None."""
        exported = super().export_session(session_id)
        return None if exported is None else _exported(exported)

    def export_all(self, source: str | None = None) -> Any:
        """Return all sessions as `export_session` does, with ``last_active``."""
        return [_exported(session, "last_active") for session in super().iter_export(source)]

    def export_session_lineage(self, session_id: str) -> Any:
        """Return the tip of a compression chain as `export_session` does, with the messages of
        the whole chain, ``segments`` and ``lineage_session_ids``; None for an unknown session.
        """
        lineage = self.get_compression_lineage(session_id)
        segments = [found for one in lineage if (found := self.export_session(one))]
        if not segments:
            return None
        messages = [message for segment in segments for message in segment["messages"]]
        return segments[-1] | {
            "segments": segments,
            "lineage_session_ids": lineage,
            "messages": messages,
            "message_count": len(messages),
        }

    def import_sessions(self, sessions: Any, **options: Any) -> Any:
        """Store exported sessions; ids that exist count as skipped. A session without a start
        starts now.

        Raises:
            InvalidInput: it is not a list.
        """
        if not isinstance(sessions, list):
            raise InvalidInput(f"Sessions to import must be a list, not {type(sessions).__name__}.")
        now = self.store.clock()
        started = [
            {**each, "started_at": now} if _has_no_start(each) else each for each in sessions
        ]
        report = super().import_sessions(started, **options)
        conflicts = [conflict["id"] for conflict in report["conflicts"]]
        return report | {
            "skipped": report["skipped"] + len(conflicts),
            "skipped_ids": [*report["skipped_ids"], *conflicts],
            "errors": [
                error | ({"session_id": error["id"]} if "id" in error else {})
                for error in report["errors"]
            ],
        }

    # ── maintenance ───────────────────────────────────────────────────────────────────────────

    def vacuum(self) -> Any:
        """Give unused space back to the system; return how many search indexes there are."""
        super().vacuum()
        return _SEARCH_INDEXES

    def optimize_fts(self) -> int:
        """Merge the pieces of the search index; return how many indexes there are."""
        self.optimize_search()
        return _SEARCH_INDEXES

    def rebuild_fts(self) -> int:
        """Build the search index again from the messages; return how many indexes there are."""
        self.optimize_search(rebuild=True)
        return _SEARCH_INDEXES


def _exported(session: Mapping[str, Any], *more: str) -> Record:
    exported = session_dict({k: v for k, v in session.items() if k != "last_active"})
    return (
        exported
        | {name: session[name] for name in more}
        | {"messages": in_force(session["messages"])}
    )


def _preview(content: Any) -> str:
    text = " ".join(text_of(content).split())
    if not text and isinstance(content, (list, dict)):
        return "[multimodal content]"
    return text if len(text) <= _PREVIEW else f"{text[: _PREVIEW - 3]}..."


def _has_no_start(session: Any) -> bool:
    return isinstance(session, Mapping) and session.get("started_at") is None

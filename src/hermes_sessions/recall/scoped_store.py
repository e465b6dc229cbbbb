"""The store within one scope.

Recall reads only through this class, so that no mode can forget the scope: outside the scope
nothing exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, Final

from hermes_sessions.errors import InvalidInput, NotFound
from hermes_sessions.model.scope import Scope
from hermes_sessions.recall.arguments import CURRENT
from hermes_sessions.recall.message_excerpts import label
from hermes_sessions.storage.search.answer import SearchAnswer
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.text.query.filters import SearchConditions

if TYPE_CHECKING:
    from hermes_sessions.storage.records import (
        AnchoredView,
        MessageRecord,
        MessageWindow,
        SessionListing,
        SessionRecord,
        WorkspaceRecord,
    )

#: Workspaces that an error names.
_WORKSPACES_NAMED: Final = 5

# Sources other than human conversations, and how their sessions are treated.

#: Scheduled work: shown after everything else.
_SCHEDULED: Final = ("cron",)
#: Work for another session: not listed unless requested.
HIDDEN_WHEN_BROWSING: Final = ("subagent", "tool")


DEMOTED_WHEN_BROWSING: Final = _SCHEDULED
#: A search finds all of these, after human conversations.
DEMOTED_WHEN_SEARCHING: Final = (*_SCHEDULED, *HIDDEN_WHEN_BROWSING)


# Dates in the form that models read best: spelled out, in English, whatever the host's locale.


_MONTHS: Final = (
    "January February March April May June July August September October November December"
).split()


def long_date(moment: float, zone: tzinfo | None = None) -> str:
    """Return ``May 01, 2026 at 02:30 PM``, in the host's time zone unless *zone* is given."""
    try:
        then = datetime.fromtimestamp(moment, zone)
    except (ValueError, OverflowError, OSError):
        # The store accepts any number as a time; calendars do not.
        return "unknown"
    half = "PM" if then.hour >= 12 else "AM"
    hour = then.hour % 12 or 12
    month = _MONTHS[then.month - 1]
    return f"{month} {then.day:02}, {then.year} at {hour:02}:{then.minute:02} {half}"


def short_date(moment: float, zone: tzinfo | None = None) -> str:
    """Return ``2026-05-01 14:30``, in the host's time zone unless *zone* is given."""
    try:
        return f"{datetime.fromtimestamp(moment, zone):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return "unknown"


Record = Mapping[str, Any]

_LARGEST_ID = 2**63 - 1


class ScopedStore:
    """Read methods of a `SessionDB`, all within one scope."""

    def __init__(self, db: SessionDB, scope: Scope) -> None:
        self._db = db
        self._scope = scope

    def find_session(self, session_id: str) -> SessionRecord | None:
        """Return a session, or None."""
        return self._db.get_session(session_id, scope=self._scope)

    def list_conversation(self, session_id: str) -> list[SessionRecord]:
        """Return the sessions of a conversation, oldest first."""
        return self._db.list_conversation(session_id, scope=self._scope)

    def list_recent(
        self,
        *,
        source: str | None,
        exclude_sources: Sequence[str],
        workspace: str | None = None,
        limit: int,
        offset: int,
    ) -> list[SessionListing]:
        """Return individual sessions that have messages, latest activity first."""
        return self._db.list_sessions_rich(
            source=source,
            exclude_sources=exclude_sources,
            workspace=workspace,
            limit=limit,
            offset=offset,
            # Not threads: a thread continued by another user would be hidden by its tip.
            include_children=True,
            min_message_count=1,
            compact_rows=True,
            scope=self._scope,
        )

    def find_workspaces(self, name: str) -> list[WorkspaceRecord]:
        """See `SessionDB.find_workspaces`."""
        return self._db.find_workspaces(name, scope=self._scope)

    def list_workspaces(self) -> list[WorkspaceRecord]:
        """See `SessionDB.list_workspaces`."""
        return self._db.list_workspaces(scope=self._scope)

    def list_messages(self, session_id: str, *, limit: int, offset: int = 0) -> list[MessageRecord]:
        """Return messages of a session, in order."""
        return self._db.get_messages(session_id, limit=limit, offset=offset, scope=self._scope)

    def messages_around(self, session_id: str, message_id: int, window: int) -> MessageWindow:
        """See `SessionDB.get_messages_around`; ids of any size are accepted."""
        if not 0 < message_id <= _LARGEST_ID:
            return {"window": [], "messages_before": 0, "messages_after": 0}
        return self._db.get_messages_around(session_id, message_id, window, scope=self._scope)

    def anchored_view(self, session_id: str, message_id: int) -> AnchoredView:
        """See `SessionDB.get_anchored_view`."""
        return self._db.get_anchored_view(session_id, message_id, scope=self._scope)

    def search(
        self,
        query: str,
        conditions: SearchConditions,
        *,
        limit: int,
        sort: str,
        relax: bool = False,
        count: bool = False,
    ) -> SearchAnswer:
        """See `SessionDB.search`."""
        return self._db.search(
            query,
            conditions=conditions,
            limit=limit,
            sort=sort,
            relax=relax,
            count=count,
            scope=self._scope,
        )


# The context of a call, shared by all modes.


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallContext:
    """The caller's context: the visible store, the current conversation and the time zone."""

    store: ScopedStore
    #: The ongoing conversation, which is excluded from recall.
    current_conversation: str | None
    zone: tzinfo | None

    def past_session(self, session_id: str) -> SessionRecord:
        """Return a session.

        Raises:
            NotFound: it does not exist or is out of scope; the message is the same.
            InvalidInput: it belongs to the current conversation.
        """
        session = self.store.find_session(session_id)
        if session is None:
            raise NotFound("There is no session with that id.")
        if session["conversation_id"] == self.current_conversation:
            raise InvalidInput(
                "That session belongs to the current conversation; session_search is for past ones."
            )
        return session

    def workspace(self, name: str, current_session_id: str | None) -> str:
        """Return the name or id of the workspace that an argument means.

        Raises:
            NotFound: there is none; the message names some that exist.
        """
        if name.lower() == CURRENT:
            session = self.store.find_session(current_session_id or "")
            if session is None or session["workspace_id"] is None:
                raise NotFound(
                    "The current conversation belongs to no workspace. Leave workspace out."
                )
            return session["workspace_id"]
        if not self.store.find_workspaces(name):
            known = [label(workspace["name"]) or "" for workspace in self.store.list_workspaces()]
            latest = ", ".join(known[:_WORKSPACES_NAMED]) or "none"
            raise NotFound(f"There is no workspace {name!r}. The latest are: {latest}.")
        return name

    def excluded_conversations(self, session_ids: tuple[str, ...]) -> tuple[str, ...]:
        """Return the ids of the current conversation and of the named sessions' conversations."""
        named = [self.store.find_session(session_id) for session_id in session_ids]
        found = [session["conversation_id"] for session in named if session is not None]
        current = [] if self.current_conversation is None else [self.current_conversation]
        return tuple(dict.fromkeys([*current, *found]))

    def date(self, moment: float) -> str:
        """Return a time formatted for the caller."""
        return long_date(moment, self.zone)

    def short_date(self, moment: float) -> str:
        """Return the time of a message among others, formatted for the caller."""
        return short_date(moment, self.zone)

    def meta(self, session: Record) -> dict[str, Any]:
        """Return the metadata of a session that is opened."""
        return {
            "when": self.date(session["started_at"]),
            "source": label(session["source"]),
            "model": label(session["model"]),
            "title": label(session["title"]),
        }

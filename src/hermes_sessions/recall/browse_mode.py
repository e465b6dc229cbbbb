"""Browse mode: list recent conversations."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from hermes_sessions.model.lineage import SUBAGENT
from hermes_sessions.recall.arguments import RecallArguments
from hermes_sessions.recall.budget import json_tokens, room_for
from hermes_sessions.recall.message_excerpts import label
from hermes_sessions.recall.scoped_store import (
    DEMOTED_WHEN_BROWSING,
    HIDDEN_WHEN_BROWSING,
    RecallContext,
    ScopedStore,
)

if TYPE_CHECKING:
    from hermes_sessions.storage.records import SessionListing

Record = dict[str, Any]

_PAGE: Final = 100
#: The most sessions examined to find some that were active in the requested period.
_LOOKED_AT: Final = 5_000


def browse(context: RecallContext, arguments: RecallArguments) -> Record:
    """Return one row per conversation, latest activity first."""
    left_out = set(context.excluded_conversations(arguments.exclude))
    rows: list[Record] = []
    for sessions in _tiers(context.store, arguments):
        for session in sessions:
            if len(rows) == arguments.limit:
                break
            conversation = session["conversation_id"]
            if conversation in left_out or _is_for_another(context.store, session):
                continue
            left_out.add(conversation)
            rows.append(_row(context, session))
    message = (
        "The most recent conversations. Search them with query, or open one with session_id."
        if rows
        else "There are no past conversations."
    )
    result: Record = arguments.opening() | {"results": [], "count": len(rows), "message": message}
    room = room_for(result, arguments.max_tokens)
    for row in rows:
        room -= json_tokens(row) + 1
        if room < 0:
            break
        result["results"].append(row)
    result["count"] = len(result["results"])
    return result


def _is_for_another(store: ScopedStore, session: SessionListing) -> bool:
    """Whether a session worked for a parent session, which represents the conversation."""
    parent = session["parent_session_id"]
    if parent is None or session["edge_kind"] == SUBAGENT:
        return parent is not None
    return session["edge_kind"] is None and store.find_session(parent) is not None


def _row(context: RecallContext, session: SessionListing) -> Record:
    return {
        "session_id": session["id"],
        "title": label(session["title"]),
        "source": label(session["source"]),
        "when": context.date(session["started_at"]),
        "last_active_when": context.date(session["last_active"]),
        "message_count": session["message_count"],
        "preview": label(session["preview"]),
    }


def _tiers(store: ScopedStore, arguments: RecallArguments) -> Iterator[Iterator[SessionListing]]:
    """Yield sessions by group of sources, each latest first."""
    if arguments.sources is not None:
        streams = [_recent(store, arguments, source=source) for source in arguments.sources]
        yield heapq.merge(*streams, key=lambda session: -session["last_active"])
        return
    yield _recent(store, arguments, exclude=(*HIDDEN_WHEN_BROWSING, *DEMOTED_WHEN_BROWSING))
    for source in DEMOTED_WHEN_BROWSING:
        yield _recent(store, arguments, source=source)


def _recent(
    store: ScopedStore,
    arguments: RecallArguments,
    *,
    source: str | None = None,
    exclude: Sequence[str] = (),
) -> Iterator[SessionListing]:
    """Yield sessions that were active in the requested period, latest first."""
    for offset in range(0, _LOOKED_AT, _PAGE):
        page = store.list_recent(
            source=source,
            exclude_sources=exclude,
            workspace=arguments.workspace,
            limit=_PAGE,
            offset=offset,
        )
        for session in page:
            if arguments.after is not None and session["last_active"] < arguments.after:
                return
            if arguments.before is None or session["last_active"] < arguments.before:
                yield session
        if len(page) < _PAGE:
            return

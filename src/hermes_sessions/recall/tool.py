"""The ``session_search`` tool: one call, four modes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any

from hermes_sessions.errors import InvalidInput, NotFound, StoreError
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.recall.arguments import RecallArguments, read_arguments
from hermes_sessions.recall.browse_mode import browse
from hermes_sessions.recall.budget import stated
from hermes_sessions.recall.discover_mode import discover
from hermes_sessions.recall.scoped_store import RecallContext, ScopedStore
from hermes_sessions.recall.scroll_mode import read, scroll
from hermes_sessions.recall.summaries import Summaries, Summarise, SummaryBounds
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sessiondb import SessionDB

logger = Logger(__name__)

Record = dict[str, Any]


def session_search(
    db: SessionDB,
    query: str | None = None,
    *,
    limit: int = 3,
    sort: str | None = None,
    role_filter: str | Sequence[str] | None = None,
    source: str | Sequence[str] | None = None,
    after: str | float | None = None,
    before: str | float | None = None,
    workspace: str | None = None,
    session_id: str | None = None,
    around_message_id: int | None = None,
    window: int = 5,
    exclude_conversations: Sequence[str] = (),
    max_tokens: int = 8_000,
    scope: Scope = OWNER,
    current_session_id: str | None = None,
    summarise: Summarise | None = None,
    summary_bounds: SummaryBounds | None = None,
    zone: tzinfo | None = None,
    clock: Callable[[], float] = time.time,
) -> Record:
    """Recall past conversations: recent ones, those that answer *query*, or one of them.

    Returns a JSON-serialisable dict of at most *max_tokens*, with ``success`` and, when that is
    False, ``error``. docs/recall.md describes the four modes. Only what *scope* permits is
    returned or counted; the default is the owner of the store, who sees everything. The
    conversation of *current_session_id* never appears.

    Args:
        summarise: an auxiliary model that summarises the results of a query.
        zone: the time zone of dates; the host's by default.
        clock: the current time, from which ages such as ``after="7d"`` count.

    Raises:
        StoreError: the store cannot be read.
    """
    given = {
        "query": query,
        "limit": limit,
        "sort": sort,
        "role_filter": role_filter,
        "source": source,
        "after": after,
        "before": before,
        "workspace": workspace,
        "session_id": session_id,
        "around_message_id": around_message_id,
        "window": window,
        "exclude_conversations": list(exclude_conversations),
        "max_tokens": max_tokens,
    }
    host = _ToolCall(db, scope, current_session_id, summarise, summary_bounds, zone, clock)
    return host.answer(given)


def call(
    db: SessionDB,
    arguments: Mapping[str, Any] | str | None,
    *,
    scope: Scope,
    current_session_id: str | None = None,
    summarise: Summarise | None = None,
    summary_bounds: SummaryBounds | None = None,
    zone: tzinfo | None = None,
    clock: Callable[[], float] = time.time,
) -> Record:
    """Answer a model's tool call as `session_search` does.

    *arguments* is what the model sent, an object or its JSON text. Invalid values are ignored,
    noted or answered with an error, never raised; so is a store that cannot be read. *scope* has
    no default, because an agent always calls on behalf of a user.
    """
    host = _ToolCall(db, scope, current_session_id, summarise, summary_bounds, zone, clock)
    try:
        return host.answer(arguments)
    except StoreError as error:
        # The details are for the operator, not for the user of the agent.
        logger.warning("session_search could not read the store: %s", error)
        return _error("The session store cannot be read at the moment.")


@dataclass(frozen=True, slots=True)
class _ToolCall:
    """The part of a call that the host decides, not the model."""

    db: SessionDB
    scope: Scope
    current_session_id: str | None
    summarise: Summarise | None
    summary_bounds: SummaryBounds | None
    zone: tzinfo | None
    clock: Callable[[], float]

    def answer(self, raw: Mapping[str, Any] | str | None) -> Record:
        """Return the result of one call."""
        try:
            arguments = read_arguments(raw, now=self.clock(), zone=self.zone)
            result = self._shape(arguments)
        except (InvalidInput, NotFound) as error:
            return _error(str(error))
        return stated(result, arguments.max_tokens)

    def _shape(self, arguments: RecallArguments) -> Record:
        context = self._asker()
        if arguments.workspace is not None and arguments.mode in ("browse", "discover"):
            workspace = context.workspace(arguments.workspace, self.current_session_id)
            arguments = replace(arguments, workspace=workspace)
        match arguments.mode:
            case "browse":
                return browse(context, arguments)
            case "discover":
                return discover(context, arguments, self._summaries())
            case "scroll":
                return scroll(context, arguments)
            case "read":
                return read(context, arguments)

    def _asker(self) -> RecallContext:
        current = self.current_session_id
        return RecallContext(
            store=ScopedStore(self.db, self.scope),
            current_conversation=None
            if current is None
            else self.db.get_conversation_root(current),
            zone=self.zone,
        )

    def _summaries(self) -> Summaries | None:
        if self.summarise is None:
            return None
        return Summaries(self.summarise, self.summary_bounds or SummaryBounds())


def _error(text: str) -> Record:
    return {"success": False, "error": text}

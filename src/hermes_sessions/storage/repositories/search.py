"""Search: queries, and the maintenance of the search index."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from hermes_sessions.errors import HermesSessionsError, InvalidInput
from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.reader_upkeep import STEP_SECONDS
from hermes_sessions.storage.repositories.stale_sessions import settle_first
from hermes_sessions.storage.search.answer import SearchAnswer
from hermes_sessions.storage.search.executor import SearchExecutor, SearchRequest, Sort
from hermes_sessions.storage.search.index_maintenance import IndexMaintenance
from hermes_sessions.storage.store_context import StoreContext
from hermes_sessions.text.query.filters import HAS_VALUES, SearchConditions

if TYPE_CHECKING:
    from hermes_sessions.storage.records import IndexStatus, OptimizeResult, SearchHit

logger = Logger(__name__)

#: Limits of the indexing at `close`: messages and seconds. Other processes index the rest.
_ON_CLOSE: Final = 200
_SECONDS_ON_CLOSE: Final = 5.0
#: Seconds that background work waits for other writers.
_BACKGROUND_PATIENCE: Final = 0.5
_SORTS: Final = ("relevance", "newest", "oldest")
_EVERYTHING: Final = 2**31
_DOCUMENTED: Final = (
    "id",
    "session_id",
    "role",
    "snippet",
    "timestamp",
    "tool_name",
    "source",
    "model",
    "session_started",
    "context",
    "title",
    "conversation_id",
    "ordinal",
    "matched",
    "snippet_text",
    "spans",
)


class Search:
    """Answers searches and maintains the index."""

    def __init__(
        self, store: StoreContext, on_backlog: Callable[[int], None] = lambda _: None
    ) -> None:
        """*on_backlog* is called after a search with the number of messages not yet indexed."""
        self._store = store
        self._maintenance = IndexMaintenance(store, store.provider.search_index)
        self._executor = SearchExecutor(
            store, store.provider.search_index, self._maintenance, on_backlog
        )

    def messages(
        self,
        query: str | None,
        *,
        source_filter: Sequence[str] | None,
        exclude_sources: Sequence[str] | None,
        role_filter: Sequence[str] | None,
        limit: int,
        offset: int,
        sort: str | None,
        include_inactive: bool,
        conditions: SearchConditions | None,
        scope: Scope,
    ) -> list[SearchHit]:
        """See `SessionDB.search_messages`."""
        self._check_open()
        wanted_sort = _sort(sort)
        _require_types(query, scope, limit=limit, offset=offset)
        conditions = _checked(conditions)
        if limit == 0 or not (query or "").strip():
            return []
        documented = SearchConditions(
            sources=None if source_filter is None else tuple(source_filter),
            exclude_sources=tuple(exclude_sources or ()),
            roles=tuple(role_filter or ()),
            include_rewound=include_inactive,
        )
        request = SearchRequest(
            text=query or "",
            conditions=(conditions, documented),
            scope=scope,
            limit=_EVERYTHING if limit < 0 else min(limit, _EVERYTHING),
            offset=min(max(offset, 0), _EVERYTHING),
            sort=wanted_sort,
            count=False,
        )
        settle_first(self._store)
        answer = self._executor.answer(request)
        return [
            cast("SearchHit", {name: getattr(hit, name) for name in _DOCUMENTED})
            for hit in answer.hits
        ]

    def answer(
        self,
        query: str,
        *,
        conditions: SearchConditions | None,
        limit: int,
        sort: str | None,
        cursor: str | None,
        relax: bool,
        count: bool,
        scope: Scope,
    ) -> SearchAnswer:
        """See `SessionDB.search`."""
        self._check_open()
        _require_types(query, scope, limit=limit)
        if limit < 1:
            raise InvalidInput(f"limit must be 1 or more, not {limit}.")
        conditions = _checked(conditions)
        started = time.perf_counter()
        settle_first(self._store)
        answer = self._executor.answer(
            SearchRequest(
                text=query or "",
                conditions=(conditions,),
                scope=scope,
                limit=min(limit, _EVERYTHING),
                sort=_sort(sort),
                cursor=cursor,
                relax=relax,
                count=count,
            )
        )
        answer.report.elapsed_ms = round((time.perf_counter() - started) * 1000, 3)
        return answer

    def _check_open(self) -> None:
        # A closed handle raises for every query, even an empty one.
        _ = self._store.provider.read_only

    def status(self) -> IndexStatus:
        """See `SessionDB.search_index_status`."""
        with self._store.provider.read() as tx:
            lag = self._maintenance.lag(tx)
        return {"complete": lag.complete, "pending": lag.pending, "indexed_through": lag.through}

    def optimize(
        self, *, rebuild: bool, on_progress: Callable[[int, int], None] | None
    ) -> OptimizeResult:
        """See `SessionDB.optimize_search`."""
        if rebuild:
            self._maintenance.discard_index()
        with self._store.provider.read() as tx:
            lag = self._maintenance.lag(tx)
        total = lag.pending + lag.titles
        indexed = 0

        def note(step: int) -> None:
            nonlocal indexed
            indexed += step
            if on_progress is not None:
                on_progress(indexed, max(total, indexed))

        self._maintenance.catch_up(on_step=note)
        rebuilt = self._maintenance.tidy()
        return {"indexed": indexed, "rebuilt": rebuild or rebuilt}

    def catch_up(self, is_unwanted: Callable[[], bool] = lambda: False) -> None:
        """Index the messages that wait now and merge a little, unless *is_unwanted* says to stop.

        Messages that arrive meanwhile wait for the next call: indexing a stream in small batches
        would cost more than storing it.
        """
        with self._store.provider.read() as tx:
            lag = self._maintenance.lag(tx)
        waiting = lag.pending + lag.titles if lag.usable else None
        if waiting != 0:
            self._maintenance.catch_up(
                waiting, patience=_BACKGROUND_PATIENCE, is_unwanted=is_unwanted
            )
        if not is_unwanted():
            self._maintenance.tidy_once(patience=_BACKGROUND_PATIENCE)

    def finish(self) -> None:
        """Index a bounded number of waiting messages before the process ends."""
        try:
            self._maintenance.catch_up(
                _ON_CLOSE,
                patience=_BACKGROUND_PATIENCE,
                seconds=_SECONDS_ON_CLOSE,
                step_seconds=STEP_SECONDS,
            )
        except HermesSessionsError as error:
            # The next search or process catches up.
            logger.info("could not update the search index now: %s", error)


def _require_types(query: object, scope: object, **numbers: object) -> None:
    if query is not None and not isinstance(query, str):
        raise InvalidInput(f"query must be text, not {type(query).__name__}.")
    if not isinstance(scope, Scope):
        raise InvalidInput(
            f"scope must be a Scope, not {type(scope).__name__}; leave it out to ask as the owner."
        )
    for name, number in numbers.items():
        if not isinstance(number, int):
            raise InvalidInput(f"{name} must be a whole number, not {type(number).__name__}.")


def _checked(conditions: SearchConditions | None) -> SearchConditions:
    conditions = conditions or SearchConditions()
    for value in (*conditions.has, *conditions.exclude_has):
        if value not in HAS_VALUES:
            raise InvalidInput(f"has must be one of: {', '.join(HAS_VALUES)}; not {value!r}.")
    return conditions


def _sort(sort: str | None) -> Sort:
    if sort is None:
        return "relevance"
    if sort not in _SORTS:
        raise InvalidInput(f"sort must be one of: {', '.join(_SORTS)}; not {sort!r}.")
    return sort  # type: ignore[return-value]

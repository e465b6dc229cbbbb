"""Execute a search: parse the query, collect matches, order them, and build one page of hits.

The index returns candidates. Shared code decides where the index is not exact, ranks and cuts
snippets, so the same query has the same answer on every database. A search does not wait for
writers: it reads messages directly that it cannot index within a moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final, Literal

from hermes_sessions.errors import InvalidInput, StoreUnavailable
from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import placeholders
from hermes_sessions.storage.reader_upkeep import STEP_SECONDS, is_paused, run_before_read
from hermes_sessions.storage.search.answer import (
    COUNT_LIMIT,
    Cursor,
    SearchAnswer,
    SearchReport,
    checksum,
    read_cursor,
    write_cursor,
)
from hermes_sessions.storage.search.candidate_reader import (
    EVERY_MATCH,
    MAX_TITLES,
    SCANNED,
    SCANNED_TITLES,
    TAIL,
    CandidateReader,
    Key,
)
from hermes_sessions.storage.search.hit_builder import MatchedMessage, build_hits
from hermes_sessions.storage.search.index_maintenance import IndexMaintenance
from hermes_sessions.storage.search.index_port import IndexDamaged, SearchIndex
from hermes_sessions.storage.search.sql_conditions import SQLCondition, as_sql, scope_as_sql
from hermes_sessions.storage.store_context import StoreContext
from hermes_sessions.text.query.filters import SearchConditions, read_filters
from hermes_sessions.text.query.parser import parse
from hermes_sessions.text.query.relaxation import (
    ANY_WORD,
    AS_ASKED,
    INSIDE_WORDS,
    alternatives,
    steps,
)
from hermes_sessions.text.query.tree import (
    Node,
    Not,
    all_of,
    any_of,
    is_bound,
    sides_of,
    spelled,
    terms_of,
    words_of,
)
from hermes_sessions.text.relevance import BACKGROUND_SOURCES, order, question_in, scores
from hermes_sessions.text.synonyms import Synonyms, read_synonyms

logger = Logger(__name__)

__all__ = [
    "EVERY_MATCH",
    "MAX_TITLES",
    "RANKED",
    "SCANNED",
    "SCANNED_TITLES",
    "SCANNED_UNASKED",
    "TAIL",
    "SearchExecutor",
    "SearchRequest",
    "Sort",
]

Sort = Literal["relevance", "newest", "oldest"]

#: The number of newest matches that are ranked by relevance.
RANKED: Final = 200
#: The newest matches that are ranked of each word of a longer query, and of each two words; how
#: many words are looked up alone, and how many in pairs.
_NEWEST_EACH: Final = 50
_MAX_WORDS: Final = 32
_MAX_PAIRED: Final = 8
#: The most messages a scan reads when it looks inside words as the last step of relaxation,
#: without a request for it in the query.
SCANNED_UNASKED: Final = 4_000
#: Seconds that a search waits for other writers before it gives up updating the index.
_PATIENCE: Final = 0.05
#: The most seconds that a search spends on indexing; it reads the remaining messages directly.
_MAX_UPDATE_SECONDS: Final = 10.0
#: Ranked matches of one session above which matches of other sessions are added, and the most
#: rounds of adding them.
_MAX_PER_SESSION: Final = RANKED // 8
_DIVERSIFY_ROUNDS: Final = 3
#: The most operands that are counted separately.
_MAX_SIDES: Final = 10
#: Parameters reserved for a statement besides those of scope and filters.
_OTHER_PARAMS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search: the query text, filters, scope, order and page."""

    text: str
    #: Filters given as parameters. All of them apply, whatever the query text contains.
    conditions: tuple[SearchConditions, ...]
    scope: Scope
    limit: int
    sort: Sort = "relevance"
    offset: int = 0
    cursor: str | None = None
    relax: bool = True
    count: bool = True
    #: The filters in the query text, which apply in addition.
    query_filters: SearchConditions = field(default_factory=SearchConditions)

    @property
    def checksum(self) -> int:
        """A checksum that identifies the result list."""
        return checksum(self.text, self.conditions, self.scope, self.sort, self.relax)


class SearchExecutor:
    """Answers search requests on one store."""

    def __init__(
        self,
        store: StoreContext,
        index: SearchIndex,
        maintenance: IndexMaintenance,
        on_backlog: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Call *on_backlog* after a search with the number of messages that are not indexed yet."""
        self._store = store
        self._index = index
        self._maintenance = maintenance
        self._on_backlog = on_backlog

    def answer(self, request: SearchRequest) -> SearchAnswer:
        """Return the hits and the report. Every query text is valid.

        Raises:
            InvalidInput: the cursor does not belong to this search, or there are more filter values
                than the database accepts.
        """
        question = request.checksum
        query = parse(request.text)
        cursor = read_cursor(request.cursor, question) if request.cursor is not None else None
        now = cursor.asked_at if cursor else self._store.clock()
        query_filters, problems = read_filters(query.filters, now)
        repairs = [*query.repairs, *problems]
        if query.node is None and not any(c.given() for c in (*request.conditions, query_filters)):
            notes = ["The query is empty."]
            return SearchAnswer(
                hits=[], report=SearchReport(query=request.text, repairs=repairs, notes=notes)
            )
        request = replace(request, query_filters=query_filters)
        start = cursor or Cursor(question=question, asked_at=now, offset=request.offset)
        try:
            report = SearchReport(query=request.text, repairs=repairs)
            return self._answer(request, query.node, report, start)
        except IndexDamaged as error:
            logger.warning("the search index is damaged and will be rebuilt: %s", error)
            # Start a new report: the values that came from the damaged index are wrong.
            report = SearchReport(query=request.text, repairs=repairs)
            report.notes.append("The search index was damaged and is being rebuilt.")
            return self._answer(request, query.node, report, start, is_damaged=True)

    def _answer(
        self,
        request: SearchRequest,
        node: Node | None,
        report: SearchReport,
        start: Cursor,
        *,
        is_damaged: bool = False,
    ) -> SearchAnswer:
        self._check_size(request)
        can_write = not self._store.provider.read_only
        is_updated = self._bring_index_up_to_date(rebuild=is_damaged)
        with self._store.provider.read() as tx:
            is_unusable = not is_updated and (is_damaged or self._index.is_locked(tx))
            lag = self._maintenance.lag(tx, is_damaged=is_unusable)
            reader = CandidateReader(
                tx,
                self._index,
                lag,
                self._store.provider.dialect,
                scope=request.scope,
                parameter_filters=request.conditions,
                query_filters=request.query_filters,
                through=start.through,
                report=report,
            )
            search = _Search(reader, request, report, start, read_synonyms(self._store.synonyms))
            page, cursor = search.run(node)
            hits = build_hits(tx, page, include_rewound=reader.include_rewound)
        if can_write and not lag.complete:
            if is_paused(self._store.provider):
                report.notes.append(
                    "The database does not accept updates of the search index now; messages that "
                    "are not indexed are searched directly."
                )
            self._on_backlog(lag.pending)
        next_cursor = write_cursor(cursor) if cursor is not None else None
        return SearchAnswer(hits=hits, report=report, next_cursor=next_cursor)

    def _bring_index_up_to_date(self, *, rebuild: bool) -> bool:
        """Index a bounded number of new messages; return whether the store could be written."""

        def update() -> None:
            if rebuild:
                with self._store.provider.limit_waits(STEP_SECONDS):
                    self._maintenance.discard_index(patience=_PATIENCE)
            self._maintenance.catch_up(
                TAIL, patience=_PATIENCE, seconds=_MAX_UPDATE_SECONDS, step_seconds=STEP_SECONDS
            )

        # A failure does not matter: messages that are not indexed are read directly.
        return run_before_read(
            self._store.provider, update, "the search index", (StoreUnavailable, IndexDamaged)
        )

    def _check_size(self, request: SearchRequest) -> None:
        dialect = self._store.provider.dialect
        limit = dialect.max_params - _OTHER_PARAMS
        filters = as_sql([*request.conditions, request.query_filters], dialect)
        wanted = (scope_as_sql(request.scope), *filters.values())
        if (params := sum(len(condition.params) for condition in wanted)) > limit:
            raise InvalidInput(
                f"The filters have too many values: {params:,}. Use at most {limit:,} in one "
                f"search."
            )


class _Search:
    """One request on one snapshot of the database."""

    def __init__(
        self,
        reader: CandidateReader,
        request: SearchRequest,
        report: SearchReport,
        start: Cursor,
        synonyms: Synonyms,
    ) -> None:
        self._synonyms = synonyms
        self._reader = reader
        self._request = request
        self._report = report
        self._start = start
        self._by_time = request.sort != "relevance"
        self._question = question_in(request.text)
        #: The result list from its beginning, or from the cursor's key, as far as it is needed.
        self._listed: list[MatchedMessage] = []
        #: Whether the list continues by time after its end here.
        self._continues_by_time = False

    def run(self, node: Node | None) -> tuple[list[MatchedMessage], Cursor | None]:
        """Return a page of the list and the cursor to the next one."""
        self._by_time = self._by_time or not terms_of(node)
        readings: list[Node] = []
        if node is None or self._start.key is not None:
            self._list(node)
        else:
            readings = self._relax(node)
        if node is not None:
            self._reader.note_truncated_messages()
        first = self._page_start()
        end = first + self._request.limit
        page = self._listed[first:end]
        # Hits that moved behind the last shown hit leave fewer than a page; more may follow.
        was_cut_short = first > self._start.offset and len(self._listed) >= self._needed_length()
        has_more = len(self._listed) > end or was_cut_short
        if self._request.count:
            self._count(any_of(readings) or node)
            if not self._listed and self._start.offset == 0:
                self._reader.note_contradicting_filters()
                self._count_sides(node)
        return page, self._next_cursor(page, first) if has_more and page else None

    def _page_start(self) -> int:
        """Return the index at which the page begins: after the last shown hit, wherever it is now;
        if that hit no longer exists, after the same number of hits.
        """
        if self._start.key is not None:
            return 0
        for position, item in enumerate(self._listed):
            if item.id == self._start.last_id:
                return position + 1
        return self._start.offset

    def _next_cursor(self, page: list[MatchedMessage], first: int) -> Cursor:
        last = page[-1]
        before = first if self._start.key is None else self._start.offset
        is_ranked = last.score is not None
        return replace(
            self._start,
            through=self._reader.through,
            offset=before + len(page),
            last_id=last.id,
            key=None if is_ranked or not self._continues_by_time else last.time_key,
        )

    # ── steps of relaxation ───────────────────────────────────────────────────────────────────

    def _needed_length(self) -> int:
        """Return the needed length of the list: one more than is shown, to detect a next page."""
        before = 0 if self._start.key is not None else self._start.offset
        return before + self._request.limit + 1

    def _relax(self, node: Node) -> list[Node]:
        """Try the steps of relaxation until one finds something, and until a page is full unless
        the query is a few words that were found as asked; return the trees that were tried.

        The hits of an earlier step come first.
        """
        tried: list[Node] = []
        is_plain = self._question.is_plain and not is_bound(node)
        for name, reading in steps(node, synonyms=self._synonyms, is_known=self._reader.has_match):
            if name == INSIDE_WORDS:
                if self._listed:
                    break
                self._reader.budget = min(self._reader.budget, SCANNED_UNASKED)
            tried.append(reading)
            before = len(self._listed)
            self._list(reading, spread=name == ANY_WORD)
            if before and len(self._listed) > before:
                self._note_further_hits(name, before)
            elif self._listed and not before:
                self._report.step = name
                if name == INSIDE_WORDS:
                    self._report.notes.append(
                        "Nothing matched as whole words; searched inside words."
                    )
            if len(self._listed) >= self._needed_length():
                break
            if self._listed and name == AS_ASKED and not is_plain:
                break
            if not self._request.relax:
                break
        # A list of several steps cannot continue by time.
        self._continues_by_time = self._continues_by_time and len(tried) == 1
        return tried

    def _list(self, node: Node | None, *, spread: bool = False) -> None:
        """Add the matches of a tree to the list, at least as many as are needed."""
        known = {item.id for item in self._listed}
        needed = self._needed_length()
        if node is None or self._by_time:
            found = self._matches_by_time(node, needed)
            self._continues_by_time = True
        else:
            found = self._matches_by_relevance(node, needed, spread=spread)
        for item in found:
            item.reading = node
        self._listed += [item for item in found if item.id not in known]

    def _matches_by_time(self, node: Node | None, needed: int) -> list[MatchedMessage]:
        """Return matches by time; a match by title has the time of the message that is shown."""
        oldest, key = self._request.sort == "oldest", self._start.key
        found = self._reader.matches(node, needed, oldest=oldest, beyond=key)
        if node is None or not terms_of(node):
            return found
        last = found[-1].time_key if len(found) >= needed else None

        def is_in_page(item: MatchedMessage) -> bool:
            is_shown_before = key is not None and not _follows(item.time_key, key, oldest=oldest)
            return not is_shown_before and (
                last is None or _follows(last, item.time_key, oldest=oldest)
            )

        titled = self._reader.by_title(node, is_in_page)
        found += [item for item in titled if item.matched == "title"]
        found.sort(key=lambda item: item.time_key, reverse=not oldest)
        return found[:needed]

    # ── relevance ─────────────────────────────────────────────────────────────────────────────

    def _matches_by_relevance(
        self, node: Node, needed: int, *, spread: bool
    ) -> list[MatchedMessage]:
        """Return the ranked matches, followed by the others in order of time."""
        ranked = self._rank(self._pool(node, spread=spread), node)
        others: list[MatchedMessage] = []
        if len(ranked) >= RANKED or spread:
            self._continues_by_time = True
            known = {item.id for item in ranked}
            if self._start.key is not None or len(ranked) < needed:
                found = self._reader.matches(node, needed + len(known), beyond=self._start.key)
                others = [item for item in found if item.id not in known]
        return others if self._start.key is not None else ranked + others

    def _pool(self, node: Node, *, spread: bool) -> list[MatchedMessage]:
        """Return the matches to rank: the newest, from different words, sessions and sources."""
        found = self._reader.last_stored(node, RANKED)
        pool = {item.id: item for item in found}
        if len(found) == RANKED:
            pool |= {item.id: item for item in self._diversify(node, found)}
            if spread:
                pool |= {item.id: item for item in self._older_matches(alternatives(node))}
        for item in self._reader.by_title(node):
            pool.setdefault(item.id, item)
        return list(pool.values())

    def _older_matches(self, parts: list[Node]) -> list[MatchedMessage]:
        """Return the newest matches of each word and of each pair of frequent words, so that
        neither a frequent word hides a rare one nor a new match hides an old one with more words.
        """
        matches: list[MatchedMessage] = []
        frequent: list[Node] = []
        for part in parts[:_MAX_WORDS]:
            found = self._reader.last_stored(part, _NEWEST_EACH)
            matches += found
            if len(found) == _NEWEST_EACH:
                frequent.append(part)
        for first, second in combinations(frequent[:_MAX_PAIRED], 2):
            if (both := all_of([first, second])) is not None:
                matches += self._reader.last_stored(both, _NEWEST_EACH)
        return matches

    def _diversify(self, node: Node, found: list[MatchedMessage]) -> list[MatchedMessage]:
        """Return more matches, without background sources and without the sessions that have most
        of *found*, so that a noisy session or a scheduled job does not hide the others.
        """
        others: list[MatchedMessage] = []
        crowds: set[str] = set()
        for _ in range(_DIVERSIFY_ROUNDS):
            sizes = Counter(item.match.session_id for item in found)
            crowded = {session_id for session_id, size in sizes.items() if size > _MAX_PER_SESSION}
            has_background = any(item.match.source in BACKGROUND_SOURCES for item in found)
            if not crowded and not has_background:
                break
            crowds |= crowded
            where = self._reader.where() & _outside_sessions(crowds)
            found = self._reader.last_stored(node, RANKED // 2, where=where)
            others += found
            if len(found) < RANKED // 2:
                break
        return others

    def _rank(self, found: list[MatchedMessage], node: Node) -> list[MatchedMessage]:
        points = scores([item.match for item in found], words_of(node), self._question)
        self._report.ranked = max(self._report.ranked, len(found))
        for item, score in zip(found, points, strict=True):
            item.score = score
        return [found[i] for i in order([item.match for item in found], points)]

    def _note_further_hits(self, step: str, before: int) -> None:
        if self._report.step == AS_ASKED:
            self._report.notes.append(f"Found {before:,} as asked, the others by {step}.")

    # ── counting ──────────────────────────────────────────────────────────────────────────────

    def _count(self, tree: Node | None) -> None:
        """Report the number of matches, and how many more there are without each filter."""
        report, reader = self._report, self._reader
        if self._start.key is None and len(self._listed) < self._needed_length():
            report.total, report.total_is_exact = len(self._listed), report.complete
        else:
            report.total, report.total_is_exact = reader.count_matches(tree)
            if report.total_is_exact and tree is not None and terms_of(tree):
                by_title = [item for item in reader.by_title(tree) if item.matched == "title"]
                report.total = min(report.total + len(by_title), COUNT_LIMIT)
                report.total_is_exact = report.total_is_exact and report.total < COUNT_LIMIT
        for name in reader.filters:
            removed, _ = reader.count_matches(tree, reader.where(removed_by=name))
            if removed:
                report.removed[name] = removed

    def _count_sides(self, node: Node | None) -> None:
        """Report the number of matches of each operand, when no message matches all of them."""
        sides = sides_of(node)[:_MAX_SIDES] if node is not None else []
        wanted = [side for side in sides if not isinstance(side, Not)]
        for side in sides:
            counted = side if not isinstance(side, Not) else all_of([*wanted, side.node])
            self._report.sides[spelled(side)], _ = self._reader.count_matches(counted)
        if sides:
            counts = ", ".join(f"{name} ({n:,})" for name, n in self._report.sides.items())
            self._report.notes.append(
                f"No message matches all of: {counts}. Remove operators and quotes to find "
                f"messages that match some of them."
            )


def _follows(key: Key, before: Key, *, oldest: bool) -> bool:
    return key > before if oldest else key < before


def _outside_sessions(sessions: set[str]) -> SQLCondition:
    marks = placeholders(len(BACKGROUND_SOURCES))
    where = SQLCondition(f"s.source NOT IN ({marks})", tuple(sorted(BACKGROUND_SOURCES)))
    if sessions:
        marks = placeholders(len(sessions))
        where &= SQLCondition(f"m.session_id NOT IN ({marks})", tuple(sorted(sessions)))
    return where

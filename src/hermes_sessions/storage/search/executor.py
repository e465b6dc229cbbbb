"""Finds messages: read the question, gather matches, order them, show a page.

The index gives candidates; shared code decides wherever the index is not exact, ranks and cuts
snippets, so that the same question has the same answer on every database. A search never waits for
writers: what it cannot index in a moment, it looks at directly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
    MOST_TITLES,
    SCANNED,
    SCANNED_TITLES,
    TAIL,
    CandidateReader,
    Key,
)
from hermes_sessions.storage.search.index_maintenance import IndexMaintenance
from hermes_sessions.storage.search.index_port import IndexDamaged, SearchIndex
from hermes_sessions.storage.search.snippet_builder import MatchedMessage, show
from hermes_sessions.storage.search.sql_conditions import Where, as_sql, scope_as_sql
from hermes_sessions.storage.store import Store
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
    sides_of,
    spelled,
    terms_of,
)
from hermes_sessions.text.relevance import BACKGROUND_SOURCES, order, scores

logger = Logger(__name__)

__all__ = [
    "EVERY_MATCH",
    "MOST_TITLES",
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

#: Relevance is computed over this many of the newest matches.
RANKED: Final = 200
#: Messages a scan looks at when nobody asked to look inside words and it is the last thing tried.
SCANNED_UNASKED: Final = 4_000
#: Seconds that a search waits for its turn to bring the index up to date.
PATIENCE: Final = 0.05
#: Seconds that a search indexes at most; what is missing then, it looks at directly.
_LONGEST_UPDATE: Final = 10.0
#: Of the matches that are ranked, so many may be of one session before others are looked for; and
#: how often.
_CROWD: Final = RANKED // 8
_ROUNDS: Final = 3
#: Sides of operators that are counted by themselves.
_MOST_SIDES: Final = 10
#: Parameters that a statement has beside those of scope and filters.
_OTHER_PARAMS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """What is asked: the text, and everything around it."""

    text: str
    #: Parameters: each of them holds, whatever the text says.
    conditions: tuple[SearchConditions, ...]
    scope: Scope
    limit: int
    sort: Sort = "relevance"
    offset: int = 0
    cursor: str | None = None
    relax: bool = True
    count: bool = True
    #: The filters of the text, which narrow further.
    asked: SearchConditions = field(default_factory=SearchConditions)

    @property
    def checksum(self) -> int:
        """What tells the list that is asked for from others."""
        return checksum(self.text, self.conditions, self.scope, self.sort, self.relax)


class SearchExecutor:
    """Answers requests on one store."""

    def __init__(
        self,
        store: Store,
        index: SearchIndex,
        maintenance: IndexMaintenance,
        on_backlog: Callable[[int], None] = lambda _: None,
    ) -> None:
        """*on_backlog* is told how many messages are left to be indexed after a search."""
        self._store = store
        self._index = index
        self._maintenance = maintenance
        self._on_backlog = on_backlog

    def answer(self, request: SearchRequest) -> SearchAnswer:
        """Return hits and the account of them. Any text is a question; none raises.

        Raises:
            InvalidInput: the cursor is not one of this question, or there are more filter values
                than the database takes.
        """
        question = request.checksum
        query = parse(request.text)
        cursor = read_cursor(request.cursor, question) if request.cursor is not None else None
        now = cursor.asked_at if cursor else self._store.clock()
        asked, problems = read_filters(query.filters, now)
        repairs = [*query.repairs, *problems]
        if query.node is None and not any(c.given() for c in (*request.conditions, asked)):
            notes = ["There is nothing to search for."]
            return SearchAnswer(
                hits=[], account=SearchReport(query=request.text, repairs=repairs, notes=notes)
            )
        request = replace(request, asked=asked)
        start = cursor or Cursor(question=question, asked_at=now, offset=request.offset)
        try:
            account = SearchReport(query=request.text, repairs=repairs)
            return self._answer(request, query.node, account, start)
        except IndexDamaged as error:
            logger.warning("the search index is made anew: %s", error)
            # What the damaged index said does not count.
            account = SearchReport(query=request.text, repairs=repairs)
            account.notes.append("The search index was damaged; it is made anew.")
            return self._answer(request, query.node, account, start, is_damaged=True)

    def _answer(
        self,
        request: SearchRequest,
        node: Node | None,
        account: SearchReport,
        start: Cursor,
        *,
        is_damaged: bool = False,
    ) -> SearchAnswer:
        self._check_size(request)
        can_write = not self._store.provider.read_only
        if self._bring_index_up_to_date(anew=is_damaged):
            is_damaged = False
        with self._store.provider.read() as tx:
            lag = self._maintenance.lag(tx, is_damaged=is_damaged)
            reader = CandidateReader(
                tx,
                self._index,
                lag,
                self._store.provider.dialect,
                scope=request.scope,
                given=request.conditions,
                asked=request.asked,
                through=start.through,
                account=account,
            )
            page, cursor = _Search(reader, request, account, start).run(node)
            hits = show(tx, page, include_rewound=reader.include_rewound)
        if can_write and not lag.complete:
            if is_paused(self._store.provider):
                account.notes.append(
                    "The database does not accept updates of the search index now; what it lacks "
                    "is searched directly."
                )
            self._on_backlog(lag.pending)
        next_cursor = write_cursor(cursor) if cursor is not None else None
        return SearchAnswer(hits=hits, account=account, next_cursor=next_cursor)

    def _bring_index_up_to_date(self, *, anew: bool) -> bool:
        """Index what is missing, as far as it is not too much; return whether that was possible."""

        def update() -> None:
            if anew:
                with self._store.provider.limit_waits(STEP_SECONDS):
                    self._maintenance.discard_index(patience=PATIENCE)
            self._maintenance.catch_up(
                TAIL, patience=PATIENCE, seconds=_LONGEST_UPDATE, step_seconds=STEP_SECONDS
            )

        # The question is answered all the same, from the index and what it lacks.
        return run_before_read(
            self._store.provider, update, "the search index", (StoreUnavailable, IndexDamaged)
        )

    def _check_size(self, request: SearchRequest) -> None:
        dialect = self._store.provider.dialect
        limit = dialect.max_params - _OTHER_PARAMS
        filters = as_sql([*request.conditions, request.asked], dialect)
        wanted = (scope_as_sql(request.scope), *filters.values())
        if (params := sum(len(condition.params) for condition in wanted)) > limit:
            raise InvalidInput(
                f"There are too many values to filter by: {params:,}; at most {limit:,} can be "
                f"used at once."
            )


class _Search:
    """One request on one state of the database."""

    def __init__(
        self, reader: CandidateReader, request: SearchRequest, account: SearchReport, start: Cursor
    ) -> None:
        self._reader = reader
        self._request = request
        self._account = account
        self._start = start
        self._by_time = request.sort != "relevance"
        #: The list from its beginning, as far as it is needed; or, with a key, from there on.
        self._listed: list[MatchedMessage] = []
        #: Whether the list goes on by time where it ends here.
        self._goes_on_by_time = False

    def run(self, node: Node | None) -> tuple[list[MatchedMessage], Cursor | None]:
        """Return a page of the list, and where the next one begins."""
        self._by_time = self._by_time or not terms_of(node)
        readings: list[Node] = []
        if node is None or self._start.key is not None:
            self._list(node)
        else:
            readings = self._relax(node)
        if node is not None:
            self._reader.note_truncated_messages()
        first = self._first()
        end = first + self._request.limit
        page = self._listed[first:end]
        # What moved down since the last page took some of what was listed for this one.
        was_cut_short = first > self._start.offset and len(self._listed) >= self._needed()
        has_more = len(self._listed) > end or was_cut_short
        if self._request.count:
            self._count(any_of(readings) or node)
            if not self._listed and self._start.offset == 0:
                self._reader.note_contradicting_filters()
                self._count_sides(node)
        return page, self._next(page, first) if has_more and page else None

    def _first(self) -> int:
        """Return where in the list the page begins: behind the last hit that was shown, wherever
        it is now; if it is gone, behind as many.
        """
        if self._start.key is not None:
            return 0
        for place, item in enumerate(self._listed):
            if item.id == self._start.last_id:
                return place + 1
        return self._start.offset

    def _next(self, page: list[MatchedMessage], first: int) -> Cursor:
        last = page[-1]
        before = first if self._start.key is None else self._start.offset
        is_ranked = last.score is not None
        return replace(
            self._start,
            through=self._reader.through,
            offset=before + len(page),
            last_id=last.id,
            key=None if is_ranked or not self._goes_on_by_time else last.time_key,
        )

    # ── readings ──────────────────────────────────────────────────────────────────────────────

    def _needed(self) -> int:
        """How much of the list is needed: one more than is shown tells that there is more."""
        before = 0 if self._start.key is not None else self._start.offset
        return before + self._request.limit + 1

    def _relax(self, node: Node) -> list[Node]:
        """Try the readings of the question until one finds something; return those that count.

        A question that found nothing as asked is also answered by the following readings until a
        page is full; what an earlier reading found stands first.
        """
        tried: list[Node] = []
        for name, reading in steps(node):
            if name == INSIDE_WORDS:
                if self._listed:
                    break
                self._reader.budget = min(self._reader.budget, SCANNED_UNASKED)
            tried.append(reading)
            was_empty = not self._listed
            self._list(reading, spread=name == ANY_WORD)
            if was_empty and self._listed:
                self._account.step = name
                if name == INSIDE_WORDS:
                    self._account.notes.append(
                        "Nothing matched as whole words; looked inside words."
                    )
            if self._listed and (name == AS_ASKED or len(self._listed) >= self._needed()):
                break
            if not self._request.relax:
                break
        # Several readings are one list only from its beginning.
        self._goes_on_by_time = self._goes_on_by_time and len(tried) == 1
        return tried

    def _list(self, node: Node | None, *, spread: bool = False) -> None:
        """Add what a reading finds to the list, at least as far as it is needed."""
        known = {item.id for item in self._listed}
        needed = self._needed()
        if node is None or self._by_time:
            found = self._in_time(node, needed)
            self._goes_on_by_time = True
        else:
            found = self._by_relevance(node, needed, spread=spread)
        for item in found:
            item.reading = node
        self._listed += [item for item in found if item.id not in known]

    def _in_time(self, node: Node | None, needed: int) -> list[MatchedMessage]:
        """Return matches by time, those of titles at the time of the message that is shown."""
        oldest, key = self._request.sort == "oldest", self._start.key
        found = self._reader.matches(node, needed, oldest=oldest, beyond=key)
        if node is None or not terms_of(node):
            return found
        last = found[-1].time_key if len(found) >= needed else None

        def has_place(item: MatchedMessage) -> bool:
            is_shown_before = key is not None and not _follows(item.time_key, key, oldest=oldest)
            return not is_shown_before and (
                last is None or _follows(last, item.time_key, oldest=oldest)
            )

        titled = self._reader.by_title(node, has_place)
        found += [item for item in titled if item.matched == "title"]
        found.sort(key=lambda item: item.time_key, reverse=not oldest)
        return found[:needed]

    # ── relevance ─────────────────────────────────────────────────────────────────────────────

    def _by_relevance(self, node: Node, needed: int, *, spread: bool) -> list[MatchedMessage]:
        """Return matches, those that are ranked first and the others behind them by time."""
        ranked = self._rank(self._pool(node, spread=spread), node)
        others: list[MatchedMessage] = []
        if len(ranked) >= RANKED or spread:
            self._goes_on_by_time = True
            known = {item.id for item in ranked}
            if self._start.key is not None or len(ranked) < needed:
                found = self._reader.matches(node, needed + len(known), beyond=self._start.key)
                others = [item for item in found if item.id not in known]
        return others if self._start.key is not None else ranked + others

    def _pool(self, node: Node, *, spread: bool) -> list[MatchedMessage]:
        """Return the matches that are to be ranked: the newest, but not all of one kind."""
        pool: dict[int, MatchedMessage] = {}
        parts = alternatives(node) if spread else [node]
        # Each word gives its own newest, so that a frequent one cannot crowd out a rare one.
        share = max(RANKED // 4, RANKED // len(parts)) if spread else RANKED
        for part in parts:
            found = self._reader.last_stored(part, share)
            pool |= {item.id: item for item in found}
            if len(found) == share:
                pool |= {item.id: item for item in self._less_crowded(part, found)}
        for item in self._reader.by_title(node):
            pool.setdefault(item.id, item)
        return list(pool.values())

    def _less_crowded(self, node: Node, found: list[MatchedMessage]) -> list[MatchedMessage]:
        """Return matches of other sessions than those that have very many of the newest, and of
        sources that people talk from: a noisy session or a report is no reason to miss the rest.
        """
        others: list[MatchedMessage] = []
        crowds: set[str] = set()
        for _ in range(_ROUNDS):
            sizes = Counter(item.match.session_id for item in found)
            crowded = {session_id for session_id, size in sizes.items() if size > _CROWD}
            has_background = any(item.match.source in BACKGROUND_SOURCES for item in found)
            if not crowded and not has_background:
                break
            crowds |= crowded
            where = self._reader.where() & _outside(crowds)
            found = self._reader.last_stored(node, RANKED // 2, where=where)
            others += found
            if len(found) < RANKED // 2:
                break
        return others

    def _rank(self, found: list[MatchedMessage], node: Node) -> list[MatchedMessage]:
        points = scores([item.match for item in found], terms_of(node))
        self._account.ranked = max(self._account.ranked, len(found))
        for item, score in zip(found, points, strict=True):
            item.score = score
        return [found[i] for i in order([item.match for item in found], points)]

    # ── counting ──────────────────────────────────────────────────────────────────────────────

    def _count(self, tree: Node | None) -> None:
        """Say how many matches there are, and how many more there were without each filter."""
        account, reader = self._account, self._reader
        if self._start.key is None and len(self._listed) < self._needed():
            account.total, account.total_is_exact = len(self._listed), account.complete
        else:
            account.total, account.total_is_exact = reader.number(tree)
            if account.total_is_exact and tree is not None and terms_of(tree):
                by_title = [item for item in reader.by_title(tree) if item.matched == "title"]
                account.total = min(account.total + len(by_title), COUNT_LIMIT)
                account.total_is_exact = account.total_is_exact and account.total < COUNT_LIMIT
        for name in reader.filters:
            removed, _ = reader.number(tree, reader.where(removed_by=name))
            if removed:
                account.removed[name] = removed

    def _count_sides(self, node: Node | None) -> None:
        """Say what matched of each side of an operator, when nothing matched all of them."""
        sides = sides_of(node)[:_MOST_SIDES] if node is not None else []
        wanted = [side for side in sides if not isinstance(side, Not)]
        for side in sides:
            counted = side if not isinstance(side, Not) else all_of([*wanted, side.node])
            self._account.sides[spelled(side)], _ = self._reader.number(counted)
        if sides:
            counts = ", ".join(f"{name} ({n:,})" for name, n in self._account.sides.items())
            self._account.notes.append(
                f"No message matches all of: {counts}. Operators and quotes bind; leave them out "
                f"to find messages that match in part."
            )


def _follows(key: Key, before: Key, *, oldest: bool) -> bool:
    return key > before if oldest else key < before


def _outside(sessions: set[str]) -> Where:
    marks = placeholders(len(BACKGROUND_SOURCES))
    where = Where(f"s.source NOT IN ({marks})", tuple(sorted(BACKGROUND_SOURCES)))
    if sessions:
        marks = placeholders(len(sessions))
        where &= Where(f"m.session_id NOT IN ({marks})", tuple(sorted(sessions)))
    return where

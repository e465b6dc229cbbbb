"""Read and count the messages that match a query tree, in one snapshot and within one scope.

Candidates come from the index. Messages that are not indexed yet are read directly, and where the
index is not exact, the text decides. Lists by time are exact. The number of texts that are read is
bounded, and the report says when the limit was reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.provider import Dialect, ReadTransaction, placeholders
from hermes_sessions.storage.repositories.workspaces import workspace_ids
from hermes_sessions.storage.search.answer import COUNT_LIMIT, SearchReport
from hermes_sessions.storage.search.hit_builder import MatchedMessage, load_messages
from hermes_sessions.storage.search.index_maintenance import IndexLag
from hermes_sessions.storage.search.index_port import (
    Candidates,
    IdRange,
    Order,
    SearchIndex,
    every_message,
)
from hermes_sessions.storage.search.sql_conditions import (
    SQLCondition,
    after_key,
    as_sql,
    existing_session_ids,
    group_by_subject,
    scope_as_sql,
    searchable_messages,
)
from hermes_sessions.text.query.filters import SearchConditions
from hermes_sessions.text.query.matcher import TokenizedDocument, matches
from hermes_sessions.text.query.tree import Node, Substring, terms_of

#: The most messages that are not indexed yet and are read one by one.
TAIL: Final = 2000
#: The most messages a scan reads, where the index cannot narrow the query down.
SCANNED: Final = 20_000
#: The most titles a search reads one by one, and the most sessions it finds by title.
SCANNED_TITLES: Final = 5_000
MAX_TITLES: Final = 50
#: The most matches that are read at a time.
EVERY_MATCH: Final = 100_000
_SCAN_STEP: Final = 500

Key = tuple[float, str, int]


class CandidateReader:
    """Reads matches among the messages up to the id *through* that *scope* allows and that satisfy
    the *parameter_filters* and the *query_filters* (those written in the query text).
    """

    def __init__(
        self,
        tx: ReadTransaction,
        index: SearchIndex,
        lag: IndexLag,
        dialect: Dialect,
        *,
        scope: Scope,
        parameter_filters: Sequence[SearchConditions],
        query_filters: SearchConditions,
        through: int | None,
        report: SearchReport,
    ) -> None:
        self._tx = tx
        self._index = index
        self._lag = lag
        self._report = report
        #: How many more messages may be read one by one.
        self.budget = SCANNED
        self._sessions = scope_as_sql(scope)
        #: Whether rewound messages are found, too.
        self.include_rewound = any(conditions.include_rewound for conditions in parameter_filters)
        self._scope = searchable_messages(include_rewound=self.include_rewound) & self._sessions
        known = existing_session_ids(tx, [*parameter_filters, query_filters], scope)
        named = [
            name
            for conditions in (*parameter_filters, query_filters)
            for name in (*conditions.workspaces, *conditions.exclude_workspaces)
        ]
        workspaces = workspace_ids(tx, named, scope)
        to_sql = partial(as_sql, dialect=dialect, known_sessions=known, workspaces=workspaces)
        self._filters = to_sql([*parameter_filters, query_filters])
        self._parameter_filters = group_by_subject(to_sql(parameter_filters))
        self._query_filters = group_by_subject(to_sql([query_filters]))
        self.through = _newest_id(tx) if through is None else through
        self._tail: dict[int, MatchedMessage] = {}
        #: For each query tree: the first messages of sessions whose title may match.
        self._first_of_titled: dict[Node, list[MatchedMessage]] = {}
        if lag.not_indexed:
            report.not_indexed = lag.not_indexed if scope.is_owner else self._pending()
        if not lag.usable and lag.pending:
            self._note("The search index cannot be used now; messages are read directly.")
        for name in [name for name, ids in workspaces.items() if not ids]:
            self._note(f"There is no workspace {name!r}.")

    # ── conditions ────────────────────────────────────────────────────────────────────────────

    @property
    def filters(self) -> list[str]:
        """The names of the filters that are set."""
        return list(self._filters)

    def where(self, *, removed_by: str | None = None) -> SQLCondition:
        """Return the condition for matches; with *removed_by*, for those that it alone removes."""
        where = self._scope & SQLCondition("m.id <= ?", (self.through,))
        for name, condition in self._filters.items():
            where &= condition.negated() if name == removed_by else condition
        return where

    def note_contradicting_filters(self) -> None:
        """Add a note for each filter of the query that contradicts a filter parameter."""
        for subject, query_filters in self._query_filters.items():
            if subject not in self._parameter_filters:
                continue
            where = self._scope & self._parameter_filters[subject] & query_filters
            if not every_message(self._tx, where, limit=1):
                self._note(
                    f"The {subject} filter in the query and the {subject} filter given with the "
                    f"search exclude each other: no message satisfies both."
                )

    def _pending(self) -> int:
        where = self._scope & self._unindexed()
        row = self._tx.one(
            f"SELECT COUNT(*) FROM messages m JOIN sessions s ON s.id = m.session_id "
            f"WHERE {where.sql}",
            where.params,
        )
        return int(row[0]) if row else 0

    def _unindexed(self) -> SQLCondition:
        ways = ["m.id > ?"]
        if self._lag.queued:
            ways.append(f"m.id IN ({_QUEUED})")
        if self._lag.outside:
            ways.append(_OUTSIDE.sql)
        return SQLCondition(f"({' OR '.join(ways)})", (self._lag.through,))

    def _indexed(self, node: Node | None) -> SQLCondition:
        if node is None or not self._lag.queued:
            return SQLCondition("1 = 1")
        # The index entries of queued messages are out of date.
        return SQLCondition(f"m.id NOT IN ({_QUEUED})")

    # ── matches in order ──────────────────────────────────────────────────────────────────────

    def matches(
        self,
        node: Node | None,
        count: int,
        *,
        oldest: bool = False,
        beyond: Key | None = None,
        where: SQLCondition | None = None,
    ) -> list[MatchedMessage]:
        """Return up to *count* matches in order of time; without a tree, every message matches.

        *beyond* is the `MatchedMessage.time_key` after which the list begins.
        """
        where = self.where() if where is None else where
        if beyond is not None:
            where &= after_key(beyond, oldest=oldest)
        if node is None:
            found = self._outside(where, count, oldest=oldest)
        else:
            found = self._unindexed_matches(node, where)
        found += self._by_time(node, where & self._indexed(node), count, oldest=oldest)
        found.sort(key=lambda item: item.time_key, reverse=not oldest)
        return found[:count]

    def has_match(self, node: Node) -> bool:
        """Whether any message matches."""
        where = self.where()
        if self._unindexed_matches(node, where):
            return True
        candidates = self._candidates(
            node, where & self._indexed(node), "last stored", self._span(), 1
        )
        if not candidates.ids or (candidates.exact and not candidates.unsure):
            return bool(candidates.ids)
        return bool(self.last_stored(node, 1))

    def last_stored(
        self, node: Node, count: int, *, where: SQLCondition | None = None
    ) -> list[MatchedMessage]:
        """Return up to *count* of the newest matches, ordered by id, not strictly by time."""
        if self._lag.ordered_from:
            return self.matches(node, count, where=where)
        where = self.where() if where is None else where
        found = self._unindexed_matches(node, where)
        indexed = self._walk(node, where & self._indexed(node), "last stored", self._span(), count)
        found += islice(indexed, count)
        found.sort(key=lambda item: item.id, reverse=True)
        return found[:count]

    def _span(self) -> IdRange:
        """Return the range of wanted ids in which the index is up to date."""
        return IdRange(0, min(self._lag.through, self.through) + 1)

    def _by_time(
        self, node: Node | None, where: SQLCondition, count: int, *, oldest: bool
    ) -> list[MatchedMessage]:
        """Return at least the first *count* matches by time, or all if there are fewer.

        Above `IndexLag.ordered_from` ids and times agree, so the first matches are found without
        reading all of them; below, the database sorts.
        """
        end = (self.through if node is None else min(self._lag.through, self.through)) + 1
        # It is unknown whether messages that are not indexed are in order.
        edge = self._lag.ordered_from if node is not None or not self._lag.pending else end - 1
        stored: Order = "first stored" if oldest else "last stored"
        found = list(islice(self._walk(node, where, stored, IdRange(edge, end), count), count))
        if len(found) == count:
            found += self._out_of_order_matches(
                node, where, found, IdRange(edge, end), oldest=oldest
            )
        if edge and (oldest or len(found) < count):
            order: Order = "oldest" if oldest else "newest"
            found += islice(self._walk(node, where, order, IdRange(0, edge + 1), count), count)
        return found

    def _out_of_order_matches(
        self,
        node: Node | None,
        where: SQLCondition,
        found: list[MatchedMessage],
        span: IdRange,
        *,
        oldest: bool,
    ) -> list[MatchedMessage]:
        """Return matches that belong among *found* by time, although their ids do not."""
        last = found[-1].id
        times = [item.match.timestamp for item in found]
        edge = max(times) if oldest else min(times)
        # No match beyond the first message that is older or newer by the disorder can belong here.
        sign, direction = (">", "ASC") if oldest else ("<", "DESC")
        disorder = self._lag.disorder
        certain = edge + disorder if oldest else edge - disorder
        row = self._tx.one(
            f"SELECT id FROM messages WHERE id {sign} ? AND timestamp {sign} ? "
            f"ORDER BY id {direction} LIMIT 1",
            (last, certain),
        )
        if oldest:
            span = IdRange(last, min(row[0], span.below) if row and span.below else span.below)
        else:
            span = IdRange(max(row[0], span.above) if row else span.above, last)
        if span.below is not None and span.below - span.above <= 1:
            return []
        where &= SQLCondition(f"m.timestamp {'<=' if oldest else '>='} ?", (edge,))
        order: Order = "oldest" if oldest else "newest"
        return list(islice(self._walk(node, where, order, span, len(found)), len(found)))

    def _walk(
        self, node: Node | None, where: SQLCondition, order: Order, span: IdRange, count: int
    ) -> Iterator[MatchedMessage]:
        """Yield matches in this order, read in batches; the first batch has *count* candidates."""
        last: MatchedMessage | None = None
        size = max(1, min(count, EVERY_MATCH))
        while span.below is None or span.below - span.above > 1:
            candidates = self._candidates(node, where, order, span, size, last)
            loaded = load_messages(self._tx, candidates.ids)
            for item in loaded:
                if (
                    node is None
                    or not candidates.must_be_decided(item.id)
                    or self._is_match(item, node)
                ):
                    yield item
            if len(candidates.ids) < size:
                return
            if not candidates.exact and self.budget <= 0:
                self._note_scan_limit(order, narrowed=candidates.narrowed)
                return
            last = loaded[-1]
            if order == "last stored":
                span = span._replace(below=last.id)
            elif order == "first stored":
                span = span._replace(above=last.id)
            size = max(size, _SCAN_STEP)
            if not candidates.exact:
                size = min(size, self.budget)

    def _candidates(
        self,
        node: Node | None,
        where: SQLCondition,
        order: Order,
        span: IdRange,
        limit: int,
        last: MatchedMessage | None = None,
    ) -> Candidates:
        if last is not None and order in ("newest", "oldest"):
            where &= after_key(last.time_key, oldest=order == "oldest")
        if node is None:
            ids = every_message(self._tx, where, limit=limit, order=order, span=span)
            return Candidates(ids, exact=True, narrowed=True)
        return self._index.messages(self._tx, node, where, limit=limit, order=order, span=span)

    def _is_match(self, item: MatchedMessage, node: Node) -> bool:
        self.budget -= 1
        self._report.scanned += 1
        return item.is_match(node)

    def _note_scan_limit(self, order: Order, *, narrowed: bool) -> None:
        self._report.complete = False
        kind = "candidates" if narrowed else "messages"
        first = "oldest" if order in ("first stored", "oldest") else "newest"
        self._note(
            f"Searched only the {first} {self._report.scanned:,} {kind}; narrow the search "
            f"with filters to look further{' back' if first == 'newest' else ''}."
        )

    def _note(self, note: str) -> None:
        if note not in self._report.notes:
            self._report.notes.append(note)

    def _unindexed_matches(self, node: Node | None, where: SQLCondition) -> list[MatchedMessage]:
        """Return matches among messages that are not in the index or changed since."""
        if node is None or self._lag.not_indexed == 0:
            return []
        ids = every_message(self._tx, where & self._unindexed(), limit=TAIL + 1)
        if len(ids) > TAIL:
            self._report.complete = False
            self._note(
                f"The index is being built: {self._report.not_indexed:,} messages are not in it "
                f"yet."
                if self._lag.pending
                else f"The index cannot contain messages with ids below 1; {TAIL:,} of "
                f"{self._report.not_indexed:,} were searched."
            )
        known = self._tail
        known |= {
            item.id: item for item in load_messages(self._tx, [i for i in ids if i not in known])
        }
        items = [known[number] for number in ids[:TAIL]]
        # Copied, because several steps of relaxation may find a message and each sets its fields.
        return [replace(item) for item in items if item.is_match(node)]

    def _outside(self, where: SQLCondition, count: int, *, oldest: bool) -> list[MatchedMessage]:
        """Return the first messages by time among those with ids below 1."""
        if not self._lag.outside:
            return []
        order: Order = "oldest" if oldest else "newest"
        ids = every_message(self._tx, where & _OUTSIDE, limit=count, order=order)
        return load_messages(self._tx, ids)

    # ── counting ──────────────────────────────────────────────────────────────────────────────

    def count_matches(
        self, node: Node | None, where: SQLCondition | None = None
    ) -> tuple[int, bool]:
        """Return the number of matches, up to `COUNT_LIMIT`, and whether it is exact."""
        where = self.where() if where is None else where
        if node is None:
            ids = every_message(self._tx, where, limit=COUNT_LIMIT)
            return len(ids), len(ids) < COUNT_LIMIT and self.budget > 0
        found = len(self._unindexed_matches(node, where))
        if self._lag.usable:
            found += self._count_indexed_matches(node, where & self._indexed(node))
        is_all = found < COUNT_LIMIT and self.budget > 0 and self._report.complete
        return min(found, COUNT_LIMIT), is_all

    def _count_indexed_matches(self, node: Node, where: SQLCondition) -> int:
        candidates = self._candidates(node, where, "last stored", self._span(), COUNT_LIMIT)
        if candidates.exact and not candidates.unsure:
            return len(candidates.ids)
        # The index is not exact: read the texts, within the budget.
        decided = self._walk(node, where, "last stored", self._span(), COUNT_LIMIT)
        return sum(1 for _ in islice(decided, COUNT_LIMIT))

    def note_truncated_messages(self) -> None:
        """Add a note if some of the messages are too long to be indexed completely."""
        if self._lag.usable and self._index.has_truncated_message(self._tx, self.where()):
            self._note("Of very long messages, only the beginning and the end are searched.")

    # ── titles ────────────────────────────────────────────────────────────────────────────────

    def by_title(
        self, node: Node, wanted: Callable[[MatchedMessage], bool] = lambda _: True
    ) -> list[MatchedMessage]:
        """Return the first message of each session whose title matches.

        ``matched`` is ``title``, or ``message`` if the text of the message matches, too. Messages
        for which *wanted* returns False are skipped.
        """
        if node not in self._first_of_titled:
            self._first_of_titled[node] = self._load_by_title(node)
        found = [i for i in self._first_of_titled[node] if wanted(i) and i.has_title(node)]
        for item in found:
            if item.is_match(node):
                item.matched = "message"
        return found

    def _load_by_title(self, node: Node) -> list[MatchedMessage]:
        ids: list[int] = []
        looked_at = 0
        for sessions in self._titled(node):
            ids += self._first_messages(sessions)
            looked_at += len(sessions)
            if len(ids) >= MAX_TITLES or looked_at >= SCANNED_TITLES:
                break
        return load_messages(self._tx, ids[:MAX_TITLES], matched="title")

    def _first_messages(self, sessions: Sequence[str]) -> list[int]:
        """Return the first searchable message of each session, in the order of *sessions*."""
        if not sessions:
            return []
        where = self.where()
        rows = self._tx.all(
            f"SELECT t.id, (SELECT m.id FROM messages m JOIN sessions s ON s.id = m.session_id "
            f"WHERE m.session_id = t.id AND {where.sql} ORDER BY m.ordinal LIMIT 1) "
            f"FROM sessions t WHERE t.id IN ({placeholders(len(sessions))})",
            (*where.params, *sessions),
        )
        first = {name: number for name, number in rows if number is not None}
        return [first[name] for name in sessions if name in first]

    def _titled(self, node: Node) -> Iterator[list[str]]:
        """Yield visible sessions whose title may match, the newest first, in batches.

        The first batch is small, because it is often enough.
        """
        if any(isinstance(term, Substring) for term in terms_of(node)):
            yield from self._titles_looked_at(node, SQLCondition("s.title IS NOT NULL"))
            return
        if self._lag.titles:
            stale = SQLCondition("s.id IN (SELECT session_id FROM search_titles WHERE stale = 1)")
            yield from self._titles_looked_at(
                node, stale if self._lag.usable else SQLCondition("1 = 1")
            )
        last: int | None = None
        size = 2 * MAX_TITLES
        while self._lag.usable:
            numbers = self._index.titles(self._tx, node, limit=size, beyond=last)
            if not numbers:
                return
            rows = self._tx.all(
                f"SELECT t.session_id FROM search_titles t JOIN sessions s ON s.id = t.session_id "
                f"WHERE t.number IN ({placeholders(len(numbers))}) AND t.stale = 0 "
                f"AND {self._sessions.sql} ORDER BY t.number DESC",
                (*numbers, *self._sessions.params),
            )
            yield [row[0] for row in rows]
            last, size = numbers[-1], _SCAN_STEP

    def _titles_looked_at(self, node: Node, condition: SQLCondition) -> Iterator[list[str]]:
        where = condition & self._sessions
        rows = self._tx.all(
            f"SELECT s.id, s.title FROM sessions s WHERE {where.sql} AND s.title IS NOT NULL "
            f"ORDER BY s.last_active DESC, s.id LIMIT ?",
            (*where.params, SCANNED_TITLES),
        )
        matching = (row[0] for row in rows if matches(node, TokenizedDocument([row[1]])))
        while sessions := list(islice(matching, 2 * MAX_TITLES)):
            yield sessions


_QUEUED: Final = "SELECT message_id FROM search_queue"
#: See `IndexLag.outside`.
_OUTSIDE: Final = SQLCondition("m.id < 1")


def _newest_id(tx: ReadTransaction) -> int:
    row = tx.one("SELECT MAX(id) FROM messages")
    return int(row[0] or 0) if row else 0

"""Finds messages: read the question, gather candidates, decide, order, show.

The index gives candidates, newest first; shared code decides wherever the index is not exact, ranks
and cuts snippets, so that the same question has the same answer on every database. Messages the
index does not hold yet are looked at directly.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from hermes_sessions.errors import InvalidInput, StoreUnavailable
from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.provider import ReadTransaction, placeholders
from hermes_sessions.storage.searching.answer import COUNT_LIMIT, Account, Answer
from hermes_sessions.storage.searching.conditions import EVERYTHING, Where, as_sql, scope_as_sql
from hermes_sessions.storage.searching.index import SearchIndex
from hermes_sessions.storage.searching.shown import Found, load, show
from hermes_sessions.storage.searching.upkeep import Lag, Upkeep
from hermes_sessions.storage.store import Store
from hermes_sessions.text.query.filters import Conditions, with_filters
from hermes_sessions.text.query.matching import Analysed, matches
from hermes_sessions.text.query.parser import parse
from hermes_sessions.text.query.relaxing import ANY_WORD, AS_ASKED, INSIDE_WORDS, steps
from hermes_sessions.text.query.tree import Node, Or, Substring, terms_of
from hermes_sessions.text.rank import order, scores

logger = logging.getLogger(__name__)

Sort = Literal["relevance", "newest", "oldest"]

#: Relevance is computed over this many of the newest matches.
RANKED: Final = 200
#: Messages that are not indexed yet and are looked at one by one, at most.
TAIL: Final = 2000
#: Messages a scan looks at, where the index cannot narrow down.
SCANNED: Final = 20_000
#: The same, when nobody asked to look inside words and it is the last thing tried.
SCANNED_UNASKED: Final = 4_000
#: Titles a search inside words looks at, and sessions found by title, at most.
SCANNED_TITLES: Final = 5_000
MOST_TITLES: Final = 50
#: Where ids say nothing about time, this many matches are put in order.
EVERY_MATCH: Final = 100_000
_SCAN_STEP: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked: the text, and everything around it."""

    text: str
    conditions: Conditions
    scope: Scope
    limit: int
    sort: Sort = "relevance"
    offset: int = 0
    cursor: str | None = None
    relax: bool = True
    count: bool = True


class Finder:
    """Answers requests on one store."""

    def __init__(self, store: Store, index: SearchIndex, upkeep: Upkeep) -> None:
        self._store = store
        self._index = index
        self._upkeep = upkeep

    def answer(self, request: Request) -> Answer:
        """Return hits and the account of them. Any text is a question; none raises."""
        query = parse(request.text)
        account = Account(query=request.text, repairs=list(query.repairs))
        conditions, problems = with_filters(request.conditions, query.filters, self._store.clock())
        account.repairs += [f"{problem}; left out" for problem in problems]
        if query.node is None and not conditions.given():
            account.notes.append("There is nothing to search for.")
            return Answer(hits=[], account=account)
        self._bring_index_up_to_date()
        start = _read_cursor(request)
        with self._store.provider.read() as tx:
            search = _Search(tx, self._index, request, account, self._upkeep.lag(tx), start)
            search.set_conditions(conditions)
            return search.run(query.node)

    def _bring_index_up_to_date(self) -> None:
        if self._store.provider.read_only:
            return
        try:
            self._upkeep.catch_up(TAIL)
        except StoreUnavailable as error:
            # The question is answered all the same, from the index and what it lacks.
            logger.info("the search index could not be updated now: %s", error)


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a page begins: behind this many, among messages up to this id."""

    offset: int = 0
    through: int | None = None


class _Search:
    """One request on one state of the database."""

    def __init__(
        self,
        tx: ReadTransaction,
        index: SearchIndex,
        request: Request,
        account: Account,
        lag: Lag,
        start: _Start,
    ) -> None:
        self._tx = tx
        self._index = index
        self._request = request
        self._account = account
        self._lag = lag
        self._start = start
        self._through = start.through if start.through is not None else _newest_id(tx)
        self._scope = EVERYTHING & scope_as_sql(request.scope)
        self._sessions_in_scope = Where("s.trashed_at IS NULL") & scope_as_sql(request.scope)
        self._filters: dict[str, Where] = {}
        self._is_relaxed = False
        account.not_indexed = lag.pending

    def set_conditions(self, conditions: Conditions) -> None:
        """Add the filters every match must satisfy."""
        self._filters = as_sql(conditions)

    def run(self, node: Node | None) -> Answer:
        """Try the readings of the question until one finds something.

        A question that found nothing as asked is also answered by the following readings until a
        page is full; what an earlier reading found stands first.
        """
        if node is None:
            ordered = self._in_order(self._gather(None), None)
            return self._answer(ordered, None)
        ordered, tree = [], node
        for name, reading in steps(node):
            self._is_relaxed = name != AS_ASKED
            known = {item.id for item in ordered}
            found = [
                item
                for item in self._gather(reading, spread=name == ANY_WORD)
                if item.id not in known
            ]
            if found and not ordered:
                self._account.step, tree = name, reading
                if name == INSIDE_WORDS:
                    self._account.notes.append(
                        "Nothing matched as whole words; looked inside words."
                    )
            ordered += self._in_order(found, reading)
            full = len(ordered) > self._start.offset + self._request.limit
            if not self._request.relax or (ordered and self._account.step == AS_ASKED) or full:
                break
            if ordered and name == ANY_WORD:
                break
        return self._answer(ordered, tree)

    def _answer(self, ordered: list[Found], tree: Node | None) -> Answer:
        page = ordered[self._start.offset : self._start.offset + self._request.limit]
        self._count(tree, len(ordered))
        hits = show(self._tx, page, tree)
        return Answer(hits=hits, account=self._account, next_cursor=self._next(len(ordered)))

    # ── gathering ─────────────────────────────────────────────────────────────────────────────

    def _where(self, *, without: str | None = None) -> Where:
        where = self._scope & Where("m.id <= ?", (self._through,))
        for name, condition in self._filters.items():
            if name != without:
                where &= condition
        return where

    def _wanted(self) -> int:
        needed = self._start.offset + self._request.limit + 1
        return max(RANKED, needed) if self._request.sort == "relevance" else needed

    def _gather(self, node: Node | None, *, spread: bool = False) -> list[Found]:
        """Return matches, at least as many as a page needs if there are."""
        wanted = self._wanted()
        found = {item.id: item for item in self._unindexed(node, wanted)}
        if node is None:
            rows = self._newest_of_all(wanted)
            found |= {item.id: item for item in load(self._tx, rows)}
        elif spread and isinstance(node, Or):
            # Each word gives its own newest, so that a frequent one cannot crowd out a rare one.
            share = max(50, wanted // len(node.nodes))
            for part in node.nodes:
                found |= {item.id: item for item in self._indexed(part, share)}
        else:
            found |= {item.id: item for item in self._indexed(node, wanted)}
        if node is not None and self._request.sort == "relevance":
            found |= {item.id: item for item in self._by_title(node) if item.id not in found}
        return list(found.values())

    def _newest_of_all(self, wanted: int) -> list[int]:
        where = self._where()
        direction = "ASC" if self._request.sort == "oldest" else "DESC"
        rows = self._tx.all(
            f"SELECT m.id FROM messages m JOIN sessions s ON s.id = m.session_id "
            f"WHERE {where.sql} ORDER BY m.id {direction} LIMIT ?",
            (*where.params, wanted),
        )
        return [row[0] for row in rows]

    def _indexed(self, node: Node, wanted: int) -> list[Found]:
        where = self._where() & Where("m.id <= ?", (self._lag.through,))
        oldest = self._request.sort == "oldest"
        if self._request.sort != "relevance":
            # Messages that came by import are not in the order of their ids.
            wanted = wanted if self._lag.in_time_order else EVERY_MATCH
        candidates = self._index.messages(self._tx, node, where, limit=wanted, oldest=oldest)
        if candidates.exact:
            return load(self._tx, candidates.ids)
        if not candidates.narrowed:
            return self._scan(node, where, wanted)
        found = _decide(load(self._tx, candidates.ids), node)
        if len(found) < wanted and len(candidates.ids) == wanted:
            # Some candidates were none: look further, once, and wider.
            more = self._index.messages(self._tx, node, where, limit=wanted * 10, oldest=oldest)
            found += _decide(load(self._tx, more.ids[wanted:]), node)
        return found

    def _scan(self, node: Node, where: Where, wanted: int) -> list[Found]:
        """Look at messages one by one, newest first, up to a bound that the answer states."""
        found: list[Found] = []
        last: int | None = None
        bound_on_scan = SCANNED_UNASKED if self._is_relaxed else SCANNED
        while len(found) < wanted and self._account.scanned < bound_on_scan:
            bound = where & Where("m.id < ?", (last,)) if last is not None else where
            rows = self._tx.all(
                f"SELECT m.id FROM messages m JOIN sessions s ON s.id = m.session_id "
                f"WHERE {bound.sql} ORDER BY m.id DESC LIMIT ?",
                (*bound.params, _SCAN_STEP),
            )
            if not rows:
                return found
            last = rows[-1][0]
            found += _decide(load(self._tx, [row[0] for row in rows]), node)
            self._account.scanned += len(rows)
        if self._account.scanned >= bound_on_scan:
            self._account.complete = False
            self._account.notes.append(
                f"Looked inside the newest {self._account.scanned:,} messages only; narrow the "
                f"search with filters to look further back."
            )
        return found

    def _unindexed(self, node: Node | None, wanted: int) -> list[Found]:
        """Return matches among messages the index does not hold yet."""
        if self._lag.complete or node is None:
            return []
        if self._lag.pending > TAIL:
            self._account.complete = False
            note = f"The index is being built: {self._lag.pending:,} messages are not in it yet."
            if note not in self._account.notes:
                self._account.notes.append(note)
        where = self._where()
        rows = self._tx.all(
            f"SELECT m.id FROM messages m JOIN sessions s ON s.id = m.session_id "
            f"WHERE (m.id > ? OR m.id IN (SELECT message_id FROM search_queue)) AND {where.sql} "
            f"ORDER BY m.id DESC LIMIT ?",
            (self._lag.through, *where.params, TAIL),
        )
        return _decide(load(self._tx, [row[0] for row in rows]), node)[:wanted]

    def _by_title(self, node: Node) -> list[Found]:
        """Return the first message of sessions whose title matches."""
        where = self._where()
        found = []
        for session_id in self._titled(node):
            row = self._tx.one(
                f"SELECT m.id FROM messages m JOIN sessions s ON s.id = m.session_id "
                f"WHERE m.session_id = ? AND {where.sql} ORDER BY m.ordinal LIMIT 1",
                (session_id, *where.params),
            )
            if row is not None:
                found.append(row[0])
        return [item for item in load(self._tx, found, matched="title") if item.has_title(node)]

    def _titled(self, node: Node) -> list[str]:
        """Return sessions whose title may match, newest first."""
        # Bounds count within the scope: nobody's titles may crowd out another's.
        where = self._sessions_in_scope
        if any(isinstance(term, Substring) for term in terms_of(node)):
            rows = self._tx.all(
                f"SELECT s.id, s.title FROM sessions s WHERE s.title IS NOT NULL AND {where.sql} "
                f"ORDER BY s.last_active DESC LIMIT ?",
                (*where.params, SCANNED_TITLES),
            )
            titled = [row[0] for row in rows if matches(node, Analysed([row[1]]))]
            return titled[:MOST_TITLES]
        numbers = [
            -number for number in self._index.titles(self._tx, node, where, limit=MOST_TITLES)
        ]
        if not numbers:
            return []
        rows = self._tx.all(
            f"SELECT session_id FROM search_titles WHERE number IN ({placeholders(len(numbers))}) "
            f"ORDER BY number DESC",
            numbers,
        )
        return [row[0] for row in rows]

    # ── ordering and counting ─────────────────────────────────────────────────────────────────

    def _in_order(self, found: list[Found], node: Node | None) -> list[Found]:
        terms = terms_of(node)
        if self._request.sort != "relevance" or not terms:
            backwards = self._request.sort != "oldest"
            return sorted(found, key=lambda item: item.time_key, reverse=backwards)
        points = scores([item.match for item in found], terms)
        self._account.ranked = len(found)
        for item, score in zip(found, points, strict=True):
            item.score = score
        return [found[i] for i in order([item.match for item in found], points)]

    def _count(self, node: Node | None, gathered: int) -> None:
        self._account.total = gathered
        if gathered < self._wanted() or not self._request.count:
            self._account.total_is_exact = gathered < self._wanted()
        else:
            self._account.total = self._number(node, self._where())
            self._account.total_is_exact = self._account.total < COUNT_LIMIT
        if not self._request.count:
            return
        for name in self._filters:
            without = self._number(node, self._where(without=name))
            if without > self._account.total:
                self._account.removed[name] = without - self._account.total

    def _number(self, node: Node | None, where: Where) -> int:
        if node is None:
            rows = self._tx.one(
                f"SELECT COUNT(*) FROM (SELECT 1 AS one FROM messages m JOIN sessions s "
                f"ON s.id = m.session_id WHERE {where.sql} LIMIT ?) AS counted",
                (*where.params, COUNT_LIMIT),
            )
            return int(rows[0]) if rows else 0
        candidates = self._index.messages(self._tx, node, where, limit=COUNT_LIMIT)
        if candidates.exact:
            return len(candidates.ids)
        return len(_decide(load(self._tx, candidates.ids), node))

    def _next(self, gathered: int) -> str | None:
        reached = self._start.offset + self._request.limit
        if gathered <= reached:
            return None
        return _write_cursor(reached, self._through)


def _decide(found: Sequence[Found], node: Node) -> list[Found]:
    return [item for item in found if item.is_match(node)]


def _newest_id(tx: ReadTransaction) -> int:
    row = tx.one("SELECT MAX(id) FROM messages")
    return int(row[0] or 0) if row else 0


def _write_cursor(offset: int, through: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([offset, through]).encode()).decode()


def _read_cursor(request: Request) -> _Start:
    if request.cursor is None:
        return _Start(request.offset)
    try:
        offset, through = json.loads(base64.urlsafe_b64decode(request.cursor))
        return _Start(int(offset), int(through))
    except (ValueError, TypeError) as error:
        raise InvalidInput("The cursor is not one that a search returned.") from error

"""The targets: what is measured, what it must be, and what it is meant to be.

Every line is a number of one run. Ratios are against an opponent in the same run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from benchmarks.results import Results

Verdict = Literal["goal", "must", "missed", "not measured"]
HERMES = "hermes-0.13"


@dataclass(frozen=True)
class Bound:
    """A limit, from below or from above."""

    limit: float
    at_least: bool

    def holds(self, value: float) -> bool:
        """Whether the value is on the good side; the limit itself is."""
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}"


def at_least(limit: float) -> Bound:
    """As much or more is good."""
    return Bound(limit, at_least=True)


def at_most(limit: float) -> Bound:
    """As much or less is good."""
    return Bound(limit, at_least=False)


@dataclass(frozen=True, kw_only=True)
class Target:
    """One line of the table."""

    number: int
    what: str
    unit: str
    measure: Callable[[Results], float | None]
    must: Bound | None = None
    goal: Bound | None = None

    def verdict(self, results: Results) -> Verdict:
        """``goal`` or ``must`` for the better bound that holds, ``missed`` for none.

        A target without a must is never missed worse than its goal: it says so as ``missed``.
        """
        value = self.measure(results)
        if value is None:
            return "not measured"
        if self.goal is not None and self.goal.holds(value):
            return "goal"
        if self.must is not None and self.must.holds(value):
            return "must"
        return "missed"


def _ours(scenario: str, metric: str, opponent: str = "ours") -> Callable[[Results], float | None]:
    return lambda results: results.value(scenario, opponent, metric)


def _worst(scenario: str, metric: str) -> Callable[[Results], float | None]:
    return lambda results: results.worst(scenario, "ours", metric)


def _against(
    other: str, scenario: str, metric: str, ours: str = "ours"
) -> Callable[[Results], float | None]:
    return lambda results: results.ratio(scenario, metric, ours, other)


def _growth(metric: str) -> Callable[[Results], float | None]:
    """How many times a fifth of the store goes into the whole of it."""

    def measure(results: Results) -> float | None:
        whole, part = (
            results.value(scenario, "ours", metric) for scenario in ("memory", "memory-fifth")
        )
        return whole / part if whole and part else None

    return measure


def _over_lanes(metric: str, opponent: str = "ours") -> Callable[[Results], float | None]:
    """How many times a call with few lanes goes into the same with most."""
    scenario = "lanes" if opponent == "ours" else opponent.replace("ours", "lanes")

    def measure(results: Results) -> float | None:
        most, few = (
            results.value(scenario, opponent, f"{metric}_{stage}_p50_ms")
            for stage in ("most", "few")
        )
        return most / few if most and few else None

    return measure


def _answered_otherwise(server: str) -> Callable[[Results], float | None]:
    """How many classes of queries a server answered otherwise than SQLite did."""

    def measure(results: Results) -> float | None:
        opponents = results.rounds.get(f"search-{server}", {})
        if not {"ours", f"ours-{server}"} <= opponents.keys():
            return None
        pairs = zip(opponents["ours"], opponents[f"ours-{server}"], strict=False)
        return max(
            float(sum(one[name] != other[name] for name in one if name.endswith("_answers")))
            for one, other in pairs
        )

    return measure


TARGETS: tuple[Target, ...] = (
    Target(
        number=1,
        what="append, one process, to Hermes 0.13",
        unit="×",
        measure=_against(HERMES, "append", "per_second"),
        must=at_least(2),
    ),
    Target(
        number=1,
        what="append, one process, to sqlite3 without index",
        unit="×",
        measure=_against("raw", "append", "per_second"),
        goal=at_least(0.85),
    ),
    Target(
        number=2,
        what="append until searchable, to Hermes 0.13",
        unit="×",
        measure=_against(HERMES, "indexing", "per_second"),
        must=at_least(1.7),
        goal=at_least(2),
    ),
    Target(
        number=2,
        what="append until searchable at normal, to Hermes 0.13",
        unit="×",
        measure=_against(HERMES, "indexing", "per_second", ours="ours-normal"),
        goal=at_least(4),
    ),
    Target(
        number=3,
        what="append into a large store, p99",
        unit="ms",
        measure=_ours("append-large", "p99_ms"),
        must=at_most(10),
        goal=at_most(3),
    ),
    Target(
        number=3,
        what="append into a large store, worst",
        unit="ms",
        measure=_ours("append-large", "worst_ms"),
        must=at_most(100),
        goal=at_most(50),
    ),
    Target(
        number=4,
        what="8 processes, total, to Hermes 0.13",
        unit="×",
        measure=_against(HERMES, "processes", "per_second"),
        must=at_least(2),
        goal=at_least(3),
    ),
    Target(
        number=4,
        what="8 processes, total at normal, to Hermes 0.13",
        unit="×",
        measure=_against(HERMES, "processes", "per_second", ours="ours-normal"),
        goal=at_least(6),
    ),
    Target(
        number=4,
        what="8 processes, p99.9",
        unit="ms",
        measure=_ours("processes", "p999_ms"),
        must=at_most(100),
        goal=at_most(50),
    ),
    Target(
        number=4,
        what="8 processes, slowest to fastest",
        unit="×",
        measure=_ours("processes", "slowest_to_fastest"),
        must=at_most(3),
        goal=at_most(1.5),
    ),
    Target(
        number=4,
        what="8 processes, lost messages",
        unit="",
        measure=_worst("processes", "lost"),
        must=at_most(0),
        goal=at_most(0),
    ),
    Target(
        number=5,
        what="append while a thread reads, p50",
        unit="ms",
        measure=_ours("reading", "p50_ms"),
        must=at_most(2),
        goal=at_most(1),
    ),
    Target(
        number=6,
        what="search, to 1.2 × the bare FTS5 query + 1 ms, p50",
        unit="×",
        measure=_ours("search", "to_allowed_p50"),
        must=at_most(1),
    ),
    Target(
        number=6,
        what="search, slowest class of query, p50",
        unit="ms",
        measure=_ours("search", "slowest_p50_ms"),
        goal=at_most(10),
    ),
    Target(
        number=6,
        what="the same in a small store, p50",
        unit="ms",
        measure=_ours("search-small", "slowest_p50_ms"),
        goal=at_most(10),
    ),
    Target(
        number=7,
        what="search 1 and 2 CJK characters, to Hermes 0.13",
        unit="×",
        measure=_against(HERMES, "search", "cjk_short_p50_ms"),
        must=at_most(0.1),
    ),
    Target(
        number=7,
        what="search 1 and 2 CJK characters, p50",
        unit="ms",
        measure=_ours("search", "cjk_short_p50_ms"),
        goal=at_most(10),
    ),
    Target(
        number=8,
        what="ordinary questions answered with nothing",
        unit="",
        measure=_worst("recall", "empty"),
        must=at_most(0),
        goal=at_most(0),
    ),
    Target(
        number=8,
        what="ordinary questions whose answer was not found",
        unit="",
        measure=_worst("recall", "missed"),
        must=at_most(0),
        goal=at_most(0),
    ),
    Target(
        number=8,
        what="classes of queries answered otherwise on PostgreSQL",
        unit="",
        measure=_answered_otherwise("postgresql"),
        must=at_most(0),
        goal=at_most(0),
    ),
    Target(
        number=8,
        what="classes of queries answered otherwise on MariaDB",
        unit="",
        measure=_answered_otherwise("mysql"),
        must=at_most(0),
        goal=at_most(0),
    ),
    Target(
        number=9,
        what="list the 20 most recently active, p50",
        unit="ms",
        measure=_ours("listing", "p50_ms"),
        must=at_most(2),
    ),
    Target(
        number=9,
        what="the same of 1,000,000 sessions, p50",
        unit="ms",
        measure=_ours("listing-large", "p50_ms"),
        goal=at_most(1),
    ),
    Target(
        number=10,
        what="resume a long session, to the bare SELECT",
        unit="×",
        measure=_ours("resume", "to_select"),
        must=at_most(1.8),
        goal=at_most(1.3),
    ),
    Target(
        number=11,
        what="file size of a searchable store, to its text",
        unit="×",
        measure=_ours("footprint", "to_text"),
        must=at_most(2.1),
        goal=at_most(1),
    ),
    Target(
        number=12,
        what="prune, per session",
        unit="ms",
        measure=_ours("prune", "per_session_ms"),
        must=at_most(3),
        goal=at_most(1),
    ),
    Target(
        number=12,
        what="prune, longest wait of another writer",
        unit="ms",
        measure=_ours("prune", "longest_wait_ms"),
        must=at_most(100),
        goal=at_most(50),
    ),
    Target(
        number=13,
        what="open a large store, p50",
        unit="ms",
        measure=_ours("opening", "p50_ms"),
        must=at_most(1),
        goal=at_most(1),
    ),
    Target(
        number=14,
        what="import hermes_state, over sqlite3 and json",
        unit="ms",
        measure=_ours("startup", "import_ms"),
        must=at_most(30),
        goal=at_most(10),
    ),
    Target(
        number=14,
        what="hermes sessions list, to Hermes 0.13",
        unit="×",
        measure=_against(HERMES, "startup", "list_ms"),
        must=at_most(0.3),
        goal=at_most(0.25),
    ),
    Target(
        number=15,
        what="append on PostgreSQL, to psycopg without search",
        unit="×",
        measure=_against("psycopg", "append-postgresql", "per_second", ours="ours-postgresql"),
        must=at_least(0.9),
        goal=at_least(0.95),
    ),
    Target(
        number=15,
        what="append on MariaDB, to PyMySQL without search",
        unit="×",
        measure=_against("pymysql", "append-mysql", "per_second", ours="ours-mysql"),
        must=at_least(0.9),
        goal=at_least(0.95),
    ),
    Target(
        number=16,
        what="export, memory, to a fifth of the messages",
        unit="×",
        measure=_growth("export_mb"),
        must=at_most(1.1),
        goal=at_most(1.1),
    ),
    Target(
        number=16,
        what="migrate, memory, to a fifth of the messages",
        unit="×",
        measure=_growth("migrate_mb"),
        must=at_most(1.1),
        goal=at_most(1.1),
    ),
    Target(
        number=16,
        what="export, memory at its peak",
        unit="MB",
        measure=_ours("memory", "export_mb"),
        goal=at_most(100),
    ),
    Target(
        number=16,
        what="migrate, memory at its peak",
        unit="MB",
        measure=_ours("memory", "migrate_mb"),
        goal=at_most(100),
    ),
    Target(
        number=17,
        what="find a message's session among 100,000 lanes, to 10",
        unit="×",
        measure=_over_lanes("place"),
        must=at_most(1.5),
        goal=at_most(1.2),
    ),
    Target(
        number=17,
        what="receive a message and run its turn among 100,000 lanes, to 10",
        unit="×",
        measure=_over_lanes("round_trip"),
        must=at_most(1.5),
        goal=at_most(1.2),
    ),
    Target(
        number=17,
        what="the same on PostgreSQL",
        unit="×",
        measure=_over_lanes("round_trip", "ours-postgresql"),
        must=at_most(1.5),
        goal=at_most(1.2),
    ),
    Target(
        number=17,
        what="find a message's session among 100,000 lanes, p50",
        unit="ms",
        measure=_ours("lanes", "place_most_p50_ms"),
        goal=at_most(2),
    ),
    Target(
        number=18,
        what="1,000 people write to a gateway at once: event loop late, p99",
        unit="ms",
        measure=_ours("gateway", "stall_p99_ms", "ours-gateway"),
        must=at_most(50),
        goal=at_most(20),
    ),
    Target(
        number=18,
        what="the same, worst",
        unit="ms",
        measure=_ours("gateway", "stall_max_ms", "ours-gateway"),
        must=at_most(1000),
        goal=at_most(250),
    ),
    Target(
        number=18,
        what="the same, memory without pages, sixth round to second",
        unit="×",
        measure=_ours("gateway", "last_to_second", "ours-gateway"),
        must=at_most(1.3),
        goal=at_most(1.1),
    ),
)

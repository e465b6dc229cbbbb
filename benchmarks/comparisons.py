"""The comparisons between opponents that the table and the chart show: times as fast as Hermes."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.results import Results

BASELINE = "hermes-0.13"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One metric of one scenario, turned so that more is better."""

    scenario: str
    metric: str
    title: str
    unit: str
    more_is_better: bool = False
    #: The opponent that counts as 1; None if there is nothing to compare with.
    baseline: str | None = BASELINE

    def advantage(self, results: Results, opponent: str) -> float | None:
        """How many times as fast as the baseline; None when either was not measured."""
        if self.baseline is None:
            return None
        if opponent == self.baseline:
            measured = results.value(self.scenario, opponent, self.metric)
            return None if measured is None else 1.0
        if self.more_is_better:
            return results.ratio(self.scenario, self.metric, opponent, self.baseline)
        return results.ratio(self.scenario, self.metric, self.baseline, opponent)


COMPARISONS: tuple[Comparison, ...] = (
    Comparison(
        scenario="append",
        metric="per_second",
        title="append, one process",
        unit="messages/s",
        more_is_better=True,
    ),
    Comparison(
        scenario="processes",
        metric="per_second",
        title="append, 8 processes",
        unit="messages/s",
        more_is_better=True,
    ),
    Comparison(scenario="processes", metric="p999_ms", title="8 processes, p99.9", unit="ms"),
    Comparison(scenario="append-large", metric="p99_ms", title="large store, p99", unit="ms"),
    Comparison(scenario="append-large", metric="worst_ms", title="large store, worst", unit="ms"),
    Comparison(
        scenario="reading",
        metric="per_second",
        title="append beside a reader",
        unit="messages/s",
        more_is_better=True,
    ),
    Comparison(scenario="listing", metric="p50_ms", title="list the 20 most recent", unit="ms"),
    Comparison(scenario="resume", metric="p50_ms", title="resume a long session", unit="ms"),
    Comparison(scenario="prune", metric="per_session_ms", title="prune, per session", unit="ms"),
    Comparison(scenario="prune", metric="longest_wait_ms", title="prune, others wait", unit="ms"),
    Comparison(
        scenario="indexing",
        metric="per_second",
        title="append until searchable",
        unit="messages/s",
        more_is_better=True,
    ),
    Comparison(scenario="search", metric="all_p50_ms", title="search, middle class", unit="ms"),
    Comparison(
        scenario="search", metric="word_common_p50_ms", title="search, common word", unit="ms"
    ),
    Comparison(
        scenario="search", metric="cjk_short_p50_ms", title="search, short CJK word", unit="ms"
    ),
    Comparison(scenario="search-large", metric="all_p50_ms", title="search a million", unit="ms"),
    Comparison(scenario="opening", metric="p50_ms", title="open a large store", unit="ms"),
    Comparison(scenario="startup", metric="list_ms", title="hermes sessions list", unit="ms"),
)

#: The same on servers, each beside the plain driver, or beside our own store in a file.
SERVER_COMPARISONS: tuple[Comparison, ...] = (
    Comparison(
        scenario="append-postgresql",
        metric="per_second",
        title="append, PostgreSQL",
        unit="messages/s",
        more_is_better=True,
        baseline="psycopg",
    ),
    Comparison(
        scenario="append-mysql",
        metric="per_second",
        title="append, MariaDB",
        unit="messages/s",
        more_is_better=True,
        baseline="pymysql",
    ),
    Comparison(
        scenario="processes-postgresql",
        metric="per_second",
        title="append, 8 processes, PostgreSQL",
        unit="messages/s",
        more_is_better=True,
        baseline="psycopg",
    ),
    Comparison(
        scenario="processes-postgresql",
        metric="p999_ms",
        title="8 processes, p99.9, PostgreSQL",
        unit="ms",
        baseline="psycopg",
    ),
    Comparison(
        scenario="list-postgresql",
        metric="p50_ms",
        title="list the 20 most recent, PostgreSQL",
        unit="ms",
        baseline=None,
    ),
    Comparison(
        scenario="search-postgresql",
        metric="all_p50_ms",
        title="search, middle class, PostgreSQL",
        unit="ms",
        baseline="ours",
    ),
    Comparison(
        scenario="search-mysql",
        metric="all_p50_ms",
        title="search, middle class, MariaDB",
        unit="ms",
        baseline="ours",
    ),
)

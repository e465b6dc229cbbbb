"""Search a large store: the 20 best messages with snippet and context, by class of query.

The slowest query of a class speaks for it. Our own store is also asked for the newest matches, and
each query's bare form is run on the same index by the same driver: the 20 best row ids and nothing
else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from zlib import crc32

from benchmarks import questions
from benchmarks.measures import Metrics, median, percentile
from benchmarks.opponents import AgentStore
from benchmarks.scenarios.base import Job, PreparedStore, Scenario
from benchmarks.scenarios.prepared import MESSAGES, MESSAGES_LARGE, MESSAGES_SMALL
from benchmarks.sizes import Size

LIMIT = 20
FEWEST_CALLS = 3
#: After this long, a query has been asked often enough.
SECONDS = 1.0
#: What a search may cost: a multiple of the bare query, plus an allowance.
BARE_FACTOR = 1.2
BARE_ALLOWANCE_MS = 1.0


@dataclass(frozen=True)
class _Timed:
    """One query, asked several times."""

    p50_ms: float
    cpu_ms: float
    found: list[Any]


def _timed(ask: Callable[[], list[Any]], calls: int) -> _Timed:
    found = ask()  # the first time reads the file and is not counted
    elapsed: list[float] = []
    used: list[float] = []
    deadline = time.perf_counter() + SECONDS
    while len(elapsed) < calls:
        if len(elapsed) >= FEWEST_CALLS and time.perf_counter() > deadline:
            break
        used_before, start = time.process_time(), time.perf_counter()
        ask()
        elapsed.append(time.perf_counter() - start)
        used.append(time.process_time() - used_before)
    return _Timed(percentile(elapsed, 0.5) * 1000, percentile(used, 0.5) * 1000, found)


def _asked(
    store: AgentStore, queries: tuple[str, ...], calls: int, sort: str | None = None
) -> list[_Timed]:
    return [_timed(partial(store.search, query, LIMIT, sort), calls) for query in queries]


def _run(job: Job) -> Metrics:
    calls = job.count("calls")
    classes = questions.classes(job.stored_sessions())
    store = job.open_agent()
    store.complete_index()
    bare = job.opponent.bare_search(job.store) if job.opponent.bare_search else None
    metrics: Metrics = {}
    excess: list[float] = []
    for name, queries in classes.items():
        asked = _asked(store, queries, calls)
        metrics |= _class_metrics(name, asked)
        metrics[f"{name}_answers"] = _checksum(asked)
        if bare is None:
            continue
        metrics |= _class_metrics(f"{name}_newest", _asked(store, queries, calls, "newest"))
        plain = [_timed(bare(query), calls) for query in queries]
        metrics |= _class_metrics(f"{name}_bare", plain)
        excess += [
            one.p50_ms / (BARE_FACTOR * other.p50_ms + BARE_ALLOWANCE_MS)
            for one, other in zip(asked, plain, strict=True)
        ]
    store.close()
    metrics |= _summary(metrics, list(classes), "")
    if bare is not None:
        metrics |= _summary(metrics, list(classes), "_newest")
        metrics |= _summary(metrics, list(classes), "_bare")
        metrics["to_allowed_p50"] = median(excess)
        metrics["to_allowed_worst"] = max(excess)
    return metrics


def _class_metrics(name: str, asked: list[_Timed]) -> Metrics:
    return {
        f"{name}_p50_ms": max(one.p50_ms for one in asked),
        f"{name}_cpu_ms": max(one.cpu_ms for one in asked),
        f"{name}_hits": float(min(len(one.found) for one in asked)),
    }


def _checksum(asked: list[_Timed]) -> float:
    """A number that two databases share if they answered alike: who was found, in which order."""
    answers = [[(row["session_id"], row["snippet"]) for row in one.found] for one in asked]
    return float(crc32(json.dumps(answers).encode()))


def _summary(metrics: Metrics, names: list[str], kind: str) -> Metrics:
    """The middle and the slowest class, and the short CJK words together."""
    elapsed = [metrics[f"{name}{kind}_p50_ms"] for name in names]
    used = [metrics[f"{name}{kind}_cpu_ms"] for name in names]
    short = [metrics[f"{name}{kind}_p50_ms"] for name in ("cjk_1", "cjk_2")]
    return {
        f"all{kind}_p50_ms": median(elapsed),
        f"all{kind}_cpu_ms": median(used),
        f"slowest{kind}_p50_ms": max(elapsed),
        f"slowest{kind}_cpu_ms": max(used),
        f"cjk_short{kind}_p50_ms": max(short),
    }


def _scenario(
    name: str,
    title: str,
    prepared: PreparedStore,
    is_part_of: Callable[[Size], bool] = lambda _size: True,
    opponents: tuple[str, ...] = ("ours", "hermes-0.13", "hermes-0.19"),
) -> Scenario:
    return Scenario(
        name=name,
        title=title,
        opponents=opponents,
        prepared=prepared,
        changes_store=False,
        is_part_of=is_part_of,
        parameters=lambda size, _opponent: {"calls": size.search_calls},
        run=_run,
    )


SEARCH_SMALL = _scenario("search-small", "search a small store", MESSAGES_SMALL)
SEARCH = _scenario("search", "search a large store", MESSAGES)
SEARCH_LARGE = _scenario(
    "search-large",
    "search a million messages",
    MESSAGES_LARGE,
    lambda size: size.store_messages_large > 0,
)
#: The small store on servers, beside the same in a file.
SEARCH_POSTGRESQL = _scenario(
    "search-postgresql",
    "search on PostgreSQL",
    MESSAGES_SMALL,
    opponents=("ours", "ours-postgresql"),
)
SEARCH_MYSQL = _scenario(
    "search-mysql", "search on MariaDB", MESSAGES_SMALL, opponents=("ours", "ours-mysql")
)

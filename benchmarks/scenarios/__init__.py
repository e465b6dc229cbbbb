"""The scenarios, in the order they are run. A new subject adds a module and a line here."""

from __future__ import annotations

from benchmarks.scenarios.append import APPEND, APPEND_LARGE, APPEND_MYSQL, APPEND_POSTGRESQL
from benchmarks.scenarios.base import Job, PreparedStore, Scenario, StoredRowsDiffer
from benchmarks.scenarios.footprint import FOOTPRINT
from benchmarks.scenarios.gateway import GATEWAY
from benchmarks.scenarios.indexing import INDEXING
from benchmarks.scenarios.lanes import LANES, LANES_POSTGRESQL
from benchmarks.scenarios.listing import LISTING, LISTING_LARGE, LISTING_POSTGRESQL
from benchmarks.scenarios.memory import MEMORY, MEMORY_FIFTH
from benchmarks.scenarios.opening import OPENING
from benchmarks.scenarios.processes import PROCESSES, PROCESSES_POSTGRESQL
from benchmarks.scenarios.prune import PRUNE
from benchmarks.scenarios.reading import READING
from benchmarks.scenarios.recall import RECALL
from benchmarks.scenarios.resume import RESUME
from benchmarks.scenarios.search import (
    SEARCH,
    SEARCH_LARGE,
    SEARCH_MYSQL,
    SEARCH_POSTGRESQL,
    SEARCH_SMALL,
)
from benchmarks.scenarios.startup import STARTUP

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        STARTUP,
        APPEND,
        PROCESSES,
        RESUME,
        LISTING,
        LISTING_LARGE,
        OPENING,
        READING,
        APPEND_LARGE,
        PRUNE,
        INDEXING,
        SEARCH_SMALL,
        SEARCH,
        SEARCH_LARGE,
        RECALL,
        FOOTPRINT,
        MEMORY,
        MEMORY_FIFTH,
        LANES,
        GATEWAY,
        APPEND_POSTGRESQL,
        APPEND_MYSQL,
        PROCESSES_POSTGRESQL,
        LISTING_POSTGRESQL,
        LANES_POSTGRESQL,
        SEARCH_POSTGRESQL,
        SEARCH_MYSQL,
    )
}

__all__ = ["SCENARIOS", "Job", "PreparedStore", "Scenario", "StoredRowsDiffer"]

"""How much work a run does: a smoke test, the published run, and the long one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Size:
    """The amounts of one run. Reference opponents stop a slow scenario after some seconds."""

    name: str
    rounds: int
    #: One process appends this many messages to an empty store.
    appended_messages: int
    #: The prepared store has this many messages.
    store_messages: int
    #: A smaller prepared store for searching, and a larger one; 0 leaves the larger one out.
    store_messages_small: int
    store_messages_large: int
    #: Appended to an empty store until all of them can be found.
    indexed_messages: int
    #: This many are appended to the prepared store.
    large_appends: int
    processes: int
    messages_per_process: int
    #: Appended to the prepared store while another thread reads it.
    appends_while_reading: int
    #: Each query is asked so often, unless that takes too long.
    search_calls: int
    listed_sessions: int
    #: A second, larger listing for our own store only; 0 leaves it out.
    listed_sessions_large: int
    resumed_messages: int
    pruned_sessions: int
    #: Other stores prune in one transaction; they get a part, and the result is per session.
    pruned_sessions_reference: int
    #: The store that is exported and migrated, to see how much memory that takes.
    moved_messages: int
    #: Three numbers of lanes in a store, ascending, and the calls measured at each.
    lanes: tuple[int, int, int]
    lane_calls: int
    #: People who write to one gateway at the same time.
    gateway_lanes: int
    openings: int
    process_starts: int
    reference_seconds: float


QUICK = Size(
    name="quick",
    rounds=1,
    appended_messages=300,
    store_messages=3000,
    store_messages_small=1000,
    store_messages_large=0,
    indexed_messages=300,
    large_appends=500,
    processes=8,
    messages_per_process=25,
    appends_while_reading=100,
    search_calls=15,
    listed_sessions=1000,
    listed_sessions_large=0,
    resumed_messages=400,
    pruned_sessions=40,
    pruned_sessions_reference=20,
    moved_messages=2000,
    lanes=(10, 100, 1_000),
    lane_calls=40,
    gateway_lanes=20,
    openings=10,
    process_starts=3,
    reference_seconds=1.0,
)
DEFAULT = Size(
    name="default",
    rounds=3,
    appended_messages=4000,
    store_messages=200_000,
    store_messages_small=20_000,
    store_messages_large=0,
    indexed_messages=20_000,
    large_appends=20_000,
    processes=8,
    messages_per_process=300,
    appends_while_reading=1000,
    search_calls=15,
    listed_sessions=50_000,
    listed_sessions_large=0,
    resumed_messages=2000,
    pruned_sessions=3500,
    pruned_sessions_reference=350,
    moved_messages=100_000,
    lanes=(10, 1_000, 100_000),
    lane_calls=300,
    gateway_lanes=1_000,
    openings=50,
    process_starts=10,
    reference_seconds=6.0,
)
LARGE = Size(
    name="large",
    rounds=5,
    appended_messages=20_000,
    store_messages=200_000,
    store_messages_small=20_000,
    store_messages_large=1_000_000,
    indexed_messages=20_000,
    large_appends=20_000,
    processes=8,
    messages_per_process=1000,
    appends_while_reading=4000,
    search_calls=15,
    listed_sessions=50_000,
    listed_sessions_large=1_000_000,
    resumed_messages=2000,
    pruned_sessions=3500,
    pruned_sessions_reference=3500,
    moved_messages=1_000_000,
    lanes=(10, 1_000, 100_000),
    lane_calls=2_000,
    gateway_lanes=1_000,
    openings=200,
    process_starts=20,
    reference_seconds=60.0,
)
SIZES = {size.name: size for size in (QUICK, DEFAULT, LARGE)}

"""The state of a store: one value, the worst known condition."""

from __future__ import annotations

import pytest

from hermes_sessions import errors
from hermes_sessions.storage.care.health import HEALTHY, Health, HealthWatch, State, after, worst
from hermes_sessions_testing.clock import FrozenClock


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (errors.StoreReadOnly("r"), State.READ_ONLY),
        (errors.DiskFull("f"), State.READ_ONLY),
        (errors.StoreLocked("l"), State.READ_ONLY),
        (errors.SchemaRefused("s"), State.READ_ONLY),
        (errors.StoreUnreachable("u"), State.DOWN),
        (errors.StoreIOError("i"), State.DOWN),
        (errors.StoreCorrupt("c"), State.DOWN),
    ],
)
def test_what_a_failure_means(error: errors.StoreError, state: State) -> None:
    found = after(error)
    assert (found.state, found.why, found.takes_writes) == (state, str(error), False)


def test_the_worst_counts_and_the_first_of_those() -> None:
    degraded, also = Health(State.DEGRADED, "a"), Health(State.DEGRADED, "b")
    assert worst([]) == HEALTHY
    assert worst([HEALTHY, degraded, also]) is degraded
    assert worst([degraded, Health(State.DOWN, "c"), Health(State.READ_ONLY, "d")]).why == "c"


def test_a_watch_shows_what_was_met_last() -> None:
    watch = HealthWatch()
    assert watch.now.is_healthy
    watch.failed(errors.DiskFull("no space"))
    watch.waits(2)
    assert watch.now == Health(State.READ_ONLY, "no space")
    watch.worked()
    assert watch.now == Health(State.DEGRADED, "2 waiting to be stored.")
    assert watch.now.takes_writes
    watch.waits(0)
    assert watch.now == HEALTHY


def test_a_store_of_which_nothing_is_heard_is_down() -> None:
    stopwatch = FrozenClock(0)
    watch = HealthWatch(silent_after=15, stopwatch=stopwatch)
    watch.waits(1)
    stopwatch.advance(15)
    assert (watch.now.state, watch.age) == (State.DEGRADED, 15)
    stopwatch.advance(1)
    assert watch.now == Health(State.DOWN, "It has not answered for 16 s.")
    watch.failed(errors.StoreUnreachable("no server"))
    stopwatch.advance(60)
    assert (watch.now, watch.age) == (Health(State.DOWN, "no server"), 60)
    watch.failed(errors.StoreLocked("in use"))
    assert watch.now.state is State.READ_ONLY
    stopwatch.advance(60)
    assert watch.now.state is State.DOWN
    watch.worked()
    assert (watch.now.state, watch.age) == (State.DEGRADED, 0)

"""Cached agents between turns: reused only where valid, and closed exactly once."""

import random
import threading
from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest

from hermes_sessions.lifecycle.agent_cache import AgentCache, agent_signature
from hermes_sessions_testing.clock import FrozenClock


class Agent:
    """Something with resources."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.closings = 0

    def close(self) -> None:
        self.closings += 1


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def cache(clock: FrozenClock) -> AgentCache[Agent]:
    return AgentCache(clock=clock)


def turn(cache: AgentCache[Agent], key: str, signature: str = "s") -> Agent:
    with cache.using(key, signature, lambda: Agent(key)) as agent:
        assert agent.closings == 0
        return agent


def test_the_same_session_and_configuration_have_the_same_agent(cache: AgentCache[Agent]) -> None:
    first = turn(cache, "a")
    assert turn(cache, "a") is first
    assert turn(cache, "b") is not first
    assert cache.stats() == (2, 0, 1, 2, {"full": 0, "idle": 0, "stale": 0, "asked": 0})


def test_another_session_or_configuration_has_another_agent(cache: AgentCache[Agent]) -> None:
    settings: dict[str, Any] = {"model": "big", "tools": {"b", "a"}}
    before = turn(cache, "a", agent_signature("s1", settings))
    assert turn(cache, "a", agent_signature("s1", {"tools": {"a", "b"}, "model": "big"})) is before
    after_a_reset = turn(cache, "a", agent_signature("s2", settings))
    assert after_a_reset is not before
    assert before.closings == 1
    with_another_model = turn(cache, "a", agent_signature("s2", settings | {"model": "small"}))
    assert with_another_model is not after_a_reset
    assert after_a_reset.closings == 1
    assert cache.stats().evicted["stale"] == 2


def test_a_signature_hides_secrets() -> None:
    assert "hunter2" not in agent_signature("s1", {"api_key": "hunter2"})
    assert agent_signature("s1", {"k": 1}) != agent_signature("s1", {"k": 2})
    assert agent_signature("s1", {"k": b"1"}) != agent_signature("s1", {"k": b"2"})


def test_the_least_recently_used_of_129_goes(cache: AgentCache[Agent]) -> None:
    agents = [turn(cache, str(number)) for number in range(128)]
    turn(cache, "0")
    turn(cache, "one more")
    assert cache.stats().size == 128
    assert [agent.name for agent in agents if agent.closings] == ["1"]
    assert "1" not in cache
    assert "0" in cache


def test_an_agent_in_a_turn_is_never_evicted(clock: FrozenClock) -> None:
    cache: AgentCache[Agent] = AgentCache(2, clock=clock)
    with ExitStack() as turns:
        running = [turns.enter_context(cache.using(key, "s", Agent)) for key in ("a", "b", "c")]
        assert cache.stats()[:2] == (3, 3)
        clock.advance(10_000)
        assert cache.sweep() == 0
        idle = turn(cache, "d")
        # There are too many, and this is the only one that can go.
        assert idle.closings == 1
        assert [agent.closings for agent in running] == [0, 0, 0]
    assert cache.stats()[:2] == (2, 0)
    assert sum(agent.closings for agent in running) == 1


def test_idle_agents_are_swept_whatever_the_policy(
    cache: AgentCache[Agent], clock: FrozenClock
) -> None:
    agent = turn(cache, "a")
    clock.advance(3600)
    assert cache.sweep() == 0
    clock.advance(1)
    other = turn(cache, "b")
    assert cache.sweep() == 1
    assert cache.sweep() == 0
    assert (agent.closings, other.closings) == (1, 0)
    assert cache.sweep(clock() + 3601) == 1


def test_the_time_counts_from_the_end_of_the_turn(
    cache: AgentCache[Agent], clock: FrozenClock
) -> None:
    with cache.using("a", "s", Agent):
        clock.advance(10_000)
    assert cache.sweep() == 0


def test_what_is_evicted_during_its_turn_is_closed_at_its_end(cache: AgentCache[Agent]) -> None:
    with cache.using("a", "s", Agent) as agent:
        assert cache.evict("a")
        assert not cache.evict("a")
        assert agent.closings == 0
    assert agent.closings == 1
    assert "a" not in cache


def test_a_new_session_during_a_turn_has_its_own_agent(cache: AgentCache[Agent]) -> None:
    with cache.using("a", "old", Agent) as old:
        new = turn(cache, "a", "new")
        assert new is not old
    assert (old.closings, new.closings) == (1, 0)
    assert turn(cache, "a", "new") is new


def test_two_turns_at_once_do_not_share_an_agent(cache: AgentCache[Agent]) -> None:
    with cache.using("a", "s", Agent) as first:
        second = turn(cache, "a")
    assert second is not first
    assert (first.closings, second.closings) == (0, 1)
    assert turn(cache, "a") is first


def test_a_turn_that_fails_gives_its_agent_back(cache: AgentCache[Agent]) -> None:
    with pytest.raises(ValueError, match="oops"), cache.using("a", "s", Agent):
        raise ValueError("oops")
    assert cache.stats()[:2] == (1, 0)


def test_what_cannot_be_made_is_not_kept(cache: AgentCache[Agent]) -> None:
    def broken() -> Agent:
        raise ValueError("no model")

    with pytest.raises(ValueError, match="no model"), cache.using("a", "s", broken):
        pass
    assert cache.stats()[:2] == (0, 0)


def test_closing_closes_everything_once(cache: AgentCache[Agent]) -> None:
    idle = turn(cache, "a")
    with cache.using("b", "s", Agent) as running:
        cache.close()
        assert (idle.closings, running.closings) == (1, 0)
    assert running.closings == 1
    assert turn(cache, "c").closings == 1
    cache.close()
    assert idle.closings == 1


def test_what_cannot_be_closed_does_not_keep_others_from_it(
    clock: FrozenClock, caplog: pytest.LogCaptureFixture
) -> None:
    closed: list[str] = []

    def close(name: str) -> None:
        if name == "a":
            raise OSError("stuck")
        closed.append(name)

    cache: AgentCache[str] = AgentCache(clock=clock, close=close)
    for name in ("a", "b"):
        with cache.using(name, "s", lambda name=name: name):
            pass
    cache.close()
    assert closed == ["b"]
    assert "stuck" in caplog.text


def test_closing_happens_outside_the_lock(clock: FrozenClock) -> None:
    sizes: list[int] = []
    cache: AgentCache[Agent] = AgentCache(
        1, clock=clock, close=lambda agent: sizes.append(cache.stats().size)
    )
    turn(cache, "a")
    turn(cache, "b")
    assert sizes == [1]


def test_many_threads(clock: FrozenClock) -> None:
    """Every agent is used by one turn at a time, never after it was closed, and closed once."""
    made: list[Agent] = []
    in_use: Counter[int] = Counter()
    faults: list[str] = []
    guard = threading.Lock()
    cache: AgentCache[Agent] = AgentCache(4, 50, clock=clock)

    def make() -> Agent:
        agent = Agent()
        made.append(agent)
        return agent

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(300):
            key, signature = str(chance.randrange(8)), chance.choice("xy")
            with cache.using(key, signature, make) as agent:
                with guard:
                    in_use[id(agent)] += 1
                    if in_use[id(agent)] > 1 or agent.closings:
                        faults.append(key)
                if chance.random() < 0.2:
                    cache.evict(key)
                if chance.random() < 0.1:
                    cache.sweep(clock() + chance.randrange(100))
                with guard:
                    in_use[id(agent)] -= 1

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cache.close()
    assert not faults
    assert {agent.closings for agent in made} == {1}
    assert cache.stats()[:2] == (0, 0)

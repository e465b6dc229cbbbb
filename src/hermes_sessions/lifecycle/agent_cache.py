"""Agents kept between turns, so that a model's prompt cache stays useful.

An agent is kept for a lane, and given out only to a turn of the same session under the same
configuration. While a turn has it, nothing takes it away; what was to be closed meanwhile is closed
when the turn gives it back. Agents are made and closed outside the lock: both may take long.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

T = TypeVar("T")
#: Too many; unused for too long; of another session or configuration; somebody said so.
EvictionCause = Literal["full", "idle", "stale", "asked"]

DEFAULT_MAX_SIZE: Final = 128
DEFAULT_IDLE_TTL: Final = 3600.0


def agent_signature(session_id: str, configuration: object) -> str:
    """Return what an agent must have in common with a turn: the session, and a digest of the
    *configuration*, which is anything that JSON can hold, sets, and what has a telling ``repr``.

    Secrets in the configuration cannot be read from it.
    """
    text = json.dumps(configuration, sort_keys=True, default=_plain)
    return f"{session_id}:{hashlib.sha256(text.encode()).hexdigest()}"


def _plain(value: object) -> object:
    return sorted(map(repr, value)) if isinstance(value, AbstractSet) else repr(value)


class CacheStats(NamedTuple):
    """How a cache has done so far."""

    #: Agents that are kept, those that a turn has included.
    size: int
    #: Agents that a turn has, kept or not.
    in_use: int
    hits: int
    misses: int
    #: How many agents were let go, by cause.
    evicted: dict[EvictionCause, int]


@dataclass(slots=True, eq=False)
class _Kept(Generic[T]):
    """An agent in the cache."""

    agent: T
    signature: str
    used_at: float
    in_use: bool


class AgentCache(Generic[T]):
    """The least recently used agents, at most *max_size* and for *idle_ttl* seconds of no use.

    *close* is called once for each agent that is let go, in the thread that let it go; without it,
    the agent's own ``close``, if it has one. What it raises is logged. Thread-safe.
    """

    def __init__(
        self,
        max_size: int = DEFAULT_MAX_SIZE,
        idle_ttl: float = DEFAULT_IDLE_TTL,
        *,
        clock: Callable[[], float],
        close: Callable[[T], object] | None = None,
    ) -> None:
        self._max_size = max_size
        self._idle_ttl = idle_ttl
        self._clock = clock
        self._close: Callable[[T], object] = close or _close_itself
        self._lock = threading.Lock()
        # The least recently used first.
        self._kept: OrderedDict[str, _Kept[T]] = OrderedDict()
        self._in_use = 0
        self._hits = 0
        self._misses = 0
        self._evicted: dict[EvictionCause, int] = dict.fromkeys(
            ("full", "idle", "stale", "asked"), 0
        )
        self._is_closed = False

    @contextmanager
    def using(self, session_key: str, signature: str, make: Callable[[], T]) -> Iterator[T]:
        """Lend the agent of a lane to a turn; *make* makes one where none can be used again.

        A second turn that asks for the agent of a lane while a first one has it gets its own, which
        is closed at its end. What *make* raises is raised, and nothing is kept.
        """
        kept = self._take(session_key, signature) or self._add(session_key, signature, make())
        try:
            yield kept.agent
        finally:
            self._give_back(session_key, kept)

    def evict(self, session_key: str) -> bool:
        """Let the agent of a lane go; returns whether there was one.

        One that a turn has is closed when the turn ends, and is not used again.
        """
        with self._lock:
            if session_key not in self._kept:
                return False
            unused = self._drop([session_key], "asked")
        self._close_all(unused)
        return True

    def sweep(self, now: float | None = None) -> int:
        """Let go of agents that nobody has used for longer than the time; returns how many."""
        moment = self._clock() if now is None else now
        with self._lock:
            idle = [
                key
                for key, kept in self._kept.items()
                if not kept.in_use and moment - kept.used_at > self._idle_ttl
            ]
            unused = self._drop(idle, "idle")
        self._close_all(unused)
        return len(unused)

    def close(self) -> None:
        """Let all agents go; from now on every agent is closed at the end of its turn."""
        with self._lock:
            self._is_closed = True
            unused = self._drop(list(self._kept), "asked")
        self._close_all(unused)

    def stats(self) -> CacheStats:
        """Return how it has done so far."""
        with self._lock:
            return CacheStats(
                len(self._kept), self._in_use, self._hits, self._misses, dict(self._evicted)
            )

    def __contains__(self, session_key: str) -> bool:
        with self._lock:
            return session_key in self._kept

    def _take(self, session_key: str, signature: str) -> _Kept[T] | None:
        """Return the agent of a lane for a turn, or None when one has to be made."""
        with self._lock:
            kept = self._kept.get(session_key)
            if kept is not None and not kept.in_use and kept.signature == signature:
                self._hits += 1
                self._in_use += 1
                kept.in_use = True
                self._kept.move_to_end(session_key)
                return kept
            self._misses += 1
            stale = kept is not None and kept.signature != signature
            unused = self._drop([session_key], "stale") if stale else []
        self._close_all(unused)
        return None

    def _add(self, session_key: str, signature: str, agent: T) -> _Kept[T]:
        kept = _Kept(agent, signature, self._clock(), in_use=True)
        with self._lock:
            self._in_use += 1
            # Another turn of the lane may have been faster; then this agent is for this turn alone.
            if not self._is_closed:
                self._kept.setdefault(session_key, kept)
            unused = self._drop_surplus()
        self._close_all(unused)
        return kept

    def _give_back(self, session_key: str, kept: _Kept[T]) -> None:
        with self._lock:
            self._in_use -= 1
            kept.in_use = False
            kept.used_at = self._clock()
            is_kept = self._kept.get(session_key) is kept
            if is_kept:
                self._kept.move_to_end(session_key)
            unused = self._drop_surplus() if is_kept else [kept.agent]
        self._close_all(unused)

    def _drop_surplus(self) -> list[T]:
        """Drop the least recently used ones that no turn has, as many as there are too many."""
        surplus = len(self._kept) - self._max_size
        if surplus <= 0:
            return []
        unused = [key for key, kept in self._kept.items() if not kept.in_use]
        return self._drop(unused[:surplus], "full")

    def _drop(self, session_keys: list[str], cause: EvictionCause) -> list[T]:
        """Forget agents, and return those to close now: one that a turn has is closed by whoever
        gives it back. The lock is held, so that each is seen by one of the two.
        """
        self._evicted[cause] += len(session_keys)
        dropped = [self._kept.pop(key) for key in session_keys]
        return [kept.agent for kept in dropped if not kept.in_use]

    def _close_all(self, agents: list[T]) -> None:
        for agent in agents:
            try:
                self._close(agent)
            except Exception as error:  # noqa: BLE001 - an agent of anybody's must not end the turn
                logger.warning("An agent could not be closed: %s: %s", type(error).__name__, error)


def _close_itself(agent: Any) -> None:
    close = getattr(agent, "close", None)
    if close is not None:
        close()

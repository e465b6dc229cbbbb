"""A cache of agents between turns, so that a model's prompt cache stays useful.

An agent is cached per lane and lent only to a turn of the same session with the same configuration.
While a turn uses it, it is never closed; an agent evicted meanwhile is closed when the turn returns
it. Agents are created and closed outside the lock, because both may take long.
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
#: The cache is full; unused for too long; another session or configuration; explicitly evicted.
EvictionCause = Literal["full", "idle", "stale", "asked"]

DEFAULT_MAX_SIZE: Final = 128
DEFAULT_IDLE_TTL: Final = 3600.0


def agent_signature(session_id: str, configuration: object) -> str:
    """Return the signature that a cached agent and a turn must share.

    It combines the session with a digest of *configuration*: any JSON value, sets, and objects
    with a descriptive ``repr``. Secrets in the configuration cannot be recovered from it.
    """
    text = json.dumps(configuration, sort_keys=True, default=_plain)
    return f"{session_id}:{hashlib.sha256(text.encode()).hexdigest()}"


def _plain(value: object) -> object:
    return sorted(map(repr, value)) if isinstance(value, AbstractSet) else repr(value)


class CacheStats(NamedTuple):
    """Statistics of a cache since it was created."""

    #: Cached agents, including those in use.
    size: int
    #: Agents in use by a turn, cached or not.
    in_use: int
    hits: int
    misses: int
    #: Number of evicted agents by cause.
    evicted: dict[EvictionCause, int]


@dataclass(slots=True, eq=False)
class _CachedAgent(Generic[T]):
    """A cached agent."""

    agent: T
    signature: str
    used_at: float
    in_use: bool


class AgentCache(Generic[T]):
    """An LRU cache of at most *max_size* agents, each evicted after *idle_ttl* seconds without use.

    *close* is called once for each evicted agent, in the thread that evicted it; by default the
    agent's own ``close``, if it has one. Errors from it are logged. Thread-safe.
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
        # Least recently used first.
        self._kept: OrderedDict[str, _CachedAgent[T]] = OrderedDict()
        self._in_use = 0
        self._hits = 0
        self._misses = 0
        self._evicted: dict[EvictionCause, int] = dict.fromkeys(
            ("full", "idle", "stale", "asked"), 0
        )
        self._is_closed = False

    @contextmanager
    def using(self, session_key: str, signature: str, make: Callable[[], T]) -> Iterator[T]:
        """Lend the agent of a lane to a turn; *make* creates one if no cached agent fits.

        A second concurrent turn of the same lane gets its own agent, which is closed at its end. If
        *make* raises, the error is propagated and nothing is cached.
        """
        kept = self._take(session_key, signature) or self._add(session_key, signature, make())
        try:
            yield kept.agent
        finally:
            self._give_back(session_key, kept)

    def evict(self, session_key: str) -> bool:
        """Evict the agent of a lane; returns whether there was one.

        An agent in use is closed when its turn ends, and is not reused.
        """
        with self._lock:
            if session_key not in self._kept:
                return False
            unused = self._drop([session_key], "asked")
        self._close_all(unused)
        return True

    def sweep(self, now: float | None = None) -> int:
        """Evict agents that have been idle for too long; returns how many."""
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
        """Evict all agents; from now on every agent is closed at the end of its turn."""
        with self._lock:
            self._is_closed = True
            unused = self._drop(list(self._kept), "asked")
        self._close_all(unused)

    def stats(self) -> CacheStats:
        """Return the statistics so far."""
        with self._lock:
            return CacheStats(
                len(self._kept), self._in_use, self._hits, self._misses, dict(self._evicted)
            )

    def __contains__(self, session_key: str) -> bool:
        with self._lock:
            return session_key in self._kept

    def _take(self, session_key: str, signature: str) -> _CachedAgent[T] | None:
        """Return the cached agent of a lane for a turn, or None if one must be created."""
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

    def _add(self, session_key: str, signature: str, agent: T) -> _CachedAgent[T]:
        kept = _CachedAgent(agent, signature, self._clock(), in_use=True)
        with self._lock:
            self._in_use += 1
            # A concurrent turn of the lane may have cached one; then this agent is for this turn
            # only.
            if not self._is_closed:
                self._kept.setdefault(session_key, kept)
            unused = self._drop_surplus()
        self._close_all(unused)
        return kept

    def _give_back(self, session_key: str, kept: _CachedAgent[T]) -> None:
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
        """Drop the least recently used idle agents beyond the maximum size."""
        surplus = len(self._kept) - self._max_size
        if surplus <= 0:
            return []
        unused = [key for key, kept in self._kept.items() if not kept.in_use]
        return self._drop(unused[:surplus], "full")

    def _drop(self, session_keys: list[str], cause: EvictionCause) -> list[T]:
        """Forget agents, and return those to close now; one in use is closed when it is returned.

        The caller holds the lock, so that each agent is closed exactly once.
        """
        self._evicted[cause] += len(session_keys)
        dropped = [self._kept.pop(key) for key in session_keys]
        return [kept.agent for kept in dropped if not kept.in_use]

    def _close_all(self, agents: list[T]) -> None:
        for agent in agents:
            try:
                self._close(agent)
            except Exception as error:  # noqa: BLE001 - a failing agent must not end the turn
                logger.warning("An agent could not be closed: %s: %s", type(error).__name__, error)


def _close_itself(agent: Any) -> None:
    close = getattr(agent, "close", None)
    if close is not None:
        close()

"""What operators see: counters and gauges for Prometheus, and whether the gateway is ready.

Names of platforms, statuses and outcomes are labels; ids, names and texts never are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hermes_sessions.gateway.events import Receipt
from hermes_sessions.gateway.platforms.port import Adapter
from hermes_sessions.storage.care.health import Health, HealthWatch, State

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
#: How often the delay of the event loop is measured.
MEASURED_EVERY: Final = 1.0
_DELAYS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_SECONDS: Final = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)

#: Returns numbers by the value of a label; or one number, under the empty text.
Look = Callable[[], Mapping[str, float]]
#: Returns what is wrong, in words without secrets; None when nothing is.
Check = Callable[[], str | None]


class GatewayMetrics:
    """The metrics of one gateway. Counting is thread-safe and never fails a message.

    What is shown is known already: nothing here waits for the store, which may be frozen.
    """

    def __init__(self, health: HealthWatch | None = None) -> None:
        #: How the store is, as of the last heartbeat or write.
        self.health = health or HealthWatch()
        #: Replies by status, as of the last heartbeat.
        self.outbox: Mapping[str, int] = {}
        self._registry = CollectorRegistry()
        self._messages = Counter(
            "hermes_gateway_messages",
            "Messages that arrived, by platform and what became of them.",
            ["platform", "status"],
            registry=self._registry,
        )
        self._turns = Counter(
            "hermes_gateway_turns",
            "Turns that ended, by platform and outcome.",
            ["platform", "outcome"],
            registry=self._registry,
        )
        self._turn_seconds = Histogram(
            "hermes_gateway_turn_seconds",
            "How long turns took.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._deliveries = Counter(
            "hermes_gateway_deliveries",
            "Attempts to deliver a reply, by platform and outcome.",
            ["platform", "outcome"],
            registry=self._registry,
        )
        self._delay = Histogram(
            "hermes_gateway_loop_delay_seconds",
            "How late the event loop was.",
            buckets=_DELAYS,
            registry=self._registry,
        )
        self._latest_delay = Gauge(
            "hermes_gateway_loop_delay_latest_seconds",
            "How late the event loop was the last time it was measured.",
            registry=self._registry,
        )
        self._checks: dict[str, Check] = {}

    def store(self) -> Health:
        """Return how the store is."""
        return self.health.now

    def told_store(self) -> dict[str, object]:
        """Return how the store is, and seconds since that was known, for probes."""
        return {"store": self.store().state.value, "heartbeat_age": round(self.health.age, 1)}

    # ── counting ──────────────────────────────────────────────────────────────────────────────

    def message(self, platform: str, receipt: Receipt) -> None:
        """Count a message."""
        self._messages.labels(platform, receipt.status).inc()

    def turn(self, platform: str, outcome: str, seconds: float) -> None:
        """Count a turn that ended."""
        self._turns.labels(platform, outcome).inc()
        self._turn_seconds.observe(max(0.0, seconds))

    def delivery(self, platform: str, outcome: str) -> None:
        """Count an attempt to deliver."""
        self._deliveries.labels(platform, outcome).inc()

    async def measure_loop(self, *, every: float = MEASURED_EVERY) -> None:
        """Measure how late the event loop is, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + every
            await asyncio.sleep(every)
            delay = max(0.0, clock() - due)
            self._delay.observe(delay)
            self._latest_delay.set(delay)

    # ── looking ───────────────────────────────────────────────────────────────────────────────

    def show(self, name: str, words: str, look: Look, *, label: str | None = None) -> None:
        """Show numbers that *look* returns at once when metrics are rendered."""
        self._registry.register(_LookupGauge(f"hermes_gateway_{name}", words, look, label))

    def require(self, name: str, check: Check) -> None:
        """Have `problems` ask *check*, too; another one of this name is replaced."""
        self._checks[name] = check

    def problems(self) -> dict[str, str]:
        """Return why the gateway is not ready, by what was asked."""
        found = {name: check() for name, check in self._checks.items()}
        return {name: problem for name, problem in found.items() if problem is not None}

    def render(self) -> bytes:
        """Return everything in Prometheus' text form."""
        return generate_latest(self._registry)


def observe(
    gateway_metrics: GatewayMetrics,
    *,
    adapters: Mapping[str, Adapter],
    lanes_at_work: Callable[[], int],
    spool_waiting: Callable[[], int],
    is_draining: Callable[[], bool] = lambda: False,
) -> None:
    """Show what a gateway is doing, and let it count as ready when its platforms are connected, its
    store takes writes, nothing waits for the store to come back, and it begins turns.
    """
    gateway_metrics.show(
        "store_state",
        "1 for the state that the store is in, 0 for the others.",
        lambda: {state.value: float(gateway_metrics.store().state is state) for state in State},
        label="state",
    )
    gateway_metrics.show(
        "heartbeat_age_seconds",
        "Seconds since the last heartbeat, or write, was stored or given up.",
        lambda: {"": gateway_metrics.health.age},
    )
    gateway_metrics.show(
        "lanes_at_work", "Lanes in which a turn runs.", lambda: {"": float(lanes_at_work())}
    )
    gateway_metrics.show(
        "spool_waiting",
        "Messages that wait for the database.",
        lambda: {"": float(spool_waiting())},
    )
    gateway_metrics.show(
        "outbox",
        "Replies by status, as of the last heartbeat.",
        lambda: {status: float(count) for status, count in gateway_metrics.outbox.items()},
        label="status",
    )
    gateway_metrics.show(
        "connected",
        "1 for a platform from which messages arrive, else 0.",
        lambda: {name: float(adapter.is_connected) for name, adapter in adapters.items()},
        label="platform",
    )
    gateway_metrics.require("gateway", lambda: "stops" if is_draining() else None)
    for name, adapter in adapters.items():
        gateway_metrics.require(name, partial(_connected, adapter))
    gateway_metrics.require("spool", lambda: "messages wait" if spool_waiting() else None)
    gateway_metrics.require("database", partial(_usable, gateway_metrics))


def _connected(adapter: Adapter) -> str | None:
    return None if adapter.is_connected else "not connected"


def _usable(gateway_metrics: GatewayMetrics) -> str | None:
    health = gateway_metrics.store()
    return None if health.takes_writes else health.state.value


class _LookupGauge(Collector):
    """A gauge whose numbers are asked for when it is rendered."""

    def __init__(self, name: str, words: str, look: Look, label: str | None) -> None:
        self._name = name
        self._words = words
        self._look = look
        self._label = label

    def describe(self) -> Iterable[Metric]:
        """Return its name alone: what it shows may not be there yet when it is registered."""
        return [GaugeMetricFamily(self._name, self._words)]

    def collect(self) -> Iterable[Metric]:
        """Return its numbers now."""
        labels = [self._label] if self._label else []
        gauge = GaugeMetricFamily(self._name, self._words, labels=labels)
        for value, number in self._look().items():
            gauge.add_metric([value] if self._label else [], number)
        return [gauge]

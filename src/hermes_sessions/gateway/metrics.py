"""Metrics for Prometheus, and the readiness of the gateway.

Platforms, statuses and outcomes are labels; ids, names and texts never are.
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
#: Seconds between measurements of the event loop's delay.
MEASURED_EVERY: Final = 1.0
_DELAYS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_SECONDS: Final = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)

#: Returns values by label; or one value, under the empty string.
Look = Callable[[], Mapping[str, float]]
#: Returns the problem, without secrets; None if there is none.
Check = Callable[[], str | None]


class GatewayMetrics:
    """The metrics of one gateway. Counting is thread-safe and never fails a message.

    All values are known in advance: nothing here waits for the store, which may be frozen.
    """

    def __init__(self, health: HealthWatch | None = None) -> None:
        #: The health of the store, as of the last heartbeat or write.
        self.health = health or HealthWatch()
        #: Replies by status, as of the last heartbeat.
        self.outbox: Mapping[str, int] = {}
        self._registry = CollectorRegistry()
        self._messages = Counter(
            "hermes_gateway_messages",
            "Messages received, by platform and status.",
            ["platform", "status"],
            registry=self._registry,
        )
        self._turns = Counter(
            "hermes_gateway_turns",
            "Turns ended, by platform and outcome.",
            ["platform", "outcome"],
            registry=self._registry,
        )
        self._turn_seconds = Histogram(
            "hermes_gateway_turn_seconds",
            "Duration of turns.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._deliveries = Counter(
            "hermes_gateway_deliveries",
            "Delivery attempts of replies, by platform and outcome.",
            ["platform", "outcome"],
            registry=self._registry,
        )
        self._delay = Histogram(
            "hermes_gateway_loop_delay_seconds",
            "Delay of the event loop.",
            buckets=_DELAYS,
            registry=self._registry,
        )
        self._latest_delay = Gauge(
            "hermes_gateway_loop_delay_latest_seconds",
            "Last measured delay of the event loop.",
            registry=self._registry,
        )
        self._checks: dict[str, Check] = {}

    def store(self) -> Health:
        """Return the health of the store."""
        return self.health.now

    def store_status(self) -> dict[str, object]:
        """Return the health of the store and the seconds since it was checked, for probes."""
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
        """Count a delivery attempt."""
        self._deliveries.labels(platform, outcome).inc()

    async def measure_loop(self, *, every: float = MEASURED_EVERY) -> None:
        """Measure the delay of the event loop until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + every
            await asyncio.sleep(every)
            delay = max(0.0, clock() - due)
            self._delay.observe(delay)
            self._latest_delay.set(delay)

    # ── gauges and readiness ──────────────────────────────────────────────────────────────────

    def show(self, name: str, words: str, look: Look, *, label: str | None = None) -> None:
        """Add a gauge whose values *look* returns, without waiting, whenever it is rendered."""
        self._registry.register(_LookupGauge(f"hermes_gateway_{name}", words, look, label))

    def require(self, name: str, check: Check) -> None:
        """Add a readiness check; it replaces another one of this name."""
        self._checks[name] = check

    def problems(self) -> dict[str, str]:
        """Return the reasons why the gateway is not ready, by the name of the check."""
        found = {name: check() for name, check in self._checks.items()}
        return {name: problem for name, problem in found.items() if problem is not None}

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


def observe(
    gateway_metrics: GatewayMetrics,
    *,
    adapters: Mapping[str, Adapter],
    lanes_at_work: Callable[[], int],
    spool_waiting: Callable[[], int],
    is_draining: Callable[[], bool] = lambda: False,
) -> None:
    """Add the gauges of a gateway, and its readiness checks: platforms connected, store writable,
    nothing spooled, and turns accepted.
    """
    gateway_metrics.show(
        "store_state",
        "1 for the current state of the store, 0 for the others.",
        lambda: {state.value: float(gateway_metrics.store().state is state) for state in State},
        label="state",
    )
    gateway_metrics.show(
        "heartbeat_age_seconds",
        "Seconds since the last heartbeat or write of the store ended.",
        lambda: {"": gateway_metrics.health.age},
    )
    gateway_metrics.show(
        "lanes_at_work", "Lanes with a running turn.", lambda: {"": float(lanes_at_work())}
    )
    gateway_metrics.show(
        "spool_waiting",
        "Messages in the spool, waiting for the database.",
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
        "1 if the platform is connected, else 0.",
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
    """A gauge whose values are read when it is rendered."""

    def __init__(self, name: str, words: str, look: Look, label: str | None) -> None:
        self._name = name
        self._words = words
        self._look = look
        self._label = label

    def describe(self) -> Iterable[Metric]:
        """Return its name only: its values may not exist when it is registered."""
        return [GaugeMetricFamily(self._name, self._words)]

    def collect(self) -> Iterable[Metric]:
        """Return its current values."""
        labels = [self._label] if self._label else []
        gauge = GaugeMetricFamily(self._name, self._words, labels=labels)
        for value, number in self._look().items():
            gauge.add_metric([value] if self._label else [], number)
        return [gauge]

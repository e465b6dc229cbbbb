"""Metrics count events, show the current state, and contain no user data."""

from __future__ import annotations

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from hermes_sessions.errors import DiskFull, StoreUnreachable
from hermes_sessions.gateway.events import Receipt
from hermes_sessions.gateway.metrics import GatewayMetrics, observe
from hermes_sessions.storage.care.health import HealthWatch
from hermes_sessions_testing.clock import FrozenClock
from tests.gateway.fake_adapter import FakeAdapter


def samples(gateway_metrics: GatewayMetrics) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(gateway_metrics.render().decode())
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in families
        for sample in family.samples
    }


def test_messages_turns_and_deliveries_are_counted() -> None:
    gateway_metrics = GatewayMetrics()
    for status in ("stored", "stored", "duplicate"):
        gateway_metrics.message("telegram", Receipt(status))
    gateway_metrics.turn("telegram", "completed", 1.5)
    gateway_metrics.turn("telegram", "failed", -1.0)
    gateway_metrics.delivery("telegram", "sent")
    found = samples(gateway_metrics)
    assert found["hermes_gateway_messages_total", "telegram", "stored"] == 2
    assert found["hermes_gateway_messages_total", "telegram", "duplicate"] == 1
    assert found["hermes_gateway_turns_total", "completed", "telegram"] == 1
    assert found["hermes_gateway_turn_seconds_sum",] == 1.5
    assert found["hermes_gateway_deliveries_total", "sent", "telegram"] == 1


def test_what_a_receipt_says_is_not_shown() -> None:
    gateway_metrics = GatewayMetrics()
    gateway_metrics.message(
        "api_server", Receipt("refused", reply="my secret", session_key="agent:me")
    )
    text = gateway_metrics.render().decode()
    assert "secret" not in text
    assert "agent:me" not in text


def test_gauges_are_read_when_metrics_are_rendered() -> None:
    gateway_metrics = GatewayMetrics()
    outbox = {"waiting": 3.0}
    gateway_metrics.show("outbox", "Replies by status.", lambda: outbox, label="status")
    gateway_metrics.show("lanes_at_work", "Lanes with a turn.", lambda: {"": 7.0})
    assert samples(gateway_metrics)["hermes_gateway_outbox", "waiting"] == 3
    outbox["dead"] = 1.0
    found = samples(gateway_metrics)
    assert found["hermes_gateway_outbox", "dead"] == 1
    assert found["hermes_gateway_lanes_at_work",] == 7


def test_readiness_names_what_is_missing() -> None:
    gateway_metrics = GatewayMetrics()
    assert gateway_metrics.problems() == {}
    gateway_metrics.require("telegram", lambda: "not connected")
    gateway_metrics.require("spool", lambda: None)
    assert gateway_metrics.problems() == {"telegram": "not connected"}


class Busy:
    """The numbers of a gateway."""

    def __init__(self) -> None:
        self.spooled = 0
        self.room = FakeAdapter()
        self.stopwatch = FrozenClock(0)
        self.watch = HealthWatch(silent_after=15, stopwatch=self.stopwatch)
        self.gateway_metrics = GatewayMetrics(self.watch)
        self.gateway_metrics.outbox = {"waiting": 2, "dead": 1}
        observe(
            self.gateway_metrics,
            adapters={"telegram": self.room},
            lanes_at_work=lambda: 3,
            spool_waiting=lambda: self.spooled,
        )


def test_a_gateway_shows_what_it_does() -> None:
    found = samples(Busy().gateway_metrics)
    assert found["hermes_gateway_lanes_at_work",] == 3
    assert found["hermes_gateway_spool_waiting",] == 0
    assert found["hermes_gateway_outbox", "dead"] == 1
    assert found["hermes_gateway_connected", "telegram"] == 1


def test_a_gateway_is_ready_when_all_it_needs_is_there() -> None:
    busy = Busy()
    assert busy.gateway_metrics.problems() == {}
    busy.room.connected = False
    busy.spooled = 1
    busy.watch.failed(StoreUnreachable("no server"))
    assert busy.gateway_metrics.problems() == {
        "telegram": "not connected",
        "spool": "messages wait",
        "database": "down",
    }
    assert samples(busy.gateway_metrics)["hermes_gateway_spool_waiting",] == 1


def test_how_the_store_is_is_one_value_for_metrics_and_readiness() -> None:
    busy = Busy()

    def shown() -> dict[str, float]:
        found = samples(busy.gateway_metrics)
        return {key[1]: value for key, value in found.items() if key[0].endswith("store_state")}

    assert shown() == {"healthy": 1, "degraded": 0, "read-only": 0, "down": 0}
    busy.watch.waits(2)
    assert (shown()["degraded"], busy.gateway_metrics.problems()) == (1, {})
    busy.watch.failed(DiskFull("no space is left"))
    assert shown() == {"healthy": 0, "degraded": 0, "read-only": 1, "down": 0}
    assert busy.gateway_metrics.problems() == {"database": "read-only"}
    busy.watch.failed(StoreUnreachable("no server"))
    assert busy.gateway_metrics.problems() == {"database": "down"}
    busy.watch.worked()
    busy.watch.waits(0)
    assert (shown()["healthy"], busy.gateway_metrics.problems()) == (1, {})


def test_a_store_of_which_nothing_is_heard_is_down() -> None:
    busy = Busy()
    busy.stopwatch.advance(15)
    assert busy.gateway_metrics.store_status() == {"store": "healthy", "heartbeat_age": 15.0}
    busy.stopwatch.advance(0.5)
    assert busy.gateway_metrics.store_status() == {"store": "down", "heartbeat_age": 15.5}
    assert samples(busy.gateway_metrics)["hermes_gateway_heartbeat_age_seconds",] == 15.5
    assert busy.gateway_metrics.problems() == {"database": "down"}
    busy.watch.worked()
    assert busy.gateway_metrics.store_status() == {"store": "healthy", "heartbeat_age": 0.0}


def test_the_delay_of_the_loop_is_measured() -> None:
    gateway_metrics = GatewayMetrics()

    async def main() -> None:
        measuring = asyncio.create_task(gateway_metrics.measure_loop(every=0.0))
        while not samples(gateway_metrics)["hermes_gateway_loop_delay_seconds_count",]:  # noqa: ASYNC110
            await asyncio.sleep(0)
        measuring.cancel()

    asyncio.run(main())

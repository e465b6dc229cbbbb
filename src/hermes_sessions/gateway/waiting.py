"""A gateway whose database cannot be reached at the start: it waits, and its probes say so."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Final, NoReturn

from hermes_sessions.config.settings import Settings
from hermes_sessions.errors import (
    DiskFull,
    StoreError,
    StoreIOError,
    StoreMissing,
    StoreReadOnly,
    StoreRefused,
    StoreUnavailable,
)
from hermes_sessions.gateway.events import Inbound, Receipt
from hermes_sessions.gateway.metrics import GatewayMetrics
from hermes_sessions.gateway.platforms.port import Adapter, PlatformError, Progress, Unreachable
from hermes_sessions.model.source import SessionSource
from hermes_sessions.storage.care.health import Health, HealthWatch, State
from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

_LONGEST_PAUSE: Final = 10.0
#: How often the log says that the database is still waited for.
_SAID_EVERY: Final = 300.0
#: Waiting does not help against these.
_LASTING: Final = (StoreRefused, StoreMissing, StoreReadOnly, DiskFull, StoreIOError)


def is_waited_for(error: StoreError, settings: Settings) -> bool:
    """Tell whether a gateway waits for a store that fails so: for a server that does not answer,
    not for one that refuses, nor for a file.
    """
    return (
        settings.sessiondb.provider != "sqlite"
        and isinstance(error, StoreUnavailable)
        and not isinstance(error, _LASTING)
    )


class Waiting:
    """What a gateway is before it has a database; to the API, services that take nothing."""

    def __init__(self, adapters: Mapping[str, Adapter]) -> None:
        self.gateway_metrics = GatewayMetrics(
            HealthWatch(Health(State.DOWN, "It has not answered yet."))
        )
        self.gateway_metrics.require("database", lambda: self.gateway_metrics.store().state.value)
        self._probes = next((each for each in adapters.values() if each.has_probes), None)
        self._failures = 0
        self._said_at = -_SAID_EVERY

    def status(self) -> dict[str, object]:
        """Return what the status socket tells."""
        told = self.gateway_metrics.told_store()
        return {
            "state": "waiting",
            "platforms": {},
            "why": self.gateway_metrics.store().why,
            **told,
        }

    async def begin(self) -> None:
        """Answer probes, where there is an API; a second call does nothing."""
        if self._probes is None or self._probes.is_connected:
            return
        try:
            await self._probes.connect(self)
        except PlatformError as error:
            logger.warning("probes are not answered while the database is away: %s", error)

    async def end(self) -> None:
        """Leave the API to the gateway."""
        if self._probes is not None:
            await self._probes.disconnect()

    def failed(self, error: StoreError) -> float:
        """Note that the database could not be reached; return the seconds until the next try."""
        self.gateway_metrics.health.failed(error)
        if time.monotonic() >= self._said_at + _SAID_EVERY:
            self._said_at = time.monotonic()
            logger.warning("the gateway waits for its database: %s", error)
        self._failures += 1
        return min(2.0 ** (self._failures - 1), _LONGEST_PAUSE)

    # ── services ──────────────────────────────────────────────────────────────────────────────

    async def accept(self, inbound: Inbound) -> Receipt:  # noqa: ARG002
        """See `Services.accept`."""
        _refuse()

    async def may_talk(self, source: SessionSource) -> bool:  # noqa: ARG002
        """See `Services.may_talk`."""
        _refuse()

    def watch(self, item_id: int) -> AsyncIterator[Progress]:  # noqa: ARG002
        """See `Services.watch`."""
        _refuse()

    async def undelivered(self, key: str, message_id: str, why: str) -> None:  # noqa: ARG002
        """See `Services.undelivered`."""
        _refuse()

    async def load_state(self, name: str) -> str | None:  # noqa: ARG002
        """See `Services.load_state`."""
        _refuse()

    async def save_state(self, name: str, value: str) -> None:  # noqa: ARG002
        """See `Services.save_state`."""
        _refuse()


def _refuse() -> NoReturn:
    raise Unreachable("The gateway waits for its database.")

"""A gateway whose database is unavailable at the start: it waits, and its probes say so."""

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
#: Seconds between log messages while it waits.
_LOG_EVERY: Final = 300.0
#: Errors that waiting does not resolve.
_PERMANENT_ERRORS: Final = (StoreRefused, StoreMissing, StoreReadOnly, DiskFull, StoreIOError)


def should_wait(error: StoreError, settings: Settings) -> bool:
    """Tell whether a gateway should wait after this error: for a server that does not answer, not
    for one that rejects it, nor for a file.
    """
    return (
        settings.sessiondb.store_file is None
        and isinstance(error, StoreUnavailable)
        and not isinstance(error, _PERMANENT_ERRORS)
    )


class WaitingGateway:
    """A gateway before it has a database; for the API, services that accept nothing."""

    def __init__(self, adapters: Mapping[str, Adapter]) -> None:
        self.gateway_metrics = GatewayMetrics(
            HealthWatch(Health(State.DOWN, "The database has not answered yet."))
        )
        self.gateway_metrics.require("database", lambda: self.gateway_metrics.store().state.value)
        self._probes = next((each for each in adapters.values() if each.has_probes), None)
        self._failures = 0
        self._logged_at = -_LOG_EVERY

    def status(self) -> dict[str, object]:
        """Return the status for the status socket."""
        told = self.gateway_metrics.store_status()
        return {
            "state": "waiting",
            "platforms": {},
            "why": self.gateway_metrics.store().why,
            **told,
        }

    async def begin(self) -> None:
        """Answer probes if there is an API; further calls have no effect."""
        if self._probes is None or self._probes.is_connected:
            return
        try:
            await self._probes.connect(self)
        except PlatformError as error:
            logger.warning("cannot answer probes while the database is unavailable: %s", error)

    async def end(self) -> None:
        """Hand the API over to the gateway."""
        if self._probes is not None:
            await self._probes.disconnect()

    def failed(self, error: StoreError) -> float:
        """Record a failed attempt; return the seconds until the next one."""
        self.gateway_metrics.health.failed(error)
        if time.monotonic() >= self._logged_at + _LOG_EVERY:
            self._logged_at = time.monotonic()
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

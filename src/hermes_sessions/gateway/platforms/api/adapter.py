"""The HTTP API as a platform: a caller gets the reply in the response."""

from __future__ import annotations

import asyncio
import errno
from typing import ClassVar, Final, Protocol, runtime_checkable

from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.message_progress import HasStore, progress_watcher
from hermes_sessions.gateway.metrics import GatewayMetrics
from hermes_sessions.gateway.platforms.api.mapping import PLATFORM
from hermes_sessions.gateway.platforms.api.routes import PROBES, Api
from hermes_sessions.gateway.platforms.api.settings import ApiSettings
from hermes_sessions.gateway.platforms.api.store_access import StoreAccess
from hermes_sessions.gateway.platforms.http_server import Listener, ServerLimits
from hermes_sessions.gateway.platforms.port import (
    Adapter,
    Limits,
    LoginRefused,
    Services,
    Unreachable,
)

#: The agent's name for clients.
MODEL: Final = "hermes-agent"


@runtime_checkable
class HasMetrics(Protocol):
    """Services of a gateway with metrics, which ``/metrics`` serves."""

    @property
    def gateway_metrics(self) -> GatewayMetrics:
        """The metrics."""


class ApiAdapter(Adapter):
    """An HTTP server."""

    name: ClassVar[str] = PLATFORM.value
    #: The configuration section: ``platforms.api``.
    section: ClassVar[str] = "api"
    has_probes: ClassVar[bool] = True
    limits: ClassVar[Limits] = Limits(text=2**31, idempotent=True)

    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings
        self._listener: Listener | None = None
        self._ending = asyncio.Event()

    async def connect(self, services: Services) -> None:
        """See `Adapter.connect`."""
        settings = self._settings
        self._ending = asyncio.Event()
        api = Api(
            settings,
            services,
            services.gateway_metrics if isinstance(services, HasMetrics) else GatewayMetrics(),
            self._ending,
            MODEL,
            progress_watcher(services),
            StoreAccess(services.store) if isinstance(services, HasStore) else None,
        )
        patience = ServerLimits(
            head_seconds=settings.head_seconds, connections=settings.max_connections
        )
        listener = Listener(
            api.app(),
            section="platforms.api",
            host=settings.host,
            port=settings.port,
            patience=patience,
            probes=PROBES,
        )
        try:
            await listener.start()
        except ConfigError as error:
            if getattr(error.__cause__, "errno", None) == errno.EADDRINUSE:
                # Another gateway may be about to stop.
                raise Unreachable(str(error)) from error
            raise LoginRefused(str(error)) from error
        self._listener = listener

    async def disconnect(self) -> None:
        """See `Adapter.disconnect`. Waiting callers are told that the reply comes later."""
        self._ending.set()
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.stop()

    @property
    def is_connected(self) -> bool:
        """See `Adapter.is_connected`."""
        return self._listener is not None and self._listener.is_running

    @property
    def port(self) -> int | None:
        """The port, for when the configured port is 0."""
        return self._listener.port if self._listener else None

    async def send(self, target: Target, text: str, *, key: str) -> str:  # noqa: ARG002
        """See `Adapter.send`. Waiting callers follow the message, and all others find the reply in
        the conversation.
        """
        if not self.is_connected:
            raise Unreachable("The API is not listening.")
        return key

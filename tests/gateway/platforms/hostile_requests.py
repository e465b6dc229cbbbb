"""What anybody may do to a webhook, and no platform does."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping

import httpx
import pytest

from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.port import Adapter
from hermes_sessions_testing.platforms import RecordingServices


async def status_of(port: int | None, request: bytes) -> int:
    """Return how a request is answered that is sent as it stands, whole or not."""
    return await asyncio.to_thread(_status_of, port or 0, request)


def _status_of(port: int, request: bytes) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        return int(connection.recv(65536).split()[1])


async def is_cut_off(http: httpx.AsyncClient, url: str, headers: Mapping[str, str]) -> bool:
    """Tell whether a body without end is not received."""

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 1024**2

    try:
        response = await http.post(url, content=endless(), headers=headers)
    except httpx.TransportError:
        return True  # the connection was closed before we had said everything
    return response.status_code == 413


def check_taken_port(make_adapter: Callable[[int], Adapter]) -> None:
    """See to it that an adapter says so when its port is somebody else's."""

    async def main(port: int) -> None:
        adapter = make_adapter(port)
        with pytest.raises(ConfigError, match="cannot listen"):
            await adapter.connect(RecordingServices())
        assert not adapter.is_connected

    with socket.create_server(("127.0.0.1", 0)) as taken:
        asyncio.run(main(taken.getsockname()[1]))

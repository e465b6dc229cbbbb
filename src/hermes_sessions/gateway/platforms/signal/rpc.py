"""JSON-RPC of signal-cli's daemon: one object per line, over TCP or a unix socket.

The daemon handles requests in parallel: responses arrive in any order, with notifications between
them. It responds to invalid JSON with an error without an id, and closes the connection on invalid
UTF-8.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from hermes_sessions.gateway.platforms.port import Unreachable

logger = logging.getLogger(__name__)

#: Longest line of a message. Messages have some kilobytes; files arrive only on request.
MAX_LINE: Final = 4 * 1024**2

_CHUNK: Final = 64 * 1024
_CONNECT_SECONDS: Final = 10.0


class DaemonAddress(NamedTuple):
    """The daemon's address: host and port, or the path of a socket."""

    host: str = ""
    port: int = 0
    path: Path | None = None

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class RpcError(Exception):
    """An error response of the daemon."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(f"{message} ({code})")


class LineTooLong(Exception):
    """A line was longer than allowed, and was discarded."""


class LineSplitter:
    """Splits received bytes into lines; discards a line that is too long."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._is_skipping = False

    def feed(self, chunk: bytes) -> list[bytes | LineTooLong]:
        """Return the lines that are complete now, without line ends."""
        *ends, rest = chunk.split(b"\n")
        lines: list[bytes | LineTooLong] = []
        for end in ends:
            self._keep(end)
            lines.append(LineTooLong() if self._is_skipping else bytes(self._kept))
            self._kept.clear()
            self._is_skipping = False
        self._keep(rest)
        return lines

    def _keep(self, piece: bytes) -> None:
        if self._is_skipping:
            return
        self._kept += piece
        if len(self._kept) > self._limit:
            self._kept.clear()
            self._is_skipping = True


class RpcConnection:
    """One connection. Runs on the event loop; does not reconnect."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        notified: Callable[[str, object], None],
        unreadable: Callable[[str], None],
        max_line: int,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._notified = notified
        self._unreadable = unreadable
        self._lines = LineSplitter(max_line)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._next_id = 1
        self._why_lost: str | None = None
        self._task = asyncio.create_task(self._read_all())

    @classmethod
    async def open(
        cls,
        address: DaemonAddress,
        *,
        notified: Callable[[str, object], None] = lambda _method, _params: None,
        unreadable: Callable[[str], None] = lambda _why: None,
        max_line: int = MAX_LINE,
    ) -> RpcConnection:
        """Connect. *notified* gets notifications, *unreadable* the reason why a line was skipped.

        Raises:
            Unreachable: the daemon is not listening.
        """
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                if address.path is not None:
                    streams = await asyncio.open_unix_connection(address.path)
                else:
                    streams = await asyncio.open_connection(address.host, address.port)
        except (OSError, TimeoutError) as error:
            raise Unreachable(
                f"signal-cli cannot be reached at {address}: {str(error) or 'no response'}"
            ) from error
        return cls(*streams, notified=notified, unreadable=unreadable, max_line=max_line)

    @property
    def is_open(self) -> bool:
        """Whether it is open."""
        return self._why_lost is None

    async def call(
        self, method: str, params: Mapping[str, object] | None = None, *, seconds: float
    ) -> Any:
        """Return the result of a request.

        Raises:
            RpcError: the daemon returned an error.
            LineTooLong: the response is longer than allowed.
            Unreachable: the connection is lost, or there was no response in time. The request may
                have been carried out.
        """
        if self._why_lost is not None:
            raise Unreachable(self._why_lost)
        number, self._next_id = self._next_id, self._next_id + 1
        request = {"jsonrpc": "2.0", "method": method, "id": number, "params": params or {}}
        future = self._pending[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                # ASCII only: a lone surrogate cannot be encoded in UTF-8.
                self._writer.write(json.dumps(request).encode() + b"\n")
                await self._writer.drain()
                return await future
        except (OSError, TimeoutError) as error:
            raise Unreachable(
                f"signal-cli did not respond to {method}: {str(error) or 'it took too long'}"
            ) from error
        finally:
            self._pending.pop(number, None)
            if future.done() and not future.cancelled():
                future.exception()  # retrieve the exception, also if no caller waits

    async def wait_until_lost(self) -> None:
        """Return when it is lost or closed."""
        await asyncio.wait({self._task})

    async def close(self) -> None:
        """Close it. No-op if closed."""
        self._task.cancel()
        await asyncio.wait({self._task})
        self._lost("The connection to signal-cli was closed.")
        self._writer.close()
        with suppress(OSError, TimeoutError):
            await self._writer.wait_closed()

    async def _read_all(self) -> None:
        why = "signal-cli closed the connection."
        try:
            while chunk := await self._reader.read(_CHUNK):
                for line in self._lines.feed(chunk):
                    self._take(line)
        except OSError as error:
            why = f"The connection to signal-cli was lost: {error}"
        finally:
            self._lost(why)

    def _take(self, line: bytes | LineTooLong) -> None:
        if isinstance(line, LineTooLong):
            self._unreadable("a line that is too long")
            # The request that it answers is unknown.
            for future in self._pending.values():
                if not future.done():
                    future.set_exception(LineTooLong())
            return
        try:
            said = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._unreadable(f"a line that is not JSON: {type(error).__name__}")
            return
        if not isinstance(said, dict):
            self._unreadable("a line that is not an object")
        elif isinstance(method := said.get("method"), str):
            self._notified(method, said.get("params"))
        else:
            self._answer(said)

    def _answer(self, said: dict[str, Any]) -> None:
        number = said.get("id")
        # Request ids are integers, and true is not one.
        future = self._pending.get(number) if type(number) is int else None
        if future is None:
            self._unreadable("a response without a request")
        elif future.done():
            return
        elif isinstance(error := said.get("error"), dict):
            code = error.get("code")
            future.set_exception(
                RpcError(
                    code if type(code) is int else 0,
                    str(error.get("message"))[:500],
                    error.get("data"),
                )
            )
        else:
            future.set_result(said.get("result"))

    def _lost(self, why: str) -> None:
        if self._why_lost is not None:
            return
        self._why_lost = why
        for future in self._pending.values():
            if not future.done():
                future.set_exception(Unreachable(why))

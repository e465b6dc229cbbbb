"""The daemon of signal-cli for one account; its errors become those of the port."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping
from typing import Any, Final

from hermes_sessions.gateway.platforms.port import (
    LoginRefused,
    PlatformError,
    Undeliverable,
    Unreachable,
)
from hermes_sessions.gateway.platforms.signal.errors import NO_SUCH_METHOD, to_platform_error
from hermes_sessions.gateway.platforms.signal.rpc import LineTooLong, RpcConnection, RpcError
from hermes_sessions.gateway.platforms.signal.settings import SignalSettings

_SECONDS: Final = 20.0
#: A message to a large group and a large file take long.
_LONG_SECONDS: Final = 120.0
#: Bytes of a line besides the file.
_AROUND: Final = 1024


class Subscription:
    """A connection that is used only for receiving.

    When a client dies, the daemon first completes its requests, and only then notices that the
    connection is closed. Without other requests it notices at once.
    """

    def __init__(self, connection: RpcConnection, params: Mapping[str, object]) -> None:
        self._connection = connection
        self._params = params
        self._number: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether the connection is open."""
        return self._connection.is_open

    async def begin(self) -> None:
        """Subscribe: the daemon fetches messages from Signal. No-op if subscribed.

        Raises:
            LoginRefused, Unreachable
        """
        if self._number is None:
            number = await _asked(self._connection, "subscribeReceive", self._params)
            if type(number) is not int:
                raise Unreachable("signal-cli's response has no subscription number.")
            self._number = number

    async def end(self) -> None:
        """Unsubscribe. When this returns, everything that the daemon fetched has arrived.

        Raises:
            Unreachable: the connection is lost.
        """
        number, self._number = self._number, None
        if number is not None:
            params = {**self._params, "subscription": number}
            await _asked(self._connection, "unsubscribeReceive", params)

    async def wait_until_lost(self) -> None:
        """Return when the connection is lost or closed."""
        await self._connection.wait_until_lost()

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()


class SignalClient:
    """Connections to the daemon: one for requests, opened when needed, and those for receiving."""

    def __init__(self, settings: SignalSettings) -> None:
        self._settings = settings
        #: Names the account in requests; empty if the daemon has only one.
        self._account: dict[str, object] = {}
        self._requests: RpcConnection | None = None
        self._opening = asyncio.Lock()
        self._is_closed = False

    async def subscription(
        self, notified: Callable[[str, object], None], unreadable: Callable[[str], None]
    ) -> Subscription:
        """Return a connection for receiving that is not subscribed yet.

        Raises:
            LoginRefused: the daemon does not have the account.
            Unreachable: the daemon is not listening.
        """
        connection = await RpcConnection.open(
            self._settings.address, notified=notified, unreadable=unreadable
        )
        try:
            self._account = await self._login(connection)
        except BaseException:
            await connection.close()
            raise
        return Subscription(connection, self._account)

    async def _login(self, connection: RpcConnection) -> dict[str, object]:
        try:
            accounts = await connection.call("listAccounts", seconds=_SECONDS)
        except RpcError as error:
            if error.code == NO_SUCH_METHOD:  # started with -a: it has only that account
                return {}
            raise to_platform_error(error) from error
        except LineTooLong:
            raise Unreachable("signal-cli's response is too long.") from None
        listed = accounts if isinstance(accounts, list) else []
        known = [each.get("number") for each in listed if isinstance(each, Mapping)]
        if self._settings.account not in known:
            raise LoginRefused(
                "signal-cli does not have the account in platforms.signal.account; it has "
                f"{len(known)} others. Register or link it with the same --config and user, then "
                "restart the daemon: see docs/signal.md."
            )
        return {"account": self._settings.account}

    async def ask(
        self, method: str, params: Mapping[str, object], *, seconds: float = _LONG_SECONDS
    ) -> Any:
        """Return the result of a request.

        Raises:
            RateLimited, Unreachable, Undeliverable, LoginRefused
        """
        connection = await self._connected()
        return await _asked(connection, method, {**self._account, **params}, seconds=seconds)

    async def version(self) -> str:
        """Return the version of signal-cli; empty if unknown.

        Raises:
            Unreachable, Undeliverable
        """
        found = await _asked(await self._connected(), "version", {})
        return str(found.get("version") or "") if isinstance(found, Mapping) else ""

    async def fetch(self, reference: str, limit: int) -> bytes:
        """Return the bytes of a file that was received.

        Raises:
            Undeliverable: it no longer exists, or has more than *limit* bytes.
            Unreachable
        """
        # On its own connection: other requests would wait for it, and its lines are longer.
        longest = limit * 4 // 3 + _AROUND
        connection = await RpcConnection.open(self._settings.address, max_line=longest)
        try:
            params = {**self._account, "id": reference}
            result = await connection.call("getAttachment", params, seconds=_LONG_SECONDS)
            data = result.get("data") if isinstance(result, Mapping) else result
            content = b64decode(str(data), validate=True)
        except RpcError as error:
            raise to_platform_error(error) from error
        except LineTooLong:
            raise Undeliverable(f"The file has more than {limit:,} bytes.") from None
        except (NotBase64, ValueError) as error:
            raise Undeliverable("signal-cli did not return a file.") from error
        finally:
            await connection.close()
        if len(content) > limit:
            raise Undeliverable(f"The file has more than {limit:,} bytes.")
        return content

    async def close(self) -> None:
        """Close the connection for requests; pending ones fail."""
        self._is_closed = True
        async with self._opening:
            connection, self._requests = self._requests, None
        if connection is not None:
            await connection.close()

    async def _connected(self) -> RpcConnection:
        async with self._opening:
            if self._is_closed:
                raise Unreachable("The adapter for Signal is not connected.")
            connection = self._requests
            if connection is not None and not connection.is_open:
                self._requests = None
                await connection.close()
            if self._requests is None:
                self._requests = await RpcConnection.open(self._settings.address)
            return self._requests


async def _asked(
    connection: RpcConnection,
    method: str,
    params: Mapping[str, object],
    *,
    seconds: float = _SECONDS,
) -> Any:
    try:
        return await connection.call(method, params, seconds=seconds)
    except RpcError as error:
        refusal: PlatformError = to_platform_error(error)
        raise refusal from error
    except LineTooLong:
        raise Unreachable("signal-cli's response is too long.") from None

"""One client of the socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from hermes_sessions.errors import HermesSessionsError, InvalidInput, StoreError
from hermes_sessions.gateway.events import Inbound, Target
from hermes_sessions.gateway.message_progress import progress_watcher, unsent_lookup
from hermes_sessions.gateway.platforms.local.mapping import (
    PLATFORM,
    PROTOCOL,
    ChatAddress,
    address_of,
    inbound_of,
    line_of,
    read_line,
    text_in,
)
from hermes_sessions.gateway.platforms.local.unix_socket import peer_uid
from hermes_sessions.gateway.platforms.port import Services, UnreadablePayload
from hermes_sessions.storage.logs import Logger, where

logger = Logger(__name__)

#: How long a client may take to send its hello.
_HELLO_SECONDS: Final = 10.0
#: A client that does not read is disconnected when this many bytes wait for it.
_MOST_UNREAD: Final = 8 * 1024**2
#: Messages of one client that may wait; above that, reading pauses.
_MOST_WAITING: Final = 100
#: Messages of one client whose progress is reported at the same time.
_MOST_FOLLOWED: Final = 100
#: How long a leaving client waits for pending messages, and how often they are checked.
_BYE_SECONDS: Final = 10.0
_BYE_LOOKS: Final = 0.05


class ClientConnection:
    """A client from its hello to its end. Runs on the event loop."""

    def __init__(
        self,
        services: Services,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        came: Callable[[ClientConnection], None],
        saw: Callable[[str], None],
    ) -> None:
        self._services = services
        self._watch = progress_watcher(services)
        self._has_unsent = unsent_lookup(services)
        self._reader = reader
        self._writer = writer
        self._came = came
        self._saw = saw
        self._address: ChatAddress | None = None
        self._is_ending = asyncio.Event()
        self._messages: asyncio.Queue[Inbound | None] = asyncio.Queue(_MOST_WAITING)
        self._followed: set[asyncio.Task[None]] = set()

    def is_in(self, chat_id: str) -> bool:
        """Return whether the client is in a chat."""
        return self._address is not None and self._address.chat_id == chat_id

    def write(self, line: bytes) -> None:
        """Send the client a line, unless it has stopped reading."""
        transport = self._writer.transport
        if transport.is_closing():
            return
        if transport.get_write_buffer_size() > _MOST_UNREAD:
            transport.abort()
            return
        self._writer.write(line)

    def end(self) -> None:
        """Finish the message in progress, and close."""
        self._is_ending.set()

    async def refuse(self, why: str) -> None:
        """Close with a reason."""
        self.write(line_of("error", error=why))
        await self._close()

    async def serve(self, uid: int) -> None:
        """Serve the client until it disconnects, or the gateway stops."""
        try:
            if peer_uid(self._writer.get_extra_info("socket")) != uid:
                logger.warning("local: another user tried to connect")
                await self.refuse("This gateway belongs to another user.")
                return
            await self._serve(uid)
        except UnreadablePayload as error:
            await self.refuse(str(error))
        except (OSError, TimeoutError) as error:
            logger.debug("local: a client disconnected: %r", error)
        finally:
            for task in self._followed:
                task.cancel()
            await asyncio.gather(*self._followed, return_exceptions=True)
            await self._close()

    async def _serve(self, uid: int) -> None:
        async with asyncio.timeout(_HELLO_SECONDS):
            hello = await self._next()
        if hello is None:
            return
        self._address = address = address_of(hello, uid)
        self.write(line_of("welcome", protocol=PROTOCOL, chat=address.chat))
        self._came(self)
        taking = asyncio.create_task(self._take_all())
        try:
            while (said := await self._next()) is not None:
                if said["type"] == "message":
                    await self._messages.put(inbound_of(said, address))
                elif said["type"] == "seen":
                    self._saw(text_in(said, "key"))
                elif said["type"] == "bye":
                    self._beside(self._say_bye(address))
                else:
                    raise UnreadablePayload(f"Unknown type {said['type'][:40]!r}.")
        finally:
            await self._finish(taking)

    async def _take_all(self) -> None:
        """Accept messages in order, in parallel to reading: a message sent to the client may wait
        for its confirmation.
        """
        while (inbound := await self._messages.get()) is not None:
            await self._take(inbound)

    async def _finish(self, taking: asyncio.Task[None]) -> None:
        """Finish the message in progress; later ones have no receipt yet, and the client sends them
        again.
        """
        while not self._messages.empty():
            self._messages.get_nowait()
        self._messages.put_nowait(None)
        await taking

    async def _next(self) -> Mapping[str, Any] | None:
        """Return the client's next line; None if it has disconnected, or the gateway stops."""
        reading = asyncio.ensure_future(self._reader.readline())
        ending = asyncio.ensure_future(self._is_ending.wait())
        try:
            await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                return None
            line = reading.result()
        except ValueError:
            raise UnreadablePayload(
                "The line is too long; see platforms.local.max_line_bytes."
            ) from None
        finally:
            reading.cancel()
            ending.cancel()
            await asyncio.gather(reading, ending, return_exceptions=True)
        # An incomplete line is from a client that was killed.
        return read_line(line) if line.endswith(b"\n") else None

    async def _take(self, inbound: Inbound) -> None:
        message_id = inbound.message_id
        try:
            receipt = await self._services.accept(inbound)
        except InvalidInput as error:
            self.write(line_of("failed", id=message_id, error=str(error), again=False))
            return
        except HermesSessionsError as error:
            logger.warning("local: a message cannot be stored yet: %s", error)
            self.write(line_of("failed", id=message_id, error=str(error), again=True))
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the client sends it again
            logger.warning("local: a message could not be accepted: %s", where(error))
            self.write(line_of("failed", id=message_id, error="See the log.", again=True))
            return
        # The reason is sent as a separate message.
        self.write(
            line_of(
                "receipt",
                id=message_id,
                status=receipt.status,
                reason=receipt.reason,
                waiting=receipt.depth,
            )
        )
        is_followed = receipt.item_id is not None and receipt.status in {"stored", "duplicate"}
        if is_followed and len(self._followed) < _MOST_FOLLOWED:
            self._beside(self._follow(message_id, receipt.item_id))

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task while the client is connected."""
        task = asyncio.create_task(work)
        self._followed.add(task)
        task.add_done_callback(self._followed.discard)

    async def _say_bye(self, address: ChatAddress) -> None:
        """Tell the client that it has shown every message, and that this is stored."""
        chat = Target(PLATFORM.value, address.chat_id)
        try:
            async with asyncio.timeout(_BYE_SECONDS):
                while await asyncio.to_thread(self._has_unsent, chat):  # noqa: ASYNC110 - in the store
                    await asyncio.sleep(_BYE_LOOKS)
        except (StoreError, TimeoutError) as error:
            # The next client shows the rest.
            logger.info("local: a client leaves before it has shown every message: %r", error)
        self.write(line_of("bye"))

    async def _follow(self, message_id: str | None, item_id: int | None) -> None:
        if item_id is None:
            return
        async for progress in self._watch(item_id):
            self.write(
                line_of(
                    "progress",
                    id=message_id,
                    kind=progress.kind,
                    text=progress.text,
                    outcome=progress.outcome,
                )
            )

    async def _close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except (OSError, TimeoutError) as error:
            logger.debug("local: closing: %r", error)

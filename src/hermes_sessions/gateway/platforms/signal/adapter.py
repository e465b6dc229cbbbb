"""An account on Signal: messages are journalled on arrival, and then stored in order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, Final

from hermes_sessions.gateway.events import Attachment, Inbound, Target
from hermes_sessions.gateway.platforms.port import (
    Adapter,
    Limits,
    LoginRefused,
    PlatformError,
    Services,
    Undeliverable,
    Unreachable,
    UnreadablePayload,
)
from hermes_sessions.gateway.platforms.receive_loop import (
    Sleep,
    Stopped,
    StopSignal,
    deliver_inbound,
    pause_after,
)
from hermes_sessions.gateway.platforms.signal.client import SignalClient, Subscription
from hermes_sessions.gateway.platforms.signal.formatting import to_signal
from hermes_sessions.gateway.platforms.signal.identifiers import (
    group_id,
    is_timestamp,
    parse_message_ref,
    person_id,
)
from hermes_sessions.gateway.platforms.signal.journal import Journal
from hermes_sessions.gateway.platforms.signal.long_texts import with_rest
from hermes_sessions.gateway.platforms.signal.mapping import InboundReader
from hermes_sessions.gateway.platforms.signal.settings import SignalSettings

logger = logging.getLogger(__name__)

#: Above this number of unstored messages, none are fetched from Signal until all are stored.
_MOST_WAITING: Final = 1000
#: Signal's apps ignore edits of older messages.
_EDIT_SECONDS: Final = 24 * 3600
_TYPING_SECONDS: Final = 10.0
#: A connection that lasted longer resets the count of failures.
_STEADY_SECONDS: Final = 60.0
#: Marks the end of the queue.
_OVER: Final = object()


class SignalAdapter(Adapter):
    """One account, through the daemon of signal-cli."""

    name: ClassVar[str] = "signal"
    limits: ClassVar[Limits] = Limits(
        # Longer texts are sent as a file, and Signal shows only their start. Every edit is a
        # message to every device of every member.
        text=2000,
        length_unit="bytes",
        edits=True,
        edit_seconds=3.0,
        typing=True,
    )

    def __init__(
        self,
        settings: SignalSettings,
        *,
        journal: Journal,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """*journal* keeps messages that were received and not yet stored."""
        self._settings = settings
        self._journal = journal
        self._sleep = sleep
        self._clock = clock
        self._reader = InboundReader(
            account=settings.account,
            needs_mention=settings.require_mention,
            max_file_bytes=settings.max_file_bytes,
        )
        self._daemon: SignalClient | None = None
        self._services: Services | None = None
        self._subscription: Subscription | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._ending = StopSignal()
        #: Notifications that are not journalled yet.
        self._notified: asyncio.Queue[object] = asyncio.Queue()
        #: Messages that are journalled and not stored yet.
        self._waiting: deque[Inbound] = deque()
        self._has_waiting = asyncio.Event()
        #: Only one task at a time changes the journal and the subscription.
        self._changing = asyncio.Lock()
        self._is_paused = False
        #: Whether the daemon receives without a subscription.
        self._is_automatic = False
        #: How many notifications were unreadable since the start.
        self.unreadable = 0

    # ── connecting ────────────────────────────────────────────────────────────────────────────

    async def connect(self, services: Services) -> None:
        """See `Adapter.connect`."""
        self._services = services
        self._ending = StopSignal()
        self._notified = asyncio.Queue()
        self._changing = asyncio.Lock()
        self._has_waiting = asyncio.Event()
        self._is_paused = False
        self._daemon = SignalClient(self._settings)
        try:
            self._wait_for(await asyncio.to_thread(self._journal.read))
            self._subscription = await self._subscribe()
        except BaseException:
            await self._close()
            raise
        self._tasks = [
            asyncio.create_task(self._stay_connected()),
            asyncio.create_task(self._write_down()),
            asyncio.create_task(self._store()),
        ]
        logger.info("signal: connected to signal-cli at %s", self._settings.address)

    async def _subscribe(self) -> Subscription:
        subscription = await self._connection.subscription(self._notify, self._skip)
        try:
            if not self._is_paused:
                await subscription.begin()
        except BaseException:
            await subscription.close()
            raise
        return subscription

    async def _stay_connected(self) -> None:
        failures = 0
        now = asyncio.get_running_loop().time
        while not self._ending.is_stop_requested:
            since = now()
            try:
                await self._be_connected()
            except Stopped:
                return
            except LoginRefused as error:
                logger.error("signal: %s", error)  # noqa: TRY400 - it says all
            except PlatformError as error:
                logger.warning("signal: %s", error)
            except Exception:
                # Any error: keep receiving.
                logger.exception("signal: the connection failed")
            failures = 1 if now() - since > _STEADY_SECONDS else failures + 1
            pause = pause_after(failures)
            logger.info("signal: retrying in %g s", pause)
            await self._ending.pause(self._sleep, pause)

    async def _be_connected(self) -> None:
        """Connect if needed, and raise when the connection is lost."""
        if self._subscription is None:
            async with self._changing:
                self._subscription = await self._ending.result_unless_stopped(self._subscribe())
            logger.info("signal: reconnected")
        await self._ending.result_unless_stopped(self._subscription.wait_until_lost())
        await self._drop()
        raise Unreachable("The connection to signal-cli was lost")

    async def _drop(self) -> None:
        async with self._changing:
            subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.close()

    async def disconnect(self) -> None:
        """See `Adapter.disconnect`. Messages that cannot be stored stay in the journal."""
        self._ending.ask()
        self._has_waiting.set()
        if self._tasks:
            await self._pause()
        # In this order: notifications are journalled, then journalled messages are stored.
        self._notified.put_nowait(_OVER)
        await asyncio.gather(*self._tasks)
        await self._close()

    async def _close(self) -> None:
        self._tasks = []
        self._waiting.clear()
        await self._drop()
        daemon, self._daemon = self._daemon, None
        if daemon is not None:
            await daemon.close()

    @property
    def is_connected(self) -> bool:
        """See `Adapter.is_connected`."""
        return self._subscription is not None and self._subscription.is_open

    @property
    def _connection(self) -> SignalClient:
        if self._daemon is None:
            raise Unreachable("The adapter for Signal is not connected.")
        return self._daemon

    # ── receiving ─────────────────────────────────────────────────────────────────────────────

    def _notify(self, method: str, params: object) -> None:
        if method == "receive":
            self._notified.put_nowait(params)

    def _skip(self, why: str) -> None:
        self.unreadable += 1
        logger.warning("signal: a message is skipped: %s", why)

    async def _write_down(self) -> None:
        """Journal notifications, those that arrived together in one write; until `_OVER`."""
        is_over = False
        while not is_over:
            arrived = [await self._notified.get()]
            while not self._notified.empty():
                arrived.append(self._notified.get_nowait())
            is_over = _OVER in arrived
            messages = [read for each in arrived if (read := self._read(each)) is not None]
            if messages:
                await self._journal_all(messages)
            if len(self._waiting) > _MOST_WAITING:
                await self._pause()

    def _read(self, params: object) -> Inbound | None:
        if params is _OVER:
            return None
        if not self._is_automatic and isinstance(params, dict) and "envelope" in params:
            self._is_automatic = True
            logger.warning(
                "signal: the daemon was not started with --receive-mode manual; messages can be "
                "lost while the gateway is down: see docs/signal.md"
            )
        try:
            return self._reader.read(params)
        except UnreadablePayload as problem:
            self._skip(str(problem))
        except Exception:
            # An unexpected error must not block the messages behind it.
            self.unreadable += 1
            logger.exception("signal: a message could not be read")
        return None

    async def _journal_all(self, messages: list[Inbound]) -> None:
        async with self._changing:
            try:
                await asyncio.to_thread(self._journal.append, messages)
            except OSError as error:
                # They are still in memory, and are stored unless the process dies first.
                logger.warning(
                    "signal: received messages cannot be written to the journal: %s", error
                )
            self._wait_for(messages)

    def _wait_for(self, messages: list[Inbound]) -> None:
        self._waiting.extend(messages)
        if self._waiting:
            self._has_waiting.set()

    async def _store(self) -> None:
        """Deliver waiting messages in order; clear the journal when all are stored."""
        failures = 0
        while True:
            while not self._waiting:
                if self._ending.is_stop_requested and self._tasks[1].done():
                    return
                await self._next_to_store()
            if await self._offer(self._waiting[0]):
                failures = 0
                self._waiting.popleft()
                await self._forget()
                continue
            failures += 1
            await self._pause()
            await self._ending.pause(self._sleep, pause_after(failures))
            if self._ending.is_stop_requested:
                return

    async def _next_to_store(self) -> None:
        """Return when a message may be waiting, or no more will arrive."""
        if self._ending.is_stop_requested:
            await asyncio.wait({self._tasks[1]})
            return
        self._has_waiting.clear()
        await self._has_waiting.wait()

    async def _offer(self, inbound: Inbound) -> bool:
        try:
            whole = await with_rest(inbound, self._connection.fetch, self._ending, self._sleep)
        except Stopped:
            return False
        return await deliver_inbound(
            self._services, whole, named="signal: a message", skip=self._skip, logger=logger
        )

    async def _forget(self) -> None:
        async with self._changing:
            if self._waiting:
                return
            try:
                await asyncio.to_thread(self._journal.clear)
            except OSError as error:
                # Its messages are delivered again at the next start, and recognised.
                logger.warning("signal: the journal cannot be cleared: %s", error)
            await self._resume()

    async def _pause(self) -> None:
        """Stop receiving; Signal keeps further messages."""
        async with self._changing:
            if self._is_paused:
                return
            self._is_paused = True
            if self._subscription is not None:
                with suppress(PlatformError):
                    await self._subscription.end()

    async def _resume(self) -> None:
        if not self._is_paused or self._ending.is_stop_requested:
            return
        self._is_paused = False
        if self._subscription is not None:
            try:
                await self._subscription.begin()
            except PlatformError as error:
                # A new connection subscribes again.
                logger.warning("signal: receiving could not be resumed: %s", error)
                await self._subscription.close()

    # ── sending ───────────────────────────────────────────────────────────────────────────────

    async def send(self, target: Target, text: str, *, key: str) -> str:  # noqa: ARG002
        """See `Adapter.send`. Signal has no idempotency keys."""
        params = {**_recipient(target.chat_id), **_text(text), **_quote(target)}
        result = await self._connection.ask("send", params)
        timestamp = result.get("timestamp") if isinstance(result, dict) else None
        if not is_timestamp(timestamp):
            raise Unreachable("signal-cli's response has no message timestamp.")
        return str(timestamp)

    def chat_type_of(self, chat_id: str) -> str:
        """Return "group" if the id is that of a group, else "dm"."""
        return "group" if person_id(chat_id) is None and group_id(chat_id) else "dm"

    async def edit(self, target: Target, message_id: str, text: str) -> None:
        """See `Adapter.edit`."""
        name = parse_message_ref(message_id)
        if name is None:
            raise Undeliverable(f"{message_id!r} is not the id of a message on Signal.")
        if self._clock() - name.timestamp / 1000 > _EDIT_SECONDS:
            raise Undeliverable("Signal does not show edits of messages that are older than a day.")
        params = {**_recipient(target.chat_id), **_text(text), "editTimestamp": name.timestamp}
        await self._connection.ask("send", params)

    async def typing(self, target: Target) -> None:
        """See `Adapter.typing`. Errors are only logged."""
        try:
            params = _recipient(target.chat_id)
            await self._connection.ask("sendTyping", params, seconds=_TYPING_SECONDS)
        except PlatformError as error:
            logger.debug("signal: typing could not be shown: %s", error)

    async def fetch(self, attachment: Attachment, *, limit: int) -> bytes:
        """See `Adapter.fetch`."""
        return await self._connection.fetch(attachment.reference, limit)


def _recipient(chat_id: str) -> dict[str, Any]:
    if person := person_id(chat_id):
        return {"recipient": [person]}
    if group := group_id(chat_id):
        return {"groupId": group}
    raise Undeliverable(
        f"{chat_id[:80]!r} is not a chat on Signal: it is neither a number that starts with +, "
        "nor the UUID of a user, nor the id of a group."
    )


def _text(markdown: str) -> dict[str, Any]:
    text, styles = to_signal(markdown)
    return {"message": text, **({"textStyle": list(styles)} if styles else {})}


def _quote(target: Target) -> dict[str, Any]:
    """Return the quote of the message that is answered, in groups only."""
    answered = parse_message_ref(target.reply_to)
    if answered is None or answered.author is None or group_id(target.chat_id) is None:
        return {}
    quoted = target.extra.get("quote")
    return {
        "quoteTimestamp": answered.timestamp,
        "quoteAuthor": answered.author,
        "quoteMessage": quoted if isinstance(quoted, str) else "",
    }

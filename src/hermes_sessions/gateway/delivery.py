"""Delivers the replies in the outbox: in order per chat, with retries, and never forgotten."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Final, TypeVar

from hermes_sessions.errors import NotFound, StoreError, StoreUnavailable
from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.platforms.port import (
    Adapter,
    PlatformError,
    RateLimited,
    Undeliverable,
    Unreachable,
)
from hermes_sessions.gateway.platforms.text_splitter import split
from hermes_sessions.storage.logs import Logger, where
from hermes_sessions.storage.repositories.outbox import NewReply, Outbox, Outgoing

logger = Logger(__name__)

#: The lifetime of a claim in seconds; every sent part renews it. The claims of a process that died
#: are released by the process that notices.
CLAIM_SECONDS: Final = 120.0
#: The most chats that are served at the same time.
AT_ONCE: Final = 16
#: Pauses between attempts double, from the first to the longest.
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 300.0
#: Failed attempts after which a reply is given up: with the pauses above, most of a day.
MAX_ATTEMPTS: Final = 300
#: Seconds after which the outbox is checked without being woken: another process may have written
#: to it and died.
LOOK_EVERY: Final = 10.0
#: Seconds between checks whether another process has answered messages that arrived here.
LOOK_FOR_ENDS: Final = 0.5
#: Seconds between attempts to store the result of a delivery.
STORE_AGAIN: Final = 1.0

T = TypeVar("T")


def target_text(target: Target) -> str:
    """Return a target in the form of the outbox."""
    return json.dumps(asdict(target), ensure_ascii=False)


def target_of(text: str) -> Target:
    """Return the target that `target_text` wrote."""
    return Target(**json.loads(text))


def chat_of(target: Target) -> str:
    """Return the place, within a platform, in which replies are sent in order."""
    return f"{target.chat_id}\0{target.thread_id or ''}"


def reply_to(
    target: Target,
    text: str,
    *,
    lane_id: int | None = None,
    turn_id: int | None = None,
    draft_id: str | None = None,
) -> NewReply:
    """Return a reply for the outbox."""
    return NewReply(
        target.platform, chat_of(target), target_text(target), text, lane_id, turn_id, draft_id
    )


def key_of(number: int, part: int) -> str:
    """Return the idempotency key of a part of a reply."""
    return f"{number}.{part}"


def part_of(key: str) -> tuple[int, int] | None:
    """Return the reply and the part of a key; None if it is not a key of a reply."""
    number, dot, part = key.partition(".")
    if not dot or not (number + part).isascii() or not (number + part).isdigit():
        return None
    # Longer numbers are not row ids.
    return (int(number), int(part)) if number and part and len(key) <= 20 else None


def pause_after(attempts: int) -> float:
    """Return the pause in seconds after this many failed attempts."""
    return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(attempts, 20)))


class Delivery:
    """Sends the replies of one gateway through its connected adapters."""

    def __init__(
        self,
        outbox: Outbox,
        adapters: Mapping[str, Adapter],
        process_id: Callable[[], str],
        *,
        has_ended_elsewhere: Callable[[], bool] = lambda: False,
        on_outcome: Callable[[Outgoing, str], None] = lambda _outgoing, _outcome: None,
    ) -> None:
        """*adapters* may change while it runs. *process_id* returns the process that claims replies
        now; it changes if others considered the process dead. *has_ended_elsewhere* tells whether
        another process has written a reply that this one should send. *on_outcome* is called with
        the result of each attempt: ``sent``, ``postponed`` or ``dead``.
        """
        self._outbox = outbox
        self._adapters = adapters
        self._process_id = process_id
        self._has_ended_elsewhere = has_ended_elsewhere
        self._on_outcome = on_outcome
        self._woken = asyncio.Event()
        self._sending: dict[int, asyncio.Task[None]] = {}
        #: Held until claimed replies are registered as being sent, so that `settle` sees them.
        self._claiming = asyncio.Lock()

    def wake(self) -> None:
        """Look for new replies in the outbox. On the event loop."""
        self._woken.set()

    async def run(self) -> None:
        """Deliver until cancelled. The claim of a reply that is being sent then expires, and
        another process sends it.
        """
        try:
            while True:
                self._woken.clear()
                try:
                    await self.deliver_due()
                except StoreError as error:
                    logger.warning("cannot read the outbox, trying again: %s", error)
                await self._until_something_is_due()
        finally:
            for task in self._sending.values():
                task.cancel()
            await asyncio.gather(*self._sending.values(), return_exceptions=True)

    async def deliver_due(self) -> int:
        """Start to send due replies, up to the limit; return how many were started."""
        async with self._claiming:
            return await self._claim_and_send()

    async def _claim_and_send(self) -> int:
        room = AT_ONCE - len(self._sending)
        connected = [name for name, adapter in self._adapters.items() if adapter.is_connected]
        if room <= 0 or not connected:
            return 0
        claimed = await asyncio.to_thread(
            self._outbox.claim,
            connected,
            self._process_id(),
            seconds=CLAIM_SECONDS,
            limit=room,
            besides=tuple(self._sending),
        )
        for outgoing in claimed:
            task = asyncio.create_task(self._send(outgoing))
            self._sending[outgoing.id] = task
            task.add_done_callback(partial(self._finished, outgoing.id))
        return len(claimed)

    async def settle(self) -> None:
        """Wait until nothing is being sent and nothing more is due."""
        # Check twice: a claim in progress may have started to send.
        while self._sending or await self.deliver_due() or self._sending:
            await asyncio.gather(*self._sending.values(), return_exceptions=True)

    def _finished(self, number: int, _done: asyncio.Task[None]) -> None:
        self._sending.pop(number, None)
        self._woken.set()

    async def _until_something_is_due(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + LOOK_EVERY
        while not self._woken.is_set() and (left := until - loop.time()) > 0:
            # Not `wait_for`: before Python 3.12 it can turn a cancellation into a timeout.
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, LOOK_FOR_ENDS)):
                    await self._woken.wait()
            if not self._woken.is_set() and await self._is_answered_elsewhere():
                return

    async def _is_answered_elsewhere(self) -> bool:
        try:
            return await asyncio.to_thread(self._has_ended_elsewhere)
        except StoreError as error:
            logger.debug("cannot check for replies of other processes: %s", error)
            return False

    async def _send(self, outgoing: Outgoing) -> None:
        adapter = self._adapters.get(outgoing.platform)
        try:
            if adapter is None:
                await self._postpone(outgoing, 0, "The platform is not connected.", failed=False)
                return
            await self._send_parts(adapter, outgoing)
        except NotFound as error:
            logger.info("%s", error)
        except StoreError as error:
            # The claim expires and the reply is sent again: better twice than never.
            logger.warning("could not store the result of reply %s: %s", outgoing.id, error)
        except Exception as error:  # noqa: BLE001 - later replies must not wait for it
            logger.warning("reply %s failed unexpectedly: %s", outgoing.id, where(error))
            await self._failed(outgoing, f"{type(error).__name__}: {error}")

    async def _send_parts(self, adapter: Adapter, outgoing: Outgoing) -> None:
        try:
            target = target_of(outgoing.target)
        except (ValueError, TypeError) as error:
            await self._give_up(outgoing, f"Its target cannot be read: {error}")
            return
        parts = split(outgoing.text, adapter.limits)
        try:
            for number in range(outgoing.parts_sent, len(parts)):
                sent = await _send_part(adapter, target, outgoing, parts[number], number)
                outgoing = await _until_stored(
                    partial(self._outbox.part_sent, outgoing, sent, seconds=CLAIM_SECONDS)
                )
        except RateLimited as error:
            await self._postpone(outgoing, error.retry_after, str(error), failed=False)
        except Undeliverable as error:
            if outgoing.parts_sent == 0 and outgoing.draft_id is not None:
                # The draft is deleted or too old to edit; send the reply as a new message.
                await self._send_parts(adapter, outgoing._replace(draft_id=None))
                return
            await self._give_up(outgoing, str(error))
        except PlatformError as error:
            await self._failed(outgoing, str(error))
        else:
            await _until_stored(partial(self._outbox.sent, outgoing))
            self._on_outcome(outgoing, "sent")

    async def _failed(self, outgoing: Outgoing, error: str) -> None:
        if outgoing.attempts + 1 >= MAX_ATTEMPTS:
            await self._give_up(outgoing, error)
        else:
            await self._postpone(outgoing, pause_after(outgoing.attempts), error, failed=True)

    async def _postpone(
        self, outgoing: Outgoing, seconds: float, error: str, *, failed: bool
    ) -> None:
        await _until_stored(partial(self._outbox.postpone, outgoing, seconds, error, failed=failed))
        self._on_outcome(outgoing, "postponed")
        asyncio.get_running_loop().call_later(seconds, self.wake)

    async def _give_up(self, outgoing: Outgoing, error: str) -> None:
        logger.warning(
            "gave up on reply %s to %s: %s. See: hermes gateway queue --dead",
            outgoing.id,
            outgoing.platform,
            error,
        )
        await _until_stored(partial(self._outbox.give_up, outgoing, error))
        self._on_outcome(outgoing, "dead")


async def _until_stored(store: Callable[[], T]) -> T:
    """Store the result of a delivery; retry while the database is unavailable, so that a sent reply
    is not sent twice.
    """
    while True:
        try:
            return await asyncio.to_thread(store)
        except StoreUnavailable as error:
            logger.info("could not store the result of a reply yet: %s", error)
            await asyncio.sleep(STORE_AGAIN)


async def _send_part(
    adapter: Adapter, target: Target, outgoing: Outgoing, text: str, number: int
) -> str:
    """Send one part, replacing the draft if there is one; return the id of the message."""
    try:
        if number == 0 and outgoing.draft_id is not None and adapter.limits.edits:
            await adapter.edit(target, outgoing.draft_id, text)
            return outgoing.draft_id
        return await adapter.send(target, text, key=key_of(outgoing.id, number))
    except PlatformError:
        raise
    except Exception as error:
        # An error in an adapter must not leave a reply in the state of being sent.
        logger.warning("%s failed to send: %s", adapter.name, where(error))
        raise Unreachable(f"{type(error).__name__}: {error}") from error

"""Intake of messages: checks access, parses commands, and stores before it confirms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from hermes_sessions.agent.chat_spool import STORE_UNAVAILABLE_ERRORS
from hermes_sessions.agent.slash_commands import TypedCommand, UnknownCommand, parse_command
from hermes_sessions.errors import InvalidInput, MessageTooLarge, StoreClosed
from hermes_sessions.gateway.access_control import Authorisation
from hermes_sessions.gateway.command_executor import CommandExecutor
from hermes_sessions.gateway.events import Inbound, Receipt, Status
from hermes_sessions.gateway.inbound_spool import Spool
from hermes_sessions.gateway.platforms.port import Unreachable
from hermes_sessions.gateway.worker_pool import BusyAnswer, WorkerPool
from hermes_sessions.lifecycle.busy_input import BusyMode, should_acknowledge
from hermes_sessions.lifecycle.mailboxes import Mailboxes
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.lifecycle.turn_input import dedupe_mark, sender_of
from hermes_sessions.storage.care.health import HealthWatch, State
from hermes_sessions.storage.logs import Logger, where
from hermes_sessions.storage.repositories.mailbox import EnqueueResult, Kind, Mailbox

logger = Logger(__name__)

#: The most messages that are stored at the same time.
_AT_ONCE: Final = 16
#: The most attempts to store a message after unexpected errors.
_TRIES: Final = 3
_FULL: Final = (
    "Too many messages are queued here ({depth}). This one was not accepted. Send it again after "
    "my next answer, or drop the queue with /stop."
)
_NOT_ACCEPTED: Final = (
    "A message that you sent while my database was unavailable was not accepted. Send it again."
)
_FAILED: Final = (
    "Something went wrong and your message was not accepted. Send it again, or tell the owner of "
    "this bot."
)
_IS_SAFE: Final = "Your message is safe, and I will answer it when the database is back."
#: The reply for a spooled message, by the state of the store.
_SPOOLED: Final = {
    State.DOWN: f"My database is unavailable. {_IS_SAFE}",
    State.READ_ONLY: f"My database accepts no changes at the moment. {_IS_SAFE}",
}


@dataclass(slots=True)
class Intake:
    """Receives the messages of all platforms. Thread-safe."""

    store: SessionStore
    mailboxes: Mailboxes
    authorisation: Authorisation
    spool: Spool
    pool: WorkerPool
    command_executor: CommandExecutor
    #: Sends a reply to the chat of a message whose sender does not wait any more.
    say: Callable[[Inbound, str], None]
    #: Tells whether a spooled message must not be stored any more, because its sender was erased.
    is_erased: Callable[[Inbound], bool] = lambda _inbound: False
    #: The health of the store, as of the last write.
    health: HealthWatch = field(default_factory=HealthWatch)
    _acknowledged: dict[str, float] = field(default_factory=dict)
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="intake")
    )

    def close(self) -> None:
        """Accept no more messages; spooled ones stay for the next start."""
        self._threads.shutdown(wait=False)
        self.spool.close()

    async def accept(self, inbound: Inbound) -> Receipt:
        """Accept a message; when this returns, it is durable, or refused with a reason.

        Raises:
            Unreachable: it could not even be spooled, or the sender's access is unknown; it must
                not be confirmed to the platform.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self.take, inbound)

    def take(self, inbound: Inbound) -> Receipt:
        """Do the same in the calling thread."""
        if self.spool.waiting:
            # Earlier messages are not stored yet: keep the order.
            return self._spool_message(inbound, "earlier messages wait")
        try:
            receipt = self._store_or_set_aside(inbound)
        except STORE_UNAVAILABLE_ERRORS as error:
            self.health.failed(error)
            return self._spool_message(inbound, str(error))
        self.health.worked()
        return receipt

    def _store_or_set_aside(self, inbound: Inbound, tries: int = _TRIES) -> Receipt:
        """Store a message. After an unexpected error, set it aside where it can be seen and
        retried: it must neither block other messages nor get lost, and some platforms stop
        redelivering an unconfirmed message after a few attempts.
        """
        try:
            return self.store_now(inbound)
        except (InvalidInput, StoreClosed, *STORE_UNAVAILABLE_ERRORS):
            raise
        except Exception as error:  # noqa: BLE001 - see above
            logger.warning("could not store a message: %s", where(error))
            # Without an id, a retry could store it twice.
            if tries > 1 and inbound.message_id is not None:
                return self._store_or_set_aside(inbound, tries - 1)
            return self._set_aside(inbound, error)

    def _set_aside(self, inbound: Inbound, why: Exception) -> Receipt:
        try:
            self.spool.put_aside(inbound, why)
        except OSError as error:
            raise Unreachable(f"The message cannot be stored anywhere: {error}") from error
        return Receipt("refused", reply=_FAILED, reason="failed")

    def _spool_message(self, inbound: Inbound, why: str) -> Receipt:
        try:
            verdict = self.authorisation.decide(inbound.source, inbound.roles, is_final=False)
        except STORE_UNAVAILABLE_ERRORS as error:
            raise Unreachable(f"The sender's access cannot be checked: {error}") from error
        if not verdict.is_allowed:
            return Receipt("refused", reply=verdict.reply, reason=verdict.refusal)
        try:
            self.spool.append(inbound)
        except OSError as error:
            raise Unreachable(f"The message cannot be stored anywhere: {error}") from error
        self.health.waits(self.spool.waiting)
        logger.warning("spooled a message: %s", why)
        return Receipt("spooled", reply=_SPOOLED.get(self.health.now.state, _SPOOLED[State.DOWN]))

    def replay(self) -> int:
        """Store spooled messages; return how many. Called when the database may be back.

        Raises:
            StoreError: it is not; the remaining messages stay in the spool.
        """
        try:
            # Messages that arrive meanwhile may belong between them.
            with self.pool.deferring_wakes():
                number = self.spool.replay(self._store_spooled)
        finally:
            self.health.waits(self.spool.waiting)
        if number:
            self.health.worked()
        return number

    def _store_spooled(self, inbound: Inbound) -> None:
        if self.is_erased(inbound):
            return
        if not self.authorisation.may_talk(inbound.source, inbound.roles):
            # The access of a sender whose message was set aside may be unknown.
            return
        try:
            receipt = self._store_allowed(inbound)
        except STORE_UNAVAILABLE_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001 - later messages must not wait for it
            logger.warning("refused a spooled message: %s", where(error))
            self.spool.put_aside(inbound, error)
            self.say(inbound, _NOT_ACCEPTED)
            return
        is_over = receipt.status in {"answered", "refused"}
        if receipt.reply is not None and is_over and not receipt.is_in_outbox:
            # The receipt has no reader any more, and the sender was promised an answer.
            self.say(inbound, receipt.reply)

    def store_now(self, inbound: Inbound) -> Receipt:
        """Store a message, or refuse it.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        verdict = self.authorisation.decide(inbound.source, inbound.roles)
        if not verdict.is_allowed:
            return Receipt("refused", reply=verdict.reply, reason=verdict.refusal)
        return self._store_allowed(inbound)

    def _store_allowed(self, inbound: Inbound) -> Receipt:
        inbound = self._without_known_parts(inbound)
        key = self.store.session_key(inbound.source)
        typed = parse_command(inbound.text, "gateway")
        if isinstance(typed, UnknownCommand):
            return Receipt("answered", reply=_unknown(typed), session_key=key)
        if typed is None:
            return self._message(inbound, key, "message", inbound.text, None)
        wants = typed.command.delivers
        if wants is None:
            return self._command(typed, inbound, key)
        if not typed.argument:
            return Receipt("answered", reply=f"Usage: {typed.command.usage}", session_key=key)
        kind: Kind = "queue" if wants == "queue" else "message"
        return self._message(inbound, key, kind, typed.argument, wants)

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    def _message(
        self, inbound: Inbound, key: str, kind: Kind, text: str, wants: BusyMode | None
    ) -> Receipt:
        try:
            put = self._put(inbound, kind, text, wants)
        except MessageTooLarge as error:
            return Receipt("refused", reply=str(error), session_key=key, reason="too large")
        if put.is_duplicate:
            return Receipt("duplicate", put.item_id, put.depth, session_key=key)
        if put.is_refused or put.item_id is None:
            words = _FULL.format(depth=put.depth)
            return Receipt("refused", reply=words, session_key=key, reason="full")
        lane_id = self._lane_id(inbound)
        busy = self.pool.apply_busy_mode(
            lane_id,
            put.item_id,
            self.store.config.busy_input_mode,
            has_media=bool(inbound.attachments),
            wants=wants,
        )
        reply = None if busy is None else self._acknowledgement(key, busy, put.depth)
        return Receipt("stored", put.item_id, put.depth, reply, key)

    def _put(
        self, inbound: Inbound, kind: Kind, text: str, wants: BusyMode | None = None
    ) -> EnqueueResult:
        source = inbound.source
        payload = payload_of(inbound)
        if wants is not None:
            # For the process that runs the turn, which may be another one.
            payload["wants"] = wants
        return self.mailboxes.receive(
            self.store.engine.key_of(source),
            kind=kind,
            sender=sender_of(source),
            text=text,
            payload=payload,
            dedupe=self._mark(inbound, inbound.message_id),
            also=[self._mark(inbound, part.message_id) for part in inbound.parts[1:]],
            origin=source,
        )

    def _without_known_parts(self, inbound: Inbound) -> Inbound:
        """Return the new parts of a message that the platform sent in several parts: a late part
        arrives together with parts that are stored already.
        """
        if not inbound.parts:
            return inbound
        with self.store.engine.store.provider.read() as tx:
            new = [
                part
                for part in inbound.parts
                if Mailbox.find_duplicate(tx, self._mark(inbound, part.message_id)) is None
            ]
        return inbound.only(new) if new else inbound

    def _lane_id(self, inbound: Inbound) -> int:
        deps = self.store.engine
        with deps.store.provider.read() as tx:
            lane = deps.lanes.find(tx, deps.namespace, deps.key_of(inbound.source))
        if lane is None:
            raise AssertionError("the lane of a stored message is gone")
        return lane.id

    def _acknowledgement(self, key: str, busy: BusyAnswer, depth: int) -> str | None:
        if not self.store.config.busy_ack_enabled:
            return None
        now = self.store.engine.store.clock()
        if not should_acknowledge(self._acknowledged.get(key), now):
            return None
        if len(self._acknowledged) > 10_000:
            self._acknowledged.clear()
        self._acknowledged[key] = now
        if busy.answer.action == "interrupt":
            return "Stopping the current answer to answer this."
        if busy.answer.action == "steer":
            return "I will include this after the next step."
        return "Queued." if depth <= 1 else f"Queued; {depth} messages are waiting."

    # ── commands ──────────────────────────────────────────────────────────────────────────────

    def _command(self, typed: TypedCommand, inbound: Inbound, key: str) -> Receipt:
        if "gateway" in typed.command.as_turn:
            return self._message(inbound, key, "command", inbound.text, "queue")
        try:
            done = self.command_executor.execute_command(
                typed, inbound, key, dedupe=self._mark(inbound, inbound.message_id)
            )
        except MessageTooLarge as error:
            return Receipt("refused", reply=str(error), session_key=key, reason="too large")
        status: Status = "duplicate" if done.is_duplicate else "answered"
        return Receipt(status, done.item_id, 0, done.reply, key, is_in_outbox=done.is_in_outbox)

    def _mark(self, inbound: Inbound, message_id: str | None) -> str | None:
        source = inbound.source
        return dedupe_mark(self.store.config.namespace, source.platform, source.chat_id, message_id)


def payload_of(inbound: Inbound) -> dict[str, Any]:
    """Return the data that the mailbox keeps beside the text."""
    payload: dict[str, Any] = {"source": inbound.source.to_dict()}
    if inbound.message_id is not None:
        payload["message_id"] = inbound.message_id
    if inbound.attachments:
        payload["media"] = [asdict(attachment) for attachment in inbound.attachments]
    if inbound.reply_to is not None:
        payload["reply_to"] = inbound.reply_to
    if inbound.extra:
        payload["extra"] = inbound.extra
    if inbound.order is not None:
        payload["order"] = inbound.order
    return payload


def _unknown(typed: UnknownCommand) -> str:
    near = " or ".join(f"/{name}" for name in typed.near)
    meant = f" Did you mean {near}?" if near else ""
    return f"There is no command /{typed.name}.{meant} /help shows all commands."

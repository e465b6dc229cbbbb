"""A running gateway: start, heartbeat, drain and stop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from hermes_sessions.errors import StoreError, StoreUnavailable
from hermes_sessions.gateway import malloc_tuning
from hermes_sessions.gateway.active_turns import long_running, overdue
from hermes_sessions.gateway.delivery import Delivery, part_of, reply_to
from hermes_sessions.gateway.events import Inbound, Receipt, target_of_message
from hermes_sessions.gateway.handoffs import Handoffs
from hermes_sessions.gateway.intake import Intake
from hermes_sessions.gateway.message_progress import PendingReplies, ProgressHub
from hermes_sessions.gateway.metrics import GatewayMetrics
from hermes_sessions.gateway.overview import PlatformReports, ended_elsewhere
from hermes_sessions.gateway.platform_connections import Connections
from hermes_sessions.gateway.platforms.port import Adapter, PlatformError, Progress
from hermes_sessions.gateway.platforms.text_splitter import split
from hermes_sessions.gateway.reply_drafts import DraftPublisher
from hermes_sessions.gateway.stuck_lanes import StuckLanes
from hermes_sessions.gateway.worker_pool import WorkerPool
from hermes_sessions.lifecycle.expiry_watcher import ExpiryWatcher
from hermes_sessions.lifecycle.gateway_process import GatewayProcess
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.model.source import SessionSource
from hermes_sessions.storage.care.health import State
from hermes_sessions.storage.logs import Logger, where
from hermes_sessions.storage.repositories.outbox import Outbox

logger = Logger(__name__)

EndReason = Literal["shutdown", "restart"]

#: Seconds between heartbeats, in which the gateway renews its leases and looks for orphaned work.
BEAT_SECONDS: Final = 10.0
#: The same while messages wait for the database.
RETRY_SECONDS: Final = 1.0
#: The longest wait for interrupted turns and unsent replies when the gateway stops.
GRACE_SECONDS: Final = 5.0
#: How long each step of stopping waits for the database. What is not stored then, the next start
#: finds out, as after a crash.
STOP_SECONDS: Final = 3.0


@dataclass(slots=True)
class Gateway:
    """The parts of a running gateway. On one event loop; storage and turns run in threads."""

    store: SessionStore
    process: GatewayProcess
    adapters: Mapping[str, Adapter]
    intake: Intake
    pool: WorkerPool
    delivery: Delivery
    hub: ProgressHub
    drafts: DraftPublisher
    watcher: ExpiryWatcher
    outbox: Outbox
    stuck: StuckLanes
    gateway_metrics: GatewayMetrics
    handoffs: Handoffs
    pending_replies: PendingReplies
    beat_seconds: float = BEAT_SECONDS
    #: Called when the gateway is ready, with the recovered and the connected.
    on_ready: Callable[[], None] = lambda: None
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    #: Reserved threads for the heartbeat and the work after it, however busy the gateway is.
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(2, thread_name_prefix="gateway")
    )
    #: Reserved threads for the stop.
    _last_threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(3, thread_name_prefix="stop")
    )
    _beat_due: asyncio.Event = field(default_factory=asyncio.Event)
    _upkeep_due: asyncio.Event = field(default_factory=asyncio.Event)
    _ending: asyncio.Event = field(default_factory=asyncio.Event)
    _reason: EndReason = "shutdown"
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    #: `WorkerPool.served` when memory was last returned to the system.
    _trimmed_after: int | None = None
    _watcher_ends: threading.Event = field(default_factory=threading.Event)
    connections: Connections = field(init=False)
    _reports: PlatformReports = field(init=False)

    def __post_init__(self) -> None:
        self.connections = Connections(self.adapters, self._serve_connected)
        self._reports = PlatformReports(self.store.engine.store, self.store.config.namespace)

    def end(self, reason: EndReason) -> None:
        """Drain and stop the gateway. On the event loop."""
        self._reason = reason
        self._ending.set()

    def status(self) -> dict[str, object]:
        """Return the status for the status socket, without waiting. From any thread."""
        return {
            "state": "stopping" if self._ending.is_set() else "running",
            "platforms": self.connections.states(),
            "spooled": self.intake.spool.waiting,
            "why": self.gateway_metrics.store().why,
            **self.gateway_metrics.store_status(),
        }

    @property
    def wants_restart(self) -> bool:
        """Whether it ended in order to be restarted."""
        return self._ending.is_set() and self._reason == "restart"

    async def run(self) -> bool:
        """Run until `end` is called; return whether all work was finished.

        Raises:
            LoginRefused: no platform accepts its configuration.
            StoreError: the store is unavailable at the start.
        """
        recovery = await asyncio.to_thread(self.process.start)
        self.intake.health.worked()
        for one in recovery.stuck:
            if one.lane is not None:
                await asyncio.to_thread(self.stuck.tell, one.lane)
        await asyncio.to_thread(self.intake.command_executor.recover_orphaned_commands)
        await asyncio.to_thread(self.intake.spool.adopt)
        self._tasks = [
            asyncio.create_task(self.delivery.run()),
            asyncio.create_task(self.gateway_metrics.measure_loop()),
            asyncio.create_task(self._repeat(self._beat_once, self._beat_due)),
            asyncio.create_task(self._repeat(self._recover_work, self._upkeep_due)),
        ]
        watching = threading.Thread(target=self._watch_expiry, name="expiry", daemon=True)
        watching.start()
        try:
            await self.connections.connect(self, self._ending)
            await self._serve_connected()
            self.on_ready()
            await self._ending.wait()
        finally:
            clean = await self._stop()
        return clean

    # ── services for adapters ─────────────────────────────────────────────────────────────────

    async def accept(self, inbound: Inbound) -> Receipt:
        """See `Services.accept`. Replies of commands go through the outbox, so that they arrive
        even if the platform rejects them now. Receipts for queued messages do not: they are only
        useful at once.
        """
        receipt = await self.intake.accept(inbound)
        self.gateway_metrics.message(inbound.source.platform.value, receipt)
        if receipt.status == "stored" and receipt.item_id is not None:
            self.pending_replies.add(receipt.item_id)
        if receipt.reply is not None and receipt.status != "duplicate" and not receipt.is_in_outbox:
            await self._say(inbound, receipt.reply, is_durable=receipt.status == "answered")
        return receipt

    async def _say(self, inbound: Inbound, text: str, *, is_durable: bool) -> None:
        target = target_of_message(inbound)
        if is_durable:
            try:
                await asyncio.to_thread(self.outbox.put, reply_to(target, text))
            except StoreError as error:
                logger.info("could not store the reply of a command: %s", error)
            else:
                self.delivery.wake()
                return
        adapter = self.adapters.get(target.platform)
        if adapter is None:
            return
        try:
            for number, part in enumerate(split(text, adapter.limits)):
                key = f"receipt.{inbound.message_id}.{number}"
                await adapter.send(target, part, key=key)
        except PlatformError as error:
            # The message itself is safe; the sender can ask with /status.
            logger.info("could not deliver a receipt: %s", error)

    async def may_talk(self, source: SessionSource) -> bool:
        """See `Services.may_talk`."""
        return await asyncio.to_thread(self.intake.authorisation.may_talk, source)

    def watch(self, item_id: int) -> AsyncIterator[Progress]:
        """See `Services.watch`."""
        return self.hub.watch(item_id)

    async def undelivered(self, key: str, message_id: str, why: str) -> None:
        """See `Services.undelivered`."""
        if (part := part_of(key)) is None:
            return
        if await asyncio.to_thread(self.outbox.undelivered, *part, message_id, why):
            logger.warning(
                "the platform accepted reply %s but did not deliver it: %s. "
                "See: hermes gateway queue --dead",
                part[0],
                why,
            )
            self.delivery.wake()

    async def load_state(self, name: str) -> str | None:
        """See `Services.load_state`."""
        key = f"gateway:{self.store.config.namespace}:{name}"
        return await asyncio.to_thread(self.store.db.get_meta, key)

    async def save_state(self, name: str, value: str) -> None:
        """See `Services.save_state`."""
        key = f"gateway:{self.store.config.namespace}:{name}"
        await asyncio.to_thread(self.store.db.set_meta, key, value)

    # ── start ─────────────────────────────────────────────────────────────────────────────────

    async def _serve_connected(self) -> None:
        """Do the work that waited for the platforms that are connected now."""
        self.delivery.wake()
        try:
            await asyncio.to_thread(self._report)
            await asyncio.to_thread(self._resume_lanes)
        except StoreError as error:
            logger.warning("the store is unavailable, trying again: %s", error)

    def _report(self) -> None:
        """Store the states of the platforms for other processes."""
        self._reports.report(self.process.id, self.connections.states())

    def _resume_lanes(self) -> None:
        """Resume interrupted lanes, and lanes with waiting messages."""
        self.process.resume()
        self.pool.wake_waiting()

    # ── while it runs ─────────────────────────────────────────────────────────────────────────

    def beat_now(self) -> None:
        """Run a heartbeat now. From any thread."""
        self._loop.call_soon_threadsafe(self._beat_due.set)
        self._loop.call_soon_threadsafe(self._upkeep_due.set)

    async def _repeat(self, do: Callable[[], None], due: asyncio.Event) -> None:
        """Call a function at every heartbeat, whatever its last result."""
        while True:
            due.clear()
            try:
                await self._loop.run_in_executor(self._threads, do)
            except StoreError as error:
                logger.warning("the store is unavailable, trying again: %s", error)
            except Exception as error:  # noqa: BLE001 - without a heartbeat the gateway loses its turns
                logger.warning("the heartbeat failed, trying again: %s", where(error))
            is_waiting = bool(self.intake.spool.waiting)
            pause = min(RETRY_SECONDS, self.beat_seconds) if is_waiting else self.beat_seconds
            # Not `wait_for`: before Python 3.12 it can turn a cancellation into a timeout.
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await due.wait()

    def _beat_once(self) -> None:
        """Renew the heartbeat and the leases of this process. Nothing here may take long."""
        try:
            is_alive = self.process.beat()
        except StoreError as error:
            self.intake.health.failed(error)
            raise
        self.intake.health.worked()
        if not is_alive:
            # Other processes considered this one dead and took over its turns.
            logger.warning("other gateways considered this one dead; it gives up its turns")
            for turn in self.pool.running():
                turn.end("lost")
            self.process.start()
        self.pool.beat()
        config, running = self.store.config, self.pool.running()
        to_warn, to_end = overdue(
            running, warn_after=config.turn_warning, end_after=config.turn_timeout
        )
        for turn in to_end:
            turn.end("timeout")
        self.drafts.warn(to_warn)
        self.drafts.tell_still_running(long_running(running, every=config.notify_interval))

    def _recover_work(self) -> None:
        """Recover orphaned work, and start waiting work."""
        self.intake.spool.adopt()
        self.intake.replay()
        self.pool.poll_messages(self.store.config.busy_input_mode)
        for item_id, progress in ended_elsewhere(self.store.engine.store, self.hub.watched()):
            self.hub.publish((item_id,), progress)
        self._report()
        self.gateway_metrics.outbox = self.outbox.counts()
        if self.pool.is_draining:
            return
        recovery = self.process.recover()
        for one in recovery.stuck:
            if one.lane is not None:
                self.stuck.tell(one.lane)
        # First the commands: one may stop a lane before it resumes.
        self.intake.command_executor.recover_orphaned_commands()
        told = self.handoffs.take_all() + self.stuck.tell_all() + self.drafts.finish_left()
        if recovery.freed_replies + told:
            self._loop.call_soon_threadsafe(self.delivery.wake)
        self._resume_lanes()
        self._trim_memory_when_idle()

    def _trim_memory_when_idle(self) -> None:
        """Return memory to the system once the gateway is idle after some work."""
        served = self.pool.served()
        if served not in {None, self._trimmed_after}:
            malloc_tuning.trim_free_memory()
            self._trimmed_after = served

    def _watch_expiry(self) -> None:
        self.watcher.run(self._watcher_ends.wait)

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    async def _stop(self) -> bool:
        """Let turns finish within the configured time; leave the rest to the next start."""
        self._watcher_ends.set()
        try:
            clean = await self._unless_down(self._drain)
            self._require_store()
            await asyncio.wait_for(self.delivery.settle(), GRACE_SECONDS)
        except (StoreError, TimeoutError) as error:
            logger.warning("the gateway did not stop cleanly: %r", error)
            clean = False
        await self.connections.disconnect()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.pool.close()
        with suppress(TimeoutError):
            # It waits for a message that is being stored.
            async with asyncio.timeout(GRACE_SECONDS):
                await self._loop.run_in_executor(self._last_threads, self.intake.close)
        try:
            return await self._unless_down(self._end_process) and clean
        except StoreError as error:
            logger.warning("could not store the stop; the next start notices it: %s", error)
            return False
        finally:
            self._last_threads.shutdown(wait=False)

    async def _unless_down(self, do: Callable[[], bool]) -> bool:
        """Run *do*, which uses the store, in a thread, and return its result.

        Raises:
            StoreError: *do* failed, or the store is down and *do* was abandoned.
        """
        doing = self._loop.run_in_executor(self._last_threads, do)
        while not doing.done():
            self._require_store()
            await asyncio.wait({doing}, timeout=RETRY_SECONDS)
        return doing.result()

    def _require_store(self) -> None:
        """Raise `StoreUnavailable` while the store is down."""
        if (health := self.gateway_metrics.store()).state is State.DOWN:
            raise StoreUnavailable(health.why or "The database does not answer.")

    def _drain(self) -> bool:
        self.pool.begin_drain()
        if running := len(self.pool.running()):
            seconds = self.store.config.drain_timeout
            logger.info("stopping: up to %g s for running turns: %s", seconds, running)
        try:
            with self._limited_waits():
                self.process.begin_drain(self._reason)
        except StoreError as error:
            logger.warning("could not mark running turns; the next start finds them: %s", error)
        if not self.pool.wait_idle(self.store.config.drain_timeout):
            for turn in self.pool.running():
                turn.end(self._reason)
            self.pool.wait_idle(GRACE_SECONDS)
        with self._limited_waits():
            return not self.process.end_drain().unfinished

    def _end_process(self) -> bool:
        with self._limited_waits():
            return self.process.end()

    @contextmanager
    def _limited_waits(self) -> Iterator[None]:
        """Do not wait for a database that does not answer when the gateway stops, and do not ask
        it again: all that comes after it would wait as long.
        """
        try:
            with self.store.engine.store.provider.limit_waits(STOP_SECONDS):
                yield
        except StoreError as error:
            self.intake.health.failed(error)
            raise

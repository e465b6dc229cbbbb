"""Builds a gateway from settings: the only place that connects its parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from typing import Final

from hermes_sessions.agent.clients.model_selection import ChosenModel, choose_model
from hermes_sessions.agent.clients.port import ModelError
from hermes_sessions.agent.compaction import compact, estimated_tokens, is_nearly_full
from hermes_sessions.agent.title_generator import TitleQueue, title_session
from hermes_sessions.agent.tools.builtin import default_tools
from hermes_sessions.agent.turn import Agent
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.config.paths import process_environment
from hermes_sessions.config.settings import Settings
from hermes_sessions.errors import ConfigError, InvalidInput
from hermes_sessions.gateway import malloc_tuning
from hermes_sessions.gateway.access_control import AccessPolicy, Authorisation
from hermes_sessions.gateway.command_executor import CommandExecutor
from hermes_sessions.gateway.delivery import Delivery, reply_to
from hermes_sessions.gateway.events import Inbound, target_of_message
from hermes_sessions.gateway.handoffs import Handoffs
from hermes_sessions.gateway.inbound_spool import Spool, spool_directory
from hermes_sessions.gateway.intake import Intake
from hermes_sessions.gateway.message_progress import PendingReplies, ProgressHub
from hermes_sessions.gateway.metrics import GatewayMetrics, observe
from hermes_sessions.gateway.platforms.port import Adapter, Progress
from hermes_sessions.gateway.platforms.registry import known_platforms, make_adapter
from hermes_sessions.gateway.reply_drafts import DraftPublisher, Streaming
from hermes_sessions.gateway.runner import Gateway
from hermes_sessions.gateway.slash_command_handlers import GatewayCommands, run_command_turn
from hermes_sessions.gateway.spool_erasure import ErasureFilter
from hermes_sessions.gateway.stuck_lanes import StuckLanes
from hermes_sessions.gateway.turn_runner import FinalTurn, TurnRunner
from hermes_sessions.gateway.worker_pool import WorkerPool
from hermes_sessions.lifecycle.agent_cache import AgentCache, agent_signature
from hermes_sessions.lifecycle.command_journal import CommandJournal
from hermes_sessions.lifecycle.expiry_watcher import ExpiryWatcher
from hermes_sessions.lifecycle.gateway_process import GatewayProcess
from hermes_sessions.lifecycle.mailboxes import Mailboxes
from hermes_sessions.lifecycle.session_entry import SessionEntry
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.model.source import SessionSource
from hermes_sessions.storage.care.health import HealthWatch
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.repositories.leases import Holder
from hermes_sessions.storage.repositories.outbox import Drafts, Outbox
from hermes_sessions.storage.repositories.senders import Senders
from hermes_sessions.storage.sessiondb import SessionDB

logger = Logger(__name__)

#: Heartbeats in the lifetime of a lease: some may fail.
HEARTBEATS_PER_LEASE: Final = 6
#: The limit of the store's caches in bytes, over all its connections.
_STORE_MEMORY: Final = 16 * 2**20
_NOTHING_ENABLED: Final = (
    "No platform is enabled. Enable one in config.yaml, for example:\n"
    "platforms:\n  telegram:\n    token: ${TELEGRAM_TOKEN}\n    allowed_users: [123456789]\n"
    "Platforms: "
)


class NoPlatformEnabled(ConfigError):
    """No platform is enabled."""

    exit_code = 2


def enabled_adapters(settings: Settings) -> dict[str, Adapter]:
    """Return an adapter for each enabled platform, by its name in lane keys.

    Raises:
        NoPlatformEnabled: none is enabled.
        ConfigError: a section is not valid.
    """
    made = {
        name: make_adapter(name, platform, settings.home / "gateway")
        for name, platform in settings.platforms.items()
        if platform.is_enabled
    }
    if not made:
        raise NoPlatformEnabled(_NOTHING_ENABLED + ", ".join(known_platforms()))
    return {adapter.name: adapter for adapter in made.values()}


@contextmanager
def gateway(
    settings: Settings,
    db: SessionDB,
    *,
    adapters: Mapping[str, Adapter] | None = None,
    version: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Iterator[Gateway]:
    """Build a gateway on an open store, to run on the current event loop; close its resources at
    the end. From then on, the memory that this process keeps for the store and its threads is
    limited.

    Raises:
        ConfigError: a setting is missing or not valid.
    """
    found = dict(adapters) if adapters is not None else enabled_adapters(settings)
    environ = process_environment() if environ is None else environ
    chosen = choose_model(settings.model, environ=environ)
    malloc_tuning.limit_arenas(environ)
    db.provider.limit_memory(_STORE_MEMORY)
    client = chosen.open()
    try:
        with SessionStore(
            settings.home / "sessions", GatewayConfig.from_settings(settings), db=db
        ) as store:
            agent = Agent(db, client, default_tools(), chosen.model, pricing=chosen.pricing)
            built = _GatewayBuilder(settings, store, found, chosen, agent, version)
            try:
                yield built.gateway
            finally:
                built.close()
    finally:
        client.close()


class _GatewayBuilder:
    """The parts of one gateway; each is made once, when another part needs it."""

    def __init__(
        self,
        settings: Settings,
        store: SessionStore,
        adapters: Mapping[str, Adapter],
        chosen: ChosenModel,
        agent: Agent,
        version: str | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._settings = settings
        self._store = store
        self._deps = store.engine
        self._adapters = adapters
        self._chosen = chosen
        self._agent = agent
        self._version = version
        self._lease_seconds = settings.gateway.lease_seconds
        self._beat_seconds = self._lease_seconds / HEARTBEATS_PER_LEASE
        self._mailboxes = Mailboxes(store.engine)
        self._outbox = Outbox(store.engine.store, store.config.namespace)
        self._stuck = StuckLanes(store, self._outbox)
        # A heartbeat that does not return in time means that the store is down.
        self._gateway_metrics = GatewayMetrics(HealthWatch(silent_after=1.5 * self._beat_seconds))
        self._hub = ProgressHub(self._loop)
        self._cache: AgentCache[Agent] = AgentCache(
            store.config.agent_cache_size,
            store.config.agent_cache_ttl,
            clock=store.engine.store.clock,
            close=lambda _agent: None,
        )
        self._titling = TitleQueue(self._give_title)

    def close(self) -> None:
        self._cache.close()
        self._titling.close()

    @cached_property
    def gateway(self) -> Gateway:
        """The complete gateway."""
        observe(
            self._gateway_metrics,
            adapters=self._adapters,
            lanes_at_work=lambda: len(self._pool.running()),
            spool_waiting=lambda: self._intake.spool.waiting,
            is_draining=lambda: self._pool.is_draining,
        )
        return Gateway(
            self._store,
            self._process,
            self._adapters,
            self._intake,
            self._pool,
            self._delivery,
            self._hub,
            self._drafts,
            ExpiryWatcher(self._store, agents=self._cache, save=FinalTurn(self._agent)),
            self._outbox,
            self._stuck,
            self._gateway_metrics,
            self._handoffs,
            self._pending_replies,
            beat_seconds=self._beat_seconds,
        )

    @cached_property
    def _process(self) -> GatewayProcess:
        return GatewayProcess(
            self._deps,
            home=self._settings.home,
            version=self._version,
            dead_after=self._lease_seconds,
        )

    # ── replies ───────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _pending_replies(self) -> PendingReplies:
        return PendingReplies(
            self._deps.store,
            lambda: {item for turn in self._pool.running() for item in turn.item_ids},
        )

    @cached_property
    def _delivery(self) -> Delivery:
        gateway_metrics = self._gateway_metrics
        return Delivery(
            self._outbox,
            self._adapters,
            lambda: self._process.id,
            has_ended_elsewhere=self._pending_replies.has_ended,
            on_outcome=lambda outgoing, outcome: gateway_metrics.delivery(
                outgoing.platform, outcome
            ),
        )

    def _sent(self) -> None:
        """Wake the delivery: the outbox has a new reply."""
        _call_soon(self._loop, self._delivery.wake)

    def _say(self, inbound: Inbound, text: str) -> None:
        self._outbox.put(reply_to(target_of_message(inbound), text))
        self._sent()

    def _publish(self, item_ids: tuple[int, ...], progress: Progress) -> None:
        if progress.kind == "ended":
            self._pending_replies.ended(item_ids)
        self._hub.publish(item_ids, progress)

    @cached_property
    def _drafts(self) -> DraftPublisher:
        shown = self._settings.streaming
        streaming = Streaming(
            shown.enabled, shown.edit_interval, shown.buffer_threshold, f" {shown.cursor}"
        )
        drafts = Drafts(self._deps.store, self._store.config.namespace)
        return DraftPublisher(self._loop, self._adapters, lambda _platform: streaming, drafts)

    # ── turns and commands ────────────────────────────────────────────────────────────────────

    def _agent_for(self, entry: SessionEntry) -> AbstractContextManager[Agent]:
        signature = agent_signature(entry.session_id, self._chosen.description)
        return self._cache.using(entry.session_key, signature, lambda: self._agent)

    @cached_property
    def _pool(self) -> WorkerPool:
        runner = TurnRunner(
            self._store,
            self._mailboxes,
            self._outbox,
            self._stuck,
            self._agent_for,
            publish=self._publish,
            show=self._drafts.show,
            sent=self._sent,
            prepare=self._prepare,
            on_answered=self._titling.ask,
            run_command=partial(run_command_turn, self._store),
            ended=self._gateway_metrics.turn,
        )
        return WorkerPool(
            self._store,
            self._mailboxes,
            self._process.holder,
            runner,
            at_once=self._settings.gateway.max_turns,
            later=lambda seconds, do: _call_soon(self._loop, self._loop.call_later, seconds, do),
            on_stuck=self._stuck.tell,
            lease_seconds=self._lease_seconds,
        )

    @cached_property
    def _commands(self) -> GatewayCommands:
        return GatewayCommands(
            self._store,
            self._mailboxes,
            self._pool,
            self._agent_for,
            evict=self._cache.evict,
            holder=lambda: Holder(self._process.id, "a command"),
            model=self._chosen.description,
            on_dropped=lambda items: self._publish(items, Progress("ended", outcome="dropped")),
            restart=lambda: _call_soon(self._loop, self.gateway.end, "restart"),
            may_restart=self._is_owner,
        )

    def _is_owner(self, source: SessionSource) -> bool:
        """Tell whether a sender is on an allow-list by id, or is the user of this process."""
        adapter = self._adapters.get(source.platform.value)
        owner_id = None if adapter is None else adapter.owner_id
        is_owner = owner_id is not None and source.user_id == owner_id
        return is_owner or _is_listed(self._access, source)

    # ── incoming messages ─────────────────────────────────────────────────────────────────────

    @cached_property
    def _intake(self) -> Intake:
        store = self._deps.store
        return Intake(
            self._store,
            self._mailboxes,
            Authorisation(Senders(store, self._store.config.namespace), self._access, store.clock),
            Spool(spool_directory(self._settings.home)),
            self._pool,
            CommandExecutor(
                CommandJournal(self._deps),
                self._outbox,
                lambda: self._process.id,
                self._commands,
                sent=self._sent,
            ),
            say=self._say,
            is_erased=ErasureFilter(store),
            health=self._gateway_metrics.health,
        )

    @cached_property
    def _handoffs(self) -> Handoffs:
        adapters, access = self._adapters, self._access
        return Handoffs(
            self._store,
            self._outbox,
            self._is_connected,
            chat_type_of=lambda platform, chat_id: adapters[platform].chat_type_of(chat_id),
            people=lambda platform: access[platform].allowed_users,
        )

    def _is_connected(self, platform: str) -> bool:
        adapter = self._adapters.get(platform)
        return adapter is not None and adapter.is_connected

    @cached_property
    def _access(self) -> dict[str, AccessPolicy]:
        by_section = {
            name: AccessPolicy(
                frozenset(platform.allowed_users),
                frozenset(platform.allowed_chats),
                platform.pairing,
                platform.messages_per_minute,
                frozenset(platform.allowed_roles),
            )
            for name, platform in self._settings.platforms.items()
        }
        return {
            adapter.name: by_section.get(section, AccessPolicy())
            for section, adapter in self._sections()
        }

    def _sections(self) -> Iterator[tuple[str, Adapter]]:
        for name, adapter in self._adapters.items():
            yield getattr(adapter, "section", name), adapter

    # ── before and after a turn ───────────────────────────────────────────────────────────────

    def _prepare(self, agent: Agent, session_id: str, used: int) -> str:
        """Return the session for a turn: compact it first if it has become too long."""
        length = self._chosen.context_length
        if length is None:
            return session_id
        # Some endpoints report no usage.
        used = used or estimated_tokens(agent.db.get_messages_as_conversation(session_id))
        if not is_nearly_full(used, length):
            return session_id
        try:
            return compact(
                agent.db,
                session_id,
                agent.client,
                new_session_id=self._store.engine.new_session_id(self._store.engine.store.clock()),
                model=agent.model,
                pricing=agent.pricing,
                fence=agent.fence,
            )
        except (ModelError, InvalidInput) as error:
            # Try the turn anyway: the model reports if the session is too long.
            logger.warning("could not compact session %s: %s", session_id, error)
            return session_id

    def _give_title(self, session_id: str) -> None:
        agent, chosen = self._agent, self._chosen
        client = None if chosen.is_local else agent.client
        title_session(agent.db, session_id, client, agent.model, agent.pricing)


def _call_soon(loop: asyncio.AbstractEventLoop, do: Callable[..., object], *values: object) -> None:
    """Call a function on the event loop, from any thread; no-op if the loop is closed."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(do, *values)


def _is_listed(access: Mapping[str, AccessPolicy], source: SessionSource) -> bool:
    found = access.get(source.platform.value)
    return found is not None and bool(
        {source.user_id, source.user_id_alt} & (found.allowed_users - {"*"})
    )

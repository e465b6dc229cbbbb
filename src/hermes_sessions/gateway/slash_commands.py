"""Slash commands on messengers: the same table as in the terminal, for whoever may.

Everybody sees and changes what is theirs: reads have the scope of the lane. What changes the
transcript takes the lease for that moment, so that no turn runs meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from hermes_sessions.agent.slash_commands import TypedCommand, commands_for, parse_command
from hermes_sessions.agent.compaction import compact
from hermes_sessions.agent.conversation import Conversation, Origin
from hermes_sessions.agent.turn import Agent
from hermes_sessions.errors import ConversationHeld, InvalidInput, NotFound, TitleTaken
from hermes_sessions.gateway.command_executor import LaneStop, MarkCommandDone
from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.intake import payload_of
from hermes_sessions.gateway.turn_runner import AgentFor, scope_of
from hermes_sessions.gateway.worker_pool import WorkerPool
from hermes_sessions.lifecycle.mailboxes import Mailboxes
from hermes_sessions.lifecycle.session_entry import SessionEntry
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.lifecycle.turn_input import sender_of
from hermes_sessions.model.scope import Scope
from hermes_sessions.model.source import SessionSource
from hermes_sessions.storage.repositories.leases import Holder, Lease
from hermes_sessions.storage.repositories.turns import Turns

if TYPE_CHECKING:
    from hermes_sessions.storage.records import SessionListing

_LISTED: Final = 10
_FOUND: Final = 5
_SHOWN: Final = 60
#: Longer numbers mean nothing that there is.
_DIGITS: Final = 9
#: What is done here is done in a moment.
_LEASE_SECONDS: Final = 60.0
#: Whoever holds a conversation may be about to let go. A worker of this gateway that has answered
#: is, however busy the machine.
_PATIENCE: Final = 2.0
_OWN_PATIENCE: Final = 30.0
_LOOK_EVERY: Final = 0.02
_AT_WORK: Final = "I am at work; that has to wait until I have answered, or /stop me first."
#: Work on a lane whose turn runs: they end it, or only look.
_ALSO_WHILE_BUSY: Final = frozenset({"new"})


@dataclass(frozen=True, slots=True)
class GatewayCommands:
    """Carries out what people type with a slash. Thread-safe."""

    store: SessionStore
    mailboxes: Mailboxes
    pool: WorkerPool
    agent_for: AgentFor
    evict: Callable[[str], object]
    holder: Callable[[], Holder]
    #: What answers, in words.
    model: str
    #: Told of messages that were dropped, for those who watch them.
    dropped: Callable[[tuple[int, ...]], None]
    #: Ends this gateway and starts it again; None where it cannot.
    restart: Callable[[], None] | None = None
    #: Whether somebody may do that.
    may_restart: Callable[[SessionSource], bool] = lambda _source: False

    def __call__(
        self,
        typed: TypedCommand,
        inbound: Inbound,
        key: str,
        happened: MarkCommandDone = lambda _tx: None,
    ) -> str:
        """Do a command and return what the sender is told. What ``/new`` and ``/stop`` change is
        one transaction, in which *happened* is called.

        Raises:
            HermesSessionsError: it cannot be done; the message says why.
        """
        name = typed.command.name
        visit = _CommandContext(self, inbound, key, happened)
        if not typed.command.while_busy and name not in _ALSO_WHILE_BUSY and visit.is_busy:
            return _AT_WORK
        reply: str = getattr(visit, f"do_{name}")(typed.argument)
        return reply


def in_turn(
    store: SessionStore, agent: Agent, session_id: str, text: str, interrupt: threading.Event
) -> str:
    """Carry out a command that waited for its turn, in a session that *agent* holds; return what is
    said. It is ``/compress``.

    Raises:
        HermesSessionsError: it cannot be done; the message says why.
    """
    typed = parse_command(text, "gateway")
    new_id = compact(
        agent.db,
        session_id,
        agent.client,
        new_session_id=store.engine.new_session_id(store.engine.store.clock()),
        model=agent.model,
        focus=(typed.argument or None) if isinstance(typed, TypedCommand) else None,
        pricing=agent.pricing,
        interrupt=interrupt,
        fence=agent.fence,
    )
    return f"Going on with a summary, in {new_id}."


class _CommandContext:
    """One command by one person in one lane."""

    def __init__(
        self, desk: GatewayCommands, inbound: Inbound, key: str, happened: MarkCommandDone
    ) -> None:
        self._desk = desk
        self._store = desk.store
        self._db = desk.store.db
        self._inbound = inbound
        self._source = inbound.source
        self._key = key
        self._happened = happened

    # ── where we are ──────────────────────────────────────────────────────────────────────────

    @property
    def _lane_id(self) -> int:
        engine = self._store.engine
        with engine.store.provider.read() as tx:
            lane = engine.lanes.find(tx, engine.namespace, self._key)
        if lane is None:
            raise NotFound("There is no conversation here yet. Just write.")
        return lane.id

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs in the lane, in whatever process."""
        turns = Turns(self._store.engine.store)
        return turns.running_on(lane_id=self._lane_id) is not None

    @property
    def _entry(self) -> SessionEntry:
        entry = self._store.peek(self._source)
        if entry is None:
            raise InvalidInput("There is no conversation here yet. Just write.")
        return entry

    def _scope(self) -> Scope:
        entry = self._store.peek(self._source)
        if entry is None:
            # Nothing was said here: what may be seen is what a first message would give.
            owner = self._store.engine.owner_of(
                self._store.engine.key_of(self._source), self._source
            )
            platform = self._source.platform.value
            return Scope(user_id=owner, source=platform) if owner else Scope(conversation_ids=())
        return scope_of(entry, self._source, self._store)

    @contextmanager
    def _holding(self, session_id: str) -> Iterator[int]:
        """Hold the session, so that nothing else writes to it."""
        lease = self._taken_lease(session_id)
        try:
            yield lease.token
        finally:
            self._db.release_lease(lease)

    def _taken_lease(self, session_id: str) -> Lease:
        began = time.monotonic()
        while True:
            try:
                return self._db.take_lease(session_id, self._desk.holder(), ttl=_LEASE_SECONDS)
            except ConversationHeld:
                patience = _OWN_PATIENCE if self._is_let_go_soon(session_id) else _PATIENCE
                if time.monotonic() - began > patience or self.is_busy:
                    raise InvalidInput(_AT_WORK) from None
                time.sleep(_LOOK_EVERY)

    def _is_let_go_soon(self, session_id: str) -> bool:
        """Whether somebody in this gateway holds a session, or did just now, and runs no turn on
        it: a worker that has answered.
        """
        held = self._db.lease_of(session_id)
        if held is None:
            return True
        turns = Turns(self._store.engine.store)
        is_ours = held.process_id == self._desk.holder().process_id
        return is_ours and turns.running_on(chain_id=held.chain_id) is None

    # ── looking ───────────────────────────────────────────────────────────────────────────────

    def do_help(self, _argument: str) -> str:
        return "\n".join(
            f"{command.usage}: {command.summary}" for command in commands_for("gateway")
        )

    def do_status(self, _argument: str) -> str:
        lines = [f"Model: {self._desk.model}"]
        entry = self._store.peek(self._source)
        if entry is None:
            return "\n".join([*lines, "Session: begins with your first message."])
        session: Mapping[str, Any] = self._db.get_session(entry.session_id) or {}
        lines += [
            f"Session: {entry.session_id}",
            f"Title: {session.get('title') or 'none'}",
            f"Begun: {entry.created_at:%Y-%m-%d %H:%M}",
            f"Last activity: {entry.updated_at:%Y-%m-%d %H:%M}",
            f"Messages: {session.get('message_count') or 0}",
            f"At work: {'yes' if self.is_busy else 'no'}",
        ]
        waiting = self._desk.mailboxes.depth(self._lane_id)
        return "\n".join([*lines, f"Waiting: {waiting}"] if waiting else lines)

    def do_usage(self, _argument: str) -> str:
        session: Mapping[str, Any] = self._db.get_session(self._entry.session_id) or {}
        cost = session.get("actual_cost_usd") or session.get("estimated_cost_usd")
        known = "unknown" if cost is None else f"${cost:.4f}"
        return "\n".join(
            (
                f"Input tokens: {session.get('input_tokens') or 0}",
                f"Output tokens: {session.get('output_tokens') or 0}",
                f"Cached tokens: {session.get('cache_read_tokens') or 0}",
                f"Cost: {known}",
            )
        )

    def do_model(self, name: str) -> str:
        if name:
            raise InvalidInput("The model is configured by the owner of this bot: model.default.")
        return self._desk.model

    def do_sessions(self, _argument: str) -> str:
        rows = self._listed()
        if not rows:
            return "No sessions found."
        here = self._store.peek(self._source)
        current = here.session_id if here else None
        lines = [
            f"{number}{'*' if row['id'] == current else ' '} {_name(row)} ({row['id']})"
            for number, row in enumerate(rows, 1)
        ]
        return "\n".join([*lines, "/resume NUMBER goes on with one."])

    def _listed(self) -> list[SessionListing]:
        return self._db.list_sessions_rich(limit=_LISTED, compact_rows=True, scope=self._scope())

    def do_search(self, query: str) -> str:
        if not query:
            raise InvalidInput("Say what to search for: /search docker build")
        answer = self._db.search(query, limit=_FOUND, scope=self._scope())
        if not answer.hits:
            return " ".join(["Nothing was found.", *answer.account.notes])
        lines = []
        for hit in answer.hits:
            lines += [
                f"{hit.title or hit.session_id} ({hit.session_id})",
                f"  {hit.role}: {hit.snippet}",
            ]
        return "\n".join(lines)

    # ── the lane ──────────────────────────────────────────────────────────────────────────────

    def do_new(self, title: str) -> str:
        before = self._store.peek(self._source)
        stop = self._stop("reset")
        entry = self._store.reset_session(self._key, first=stop)
        stop.tell()
        if entry is None or before is None:
            entry = self._store.get_or_create_session(self._source)
        self._desk.evict(self._key)
        lines = ["A new conversation."]
        if title:
            try:
                self._give_title(entry.session_id, title)
                lines[0] = f"A new conversation: {self._db.get_session_title(entry.session_id)}."
            except InvalidInput as error:
                lines.append(f"It has no title: {error}")
        if before is not None:
            lines.append(f"To go on with the one before: /resume {before.session_id}")
        return "\n".join(lines)

    def do_stop(self, _argument: str) -> str:
        stop = self._stop("stop")
        self._store.suspend_session(self._key, first=stop)
        stop.tell()
        if not stop.has_stopped:
            return "Nothing is running."
        dropped = len(stop.dropped)
        words = ["Stopped."]
        if dropped:
            words.append(f"{dropped} queued message{'s were' if dropped != 1 else ' was'} dropped.")
        if (entry := self._store.peek(self._source)) is not None:
            words.append(
                "The next message starts a new conversation; to go on with this one: "
                f"/resume {entry.session_id}"
            )
        return " ".join(words)

    def _stop(self, cause: Literal["stop", "reset"]) -> LaneStop:
        desk = self._desk
        return LaneStop(desk.mailboxes, desk.pool, cause, self._happened, desk.dropped)

    def do_title(self, text: str) -> str:
        entry = self._store.peek(self._source)
        if not text:
            title = self._db.get_session_title(entry.session_id) if entry else None
            return f"Title: {title or 'none'}"
        if entry is None:
            entry = self._store.get_or_create_session(self._source)
        self._give_title(entry.session_id, text)
        return f"Title: {self._db.get_session_title(entry.session_id)}"

    def _give_title(self, session_id: str, title: str) -> None:
        try:
            self._db.set_session_title(session_id, title)
        except TitleTaken:
            # By whom is nobody's business here.
            raise InvalidInput("That title is taken. Choose another one.") from None

    def do_resume(self, name: str) -> str:
        if not name:
            return self.do_sessions("")
        entry = self._store.get_or_create_session(self._source)
        scope = self._scope()
        target = self._named(name.strip("<>[]\"'“”"), scope)
        if target is None:
            raise NotFound(f"There is no session {_cut(name)!r}. /sessions lists them.")
        # A turn that began in this moment would answer to a conversation that was left.
        with self._holding(entry.session_id):
            switched = self._store.switch_session(self._key, target, scope=scope)
        if switched is None:
            raise NotFound(f"There is no session {_cut(name)!r}. /sessions lists them.")
        self._desk.evict(self._key)
        title = self._db.get_session_title(switched.session_id)
        return f"Going on with {title or switched.session_id}."

    def _named(self, name: str, scope: Scope) -> str | None:
        """Return the session that is meant, of those that may be seen; for anything else the same
        answer, whether it exists or not.
        """
        rows = self._listed()
        number = int(name) if name.isdecimal() and len(name) <= _DIGITS else 0
        if 1 <= number <= len(rows):
            return str(rows[number - 1]["id"])
        meant = (self._db.resolve_session_id(name), self._db.resolve_session_by_title(name))
        for session_id in meant:
            if session_id and self._db.get_session(session_id, scope=scope) is not None:
                return session_id
        # Of several people's with the same beginning, only theirs.
        ids = [i for i in self._db.find_session_ids(name) if self._db.get_session(i, scope=scope)]
        return ids[0] if len(ids) == 1 else None

    # ── the transcript ────────────────────────────────────────────────────────────────────────

    def do_retry(self, _argument: str) -> str:
        entry = self._entry
        asked = self._db.list_recent_user_messages(entry.session_id, 1)
        if not asked:
            raise InvalidInput("There is nothing to ask again.")
        with self._holding(entry.session_id) as fence:
            done = self._db.rewind_to_message(entry.session_id, asked[0]["id"], fence=fence)
        put = self._desk.mailboxes.put(
            self._lane_id,
            "queue",
            sender_of(self._source),
            done["target_text"],
            payload_of(self._inbound),
        )
        self._desk.evict(self._key)
        if put.item_id is None:
            raise InvalidInput("Too many messages wait here; drop them with /stop.")
        self._desk.pool.wake(self._lane_id)
        return "I ask again."

    def do_undo(self, number: str) -> str:
        if number and not number.isdecimal():
            raise InvalidInput("Say how many exchanges to take back: /undo 2")
        # With more digits than any count has: as many as there are.
        wanted = 10**_DIGITS if len(number) > _DIGITS else int(number or 1)
        entry = self._entry
        with self._holding(entry.session_id) as fence:
            done = self._store.rewind_session(entry.session_id, wanted, fence=fence)
        if done is None:
            raise InvalidInput("There is nothing to take back.")
        self._desk.evict(self._key)
        count = done["turns_undone"]
        plural = "" if count == 1 else "s"
        return f"Took back {count} exchange{plural}, from: {_cut(done['target_text'] or '')}"

    def do_branch(self, title: str) -> str:
        entry = self._entry
        with self._agent(entry) as agent, self._holding(entry.session_id):
            conversation = Conversation(
                agent, Origin(self._source.platform.value), entry.session_id
            )
            branch_id = conversation.branch(title or None)
            self._store.switch_session(self._key, branch_id, scope=self._scope())
        self._desk.evict(self._key)
        return f"Going on in a copy: {branch_id} ({self._db.get_session_title(branch_id)})."

    @contextmanager
    def _agent(self, entry: SessionEntry) -> Iterator[Agent]:
        with self._desk.agent_for(entry) as agent:
            yield agent

    # ── the gateway ───────────────────────────────────────────────────────────────────────────

    def do_restart(self, _argument: str) -> str:
        if self._desk.restart is None or not self._desk.may_restart(self._source):
            raise InvalidInput("Only the owner of this bot may restart it.")
        self._desk.restart()
        return "Restarting. What is running may finish; what waits is answered afterwards."


def _name(row: Mapping[str, Any]) -> str:
    return _cut(row.get("title") or row.get("preview") or "untitled")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"

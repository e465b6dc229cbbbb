"""The handlers of slash commands on messengers.

Users see and change their own sessions only: every read has the scope of the lane. A command that
changes messages holds the lease of the session meanwhile, so that no turn runs beside it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from hermes_sessions.agent.chat import Chat, Origin
from hermes_sessions.agent.compaction import compact
from hermes_sessions.agent.slash_commands import (
    CommandHandlers,
    TypedCommand,
    commands_for,
    parse_command,
)
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
#: No count and no position in a list has more digits.
_DIGITS: Final = 9
#: How long to wait for a lease, in seconds. A worker of this gateway that has answered releases its
#: lease for certain, if later on a busy machine; for other holders a short wait has to do.
_LEASE_WAIT: Final = 2.0
_OWN_LEASE_WAIT: Final = 30.0
_LEASE_POLL: Final = 0.02
_BUSY: Final = "I am still answering. Wait until I have finished, or /stop me first."
_NO_CONVERSATION: Final = "There is no conversation here yet. Send a message to start one."

#: Handlers of commands that run at once: they get the argument and return the reply.
#: Commands that deliver their argument need none: `intake.Intake` stores it as a message.
handles: CommandHandlers[Callable[[_CommandContext, str], str]] = CommandHandlers(
    command
    for command in commands_for("gateway")
    if command.delivers is None and "gateway" not in command.as_turn
)
#: Handlers of commands that run as turns, in a session whose lease the agent holds.
handles_turn: CommandHandlers[Callable[[_CommandTurn, str], str]] = CommandHandlers(
    command for command in commands_for("gateway") if "gateway" in command.as_turn
)


@dataclass(frozen=True, slots=True)
class GatewayCommands:
    """Runs the slash commands of messengers. Thread-safe."""

    store: SessionStore
    mailboxes: Mailboxes
    pool: WorkerPool
    agent_for: AgentFor
    evict: Callable[[str], object]
    holder: Callable[[], Holder]
    #: The description of the model that answers.
    model: str
    #: Called with the mailbox items that a command dropped, for the clients that watch them.
    on_dropped: Callable[[tuple[int, ...]], None]
    #: Restarts this gateway; None where that is impossible.
    restart: Callable[[], None] | None = None
    #: Whether this sender may restart it.
    may_restart: Callable[[SessionSource], bool] = lambda _source: False

    def __call__(
        self,
        typed: TypedCommand,
        inbound: Inbound,
        key: str,
        happened: MarkCommandDone = lambda _tx: None,
    ) -> str:
        """Run a command and return the reply. The change that ``/new`` or ``/stop`` makes is one
        transaction, in which *happened* is called.

        Raises:
            HermesSessionsError: the command failed; the message says why.
        """
        context = _CommandContext(self, inbound, key, happened)
        if "gateway" not in typed.command.while_busy and context.is_busy:
            return _BUSY
        return handles[typed.command](context, typed.argument)


class _CommandTurn(NamedTuple):
    """A command that runs as a turn: the session that its agent holds."""

    store: SessionStore
    agent: Agent
    session_id: str
    interrupt: threading.Event


def run_command_turn(
    store: SessionStore, agent: Agent, session_id: str, text: str, interrupt: threading.Event
) -> str:
    """Run the command *text* as a turn, in a session that *agent* holds; return the reply.

    Raises:
        HermesSessionsError: the command failed; the message says why.
    """
    typed = parse_command(text, "gateway")
    if not isinstance(typed, TypedCommand) or "gateway" not in typed.command.as_turn:
        # A gateway of another version put it into the mailbox.
        raise InvalidInput(f"This gateway does not know the command {_cut(text)!r}.")
    return handles_turn[typed.command](
        _CommandTurn(store, agent, session_id, interrupt), typed.argument
    )


@handles_turn("compress")
def _compress(turn: _CommandTurn, focus: str) -> str:
    agent, deps = turn.agent, turn.store.engine
    new_id = compact(
        agent.db,
        turn.session_id,
        agent.client,
        new_session_id=deps.new_session_id(deps.store.clock()),
        model=agent.model,
        focus=focus or None,
        pricing=agent.pricing,
        interrupt=turn.interrupt,
        fence=agent.fence,
    )
    return f"Continuing with a summary, in {new_id}."


class _CommandContext:
    """One command of one sender in one lane."""

    def __init__(
        self, commands: GatewayCommands, inbound: Inbound, key: str, happened: MarkCommandDone
    ) -> None:
        self._commands = commands
        self._store = commands.store
        self._db = commands.store.db
        self._inbound = inbound
        self._source = inbound.source
        self._key = key
        self._happened = happened

    # ── the lane and its session ──────────────────────────────────────────────────────────────

    @property
    def _lane_id(self) -> int:
        deps = self._store.engine
        with deps.store.provider.read() as tx:
            lane = deps.lanes.find(tx, deps.namespace, self._key)
        if lane is None:
            raise NotFound(_NO_CONVERSATION)
        return lane.id

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs in the lane, in any process."""
        turns = Turns(self._store.engine.store)
        return turns.running_on(lane_id=self._lane_id) is not None

    @property
    def _entry(self) -> SessionEntry:
        entry = self._store.peek(self._source)
        if entry is None:
            raise InvalidInput(_NO_CONVERSATION)
        return entry

    def _scope(self) -> Scope:
        entry = self._store.peek(self._source)
        if entry is None:
            # A lane without messages sees what its first message would see.
            owner = self._store.engine.owner_of(
                self._store.engine.key_of(self._source), self._source
            )
            platform = self._source.platform.value
            return Scope(user_id=owner, source=platform) if owner else Scope(conversation_ids=())
        return scope_of(entry, self._source, self._store)

    @contextmanager
    def _with_lease(self, session_id: str) -> Iterator[int]:
        """Hold the lease of the session, so that nothing else writes to it; yield its fence."""
        lease = self._take_lease(session_id)
        try:
            yield lease.token
        finally:
            self._db.release_lease(lease)

    def _take_lease(self, session_id: str) -> Lease:
        began = time.monotonic()
        while True:
            try:
                return self._db.take_lease(session_id, self._commands.holder())
            except ConversationHeld:
                wait = _OWN_LEASE_WAIT if self._is_released_soon(session_id) else _LEASE_WAIT
                if time.monotonic() - began > wait or self.is_busy:
                    raise InvalidInput(_BUSY) from None
                time.sleep(_LEASE_POLL)

    def _is_released_soon(self, session_id: str) -> bool:
        """Whether the lease is free again, or its holder is a worker of this gateway that has
        answered.
        """
        held = self._db.lease_of(session_id)
        if held is None:
            return True
        turns = Turns(self._store.engine.store)
        is_ours = held.process_id == self._commands.holder().process_id
        return is_ours and turns.running_on(chain_id=held.chain_id) is None

    # ── commands that change nothing ──────────────────────────────────────────────────────────

    @handles("help")
    def _help(self, _argument: str) -> str:
        return "\n".join(
            f"{command.usage}: {command.summary}" for command in commands_for("gateway")
        )

    @handles("status")
    def _status(self, _argument: str) -> str:
        lines = [f"Model: {self._commands.model}"]
        entry = self._store.peek(self._source)
        if entry is None:
            return "\n".join([*lines, "Session: starts with your first message."])
        session: Mapping[str, Any] = self._db.get_session(entry.session_id) or {}
        lines += [
            f"Session: {entry.session_id}",
            f"Title: {session.get('title') or 'none'}",
            f"Started: {entry.created_at:%Y-%m-%d %H:%M}",
            f"Last activity: {entry.updated_at:%Y-%m-%d %H:%M}",
            f"Messages: {session.get('message_count') or 0}",
            f"Answering: {'yes' if self.is_busy else 'no'}",
        ]
        waiting = self._commands.mailboxes.depth(self._lane_id)
        return "\n".join([*lines, f"Queued messages: {waiting}"] if waiting else lines)

    @handles("usage")
    def _usage(self, _argument: str) -> str:
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

    @handles("model")
    def _model(self, name: str) -> str:
        if name:
            raise InvalidInput(
                "Only the owner of this bot can change the model, with the setting model.default."
            )
        return self._commands.model

    @handles("sessions")
    def _sessions(self, _argument: str) -> str:
        rows = self._listed()
        if not rows:
            return "No sessions found."
        here = self._store.peek(self._source)
        current = here.session_id if here else None
        lines = [
            f"{number}{'*' if row['id'] == current else ' '} {_name(row)} ({row['id']})"
            for number, row in enumerate(rows, 1)
        ]
        return "\n".join([*lines, "/resume NUMBER continues one."])

    def _listed(self) -> list[SessionListing]:
        return self._db.list_sessions_rich(limit=_LISTED, compact_rows=True, scope=self._scope())

    @handles("search")
    def _search(self, query: str) -> str:
        if not query:
            raise InvalidInput("Say what to search for: /search docker build")
        answer = self._db.search(query, limit=_FOUND, scope=self._scope())
        if not answer.hits:
            return " ".join(["No results.", *answer.report.notes])
        lines = []
        for hit in answer.hits:
            lines += [
                f"{hit.title or hit.session_id} ({hit.session_id})",
                f"  {hit.role}: {hit.snippet}",
            ]
        return "\n".join(lines)

    # ── commands that change the lane ─────────────────────────────────────────────────────────

    @handles("new")
    def _new(self, title: str) -> str:
        before = self._store.peek(self._source)
        stop = self._lane_stop("reset")
        entry = self._store.reset_session(self._key, first=stop)
        stop.tell()
        if entry is None or before is None:
            entry = self._store.get_or_create_session(self._source)
        self._commands.evict(self._key)
        lines = ["A new conversation."]
        if title:
            try:
                self._set_title(entry.session_id, title)
                lines[0] = f"A new conversation: {self._db.get_session_title(entry.session_id)}."
            except InvalidInput as error:
                lines.append(f"It has no title: {error}")
        if before is not None:
            lines.append(f"To continue the previous one: /resume {before.session_id}")
        return "\n".join(lines)

    @handles("stop")
    def _stop(self, _argument: str) -> str:
        stop = self._lane_stop("stop")
        self._store.suspend_session(self._key, first=stop)
        stop.tell()
        if not stop.has_stopped:
            return "Nothing is running."
        dropped = len(stop.dropped)
        words = ["Stopped."]
        if dropped:
            words.append(f"Dropped {dropped} queued message{'' if dropped == 1 else 's'}.")
        if (entry := self._store.peek(self._source)) is not None:
            words.append(
                "Your next message starts a new conversation. To continue this one: "
                f"/resume {entry.session_id}"
            )
        return " ".join(words)

    def _lane_stop(self, cause: Literal["stop", "reset"]) -> LaneStop:
        commands = self._commands
        return LaneStop(
            commands.mailboxes, commands.pool, cause, self._happened, commands.on_dropped
        )

    @handles("title")
    def _title(self, text: str) -> str:
        entry = self._store.peek(self._source)
        if not text:
            title = self._db.get_session_title(entry.session_id) if entry else None
            return f"Title: {title or 'none'}"
        if entry is None:
            entry = self._store.get_or_create_session(self._source)
        self._set_title(entry.session_id, text)
        return f"Title: {self._db.get_session_title(entry.session_id)}"

    def _set_title(self, session_id: str, title: str) -> None:
        try:
            self._db.set_session_title(session_id, title)
        except TitleTaken:
            # The session that has it may belong to another user: do not name it.
            raise InvalidInput("Another session has that title. Choose a different one.") from None

    @handles("resume")
    def _resume(self, name: str) -> str:
        if not name:
            return self._sessions("")
        entry = self._store.get_or_create_session(self._source)
        scope = self._scope()
        target = self._find_session(name.strip("<>[]\"'“”"), scope)
        if target is None:
            raise NotFound(f"There is no session {_cut(name)!r}. /sessions lists yours.")
        # A turn that started now would answer in the conversation that the sender leaves.
        with self._with_lease(entry.session_id):
            switched = self._store.switch_session(self._key, target, scope=scope)
        if switched is None:
            raise NotFound(f"There is no session {_cut(name)!r}. /sessions lists yours.")
        self._commands.evict(self._key)
        title = self._db.get_session_title(switched.session_id)
        return f"Continuing {title or switched.session_id}."

    def _find_session(self, name: str, scope: Scope) -> str | None:
        """Return the id of the session that *name* means, by number, id, title or start of an id.

        None if the sender may not see it, exactly as if it did not exist.
        """
        rows = self._listed()
        number = int(name) if name.isdecimal() and len(name) <= _DIGITS else 0
        if 1 <= number <= len(rows):
            return str(rows[number - 1]["id"])
        found = (self._db.resolve_session_id(name), self._db.resolve_session_by_title(name))
        for session_id in found:
            if session_id and self._db.get_session(session_id, scope=scope) is not None:
                return session_id
        # Other users' sessions may begin alike: only those in scope count.
        ids = [i for i in self._db.find_session_ids(name) if self._db.get_session(i, scope=scope)]
        return ids[0] if len(ids) == 1 else None

    # ── commands that change messages ─────────────────────────────────────────────────────────

    @handles("retry")
    def _retry(self, _argument: str) -> str:
        entry = self._entry
        asked = self._db.list_recent_user_messages(entry.session_id, 1)
        if not asked:
            raise InvalidInput("There is no question to ask again.")
        with self._with_lease(entry.session_id) as fence:
            done = self._db.rewind_to_message(entry.session_id, asked[0]["id"], fence=fence)
        stored = self._commands.mailboxes.put(
            self._lane_id,
            "queue",
            sender_of(self._source),
            done["target_text"],
            payload_of(self._inbound),
        )
        self._commands.evict(self._key)
        if stored.item_id is None:
            raise InvalidInput("Too many messages are queued here. Drop them with /stop.")
        self._commands.pool.wake(self._lane_id)
        return "Asking again."

    @handles("undo")
    def _undo(self, number: str) -> str:
        if number and not number.isdecimal():
            raise InvalidInput("Say how many exchanges to undo: /undo 2")
        # A number longer than any count undoes everything.
        wanted = 10**_DIGITS if len(number) > _DIGITS else int(number or 1)
        entry = self._entry
        with self._with_lease(entry.session_id) as fence:
            done = self._store.rewind_session(entry.session_id, wanted, fence=fence)
        if done is None:
            raise InvalidInput("There is nothing to undo.")
        self._commands.evict(self._key)
        count = done["turns_undone"]
        plural = "" if count == 1 else "s"
        return f"Undid {count} exchange{plural}, from: {_cut(done['target_text'] or '')}"

    @handles("branch")
    def _branch(self, title: str) -> str:
        entry = self._entry
        with self._agent(entry) as agent, self._with_lease(entry.session_id):
            chat = Chat(agent, Origin(self._source.platform.value), entry.session_id)
            branch_id = chat.branch(title or None)
            self._store.switch_session(self._key, branch_id, scope=self._scope())
        self._commands.evict(self._key)
        return f"Continuing in a copy: {branch_id} ({self._db.get_session_title(branch_id)})."

    @contextmanager
    def _agent(self, entry: SessionEntry) -> Iterator[Agent]:
        with self._commands.agent_for(entry) as agent:
            yield agent

    # ── commands that change the gateway ──────────────────────────────────────────────────────

    @handles("restart")
    def _restart(self, _argument: str) -> str:
        if self._commands.restart is None or not self._commands.may_restart(self._source):
            raise InvalidInput("Only the owner of this bot can restart it.")
        self._commands.restart()
        return "Restarting. Running answers may finish; queued messages are answered afterwards."


def _name(row: Mapping[str, Any]) -> str:
    return _cut(row.get("title") or row.get("preview") or "untitled")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


handles.require_all()
handles_turn.require_all()

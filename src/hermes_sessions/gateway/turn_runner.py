"""Runs one turn on a messenger: its instructions, its answer, and its end.

The end of the turn, the end of its input, and the reply in the outbox are one transaction.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final, Protocol

from hermes_sessions.agent.clients.port import ReasoningPiece, TextPiece
from hermes_sessions.agent.interrupts import Interrupt
from hermes_sessions.agent.tools.registry import ToolRegistry
from hermes_sessions.agent.turn import (
    Agent,
    Answered,
    Ended,
    ToolFinished,
    ToolStarted,
)
from hermes_sessions.errors import HermesSessionsError, StaleFence, StoreUnavailable
from hermes_sessions.gateway.active_turns import ActiveTurn
from hermes_sessions.gateway.delivery import reply_to
from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.platforms.port import Progress
from hermes_sessions.gateway.stuck_lanes import StuckLanes
from hermes_sessions.gateway.turn_transcript import Conclusion, TurnTranscript, note_topic
from hermes_sessions.lifecycle.mailboxes import ExtraWrite, Mailboxes, StartedTurn, TurnEnding
from hermes_sessions.lifecycle.session_context import (
    build_session_context,
    build_session_context_prompt,
)
from hermes_sessions.lifecycle.session_entry import SessionEntry
from hermes_sessions.lifecycle.session_finalization import FinalizationClaim
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.model.lane import LaneNotice
from hermes_sessions.model.scope import Scope
from hermes_sessions.model.source import SessionSource
from hermes_sessions.storage.logs import Logger, where
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.lane_transitions import history
from hermes_sessions.storage.repositories.leases import Holder
from hermes_sessions.storage.repositories.outbox import Drafts, NewReply, Outbox

# ── the last turn before a reset ──────────────────────────────────────────────────────────────
# Before a conversation is reset automatically, the agent writes down what matters. Its answer is
# stored at the end of the session, where search finds it, and is not sent. See `ExpiryWatcher`.

#: Seconds beyond the turn itself.
_LEASE_GRACE: Final = 30.0


INSTRUCTION: Final = (
    "This conversation ends now, because there were no messages for a while. Your answer is not "
    "sent. Write down in a few sentences what should be remembered: decisions, facts about the "
    "users, promises, open questions. If there is nothing, say: Nothing to keep."
)


_QUESTION: Final = "[The conversation is about to be closed. What should be remembered?]"


class FinalTurn:
    """Runs the last turn of an agent; a `SaveTurn`."""

    def __init__(self, agent: Agent) -> None:
        # Without tools: no user would see their effects.
        self._agent = replace(agent, tools=ToolRegistry(), instructions=INSTRUCTION, most_steps=1)

    def __call__(self, claim: FinalizationClaim, seconds: float) -> None:
        """Let the agent write down what matters, within this many seconds.

        Raises:
            ConversationHeld: another process runs a turn.
            ModelError: the model failed; the partial answer is stored.
            StoreError: the answer was not stored.
        """
        db = self._agent.db
        holder = Holder(None, "the last turn before a reset")
        lease = db.take_lease(claim.session_id, holder, ttl=seconds + _LEASE_GRACE)
        interrupt = Interrupt()
        clock = threading.Timer(seconds, interrupt.set)
        clock.daemon = True
        clock.start()
        try:
            agent = replace(self._agent, fence=lease.token)
            # The same question after a crash.
            mark = f"saving:{claim.session_id}"
            events = agent.run_turn(
                claim.session_id, _QUESTION, external_id=mark, interrupt=interrupt
            )
            for event in events:
                if isinstance(event, Ended) and event.error is not None:
                    raise event.error
        finally:
            clock.cancel()
            db.release_lease(lease)


logger = Logger(__name__)

_RESUMED: Final = (
    "The last turn of this conversation was interrupted by a restart. Tools that have a result "
    "above have run: do not run them again. Continue from there and answer."
)
_NEW_CONVERSATION_TEXTS: Final = {
    "auto_reset": (
        "This is a new conversation. The previous one ended because {reason}. You do not see it; "
        "session_search can find it."
    ),
    "lost": "This is a new conversation. The previous one was deleted and cannot be found.",
}
_REASONS: Final = {
    "idle": "there were no messages for a while",
    "daily": "of the daily reset",
    "suspended": "it was stopped",
}
_IS_STORED: Final = "Your message is stored; /retry asks again."
_EMPTY_ANSWER: Final = "The model returned an empty answer. /retry asks again."
#: The most session changes of a shared lane that are searched for its conversations.
_MAX_CHANGES: Final = 200
#: Seconds between attempts to store the end of a turn, and for how long it is retried.
_STORE_AGAIN: Final = 1.0
_STORE_AGAIN_FOR: Final = 120.0


class DraftView(Protocol):
    """Shows the answer of a turn while it is written; called from the turn's thread."""

    def text(self, piece: str) -> None:
        """Add text."""

    def tool(self) -> None:
        """Start a new text."""

    def finish(self) -> str | None:
        """Stop; return the message that the reply replaces."""

    def leave(self, *, is_over: bool) -> None:
        """Show the text as finished: no reply will replace it unless the turn is retried."""


#: Provides the agent of a lane for one turn.
AgentFor = Callable[[SessionEntry], AbstractContextManager[Agent]]
#: Runs a command as a turn; see `slash_commands.run_command_turn`.
RunCommand = Callable[[Agent, str, str, threading.Event], str]


@dataclass(frozen=True, slots=True)
class TurnRunner:
    """Runs turns, each in the thread of its lane's worker."""

    store: SessionStore
    mailboxes: Mailboxes
    outbox: Outbox
    stuck: StuckLanes
    agent_for: AgentFor
    publish: Callable[[tuple[int, ...], Progress], None]
    show: Callable[[Target, StartedTurn], DraftView]
    #: Called when a reply is in the outbox.
    sent: Callable[[], None]
    #: Called before a turn with the size of the last prompt; returns the session to use, which is
    #: a new one if it had to be compacted.
    prepare: Callable[[Agent, str, int], str]
    #: Called after a turn with an answer.
    on_answered: Callable[[str], object]
    #: Runs inputs that are commands.
    run_command: RunCommand
    #: Waits this many seconds before the end of a turn is stored again.
    wait: Callable[[float], None] = time.sleep
    #: Called when a turn ended, with its platform, outcome and duration in seconds.
    ended: Callable[[str, str, float], None] = lambda _platform, _outcome, _seconds: None

    def __call__(self, turn: ActiveTurn, entry: SessionEntry) -> bool:
        """Run a turn and store its end; return whether to try its input again."""
        target = target_of_input(turn.taken, turn.source)
        shown = self.show(target, turn.taken)
        try:
            try:
                conclusion = self._run(turn, entry, shown)
            finally:
                turn.is_over = True
                draft_id = shown.finish()
            is_replied = self._conclude(turn, target, conclusion, draft_id)
        except BaseException:
            shown.leave(is_over=False)
            raise
        if not is_replied:
            shown.leave(is_over=not conclusion.again and conclusion.outcome != "abandoned")
        return conclusion.again

    def _run(self, turn: ActiveTurn, entry: SessionEntry, shown: DraftView) -> Conclusion:
        taken = turn.taken
        try:
            with self.agent_for(entry) as kept:
                agent = replace(
                    kept,
                    scope=scope_of(entry, turn.source, self.store),
                    fence=taken.turn.token,
                    instructions=self._instructions(turn, entry),
                )
                if taken.input.kind == "command":
                    return self._command(agent, entry.session_id, turn)
                session_id = self.prepare(agent, entry.session_id, entry.last_prompt_tokens)
                note_topic(self.store.db, turn.source, entry.session_key, session_id)
                said = TurnTranscript(self.store, turn, session_id)
                if (stored := said.stored_answer()) is not None:
                    return stored
                return self._run_agent(turn, agent, said, shown)
        except StaleFence:
            return Conclusion("abandoned", detail="lease lost")
        except StoreUnavailable as error:
            # Not counted as a failure of this conversation.
            logger.warning("turn %s waits for the database: %s", taken.turn.id, error)
            return Conclusion("interrupted", detail="store unavailable", again=True)
        except Exception as error:  # noqa: BLE001 - every turn needs an end
            logger.warning("turn %s failed unexpectedly: %s", taken.turn.id, where(error))
            return Conclusion("abandoned", detail=f"{type(error).__name__}: {error}")

    def _instructions(self, turn: ActiveTurn, entry: SessionEntry) -> str:
        config = self.store.config
        context = build_session_context(turn.source, config, entry)
        instructions = build_session_context_prompt(context, redact_pii=config.redact_pii)
        notice = turn.taken.lane.notice
        if notice is not None and notice.kind in _NEW_CONVERSATION_TEXTS:
            instructions += "\n" + _NEW_CONVERSATION_TEXTS[notice.kind].format(
                reason=reason_of(notice)
            )
        if turn.taken.is_resumed:
            instructions += f"\n{_RESUMED}"
        return instructions

    def _command(self, agent: Agent, session_id: str, turn: ActiveTurn) -> Conclusion:
        text = turn.taken.input.text
        try:
            said = self.run_command(agent, session_id, text, turn.interrupt)
        except (StaleFence, StoreUnavailable):
            raise
        except HermesSessionsError as error:
            if turn.interrupt.is_set():
                return conclusion_of(Ended("interrupted"), "", turn.cause)
            return Conclusion("failed", str(error), detail=str(error))
        return Conclusion("completed", said)

    def _run_agent(
        self, turn: ActiveTurn, agent: Agent, transcript: TurnTranscript, shown: DraftView
    ) -> Conclusion:
        said, ended = "", Ended("interrupted")
        for event in transcript.events(agent, lambda: self._store_steered(turn, transcript)):
            turn.note_activity()
            if isinstance(event, TextPiece):
                shown.text(event.text)
                self.publish(turn.item_ids, Progress("text", event.text))
            elif isinstance(event, ReasoningPiece):
                self.publish(turn.item_ids, Progress("reasoning", event.text))
            elif isinstance(event, ToolStarted):
                shown.tool()
                self.publish(turn.item_ids, Progress("tool_started", event.call.name))
            elif isinstance(event, ToolFinished):
                self.publish(turn.item_ids, Progress("tool_finished", event.call.name))
            elif isinstance(event, Answered):
                said = event.reply.text or said
                self._note_prompt(turn.taken, event)
            elif isinstance(event, Ended):
                ended = event
        if ended.how == "answered":
            self.on_answered(transcript.session_id)
        return conclusion_of(ended, said, turn.cause)

    def _store_steered(self, turn: ActiveTurn, transcript: TurnTranscript) -> None:
        """Store messages that arrived during the turn, so that the next step includes them."""
        while turn.steered:
            item_id = turn.steered.pop(0)
            if self.mailboxes.steer(turn.taken.turn, item_id):
                turn.included_items.append(item_id)
                transcript.store_steered()

    def _note_prompt(self, taken: StartedTurn, answered: Answered) -> None:
        used = answered.reply.usage.input_tokens
        if used:
            self.store.update_session(
                taken.lane.session_key, used, session_id=taken.turn.session_id
            )

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def _conclude(
        self, turn: ActiveTurn, target: Target, conclusion: Conclusion, draft_id: str | None
    ) -> bool:
        """Store the end of a turn; return whether a reply is sent."""
        taken = turn.taken
        notice, told = taken.lane.notice, self._notice_text(taken.lane.notice, turn.source)
        replies: list[NewReply] = []
        if conclusion.reply is not None:
            text = f"{told}\n\n{conclusion.reply}" if told else conclusion.reply
            replies.append(
                reply_to(
                    target, text, lane_id=taken.lane.id, turn_id=taken.turn.id, draft_id=draft_id
                )
            )
        given_up: list[str] = []

        def also(tx: WriteTransaction) -> None:
            given_up.clear()
            for reply in replies:
                Drafts.forget_in(tx, taken.turn.id)
                self.outbox.put_in(tx, reply)
            if replies and notice is not None:
                # The notice is sent now; a turn without a reply leaves it to the next one.
                lanes = self.store.engine.lanes
                lane = lanes.lock_by_id(tx, taken.lane.id)
                if lane is not None and lane.notice == notice:
                    lanes.change(tx, lane, notice=None)
            if conclusion.outcome == "abandoned":
                words = self.stuck.tell_in(tx, taken.lane.id)
                given_up.extend([words] if words else [])

        finished = self._finish(turn, conclusion, also)
        outcome = conclusion.outcome if finished.is_accepted else "dropped"
        seconds = self.store.engine.store.clock() - taken.turn.started_at
        self.ended(turn.source.platform.value, outcome, seconds)
        if finished.is_accepted and (replies or given_up):
            self.sent()
        if finished.is_stuck:
            ended = Progress("ended", "".join(given_up), outcome="failed")
            self.publish(turn.item_ids, ended)
        elif not finished.is_accepted and finished.outcome in {None, "interrupted"}:
            # Otherwise another process publishes the outcome.
            self.publish(turn.item_ids, Progress("ended", "", outcome="dropped"))
        elif finished.is_accepted and conclusion.outcome != "abandoned" and not conclusion.again:
            ended = Progress("ended", conclusion.reply or "", outcome=conclusion.outcome)
            self.publish(turn.item_ids, ended)
        return finished.is_accepted and bool(replies)

    def _finish(self, turn: ActiveTurn, conclusion: Conclusion, also: ExtraWrite) -> TurnEnding:
        """Store the end, with retries while the database is unavailable: the model is not asked
        again for that. A process that takes the lane over meanwhile ends the retries.
        """
        until = turn.stopwatch() + _STORE_AGAIN_FOR
        while True:
            try:
                return self.mailboxes.finish(
                    turn.taken.turn,
                    conclusion.outcome,
                    detail=conclusion.detail,
                    again=conclusion.again,
                    unused=turn.steered,
                    also=also,
                )
            except StoreUnavailable as error:
                is_over = turn.cause in {"restart", "shutdown"}
                if is_over or turn.stopwatch() >= until:
                    raise
                logger.info("could not store the end of turn %s yet: %s", turn.taken.turn.id, error)
                self.wait(_STORE_AGAIN)

    def _notice_text(self, notice: LaneNotice | None, source: SessionSource) -> str | None:
        """Return the notice about a change of the lane, which the user gets once."""
        if notice is None or notice.kind not in _NEW_CONVERSATION_TEXTS:
            return None
        policy = self.store.config.get_reset_policy(source.platform.value, source.chat_type)
        if not policy.notifies(source.platform.value):
            return None
        if notice.kind == "lost":
            return "This is a new conversation, because the previous one was deleted."
        if not notice.had_activity:
            return None
        return (
            f"This is a new conversation, because {reason_of(notice)}. "
            f"To continue the previous one: /resume {notice.previous_session_id}"
        )


def reason_of(notice: LaneNotice) -> str:
    """Return the reason why a conversation ended, as text."""
    return _REASONS.get(notice.reason or "", "it was reset")


def conclusion_of(ended: Ended, said: str, cause: str | None) -> Conclusion:
    """Return the conclusion of a turn from how it ended and why it was interrupted, if so."""
    if ended.how == "answered":
        return Conclusion("completed", said or _EMPTY_ANSWER)
    if ended.how == "too many steps":
        note = "I stopped after too many steps. Tell me how to continue."
        return Conclusion("completed", f"{said}\n\n{note}".strip())
    if ended.how == "failed":
        error = str(ended.error)
        return Conclusion(
            "failed", f"The model could not answer: {error}\n{_IS_STORED}", detail=error
        )
    return _INTERRUPTED.get(cause or "", Conclusion("interrupted", detail=cause))


#: By cause. A message that interrupts a turn gets its own answer.
_INTERRUPTED: Final = {
    "restart": Conclusion("abandoned", detail="restart_timeout"),
    "shutdown": Conclusion("abandoned", detail="shutdown_timeout"),
    "lost": Conclusion("abandoned", detail="lease lost"),
    "timeout": Conclusion(
        "failed", f"Nothing happened for too long, so I stopped. {_IS_STORED}", detail="inactive"
    ),
}


def target_of_input(taken: StartedTurn, source: SessionSource) -> Target:
    """Return the destination of the reply to an input: the chat, and its last message."""
    payload = taken.input.items[-1].payload
    return Target(
        source.platform.value,
        source.chat_id,
        source.thread_id,
        payload.get("message_id"),
        payload.get("extra") or {},
    )


def scope_of(entry: SessionEntry, source: SessionSource, store: SessionStore) -> Scope:
    """Return the scope of a lane's sender: their own sessions on this platform or, in a shared
    lane, the conversations of that lane.
    """
    deps = store.engine
    owner = deps.owner_of(deps.key_of(source), source)
    if owner is not None:
        return Scope(user_id=owner, source=source.platform.value)
    with deps.store.provider.read() as tx:
        lane = deps.lanes.find(tx, deps.namespace, entry.session_key)
        changes = [] if lane is None else history(tx, lane.id, limit=_MAX_CHANGES)
    had = {each.from_session_id for each in changes} | {each.to_session_id for each in changes}
    roots = {store.db.get_conversation_root(each) for each in had | {entry.session_id} if each}
    return Scope(source=source.platform.value, conversation_ids=tuple(sorted(roots)))

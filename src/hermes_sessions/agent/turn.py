"""One turn: a user's message, and everything the agent does until it has answered.

Every step is stored when it completes: the question before the model is asked, each answer, each
tool result. If the turn is interrupted or the model fails, the partial answer is stored and every
tool call gets a result, so that the session can continue.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from hermes_sessions.agent.chat_spool import (
    STORE_UNAVAILABLE_ERRORS,
    UnstoredHandler,
    new_external_id,
)
from hermes_sessions.agent.clients.port import (
    ModelClient,
    ModelError,
    ReasoningPiece,
    Reply,
    Request,
    RetryWait,
    TextPiece,
    ToolCall,
)
from hermes_sessions.agent.interrupts import closing_on_interrupt
from hermes_sessions.agent.pricing import UNPRICED, Pricing, record_call_usage
from hermes_sessions.agent.request_messages import build_request_messages
from hermes_sessions.agent.tools.registry import Tool, ToolContext, ToolRegistry
from hermes_sessions.lifecycle.conversation_lease import ConversationLease
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.sessiondb import SessionDB

#: The most replies with tool calls in one turn.
MAX_STEPS: Final = 40
_INTERRUPTED: Final = "[Interrupted before it ran.]"


@dataclass(frozen=True, slots=True)
class Stored:
    """A message was stored."""

    message_id: int
    role: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool starts to run."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool has run, and its result is stored."""

    call: ToolCall
    result: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply of the model is complete and stored."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class Ended:
    """The turn is over. ``error`` is set if the model failed."""

    how: Literal["answered", "interrupted", "failed", "too many steps"]
    error: ModelError | None = None


@dataclass(frozen=True, slots=True)
class AgentResult:
    """What `Agent.run` returns."""

    #: The last reply of the model; empty if the turn ended before there was one.
    text: str
    #: Where the turn is stored. Pass it to `Agent.run` to continue the conversation.
    session_id: str
    how: Literal["answered", "interrupted", "too many steps"]

    def __str__(self) -> str:
        return self.text


TurnEvent = (
    TextPiece | ReasoningPiece | RetryWait | Stored | ToolStarted | ToolFinished | Answered | Ended
)


@dataclass(frozen=True, slots=True)
class Agent:
    """A model with tools that answers in stored sessions.

    `run` and `stream` create the session if needed and keep other processes from answering in it at
    the same time. `run_turn` and `answer` are one level below: their caller has done both.
    """

    db: SessionDB
    client: ModelClient
    #: The tools that the model may call; `default_tools()` returns the built-in ones.
    tools: Iterable[Tool] = ()
    #: None means the client's default model.
    model: str | None = None
    scope: Scope = OWNER
    max_tokens: int | None = None
    temperature: float | None = None
    most_steps: int = MAX_STEPS
    #: The prices of its calls; by default their cost is unknown.
    pricing: Pricing = UNPRICED
    #: The token of the lease under which it writes, if the conversation is held.
    fence: int | None = None
    #: Instructions beside the session's own prompt, such as where the chat takes place; not stored.
    instructions: str | None = None
    #: Receives messages that could not be stored, so that they can be stored later.
    unstored: UnstoredHandler | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.tools, ToolRegistry):
            object.__setattr__(self, "tools", ToolRegistry(*self.tools))

    @property
    def tool_registry(self) -> ToolRegistry:
        """The tools by name."""
        return cast("ToolRegistry", self.tools)  # See `__post_init__`.

    @property
    def asked_model(self) -> str:
        """The model that is used."""
        return self.model or self.client.default_model

    def with_model(self, model: str) -> Agent:
        """Return the same agent with another model."""
        return replace(self, model=model)

    def run(
        self,
        content: Any,
        session_id: str | None = None,
        *,
        source: str = "python",
        interrupt: threading.Event | None = None,
    ) -> AgentResult:
        """Store a user's message, answer it, and return the answer; see `stream`.

        Raises:
            ModelError: the model could not answer. The question and what was said so far are
                stored.
            ConversationHeld, UnknownSession, StoreError: as in `stream`.
        """
        session_id = session_id or self._new_session(source)
        text, ended = "", Ended("interrupted")
        for event in self.stream(content, session_id, interrupt=interrupt):
            if isinstance(event, Answered):
                text = event.reply.text
            elif isinstance(event, Ended):
                ended = event
        if ended.how == "failed":
            raise ended.error or ModelError("The model failed.")
        return AgentResult(text, self.db.get_compression_tip(session_id), ended.how)

    def stream(
        self,
        content: Any,
        session_id: str | None = None,
        *,
        source: str = "python",
        interrupt: threading.Event | None = None,
    ) -> Iterator[TurnEvent]:
        """Store a user's message and answer it; yield what happens, `Ended` last.

        Without *session_id*, a new session from *source* is created. A session that was compacted
        continues in the one that replaced it. *interrupt* works as in `run_turn`, and is also set
        when another process takes over the conversation.

        Raises:
            ConversationHeld: another process or thread answers in the conversation.
            UnknownSession: there is no session of this id.
            StoreError: the store refused; what was stored before stays stored.
        """
        session_id = session_id or self._new_session(source)
        session_id = self.db.get_compression_tip(session_id)
        interrupt = interrupt or threading.Event()
        if self.fence is not None:
            yield from self.run_turn(session_id, content, interrupt=interrupt)
            return
        holder = f"an agent on {socket.gethostname()} (process {os.getpid()})"
        with ConversationLease(self.db, session_id, holder, on_lost=interrupt.set) as lease:
            leased_agent = replace(self, fence=lease.token)
            yield from leased_agent.run_turn(session_id, content, interrupt=interrupt)

    def _new_session(self, source: str) -> str:
        return self.db.create_session(source=source, model=self.asked_model)

    def run_turn(
        self,
        session_id: str,
        content: Any,
        *,
        external_id: str | None = None,
        interrupt: threading.Event | None = None,
        steering: Callable[[], str | None] = lambda: None,
    ) -> Iterator[TurnEvent]:
        """Store a user's message and answer it; yield the events of the turn, `Ended` last.

        Setting *interrupt*, or Ctrl-C, ends the turn: an `Interrupt` at once, even while the model
        sends nothing, a plain event after the next piece. Closing the iterator ends it, too. A
        running tool is waited for. The partial answer is stored.

        *steering* is called after tools have run and returns a message that the user sent
        meanwhile, if any; it is stored and sent to the model with the results.

        Raises:
            StoreError: the store rejected a write; earlier messages remain stored.
        """
        message_id = self.append(session_id, "user", content, external_id=external_id)
        yield Stored(message_id, "user")
        yield from self.answer(session_id, interrupt=interrupt, steering=steering)

    def answer(
        self,
        session_id: str,
        *,
        interrupt: threading.Event | None = None,
        steering: Callable[[], str | None] = lambda: None,
    ) -> Iterator[TurnEvent]:
        """Answer the last message of the session, as `run_turn` does after storing the question."""
        interrupt = interrupt or threading.Event()
        for _ in range(self.most_steps):
            step = _Step(self, session_id, interrupt)
            try:
                yield from step.ask()
                if step.reply is None:
                    yield Ended("interrupted")
                    return
                if not step.reply.tool_calls:
                    yield Ended("answered")
                    return
                yield from step.run_tools()
            except ModelError as error:
                yield Ended("failed", error)
                return
            except (KeyboardInterrupt, GeneratorExit):
                step.store_partial_answer()
                raise
            if interrupt.is_set():
                yield Ended("interrupted")
                return
            if (text := steering()) is not None:
                message_id = self.append(session_id, "user", text)
                yield Stored(message_id, "user")
        yield Ended("too many steps")

    def append(
        self,
        session_id: str,
        role: str,
        content: Any,
        *,
        external_id: str | None = None,
        **values: Any,
    ) -> int:
        """Store a message and return its id.

        Raises:
            STORE_UNAVAILABLE_ERRORS: it was not stored; `unstored` received it, if there is one.
            StoreError: the store rejected it.
        """
        if self.unstored is not None and external_id is None:
            # By this id the store recognises a message that it has stored already.
            external_id = new_external_id()
        try:
            return self.db.append_message(
                session_id, role, content, external_id=external_id, fence=self.fence, **values
            )
        except STORE_UNAVAILABLE_ERRORS:
            if self.unstored is not None:
                message = {"role": role, "content": content, "external_id": external_id}
                self.unstored(session_id, {**message, **values}, self.fence)
            raise


class _Step:
    """One request to the model, and the tools it calls."""

    def __init__(self, agent: Agent, session_id: str, interrupt: threading.Event) -> None:
        self._agent = agent
        self._session_id = session_id
        self._interrupt = interrupt
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self.reply: Reply | None = None
        self._calls: list[ToolCall] = []

    def ask(self) -> Iterator[TurnEvent]:
        agent = self._agent
        session = agent.db.get_session(self._session_id)
        history = agent.db.get_messages_as_conversation(self._session_id)
        prompts = (session and session["system_prompt"], agent.instructions)
        request = Request(
            messages=build_request_messages(history, "\n\n".join(filter(None, prompts))),
            model=agent.asked_model,
            tools=agent.tool_registry.schemas(),
            max_tokens=agent.max_tokens,
            temperature=agent.temperature,
        )
        events = agent.client.stream(request)
        reply: Reply | None = None
        try:
            with closing_on_interrupt(self._interrupt, events):
                for event in events:
                    if isinstance(event, Reply):
                        reply = event
                        break
                    if isinstance(event, TextPiece):
                        self._text.append(event.text)
                    elif isinstance(event, ReasoningPiece):
                        self._reasoning.append(event.text)
                    yield event
                    if self._interrupt.is_set():
                        break
        except ModelError:
            self.store_partial_answer("error")
            raise
        if reply is None:
            self.store_partial_answer()
            return
        yield self._store(reply)
        yield Answered(reply)

    def _store(self, reply: Reply) -> Stored:
        usage = reply.usage
        calls = [call.as_message_part() for call in reply.tool_calls]
        message_id = self._agent.append(
            self._session_id,
            "assistant",
            reply.text or None,
            tool_calls=calls or None,
            token_count=usage.output_tokens,
            finish_reason=reply.finish_reason,
            reasoning=reply.reasoning,
        )
        self.reply = reply
        self._calls = list(reply.tool_calls)
        self._text.clear()
        self._reasoning.clear()
        agent = self._agent
        record_call_usage(agent.db, self._session_id, reply, agent.asked_model, agent.pricing)
        return Stored(message_id, "assistant")

    def run_tools(self) -> Iterator[TurnEvent]:
        agent = self._agent
        context = ToolContext(agent.db, self._session_id, agent.scope, self._interrupt)
        while self._calls:
            call = self._calls[0]
            if self._interrupt.is_set():
                self._answer_calls(_INTERRUPTED)
                return
            yield ToolStarted(call)
            result = agent.tool_registry.call(call.name, call.arguments, context)
            self._store_result(call, result)
            yield ToolFinished(call, result)

    def _store_result(self, call: ToolCall, result: str) -> None:
        self._agent.append(
            self._session_id, "tool", result, tool_name=call.name, tool_call_id=call.id
        )
        self._calls.remove(call)

    def _answer_calls(self, result: str) -> None:
        for call in list(self._calls):
            self._store_result(call, result)

    def store_partial_answer(self, finish_reason: str = "interrupted") -> None:
        """Store a partial answer, and a result for each tool call that has none."""
        text, thought = "".join(self._text), "".join(self._reasoning)
        if text or thought:
            self._text.clear()
            self._reasoning.clear()
            self._agent.append(
                self._session_id,
                "assistant",
                text or None,
                finish_reason=finish_reason,
                reasoning=thought or None,
            )
        self._answer_calls(_INTERRUPTED)

"""One turn: a user's message, and everything the agent does until it has answered.

Every step is stored when it completes: the question before the model is asked, each answer, each
tool's result. If the turn is interrupted or the model fails, what was said so far is stored and
every call that was started has a result, so that the session can go on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from hermes_sessions.agent.clients.port import (
    ModelClient,
    ModelError,
    ReasoningPiece,
    Reply,
    Request,
    TextPiece,
    ToolCall,
)
from hermes_sessions.agent.sequence import sendable
from hermes_sessions.agent.tools.registry import Surroundings, ToolRegistry
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.sessiondb import SessionDB

#: Replies with tool calls that one turn may have, before it is ended.
MOST_STEPS: Final = 40
_INTERRUPTED: Final = "[Interrupted before it ran.]"


@dataclass(frozen=True, slots=True)
class Stored:
    """A message is in the store."""

    message_id: int
    role: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool begins to run."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool has run; its result is stored."""

    call: ToolCall
    result: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply of the model is complete and stored."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class Ended:
    """The turn is over. ``error`` says why, when the model failed."""

    how: Literal["answered", "interrupted", "failed", "too many steps"]
    error: ModelError | None = None


TurnEvent = TextPiece | ReasoningPiece | Stored | ToolStarted | ToolFinished | Answered | Ended


@dataclass(frozen=True, slots=True)
class Agent:
    """What answers in a session: the store, the model, the tools, and on whose behalf."""

    db: SessionDB
    client: ModelClient
    tools: ToolRegistry
    #: None asks the client's own.
    model: str | None = None
    scope: Scope = OWNER
    max_tokens: int | None = None
    temperature: float | None = None
    most_steps: int = MOST_STEPS

    def with_model(self, model: str) -> Agent:
        """Return the same agent, asking another model."""
        return replace(self, model=model)

    def run_turn(
        self,
        session_id: str,
        content: Any,
        *,
        external_id: str | None = None,
        interrupt: threading.Event | None = None,
    ) -> Iterator[TurnEvent]:
        """Store a user's message and answer it; yield what happens, `Ended` last.

        Setting *interrupt*, or Ctrl-C, ends the turn after what it is doing now; closing the
        iterator does, too. Nothing that was said is lost.

        Raises:
            StoreError: the store refused; what was stored before stays stored.
        """
        message_id = self.db.append_message(session_id, "user", content, external_id=external_id)
        yield Stored(message_id, "user")
        yield from self.answer(session_id, interrupt=interrupt)

    def answer(
        self, session_id: str, *, interrupt: threading.Event | None = None
    ) -> Iterator[TurnEvent]:
        """Answer what the session ends with, as `run_turn` does after the question is stored."""
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
                step.keep_what_was_said()
                raise
            if interrupt.is_set():
                yield Ended("interrupted")
                return
        yield Ended("too many steps")


class _Step:
    """One question to the model, and the tools it asks for."""

    def __init__(self, agent: Agent, session_id: str, interrupt: threading.Event) -> None:
        self._agent = agent
        self._session_id = session_id
        self._interrupt = interrupt
        self._said: list[str] = []
        self._thought: list[str] = []
        self.reply: Reply | None = None
        self._calls: list[ToolCall] = []

    def ask(self) -> Iterator[TurnEvent]:
        agent = self._agent
        session = agent.db.get_session(self._session_id) or {}
        history = agent.db.get_messages_as_conversation(self._session_id)
        request = Request(
            messages=sendable(history, session.get("system_prompt")),
            model=agent.model or agent.client.default_model,
            tools=agent.tools.schemas(),
            max_tokens=agent.max_tokens,
            temperature=agent.temperature,
        )
        events = agent.client.stream(request)
        reply: Reply | None = None
        try:
            for event in events:
                if isinstance(event, Reply):
                    reply = event
                    break
                kept = self._said if isinstance(event, TextPiece) else self._thought
                kept.append(event.text)
                yield event
                if self._interrupt.is_set():
                    break
        except ModelError:
            self.keep_what_was_said("error")
            raise
        finally:
            close = getattr(events, "close", None)
            if close is not None:
                close()
        if reply is None:
            self.keep_what_was_said()
            return
        yield self._store(reply)
        yield Answered(reply)

    def _store(self, reply: Reply) -> Stored:
        usage = reply.usage
        calls = [call.as_message_part() for call in reply.tool_calls]
        message_id = self._agent.db.append_message(
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
        self._said.clear()
        self._thought.clear()
        self._count(reply)
        return Stored(message_id, "assistant")

    def _count(self, reply: Reply) -> None:
        usage = reply.usage
        self._agent.db.update_token_counts(
            self._session_id,
            input_tokens=usage.input_tokens or 0,
            output_tokens=usage.output_tokens or 0,
            cache_read_tokens=usage.cache_read_tokens or 0,
            cache_write_tokens=usage.cache_write_tokens or 0,
            reasoning_tokens=usage.reasoning_tokens or 0,
            model=reply.model or self._agent.model or self._agent.client.default_model,
            api_call_count=1,
        )

    def run_tools(self) -> Iterator[TurnEvent]:
        agent = self._agent
        surroundings = Surroundings(agent.db, self._session_id, agent.scope)
        while self._calls:
            call = self._calls[0]
            if self._interrupt.is_set():
                self._answer_calls(_INTERRUPTED)
                return
            yield ToolStarted(call)
            result = agent.tools.call(call.name, call.arguments, surroundings)
            self._store_result(call, result)
            yield ToolFinished(call, result)

    def _store_result(self, call: ToolCall, result: str) -> None:
        self._agent.db.append_message(
            self._session_id, "tool", result, tool_name=call.name, tool_call_id=call.id
        )
        self._calls.remove(call)

    def _answer_calls(self, result: str) -> None:
        for call in list(self._calls):
            self._store_result(call, result)

    def keep_what_was_said(self, finish_reason: str = "interrupted") -> None:
        """Store an answer that was broken off, and a result for each call that has none."""
        text, thought = "".join(self._said), "".join(self._thought)
        if text or thought:
            self._said.clear()
            self._thought.clear()
            self._agent.db.append_message(
                self._session_id,
                "assistant",
                text or None,
                finish_reason=finish_reason,
                reasoning=thought or None,
            )
        self._answer_calls(_INTERRUPTED)

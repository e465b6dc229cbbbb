"""The port to a model: a request in, the events of one reply out.

A client yields pieces as they arrive and, last, exactly one complete `Reply`. Closing the iterator
interrupts the model: the iterators of our clients have ``close()``, which any thread may call, and
the thread that waits for the next event then finds the iterator at its end. Every failure is one of
the errors below; nothing else is raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hermes_sessions.errors import HermesSessionsError

#: A message in the form of providers: role, content, tool_calls, tool_call_id.
Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a model."""

    messages: Sequence[Message]
    model: str
    #: JSON schemas of the tools it may call.
    tools: Sequence[Mapping[str, Any]] = ()
    max_tokens: int | None = None
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call as the provider counted them; None where it did not."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    #: The cost that the endpoint states, in its own currency.
    stated_cost: float | None = None


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    """A piece of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class RetryWait:
    """The endpoint could not answer and is tried again after this many seconds."""

    seconds: float
    #: The number of the next attempt (the second is 2), and the most attempts.
    attempt: int
    attempts: int
    #: The reason, for users.
    reason: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of the model; ``arguments`` is JSON text as received, perhaps malformed."""

    id: str
    name: str
    arguments: str

    def as_message_part(self) -> dict[str, Any]:
        """Return the call as part of an assistant message."""
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments},
        }


@dataclass(frozen=True, slots=True)
class Reply:
    """The complete reply, the last of the events."""

    text: str
    #: stop, length, tool_calls, content_filter, or another value of the provider.
    finish_reason: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    #: The model that answered, as the provider names it.
    model: str | None = None


Event = TextPiece | ReasoningPiece | RetryWait | Reply


class ModelError(HermesSessionsError):
    """A model could not answer; the caller keeps the partial answer."""

    exit_code = 1


class ModelUnavailable(ModelError):
    """The endpoint is unreachable or overloaded, or broke off; a later attempt may succeed."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        #: The seconds to wait before the next attempt, if the endpoint named them.
        self.retry_after = retry_after
        super().__init__(message)


class ModelRefused(ModelError):
    """The endpoint rejects the request: wrong key, unknown model, too long, not allowed."""

    def __init__(self, message: str, *, too_long: bool = False) -> None:
        #: Whether a shorter history would be accepted.
        self.too_long = too_long
        super().__init__(message)


class ModelGarbled(ModelError):
    """The endpoint sent something that is not a reply."""


class ModelClient(Protocol):
    """A client of one endpoint, or of one model in this process. Thread-safe."""

    @property
    def name(self) -> str:
        """The model, for messages: ``gpt-4o at api.openai.com``. Never a secret."""

    @property
    def default_model(self) -> str:
        """The model of requests that name none."""

    def stream(self, request: Request) -> Iterator[Event]:
        """Yield the events of one reply, a `Reply` last.

        Raises:
            ModelUnavailable, ModelRefused, ModelGarbled: before or between the events.
        """

    def close(self) -> None:
        """Release connections or memory; further calls have no effect."""

"""The port to a model: a request in, the events of one reply out.

A client yields pieces as they arrive and, last, exactly one `Reply` with everything. Closing the
iterator interrupts the model: the iterators of our clients have ``close()``, which any thread may
call, and the thread that waits for the next event then finds the iterator at its end. Whatever
goes wrong is one of the errors below; nothing else is raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hermes_sessions.errors import HermesSessionsError

#: A message as providers take it: role, content, tool_calls, tool_call_id.
Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """What a model is asked."""

    messages: Sequence[Message]
    model: str
    #: JSON schemas of the tools it may call.
    tools: Sequence[Mapping[str, Any]] = ()
    max_tokens: int | None = None
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call as the provider counted them; None where it did not."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    #: What the endpoint says the call cost, in its own currency.
    stated_cost: float | None = None


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    """A piece of what the model thinks aloud."""

    text: str


@dataclass(frozen=True, slots=True)
class RetryWait:
    """The endpoint could not answer, and is asked again after so many seconds."""

    seconds: float
    #: Which attempt comes then, the second is 2, and how many there are at most.
    attempt: int
    attempts: int
    #: What went wrong, for people.
    reason: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asks for; ``arguments`` is JSON text as it came, which may be malformed."""

    id: str
    name: str
    arguments: str

    def as_message_part(self) -> dict[str, Any]:
        """Return the call as it stands in an assistant message."""
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments},
        }


@dataclass(frozen=True, slots=True)
class Reply:
    """The whole reply, last among the events."""

    text: str
    #: stop, length, tool_calls, content_filter, or what the provider says.
    finish_reason: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    #: The model that answered, as the provider names it.
    model: str | None = None


Event = TextPiece | ReasoningPiece | RetryWait | Reply


class ModelError(HermesSessionsError):
    """A model could not answer; what was said so far is kept by whoever asked."""

    exit_code = 1


class ModelUnavailable(ModelError):
    """The endpoint cannot be reached, is overloaded or broke off; trying again later may help."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        #: The seconds to wait before trying again, if the endpoint named them.
        self.retry_after = retry_after
        super().__init__(message)


class ModelRefused(ModelError):
    """The endpoint will not do it as asked: wrong key, unknown model, too long, not allowed."""

    def __init__(self, message: str, *, too_long: bool = False) -> None:
        #: Whether a shorter history would do.
        self.too_long = too_long
        super().__init__(message)


class ModelGarbled(ModelError):
    """The endpoint answered something that is no reply."""


class ModelClient(Protocol):
    """One endpoint, or one model in this process. Thread-safe."""

    @property
    def name(self) -> str:
        """What answers, for people: ``gpt-4o at api.openai.com``. Never a secret."""

    @property
    def default_model(self) -> str:
        """The model that is asked when none is named."""

    def stream(self, request: Request) -> Iterator[Event]:
        """Yield the events of one reply, a `Reply` last.

        Raises:
            ModelUnavailable, ModelRefused, ModelGarbled: before or amid the events.
        """

    def close(self) -> None:
        """Release connections or memory; a second call does nothing."""

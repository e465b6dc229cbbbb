"""What a platform contributes to ``hermes gateway setup``: questions, and a check of the answers.

A platform has a module ``setup`` with one `Setup`. Who asks, and where the answers are written, is
not its concern.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes_sessions.config.gateway_settings import PlatformSettings

#: What was answered so far, by key.
Answers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Question:
    """One key of a platform's section, and how somebody is asked for it."""

    key: str
    #: What it is called.
    name: str
    #: Where it is found; may have several lines.
    help: str
    #: Of a secret: the variable that holds it, while the file says ``${VARIABLE}``.
    variable: str | None = None
    #: What holds without an answer; it need not be written.
    default: str | None = None
    #: Makes one, for whoever has none.
    make: Callable[[], str] | None = None
    #: Whether no answer is an answer.
    is_optional: bool = False
    #: Whether it is asked at all, after what was answered before.
    is_asked: Callable[[Answers], bool] = lambda _answers: True

    @property
    def is_secret(self) -> bool:
        """Whether nobody may see it."""
        return self.variable is not None


@dataclass(frozen=True, slots=True)
class SetupResult:
    """What a check found out."""

    #: Who the agent is there, as people see it.
    who: str
    #: What is left to do, or good to know; a line each.
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Setup:
    """How one platform is set up."""

    #: What people call it.
    title: str
    #: What must have been done before the questions can be answered.
    before: str
    questions: tuple[Question, ...]
    #: Sees, with the gateway's directory, whether what is configured can be right; raises
    #: ConfigError when it cannot.
    read: Callable[[PlatformSettings, Path], object]
    #: Asks the platform whether it is, and changes nothing. Raises LoginRefused or ConfigError when
    #: it is not, and Unreachable or RateLimited when nobody can say.
    check: Callable[[PlatformSettings, Path], Awaitable[SetupResult]]
    #: How ids of people are found; None where nobody is listed.
    people: str | None = None
    #: How the id of a chat is found; None where nobody can be written to first.
    home: str | None = None

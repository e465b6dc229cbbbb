"""What a look at a store found, and what it could not find out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hermes_sessions.storage.care.doctor.conditions import CONDITION, Condition
from hermes_sessions.storage.care.health import HEALTHY, Health, State, worst

if TYPE_CHECKING:
    from hermes_sessions.storage.sessiondb import SessionDB

#: Opens the store for writing, for the length of a block.
OpenStore = Callable[[], "AbstractContextManager[SessionDB]"]
#: Does something about a finding and says what, as a sentence.
#: Raises StoreError or OSError: it was not done.
Fix = Callable[[OpenStore], str]


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition that is there."""

    condition: Condition
    #: What exactly: which file, which process, how many.
    what: str
    fix: Fix | None = field(default=None, compare=False)
    #: What it makes of the store, where that is worse than usual.
    state: State | None = None

    @classmethod
    def of(
        cls, name: str, what: str, fix: Fix | None = None, *, state: State | None = None
    ) -> Finding:
        """Return a finding of the condition of this name."""
        return cls(CONDITION[name], what, fix, state)

    @property
    def health(self) -> Health:
        """What it makes of the store."""
        if self.condition.weight == "advice":
            return HEALTHY
        return Health(self.state or self.condition.state, self.what)


class Note(NamedTuple):
    """What else is to be said about a check that found nothing."""

    words: str


class UncheckedCondition(NamedTuple):
    """A check that could not be made. That is not the same as one that found nothing."""

    condition: Condition
    why: str


class FixResult(NamedTuple):
    """What became of a finding that was to be fixed."""

    condition: Condition
    #: What was done, or why it was not.
    what: str
    is_done: bool


@dataclass(frozen=True, slots=True)
class Report:
    """A look at a store."""

    #: Where the store is, for people; never a secret.
    location: str
    provider: str
    findings: tuple[Finding, ...] = ()
    unknown: tuple[UncheckedCondition, ...] = ()
    #: What was looked for and is not there.
    absent: tuple[Condition, ...] = ()
    notes: tuple[str, ...] = ()
    mended: tuple[FixResult, ...] = ()

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that are more than advice."""
        return tuple(each for each in self.findings if each.condition.weight == "problem")

    @property
    def health(self) -> Health:
        """How the store is: as bad as the worst finding."""
        return worst(each.health for each in self.findings)

    @property
    def exit_code(self) -> int:
        """0 healthy, 1 problems, 2 something could not be looked at and the rest is healthy."""
        if self.problems:
            return 1
        return 2 if self.unknown else 0

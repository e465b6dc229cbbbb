"""The doctor's report: findings, conditions that could not be checked, and fixes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hermes_sessions.storage.care.doctor.conditions import CONDITION, Condition
from hermes_sessions.storage.care.health import HEALTHY, Health, State, worst

if TYPE_CHECKING:
    from hermes_sessions.storage.sessiondb import SessionDB

#: Opens the store for writing inside a ``with`` block.
OpenStore = Callable[[], "AbstractContextManager[SessionDB]"]
#: Fixes a finding and returns a sentence that says how.
#: Raises StoreError or OSError when it could not.
Fix = Callable[[OpenStore], str]


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition that the store has."""

    condition: Condition
    #: The details: which file, which process, how many.
    what: str
    fix: Fix | None = field(default=None, compare=False)
    #: The state of the store, where it is worse than the condition usually makes it.
    state: State | None = None

    @classmethod
    def of(
        cls, name: str, what: str, fix: Fix | None = None, *, state: State | None = None
    ) -> Finding:
        """Return a finding of the condition called *name*."""
        return cls(CONDITION[name], what, fix, state)

    @property
    def health(self) -> Health:
        """The health of a store with this finding alone."""
        if self.condition.weight == "advice":
            return HEALTHY
        return Health(self.state or self.condition.state, self.what)


class Note(NamedTuple):
    """A remark of a check, such as that it did not cover everything."""

    words: str


class UncheckedCondition(NamedTuple):
    """A condition that could not be checked, which is not the same as one that is absent."""

    condition: Condition
    why: str


class FixResult(NamedTuple):
    """The outcome of an attempt to fix a finding."""

    condition: Condition
    #: What was done, or why it failed.
    what: str
    is_done: bool


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of all checks of a store."""

    #: Where the store is, for display; never contains a secret.
    location: str
    provider: str
    findings: tuple[Finding, ...] = ()
    unknown: tuple[UncheckedCondition, ...] = ()
    #: The conditions that were checked and are absent.
    absent: tuple[Condition, ...] = ()
    notes: tuple[str, ...] = ()
    mended: tuple[FixResult, ...] = ()

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that are more than advice."""
        return tuple(each for each in self.findings if each.condition.weight == "problem")

    @property
    def health(self) -> Health:
        """The health of the store: that of its worst finding."""
        return worst(each.health for each in self.findings)

    @property
    def exit_code(self) -> int:
        """0 healthy, 1 problems, 2 no problems but something could not be checked."""
        if self.problems:
            return 1
        return 2 if self.unknown else 0


def utc_text(moment: float) -> str:
    """Return a stored time as text; the store accepts any number, calendars do not."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))
    except (OverflowError, ValueError, OSError):
        return "an impossible date"

"""The turns that run in this process: their age, their last activity, and how to end them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from hermes_sessions.agent.interrupts import Interrupt
from hermes_sessions.lifecycle.mailboxes import StartedTurn
from hermes_sessions.model.source import SessionSource

#: Why a turn is interrupted.
Cause = Literal["message", "stop", "reset", "restart", "shutdown", "lost", "timeout"]


@dataclass(slots=True, eq=False)
class ActiveTurn:
    """One running turn. Interrupting it never affects the turn after it."""

    taken: StartedTurn
    #: The chat that is answered.
    source: SessionSource
    #: By the store's clock, to compare with stored times.
    started_at: float
    #: Durations are measured with this clock, because wall clocks jump and machines sleep.
    stopwatch: Callable[[], float] = time.monotonic
    began_at: float = field(init=False)
    #: The time of its last activity.
    active_at: float = field(init=False)
    #: The time when the user was last told that it is running.
    notified_at: float = field(init=False)
    #: Whether the user was warned that nothing happens.
    warned: bool = False
    #: It has produced its answer, which may be visible before this process has finished it. The
    #: user may have written again: the turn must not be interrupted any more.
    is_over: bool = False
    interrupt: Interrupt = field(default_factory=Interrupt)
    cause: Cause | None = None
    #: Mailbox items that it includes after its next tool.
    steered: list[int] = field(default_factory=list)
    #: Mailbox items that it has included.
    included_items: list[int] = field(default_factory=list)
    #: Mailbox items whose effect on it is decided.
    seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.began_at = self.active_at = self.notified_at = self.stopwatch()

    def note_activity(self) -> None:
        """Record activity: the turn is not stuck."""
        self.active_at = self.stopwatch()

    @property
    def age(self) -> float:
        """Its running time in seconds."""
        return self.stopwatch() - self.began_at

    def end(self, cause: Cause) -> None:
        """End it as soon as possible; the first cause counts."""
        if self.cause is None:
            self.cause = cause
        self.interrupt.set()

    @property
    def item_ids(self) -> tuple[int, ...]:
        """The mailbox items that it answers, as far as known."""
        return (*self.taken.input.item_ids, *self.included_items)


def overdue(
    turns: Iterable[ActiveTurn], *, warn_after: float, end_after: float
) -> tuple[list[ActiveTurn], list[ActiveTurn]]:
    """Return the turns whose users should be warned that nothing happens, and those to end.

    A time of 0 disables it. Each turn is returned for a warning once.
    """
    silent = [(turn, turn.stopwatch() - turn.active_at) for turn in turns if _is_running(turn)]
    to_end = [turn for turn, seconds in silent if 0 < end_after < seconds]
    to_warn = [
        turn
        for turn, seconds in silent
        if 0 < warn_after < seconds and not turn.warned and turn not in to_end
    ]
    for turn in to_warn:
        turn.warned = True
    return to_warn, to_end


def long_running(turns: Iterable[ActiveTurn], *, every: float) -> list[tuple[ActiveTurn, int]]:
    """Return the turns whose users should be told that they are still running, and their minutes.

    Each is returned once in *every* seconds; 0 disables it. Inactive turns are left out.
    """
    found = []
    for turn in turns:
        now = turn.stopwatch()
        if 0 < every <= now - turn.notified_at and not turn.warned and _is_running(turn):
            turn.notified_at = now
            found.append((turn, int(turn.age // 60)))
    return found


def _is_running(turn: ActiveTurn) -> bool:
    return turn.cause is None and not turn.is_over

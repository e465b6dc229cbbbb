"""Turns that run in this process, as others see them: how old, how silent, how to end them."""

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
    """One turn. Whoever interrupts has seen this one, and never ends the one after it."""

    taken: StartedTurn
    #: Who is answered, and where.
    source: SessionSource
    #: By the store's clock, for comparing with what is stored.
    started_at: float
    #: How long something takes is measured by this: clocks jump, and a machine sleeps.
    stopwatch: Callable[[], float] = time.monotonic
    began_at: float = field(init=False)
    #: When it last did something.
    active_at: float = field(init=False)
    #: When the user last heard that it is at work.
    told_at: float = field(init=False)
    #: The user was told that nothing happens.
    warned: bool = False
    #: It has said what it had to say. Its reply may be there before this process has finished with
    #: it, and somebody may have written again: nothing is done to it any more.
    is_over: bool = False
    interrupt: Interrupt = field(default_factory=Interrupt)
    cause: Cause | None = None
    #: Numbers of messages that it takes up after its next tool.
    steered: list[int] = field(default_factory=list)
    #: Those that it took up.
    taken_up: list[int] = field(default_factory=list)
    #: Messages whose effect on it was decided.
    seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.began_at = self.active_at = self.told_at = self.stopwatch()

    def note_activity(self) -> None:
        """Note that it is not stuck."""
        self.active_at = self.stopwatch()

    @property
    def age(self) -> float:
        """For how many seconds it has run."""
        return self.stopwatch() - self.began_at

    def end(self, cause: Cause) -> None:
        """Have it end as soon as it can; the first cause counts."""
        if self.cause is None:
            self.cause = cause
        self.interrupt.set()

    @property
    def item_ids(self) -> tuple[int, ...]:
        """The messages that it answers, as far as is known now."""
        return (*self.taken.input.item_ids, *self.taken_up)


def overdue(
    turns: Iterable[ActiveTurn], *, warn_after: float, end_after: float
) -> tuple[list[ActiveTurn], list[ActiveTurn]]:
    """Return the turns whose users should hear that nothing happens, and those to be ended.

    A time of 0 is never. Each is named for a warning once.
    """
    silent = [(turn, turn.stopwatch() - turn.active_at) for turn in turns if _goes_on(turn)]
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
    """Return the turns whose users should hear that they go on, and for how many minutes they have.

    Each is named once in *every* so many seconds; 0 is never. One that does nothing is not at work.
    """
    found = []
    for turn in turns:
        now = turn.stopwatch()
        if 0 < every <= now - turn.told_at and not turn.warned and _goes_on(turn):
            turn.told_at = now
            found.append((turn, int(turn.age // 60)))
    return found


def _goes_on(turn: ActiveTurn) -> bool:
    return turn.cause is None and not turn.is_over

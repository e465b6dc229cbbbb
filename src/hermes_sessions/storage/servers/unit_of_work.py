"""Run units of work on a server: retry conflicts, and resolve commits that got no response.

A unit whose connection was lost before its commit was sent has not happened and is run again. One
whose commit was sent may or may not have happened: the mark that every unit writes shows it (see
``docs/decisions/0010-servers.md``).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from secrets import token_hex
from typing import Final, TypeVar

from hermes_sessions.errors import StoreError, StoreUnavailable

T = TypeVar("T")

_FIRST_PAUSE: Final = 0.002
_LONGEST_PAUSE: Final = 0.25
#: Collisions of a unit after which the error counts as its own.
_COLLISIONS: Final = 3


#: Stored instead of a message id by the resolver of a lost commit: the unit can no longer commit.
#: It differs from the unit's own mark, because the connection may be lost again while resolving.
NEVER: Final = -1


class RetryUnit(Exception):
    """Nothing of the unit was stored, and a retry may succeed; ``error`` is raised if none does."""

    def __init__(self, error: StoreError) -> None:
        self.error = error
        super().__init__(str(error))


class UnitCollision(RetryUnit):
    """A unique key is taken, or a row is referenced. A concurrent unit may have caused this after
    the check: even a server that isolates units cannot always tell it from an error of the unit.
    """


class CommitUnknown(Exception):
    """The connection was lost while the unit was being committed."""

    def __init__(self, mark: str, result: object) -> None:
        self.mark = mark
        self.result = result
        super().__init__(mark)


def new_mark() -> str:
    """Return a unique mark for a unit."""
    return token_hex(16)


def noted(mark: str) -> str:
    """Return the statement that stores a mark, which is hexadecimal and needs no escaping."""
    return f"INSERT INTO write_marks (mark, marked_at) VALUES ('{mark}', {time.time()!r})"


def run_unit(
    attempt: Callable[[], T],
    resolve: Callable[[CommitUnknown], T],
    *,
    patience: float,
) -> T:
    """Run *attempt* until it succeeds, fails for good, or *patience* (seconds) is used up.

    *resolve* is given a commit that got no answer: it returns the result if the commit happened,
    and raises `RetryUnit` if it did not and never will.

    Raises:
        StoreError: the unit was not stored; the message of `StoreUnavailable` says if that is
            unknown.
    """
    until = time.monotonic() + patience
    pause = _FIRST_PAUSE
    unknown: CommitUnknown | None = None
    collisions = 0
    while True:
        try:
            if unknown is not None:
                return resolve(unknown)
            return attempt()
        except CommitUnknown as lost:
            unknown = lost
        except RetryUnit as again:
            # While a commit is unresolved, only the query for its result failed: query again.
            if not isinstance(again, CommitUnresolved):
                unknown = None
            collisions += isinstance(again, UnitCollision)
            if collisions > _COLLISIONS or time.monotonic() + pause >= until:
                raise _final(again, unknown) from again.error
        time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - no secret depends on it
        pause = min(pause * 2, _LONGEST_PAUSE)


class CommitUnresolved(RetryUnit):
    """The server could not be asked whether a unit was committed."""


def _final(again: RetryUnit, unknown: CommitUnknown | None) -> StoreError:
    if unknown is None:
        return again.error
    return StoreUnavailable(
        f"It is not known whether a write was stored: the server did not answer its commit, nor in "
        f"time afterwards. Repeating it with the same external_id is safe; without one, look "
        f"before you repeat it. ({again.error})"
    )

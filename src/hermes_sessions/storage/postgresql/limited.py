"""Connections that wait for an answer no longer than whoever asks has time.

The server's own limits do not help when it is frozen, and the network does not notice: the system
goes on to take what is sent to it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import Ready, Wait

T = TypeVar("T")


def limited(seconds_left: Callable[[], float]) -> type[psycopg.Connection]:
    """Return a class of connections that are given up when no seconds are left."""

    class Limited(psycopg.Connection):
        def wait(self, gen: PQGen[T], *arguments: Any, **named: Any) -> T:
            """See `psycopg.Connection.wait`, which looks up ten times a second."""
            return super().wait(_until(gen, seconds_left, self), *arguments, **named)

    return Limited


def _until(
    steps: PQGen[T], seconds_left: Callable[[], float], connection: psycopg.Connection
) -> Generator[Wait, Ready | int, T]:
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if not ready and seconds_left() <= 0:
                connection.pgconn.finish()
                raise psycopg.OperationalError("it did not answer in the time that there was")
            wanted = steps.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result

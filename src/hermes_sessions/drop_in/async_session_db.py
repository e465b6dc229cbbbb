"""hermes-agent's way to use one store from an event loop.

`hermes_sessions.AsyncSessionDB` is the asyncio interface for new code.
"""

from __future__ import annotations

import functools
from typing import Any


class AsyncSessionDB:
    """A store whose methods are coroutine functions that run in the event loop's thread pool."""

    def __init__(self, db: Any) -> None:
        #: The store itself; hermes-agent uses it for calls from other threads.
        self._db = db

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._db, name)
        if not callable(value):
            return value

        @functools.wraps(value)
        async def call(*args: Any, **kwargs: Any) -> Any:
            import asyncio  # loaded only where there is an event loop

            return await asyncio.to_thread(value, *args, **kwargs)

        return call

"""Work that a command may have to leave behind: a database that is frozen keeps its thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

from hermes_sessions.config.settings import Settings

T = TypeVar("T")

_SERVER_SECONDS: Final = 1.2


def store_seconds(settings: Settings) -> float | None:
    """Return how long the store is waited for where gateways are known without it; None for a
    file, which answers or fails.
    """
    return _SERVER_SECONDS if settings.sessiondb.store_file is None else None


def in_background(work: Callable[[], T]) -> Future[T]:
    """Start *work* in a thread that does not keep the process from ending."""
    future: Future[T] = Future()
    # It cannot be taken back.
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future

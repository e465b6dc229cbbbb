"""Background threads that a command can abandon, because a frozen database may block them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

from hermes_sessions.config.settings import Settings

T = TypeVar("T")

_SERVER_SECONDS: Final = 1.2


def store_seconds(settings: Settings) -> float | None:
    """Return how long to wait for the store when its answer is optional.

    None means no limit: a SQLite file answers or fails, it does not hang like a server.
    """
    return _SERVER_SECONDS if settings.sessiondb.store_file is None else None


def in_background(work: Callable[[], T]) -> Future[T]:
    """Run *work* in a daemon thread, which does not keep the process alive."""
    future: Future[T] = Future()
    # The thread starts at once, so the work can no longer be cancelled.
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future

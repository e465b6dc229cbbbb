"""Background threads that a command can abandon, because a frozen database may block them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

from hermes_sessions.config.settings import Settings
from hermes_sessions.errors import StoreUnavailable

T = TypeVar("T")

_SERVER_SECONDS: Final = 1.2
#: How much longer to wait when only the store has the answer.
_MORE_SECONDS: Final = 4.0


def store_seconds(settings: Settings) -> float | None:
    """Return how long to wait for the store when its answer is optional.

    None means no limit: a SQLite file answers or fails, it does not hang like a server.
    """
    return _SERVER_SECONDS if settings.sessiondb.store_file is None else None


def required_answer(future: Future[T], settings: Settings, on_wait: Callable[[], None]) -> T:
    """Return the answer of the store, which nothing else knows; call *on_wait* if it takes long.

    Raises:
        StoreUnavailable: a server did not answer within a few seconds.
        StoreError: as the store raised it.
    """
    seconds = store_seconds(settings)
    try:
        return future.result(seconds)
    except TimeoutError:
        on_wait()
    try:
        return future.result(_MORE_SECONDS)
    except TimeoutError:
        raise StoreUnavailable(
            f"The database did not answer within {_SERVER_SECONDS + _MORE_SECONDS:.0f} s. Check "
            f"that it is running, and see: hermes doctor"
        ) from None


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

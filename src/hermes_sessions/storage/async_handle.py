"""The threads under `AsyncSessionDB`, with cancellation and close.

Every call runs in a thread of the handle, so the event loop never waits for a database. Nothing
here is bound to an event loop: a handle may be used in several loops, one after the other.

A call that is cancelled before it began never runs. A call that had begun continues in its thread
and commits or fails as a whole; the awaiting task gets ``CancelledError`` at once. `close` and the
end of the process wait for these calls.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, ParamSpec, Self, TypeVar

from hermes_sessions.errors import InvalidInput, StoreClosed, StoreUnavailable
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sessiondb import SessionDB

logger = Logger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H", bound="AsyncHandle")

#: Calls of one handle that run at the same time. Below the connections that a pool has by default.
DEFAULT_THREADS: Final = 8


class AsyncHandle:
    """A `SessionDB` whose methods run in threads; see the module for the rules."""

    def __init__(self, db: SessionDB, *, threads: int = DEFAULT_THREADS) -> None:
        """Use *db*, which is closed with this handle, in at most this number of *threads*.

        Raises:
            InvalidInput: a number of threads below 1.
            StoreClosed: *db* was closed.
        """
        if threads < 1:
            raise InvalidInput(f"threads is {threads!r}. Give a number above 0.")
        self._db = db
        # If a read blocks other threads, an unfinished export would: all calls share one thread.
        self._size = 1 if db.provider.serves_one_thread else threads
        self._process = os.getpid()
        self._executor = self._new_executor()
        #: Calls that have not ended: queued, running, or cancelled by the awaiting task.
        self._calls: set[Future[Any]] = set()
        self._iterations: set[_Iteration[Any]] = set()
        self._closing: Future[None] | None = None

    @classmethod
    def _open(
        cls, threads: int, make: Callable[P, SessionDB], /, *args: P.args, **kwargs: P.kwargs
    ) -> Opening[Self]:
        return Opening(cls._opened(threads, make, *args, **kwargs))

    @classmethod
    async def _opened(
        cls, threads: int, make: Callable[P, SessionDB], /, *args: P.args, **kwargs: P.kwargs
    ) -> Self:
        opening: Future[SessionDB] = Future()
        _start("open", opening, partial(copy_context().run, partial(make, *args, **kwargs)))
        try:
            return cls(await asyncio.wrap_future(opening), threads=threads)
        except BaseException:
            # No caller gets the store, so it is closed as soon as it is open.
            _start("open", Future(), partial(_close_result, opening))
            raise

    async def close(self) -> None:
        """Wait for the calls in flight and release this handle with its `SessionDB`.

        A second call only waits; every other method raises `StoreClosed`. If this call is
        cancelled, closing continues in its thread.
        """
        if self._closing is None:
            for iteration in self._iterations:
                self._submit(iteration.close)
            self._closing = Future()
            try:
                _start("close", self._closing, self._finish)
            except BaseException:
                self._closing = None  # It may not have started: the next call starts it.
                raise
        await asyncio.shield(asyncio.wrap_future(self._closing))

    def _finish(self) -> None:
        wait(self._calls.copy())
        self._workers().shutdown()
        self._db.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    # ── calls ─────────────────────────────────────────────────────────────────────────────────

    async def _call(self, verb: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what *verb* returns; it runs in a thread."""
        call = self._submit(partial(verb, *args, **kwargs))
        try:
            # If cancelled, it removes the call from the queue, unless it has already started.
            return await asyncio.wrap_future(call)
        except asyncio.CancelledError:
            call.add_done_callback(_note_failure)
            raise
        finally:
            del call  # The traceback of its error would keep a reference to it.

    async def _iterate(
        self, begin: Callable[P, Iterator[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncGenerator[T, None]:
        """Yield what the iterator yields; every step runs in a thread."""
        iteration = _Iteration[T](partial(begin, *args, **kwargs))
        self._iterations.add(iteration)
        is_cancelled = False
        try:
            while item := await self._call(iteration.step):
                yield item[0]
        except asyncio.CancelledError:
            is_cancelled = True
            raise
        finally:
            self._iterations.discard(iteration)
            if self._closing is None:  # Otherwise `close` does it.
                ending = self._submit(iteration.close)
                if not is_cancelled:  # If cancelled, a step may be in flight: do not wait for it.
                    await asyncio.shield(asyncio.wrap_future(ending))

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        if self._closing is not None:
            raise StoreClosed("Cannot operate on a closed database. Open a new AsyncSessionDB.")
        call: Future[T] = Future()
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        workers = self._workers()
        try:
            workers.submit(copy_context().run, _run, call, work)
        except RuntimeError as error:
            # No thread could be started, but the call is in the queue, and another may take it.
            if call.cancel():
                raise StoreUnavailable(f"The call could not be started: {error}.") from error
        except BaseException:
            # Ctrl-C while a thread was being started: the executor does not know of the thread
            # and would never end it, unless it is told to end all of them.
            call.cancel()
            workers.shutdown(wait=False)
            self._executor = self._new_executor()
            raise
        return call

    def _workers(self) -> ThreadPoolExecutor:
        if self._process != os.getpid():
            # Threads do not survive a fork.
            self._process = os.getpid()
            self._executor = self._new_executor()
            self._calls.clear()
        return self._executor

    def _new_executor(self) -> ThreadPoolExecutor:
        # It starts threads when they are needed, and ends them when it is forgotten.
        return ThreadPoolExecutor(self._size, thread_name_prefix="hermes-sessions-async")


class Opening(Coroutine[Any, Any, H]):
    """A store being opened: await it for the handle, or use it with ``async with``, which closes
    the handle at the end of the block. It is a coroutine, so it can also be made a task.
    """

    def __init__(self, opening: Coroutine[Any, Any, H]) -> None:
        self._opening = opening
        self._handle: H | None = None

    async def __aenter__(self) -> H:
        self._handle = await self._opening
        return self._handle

    async def __aexit__(self, *_exc: object) -> None:
        if self._handle is not None:
            await self._handle.close()

    def __await__(self) -> Generator[Any, Any, H]:
        return self._opening.__await__()

    def send(self, value: Any, /) -> Any:
        """Resume the coroutine."""
        return self._opening.send(value)

    def throw(
        self,
        kind: Any,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> Any:
        """Raise an exception in the coroutine."""
        if value is None and traceback is None:
            return self._opening.throw(kind)  # The other form is deprecated.
        return self._opening.throw(kind, value, traceback)

    def close(self) -> None:
        """End the coroutine before it has opened a store."""
        self._opening.close()


class _Iteration(Generic[T]):
    """An iterator that is stepped and closed in threads, never by two at a time."""

    def __init__(self, begin: Callable[[], Iterator[T]]) -> None:
        self._begin = begin
        self._lock = threading.Lock()
        self._iterator: Iterator[T] | None = None
        self._closed = False

    def step(self) -> list[T]:
        """Return the next item in a list; an empty one at the end."""
        with self._lock:
            if self._closed:
                raise StoreClosed("The store was closed before everything was read.")
            if self._iterator is None:
                self._iterator = self._begin()
            for item in self._iterator:
                return [item]
            return []

    def close(self) -> None:
        """Release the resources of the iterator."""
        with self._lock:
            self._closed = True
            # Not every iterator is a generator.
            close = getattr(self._iterator, "close", None)
            if close is not None:
                close()


def _start(purpose: str, call: Future[T], work: Callable[[], T]) -> None:
    """Do *work* in a thread that ends with it, even if Ctrl-C comes while the thread starts."""
    name = f"hermes-sessions-{purpose}"
    threading.Thread(target=_run, args=(call, work), name=name).start()


def _run(call: Future[T], work: Callable[[], T]) -> None:
    if call.set_running_or_notify_cancel():
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - it is raised where the call is awaited
            call.set_exception(error)
            del call  # The traceback of its error would keep a reference to it.
        else:
            call.set_result(result)


def _close_result(opening: Future[SessionDB]) -> None:
    wait([opening])
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _note_failure(call: Future[Any]) -> None:
    if not call.cancelled() and (error := call.exception()) is not None:
        logger.info("a call failed after it had been cancelled: %s", error)

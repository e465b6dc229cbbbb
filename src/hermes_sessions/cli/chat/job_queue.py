"""The queue of messages and commands in a chat, which run one after the other.

The agent works in its own thread, so that the user can type while it answers: a new line waits in
the queue or interrupts the answer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from hermes_sessions.agent.interrupts import Interrupt
from hermes_sessions.agent.slash_commands import TypedCommand


@dataclass(frozen=True, slots=True)
class Job:
    """A message to send, or a command that waits for the answer."""

    text: str = ""
    command: TypedCommand | None = None
    #: Whether a message sent right after it joins the same turn.
    is_open: bool = False


Do = Callable[[Job, Interrupt], None]


class JobQueue(Protocol):
    """Runs jobs one after the other."""

    @property
    def is_busy(self) -> bool:
        """Whether a job runs or waits."""

    def add(self, job: Job) -> int:
        """Add a job at the end; return how many jobs are before it."""

    def follow(self, text: str) -> None:
        """Interrupt the running job and send this message next, together with messages that
        interrupted it before.
        """

    def take_open(self) -> str | None:
        """Remove the next job if it is an open message; return its text, or None."""

    def interrupt(self) -> bool:
        """Interrupt the running job; return whether there was one."""

    def drop(self) -> int:
        """Remove all waiting jobs; return how many there were."""

    def close(self) -> None:
        """Interrupt, remove waiting jobs, and return when no job runs any more."""


class ImmediateJobQueue:
    """Runs each job at once, for a terminal without a prompt below the output."""

    is_busy = False

    def __init__(self, do: Do) -> None:
        self._do = do

    def add(self, job: Job) -> int:
        """See `JobQueue.add`."""
        self._do(job, Interrupt())
        return 0

    def follow(self, text: str) -> None:
        """See `JobQueue.follow`."""
        self.add(Job(text))

    def take_open(self) -> str | None:
        """See `JobQueue.take_open`."""
        return None

    def interrupt(self) -> bool:
        """See `JobQueue.interrupt`."""
        return False

    def drop(self) -> int:
        """See `JobQueue.drop`."""
        return 0

    def close(self) -> None:
        """See `JobQueue.close`."""


class BackgroundJobQueue:
    """Runs jobs in its own thread."""

    def __init__(self, do: Do, on_change: Callable[[], None] = lambda: None) -> None:
        """*on_change* is called in that thread whenever it becomes busy or idle."""
        self._do = do
        self._on_change = on_change
        self._changed = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._interrupt: Interrupt | None = None
        self._is_closed = False
        #: The unexpected error of a job; no job runs after it.
        self.failure: BaseException | None = None
        #: Called with that error, in the thread of the jobs.
        self.on_failure: Callable[[BaseException], None] = lambda _: None
        self._thread = threading.Thread(target=self._work, name="turns", daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """See `JobQueue.is_busy`."""
        with self._changed:
            return self._interrupt is not None or bool(self._waiting)

    def add(self, job: Job) -> int:
        """See `JobQueue.add`. Adjacent open messages are joined into one job."""
        with self._changed:
            if job.is_open and self._waiting and self._waiting[-1].is_open:
                self._waiting.append(_joined(self._waiting.pop(), job.text))
            else:
                self._waiting.append(job)
            before = len(self._waiting) - (self._interrupt is None)
            self._changed.notify_all()
        return before

    def follow(self, text: str) -> None:
        """See `JobQueue.follow`."""
        with self._changed:
            if self._waiting and self._waiting[0].is_open:
                self._waiting.appendleft(_joined(self._waiting.popleft(), text))
            else:
                self._waiting.appendleft(Job(text, is_open=True))
            self._changed.notify_all()
        self.interrupt()

    def take_open(self) -> str | None:
        """See `JobQueue.take_open`."""
        with self._changed:
            if self._waiting and self._waiting[0].is_open:
                return self._waiting.popleft().text
        return None

    def interrupt(self) -> bool:
        """See `JobQueue.interrupt`."""
        with self._changed:
            interrupt = self._interrupt
        if interrupt is None:
            return False
        interrupt.set()
        return True

    def drop(self) -> int:
        """See `JobQueue.drop`."""
        with self._changed:
            dropped = len(self._waiting)
            self._waiting.clear()
        return dropped

    def close(self) -> None:
        """See `JobQueue.close`."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()
        self.interrupt()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if self._is_closed:
                    return
                job = self._waiting.popleft()
                self._interrupt = Interrupt()
                interrupt = self._interrupt
            self._on_change()
            try:
                self._do(job, interrupt)
            except BaseException as error:  # noqa: BLE001 - raised again in the main thread
                self.failure = error
                self.on_failure(error)
                return
            finally:
                with self._changed:
                    self._interrupt = None
                self._on_change()


def _joined(job: Job, text: str) -> Job:
    return replace(job, text=f"{job.text}\n{text}")

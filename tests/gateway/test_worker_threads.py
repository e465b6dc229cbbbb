"""Threads that exist only while there is work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from hermes_sessions.gateway.worker_pool import WorkerThreads
from tests.gateway.harness import PATIENCE

NAME = "threads under test"


def at_work() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.001)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """The threads of one test are not counted by the next."""
    yield
    wait_until(lambda: not at_work())


class Gated:
    """Something to do that lasts until it may end."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.may_end = threading.Event()

    def do(self, number: int) -> None:
        self.begun.append(number)
        assert self.may_end.wait(PATIENCE)


def test_so_many_at_once_and_the_others_in_order() -> None:
    gated, threads = Gated(), WorkerThreads(2, name=NAME)
    for number in range(6):
        threads.call(lambda number=number: gated.do(number))  # type: ignore[misc]
    wait_until(lambda: len(gated.begun) == 2)
    assert len(at_work()) == 2
    gated.may_end.set()
    wait_until(lambda: not at_work())
    assert sorted(gated.begun[:2]) == [0, 1]
    assert sorted(gated.begun) == list(range(6))


def test_no_thread_waits_for_work() -> None:
    threads, done = WorkerThreads(8, name=NAME), list[int]()
    for number in range(3):
        threads.call(lambda number=number: done.append(number))  # type: ignore[misc]
        wait_until(lambda: not at_work())
    assert done == [0, 1, 2]


def test_a_failure_costs_no_thread() -> None:
    threads, done = WorkerThreads(1, name=NAME), threading.Event()
    for _ in range(3):
        threads.call(lambda: 1 // 0)
    threads.call(done.set)
    assert done.wait(PATIENCE)


def test_after_its_end_nothing_is_called() -> None:
    gated, threads = Gated(), WorkerThreads(1, name=NAME)
    threads.call(lambda: gated.do(1))
    threads.call(lambda: gated.do(2))
    wait_until(lambda: gated.begun == [1])
    threads.close()
    threads.call(lambda: gated.do(3))
    gated.may_end.set()
    wait_until(lambda: not at_work())
    assert gated.begun == [1]


def test_a_system_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    gated, threads = Gated(), WorkerThreads(2, name=NAME)
    threads.call(lambda: gated.do(1))
    wait_until(lambda: gated.begun == [1])
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        # A running thread takes it.
        threads.call(lambda: gated.do(2))
        gated.may_end.set()
        wait_until(lambda: not at_work())
        assert gated.begun == [1, 2]
        with pytest.raises(RuntimeError):
            threads.call(lambda: gated.do(3))
    threads.call(lambda: gated.do(4))
    wait_until(lambda: gated.begun == [1, 2, 4])

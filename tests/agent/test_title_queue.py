"""The title queue: each session once, a limited number, and none after the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from hermes_sessions.agent.title_generator import TitleQueue
from hermes_sessions.errors import StoreUnavailable
from tests.gateway.harness import PATIENCE


class Slow:
    """Gives titles when it is let; fails for those that are called so."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.given: list[str] = []
        self._changed = threading.Condition()

    def __call__(self, session_id: str) -> None:
        self.begun.set()
        assert self.go_on.wait(PATIENCE)
        with self._changed:
            self.given.append(session_id)
            self._changed.notify_all()
        if session_id == "fails":
            raise StoreUnavailable("away")

    def wait_for(self, session_id: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: session_id in self.given, PATIENCE), self.given


@pytest.fixture
def slow() -> Iterator[Slow]:
    slow = Slow()
    yield slow
    slow.go_on.set()


def test_a_session_waits_once_however_many_turns_it_has(slow: Slow) -> None:
    titling = TitleQueue(slow)
    assert titling.ask("first")
    assert slow.begun.wait(PATIENCE)
    assert [titling.ask("second") for _ in range(3)] == [True, False, False]
    slow.go_on.set()
    slow.wait_for("second")
    assert titling.ask("second"), "a later turn asks again"
    assert titling.ask("last")
    slow.wait_for("last")
    assert slow.given == ["first", "second", "second", "last"]
    titling.close()


def test_not_more_than_some_wait(slow: Slow) -> None:
    titling = TitleQueue(slow, most_waiting=2)
    titling.ask("at work")
    assert slow.begun.wait(PATIENCE)
    assert [titling.ask(name) for name in "abc"] == [True, True, False]
    slow.go_on.set()
    slow.wait_for("b")
    assert titling.ask("c")
    slow.wait_for("c")
    titling.close()


def test_a_failed_title_blocks_no_other(slow: Slow) -> None:
    slow.go_on.set()
    titling = TitleQueue(slow)
    titling.ask("fails")
    titling.ask("next")
    slow.wait_for("next")
    titling.close()


def test_nothing_is_asked_after_the_end(slow: Slow) -> None:
    titling = TitleQueue(slow)
    titling.close()
    assert not titling.ask("late"), "and the turn that asks does not fail"

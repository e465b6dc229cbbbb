"""Typing while the model answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from hermes_sessions.agent.interrupts import Interrupt
from hermes_sessions.cli.chat.job_queue import BackgroundJobQueue, Job
from hermes_sessions.cli.chat.screen import rows
from hermes_sessions_testing.scripted_model import Call, ScriptedModel, streamed
from tests.cli.harness import Hermes
from tests.cli.terminal import Terminal
from tests.cli.test_chat import appears, begin, said, settings, type_in


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        yield model


def configure(hermes: Hermes, mode: str) -> None:
    hermes.home.mkdir()
    (hermes.home / "config.yaml").write_text(f"display:\n  busy_input_mode: {mode}\n")


def leave(terminal: Terminal) -> None:
    terminal.keys("\x04")
    assert terminal.finish() == 0


class TestAtTheTerminal:
    def test_a_line_interrupts_and_is_said_next(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("Half of it", model.gate(), " never"), streamed("Another matter."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys("one\r")
            appears(terminal, "Half of it\n… ❯")
            type_in(terminal, "no, two\r", "Another matter.")
            assert (
                "❯ no, two\nHalf of it\nInterrupted. The text so far is kept.\n" in terminal.shown
            )
            leave(terminal)
        assert said(hermes) == ["one", "Half of it", "no, two", "Another matter."]

    def test_lines_wait_together(self, hermes: Hermes, model: ScriptedModel) -> None:
        configure(hermes, "queue")
        gate = model.gate()
        model.add(streamed("First", gate, "."), streamed("Second."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys("one\r")
            appears(terminal, "First\n… ❯")
            for text in ("two", "three"):
                terminal.keys(f"{text}\r")
                appears(terminal, f"❯ {text}\nQueued: sent after this answer.\nFirst\n… ❯")
            gate.open()
            terminal.wait_until(lambda shown: shown.endswith("Second.\n❯"), "Second.")
            leave(terminal)
        assert said(hermes) == ["one", "First.", "two\nthree", "Second."]

    def test_what_is_queued_has_turns_of_its_own(
        self, hermes: Hermes, model: ScriptedModel
    ) -> None:
        gate = model.gate()
        model.add(streamed("First", gate, "."), *(streamed(f"To {n}.") for n in "ABCDEF"))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys("one\r")
            appears(terminal, "First\n… ❯")
            for number, text in enumerate("ABCDEF", 1):
                terminal.keys(f"/queue {text}\r")
                appears(terminal, f"❯ /queue {text}\nQueued as number {number}.")
            gate.open()
            terminal.wait_until(lambda shown: shown.endswith("To F.\n❯"), "To F.")
            leave(terminal)
        expected = [text for n in "ABCDEF" for text in (n, f"To {n}.")]
        assert said(hermes) == ["one", "First.", *expected]

    def test_stop(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("Half of it", model.gate()), streamed("Whole."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys("one\r")
            appears(terminal, "Half of it\n… ❯")
            for number in (1, 2):
                terminal.keys("/queue more\r")
                queued = f"as number {number}. /stop drops queued messages."
                appears(terminal, f"{queued}\nHalf of it\n… ❯")
            terminal.keys("/stop\r")
            appears(terminal, "Dropped 2 queued messages.")
            terminal.wait_until(
                lambda shown: "The text so far is kept." in shown and shown.endswith("\n❯"), "idle"
            )
            type_in(terminal, "two\r", "Whole.")
            leave(terminal)
        assert said(hermes) == ["one", "Half of it", "two", "Whole."]

    def test_commands(self, hermes: Hermes, model: ScriptedModel) -> None:
        gate = model.gate()
        model.add(streamed("First", gate, "."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys("one\r")
            appears(terminal, "First\n… ❯")
            terminal.keys("/title another\r")
            appears(terminal, "Title: another\nFirst\n… ❯")
            terminal.keys("/undo\r")
            appears(terminal, "/undo runs after this answer.\nFirst\n… ❯")
            gate.open()
            appears(terminal, "Undid 1 exchange, from: one")
            terminal.wait_until(lambda shown: shown.endswith("\n❯"), "idle")
            leave(terminal)
        assert said(hermes) == []

    def test_steering(self, hermes: Hermes, model: ScriptedModel) -> None:
        configure(hermes, "steer")
        gate = model.gate()
        call = Call("session_search", '{"query": "pangolin"}')
        model.add(streamed("Looking.", gate, call), streamed("In French, then."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys("one\r")
            appears(terminal, "Looking.\n… ❯")
            terminal.keys("in French\r")
            appears(terminal, "Queued: sent after the next tool call, or after this answer.")
            gate.open()
            terminal.wait_until(lambda shown: shown.endswith("In French, then.\n❯"), "the answer")
            leave(terminal)
        sent = model.requests[1].body["messages"]
        assert [message["role"] for message in sent[-2:]] == ["tool", "user"]
        assert sent[-1]["content"] == "in French"

    def test_leaving_amid_an_answer(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("Half of it", model.gate()))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys("one\r")
            appears(terminal, "Half of it\n… ❯")
            terminal.keys("/queue two\r")
            # Ctrl-D is for the prompt that comes after this, not for whatever is there before it.
            appears(terminal, "as number 1. /stop drops queued messages.\nHalf of it\n… ❯")
            leave(terminal)
            assert "Dropped 1 queued message." in terminal.shown
            assert "hermes -c mine" in terminal.shown
        assert said(hermes) == ["one", "Half of it"]


class TestTurns:
    def test_a_failure_is_not_lost(self) -> None:
        def fail(_job: Job, _interrupt: Interrupt) -> None:
            raise ZeroDivisionError

        told = threading.Event()
        turns = BackgroundJobQueue(fail)
        turns.on_failure = lambda _: told.set()
        turns.add(Job("x"))
        assert told.wait(60)
        turns.close()
        assert isinstance(turns.failure, ZeroDivisionError)

    def test_what_interrupts_comes_before_what_waits(self) -> None:
        begun, done = threading.Event(), []

        def do(job: Job, interrupt: Interrupt) -> None:
            done.append(job.text)
            begun.set()
            if job.text == "first":
                assert interrupt.wait(60)
            if job.text == "last":
                finished.set()

        finished = threading.Event()
        turns = BackgroundJobQueue(do)
        assert turns.add(Job("first")) == 0
        assert begun.wait(60)
        assert turns.add(Job("last")) == 1
        turns.follow("at once")
        assert finished.wait(60)
        turns.close()
        assert done == ["first", "at once", "last"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", []),
        ("abcde", ["abcde"]),
        ("abcdef", ["abcde", "f"]),
        ("a\tb", ["a   b"]),
        ("äbcdefghijklmnop", ["fghij", "klmno", "p"]),
        ("\x1b[2mabcdef\x1b[0m", ["\x1b[2mabcde\x1b[0m", "\x1b[2mf\x1b[0m"]),
        ("日本語", ["日本", "語"]),
        ("abcdefghijklmnop", ["fghij", "klmno", "p"]),
    ],
)
def test_rows(line: str, expected: list[str]) -> None:
    assert rows(line, 5, 3) == expected

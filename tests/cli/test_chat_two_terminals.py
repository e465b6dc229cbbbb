"""Two terminals on one conversation: one runs a turn, the other is told and loses nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hermes_sessions_testing.scripted_model import ScriptedModel, streamed
from tests.cli.harness import Hermes
from tests.cli.terminal import Terminal
from tests.cli.test_chat import appears, begin, said, settings, type_in


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        yield model


def leave(terminal: Terminal) -> None:
    terminal.keys("\x04")
    assert terminal.finish() == 0


def test_two_terminals(hermes: Hermes, model: ScriptedModel) -> None:
    gate = model.gate()
    model.add(streamed("Hello."), streamed("Half", gate, " and half."), streamed("Two it is."))
    with Terminal(hermes, **settings(model)) as first:
        begin(first)
        type_in(first, "hi\r", "Hello.")
        with Terminal(hermes, "-c", **settings(model)) as second:
            appears(second, "Continuing")
            first.keys("one\r")
            appears(first, "Half")
            second.keys("two\r")
            appears(second, "Not done: The conversation of session")
            appears(second, "has been held by the chat in")
            # What was typed is in the line again.
            second.wait_until(lambda shown: shown.rstrip("\n").endswith("❯ two"), "❯ two")
            gate.open()
            first.wait_until(lambda shown: shown.endswith("half.\n❯"), "half.")
            type_in(second, "\r", "Two it is.")
            leave(second)
        leave(first)
    assert said(hermes) == ["hi", "Hello.", "one", "Half and half.", "two", "Two it is."]


def test_a_question_beside_a_chat(hermes: Hermes, model: ScriptedModel) -> None:
    gate = model.gate()
    model.add(streamed("Half", gate, " and half."))
    environ = hermes.environ(**settings(model))
    with Terminal(hermes, **settings(model)) as chat:
        begin(chat)
        chat.keys("one\r")
        appears(chat, "Half")
        result = hermes.run("-c", "-q", "two", env=environ)
        assert (result.code, result.out) == (1, "")
        assert "has been held by the chat in /dev/" in result.err
        gate.open()
        chat.wait_until(lambda shown: shown.endswith("half.\n❯"), "half.")
        leave(chat)
    assert said(hermes) == ["one", "Half and half."]


@pytest.mark.fault(
    "A chat is killed in the middle of a turn",
    "The session continues in another chat on the same machine at once",
    on="sqlite",
)
def test_a_chat_that_was_killed(hermes: Hermes, model: ScriptedModel) -> None:
    model.add(streamed("Half", model.gate()), streamed("I am back."))
    environ = hermes.environ(**settings(model))
    with Terminal(hermes, **settings(model)) as chat:
        begin(chat)
        chat.keys("one\r")
        appears(chat, "Half")
        chat.process.kill()
        chat.process.wait()
    result = hermes.run("-c", "-q", "two", env=environ)
    assert (result.code, result.err, result.out) == (0, "", "I am back.\n")
    assert said(hermes)[-2:] == ["two", "I am back."]


def test_a_plain_terminal(hermes: Hermes, model: ScriptedModel) -> None:
    """What was typed stands above; who holds the conversation is said."""
    model.add(streamed("Hello."))
    with Terminal(hermes, "--plain", **settings(model)) as terminal:
        begin(terminal, ">")
        type_in(terminal, "hi\r", "Hello.", ">")
        with hermes.db() as db:
            (session,) = db.list_sessions_rich()
            db.take_lease(session["id"], "the gateway on host1", ttl=1e9)
        type_in(terminal, "two\r", "has been held by the gateway on host1", ">")
        leave(terminal)
    assert said(hermes) == ["hi", "Hello."]

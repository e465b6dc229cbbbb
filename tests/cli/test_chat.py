"""Talking to a model in a terminal, as a person does it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hermes_sessions.testing.scripted_model import Call, ScriptedModel, failure, streamed
from tests.cli.harness import Hermes
from tests.cli.terminal import Terminal

# The title is asked for in the background, at any moment: these sessions have one already.
TITLED = "/title mine\r"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        yield model


def settings(model: ScriptedModel) -> dict[str, str]:
    return {
        "HERMES_BASE_URL": model.base_url,
        "HERMES_API_KEY": "secret",
        "HERMES_MODEL": "scripted-1",
        "TERM": "xterm",
        "PROMPT_TOOLKIT_NO_CPR": "1",  # nobody answers where the cursor is
    }


def type_in(terminal: Terminal, keys: str, answer: str, sign: str = "❯") -> None:
    """Type when the prompt is there, and wait for what is said and for the next prompt."""
    terminal.keys(keys)
    terminal.wait_for(answer)
    terminal.screen = terminal.screen.rpartition(answer)[2]
    terminal.wait_for(sign)


def begin(terminal: Terminal, sign: str = "❯") -> None:
    terminal.wait_for("Ctrl-D leaves")
    terminal.wait_for(sign)
    type_in(terminal, TITLED, "Title: mine", sign)


def stored(hermes: Hermes) -> list[tuple[str, str, object]]:
    with hermes.db() as db:
        return [
            (session["id"], message["role"], message["content"])
            for session in db.list_sessions_rich(limit=-1, include_children=True)
            for message in db.get_messages(session["id"])
        ]


def said(hermes: Hermes) -> list[object]:
    return [content for _, _, content in stored(hermes)]


class TestOnce:
    def test_an_answer_on_standard_output(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("Hello", " there"), streamed("A short title"))
        result = hermes.run("-q", "Hi", env=hermes.environ(**settings(model)))
        assert (result.code, result.out) == (0, "Hello there\n")
        assert said(hermes) == ["Hi", "Hello there"]
        with hermes.db() as db:
            (session,) = db.list_sessions_rich()
            assert (session["title"], session["source"]) == ("A short title", "cli")

    def test_a_question_from_a_pipe(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("yes"), streamed("A title"))
        result = hermes.run("chat", stdin="Is it?\n", env=hermes.environ(**settings(model)))
        assert (result.code, result.out) == (0, "yes\n")

    def test_json(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("yes"), streamed("A title"))
        environ = hermes.environ(**settings(model))
        result = hermes.run("chat", "--json", "--query", "Is it?", env=environ)
        assert (result.json["answer"], result.json["ended"]) == ("yes", "answered")
        assert result.json["session_id"] == stored(hermes)[0][0]

    def test_flags_choose_the_model(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("yes"), streamed("A title"), streamed("no"))
        flags = ("--base-url", model.base_url, "--model", "m-2")
        environ = hermes.environ(HERMES_API_KEY="secret")
        result = hermes.run("chat", "-q", "Is it?", *flags, env=environ)
        assert (result.code, result.out) == (0, "yes\n")
        assert model.requests[0].body["model"] == "m-2"
        session_id = stored(hermes)[0][0]
        again = ("chat", "--resume", session_id[:12], "-m", "m-3", "--base-url", model.base_url)
        assert hermes.run(*again, "-q", "Is it?", env=environ).out == "no\n"
        assert model.requests[-1].body["model"] == "m-3"

    def test_going_on(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("one"), streamed("My project"), streamed("two"), streamed("three"))
        hermes.run("-q", "first", env=hermes.environ(**settings(model)))
        hermes.run("-c", "-q", "second", env=hermes.environ(**settings(model)))
        result = hermes.run(
            "chat", "-c", "my", "project", "-q", "third", env=hermes.environ(**settings(model))
        )
        assert result.code == 1, "titles are found in the case they have"
        result = hermes.run(
            "-c", "My", "project", "-q", "third", env=hermes.environ(**settings(model))
        )
        assert (result.code, result.out) == (0, "three\n")
        assert said(hermes) == ["first", "one", "second", "two", "third", "three"]

    def test_what_is_not_there(self, hermes: Hermes, model: ScriptedModel) -> None:
        for arguments in (("-c",), ("-r", "nobody"), ("chat", "--continue", "no", "such")):
            result = hermes.run(*arguments, "-q", "x", env=hermes.environ(**settings(model)))
            assert result.code == 1
            assert "no session" in result.err
        assert hermes.run("-r", "-q", "x", env=hermes.environ(**settings(model))).code == 2
        assert hermes.run("-q", " ", env=hermes.environ(**settings(model))).code == 1
        assert model.requests == []

    def test_a_model_that_refuses(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(failure(401, "bad key"), failure(401, "bad key"))
        result = hermes.run("-q", "Hi", env=hermes.environ(**settings(model)))
        assert result.code == 1
        assert "secret" not in result.err
        assert said(hermes) == ["Hi"]


class TestConversation:
    def test_talking_and_leaving(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("First", " answer."), streamed("Second answer."))
        with Terminal(hermes, **settings(model)) as terminal:
            terminal.wait_for("scripted-1 at 127.0.0.1")
            begin(terminal)
            type_in(terminal, "one\r", "First answer.")
            type_in(terminal, "two\r", "Second answer.")
            terminal.keys("\x04")
            assert terminal.finish() == 0
            assert "hermes --resume" in terminal.screen
            assert "hermes -c mine" in terminal.screen
        assert said(hermes) == ["one", "First answer.", "two", "Second answer."]

    def test_the_recap(self, hermes: Hermes, model: ScriptedModel) -> None:
        with hermes.db() as db:
            db.create_session("old", "cli")
            db.set_session_title("old", "my project")
            db.append_message("old", "user", "Where were we?")
            db.append_message("old", "assistant", "At the ledger.")
        with Terminal(hermes, "-c", "my", "project", **settings(model)) as terminal:
            terminal.wait_for("Going on with old (my project): 1 question, 2 messages.")
            assert "Previous Conversation" in terminal.screen
            assert "At the ledger." in terminal.screen
            terminal.wait_for("❯")
            terminal.keys("\x04")
            assert terminal.finish() == 0
        assert len(stored(hermes)) == 2

    def test_ctrl_c_amid_an_answer(self, hermes: Hermes, model: ScriptedModel) -> None:
        gate = model.gate()
        model.add(streamed("Half of", " it", gate, " never"), streamed("Whole."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys("one\r")
            terminal.wait_for("Half of it")
            type_in(terminal, "\x03", "Interrupted. What was said is kept.")
            type_in(terminal, "two\r", "Whole.")
            terminal.keys("/quit\r")
            assert terminal.finish() == 0
        assert said(hermes) == ["one", "Half of it", "two", "Whole."]

    def test_an_outage(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(failure(400, "broken"), streamed("Back."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            type_in(terminal, "one\r", "/retry asks again")
            type_in(terminal, "/retry\r", "Back.")
            terminal.keys("\x04")
            assert terminal.finish() == 0
        assert said(hermes) == ["one", "Back."]

    def test_tools(self, hermes: Hermes, model: ScriptedModel) -> None:
        with hermes.db() as db:
            db.create_session("old", "cli")
            db.append_message("old", "user", "the pangolin lives in the ledger")
        call = Call("session_search", '{"query": "pangolin"}')
        model.add(streamed(call), streamed("In the ledger."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys("Where is it?\r")
            terminal.wait_for("session_search")
            terminal.wait_for("In the ledger.")
            terminal.screen = ""
            type_in(terminal, "/status\r", "Messages: 4")
            terminal.keys("\x04")
            assert terminal.finish() == 0
        assert "pangolin" in str(model.requests[1].body["messages"][-1]["content"])

    def test_commands(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("First."), streamed("Second."), streamed("Third."))
        with hermes.db() as db:
            db.create_session("old", "cli")
            db.append_message("old", "user", "about the ledger")
        with Terminal(hermes, **settings(model)) as terminal:
            terminal.wait_for("Ctrl-D leaves")
            terminal.wait_for("❯")
            for keys, answer in (
                ("/help\r", "/compress [focus]"),
                ("/titel x\r", "Did you mean /title?"),
                (TITLED, "Title: mine"),
                ("/status\r", "begins with your first message"),
                ("/usage\r", "Nothing was used yet"),
                ("one\r", "First."),
                ("/status\r", "Messages: 2"),
                ("/usage\r", "Cost: unknown"),
                ("/undo\r", "Took back 1 exchange, from: one"),
                ("/undo\r", "There is nothing to take back"),
                ("two\r", "Second."),
                ("/branch\r", "(mine #2)"),
                ("/sessions\r", "about the ledger"),
                ("/search ledger\r", "1 match."),
                ("/stop\r", "Nothing is running"),
                ("/model other-1\r", "other-1 is asked"),
                ("three\r", "Third."),
                ("/resume old\r", "Going on with old."),
                ("/new Next\r", "A new session"),
                ("/title\r", "not stored yet: Next"),
            ):
                type_in(terminal, keys, answer)
            terminal.keys("/exit\r")
            assert terminal.finish() == 0
        assert model.requests[-1].body["model"] == "other-1"

    def test_plain(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("First."))
        with Terminal(hermes, "--plain", **settings(model)) as terminal:
            begin(terminal, "> ")
            type_in(terminal, "one\n", "First.", "> ")
            terminal.keys("\x04")
            assert terminal.finish() == 0
        assert "\x1b" not in terminal.screen

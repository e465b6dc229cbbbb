"""`hermes chat` in a terminal, as a user runs it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from hermes_sessions.agent.clients.model_selection import choose_model
from hermes_sessions.agent.interrupts import Interrupt
from hermes_sessions.agent.slash_commands import COMMANDS, TypedCommand
from hermes_sessions.cli.chat.prompt import StdinReader
from hermes_sessions.cli.chat.slash_command_handlers import TerminalCommands
from hermes_sessions.cli.console import Console
from hermes_sessions.config import load_settings
from hermes_sessions.errors import InvalidInput
from hermes_sessions_testing.scripted_model import Call, ScriptedModel, Thought, failure, streamed
from tests.cli.harness import Hermes
from tests.cli.terminal import Terminal

# The title is asked for in the background, at any moment: these sessions have one already.
TITLED = "/title mine\r"
(MODEL,) = (command for command in COMMANDS if command.name == "model")


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
        "PROMPT_TOOLKIT_NO_CPR": "1",  # no terminal reports the cursor position
    }


def type_in(terminal: Terminal, keys: str, answer: str, sign: str = "❯") -> None:
    """Type when the prompt is there, and wait for what is said and for the next prompt."""
    before = terminal.shown.rpartition("\n")[0]
    terminal.keys(keys)

    def is_answered(shown: str) -> bool:
        said, _, last = shown.rstrip("\n").rpartition("\n")
        return answer in said[len(before) :] and last.startswith(sign.strip())

    terminal.wait_until(is_answered, answer)


def appears(terminal: Terminal, text: str) -> None:
    terminal.wait_until(lambda shown: text in shown, text)


def begin(terminal: Terminal, sign: str = "❯") -> None:
    terminal.wait_until(lambda shown: shown.rstrip("\n").endswith(f"leaves.\n{sign.strip()}"), sign)
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

    def test_bytes_that_are_no_text(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("yes"), streamed("A title"))
        # As in a locale such as en_US.UTF-8.
        environ = {**settings(model), "PYTHONIOENCODING": "utf-8:strict"}
        asked = {"stdin": "caf\udce9?\n", "environ": environ, "errors": "surrogateescape"}
        result = hermes.run("chat", **asked)
        assert (result.code, result.out) == (0, "yes\n")
        assert said(hermes) == ["caf\udce9?", "yes"]
        with hermes.db() as db:
            session_id = db.list_sessions_rich()[0]["id"]
        refused = hermes.run("sessions", "delete", session_id, **asked)
        assert refused.code == 1
        assert "Cancelled" in refused.err

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

    def test_an_endpoint_that_needs_time(self, hermes: Hermes, model: ScriptedModel) -> None:
        busy = failure(429, "slow down", retry_after="0.01")
        model.add(busy, streamed("yes"), streamed("A title"))
        result = hermes.run("-q", "Is it?", env=hermes.environ(**settings(model)))
        assert (result.code, result.out) == (0, "yes\n")
        assert "(429)" in result.err
        assert "Waiting 0.0 s, then attempt 2 of 5." in result.err

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

    def test_going_on_in_a_project(
        self, hermes: Hermes, model: ScriptedModel, tmp_path: Path
    ) -> None:
        """A question belongs to the directory it was asked in, also after a move."""
        folders = [tmp_path / name for name in ("api", "web")]
        for folder in folders:
            folder.mkdir()
            model.add(streamed("yes"), streamed(f"About {folder.name}"))
            hermes.run("-q", folder.name, env=hermes.environ(**settings(model)), cwd=folder)
        model.add(streamed("again"))
        hermes.run(
            "chat",
            "-c",
            "--here",
            "-q",
            "and?",
            env=hermes.environ(**settings(model)),
            cwd=folders[0],
        )
        with hermes.db() as db:
            [session] = db.list_sessions_rich(workspace="api")
            assert (session["title"], session["cwd"]) == ("About api", str(folders[0]))
            assert session["message_count"] == 4
        (tmp_path / "new").mkdir()
        options = {"env": hermes.environ(**settings(model)), "cwd": tmp_path / "new"}
        result = hermes.run("-c", "--here", "-q", "x", **options)
        assert (result.code, "in this project" in result.err) == (1, True)
        for wrong in (("--here",), ("-c", "name", "--here"), ("-r", "name", "--here")):
            assert hermes.run(*wrong, "-q", "x", **options).code == 2

    def test_what_is_not_there(self, hermes: Hermes, model: ScriptedModel) -> None:
        for arguments in (("-c",), ("-r", "nobody"), ("chat", "--continue", "no", "such")):
            result = hermes.call(*arguments, "-q", "x", environ=settings(model))
            assert result.code == 1
            assert "no session" in result.err.lower()
        assert hermes.call("-r", "-q", "x", environ=settings(model)).code == 2
        assert hermes.call("-q", " ", environ=settings(model)).code == 1
        assert model.requests == []

    def test_nothing_is_fetched_in_vain(
        self, hermes: Hermes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fetch(**_: object) -> None:
            raise AssertionError("fetched")

        monkeypatch.setattr("hermes_sessions.agent.clients.local_model.fetch", fetch)
        for arguments in (("-c", "-q", "x"), ("-r", "nobody", "-q", "x"), ("chat", "-q", " ")):
            assert hermes.call(*arguments).code == 1

    def test_ctrl_c(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("Half of it", model.gate()), failure(400))
        process = hermes.start("-q", "Hi", environ=settings(model))
        assert process.stdout is not None
        assert process.stdout.read(10) == "Half of it"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        assert process.returncode == 130
        assert "Interrupted. The text so far is kept." in err
        assert said(hermes) == ["Hi", "Half of it"]

    def test_a_session_that_has_become_too_long(self, hermes: Hermes, model: ScriptedModel) -> None:
        with hermes.db() as db:
            db.create_session("old", "cli")
            db.set_session_title("old", "my project")
            for number in range(12):
                db.append_message("old", "user", f"question {number}")
                db.append_message("old", "assistant", f"answer {number}")
        model.add(
            failure(400, "maximum context length is 4096 tokens", code="context_length_exceeded"),
            streamed("They spoke of it."),
            streamed("It is this."),
        )
        result = hermes.run("-c", "my project", "-q", "And?", environ=settings(model))
        assert (result.code, result.out) == (0, "It is this.\n")
        assert "too long for the model. Summarising it." in result.err
        with hermes.db() as db:
            session = db.get_session_by_title("my project #2")
            assert session is not None
            told = [message["content"] for message in db.get_messages(session["id"])]
            assert len(db.get_messages("old")) == 25
        assert told[0].endswith("They spoke of it.")
        assert told[-2:] == ["And?", "It is this."]

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
            appears(terminal, "Continuing old (my project): 1 question, 2 messages.\n❯")
            assert "Previous Conversation" in terminal.shown
            assert "At the ledger." in terminal.shown
            terminal.keys("\x04")
            assert terminal.finish() == 0
        assert len(stored(hermes)) == 2
        with hermes.db() as db:
            session = db.get_session("old")
        assert session is not None
        assert session["ended_at"] is None, "it was only looked at"

    def test_a_short_recap(self, hermes: Hermes, model: ScriptedModel) -> None:
        with hermes.db() as db:
            db.create_session("old", "cli")
            db.append_message("old", "user", "Where were we?")
            db.create_session("other", "cli")
            db.append_message("other", "user", "Who are you?")
        (hermes.home / "config.yaml").write_text("display:\n  resume_display: minimal\n")
        with Terminal(hermes, "-r", "old", **settings(model)) as terminal:
            appears(terminal, "Continuing old: 1 question, 1 message.\n❯")
            assert "Where were we?" not in terminal.shown
            type_in(terminal, "/resume other\r", "Continuing other.")
            assert "Who are you?" not in terminal.shown
            terminal.keys("\x04")
            assert terminal.finish() == 0

    def test_ctrl_c_amid_an_answer(self, hermes: Hermes, model: ScriptedModel) -> None:
        gate = model.gate()
        model.add(streamed("Half of", " it", gate, " never"), streamed("Whole."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys("one\r")
            appears(terminal, "Half of it\n… ❯")
            type_in(terminal, "\x03", "Interrupted. The text so far is kept.")
            type_in(terminal, "two\r", "Whole.")
            terminal.keys("/quit\r")
            assert terminal.finish() == 0
        assert said(hermes) == ["one", "Half of it", "two", "Whole."]

    def test_ctrl_c_while_nothing_comes(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("never").held_by(model.gate()), streamed("Whole."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys("one\r")
            appears(terminal, "❯ one\n… ❯")
            model.wait_for_requests(1)
            type_in(terminal, "\x03", "Interrupted. The text so far is kept.")
            type_in(terminal, "two\r", "Whole.")
            terminal.keys("\x04")
            assert terminal.finish() == 0
        assert said(hermes) == ["one", "two", "Whole."]

    @pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
    def test_being_told_to_end(
        self, hermes: Hermes, model: ScriptedModel, number: signal.Signals
    ) -> None:
        model.add(streamed("Half of it", model.gate()))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys("one\r")
            appears(terminal, "Half of it\n… ❯")
            terminal.process.send_signal(number)
            assert terminal.finish() == 128 + number
        assert said(hermes) == ["one", "Half of it"]
        with hermes.db() as db:
            assert db.list_sessions_rich()[0]["end_reason"] == "cli_close"

    def test_a_terminal_that_is_closed(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("Half of it", model.gate()))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys("one\r")
            appears(terminal, "Half of it\n… ❯")
            terminal.close()
            terminal.process.wait(60)
        assert said(hermes) == ["one", "Half of it"]

    def test_a_kill(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("First."), streamed("Half of it", model.gate()))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            type_in(terminal, "one\r", "First.")
            terminal.keys("two\r")
            appears(terminal, "Half of it\n… ❯")
            terminal.process.kill()
            terminal.process.wait(60)
        assert said(hermes) == ["one", "First.", "two"]

    def test_completion(self, hermes: Hermes, model: ScriptedModel) -> None:
        with hermes.db() as db:
            db.create_session("old", "cli")
            db.set_session_title("old", "my project")
            db.append_message("old", "user", "Where were we?")
        with Terminal(hermes, **settings(model)) as terminal:
            appears(terminal, "leaves.\n❯")
            terminal.keys("/ti\t")
            appears(terminal, "❯ /title")
            type_in(terminal, " mine\r", "Title: mine")
            terminal.keys("/resume my\t")
            appears(terminal, "❯ /resume my project")
            type_in(terminal, "\r", "Continuing old.")
            terminal.keys("/export h\t")
            appears(terminal, "❯ /export html")
            terminal.keys("\x03\x04")
            assert terminal.finish() == 0

    def test_what_the_model_thinks(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed(Thought("Hm, let me"), Thought(" think."), "It is there."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            type_in(terminal, "one\r", "❯ one\nHm, let me think.\nIt is there.")
            terminal.keys("\x04")
            assert terminal.finish() == 0
        with hermes.db() as db:
            answer = db.get_messages(stored(hermes)[0][0])[-1]
        assert (answer["content"], answer["reasoning"]) == ("It is there.", "Hm, let me think.")

    def test_typing_ahead(self, hermes: Hermes, model: ScriptedModel) -> None:
        """Nothing waits for a prompt here, neither a line nor the Ctrl-D after it."""
        model.add(streamed("First."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys("/queue one\r/usage\r/status\r")
            appears(terminal, "First.")
            terminal.wait_until(lambda shown: shown.rstrip().endswith("\n❯"), "idle")
            terminal.keys("/title other\r\x04")
            assert terminal.finish() == 0
            assert "hermes -c other" in terminal.shown
        assert said(hermes) == ["one", "First."]

    def test_an_outage(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(failure(400, "broken"), streamed("Back."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            type_in(terminal, "one\r", "Your message is stored; /retry")
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
            type_in(terminal, "Where is it?\r", "In the ledger.")
            assert '· session_search {"query": "pangolin"}' in terminal.shown
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
            appears(terminal, "leaves.\n❯")
            for keys, answer in (
                ("/help\r", "/compress [focus]"),
                ("/titel x\r", "Did you mean /title?"),
                (TITLED, "Title: mine"),
                ("/status\r", "starts with your first message"),
                ("/usage\r", "No tokens used yet"),
                ("one\r", "First."),
                ("/status\r", "Messages: 2"),
                ("/usage\r", "Cost: unknown"),
                ("/undo\r", "Undid 1 exchange, from: one"),
                ("/undo\r", "There is nothing to undo"),
                ("two\r", "Second."),
                ("/model other-0\r", "Using other-0"),
                ("/status\r", "Model: other-0 at"),
                ("/branch\r", "(mine #2)"),
                ("/sessions\r", "about the ledger"),
                ("/search ledger\r", "1 match."),
                ("/stop\r", "Nothing is running"),
                ("/model other-1\r", "Using other-1"),
                ("three\r", "Third."),
                ("/resume old\r", "Continuing old."),
                ("/new Next\r", "A new session"),
                ("/title\r", "not stored yet: Next"),
            ):
                type_in(terminal, keys, answer)
            terminal.keys("/exit\r")
            assert terminal.finish() == 0
        assert model.requests[-1].body["model"] == "other-1"

    def test_taking_back_more_than_there_is(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("First."), streamed("Second."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            type_in(terminal, "one\r", "First.")
            type_in(terminal, "two\r", "Second.")
            type_in(terminal, f"/undo {'9' * 30}\r", "Undid 2 exchanges, from: one")
            terminal.keys("\x04")
            assert terminal.finish() == 0
        assert said(hermes) == []

    def test_what_it_cost(self, hermes: Hermes, model: ScriptedModel) -> None:
        hermes.home.mkdir()
        price = "model:\n  prices:\n    scripted-1: 1 in, 2 out, 0.5 cached\n"
        (hermes.home / "config.yaml").write_text(price)
        usage = {
            "prompt_tokens": 1000,
            "completion_tokens": 100,
            "prompt_tokens_details": {"cached_tokens": 400},
        }
        model.add(streamed("First.", usage=usage))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            type_in(terminal, "one\r", "First.")
            type_in(terminal, "/usage\r", "Tokens: 600 in, 100 out, 400 cache read")
            type_in(terminal, "/usage\r", "Cost: $0.0010 (estimated)")
            terminal.keys("\x04")
            assert terminal.finish() == 0
        (session,) = hermes.run("sessions", "list", "--json").json["sessions"]
        assert (session["cost_status"], session["cost_source"]) == ("estimated", "config")
        assert "Cost:         $0.0010" in hermes.run("sessions", "show", "mine").out

    def test_a_window_that_changes_its_size(self, hermes: Hermes, model: ScriptedModel) -> None:
        gate = model.gate()
        text = "A sentence that is longer than the window will be. "
        model.add(streamed(text, gate, "The end."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys("one\r")
            appears(terminal, text.rstrip())
            terminal.resize(40)
            appears(terminal, "A sentence that is longer than the windo\nw will be.\n… ❯")
            gate.open()
            terminal.wait_until(
                lambda shown: shown.rstrip("\n").endswith(f"{text}The end.\n❯"), "the whole line"
            )
            terminal.keys("\x04")
            assert terminal.finish() == 0

    def test_several_lines(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("Two lines.\nHere."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys("one\x1b\r")
            appears(terminal, "❯ one\n")
            terminal.keys("two\\\r")
            type_in(terminal, "three\r", "Two lines.\nHere.")
            terminal.keys("\x04")
            assert terminal.finish() == 0
        assert said(hermes)[0] == "one\ntwo\nthree"

    def test_what_is_pasted_does_not_act_on_the_terminal(
        self, hermes: Hermes, model: ScriptedModel
    ) -> None:
        model.add(streamed("Thank you."))
        pasted = "if x:\n    \x1b]0;owned\x07red"
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            terminal.keys(f"\x1b[200~{pasted}\x1b[201~")
            appears(terminal, "owned")
            terminal.keys("\\\r")
            type_in(terminal, "end\r", "Thank you.")
            assert "❯ if x:\n      \ufffd]0;owned\ufffdred\n  end\nThank you." in terminal.shown
            terminal.keys("\x04")
            assert terminal.finish() == 0
            assert "\x1b]0;" not in terminal.screen
        assert said(hermes)[0] == f"{pasted}\nend"

    @pytest.mark.parametrize(
        "usage",
        [
            {"prompt_tokens": 850, "completion_tokens": 20},
            pytest.param(None, id="an endpoint that does not count"),
        ],
    )
    def test_room_is_made_in_time(
        self, hermes: Hermes, model: ScriptedModel, usage: dict[str, int] | None
    ) -> None:
        hermes.home.mkdir()
        (hermes.home / "config.yaml").write_text("model:\n  context_length: 1000\n")
        model.add(
            streamed("First."),
            streamed("Second.", usage=usage),
            streamed("They counted."),
            streamed("Third."),
        )
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            type_in(terminal, "one\r", "First.")
            type_in(terminal, "two " + "x" * 3300 + "\r", "Summarising it.")
            type_in(terminal, "three\r", "Third.")
            terminal.keys("\x04")
            assert terminal.finish() == 0
            assert "hermes -c 'mine #2'" in terminal.shown
        sent = model.requests[-1].body["messages"]
        assert "They counted." in str(sent)
        assert "one" not in [message["content"] for message in sent]

    def test_every_new_session_gets_a_title(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.otherwise = streamed("Something said")
        with Terminal(hermes, **settings(model)) as terminal:
            appears(terminal, "leaves.\n❯")
            type_in(terminal, "one\r", "Something said")
            model.wait_for_requests(2)
            type_in(terminal, "/new\r", "A new session")
            type_in(terminal, "two\r", "Something said")
            model.wait_for_requests(4)
            terminal.keys("\x04")
            assert terminal.finish() == 0
        with hermes.db() as db:
            titles = sorted(str(session["title"]) for session in db.list_sessions_rich())
        assert titles == ["Something said", "Something said #2"]

    def test_handing_over(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("First."))
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            type_in(terminal, "/handoff telegram\r", "There is nothing to hand off yet.")
            type_in(terminal, "one\r", "First.")
            type_in(terminal, "/handoff\r", "Say which platform: /handoff telegram")
            type_in(
                terminal,
                "/handoff Telegram\r",
                "The session continues in the home channel of telegram",
            )
            type_in(terminal, "/handoff telegram\r", "This session is already being handed off.")
            type_in(terminal, "/status\r", "Handed off to telegram: pending")
            terminal.keys("\x04")
            assert terminal.finish() == 0
        with hermes.db() as db:
            (waiting,) = db.list_pending_handoffs()
        assert waiting["handoff_platform"] == "telegram"

    def test_exporting(self, hermes: Hermes, model: ScriptedModel, short_path: Path) -> None:
        model.add(streamed("First."))
        hermes.home.mkdir()
        # Short enough for lines that are not broken.
        here = short_path
        with Terminal(hermes, **settings(model)) as terminal:
            begin(terminal)
            type_in(terminal, "/export\r", "There is nothing to export yet.")
            type_in(terminal, "one\r", "First.")
            for asked, name in (
                (f"{here}/a.md", "a.md"),
                (f"html {here}/b.txt", "b.txt"),
                (f"{here}/c.jsonl", "c.jsonl"),
            ):
                type_in(terminal, f"/export {asked}\r", f"Wrote {here}/{name}.")
            type_in(terminal, f"/export {here}/a.md\r", "already exists.")
            type_in(terminal, f"/export {hermes.store}-wal\r", "Error:")
            type_in(terminal, "/export ~nobody/x.md\r", "x.md: No such file")
            type_in(terminal, f"/export {'x' * 300}\r", "cannot be written: File name too long.")
            terminal.keys("\x04")
            assert terminal.finish() == 0
        assert (here / "a.md").read_text().startswith("#")
        assert (here / "b.txt").read_text().startswith("<!DOCTYPE html>")
        assert json.loads((here / "c.jsonl").read_text())["title"] == "mine"

    def test_plain(self, hermes: Hermes, model: ScriptedModel) -> None:
        model.add(streamed("First."))
        with Terminal(hermes, "--plain", **settings(model)) as terminal:
            begin(terminal, "> ")
            type_in(terminal, "one\n", "First.", "> ")
            terminal.keys("\x04")
            assert terminal.finish() == 0
            assert ">\nStored: " in terminal.shown
        assert "\x1b" not in terminal.screen

    @pytest.mark.parametrize(
        ("given", "ending"), [(KeyboardInterrupt, KeyboardInterrupt), ("", EOFError)]
    )
    def test_a_line_that_is_given_up(
        self,
        given: object,
        ending: type[BaseException],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """What follows begins on a line of its own."""
        keyboard = mock.Mock()
        keyboard.readline.side_effect = ["one\\\n", given]
        monkeypatch.setattr("sys.stdin", keyboard)
        with pytest.raises(ending):
            StdinReader().ask()
        assert capsys.readouterr().err == ">   \n"


def test_the_model_on_this_machine_is_not_called_another(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen = choose_model(load_settings(tmp_path).model, environ={})
    talk = mock.Mock()
    commands = TerminalCommands(talk, Console(environ={}), chosen)
    asked = talk.chat.agent
    with pytest.raises(InvalidInput, match="no other model on this machine"):
        commands.run(TypedCommand(MODEL, "gpt-4o"), Interrupt())
    for name in ("", "local"):
        commands.run(TypedCommand(MODEL, name), Interrupt())
        assert "Model: smollm2-135m, a tiny local model" in capsys.readouterr().err
    assert talk.chat.agent is asked

"""The README's walkthrough, step by step: with an endpoint and with the local model."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions.agent.clients.local_model import fetch
from hermes_sessions_testing.scripted_model import ScriptedModel, streamed
from tests.cli.harness import Hermes
from tests.cli.terminal import Terminal
from tests.cli.test_chat import settings
from tests.docs.pages import read_blocks

README = Path(__file__).parents[2] / "README.md"


def walk() -> list[list[str]]:
    (block,) = (block for block in read_blocks(README) if "this walk" in (block.not_run or ""))
    return [shlex.split(line, comments=True) for line in block.text.splitlines()]


@pytest.fixture(params=["endpoint", pytest.param("local", marks=pytest.mark.large)])
def environ(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """What decides which model answers."""
    if request.param == "local":
        fetch()
        yield {}
        return
    with ScriptedModel() as model:
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        model.otherwise = streamed("At the missing", " libfoo.", usage=usage)
        yield settings(model)


def test_the_walk(hermes: Hermes, tmp_path: Path, environ: dict[str, str]) -> None:
    steps = walk()
    assert len(steps) == 7
    for program, *arguments in steps:
        result = hermes.run(*arguments, name=program, environ=environ, cwd=tmp_path)
        assert result.code == 0, result.err
        assert result.out.strip()
    with hermes.db() as db:
        (session,) = db.list_sessions_rich()
        messages = db.get_messages(session["id"])
    assert session["title"] == "Docker build"
    assert [message["role"] for message in messages] == ["user", "assistant"] * 3
    assert messages[0]["content"] == "Where did we leave the Docker build?"
    assert all(message["content"] for message in messages)
    page = (tmp_path / "docker.html").read_text()
    assert "Where did we leave the Docker build?" in page


def test_the_walk_at_a_terminal(hermes: Hermes, environ: dict[str, str]) -> None:
    """`hermes`, a question, Ctrl-D; next week `hermes -c` shows what was said and continues."""
    surroundings = {"PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm", **environ}
    with Terminal(hermes, **surroundings) as terminal:
        terminal.wait_until(lambda shown: shown.rstrip("\n").endswith("\n❯"), "the prompt")
        assert "Model: " in terminal.shown
        assert "set HERMES_" in terminal.shown
        terminal.keys("Where did we leave the Docker build?\r")
        terminal.wait_until(lambda shown: "\n… ❯" in shown, "that it works")
        terminal.wait_until(lambda shown: shown.rstrip("\n").endswith("\n❯"), "the answer")
        terminal.keys("\x04")
        assert terminal.finish() == 0
        assert "To continue: hermes --resume 20" in terminal.shown
    with hermes.db() as db:
        (session,) = db.list_sessions_rich()
    assert (session["message_count"], bool(session["title"])) == (2, True)
    with Terminal(hermes, "-c", **surroundings) as terminal:
        terminal.wait_until(lambda shown: shown.rstrip("\n").endswith("\n❯"), "the prompt")
        assert "Previous Conversation" in terminal.shown
        assert "● You" in terminal.shown
        assert "Continuing 20" in terminal.shown
        terminal.keys("/quit\r")
        assert terminal.finish() == 0
    with hermes.db() as db:
        assert db.message_count() == 2

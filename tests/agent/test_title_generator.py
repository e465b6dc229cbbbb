"""Generated titles."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.agent.clients.port import ModelUnavailable, Reply, Usage
from hermes_sessions.agent.title_generator import clean_title, title_from_question, title_session
from tests.agent.scripted_client import ScriptedClient


@pytest.fixture
def db() -> Iterator[SessionDB]:
    with SessionDB(":memory:") as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "Can you help me to fix the Docker build? It fails.")
        db.append_message("s", "assistant", "libfoo is missing.")
        yield db


def test_the_model_gives_it(db: SessionDB) -> None:
    reply = Reply('Title: "Missing libfoo in Docker"', usage=Usage(input_tokens=50))
    client = ScriptedClient([reply])
    assert title_session(db, "s", client, None) == "Missing libfoo in Docker"
    asked = client.requests[0].messages[0]["content"]
    assert "Docker build" in asked
    assert "libfoo is missing" in asked
    assert [usage["task"] for usage in db.get_model_usage("s")] == ["title"]


@pytest.mark.parametrize("reply", [[ModelUnavailable("down")], [Reply("<think>hm")], [Reply("")]])
def test_otherwise_the_question_does(db: SessionDB, reply: list[Reply]) -> None:
    assert title_session(db, "s", ScriptedClient(reply), None) == "Fix the Docker build"


def test_without_a_model(db: SessionDB) -> None:
    assert title_session(db, "s", None, None) == "Fix the Docker build"


def test_a_title_that_a_user_set_is_kept(db: SessionDB) -> None:
    db.set_session_title("s", "mine")
    assert title_session(db, "s", ScriptedClient(), None) is None
    assert db.get_session_title("s") == "mine"


def test_one_that_is_set_meanwhile_is_kept(db: SessionDB) -> None:
    def set_it() -> None:
        db.set_session_title("s", "mine")

    assert title_session(db, "s", ScriptedClient([set_it, Reply("Late title")]), None) is None
    assert db.get_session_title("s") == "mine"


def test_a_taken_one_gets_a_number(db: SessionDB) -> None:
    db.create_session("other", "cli")
    db.set_session_title("other", "Docker")
    assert title_session(db, "s", ScriptedClient([Reply("Docker")]), None) == "Docker #2"


def test_an_empty_session_stays_untitled(db: SessionDB) -> None:
    db.create_session("empty", "cli")
    assert title_session(db, "empty", ScriptedClient(), None) is None


@pytest.mark.parametrize(
    ("question", "title"),
    [
        (
            "hello, how do I restore a snapshot when the disk is full? please",
            "Restore a snapshot when the disk is",
        ),
        ("数据库连接失败。怎么办？", "数据库连接失败"),
        ("", None),
        ("   \n\n", None),
        ("x" * 200, "X" + "x" * 78 + "…"),
        ("Please", "Please"),
        ("`rm -rf build` failed", "Rm -rf build` failed"),
    ],
)
def test_from_a_question(question: str, title: str | None) -> None:
    assert title_from_question(question) == title


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Docker build", "Docker build"),
        ("**Docker build**.", "Docker build"),
        ("<think>what\nis it</think>\nDocker  build", "Docker build"),
        ("标题：数据库", "数据库"),
        ("\n \n", None),
        ("y" * 100, "y" * 79 + "…"),
        (
            "Why the Docker build fails without libfoo, and what helps",
            "Why the Docker build fails without libfoo",
        ),
        ("Sure, here is what I would call it, if I had to choose one now", None),
    ],
)
def test_from_an_answer(answer: str, title: str | None) -> None:
    assert clean_title(answer) == title

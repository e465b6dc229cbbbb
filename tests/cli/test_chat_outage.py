"""A chat whose store becomes unavailable: nothing is lost or stored twice, and users are told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions_testing.scripted_model import ScriptedModel, streamed
from tests.cli.harness import Hermes
from tests.cli.terminal import Terminal
from tests.cli.test_chat import appears, begin, said, settings, type_in
from tests.servers.proxy import proxy_to
from tests.servers.server_processes import Server
from tests.servers.stores import postgresql_place, postgresql_store

HOLDS_THE_LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        yield model


@pytest.fixture
def impatient(hermes: Hermes) -> Hermes:
    """A store with short timeouts."""
    hermes.home.mkdir(mode=0o700)
    config = "sessiondb:\n  sqlite:\n    lock_timeout: 0.3\n"
    (hermes.home / "config.yaml").write_text(config)
    return hermes


@contextmanager
def locked(path: Path) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS_THE_LOCK, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.kill()
        process.communicate()


def waiting(hermes: Hermes) -> list[Path]:
    return sorted((hermes.home / "spool").rglob("*.spool"))


def test_until_the_store_is_back(impatient: Hermes, model: ScriptedModel) -> None:
    model.add(streamed("Hello."), streamed("All three."))
    with Terminal(impatient, **settings(model)) as chat:
        begin(chat)
        type_in(chat, "hi\r", "Hello.")
        with locked(impatient.store):
            type_in(chat, "one\r", "Your message is kept in a file", "[read-only] ❯")
            type_in(chat, "two\r", "Your message is kept in a file", "[read-only] ❯")
            assert chat.shown.count("Not stored:") == 2
            assert len(waiting(impatient)) == 1
        type_in(chat, "three\r", "All three.")
        appears(chat, "The store is back: 2 waiting messages were stored.")
        chat.keys("\x04")
        assert chat.finish() == 0
    assert said(impatient) == ["hi", "Hello.", "one", "two", "three", "All three."]
    asked = [m["content"] for m in model.requests[-1].body["messages"] if m["role"] == "user"]
    assert [word for text in asked for word in text.split()] == ["hi", "one", "two", "three"]
    assert waiting(impatient) == []


def test_on_a_plain_terminal(impatient: Hermes, model: ScriptedModel) -> None:
    model.add(streamed("Hello."), streamed("Both."))
    with Terminal(impatient, "--plain", **settings(model)) as chat:
        begin(chat, "> ")
        type_in(chat, "hi\r", "Hello.", "> ")
        with locked(impatient.store):
            type_in(chat, "one\r", "Your message is kept in a file", "[read-only] > ")
            type_in(chat, "/status\r", "Store: read-only: ", "[read-only] > ")
        type_in(chat, "two\r", "Both.", "> ")
        chat.keys("\x04")
        assert chat.finish() == 0
    assert said(impatient) == ["hi", "Hello.", "one", "two", "Both."]


def test_until_the_next_start(impatient: Hermes, model: ScriptedModel) -> None:
    model.add(streamed("Hello."), streamed("A title"))
    with Terminal(impatient, **settings(model)) as chat:
        begin(chat)
        with locked(impatient.store):
            type_in(chat, "one\r", "Your message is kept in a file", "[read-only] ❯")
            chat.keys("\x04")
            assert chat.finish() == 0
        assert "1 message waits in a file" in chat.shown
    document = impatient.call("status", "--json").json
    assert (document["state"], document["waiting"]["chat"]) == ("degraded", 1)
    result = impatient.run("-q", "two", env=impatient.environ(**settings(model)))
    assert result.code == 0
    assert "1 waiting message was stored." in result.err
    assert sorted(map(str, said(impatient))) == ["Hello.", "one", "two"]
    assert waiting(impatient) == []


def test_a_chat_that_is_killed(impatient: Hermes, model: ScriptedModel) -> None:
    model.add(streamed("Yes."), streamed("A title"))
    with Terminal(impatient, **settings(model)) as chat:
        begin(chat)
        with locked(impatient.store):
            type_in(chat, "one\r", "Your message is kept in a file", "[read-only] ❯")
            chat.process.kill()
            chat.process.wait()
    assert len(waiting(impatient)) == 1
    result = impatient.call("doctor", "--fix", "--json")
    assert [each["what"] for each in result.json["mended"]] == ["Stored 1 message."]
    assert said(impatient) == ["one"]


def test_what_can_be_kept_nowhere_is_in_the_line_again(
    impatient: Hermes, model: ScriptedModel
) -> None:
    model.add(streamed("Now it is."))
    (impatient.home / "spool").write_text("in the way")
    with Terminal(impatient, **settings(model)) as chat:
        begin(chat)
        with locked(impatient.store):
            chat.keys("one\r")
            appears(chat, "It could not be written to a file, either")
            chat.wait_until(lambda shown: shown.rstrip("\n").endswith("[read-only] ❯ one"), "❯ one")
        type_in(chat, "\r", "Now it is.")
        chat.keys("\x04")
        assert chat.finish() == 0
    assert said(impatient) == ["one", "Now it is."]


def test_one_question_is_refused_and_not_kept(impatient: Hermes, model: ScriptedModel) -> None:
    impatient.call("sessions", "list")
    with locked(impatient.store):
        result = impatient.run("-q", "one", env=impatient.environ(**settings(model)))
    assert (result.code, result.out) == (3, "")
    assert "database is locked" in result.err
    assert (waiting(impatient), model.requests) == ([], [])


def test_an_answer_that_the_server_did_not_take(
    hermes: Hermes, model: ScriptedModel, postgresql: Server
) -> None:
    """It was said, so it is kept; the question was stored before."""
    gate = model.gate()
    model.add(streamed("It is", gate, " forty-two."), streamed("A title"))
    place = postgresql_place(postgresql, "away")
    hermes.home.mkdir(mode=0o700)
    with postgresql_store(postgresql, "away"), proxy_to(place.port) as proxy:
        url = place.url(proxy.port).partition("?")[0]
        (hermes.home / "config.yaml").write_text(
            f"sessiondb:\n  provider: postgresql\n  postgresql:\n    dsn: {url}\n"
            f"    schema: away\n    lock_timeout: 0.5\n"
        )
        process = hermes.start("-q", "What is it?", environ=settings(model))
        assert process.stdout is not None
        assert process.stdout.read(5) == "It is"
        proxy.lost_requests = 1.0
        proxy.cut_all()
        gate.open()
        out, err = process.communicate()
        assert (process.returncode, out) == (3, " forty-two.\n")
        assert "1 message waits in a file" in err
        document = hermes.call("status", "--json").json
        assert (document["state"], document["waiting"]["chat"]) == ("down", 1)
        proxy.lost_requests = 0.0
        mended = hermes.call("doctor", "--fix", "--json").json["mended"]
        assert [each["what"] for each in mended if each["condition"] == "chat-spool"] == [
            "Stored 1 message."
        ]
        with SessionDB.from_url(place.url()) as db:
            [session] = db.list_sessions_rich()
            told = [(m["role"], m["content"]) for m in db.get_messages(session["id"])]
    assert told == [("user", "What is it?"), ("assistant", "It is forty-two.")]


def test_a_store_that_is_unavailable_at_the_start(hermes: Hermes, model: ScriptedModel) -> None:
    hermes.home.mkdir(mode=0o700)
    (hermes.home / "config.yaml").write_text(
        "sessiondb:\n  provider: postgresql\n  postgresql:\n"
        "    dsn: postgresql://hermes@127.0.0.1:1/postgres\n    lock_timeout: 0.3\n"
    )
    with Terminal(hermes, **settings(model)) as chat:
        assert chat.finish() == 3
    assert "the server cannot be reached" in chat.shown
    assert "hermes doctor" in chat.shown
    assert waiting(hermes) == []

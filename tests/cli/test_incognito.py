"""`hermes chat --incognito`: nothing is stored, during the chat, after it, or after a crash."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions_testing.scripted_model import Call, ScriptedModel, streamed
from tests.care.erasure.disk_scan import found_in
from tests.cli.harness import Hermes
from tests.cli.terminal import Terminal
from tests.cli.test_chat import appears, settings, type_in

SECRET = "xylographer"
SIGN = "[incognito] ❯"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        yield model


@pytest.fixture
def environ(hermes: Hermes, model: ScriptedModel, tmp_path: Path) -> dict[str, str]:
    """Temporary files would lie where a test can look for them."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    return settings(model) | {"TMPDIR": str(temporary), "SQLITE_TMPDIR": str(temporary)}


def leaves_nothing(hermes: Hermes, tmp_path: Path) -> None:
    assert found_in(tmp_path, [SECRET]) == []
    assert found_in(hermes.home, [SECRET]) == []
    assert not (hermes.home / "chat_history").exists()


def begun(terminal: Terminal) -> None:
    terminal.wait_until(lambda shown: shown.rstrip("\n").endswith(f"leaves.\n{SIGN}"), SIGN)


def test_one_question(
    hermes: Hermes, model: ScriptedModel, environ: dict[str, str], tmp_path: Path
) -> None:
    model.add(streamed(f"A {SECRET}!"), streamed(f"About a {SECRET}"))
    result = hermes.run("--incognito", "-q", f"{SECRET}?", env=hermes.environ(**environ))
    assert (result.code, result.out) == (0, f"A {SECRET}!\n")
    assert not hermes.store.exists()
    leaves_nothing(hermes, tmp_path)


def test_a_conversation(
    hermes: Hermes, model: ScriptedModel, environ: dict[str, str], tmp_path: Path
) -> None:
    """It remembers what was said as long as it lasts, and says all the time what it is."""
    with hermes.db() as db:
        db.create_session("kept", "cli")
        db.append_message("kept", "user", "stored before")
    with Terminal(hermes, "chat", "--incognito", **environ) as terminal:
        begun(terminal)
        appears(terminal, "Incognito: this chat is not stored and is gone when you leave.")
        type_in(terminal, f"/title My {SECRET}\r", f"Title: My {SECRET}", SIGN)
        model.add(streamed(f"Yes, {SECRET}"))
        type_in(terminal, f"I am a {SECRET}\r", f"Yes, {SECRET}", SIGN)
        model.add(streamed(Call("session_search", {"query": "stored before"})), streamed("No"))
        type_in(terminal, "What else?\r", "No", SIGN)
        type_in(terminal, "/incognito\r", "Incognito: this chat is not stored", SIGN)
        type_in(terminal, f"/search {SECRET}\r", "I am a", SIGN)
        type_in(terminal, "/export md out.md\r", "Exporting is not possible", SIGN)
        type_in(terminal, "/handoff telegram\r", "Handing off is not possible", SIGN)
        type_in(terminal, "/resume kept\r", "Error", SIGN)
        leaves_nothing(hermes, tmp_path)
        terminal.keys("\x04")
        appears(terminal, "Nothing was stored.")
        assert terminal.process.wait(60) == 0
        assert "Stored:" not in terminal.shown
    asked = str([request.body for request in model.requests])
    assert asked.count(f"I am a {SECRET}") >= 2
    with hermes.db() as db:
        assert [session["id"] for session in db.list_sessions_rich()] == ["kept"]
    leaves_nothing(hermes, tmp_path)


def test_after_a_crash(
    hermes: Hermes, model: ScriptedModel, environ: dict[str, str], tmp_path: Path
) -> None:
    with Terminal(hermes, "--incognito", **environ) as terminal:
        begun(terminal)
        type_in(terminal, f"/title {SECRET}\r", f"Title: {SECRET}", SIGN)
        model.add(streamed(f"Yes, {SECRET}"))
        type_in(terminal, f"I am a {SECRET}\r", f"Yes, {SECRET}", SIGN)
        terminal.process.send_signal(signal.SIGKILL)
        terminal.process.wait(60)
    leaves_nothing(hermes, tmp_path)


def test_what_other_chats_left_stays_for_them(
    hermes: Hermes, model: ScriptedModel, environ: dict[str, str]
) -> None:
    """A message that waits for the store is not taken into one that will be gone."""
    from hermes_sessions.agent.chat_spool import (
        ChatSpool,
        SpooledMessage,
        chat_spool_directory,
        chat_spool_root,
    )
    from hermes_sessions.config import load_settings

    place = chat_spool_directory(hermes.home, load_settings(hermes.home, {}).sessiondb)
    spool = ChatSpool(place)
    message = {"role": "user", "content": "waits", "external_id": "1", "timestamp": 1.0}
    spool.append(SpooledMessage("s", "cli", message))
    spool.close()
    model.add(streamed("Hi"), streamed("A title"))
    assert hermes.run("--incognito", "-q", "Hello", env=hermes.environ(**environ)).code == 0
    assert found_in(chat_spool_root(hermes.home), ["waits"]) != []


def test_it_starts_a_new_chat(
    hermes: Hermes, model: ScriptedModel, environ: dict[str, str]
) -> None:
    for option in ("-c", "-r"):
        result = hermes.run("chat", "--incognito", option, "kept", env=hermes.environ(**environ))
        assert result.code == 2
        assert "--incognito starts a new chat; it cannot continue a stored one." in result.err


def test_a_chat_that_is_stored_says_so(
    hermes: Hermes, model: ScriptedModel, environ: dict[str, str]
) -> None:
    with Terminal(hermes, "chat", **environ) as terminal:
        terminal.wait_until(lambda shown: shown.rstrip("\n").endswith("❯"), "❯")
        type_in(terminal, "/incognito\r", "This chat is stored.")
        terminal.keys("\x04")
        assert terminal.process.wait(60) == 0

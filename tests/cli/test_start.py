"""Starting fast: what `hermes sessions list` must not import."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.harness import Hermes

# Slow to import, or a sign that something is imported which a list has no use for.
FORBIDDEN = {
    "argparse",
    "asyncio",
    "base64",
    "click",
    "concurrent",
    "ctypes",
    "difflib",
    "email",
    "html",
    "http",
    "httpx",
    "importlib.metadata",
    "logging",
    "multiprocessing",
    "prompt_toolkit",
    "psycopg",
    "pydantic",
    "pymysql",
    "random",
    "rich",
    "shlex",
    "shutil",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "unittest",
    "urllib.request",
    "wcwidth",
    "xml",
    "yaml",
}

# What other commands need, and a list does not.
NOT_FOR_A_LIST = {
    "hermes_sessions.config.retention_policies",
    "hermes_sessions.model.lineage",
    "hermes_sessions.model.retention",
    "hermes_sessions.storage.care",
    "json",
    "locale",
}


MODULES_OF_A_LIST = Path(__file__).with_name("modules_of_a_list.txt")

# The console script's own line, and then what it has imported.
PROGRAM = """
import sys
before = set(sys.modules)
from hermes_sessions.cli.main import run
code = run(sys.argv[1:])
print(*set(sys.modules) - before, file=sys.stderr)
sys.exit(code)
"""


# The annotations that Python had to compile, because they are text in a named tuple or a type
# variable: the first costs as much as ten modules.
COMPILED_ANNOTATIONS = """
import sys
from hermes_sessions.cli.main import run
code = run(sys.argv[1:])
import gc, typing
found = [each for each in gc.get_objects() if isinstance(each, typing.ForwardRef)]
print(*(each.__forward_arg__ for each in found), sep="\\n", end="", file=sys.stderr)
sys.exit(code)
"""


def imported_by(hermes: Hermes, *arguments: str) -> set[str]:
    return set(stderr_of(PROGRAM, hermes, *arguments).split())


def stderr_of(program: str, hermes: Hermes, *arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=hermes.environ(),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return result.stderr


def offending(modules: set[str]) -> set[str]:
    return {
        module
        for module in modules
        if any(module == name or module.startswith(name + ".") for name in FORBIDDEN)
    }


def without_click(modules: set[str]) -> set[str]:
    return {module for module in modules if module.partition(".")[0] != "click"}


def test_a_list_imports_only_what_it_needs(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("s1", "cli")
        db.append_message("s1", "user", "Grüße aus 東京 …")
        db.set_session_title("s1", "日本語")
    modules = imported_by(hermes, "sessions", "list")
    assert "hermes_sessions.cli.session_list" in modules
    assert offending(modules) == set()
    assert modules & NOT_FOR_A_LIST == set()
    own = sorted(m for m in modules if m.partition(".")[0] == "hermes_sessions")
    # Each costs every start; the file changes only when a list needs another one.
    assert own == MODULES_OF_A_LIST.read_text().split()


def test_a_list_compiles_no_annotations(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("s1", "cli")
    assert stderr_of(COMPILED_ANNOTATIONS, hermes, "sessions", "list") == ""


def test_a_search_imports_only_what_it_needs(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("s1", "cli")
        db.append_message("s1", "assistant", "Grüße aus 東京 …")
    modules = imported_by(hermes, "sessions", "search", "東京")
    assert "hermes_sessions.storage.search.executor" in modules
    # It prints commands that a shell must understand, and where the next page begins.
    assert without_click(offending(modules)) <= {"base64", "shlex"}


def test_a_list_with_options_imports_one_command(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("s1", "cli")
    modules = imported_by(hermes, "sessions", "list", "--limit", "1")
    assert without_click(offending(modules)) == set()
    assert not {"click.shell_completion", "click.testing"} & modules
    commands = {m for m in modules if m.startswith("hermes_sessions.cli.sessions.")}
    assert commands == {"hermes_sessions.cli.sessions.list"}


@pytest.mark.parametrize(
    "arguments", [["list"], ["show", "s1"], ["rename", "s1", "x"], ["trash"], ["export", "-"]]
)
def test_only_searching_imports_what_it_needs(hermes: Hermes, arguments: list[str]) -> None:
    with hermes.db() as db:
        db.create_session("s1", "cli")
        db.append_message("s1", "user", "Grüße")
    modules = imported_by(hermes, "sessions", *arguments)
    assert not {m for m in modules if m.startswith("hermes_sessions.text")}
    assert "hermes_sessions.storage.search.executor" not in modules


def test_the_table_of_widths_is_loaded_only_for_what_needs_it(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("s1", "cli")
        db.set_session_title("s1", "family 👨\u200d👩\u200d👧")
    assert offending(imported_by(hermes, "sessions", "list")) >= {"wcwidth"}


def test_settings_are_parsed_only_when_there_are_some(hermes: Hermes) -> None:
    hermes.home.mkdir()
    (hermes.home / "config.yaml").write_text("sessions:\n  trash_days: 3\n")
    offenders = offending(imported_by(hermes, "sessions", "list"))
    assert "yaml" in offenders
    # One of them is what YAML itself imports.
    assert not {module for module in offenders if not module.startswith("yaml")} - {"base64"}


@pytest.mark.parametrize("arguments", [["--help"], ["sessions", "--help"], []])
def test_help_imports_no_command(hermes: Hermes, arguments: list[str]) -> None:
    modules = imported_by(hermes, *arguments)
    assert not {m for m in modules if m.startswith("hermes_sessions.cli.sessions.")}
    assert not hermes.home.exists()


# ── Ctrl-C from the first moment ──────────────────────────────────────────────────────────────

# The console script's own lines, with a first module of ours that says when it is loaded and then
# takes its time.
SCRIPT = """
import sys, threading
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            print("loading", flush=True)
            threading.Event().wait(60)
sys.meta_path.insert(0, Slow())
from hermes_start import run
sys.exit(run())
"""


@pytest.mark.parametrize(
    ("module", "options", "code"),
    [
        ("hermes_sessions", [], -signal.SIGINT),  # which a shell shows as 130
        ("hermes_sessions.cli.main", [], -signal.SIGINT),
        ("hermes_sessions.cli.session_list", [], 130),
        ("click", ["--all"], 130),
        ("hermes_sessions.cli.sessions.list", ["--all"], 130),
    ],
)
def test_ctrl_c_while_it_starts_is_quiet(
    hermes: Hermes, module: str, options: list[str], code: int
) -> None:
    process = hermes.start_program(SCRIPT.format(module=module), "sessions", "list", *options)
    assert process.stdout is not None
    assert process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out, err.strip()) == (code, "", "")


def test_who_ignores_ctrl_c_keeps_it_so(hermes: Hermes) -> None:
    program = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
import hermes_start
hermes_start._handle_ctrl_c()
print(signal.getsignal(signal.SIGINT))
"""
    process = hermes.start_program(program)
    out, _ = process.communicate()
    assert out == f"{signal.SIG_IGN}\n"

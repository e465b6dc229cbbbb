"""`hermes_sessions.testing`, the old name of the test tools."""

import subprocess
import sys

import pytest


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own: the alias changes how its process imports."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("clock", "clock"),
        ("scripted_model", "scripted_model"),
        ("conformance", "conformance"),
        ("conformance.search", "conformance.search"),
        ("platforms.harness", "platforms.harness"),
        ("telegram_server", "fake_servers.telegram.server"),
        ("signal_daemon", "fake_servers.signal.daemon"),
        ("slack_workspace", "fake_servers.slack.workspace"),
        ("fake_server", "fake_servers.base"),
        ("http_server", "fake_servers.http_server"),
    ],
)
def test_old_names_are_the_same_modules(old: str, new: str) -> None:
    result = run(
        "import importlib\n"
        f"old = importlib.import_module('hermes_sessions.testing.{old}')\n"
        f"new = importlib.import_module('hermes_sessions_testing.{new}')\n"
        "assert old is new\n"
        f"assert new.__name__ == new.__spec__.name == 'hermes_sessions_testing.{new}'\n"
    )
    assert result.returncode == 0, result.stderr


def test_submodules_can_be_imported_from_the_old_package() -> None:
    result = run(
        "from hermes_sessions.testing import clock, telegram_server\n"
        "from hermes_sessions.testing.clock import FrozenClock\n"
        "assert clock.FrozenClock is FrozenClock and telegram_server.TelegramServer\n"
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", ["nothing", "discord", "slack_nothing", "conformance.nothing"])
def test_unknown_names_are_not_found(name: str) -> None:
    result = run(f"import hermes_sessions.testing.{name}")
    message = f"ModuleNotFoundError: No module named 'hermes_sessions.testing.{name}'"
    assert result.stderr.splitlines()[-1] == message


def test_without_the_test_tools_it_says_what_to_install() -> None:
    result = run(
        "import sys; sys.modules['hermes_sessions_testing'] = None\n"
        "import hermes_sessions.testing.clock"
    )
    assert result.stderr.splitlines()[-1] == (
        "ImportError: Install the test tools: pip install hermes-sessions-testing"
    )

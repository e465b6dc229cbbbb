"""Options and ground rules of the whole suite; fixtures live in the folders of their subjects."""

import functools
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests import fault_matrix
from tests.servers.fixtures import galera, mariadb, postgresql  # noqa: F401 - for every folder

#: Why a test is skipped after `--budget` seconds.
_NO_TIME_LEFT = "no time left in the budget of this run"


def pytest_runtest_setup(item: pytest.Item) -> None:
    budget = item.config.getoption("--budget")
    if budget is not None and time.monotonic() - _first_test_at() > budget:
        pytest.skip(_NO_TIME_LEFT)
    fault_matrix.pytest_runtest_setup(item)


@functools.cache
def _first_test_at() -> float:
    """Return when the first test of this process began: a slow collection costs no test."""
    return time.monotonic()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [
        one
        for one in terminalreporter.stats.get("skipped", ())
        if _NO_TIME_LEFT in str(one.longrepr)
    ]
    if skipped:
        terminalreporter.write_line(
            f"{len(skipped)} affected tests had no time to run. Run all with: ./test"
        )


def pytest_addoption(parser: pytest.Parser) -> None:
    fault_matrix.pytest_addoption(parser)
    parser.addoption("--long", action="store_true", help="longer fault, load and property runs")
    parser.addoption(
        "--budget", type=float, help="skip tests that have not begun N seconds after the first"
    )
    parser.addoption("--large", action="store_true", help="run the tests marked large, too")


def pytest_configure(config: pytest.Config) -> None:
    fault_matrix.pytest_configure(config)
    for name in [name for name in os.environ if name.startswith("HERMES_")]:
        del os.environ[name]
    # A shell ignores these signals for programs in the background or under nohup. Processes that a
    # test starts would inherit that, and the test could not stop them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # A test that forgets to choose its own home must not use the developer's.
    home = tempfile.mkdtemp(prefix="hermes-tests-")
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
    os.environ["HERMES_HOME"] = home

    # A busy machine must not fail a test: no deadlines; the same examples in every run of a commit.
    hypothesis.settings.register_profile(
        "default", deadline=None, derandomize=True, max_examples=50
    )
    hypothesis.settings.register_profile("long", deadline=None, max_examples=2_000)
    hypothesis.settings.load_profile("long" if config.getoption("--long") else "default")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--large"):
        large = [item for item in items if item.get_closest_marker("large")]
        config.hook.pytest_deselected(items=large)
        items[:] = [item for item in items if not item.get_closest_marker("large")]
    # The long ones first, so that no worker starts one when the others are done.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="session")
def long_run(pytestconfig: pytest.Config) -> bool:
    """Whether fault and load tests should take their time."""
    return bool(pytestconfig.getoption("--long"))


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory whose path leaves room for the name of a socket, wherever the tests run."""
    with tempfile.TemporaryDirectory(prefix="h") as directory:
        yield Path(directory)

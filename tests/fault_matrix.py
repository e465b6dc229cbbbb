"""The page of faults, made from the tests that ran.

    @pytest.mark.fault("A process that writes is killed", "Each acknowledged message is there once")

names what such a test does to a store, and what it requires afterwards. The database is the one the
test is parametrised with, or ``on=``. `./test` compares the table with docs/faults.md;
``pytest --fault-matrix=write -m fault`` rewrites it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

PAGE: Final = Path(__file__).parents[1] / "docs" / "faults.md"
_BEGIN: Final = "<!-- made by tests: begin -->\n"
_END: Final = "<!-- made by tests: end -->\n"
_DATABASES: Final = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "mariadb": "MariaDB"}
_PROPERTY: Final = "fault"


class Fault(NamedTuple):
    """A row of the table."""

    what: str
    afterwards: str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fault-matrix",
        choices=("check", "write"),
        help="compare docs/faults.md with the tests that ran, or rewrite it",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "fault(what, afterwards, on=None): a row of the table in docs/faults.md"
    )
    # The workers of a parallel run report to the process that started them.
    if config.getoption("--fault-matrix") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Gathering(config.getoption("--fault-matrix")))


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("fault"):
        fault = Fault(*marker.args)
        database = marker.kwargs.get("on") or _database_of(item)
        if database not in _DATABASES or not fault.what[0].isupper():
            raise pytest.UsageError(f"{item.nodeid} has a fault without a cell in the table")
        item.user_properties.append((_PROPERTY, [*fault, database]))


def _database_of(item: pytest.Item) -> str:
    given = getattr(item, "callspec", None)
    for value in given.params.values() if given is not None else ():
        if value == "mysql":  # What the tests call it that know the provider.
            return "mariadb"
        if isinstance(value, str) and value in _DATABASES:
            return value
    raise pytest.UsageError(f"{item.nodeid} has a fault, but does not say on which database")


class _Gathering:
    """What the tests of one run have shown."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._passed: Counter[tuple[Fault, str]] = Counter()
        self._failed = False
        self._complaint: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = True
        if report.when == "call" and report.passed:
            for name, value in report.user_properties:
                if name == _PROPERTY and isinstance(value, list):
                    what, afterwards, database = value
                    self._passed[Fault(what, afterwards), database] += 1

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._failed:
            return  # The page is about tests that passed.
        before, _, rest = PAGE.read_text().partition(_BEGIN)
        shown, _, after = rest.partition(_END)
        made = table(self._passed)
        if self._mode == "write":
            PAGE.write_text(f"{before}{_BEGIN}{made}{_END}{after}")
        elif shown != made:
            self._complaint = (
                "docs/faults.md does not match the tests that ran. Rewrite it with: "
                "pytest -n 3 --fault-matrix=write -m fault"
            )
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._complaint is not None:
            terminalreporter.write_line(self._complaint, red=True)


def table(passed: Mapping[tuple[Fault, str], int]) -> str:
    """Return the table of what was tried, in an order that does not depend on the run."""
    faults = sorted({fault for fault, _ in passed})
    lines = [
        f"| what happens | {' | '.join(_DATABASES.values())} | afterwards |",
        f"|---|{'---|' * len(_DATABASES)}---|",
    ]
    for fault in faults:
        cells = (_cell(passed.get((fault, database), 0)) for database in _DATABASES)
        lines.append(f"| {fault.what} | {' | '.join(cells)} | {fault.afterwards} |")
    return "\n".join(["", *lines, "", ""])


def _cell(tests: int) -> str:
    return "" if not tests else "1 test" if tests == 1 else f"{tests} tests"

"""./test runs a few failures again, alone, and lists those that pass as flaky.

A small project gets the real script, so that whole runs of ./test take a moment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: Stands for scripts/environment.sh: the environment of the running tests is current.
ENVIRONMENT = """
say() { printf '%s: %s\\n' test "$*" >&2; }
can_apt() { return 1; }
ensure_environment() { :; }
"""
OPTIONS = """
def pytest_addoption(parser):
    parser.addoption("--fault-matrix")
    parser.addoption("--long", action="store_true")
"""
#: Fails in the first run, passes in the next.
FLAKY = """
import pathlib
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_flaky(number):
    mark = pathlib.Path(f"ran-{{number}}")
    try:
        assert mark.exists()
    finally:
        mark.touch()
"""


class SmallProject:
    """A project with the real ./test and nothing to check but its tests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.report = root / "build" / "flaky-tests.txt"
        (root / "scripts").mkdir()
        (root / "scripts" / "environment.sh").write_text(ENVIRONMENT)
        for name in ("test", "scripts/flaky_tests.py"):
            shutil.copy2(ROOT / name, root / name)
        (root / "conftest.py").write_text(OPTIONS)
        (root / "pytest.ini").write_text("[pytest]\n")
        programs = root / ".venv" / "bin"
        programs.mkdir(parents=True)
        for name in ("ruff", "mypy", "lint-imports"):
            (programs / name).symlink_to("/bin/true")
        for name, module in (("python", ""), ("pytest", "-m pytest")):
            (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
            (programs / name).chmod(0o755)

    def write_tests(self, text: str) -> None:
        (self.root / "test_it.py").write_text(text)

    def run(self, *arguments: str) -> tuple[int, list[str]]:
        """Run ./test; return its exit status and what it printed on stdout."""
        done = subprocess.run(
            [self.root / "test", *arguments],
            cwd=self.root,
            env={key: value for key, value in os.environ.items() if not key.startswith("PYTEST")},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.splitlines()


@pytest.fixture
def project(tmp_path: Path) -> SmallProject:
    return SmallProject(tmp_path)


def flaky_line(number: int) -> str:
    return f"flaky: test_it.py::test_flaky[{number}] (passed when run alone)"


def test_a_test_that_passes_alone_is_listed_last(project: SmallProject) -> None:
    project.write_tests(FLAKY.format(count=2))
    status, lines = project.run("--long")
    assert status == 0
    assert lines[-2:] == [flaky_line(0), flaky_line(1)]
    assert project.report.read_text().splitlines() == lines[-2:]


def test_the_list_is_of_the_last_run(project: SmallProject) -> None:
    project.write_tests(FLAKY.format(count=1))
    assert project.run()[1][-1] == flaky_line(0)
    status, lines = project.run()
    assert status == 0
    assert not [line for line in lines if line.startswith("flaky")]
    assert not project.report.exists()


def test_a_test_that_fails_alone_has_failed(project: SmallProject) -> None:
    project.write_tests(FLAKY.format(count=1) + "\ndef test_broken():\n    assert False\n")
    status, lines = project.run()
    assert status == 1
    assert lines[-1] == flaky_line(0)


def test_many_failures_are_not_tried_again(project: SmallProject) -> None:
    project.write_tests(FLAKY.format(count=4))
    status, lines = project.run()
    assert status == 1
    assert "4 failed" in lines[-1]
    assert not project.report.exists()


def test_some_tests_are_not_tried_again(project: SmallProject) -> None:
    project.write_tests(FLAKY.format(count=1))
    assert project.run("-k", "flaky")[0] == 1
    assert not project.report.exists()

"""The conformance kit is complete and documented, and notices a store that does not conform."""

import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_sessions_testing import conformance
from hermes_sessions_testing.conformance import behaviours
from hermes_sessions_testing.conformance.behaviours import BEHAVIOURS

ROOT = Path(__file__).parent.parent.parent
SUITES = {name: getattr(conformance, name) for name in conformance.__all__ if "Test" in name}


def test_every_numbered_behaviour_is_tested() -> None:
    tested = behaviours.numbers_tested_by(SUITES.values())
    assert tested.keys() == BEHAVIOURS.keys()


def test_the_numbers_are_complete() -> None:
    """Every number is in the kit or belongs to a subject that the kit does not cover."""
    outside = {10, *range(84, 90)}
    assert BEHAVIOURS.keys() | outside == set(range(1, max(BEHAVIOURS) + 1))
    assert not BEHAVIOURS.keys() & outside


def test_the_page_shows_the_behaviours() -> None:
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", page, re.MULTILINE)
    assert {int(number): sentence for number, sentence in rows} == BEHAVIOURS


def test_every_suite_is_offered() -> None:
    folder = Path(conformance.__file__).parent
    own = {"__init__", "behaviours", "fixtures", "helpers"}
    assert {file.stem for file in folder.glob("*.py")} - own == set(conformance.SUBJECTS)
    names = [f"{conformance.__name__}.{subject}" for subject in conformance.SUBJECTS]
    found = {
        name: suite
        for module in map(importlib.import_module, names)
        for name, suite in inspect.getmembers(module, inspect.isclass)
        if name.startswith("Test") and suite.__module__ == module.__name__
    }
    assert found == SUITES


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Behaviour 21: a title", {21}),
        ("see behaviours 3 and 91", {3, 91}),
        ("behaviours 11 to 14: cleaning", {11, 12, 13, 14}),
        ("behaviours 1, 2 and 9", {1, 2, 9}),
        ("21 is a number", set()),
    ],
)
def test_numbers_are_read_from_docstrings(text: str, numbers: set[int]) -> None:
    assert behaviours.numbers_named_in(text) == numbers


def run_kit(folder: Path, defect: str, selection: str) -> subprocess.CompletedProcess[str]:
    """Run part of the kit in a process of its own, on a store with a defect."""
    (folder / "test_other_store.py").write_text(
        "import pytest\n"
        "from hermes_sessions import SessionDB\n"
        "from hermes_sessions_testing.conformance import *\n"
        "class Store(SessionDB):\n"
        f"    {defect}\n"
        "@pytest.fixture\n"
        "def open_store(tmp_path):\n"
        "    return lambda **options: Store(tmp_path / 'state.db', **options)\n"
    )
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", selection, "."],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_third_party_store_is_tested(tmp_path: Path) -> None:
    result = run_kit(tmp_path, "pass", "TestMeta")
    assert result.returncode == 0, result.stdout
    assert re.search(r"^4 passed", result.stdout, re.MULTILINE)


def test_a_defect_is_noticed_and_explained(tmp_path: Path) -> None:
    result = run_kit(tmp_path, "def get_meta(self, key): return 'same'", "TestMeta")
    assert result.returncode == 1
    assert "test_other_store.py::TestMeta::test_upsert" in result.stdout
    assert "assert 'same' is None" in result.stdout, "assertions show the values they compared"

"""What is printed is kept as files, and the page lists what the code knows.

`pytest tests/care/doctor --update-diagnoses` rewrites the files; review the diff.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from hermes_sessions.cli.root import COMMANDS
from hermes_sessions.storage.care.doctor.conditions import CONDITION, CONDITIONS, table
from hermes_sessions.storage.care.health import State
from tests.care.doctor.harness import SESSION, DoctorHarness

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
PAGE = HERE.parents[2] / "docs" / "doctor.md"
DAY = 86_400.0


def healthy(_patient: DoctorHarness) -> list[str]:
    return []


def troubled(harness: DoctorHarness) -> list[str]:
    with harness.db(9 * DAY) as db:
        db.append_message(SESSION, "user", "From next week")
    with harness.db(-DAY) as db:
        db.take_lease(SESSION, "the chat in /dev/pts/3", ttl=60)
    harness.store.chmod(0o644)
    return []


def mended(harness: DoctorHarness) -> list[str]:
    troubled(harness)
    return ["--fix"]


def no_database(harness: DoctorHarness) -> list[str]:
    harness.store.write_bytes(b"Dear diary, " * 100)
    return []


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("case", [healthy, troubled, mended, no_database])
def test_output(file: DoctorHarness, pytestconfig: pytest.Config, case: object, form: str) -> None:
    flags = case(file)  # type: ignore[operator]
    name = case.__name__  # type: ignore[attr-defined]
    _, out, err = file.call("doctor", *flags, *(["--json"] if form == "json" else []))
    assert err == ""
    said = out.replace(str(file.home), "/home/.hermes")
    golden = GOLDEN / f"{name}.{form}.txt"
    if pytestconfig.getoption("--update-diagnoses", default=False):
        golden.write_text(said, encoding="utf-8")
    assert said == golden.read_text(encoding="utf-8")


def test_the_page_has_the_table_that_the_code_has() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")


def test_the_list_is_closed_and_every_condition_has_a_test() -> None:
    assert list(CONDITION) == [each.name for each in CONDITIONS]
    tests = "".join(file.read_text(encoding="utf-8") for file in HERE.glob("test_*.py"))
    assert [name for name in CONDITION if f'"{name}"' not in tests] == []


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda each: each.name)
def test_every_condition_says_what_and_one_next_step(condition: object) -> None:
    each = CONDITION[condition.name]  # type: ignore[attr-defined]
    assert each.words.endswith(".")
    assert not each.step.endswith(".")
    assert each.state is not State.HEALTHY
    # A command that is named must be there.
    if "hermes " in each.step:
        words = shlex.split(each.step.partition("hermes ")[2])
        assert words[0] in {*COMMANDS, "repair", "backup"}

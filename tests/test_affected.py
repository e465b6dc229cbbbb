"""Which tests ./check runs for a change."""

from pathlib import Path

import pytest
import yaml

from scripts import affected_tests as script
from scripts.affected_tests import ROOT, affected_tests


def selected_by(name: str) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in affected_tests([ROOT / name])]


def test_a_changed_test_is_run() -> None:
    assert selected_by("tests/text/test_normalise.py") == ["tests/text/test_normalise.py"]


def test_those_that_import_a_module_come_first() -> None:
    found = selected_by("src/hermes_sessions/text/snippet.py")
    assert found[0] == "tests/text/test_snippet.py"
    assert "tests/text/test_normalise.py" in found


def test_those_that_import_a_helper_of_the_tests_are_run() -> None:
    assert "tests/cli/test_start.py" in selected_by("tests/cli/harness.py")


def test_test_tools_select_their_tests() -> None:
    found = selected_by("testing/src/hermes_sessions_testing/fake_servers/slack/server.py")
    assert "tests/testing/test_slack_server.py" in found


@pytest.mark.parametrize("name", ["README.md", "src/hermes_sessions/errors.py"])
def test_what_all_tests_depend_on_selects_none(name: str) -> None:
    assert selected_by(name) == []


def test_only_the_closest_are_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = [ROOT / "tests" / f"test_{number}.py" for number in range(100)]
    monkeypatch.setattr(script, "changed_files", lambda _revision: list[Path]())
    monkeypatch.setattr(script, "affected_tests", lambda _changed: tests)
    script.main(None)
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [f"tests/test_{number}.py" for number in range(40)]
    assert "60 more test files" in printed.err


def test_commits_are_checked_without_the_network() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    (repository,) = config["repos"]
    assert repository["repo"] == "local"
    (hook,) = repository["hooks"]
    assert hook["entry"] == "./check"
    assert not hook["pass_filenames"]

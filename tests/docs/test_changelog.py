"""CHANGELOG.md keeps the form of Keep a Changelog."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
LINES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Migrations"}


def test_versions_are_dated_and_in_order() -> None:
    first, *released = [line for line in LINES if line.startswith("## ")]
    assert first == "## [Unreleased]"
    found = [
        re.fullmatch(r"## \[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d\d-\d\d)", line) for line in released
    ]
    assert all(found), released
    versions = [tuple(map(int, match.groups()[:3])) for match in found if match]
    assert versions == sorted(versions, reverse=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"].partition(".dev")[0] >= ".".join(map(str, versions[0]))


def test_changes_are_grouped_by_kind() -> None:
    kinds = {line.removeprefix("### ") for line in LINES if line.startswith("### ")}
    assert kinds <= KINDS

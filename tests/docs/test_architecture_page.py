"""Every file and folder that ARCHITECTURE.md names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "hermes_sessions"
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_the_map_names_what_exists() -> None:
    (tree,) = re.findall(r"```text\n(src/hermes_sessions/.*?)```", PAGE, re.DOTALL)
    folders: list[Path] = []
    for line in tree.splitlines():
        if not line.strip():
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        names = re.findall(r"[\w./]+(?:\.py|/)(?=\s|$)", re.split(r"\s{3,}", line.strip())[0])
        assert names, line
        for name in names:
            found = (folders[depth - 1] if depth else ROOT) / name
            assert found.exists(), line
        folders[depth:] = [found]


def test_likely_changes_name_what_exists() -> None:
    table = PAGE.partition("## Likely changes")[2].partition("\n## ")[0]
    named = re.findall(r"`([\w./]+(?:\.py|\.md|/))`", table)
    assert len(named) > 20
    files = {path.name for path in PACKAGE.rglob("*.py")}
    for name in named:
        if "/" in name:
            assert (PACKAGE / name).exists() or (ROOT / name).exists(), name
        else:
            assert name in files, name

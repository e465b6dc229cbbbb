"""A copy of the source in which a contributor has added columns."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src"
STEP = "0010_mood"


def add_columns(root: Path) -> set[Path]:
    """Copy the source to *root*, add a column to sessions and one to messages as CONTRIBUTING.md
    says, and return the files that this touched.
    """
    shutil.copytree(SOURCE, root, ignore=shutil.ignore_patterns("__pycache__"))
    storage = root / "hermes_sessions" / "storage"
    touched = {
        _edit(
            storage / "tables.py",
            # At the end of each table, where a database adds a column, too.
            (
                r"(SESSIONS: Final = Table\(.*?)(    \),\n    \(\n        Index\()",
                rf'\1        Column("mood", "text", "How it went.", since="{STEP}"),\n\2',
            ),
            (
                r"(MESSAGES: Final = Table\(.*?)(    \),\n    \(\n        Index\()",
                rf'\1        Column("tone", "text", "How it was said.", since="{STEP}"),\n\2',
            ),
            (
                r"(COLUMN_STEPS: Final\[tuple\[str, \.\.\.\]\] = \(.*?)\)",
                rf'\1 "{STEP}")',
            ),
        ),
        _edit(
            storage / "records.py",
            (r"(    workspace_id: str \| None\n)", r"\1    mood: str | None\n"),
            (r"(    payload_private: int\n)", r"\1    tone: str | None\n"),
        ),
    }
    return {path.relative_to(root) for path in touched}


def _edit(path: Path, *changes: tuple[str, str]) -> Path:
    text = path.read_text(encoding="utf-8")
    for pattern, replacement in changes:
        text, count = re.subn(pattern, replacement, text, count=1, flags=re.DOTALL)
        assert count == 1, f"{path.name} has no {pattern}"
    path.write_text(text, encoding="utf-8")
    return path

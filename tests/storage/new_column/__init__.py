"""A copy of the source in which a contributor has added columns."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src"
STEP = "0009_mood"


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
                r'(SESSIONS: Final = Table\(.*?since="0003_lifecycle",\n        \),\n)',
                rf'\1        Column("mood", "text", "How it went.", since="{STEP}"),\n',
            ),
            (
                r"(MESSAGES: Final = Table\(.*?)(    \),\n    \(\n        Index\()",
                rf'\1        Column("tone", "text", "How it was said.", since="{STEP}"),\n\2',
            ),
            (
                r"COLUMN_STEPS: Final\[tuple\[str, \.\.\.\]\] = \(\)",
                f'COLUMN_STEPS: Final[tuple[str, ...]] = ("{STEP}",)',
            ),
        ),
        _edit(
            storage / "records.py",
            (r"(    pinned_at: float \| None\n)", r"\1    mood: str | None\n"),
            (r"(    compacted: int\n)", r"\1    tone: str | None\n"),
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

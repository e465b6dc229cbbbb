"""What reaches the disk before a write is acknowledged.

Power cannot be cut here. What can be checked is that the calls that make data survive it were made,
on the right files, before the caller was told.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.storage.sqlite.other_process import start

pytestmark = pytest.mark.slow

COUNT = 5


def calls_between_acknowledgements(
    directory: Path, journal: str, durability: str
) -> tuple[list[str], list[list[str]]]:
    """What was synchronised before the first acknowledgement, and before each of the others.

    Files are named by what follows the name of the store; the directory is ``directory``.
    """
    path, log = directory / "state.db", directory.parent / "log"
    prefix = [
        *("strace", "-f", "-qq", "-y", "-s", "16", "-o", str(log)),
        *("-e", "trace=write,fdatasync,fsync"),
    ]
    start("append_through", path, journal, durability, COUNT, prefix=prefix).succeeded()
    batches: list[list[str]] = [[]]
    for line in log.read_text().splitlines():
        if re.search(r"write\(1<[^>]*>, \"stored \d", line):
            batches.append([])
        found = re.search(r"(?:fdatasync|fsync)\(\d+<([^>]*)>\) += 0", line)
        if found is not None:
            name = found[1].removeprefix(str(path))
            batches[-1].append("directory" if name == str(directory) else name)
    assert len(batches) == COUNT + 1
    return batches[0], batches[1:-1]


def test_full_makes_the_log_durable_before_every_acknowledgement(tmp_path: Path) -> None:
    first, others = calls_between_acknowledgements(tmp_path / "new", "wal", "full")
    # The log and its name, and the names of the directory and the file we made.
    assert {"-wal", "directory", str(tmp_path)} <= set(first)
    for batch in others:
        assert batch
        assert set(batch) == {"-wal"}


def test_normal_does_not(tmp_path: Path) -> None:
    _, others = calls_between_acknowledgements(tmp_path / "new", "wal", "normal")
    assert others == [[]] * (COUNT - 1)


def test_full_with_a_rollback_journal(tmp_path: Path) -> None:
    """The journal before the file changes, the file, and that the journal is gone."""
    first, others = calls_between_acknowledgements(tmp_path / "new", "delete", "full")
    assert {"-journal", "", "directory", str(tmp_path)} <= set(first)
    for batch in others:
        assert set(batch) == {"-journal", "", "directory"}
        assert batch.index("-journal") < batch.index("")
        assert batch[-1] == "directory"


def test_normal_with_a_rollback_journal(tmp_path: Path) -> None:
    """It is as safe against damage; only the end of the journal may come late."""
    _, others = calls_between_acknowledgements(tmp_path / "new", "delete", "normal")
    for batch in others:
        assert {"-journal", ""} <= set(batch)
        assert batch.index("-journal") < batch.index("")

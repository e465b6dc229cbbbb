"""A full disk: a clear error, nothing lost, and normal operation after space is freed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.storage.sqlite import disks
from tests.storage.sqlite.integrity import require_sound
from tests.storage.sqlite.other_process import start

pytestmark = pytest.mark.slow

EXPECTED = [
    "failed DiskFull",
    "read 0",
    "read by another handle True",
    "failed again DiskFull",
    "stored 1",
]


def may_mount(directory: Path) -> bool:
    """Whether this user may have a disk of its own; root may."""
    probe = [*disks.on_a_small_disk(directory, 100, directory.with_name("probe")), "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.fault(
    "The disk is full",
    "Refused with a clear error; stored data can be read; writes continue once there is room",
    on="sqlite",
)
def test_a_disk_of_one_megabyte(journal: str, tmp_path: Path) -> None:
    directory = tmp_path / "disk"
    directory.mkdir()
    path = directory / "state.db"
    if may_mount(directory):
        results = tmp_path / "results"
        prefix = disks.on_a_small_disk(directory, 1024, results)
        assert start("fill_disk", path, journal, prefix=prefix).succeeded() == EXPECTED
        require_sound(results / "after" / "state.db")
    else:
        # The closest to a full disk without root.
        assert start("meet_size_limit", path, journal).succeeded() == EXPECTED
        require_sound(path)


@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.fault(
    "The file may not grow",
    "Refused with a clear error; stored data can be read; writes continue once there is room",
    on="sqlite",
)
def test_a_limit_on_the_size_of_a_file(journal: str, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    assert start("meet_size_limit", path, journal).succeeded() == EXPECTED
    require_sound(path)


def test_opening_where_there_is_no_room_for_locks(tmp_path: Path) -> None:
    """Readers can open the store; writers are told that space is missing."""
    directory = tmp_path / "disk"
    directory.mkdir()
    path = directory / "state.db"
    if may_mount(directory):  # A limit on file sizes would stop the reader, too.
        prefix = disks.on_a_small_disk(directory, 2048, tmp_path / "results")
        said = start("open_on_full_disk", path, prefix=prefix).succeeded()
        assert said == ["to write: DiskFull", "to read: kept", "with room again: kept"]

"""Upgrading on full or read-only disks."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_sessions.storage.sessiondb import SessionDB
from tests.fixtures.hermes import reader
from tests.storage.sqlite import opener
from tests.storage.sqlite.disks import in_a_read_only_directory, on_a_small_disk, read_only
from tests.storage.sqlite.hermes_files import make, require_everything


@pytest.fixture
def path(tmp_path: Path) -> Path:
    directory = tmp_path / "disk"
    directory.mkdir()
    return directory / "state.db"


def kilobytes(path: Path) -> int:
    return path.stat().st_size // 1024


@pytest.mark.parametrize("name", ["v11", "built-v8-rollback-journal"])
def test_without_room_for_a_backup_nothing_is_changed(
    name: str, path: Path, tmp_path: Path
) -> None:
    before = make(name, path)
    disk = on_a_small_disk(path.parent, kilobytes(path) + 300, tmp_path / "results")
    result = opener.open_elsewhere(path, disk)
    assert result["error"] == "DiskFull"
    assert "MB are free. Free some space and try again." in result["message"]
    after = tmp_path / "results" / "after"
    assert {one.name for one in after.iterdir()} <= {"state.db", "state.db.gate"}
    assert reader.read_everything(after / "state.db") == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["v11", "built-v8-rollback-journal"])
@pytest.mark.fault(
    "The disk fills up while an older layout is upgraded", "The file is as it was", on="sqlite"
)
def test_a_disk_that_fills_up_during_the_upgrade(
    name: str, path: Path, tmp_path: Path, long_run: bool
) -> None:
    """The backup exists already, so the upgrade begins; somewhere on the way the disk is full."""
    before = make(name, path)
    content = path.read_bytes()
    SessionDB(path).close()
    path.write_bytes(content)
    used = sum(kilobytes(one) for one in path.parent.iterdir())
    outcomes = set()
    for spare in (40, 100, 200, 300, 400, 500, 1_500) if long_run else (40, 200, 400, 1_500):
        results = tmp_path / str(spare)
        disk = on_a_small_disk(path.parent, used + spare, results)
        result = opener.open_elsewhere(path, disk)
        outcomes.add(result.get("error"))
        file = results / "after" / "state.db"
        if "error" in result:
            assert "no space is left" in result["message"]
            assert not file.with_name("state.db-journal").exists()
            assert reader.read_everything(file) == before
        # With free space it continues from there.
        with SessionDB(file) as db:
            require_everything(db, before)
    assert outcomes == {"DiskFull", None}


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_a_backup_that_cannot_be_written_is_removed(path: Path, tmp_path: Path, error: str) -> None:
    before = make("v11", path)
    partial = path.with_name("state.db.bak.partial")
    watch = ["strace", "-f", "-qq", "-o", str(tmp_path / "log"), "-P", str(partial)]
    inject = ["-e", "trace=pwrite64", "-e", f"inject=pwrite64:error={error}:when=20+"]
    result = opener.open_elsewhere(path, [*watch, *inject])
    assert result["error"] == {"ENOSPC": "DiskFull", "EIO": "StoreIOError"}[error]
    assert {one.name for one in path.parent.iterdir()} <= {"state.db", "state.db.gate"}
    assert reader.read_everything(path) == before


def test_a_backup_that_reads_back_differently_is_not_trusted(path: Path, tmp_path: Path) -> None:
    """A disk that loses a write without saying so."""
    before = make("v11", path)
    partial = path.with_name("state.db.bak.partial")
    watch = ["strace", "-f", "-qq", "-o", str(tmp_path / "log"), "-P", str(partial)]
    inject = ["-e", "trace=pwrite64", "-e", "inject=pwrite64:retval=4096:when=100"]
    result = opener.open_elsewhere(path, [*watch, *inject])
    assert result["error"] == "StoreIOError"
    assert "was not changed. Check the disk." in result["message"]
    assert {one.name for one in path.parent.iterdir()} <= {"state.db", "state.db.gate"}
    assert reader.read_everything(path) == before


@pytest.mark.parametrize("what", ["file", "directory"])
@pytest.mark.parametrize("name", ["v11", "built-v8-rollback-journal"])
def test_a_file_that_cannot_be_written_is_not_upgraded(name: str, what: str, path: Path) -> None:
    make(name, path)
    content = path.read_bytes()
    result = opener.open_elsewhere(path, read_only(path if what == "file" else path.parent))
    assert result["error"] == "StoreReadOnly"
    assert "must be upgraded first" in result["message"]
    assert path.read_bytes() == content
    assert not list(path.parent.glob("*.bak*"))
    SessionDB(path).close()


@pytest.mark.parametrize("name", ["v11", "built-v8-rollback-journal"])
def test_a_file_without_room_beside_it_is_not_upgraded(name: str, path: Path) -> None:
    make(name, path)
    content = path.read_bytes()
    result = opener.open_elsewhere(path, in_a_read_only_directory(path))
    assert result["error"] == "StoreReadOnly"
    assert path.read_bytes() == content
    assert [one.name for one in path.parent.iterdir()] == ["state.db"]

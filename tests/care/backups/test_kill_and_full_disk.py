"""SIGKILL at many points of creating and restoring a backup, and full disks."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.care.backups.backup_directory import list_backups
from hermes_sessions.storage.care.backups.creation import create_backup
from hermes_sessions.storage.care.backups.restore import restore_backup
from hermes_sessions.storage.care.backups.verification import verify_backup
from tests.care.backups.programs import start
from tests.care.backups.sample_stores import Rows, everything, everything_in, talk
from tests.storage.sqlite.integrity import require_sound

pytestmark = pytest.mark.slow

NEVER = 10**9
POINTS = 5


def make_store(path: Path, sessions: int = 6) -> Rows:
    with SessionDB(path) as db:
        talk(db, sessions=sessions, messages=5)
        return everything(db.provider)


def points(total: int, long_run: bool) -> list[int]:
    """Some of the calls, the last ones among them: there it is decided."""
    number = total if long_run else POINTS
    spread = {1 + total * step // number for step in range(number)}
    return sorted({*spread, *range(max(1, total - 1), total + 1)})


@pytest.mark.parametrize("portable", ["", "portable"])
@pytest.mark.fault(
    "Killed while a backup is made",
    "Whatever has the name of a backup is complete; the store is unchanged",
    on="sqlite",
)
def test_killed_while_making_one(
    portable: str, tmp_path: Path, directory: Path, long_run: bool
) -> None:
    path = tmp_path / "state.db"
    wanted = make_store(path)
    with start("create", NEVER, path, directory, portable) as whole:
        total = int(whole.said())
    assert total > POINTS
    for point in points(total, long_run):
        with start("create", point, path, directory, portable) as other:
            assert other.ended() == -signal.SIGKILL
        # Each file with the name of a backup is a valid one.
        for backup in list_backups(directory):
            assert verify_backup(backup.path).messages == 30
    with SessionDB(path) as db:
        assert everything(db.provider) == wanted
        create_backup(db, directory)
    left = [each.name for each in directory.iterdir() if not each.name.endswith(".hsb")]
    assert left == [".lock"]


@pytest.mark.parametrize("kind", ["image", "portable", "over a damaged store"])
@pytest.mark.fault(
    "Killed while a backup is restored",
    "The store is the old or the new one, whole; the next run completes it",
    on="sqlite",
)
def test_killed_while_restoring(kind: str, tmp_path: Path, directory: Path, long_run: bool) -> None:
    origin = tmp_path / "origin.db"
    new = make_store(origin, sessions=9)
    with SessionDB(origin) as db:
        made = create_backup(db, directory, portable=kind == "portable")
    place, path = tmp_path / "place", tmp_path / "place" / "state.db"
    old = make_store(tmp_path / "old" / "state.db", sessions=3)
    if kind == "over a damaged store":
        (tmp_path / "old" / "state.db").write_bytes(bytes(50_000))
    shutil.copytree(tmp_path / "old", place)
    with start("restore", NEVER, made.path, path) as whole:
        total = int(whole.said())
    outcomes = set()
    for point in points(total, long_run):
        shutil.rmtree(place)
        shutil.copytree(tmp_path / "old", place)
        with start("restore", point, made.path, path) as other:
            assert other.ended() == -signal.SIGKILL
        if kind == "over a damaged store" and path.read_bytes() == bytes(50_000):
            outcomes.add("old")
        else:
            found = everything_in(path)
            assert found in (old, new)
            outcomes.add("new" if found == new else "old")
            require_sound(path)
        if not long_run and point % 2:
            continue
        # The next backup finishes in spite of leftovers, and leaves only the backups that are kept.
        restore_backup(made.path, path)
        assert everything_in(path) == new
        left = {each.name for each in place.iterdir() if ".replaced-" not in each.name}
        assert left <= {"state.db", "state.db.gate", "state.db.restore-lock"}
        assert not list(place.glob("*.unfinished"))
    assert outcomes == {"old", "new"}


@pytest.mark.fault(
    "No room for a backup, or for a restored store",
    "Refused with a clear error; the store is unchanged, and nothing is left behind",
    on="sqlite",
)
def test_no_room_for_a_backup(tmp_path: Path, directory: Path) -> None:
    """Limit the size of files: the closest to a full disk without root."""
    path = tmp_path / "state.db"
    make_store(path, sessions=30)
    said = start("run_out_of_room", path, directory, 4096).succeeded()
    assert said == ["DiskFull", ".lock", "DiskFull", ".lock", "150"]


@pytest.mark.fault(
    "No room for a backup, or for a restored store",
    "Refused with a clear error; the store is unchanged, and nothing is left behind",
    on="sqlite",
)
def test_no_room_for_a_restored_store(tmp_path: Path, directory: Path) -> None:
    path = tmp_path / "state.db"
    old = make_store(path, sessions=30)
    with SessionDB(path) as db:
        made = create_backup(db, directory)
    limited = ["prlimit", "--fsize=20000"]
    if shutil.which("prlimit") is None:
        limited = ["sh", "-c", 'ulimit -f 20 && exec "$@"', "sh"]
    assert start("restore_without_room", made.path, path, prefix=limited).succeeded() == [
        "DiskFull"
    ]
    assert everything_in(path) == old
    assert not list(tmp_path.glob("*restoring*"))

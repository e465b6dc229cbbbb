"""Doctor checks of SQLite files, each on a really broken file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.storage.care.backups.backup_directory import UNFINISHED
from hermes_sessions.storage.care.doctor import access_checks
from hermes_sessions.storage.sqlite import file_access
from hermes_sessions.storage.sqlite.inspection import (
    ChangedDuringInspection,
    FileInspection,
    InspectionTimeout,
)
from tests.care.doctor.harness import SESSION, DoctorHarness, another_process
from tests.faults.test_full_disk import may_mount
from tests.storage.sqlite import disks, hermes_files

HOLDS_THE_LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("ready", flush=True)
sys.stdin.readline()
"""
HAS_IT_OPEN = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("SELECT COUNT(*) FROM sessions").fetchone()
print("ready", flush=True)
sys.stdin.readline()
"""
DIES_WHILE_IT_WRITES = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode = delete")
db.execute("PRAGMA cache_size = 1")
db.execute("BEGIN")
db.execute("UPDATE messages SET content = content || 'y'")
os._exit(9)
"""
WRITES_AND_DIES = """
import os, sys
from hermes_sessions import SessionDB
db = SessionDB(sys.argv[1])
db.append_message(sys.argv[2], "user", "The last words")
os._exit(9)
"""


def flip(path: Path, page: int, size: int = 4096) -> None:
    """Damage one page."""
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)


def root_page(harness: DoctorHarness, name: str) -> int:
    program = (
        "import sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1])\n"
        "sql = 'SELECT rootpage FROM sqlite_schema WHERE name = ?'\n"
        "print(db.execute(sql, (sys.argv[2],)).fetchone()[0])\n"
    )
    said = subprocess.check_output([sys.executable, "-c", program, harness.store, name], text=True)
    return int(said)


def test_a_lock_and_who_holds_it(file: DoctorHarness) -> None:
    with another_process(HOLDS_THE_LOCK, file.store) as holder:
        found = file.look()
        assert "locked" in found.found
        assert f"({holder.pid}) is blocking writes to" in found.what("locked")
        assert found.document["state"] == "read-only"
        code, out, _ = file.call("doctor")
        assert code == 1
        assert "Next: Wait for the named process to finish, or stop it" in out
    assert file.look().found == []


HOLDS_EXCLUSIVE_LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA locking_mode = EXCLUSIVE")
db.execute("BEGIN EXCLUSIVE")
db.execute("UPDATE sessions SET title = title")
db.execute("COMMIT")
print("ready", flush=True)
sys.stdin.readline()
"""


def test_an_exclusive_lock_that_blocks_readers(file: DoctorHarness) -> None:
    file.run("PRAGMA journal_mode = delete")
    with another_process(HOLDS_EXCLUSIVE_LOCK, file.store) as holder:
        found = file.look()
        assert (found.code, found.found) == (1, ["locked"])
        assert f"({holder.pid}) is blocking all access" in found.what("locked")
        assert found.document["state"] == "down"
        assert "damaged-page" in found.unknown


def test_an_exclusive_lock_that_is_soon_released(
    file: DoctorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.run("PRAGMA journal_mode = delete")
    with another_process(HOLDS_EXCLUSIVE_LOCK, file.store) as holder:

        def let_go(_seconds: float) -> None:
            holder.kill()
            holder.wait()

        monkeypatch.setattr(access_checks.time, "sleep", let_go)
        found = file.look()
    assert (found.code, found.found, found.unknown) == (0, [], [])


def test_a_file_that_is_changed_while_it_is_looked_at_is_not_called_damaged(
    file: DoctorHarness,
) -> None:
    looked = FileInspection(file.store)
    flip(file.store, root_page(file, "messages"))
    with pytest.raises(ChangedDuringInspection, match="Try again"):
        looked.check_pages()
    looked.close()


def test_a_look_that_was_disturbed_is_taken_again(
    file: DoctorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    disturbances = iter([True])

    def check_pages(looked: FileInspection, **options: Any) -> object:
        if next(disturbances, False):
            raise ChangedDuringInspection("changed")
        return unpatched(looked, **options)

    unpatched = FileInspection.check_pages
    monkeypatch.setattr(FileInspection, "check_pages", check_pages)
    found = file.look()
    assert (found.code, found.unknown) == (0, [])


def test_a_program_of_another_product_that_writes(file: DoctorHarness) -> None:
    with another_process(HAS_IT_OPEN, file.store) as other:
        found = file.look()
        assert (found.code, found.found) == (1, ["foreign-writer"])
        assert f"({other.pid}) has {file.store} open for writing" in found.what("foreign-writer")


def test_a_program_of_this_product_is_not_a_foreign_program(file: DoctorHarness) -> None:
    program = (
        "import sys\nfrom hermes_sessions import SessionDB\ndb = SessionDB(sys.argv[1])\n"
        "print('ready', flush=True)\nsys.stdin.readline()"
    )
    with another_process(program, file.store):
        assert file.look().found == []


def test_a_version_that_only_another_product_writes(file: DoctorHarness) -> None:
    file.run("UPDATE schema_version SET version = 23")
    assert file.look().found == ["foreign-writer"]


def test_a_log_that_was_removed_in_use(file: DoctorHarness) -> None:
    with file.db() as db:
        for number in range(2):
            db.set_meta("written", number)
            Path(f"{file.store}-wal").unlink()
        db.set_meta("written", 2)
    found = file.look()
    assert (found.code, found.found) == (1, ["removed-log"])
    said = f"{re.escape(str(file.store))}-wal was removed while in use 2 times, last on 2.* UTC\\."
    assert re.fullmatch(said, found.what("removed-log"))
    assert file.look("--fix").mended == ["Acknowledged. The doctor reports it if it happens again."]
    assert file.look().found == []


@pytest.mark.parametrize("value", ["2", "[]", "no json", '{"count": "often"}'])
def test_a_note_of_a_removed_log_that_another_program_wrote(
    file: DoctorHarness, value: str
) -> None:
    file.run(f"INSERT INTO state_meta (key, value) VALUES ('store:removed_logs', '{value}')")
    assert file.look().found == []


def test_a_damaged_page(file: DoctorHarness) -> None:
    flip(file.store, root_page(file, "messages"))
    found = file.look()
    assert found.code == 1
    assert "damaged-page" in found.found
    assert "messages" in found.what("damaged-page")


@pytest.mark.parametrize("table", ["sessions", "messages"])
def test_a_table_of_which_nothing_can_be_read(file: DoctorHarness, table: str) -> None:
    """Lists and reads fail then, so the store must not be called healthy."""
    flip(file.store, root_page(file, table))
    found = file.look()
    assert (found.code, found.document["state"]) == (1, "down")
    assert f"The table {table} cannot be read" in found.what("damaged-page")
    code, out, _ = file.call("status")
    assert code == 1
    assert f"State: down: The table {table} cannot be read" in out


def test_damage_that_only_the_numbers_of_the_status_meet(file: DoctorHarness) -> None:
    flip(file.store, root_page(file, "processes"))
    code, out, _ = file.call("status")
    assert code == 1
    assert "State: degraded" in out
    assert "malformed" in out


def test_damage_that_there_was_no_time_to_look_for(
    file: DoctorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage that another check found counts even if pages were not checked."""

    def check_pages(_self: FileInspection, **_wishes: object) -> None:
        raise InspectionTimeout("the time limit was reached")

    flip(file.store, root_page(file, "outbox"))
    monkeypatch.setattr(FileInspection, "check_pages", check_pages)
    found = file.look()
    assert (found.code, found.found) == (1, ["damaged-page"])
    assert "damaged-page" not in found.document["absent"]


def test_a_damaged_index_of_the_database(file: DoctorHarness) -> None:
    flip(file.store, root_page(file, "idx_sessions_started"))
    found = file.look()
    assert (found.code, found.found) == (1, ["damaged-index"])
    assert "idx_sessions_started" in found.what("damaged-index")


def test_an_index_that_lacks_a_row(file: DoctorHarness) -> None:
    """Only a comparison of all rows finds it, and that runs only on request."""
    file.run(
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, '(started_at DESC', '(last_active DESC') "
        "WHERE name = 'idx_sessions_started'",
    )
    assert file.look("--full").found == ["damaged-index"]


def test_a_fix_that_does_not_work_says_so(file: DoctorHarness) -> None:
    """A page of the search index is gone, so that SQLite cannot even drop it."""
    flip(file.store, root_page(file, "search_index_data"))
    both = ["damaged-index", "damaged-search-index"]
    assert file.look().found == both
    after = file.look("--fix")
    assert (after.code, after.found) == (1, both)
    [tried] = after.document["mended"]
    assert not tried["done"]
    assert "hermes repair" in tried["what"]
    _, out, _ = file.call("doctor", "--fix")
    assert "Not fixed: " in out


def test_only_as_many_pages_as_there_is_time_for(file: DoctorHarness) -> None:
    with file.db() as db:
        db.append_messages(
            SESSION, [{"role": "user", "content": "y" * 20_000} for _ in range(2_000)]
        )
        db.optimize_search()
    asked = count()
    assert file.look(stopwatch=lambda: float(next(asked) * 0)).document["notes"] == []
    # Pages are checked last: the time is over shortly before everything was.
    enough, again = next(asked) - 3, count()
    found = file.look(stopwatch=lambda: 0.0 if next(again) < enough else 1000.0)
    assert (found.code, found.found, found.unknown) == (0, [], [])
    [note] = found.document["notes"]
    assert re.fullmatch(r"Checked [\d,]+ of [\d,]+ pages within the time limit\. .*--full", note)


def test_pages_are_counted_as_they_are_checked(file: DoctorHarness) -> None:
    with file.db() as db:
        db.append_messages(
            SESSION, [{"role": "user", "content": "y" * 20_000} for _ in range(2_000)]
        )
    asked = count()
    looked = FileInspection(file.store, stopwatch=lambda: float(next(asked)))
    until = float(next(asked) + 4)
    before = bytes_read()
    found = looked.check_pages(until=until)
    read = bytes_read() - before
    looked.close()
    assert (found.damages, found.is_complete) == ((), False)
    assert 0 < found.checked < found.total
    # Overflow pages of long messages are counted, too.
    assert found.checked == pytest.approx(read / 4096, rel=0.1, abs=20)


def bytes_read() -> int:
    """How much this process has read from files."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_a_log_that_is_longer_than_there_is_time_for(file: DoctorHarness, tmp_path: Path) -> None:
    """It is looked at page by page; what is in the rest of it is not known."""
    copy = DoctorHarness(tmp_path / "copy")
    with file.db() as db:
        db.append_messages(SESSION, [{"role": "user", "content": f"{n}"} for n in range(200)])
        # In another process: closing the file in this one would drop its locks.
        files = [file.store, Path(f"{file.store}-wal")]
        subprocess.run(["cp", "-p", *files, copy.home], check=True)
    asked = count()
    with pytest.raises(InspectionTimeout):
        FileInspection(copy.store, until=3.0, stopwatch=lambda: float(next(asked)))
    assert next(asked) == 4
    # The time is over when it is looked at, and there is time for what comes after.
    times = iter([0.0, 1000.0])
    found = copy.look(stopwatch=lambda: next(times, 0.0))
    assert (found.code, found.found) == (2, [])
    assert "the time limit was reached" in str(found.document["unknown"])
    assert {"unreachable", "damaged-page"} <= set(found.unknown)


def test_checks_for_which_no_time_is_left_are_unknown(file: DoctorHarness) -> None:
    times = iter([0.0])
    found = file.look(stopwatch=lambda: next(times, 1000.0))
    assert found.code == 2
    assert "damaged-page" in found.unknown
    assert "damaged-page" not in found.document["absent"]


def test_no_database_at_all(file: DoctorHarness) -> None:
    file.store.write_bytes(b"Dear diary, " * 100)
    found = file.look()
    assert (found.code, found.found) == (1, ["foreign-file"])
    assert found.document["state"] == "down"
    assert "damaged-page" in found.unknown


def test_damage_does_not_look_like_another_programs_file(file: DoctorHarness) -> None:
    with file.store.open("r+b") as opened:
        opened.write(bytes(100))
    found = file.look()
    assert (found.code, found.found) == (1, ["damaged-page"])
    assert "the beginning of the file is damaged" in found.what("damaged-page")
    assert found.document["state"] == "down"


def test_half_a_file(file: DoctorHarness) -> None:
    os.truncate(file.store, file.store.stat().st_size // 8192 * 4096)
    found = file.look()
    assert found.code == 1
    assert "damaged-page" in found.found


def test_a_path_that_is_not_a_file(tmp_path: Path) -> None:
    harness = DoctorHarness(tmp_path / "home")
    os.mkfifo(harness.store)
    found = harness.look()
    assert (found.code, found.found) == (1, ["unreachable"])


def test_a_file_without_a_byte_is_not_a_store_yet(tmp_path: Path) -> None:
    harness = DoctorHarness(tmp_path / "home")
    harness.store.touch(mode=0o600)
    found = harness.look()
    assert (found.code, found.found, found.unknown) == (0, [], [])


def test_a_store_that_was_emptied(file: DoctorHarness) -> None:
    file.store.write_bytes(b"")
    found = file.look()
    assert (found.code, found.found) == (1, ["emptied-store"])
    assert "it is empty, but a store was here" in found.what("emptied-store")
    assert found.document["state"] == "down"
    assert file.store.stat().st_size == 0
    code, out, _ = file.call("status")
    assert code == 1
    assert "State: down" in out


def test_a_database_of_another_program(tmp_path: Path) -> None:
    harness = DoctorHarness(tmp_path / "home")
    harness.run("CREATE TABLE recipes (id INTEGER PRIMARY KEY, name TEXT)")
    harness.store.chmod(0o600)
    found = harness.look()
    assert (found.code, "foreign-file" in found.found) == (1, True)


def test_a_directory_where_the_file_should_be(tmp_path: Path) -> None:
    harness = DoctorHarness(tmp_path / "home")
    harness.store.mkdir()
    found = harness.look()
    assert (found.code, found.found) == (1, ["unreachable"])
    assert found.document["state"] == "down"


def test_a_newer_version_wrote_it(file: DoctorHarness) -> None:
    file.run("PRAGMA user_version = 99")
    found = file.look()
    assert (found.code, found.found) == (1, ["newer-schema"])
    assert found.document["state"] == "read-only"


def test_a_layout_of_a_later_hermes(tmp_path: Path) -> None:
    harness = DoctorHarness(tmp_path / "home")
    hermes_files.make(hermes_files.LATER[0], harness.store)
    harness.store.chmod(0o600)
    found = harness.look()
    assert (found.code, found.found) == (1, ["hermes-file"])
    assert "hermes sessiondb upgrade" in str(found.document)


def test_a_layout_of_an_older_hermes(tmp_path: Path) -> None:
    harness = DoctorHarness(tmp_path / "home")
    hermes_files.make("v11", harness.store)
    harness.store.chmod(0o600)
    found = harness.look()
    assert (found.code, "unfinished-migration" in found.found) == (1, True)
    mended = harness.look("--fix")
    assert "unfinished-migration" not in mended.found
    assert mended.mended == ["Ran the migrations; the tables are up to date."]


def test_a_write_that_was_not_finished(file: DoctorHarness) -> None:
    subprocess.run([sys.executable, "-c", DIES_WHILE_IT_WRITES, file.store], check=False)
    assert file.store.with_name("state.db-journal").exists()
    found = file.look()
    assert (found.code, found.found) == (1, ["unfinished-write"])
    mended = file.look("--fix")
    assert (mended.code, mended.found) == (0, [])
    with file.db() as db:
        assert not db.get_messages(SESSION)[0]["content"].endswith("y")


def test_what_is_only_in_the_log_is_seen_and_the_log_stays(file: DoctorHarness) -> None:
    subprocess.run([sys.executable, "-c", WRITES_AND_DIES, file.store, SESSION], check=False)
    assert file.store.with_name("state.db-wal").stat().st_size > 0
    # The clock of that process was not the one of these tests.
    assert file.look().found == ["clock-jump"]


def test_a_file_that_others_may_read(file: DoctorHarness) -> None:
    file.store.chmod(0o644)
    file.home.chmod(0o777)
    found = file.look()
    assert (found.code, found.found) == (1, ["open-to-others"])
    assert len(found.document["findings"]) == 2
    mended = file.look("--fix")
    assert (mended.code, len(mended.mended)) == (0, 2)
    assert (file.store.stat().st_mode & 0o777, file.home.stat().st_mode & 0o777) == (0o600, 0o755)


def test_a_file_of_another_user(file: DoctorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    found = file.look()
    assert "foreign-owner" in found.found
    assert found.document["state"] == "down"


def test_a_place_that_cannot_be_written(file: DoctorHarness) -> None:
    if os.geteuid() == 0:  # who may write anywhere
        found = file.look_elsewhere(prefix=disks.read_only(file.home))
    else:
        file.home.chmod(0o500)
        found = file.look()
        file.home.chmod(0o700)
    assert "read-only-place" in found.found
    assert found.document["state"] == "read-only"


def test_a_disk_that_is_nearly_full(
    file: DoctorHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if may_mount(disk):
        prefix = disks.on_a_small_disk(file.home, 2048, tmp_path / "results")
        # The disk is copied back afterwards, whatever the doctor thinks of it.
        found = file.look_elsewhere(prefix=[*prefix, "sh", "-c", '"$@" || true', "sh"])
    else:
        facts = os.statvfs(file.home)
        full = os.statvfs_result((*facts[:4], 100, *facts[5:]))
        monkeypatch.setattr(os, "statvfs", lambda _place: full)
        found = file.look()
    assert "disk-nearly-full" in found.found
    assert f"MB free in {file.home}" in found.what("disk-nearly-full")


def test_a_network_file_system(file: DoctorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    table = [f"1 0 0:1 / {file.home} rw - nfs4 server:/export rw"]
    monkeypatch.setattr(file_access, "read_mount_table", lambda: table)
    found = file.look()
    assert found.found == ["unsafe-file-system"]
    assert found.what("unsafe-file-system") == f"{file.store} is on a nfs4 file system."


def test_files_that_were_left_behind(file: DoctorHarness) -> None:
    old = file.now - 86_400
    partial = file.home / "state.db.bak.partial"
    partial.write_bytes(b"half a copy")
    temporary = file.home / ".sessions_abc.tmp"
    temporary.write_text("{}")
    unfinished = file.home / "backups" / f"one{UNFINISHED}"
    unfinished.parent.mkdir(mode=0o700)
    unfinished.write_bytes(b"half a backup")
    for path in (partial, temporary, unfinished):
        os.utime(path, (old, old))
    fresh = file.home / ".sessions_new.tmp"
    fresh.write_text("{}")
    os.utime(fresh, (file.now, file.now))
    (file.home / "gone.db-shm").write_bytes(b"\0" * 32)
    found = file.look()
    assert (found.code, found.found) == (0, ["orphaned-files"])
    mended = file.look("--fix")
    assert (len(mended.mended), mended.found) == (4, [])
    assert fresh.exists()
    assert not partial.exists()


def test_a_log_without_its_database_is_kept(file: DoctorHarness) -> None:
    log = file.home / "gone.db-wal"
    log.write_bytes(b"perhaps the only copy")
    found = file.look("--fix")
    assert (found.code, found.found, found.document["mended"]) == (1, ["orphaned-log"], [])
    assert log.exists()

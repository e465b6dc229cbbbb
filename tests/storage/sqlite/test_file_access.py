"""File ownership, file systems and locks: where a store can be opened."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions import (
    NotADatabase,
    SessionDB,
    StoreLocked,
    StoreReadOnly,
    StoreUnreachable,
    UnsafeStore,
)
from hermes_sessions.storage.sqlite import file_access
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
from tests.storage.sqlite import disks
from tests.storage.sqlite.other_process import start

AS_ROOT = os.geteuid() == 0
OTHER_UID = 54321

MOUNTS = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
30 22 0:44 / /home/ann/My\040Files rw - nfs4 server:/export rw,vers=4.2
31 22 0:45 / /home/ann rw - xfs /dev/vdb rw
32 22 0:46 / /mnt/share rw,relatime master:3 propagate_from:2 - cifs //server/share rw
33 22 0:47 / /mnt/phone rw - fuse.sshfs ann@phone:/ rw
34 22 0:48 / /mnt/usb rw - fuseblk /dev/sdb1 rw
35 22 0:49 / /mnt/overmounted rw - ext4 /dev/sdc1 rw
36 35 0:50 / /mnt/overmounted rw - nfs server:/x rw
37 22 0:51 / /mnt rw - ext4 /dev/sdd1 rw
38 22 0:52 / /work\134space rw - 9p host rw
not a line of mountinfo
""".strip().splitlines()


class TestFileSystems:
    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("/srv/state.db", "ext4"),
            ("/home/ann/.hermes/state.db", "xfs"),
            ("/home/anna/state.db", "ext4"),
            ("/home/ann/My Files/state.db", "nfs4"),
            ("/mnt/share/state.db", "cifs"),
            ("/mnt/phone/state.db", "fuse.sshfs"),
            ("/mnt/usb/state.db", "fuseblk"),
            ("/mnt/overmounted/state.db", "nfs"),
            ("/mnt/sharedata/state.db", "ext4"),
            ("/mnt", "ext4"),
            ("/work\\space/state.db", "9p"),
        ],
    )
    def test_the_nearest_mount_counts(self, path: str, kind: str) -> None:
        assert file_access.file_system_type(path, MOUNTS) == kind

    def test_an_empty_table_tells_nothing(self) -> None:
        assert file_access.file_system_type("/x", []) is None
        assert file_access.supports_wal(None)

    @pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuseblk"])
    def test_local_disks_carry_a_log(self, kind: str) -> None:
        assert file_access.supports_wal(kind)

    @pytest.mark.parametrize(
        "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse", "virtiofs", "vboxsf"]
    )
    def test_network_and_user_space_file_systems_do_not(self, kind: str) -> None:
        assert not file_access.supports_wal(kind)

    def test_this_machine_has_mounts(self) -> None:
        assert file_access.file_system_type("/", file_access.read_mount_table())

    def test_a_store_on_a_network_file_system(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It gets a rollback journal and no gate, also when it came with a log from elsewhere."""
        path = tmp_path / "state.db"
        with SessionDB(path) as db:
            db.create_session("s", source="test")
        table = [f"30 22 0:44 / {tmp_path} rw - nfs4 server:/export rw"]
        Path(f"{path}.gate").unlink()
        monkeypatch.setattr(file_access, "read_mount_table", lambda: table)
        with SessionDB(path) as db:
            assert isinstance(db.provider, SQLiteSessionDBProvider)
            with db.provider.reading_connection() as connection:
                assert connection.pragma("journal_mode") == "delete"
            db.append_message("s", role="user", content="x")
        assert "nfs4 file system" in caplog.text
        assert [one.name for one in tmp_path.iterdir()] == ["state.db"]

    def test_a_log_in_use_on_a_network_file_system(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Using the log could damage the file, so it is refused."""
        path = tmp_path / "state.db"
        with SessionDB(path) as db, SessionDB(path, read_only=True) as reader:
            db.create_session("s", source="test")
            assert reader.session_count() == 1
            db.close()
            table = [f"30 22 0:44 / {tmp_path} rw - nfs4 server:/export rw"]
            monkeypatch.setattr(file_access, "read_mount_table", lambda: table)
            with pytest.raises(StoreLocked):
                SessionDB(path, lock_timeout=0.05)


class TestOwners:
    @pytest.fixture
    def theirs(self, tmp_path: Path) -> Path:
        """Return a file of another user: made by root, or an existing one."""
        if not AS_ROOT:
            return Path("/etc/passwd")
        path = tmp_path / "theirs.db"
        SessionDB(path).close()
        os.chown(path, OTHER_UID, -1)
        return path

    @pytest.fixture
    def their_link(self, tmp_path: Path) -> Path:
        """A link of another user to a file that is there."""
        if not AS_ROOT:
            return Path("/proc/self")  # A link that belongs to root.
        mine = tmp_path / "mine.db"
        SessionDB(mine).close()
        link = tmp_path / "link.db"
        link.symlink_to(mine)
        os.lchown(link, OTHER_UID, -1)
        return link

    def test_a_file_of_another_user_is_refused(self, theirs: Path) -> None:
        before = theirs.read_bytes()
        with pytest.raises(UnsafeStore, match="belongs to user") as caught:
            SessionDB(theirs)
        assert isinstance(caught.value, PermissionError)
        with pytest.raises(UnsafeStore):
            SessionDB(theirs, read_only=True)
        assert theirs.read_bytes() == before

    def test_a_link_to_a_file_of_another_user_is_refused(
        self, theirs: Path, tmp_path: Path
    ) -> None:
        link = tmp_path / "link.db"
        link.symlink_to(theirs)
        with pytest.raises(UnsafeStore, match="belongs to user"):
            SessionDB(link)

    def test_a_link_of_another_user_is_refused(self, their_link: Path) -> None:
        with pytest.raises(UnsafeStore, match="belongs to user"):
            file_access.check_ownership(str(their_link))

    def test_a_link_to_a_link_of_another_user_is_refused(
        self, their_link: Path, tmp_path: Path
    ) -> None:
        link = tmp_path / "outer.db"
        link.symlink_to(their_link)
        with pytest.raises(UnsafeStore, match="belongs to user"):
            file_access.check_ownership(str(link))

    @pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
    def test_a_companion_of_another_user_is_refused(self, tmp_path: Path, suffix: str) -> None:
        """It could hold anything, and SQLite would believe it."""
        path = tmp_path / "state.db"
        SessionDB(path).close()
        companion = Path(f"{path}{suffix}")
        if AS_ROOT:
            companion.touch()
            os.chown(companion, OTHER_UID, -1)
        else:
            companion.symlink_to("/etc/passwd")
        with pytest.raises(UnsafeStore, match=suffix):
            SessionDB(path)

    @pytest.mark.parametrize("kind", ["directory", "fifo"])
    def test_a_path_that_is_not_a_file_is_refused(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "state.db"
        if kind == "fifo":
            os.mkfifo(path)
        else:
            path.mkdir()
        with pytest.raises(StoreUnreachable, match="not a regular file"):
            SessionDB(path)

    def test_a_refused_file_keeps_its_permissions(self, tmp_path: Path) -> None:
        path = tmp_path / "notes.txt"
        path.write_text("not a database, but mine, and readable for all on purpose\n" * 20)
        path.chmod(0o644)
        with pytest.raises(NotADatabase):
            SessionDB(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o644


class TestWhereNothingCanBeWritten:
    """Real file systems and real users; root becomes another user, as it may do everything."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Path:
        path = tmp_path / "home" / "state.db"
        with SessionDB(path) as db:
            db.create_session("s", source="test")
            db.append_message("s", role="user", content="kept")
        return path

    @pytest.fixture
    def their_home(self) -> Iterator[Path]:
        """A directory that an ordinary user can reach."""
        directory = Path(tempfile.mkdtemp(prefix="hermes-location-"))
        if AS_ROOT:
            os.chown(directory, OTHER_UID, OTHER_UID)
        yield directory
        for one in [directory, *directory.rglob("*")]:
            if not one.is_symlink():
                one.chmod(0o700)
        shutil.rmtree(directory)

    @pytest.mark.parametrize("what", ["file", "directory"])
    def test_a_mount_that_is_read_only(self, store: Path, what: str) -> None:
        """It is read; what would write says why it cannot."""
        mounted = store if what == "file" else store.parent
        said = start("read_and_try_to_write", store, prefix=disks.read_only(mounted)).succeeded()
        assert said == ["kept", "StoreReadOnly"]

    def test_a_directory_on_a_read_only_mount(self, store: Path) -> None:
        prefix = disks.read_only(store.parent)
        said = start("try_to_create", store.parent / "new.db", prefix=prefix).succeeded()
        assert said == ["StoreUnreachable"]
        said = start("try_to_create", store.parent / "a" / "b.db", prefix=prefix).succeeded()
        assert said == ["StoreUnreachable"]

    def test_what_an_ordinary_user_cannot_write(self, their_home: Path) -> None:
        said = start("become_another_user", OTHER_UID, their_home).succeeded()
        assert said == [
            "a file without permission to write: kept, StoreReadOnly",
            "the same with permission again: kept, x and before: True",
            "a directory without permission to write: kept, StoreReadOnly",
            "a new file there: StoreUnreachable",
            "a directory without permission to enter: StoreUnreachable",
            "a new directory inside: StoreUnreachable",
        ]

    def test_a_file_that_changes_where_it_cannot_be_locked(self, store: Path) -> None:
        """A read-only mount of a store that another process writes through another path."""
        with start("read_twice", store, prefix=disks.read_only(store.parent)) as reader:
            assert reader.said() == "kept"
            with SessionDB(store) as db:
                db.append_message("s", role="user", content="later")
            reader.tell()
            assert reader.said() == "StoreUnavailable"
            assert reader.succeeded() == ["kept later"]

    def test_a_read_only_open_of_what_was_never_created(self, tmp_path: Path) -> None:
        path = tmp_path / "state.db"
        path.touch()
        with pytest.raises(StoreReadOnly, match="Open it once for writing"):
            SessionDB(path, read_only=True)


def test_a_lack_of_descriptors_makes_nothing_read_only(tmp_path: Path) -> None:
    said = start("run_out_of_descriptors", tmp_path / "state.db").succeeded()
    assert said[0] == "StoreUnreachable"
    assert said[-1] == "stored"
    assert set(said) == {"StoreUnreachable", "stored"}


class TestLockTable:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Path:
        path = tmp_path / "state.db"
        path.touch()
        Path(f"{path}-shm").touch()
        return path

    @staticmethod
    def line(path: Path, kind: str, pid: int, first: int, last: int | str, wait: str = "") -> str:
        facts = path.stat()
        device = f"{os.major(facts.st_dev):02x}:{os.minor(facts.st_dev):02x}"
        return f"7:{wait} POSIX  ADVISORY  {kind} {pid} {device}:{facts.st_ino} {first} {last}"

    def test_a_process_that_writes_the_log_blocks_writers(self, store: Path) -> None:
        shm = Path(f"{store}-shm")
        table = [
            self.line(store, "READ", 101, 1073741826, 1073742335),
            self.line(store, "READ", 102, 1073741826, 1073742335),
            self.line(shm, "READ", 101, 128, 128),
            self.line(shm, "WRITE", 102, 120, 120),
            self.line(shm, "WRITE", 103, 121, 121),
            "not a line of the table",
        ]
        assert file_access.processes_blocking_writers(store, table) == [102]

    def test_a_process_that_locks_the_file_blocks_writers(self, store: Path) -> None:
        table = [
            self.line(store, "READ", 101, 1073741826, 1073742335),
            self.line(store, "WRITE", 102, 1073741825, 1073741825),
            self.line(store, "WRITE", 103, 0, "EOF"),
        ]
        assert file_access.processes_blocking_writers(store, table) == [102, 103]

    def test_one_who_waits_is_not(self, store: Path) -> None:
        table = [self.line(store, "WRITE", 102, 1073741825, 1073741825, wait=" ->")]
        assert file_access.processes_blocking_writers(store, table) == []

    def test_without_a_writer_all_who_have_it_open_are_named(self, store: Path) -> None:
        table = [
            self.line(store, "READ", 101, 1073741826, 1073742335),
            self.line(store, "READ", os.getpid(), 1073741826, 1073742335),
            self.line(store, "READ", 0, 1073741826, 1073742335),
        ]
        assert file_access.processes_blocking_writers(store, table) == [101]

    def test_the_same_number_on_another_device_is_another_file(self, store: Path) -> None:
        inode = store.stat().st_ino
        table = [
            self.line(store, "WRITE", 101, 1073741825, 1073741825),
            f"8: POSIX  ADVISORY  WRITE 666 ff:fe:{inode} 1073741825 1073741825",
        ]
        assert file_access.processes_blocking_writers(store, table) == [101]

    def test_a_device_that_is_shown_differently(self, store: Path) -> None:
        inode = store.stat().st_ino
        table = [f"8: POSIX  ADVISORY  WRITE 101 ff:fe:{inode} 1073741825 1073741825"]
        assert file_access.processes_blocking_writers(store, table) == [101]

    def test_a_missing_store_has_no_blocking_processes(self, tmp_path: Path) -> None:
        assert file_access.processes_blocking_writers(tmp_path / "none", ["1: POSIX x"]) == []

    def test_a_process_that_is_gone_still_has_a_number(self) -> None:
        assert file_access.process_name(2**22 + 1) == f"process ({2**22 + 1})"

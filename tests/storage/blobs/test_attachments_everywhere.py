"""Attachments in copies, backups, repairs, erasures, and stores that earlier versions open."""

from __future__ import annotations

import signal
import sqlite3
from base64 import b64encode
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from hermes_sessions import SessionDB, create_backup, restore_backup
from hermes_sessions.storage.care.erasure.coordinator import Erasure
from hermes_sessions.storage.care.erasure.targets import ErasureSubject
from hermes_sessions.storage.care.repair.file_repair import repair
from hermes_sessions.storage.care.repair.report import RepairOptions
from hermes_sessions.storage.tables import ATTACHMENTS_LEVEL
from tests.servers.stores import mysql_place, postgresql_place
from tests.storage.blobs.test_processes import start
from tests.storage.sqlite.integrity import require_sound
from tests.storage.transfer.stores import KINDS, NewStore, compared, move, opened, stores_in
from tests.update.versions import start_writer, unpack

CHANCE = Random(3)
NOISE = CHANCE.randbytes(300_000)
CONTENT = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]
CONTENT[0]["image_url"]["url"] += b64encode(NOISE).decode()  # type: ignore[index]


@pytest.fixture
def new_store(tmp_path: Path, request: pytest.FixtureRequest) -> NewStore:
    return stores_in(tmp_path, request)


def filled(url: str) -> str:
    with opened(url) as db:
        for session_id in ("s", "t"):
            db.create_session(session_id, "cli", user_id=session_id)
            db.append_message(session_id, "user", CONTENT)
            db.append_message(session_id, "user", b64encode(NOISE[:100_000]))
    return url


def require_filled(db: SessionDB) -> None:
    for session_id in ("s", "t"):
        read = [message["content"] for message in db.get_messages(session_id)]
        assert read == [CONTENT, b64encode(NOISE[:100_000])]
        assert db.list_attachments(session_id)[0]["size"] == len(NOISE)
    db.sweep_blobs()
    with db.provider.read() as tx:
        assert tx.one("SELECT COUNT(*) FROM blobs") == (2,)
        assert tx.one("SELECT name FROM store_migrations WHERE name = ?", ("attachments",))


@pytest.mark.parametrize(("first", "second"), [*zip(KINDS, KINDS[1:] + KINDS[:1], strict=True)])
def test_copies(new_store: NewStore, first: str, second: str) -> None:
    source, target = filled(new_store(first)), new_store(second)
    assert move(source, target).differences == []
    assert compared(source, target).differences == []
    with opened(target, clock=lambda: 4e9) as db:
        require_filled(db)


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("target", KINDS)
def test_backups(new_store: NewStore, tmp_path: Path, target: str, portable: bool) -> None:
    with opened(filled(new_store("sqlite"))) as db:
        made = create_backup(db, tmp_path / "backups", portable=portable)
    url = new_store(target)
    restore_backup(made.path, url)
    with opened(url) as db:
        require_filled(db)


@pytest.mark.parametrize("kind", KINDS)
def test_erasure(new_store: NewStore, kind: str) -> None:
    """What only the erased person had goes at once; what another one sent stays."""
    with opened(filled(new_store(kind))) as db:
        own = db.append_message("s", "user", NOISE[:50_000])
        assert own
        receipt = Erasure(db.store).forget(ErasureSubject("user", "s"))
        assert receipt.status == "done", receipt
        assert receipt.steps[0].removed["blobs"] == 1
        assert db.get_messages("t")[0]["content"] == CONTENT
        with db.provider.read() as tx:
            assert tx.one("SELECT COUNT(*) FROM blobs") == (2,)
        Erasure(db.store).forget(ErasureSubject("session", "t"))
        with db.provider.read() as tx:
            for table in ("blobs", "blob_parts", "blob_references"):
                assert tx.one(f"SELECT COUNT(*) FROM {table}") == (0,)


def test_erased_bytes_leave_the_file(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with opened(filled(f"sqlite:///{path}")) as db:
        Erasure(db.store).forget(ErasureSubject("user", "s"), rebuild=True)
        Erasure(db.store).forget(ErasureSubject("user", "t"), rebuild=True)
    left = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for start_of in range(0, len(NOISE), 10_000):
        assert NOISE[start_of : start_of + 24] not in left


def test_a_damaged_file_is_repaired(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    filled(f"sqlite:///{path}")
    data = bytearray(path.read_bytes())
    data[:100] = bytes(100)
    path.write_bytes(data)
    report = repair(path, RepairOptions(way="rows"))
    assert report.state == "repaired"
    with opened(f"sqlite:///{path}") as db:
        read = [message["content"] for message in db.get_messages("s")]
        assert read == [CONTENT, b64encode(NOISE[:100_000])]
    assert user_version(path) == ATTACHMENTS_LEVEL


@pytest.mark.parametrize("kind", KINDS)
def test_another_program_moves_messages(new_store: NewStore, kind: str) -> None:
    """The sweep waits until it is known where they are now."""
    with opened(filled(new_store(kind))) as db:
        db.create_session("third", "cli")
        move_all = "UPDATE messages SET session_id = ? WHERE session_id = ?"
        db.provider.write(lambda tx: tx.run(move_all, ("third", "s")))
        db.delete_session("t")
        db.sweep_blobs()
        assert db.get_messages("third")[0]["content"] == CONTENT
        db.list_sessions_rich()
        db.sweep_blobs()
        assert db.get_messages("third")[0]["content"] == CONTENT
        db.delete_session("third")
        with db.provider.read() as tx:
            assert tx.one("SELECT COUNT(*) FROM blobs") == (0,)


def user_version(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    finally:
        connection.close()


def test_the_level_that_writers_must_know(tmp_path: Path) -> None:
    """It rises with the first attachment, and a dump that lost it gets it back."""
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "hello")
        assert user_version(path) == 1
        db.append_message("s", "user", CONTENT)
    assert user_version(path) == ATTACHMENTS_LEVEL
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 0")
    connection.execute("PRAGMA application_id = 0")
    connection.close()
    with SessionDB(path) as db:
        assert db.get_messages("s")[1]["content"] == CONTENT
    assert user_version(path) == ATTACHMENTS_LEVEL


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'state.db'}"
    server = request.getfixturevalue(request.param)
    place_of: Callable[..., object] = (
        postgresql_place if request.param == "postgresql" else mysql_place
    )
    return place_of(server, "blobs").new_url()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.slow
@pytest.mark.fault(
    "An earlier version opens a store that has attachments",
    "Refused with a clear error; without attachments, it keeps working",
)
@pytest.mark.parametrize("release", ["0.1.0", "0.2.0"])
def test_an_earlier_version(url: str, tmp_path: Path, release: str) -> None:
    earlier = unpack(release, tmp_path / "releases")
    with SessionDB.from_url(url) as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "hello")
    with start_writer(earlier, url, "before") as writer:
        assert writer.said() == "ready"
        writer.tell()
        assert writer.said() == "open"
        assert writer.said() == "0"
        writer.send(signal.SIGTERM)
        assert writer.ended() == 0
    with SessionDB.from_url(url) as db:
        db.append_message("s", "user", CONTENT)
    with start_writer(earlier, url, "after") as writer:
        assert writer.said() == "ready"
        writer.tell()
        # A server is opened for reading, too, and refuses the first write.
        said = next(line for line in writer.all_lines() if line != "open")
        assert said.startswith("refused ")
        assert "newer" in said
        assert writer.ended() == 3
    with SessionDB.from_url(url) as db:
        assert db.get_messages("s")[1]["content"] == CONTENT
        assert db.get_session("after") is None


@pytest.mark.slow
@pytest.mark.fault(
    "A process that appends attachments is killed",
    "A message has its attachment, or neither is there",
)
def test_appending_is_killed(url: str, long_run: bool) -> None:
    for _ in range(20 if long_run else 3):
        with start("attach", url, "writer") as process:
            said = list(islice(process.all_lines(), 7))
            process.kill()
        with SessionDB.from_url(url) as db:
            contents = [m["content"] for m in db.get_messages("writer", include_inactive=True)]
            assert [len(content) for content in contents[: len(said)]] == [30_000] * len(said)
            assert all(isinstance(content, bytes) for content in contents)
            db.sweep_blobs()
            assert [m["content"] for m in db.get_messages("writer")] == contents
            db.delete_session("writer")
            with db.provider.read() as tx:
                assert tx.one("SELECT COUNT(*) FROM blob_parts") == (0,)
    if url.startswith("sqlite"):
        require_sound(Path(url.removeprefix("sqlite:///")))

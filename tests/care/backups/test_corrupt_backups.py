"""Corrupt backups: flipped bits, truncated files, and malicious files."""

from __future__ import annotations

import json
import os
import random
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import BackupDamaged, BackupRefused
from hermes_sessions.storage.care.backups.backup_directory import list_backups
from hermes_sessions.storage.care.backups.container import ContainerWriter, opened
from hermes_sessions.storage.care.backups.creation import create_backup
from hermes_sessions.storage.care.backups.restore import restore_backup
from hermes_sessions.storage.care.backups.verification import check_digests, verify_backup
from tests.care.backups.sample_stores import talk


@pytest.fixture(params=["image", "portable"])
def made(request: pytest.FixtureRequest, directory: Path) -> Path:
    with SessionDB(":memory:") as db:
        talk(db)
        return create_backup(db, directory, portable=request.param == "portable").path


@pytest.mark.fault(
    "A bit of a backup is flipped, or its end is missing",
    "Reported as damaged, and never restored",
    on="sqlite",
)
def test_a_flipped_bit_anywhere(made: Path, long_run: bool) -> None:
    content = made.read_bytes()
    chosen = random.Random(7).sample(range(len(content)), 3000 if long_run else 250)
    edges = [*range(40), *range(len(content) - 130, len(content))]
    for offset in {*chosen, *edges}:
        changed = bytearray(content)
        changed[offset] ^= 1 << offset % 8
        made.write_bytes(changed)
        with pytest.raises(BackupRefused):
            check_digests(made)
    made.write_bytes(content)
    verify_backup(made)


@pytest.mark.fault(
    "A bit of a backup is flipped, or its end is missing",
    "Reported as damaged, and never restored",
    on="sqlite",
)
def test_cut_off_anywhere(made: Path) -> None:
    content = made.read_bytes()
    for length in {*range(0, len(content), len(content) // 60), len(content) - 1}:
        made.write_bytes(content[:length])
        with pytest.raises(BackupDamaged):
            verify_backup(made)
    made.write_bytes(content + b"\n")
    with pytest.raises(BackupDamaged):
        verify_backup(made)


def test_of_a_later_version(made: Path, tmp_path: Path) -> None:
    content = made.read_bytes().replace(b"BACKUP\n1\n", b"BACKUP\n2\n", 1)
    made.write_bytes(content)
    with pytest.raises(BackupRefused, match=r"\(format 2.*Update this program") as error:
        restore_backup(made, tmp_path / "new.db")
    assert not isinstance(error.value, BackupDamaged)
    assert [backup.state for backup in list_backups(made.parent)] == ["newer"]


@pytest.mark.parametrize(
    "content",
    [b"", b"SQLite format 3\0" + bytes(5000), b"HERMES SESSIONS BACKUP\n", os.urandom(3000)],
    ids=["empty", "a database", "a head", "noise"],
)
def test_no_backup_at_all(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.hsb").write_bytes(content)
    with pytest.raises(BackupDamaged):
        verify_backup(tmp_path / "x.hsb")
    [listed] = list_backups(tmp_path)
    assert listed.state == "damaged"


def test_a_path_that_is_not_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.hsb")
    (tmp_path / "folder.hsb").mkdir()
    (tmp_path / "link.hsb").symlink_to("/etc/passwd")
    assert list_backups(tmp_path) == []
    for name in ("pipe.hsb", "folder.hsb", "absent.hsb"):
        with pytest.raises(BackupRefused):
            verify_backup(tmp_path / name)


# ── made to do harm: digests are right, because its author computed them ─────────────────

Change = Callable[[dict[str, Any], list[bytes], list[bytes]], None]


def forged(made: Path, target: Path, change: Change) -> Path:
    """A backup with right digests, changed in its manifest, rows or list of sessions."""
    with opened(made) as container:
        facts = {k: v for k, v in container.manifest.items() if k not in ("format", "sections")}
        rows = [line + b"\n" for line in container.lines("rows")]
        sums = [line + b"\n" for line in container.lines("sessions")]
    change(facts, rows, sums)
    with target.open("wb") as file:
        writer = ContainerWriter(file)
        for name, lines in (("rows", rows), ("sessions", sums)):
            with writer.section(name) as section:
                for line in lines:
                    section.write_line(line)
        writer.finish(facts)
    return target


def _row(table: str, **changes: Any) -> Change:
    """Change the first row of a table."""

    def change(facts: dict[str, Any], rows: list[bytes], _sums: list[bytes]) -> None:
        for number, line in enumerate(rows):
            values = json.loads(line)
            if values[0] == table:
                for name, value in changes.items():
                    values[1 + facts["columns"][table].index(name)] = value
                rows[number] = json.dumps(values).encode() + b"\n"
                return

    return change


def _drop(number: int) -> Change:
    return lambda _facts, rows, _sums: rows.pop(number) and None


CHANGES: dict[str, Change] = {
    "another text": _row("messages", content="something else"),
    "a number as text": _row("messages", ordinal="1"),
    "a number beyond 64 bits": _row("messages", id=2**63),
    "truth": _row("messages", active=True),
    "nothing where something must be": _row("messages", role=None),
    "an object as a value": _row("messages", content={"a": 1}),
    "not a number": _row("messages", timestamp=float("nan")),
    "another session's row": _row("messages", session_id="s003"),
    "a row less": _drop(1),
    "a session's own row less": _drop(0),
    "a session less in the list": lambda _f, _r, sums: sums.pop() and None,
    "a session more in the list": lambda _f, _r, sums: sums.append(sums[0]),
    "deep nesting": lambda _f, rows, _s: rows.append(b"[" * 100_000 + b"]" * 100_000 + b"\n"),
    "no JSON": lambda _f, rows, _s: rows.append(b'["messages", }\n'),
    "no UTF-8": lambda _f, rows, _s: rows.append(b'["messages", "\xff"]\n'),
    "no list": lambda _f, rows, _s: rows.append(b"7\n"),
    "an empty line": lambda _f, rows, _s: rows.append(b"\n"),
    "no end of the last line": lambda _f, rows, _s: rows.append(b"7"),
    "an unknown table": lambda _f, rows, _s: rows.append(b'["sqlite_master", 1]\n'),
    "a table that is not carried": lambda _f, rows, _s: rows.append(b'["leases", 1]\n'),
    "other counts": lambda facts, _r, _s: facts["counts"].update(sessions=5),
    "counts that are not numbers": lambda facts, _r, _s: facts["counts"].update(sessions="many"),
    "no kind": lambda facts, _r, _s: facts.update(kind="zip"),
    "no columns": lambda facts, _r, _s: facts.update(columns=None),
    "columns of another kind": lambda facts, _r, _s: facts["columns"].update(messages=[[]]),
    "a column twice": lambda facts, _r, _s: facts["columns"]["messages"].append("id"),
    "a path as a column": lambda f, _r, _s: f["columns"]["messages"].append("../../etc/x"),
    "an unknown table's columns": lambda f, _r, _s: f["columns"].update({"x; DROP": ["id"]}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_rows_made_to_do_harm(name: str, tmp_path: Path, directory: Path) -> None:
    with SessionDB(":memory:") as db:
        talk(db)
        made = create_backup(db, directory, portable=True).path
    bad = forged(made, tmp_path / "bad.hsb", CHANGES[name])
    with pytest.raises(BackupRefused):
        verify_backup(bad)
    with pytest.raises(BackupRefused):
        restore_backup(bad, tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


def with_sections(target: Path, sections: list[dict[str, Any]], content: bytes) -> Path:
    """A file with right digests and any sections."""
    head = b"HERMES SESSIONS BACKUP\n1\n"
    facts = {
        "format": 1,
        "kind": "portable",
        "reason": "asked",
        "provider": "sqlite",
        "store": "",
        "product": "",
        "created": 1.0,
        "steps": [],
        "counts": {"sessions": 0},
        "left_out": {},
        "unsummed": 0,
        "columns": {},
        "sections": sections,
    }
    text = json.dumps(facts).encode()
    offset = len(head) + len(content)
    footer = b"%020d %010d %s " % (offset, len(text), sha256(text).hexdigest().encode())
    target.write_bytes(head + content + text + footer + b"END OF BACKUP\n")
    return target


def section(content: bytes, raw_length: int) -> dict[str, Any]:
    facts = {"name": "rows", "offset": 25, "length": len(content), "raw_length": raw_length}
    digests = {"sha256": sha256(content).hexdigest(), "raw_sha256": ""}
    return {**facts, **digests, "longest_line": 100}


def test_a_bomb_stays_small(tmp_path: Path) -> None:
    """Much comes out of little: no more is unpacked than the manifest says."""
    bomb = zlib.compress(bytes(200_000_000), 9)
    path = with_sections(tmp_path / "bomb.hsb", [section(bomb, 1000)], bomb)
    with opened(path) as container:
        got: list[int] = []
        with pytest.raises(BackupDamaged, match="longer than its manifest says"):
            got.extend(len(piece) for piece in container.read("rows"))
        assert sum(got) <= 1000
    path = with_sections(tmp_path / "bomb.hsb", [section(bomb, 200_000_000)], bomb)
    with (
        opened(path) as container,
        pytest.raises(BackupDamaged, match="a line in 'rows' is longer"),
    ):
        next(container.lines("rows"))


@pytest.mark.parametrize(
    "changes",
    [
        {"offset": 24},
        {"length": 10**12},
        {"length": -1},
        {"name": 7},
        {"offset": True},
        {"more": 1},
        {"raw_length": None},
    ],
    ids=str,
)
def test_sections_that_lead_elsewhere(changes: dict[str, Any], tmp_path: Path) -> None:
    content = zlib.compress(b"x\n")
    path = with_sections(tmp_path / "x.hsb", [{**section(content, 2), **changes}], content)
    with pytest.raises(BackupDamaged):
        verify_backup(path)


def test_an_image_that_is_not_a_store(tmp_path: Path, directory: Path) -> None:
    """Its digests are right, and what is in it is noise, or another database."""
    with SessionDB(":memory:") as db:
        made = create_backup(db, directory).path
    with opened(made) as container:
        facts = {k: v for k, v in container.manifest.items() if k not in ("format", "sections")}
        pages = bytearray(b"".join(container.read("image")))
    for change in (lambda: os.urandom(50_000), lambda: bytes(pages[:8192]), lambda: b""):
        bad = tmp_path / "bad.hsb"
        with bad.open("wb") as file:
            writer = ContainerWriter(file)
            with writer.section("image") as image:
                image.write(change())
            with writer.section("sessions"):
                pass
            writer.finish(facts)
        with pytest.raises(BackupDamaged):
            verify_backup(bad)
        with pytest.raises(BackupRefused):
            restore_backup(bad, tmp_path / "new.db")
        assert not (tmp_path / "new.db").exists()
    assert list(tmp_path.glob(".*unpacked")) == []

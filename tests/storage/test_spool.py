"""Spools can be counted by a process that must not change them."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.storage import spool_file
from hermes_sessions.storage.spool import EntryFormat, Spool, spool_status

FORM: EntryFormat[dict[str, Any]] = EntryFormat(
    lambda entry: entry, lambda values: {"text": values["text"]}
)


def test_nothing_waits_where_nothing_is(tmp_path: Path) -> None:
    assert spool_status(tmp_path / "none") == (0, 0, None)


def test_what_waits_is_counted_while_its_process_lives(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", FORM)
    for text in ("one", "two", "three"):
        spool.append({"text": text})
    found = spool_status(tmp_path)
    assert (found.entries, found.put_aside) == (3, 0)
    assert found.since is not None

    def store(entry: dict[str, Any]) -> None:
        if entry["text"] == "two":
            raise ConnectionError

    with pytest.raises(ConnectionError):
        spool.replay(store)
    assert spool_status(tmp_path).entries == 2
    assert spool.replay(lambda _entry: None) == 2
    assert spool_status(tmp_path) == (0, 0, None)


def test_what_cannot_be_read_is_counted_apart_and_half_a_line_not_at_all(tmp_path: Path) -> None:
    lines = [json.dumps({"text": "kept"}), json.dumps({"no": "text"}), '{"text": "ha']
    (tmp_path / "1-a.spool").write_text("\n".join(lines))
    spool = Spool(tmp_path, FORM)
    assert spool.adopt() == 1
    found = spool_status(tmp_path)
    assert (found.entries, found.put_aside) == (1, 1)
    taken: list[dict[str, Any]] = []
    spool.replay(taken.append)
    assert taken == [{"text": "kept"}]


def texts(spool: Spool[dict[str, Any]]) -> list[str]:
    taken: list[dict[str, Any]] = []
    spool.replay(taken.append)
    return [entry["text"] for entry in taken]


def leave(directory: Path, name: str, *said: str) -> Path:
    path = directory / f"{name}.spool"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in said))
    return path


def test_a_file_that_is_being_made_is_not_taken_for_one_that_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock

    def late(descriptor: int, how: int) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(spool_file.fcntl, "flock", lock)
            Spool(tmp_path, FORM).adopt()  # by a process that starts at this very moment
        lock(descriptor, how)

    monkeypatch.setattr(spool_file.fcntl, "flock", late)
    spool = Spool(tmp_path, FORM)
    spool.append({"text": "kept"})
    assert spool_status(tmp_path).entries == 1
    spool.close()
    monkeypatch.undo()
    again = Spool(tmp_path, FORM)
    assert again.adopt() == 1
    assert texts(again) == ["kept"]
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_does_not_go_on_is_waited_for_only_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_file, "_PATIENCE", 0.05)
    spool = Spool(tmp_path, FORM)
    spool.put_aside({"text": "one"}, ValueError("no"))
    (kept,) = tmp_path.iterdir()
    with kept.open("rb") as frozen:
        fcntl.flock(frozen, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError, match="does not release it"):
            spool.put_aside({"text": "two"}, ValueError("no"))
        with pytest.raises(TimeoutError, match="does not release it"):
            spool.requeue_set_aside()
    spool.put_aside({"text": "two"}, ValueError("no"))
    assert spool.requeue_set_aside() == 2


def test_what_ended_first_comes_first(tmp_path: Path) -> None:
    for seconds, name in ((30, "1"), (10, "3"), (20, "22")):
        os.utime(leave(tmp_path, name, f"at {seconds}"), (seconds, seconds))
    spool = Spool(tmp_path, FORM)
    assert spool.adopt() == 3
    assert texts(spool) == ["at 10", "at 20", "at 30"]


def test_an_unreadable_file_does_not_block_the_others(tmp_path: Path) -> None:
    (tmp_path / "1.spool").mkdir()
    os.utime(tmp_path / "1.spool", (0, 0))
    leave(tmp_path, "2", "kept")
    spool = Spool(tmp_path, FORM)
    with pytest.raises(IsADirectoryError):
        spool.adopt()
    assert texts(spool) == ["kept"]


def test_what_could_not_be_taken_over_is_left_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path, "1", "one", "two")
    first, second = Spool(tmp_path, FORM), Spool(tmp_path, FORM)

    def is_full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(spool_file.SpoolFile, "append_line", is_full)
        with pytest.raises(OSError, match="No space"):
            first.adopt()
    assert second.adopt() == 2
    assert texts(second) == ["one", "two"]


def test_a_file_that_is_removed_meanwhile(tmp_path: Path) -> None:
    spool = Spool(tmp_path, FORM)
    spool.append({"text": "one"})
    (removed,) = tmp_path.iterdir()
    removed.unlink()
    spool.append({"text": "two"})
    assert spool_status(tmp_path).entries == 2
    assert texts(spool) == ["one", "two"]
    spool.append({"text": "three"})
    next(tmp_path.iterdir()).unlink()
    assert texts(spool) == ["three"]


def test_progress_that_cannot_be_noted_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path, FORM)
    spool.append({"text": "one"})

    def is_full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool_file, "_write_private", is_full)
    assert texts(spool) == ["one"]


def test_what_is_beside_a_spool_is_private_too(tmp_path: Path) -> None:
    (tmp_path / "1.spool").write_text("no entry\n" + json.dumps({"text": "kept"}) + "\n")
    spool = Spool(tmp_path, FORM)
    spool.adopt()
    spool.append({"text": "another"})

    def stop(entry: dict[str, Any]) -> None:
        if entry["text"] == "another":
            raise ConnectionError
        spool.put_aside(entry, ValueError("too large"))

    with pytest.raises(ConnectionError):
        spool.replay(stop)
    found = {path.suffix: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert found == dict.fromkeys((".spool", ".done", ".unreadable", ".refused"), 0o600)
    assert spool_status(tmp_path)[:2] == (1, 2)


def test_what_cannot_be_looked_at_is_not_nothing(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("")
    with pytest.raises(NotADirectoryError):
        spool_status(tmp_path / "spool")

"""Erasure of files around a store: transcripts, sessions.json, copies of the store."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hermes_sessions.lifecycle.file_erasure import RestartCountEntries, SessionsJsonEntries
from hermes_sessions.storage.care.erasure.file_places import StoreCopyPlace, TranscriptPlace
from hermes_sessions.storage.care.erasure.targets import ErasureSubject, ErasureTargets

MEANT = ErasureTargets(
    subject=ErasureSubject("user", "ann", "telegram"),
    requested_at=1.0,
    ids=("ann",),
    chat_ids=("12",),
    session_ids=("s1", "../evil", "we[i]rd"),
    session_keys=("agent:main:telegram:dm:12",),
)


def test_transcripts(tmp_path: Path) -> None:
    gone = ["s1.json", "s1.jsonl", "request_dump_s1_1.json", "we[i]rd.json"]
    stays = ["s2.jsonl", "s11.json", "weird.json", "request_dump_s11_1.json"]
    for name in (*gone, *stays):
        (tmp_path / name).write_text("x")
    (tmp_path.parent / "evil.json").write_text("x")
    place = TranscriptPlace(tmp_path)
    assert place.count(MEANT) == {"files": 4}
    assert place.remove(MEANT).removed == {"files": 4}
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(stays)
    assert (tmp_path.parent / "evil.json").exists()
    assert place.remove(MEANT).status == "done"


def test_a_transcript_that_cannot_be_removed(tmp_path: Path) -> None:
    (tmp_path / "s1.json").mkdir()
    (tmp_path / "s1.jsonl").write_text("x")
    place = TranscriptPlace(tmp_path)
    # A folder is not a transcript.
    assert place.remove(MEANT).removed == {"files": 1}


def test_entries_of_sessions_json(tmp_path: Path) -> None:
    entries = {
        "agent:main:telegram:dm:12": {"session_id": "s9", "origin": None},
        "a": {"session_id": "s1"},
        "b": {
            "session_id": "s2",
            "origin": {"platform": "telegram", "chat_type": "group", "user_id": "ann"},
        },
        "c": {"session_id": "s3", "origin": {"platform": "telegram", "user_id": "bob"}},
    }
    file = tmp_path / "sessions.json"
    file.write_text(json.dumps(entries))
    place = SessionsJsonEntries(tmp_path)
    assert place.count(MEANT) == {"entries": 2}
    assert place.remove(MEANT).removed == {"entries": 2}
    left = json.loads(file.read_text())
    assert set(left) == {"b", "c"}
    assert "ann" not in file.read_text()
    assert left["c"] == entries["c"]
    assert place.remove(MEANT).removed == {}


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_sessions_json_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    file = tmp_path / "sessions.json"
    file.write_text(text)
    step = SessionsJsonEntries(tmp_path).remove(MEANT)
    assert (step.status, "Repair it" in str(step.why)) == ("pending", True)
    assert file.read_text() == text
    file.unlink()
    assert SessionsJsonEntries(tmp_path).remove(MEANT).status == "done"


def test_lanes_that_a_gateway_found_unfinished(tmp_path: Path) -> None:
    file = tmp_path / "restart_counts.json"
    file.write_text('{"agent:main:telegram:dm:12": 2, "agent:main:telegram:dm:13": 1}\n')
    place = RestartCountEntries(tmp_path)
    assert place.count(MEANT) == {"entries": 1}
    assert place.remove(MEANT).removed == {"entries": 1}
    assert json.loads(file.read_text()) == {"agent:main:telegram:dm:13": 1}
    file.write_text('{"agent:main:telegram:dm:12": 2')
    assert (place.remove(MEANT).status, file.exists()) == ("done", False)


def test_what_a_killed_repair_has_left(tmp_path: Path) -> None:
    left = tmp_path / "state.db.repairing" / "rows.db"
    left.parent.mkdir()
    left.write_bytes(b"\0ann\0")
    place = StoreCopyPlace(tmp_path / "state.db")
    assert place.count(MEANT) == {"files": 1}
    step = place.remove(MEANT)
    assert (step.status, str(left) in str(step.why)) == ("pending", True)
    left.unlink()
    assert place.remove(MEANT).status == "done"


def test_a_copy_that_knows_a_room_and_not_who_wrote_there(tmp_path: Path) -> None:
    (tmp_path / "state.db.v6.bak").write_text("room-1: hello")
    place = StoreCopyPlace(tmp_path / "state.db")
    assert place.count(MEANT) == {}
    assert place.count(replace(MEANT, rooms=("room-1",))) == {"files": 1}


def test_copies_of_the_store(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    for name in ("state.db", "state.db-wal", "state.db.gate", "other.db"):
        (tmp_path / name).write_text("ann")
    old, innocent = tmp_path / "state.db.v6.bak", tmp_path / "state.db.v7.bak"
    # The word lies across the end of a piece that is read at once.
    old.write_bytes(b"x" * (4 * 2**20 - 1) + b"ann" + b"x")
    innocent.write_text("bob")
    place = StoreCopyPlace(store)
    assert place.count(MEANT) == {"files": 1}
    step = place.remove(MEANT)
    assert step.status == "pending"
    assert str(old) in str(step.why)
    assert str(innocent) not in str(step.why)
    old.unlink()
    assert place.remove(MEANT).status == "done"

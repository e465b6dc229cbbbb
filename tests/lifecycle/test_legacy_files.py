"""Files of an older installation are imported once and completely."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.lifecycle import legacy_files
from hermes_sessions.lifecycle.legacy_files import SkippedItem
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.transfer.run import Transfer
from hermes_sessions_testing.clock import NOON, FrozenClock
from tests.lifecycle.senders import ANN, ANNS_KEY, ann, in_group
from tests.servers.stores import OpenStore
from tests.timezones import host_in

OLD_ID = "20250101_080000_0123ab"


def entry(source: SessionSource | None = ANN, **changes: Any) -> dict[str, Any]:
    """An entry as the documented system writes it, a minute before noon."""
    values = {
        "session_key": ANNS_KEY,
        "session_id": OLD_ID,
        "created_at": "2025-01-15T11:00:00.000001",
        "updated_at": "2025-01-15T11:59:00",
        "display_name": "Ann",
        "platform": "telegram",
        "chat_type": "dm",
        "input_tokens": 0,
        "last_prompt_tokens": 17,
        "suspended": False,
    }
    if source is not None:
        values["origin"] = source.to_dict()
    return values | changes


@pytest.fixture(autouse=True)
def _in_utc() -> Iterator[None]:
    with host_in("UTC"):
        yield


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "sessions").mkdir()
    return tmp_path / "sessions"


def write_transcript(directory: Path, session_id: str, *messages: Any, end: str = "") -> None:
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    (directory / f"{session_id}.jsonl").write_text(lines + end)


def opened(directory: Path, db: SessionDB) -> SessionStore:
    return SessionStore(directory, db=db)


def test_lanes_are_taken_over(directory: Path, db: SessionDB) -> None:
    db.create_session(OLD_ID, "telegram")
    (directory / "sessions.json").write_text(json.dumps({ANNS_KEY: entry()}))
    with opened(directory, db) as sessions:
        assert sessions.import_report is not None
        assert (sessions.import_report.entries, sessions.import_report.skipped) == (1, ())
        found = sessions.peek(ANN)
        assert found is not None
        assert (found.session_id, found.origin, found.last_prompt_tokens) == (OLD_ID, ANN, 17)
        assert found.updated_at.timestamp() == NOON - 60
        assert sessions.get_or_create_session(ANN).session_id == OLD_ID
        explained = sessions.explain(ANNS_KEY)
        assert "sessions.json" in str(explained)


def test_only_once(directory: Path, db: SessionDB) -> None:
    db.create_session(OLD_ID, "telegram")
    (directory / "sessions.json").write_text(json.dumps({ANNS_KEY: entry()}))
    with opened(directory, db) as sessions:
        changed = sessions.reset_session(ANNS_KEY)
    (directory / "sessions.json").write_text(json.dumps({ANNS_KEY: entry()}))
    with opened(directory, db) as sessions:
        assert sessions.import_report is None
        assert sessions.peek(ANN) == changed


def test_what_the_database_knows_stays(directory: Path, db: SessionDB, tmp_path: Path) -> None:
    with SessionStore(tmp_path / "other", db=db) as sessions:
        known = sessions.get_or_create_session(ANN)
    (directory / "sessions.json").write_text(json.dumps({ANNS_KEY: entry(suspended=True)}))
    with opened(directory, db) as sessions:
        assert sessions.import_report is not None
        assert sessions.import_report.entries == 0
        assert sessions.peek(ANN) == known


def test_states_are_taken_over(directory: Path, db: SessionDB) -> None:
    sources = [ann(chat_id=str(number)) for number in range(5)]
    keys = [f"agent:main:telegram:dm:{number}" for number in range(5)]
    marked = {"resume_pending": True, "resume_reason": "restart_timeout"}
    states: list[dict[str, Any]] = [
        {"suspended": True},
        {**marked, "last_resume_marked_at": "2025-01-15T11:58:00"},
        {"was_auto_reset": True, "auto_reset_reason": "daily", "reset_had_activity": True},
        {"is_fresh_reset": True},
        {"memory_flushed": True},
    ]
    found = {
        key: entry(source, session_key=key, session_id=f"s{key[-1]}", **state)
        for key, source, state in zip(keys, sources, states, strict=True)
    }
    (directory / "sessions.json").write_text(json.dumps(found))
    with opened(directory, db) as sessions:
        lanes = [sessions.peek(source) for source in sources]
        assert all(lanes)
        assert lanes[0].suspended  # type: ignore[union-attr]
        assert lanes[1].resume_reason == "restart_timeout"  # type: ignore[union-attr]
        assert lanes[1].last_resume_marked_at.timestamp() == NOON - 120  # type: ignore[union-attr]
        assert lanes[2].auto_reset_reason == "daily"  # type: ignore[union-attr]
        assert lanes[2].reset_had_activity  # type: ignore[union-attr]
        assert lanes[3].is_fresh_reset  # type: ignore[union-attr]
        assert lanes[4].expiry_finalized  # type: ignore[union-attr]


def test_a_bad_entry_costs_itself_alone(
    directory: Path, db: SessionDB, caplog: pytest.LogCaptureFixture
) -> None:
    """Behaviour 36."""
    bad: dict[str, Any] = {
        "agent:main:telegram:dm:2": True,
        "agent:main:telegram:dm:3": {"session_key": "agent:main:telegram:dm:3"},
        "no key": entry(None, session_key="no key"),
        "agent:main:nowhere:dm:4": entry(
            None, origin={"platform": "nowhere", "chat_id": "4"}, session_id="s4"
        ),
        "agent:main:telegram:dm:5": entry(session_id="x" * 500),
        "agent:main:telegram:dm:6": entry(input_tokens=float("inf")),
        "agent:main:telegram:dm:7": entry(last_prompt_tokens=2**63),
        "agent:main:telegram:dm:8": entry(updated_at="9999-12-31T23:59:59+00:00"),
    }
    written = {**bad, ANNS_KEY: entry(), "_comment": "written by a later version"}
    text = json.dumps(written).encode()
    (directory / "sessions.json").write_bytes(text)
    db.create_session(OLD_ID, "telegram")
    with caplog.at_level(logging.WARNING), opened(directory, db) as sessions:
        report = sessions.import_report
        assert report is not None
        assert report.entries == 1
        assert {one.what for one in report.skipped} == set(bad)
        for key in bad:
            assert key in caplog.text
        assert sessions.get_or_create_session(ANN).session_id == OLD_ID
    if db.provider.name == "sqlite":
        # Entries that could not be read stay in the file.
        now = json.loads((directory / "sessions.json").read_text())
        assert {key: now[key] for key in bad} == bad
        assert set(now) == {*bad, ANNS_KEY}
    else:
        assert (directory / "sessions.json").read_bytes() == text


def test_odd_bytes_cost_no_entry(directory: Path, db: SessionDB) -> None:
    """An editor's mark at the beginning, and a name that was cut inside a character."""
    text = json.dumps({ANNS_KEY: entry(display_name="An?")}).encode().replace(b"An?", b"An\xc3")
    (directory / "sessions.json").write_bytes(b"\xef\xbb\xbf" + text)
    with opened(directory, db) as sessions:
        assert sessions.import_report is not None
        assert sessions.import_report.unreadable is None
        [lane] = sessions.list_sessions()
        assert lane.display_name == "An\udcc3"


@pytest.mark.parametrize("text", [b"{broken", b"[]", b"\xff\xfe", b"null", b"[" * 200_000])
def test_a_file_that_cannot_be_read_is_left_alone(
    directory: Path, db: SessionDB, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = directory / "sessions.json"
    file.write_bytes(text)
    with caplog.at_level(logging.WARNING), opened(directory, db) as sessions:
        assert sessions.import_report is not None
        assert sessions.import_report.unreadable
        sessions.get_or_create_session(ANN)
    assert "left alone" in caplog.text
    assert file.read_bytes() == text
    # Once it is repaired it is taken over.
    other = ann(chat_id="2")
    key = "agent:main:telegram:dm:2"
    file.write_text(json.dumps({key: entry(other, session_key=key)}))
    with opened(directory, db) as sessions:
        assert len(sessions.list_sessions()) == 2


def test_older_keys_did_not_escape(directory: Path, db: SessionDB) -> None:
    room = SessionSource(
        Platform.MATRIX, "!room:example.org", chat_type="group", user_id="@ann:example.org"
    )
    key = "agent:main:matrix:group:!room:example.org:@ann:example.org"
    found = {key: entry(room, session_key=key, platform="matrix", chat_type="group")}
    (directory / "sessions.json").write_text(json.dumps(found))
    db.create_session(OLD_ID, "matrix")
    with opened(directory, db) as sessions:
        assert sessions.get_or_create_session(room).session_id == OLD_ID


def test_an_entry_without_an_origin(directory: Path, db: SessionDB) -> None:
    key = "agent:main:telegram:group:-100:u1"
    found = {key: entry(None, session_key=key, chat_type="group")}
    (directory / "sessions.json").write_text(json.dumps(found))
    db.create_session(OLD_ID, "telegram")
    with opened(directory, db) as sessions:
        assert sessions.get_or_create_session(in_group("u1")).session_id == OLD_ID


def test_transcripts_are_taken_over(directory: Path, db: SessionDB) -> None:
    (directory / "sessions.json").write_text(json.dumps({ANNS_KEY: entry()}))
    write_transcript(
        directory,
        OLD_ID,
        {"role": "session_meta", "platform": "telegram", "tools": []},
        {"role": "user", "content": "Hello", "timestamp": "2025-01-15T11:30:00"},
        {"role": "assistant", "content": "Hi", "reasoning": "Greet."},
        end='{"role": "user", "cont',
    )
    forgotten = "20241231_235959_deadbeef"
    write_transcript(directory, forgotten, {"role": "user", "content": "Before"})
    (directory / "request_dump.jsonl").write_text("not a session\n")
    known = "20250102_080000_0123ab"
    db.create_session(known, "telegram")
    write_transcript(directory, known, {"role": "user", "content": "In the database"})
    with opened(directory, db) as sessions:
        assert sessions.import_report is not None
        assert (sessions.import_report.transcripts, sessions.import_report.skipped) == (2, ())
        assert sessions.load_transcript(OLD_ID) == [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hi", "reasoning": "Greet."},
        ]
        assert sessions.load_transcript(known) == []
        assert sessions.get_or_create_session(ANN).session_id == OLD_ID
    session, other = db.get_session(OLD_ID), db.get_session(forgotten)
    assert session is not None
    assert other is not None
    assert (session["source"], session["user_id"], session["ended_at"]) == ("telegram", "u1", None)
    assert (other["source"], other["end_reason"]) == ("unknown", "imported")
    assert db.get_messages(OLD_ID)[0]["timestamp"] == NOON - 1800
    assert db.search("Before").report.total == 1


def test_a_bad_transcript_costs_itself_alone(directory: Path, db: SessionDB) -> None:
    good, bad = "20250101_000000_aaaaaaaa", "20250101_000000_bbbbbbbb"
    write_transcript(directory, good, {"role": "user", "content": "Hello"})
    (directory / f"{bad}.jsonl").write_text('{broken\n{"role": "user", "content": "x"}\n')
    with opened(directory, db) as sessions:
        assert sessions.import_report is not None
        assert sessions.import_report.transcripts == 1
        [skipped] = sessions.import_report.skipped
        assert skipped == SkippedItem(f"{bad}.jsonl", skipped.why)
        assert "line 1" in skipped.why
    assert db.get_session(bad) is None
    assert (directory / f"{bad}.jsonl").exists()


def test_a_transcript_without_an_end_costs_itself_alone(directory: Path, db: SessionDB) -> None:
    (directory / f"{OLD_ID}.jsonl").write_text("[" * 200_000 + "\n{}\n")
    with opened(directory, db) as sessions:
        assert sessions.import_report is not None
        assert [one.what for one in sessions.import_report.skipped] == [f"{OLD_ID}.jsonl"]


def test_an_import_that_died_is_done_again(
    directory: Path, open_store: OpenStore, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory / "sessions.json").write_text(json.dumps({ANNS_KEY: entry()}))
    write_transcript(directory, OLD_ID, {"role": "user", "content": "Hello"})
    with open_store(clock=clock) as db:
        with monkeypatch.context() as dying:

            def dies(*_: Any) -> None:
                raise KeyboardInterrupt

            dying.setattr(legacy_files, "_add", dies)
            with pytest.raises(KeyboardInterrupt):
                opened(directory, db)
        with opened(directory, db) as sessions:
            assert sessions.import_report is not None
            assert (sessions.import_report.entries, sessions.import_report.transcripts) == (1, 0)
            assert sessions.load_transcript(OLD_ID) == [{"role": "user", "content": "Hello"}]


def test_what_one_bot_wrote_is_not_taken_over_by_another(directory: Path, db: SessionDB) -> None:
    """A user who talks to both bots must not continue with one what they told the other."""
    by_name = {
        name: GatewayConfig(namespace=name, write_sessions_json=True) for name in ("one", "two")
    }
    with SessionStore(directory, by_name["one"], db=db) as sessions:
        with_one = sessions.get_or_create_session(ANN).session_id
    written = (directory / "sessions.json").read_bytes()
    with SessionStore(directory, by_name["two"], db=db) as sessions:
        assert sessions.peek(ANN) is None
        assert sessions.get_or_create_session(ANN).session_id != with_one
    assert (directory / "sessions.json").read_bytes() == written
    with SessionStore(directory, by_name["one"], db=db) as sessions:
        sessions.reset_session(ANNS_KEY)
    assert (directory / "sessions.json").read_bytes() != written


def test_lanes_follow_their_sessions_to_another_database(
    tmp_path: Path, open_store: OpenStore, clock: FrozenClock
) -> None:
    with SessionDB(tmp_path / "before.db", clock=clock) as before, open_store(clock=clock) as after:
        with SessionStore(tmp_path / "sessions", db=before) as sessions:
            moved = sessions.get_or_create_session(ANN)
        Transfer(before.provider, after.provider).run()
        with SessionStore(tmp_path / "sessions", db=after) as sessions:
            assert sessions.get_or_create_session(ANN).session_id == moved.session_id


def test_what_was_written_is_read_back(tmp_path: Path, clock: FrozenClock) -> None:
    """A file of this store beside a new database: the lanes are there again."""
    with SessionStore(tmp_path, clock=clock) as sessions:
        before = [
            sessions.get_or_create_session(source)
            for source in (ANN, in_group("u:1"), in_group("u1", thread_id="t%"))
        ]
        sessions.suspend_session(ANNS_KEY)
    for file in tmp_path.glob("state.db*"):
        file.unlink()
    with SessionStore(tmp_path, clock=clock) as sessions:
        after = sessions.list_sessions()
    assert {one.session_key: one.session_id for one in after} == {
        one.session_key: one.session_id for one in before
    }
    assert [one.session_key for one in after if one.suspended] == [ANNS_KEY]

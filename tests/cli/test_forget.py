"""`hermes forget`, and what permanent deletion leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.care.erasure.disk_scan import found_in
from tests.care.erasure.scenario import ANN, BOB, ROOM, SECRET, ErasureScenario
from tests.cli.harness import NOW, Hermes
from tests.cli.sample_store import AUTH, PROJECT, PROJECT_1, SUBAGENT, WEATHER


@pytest.fixture
def scenario(hermes: Hermes) -> Hermes:
    """Two people on a messenger, and the files of theirs."""
    with hermes.db() as db:
        found = ErasureScenario(db, hermes.home).fill()
    sessions = hermes.home / "sessions"
    sessions.mkdir(exist_ok=True)
    (sessions / f"{found['ann']}.jsonl").write_text(SECRET)
    (sessions / "sessions.json").write_text(
        json.dumps({"a": {"session_id": found["ann"], "display_name": SECRET}, "b": {}})
    )
    return hermes


def receipt_of(out: str) -> str:
    return out.split()[1].rstrip(":")


def test_a_person_of_a_store_that_is_gone(scenario: Hermes) -> None:
    """Backups and files know them still; the store is made for the receipt."""
    assert scenario.call("backup", "create").code == 0
    for path in scenario.home.glob("state.db*"):
        path.unlink()
    looked = scenario.call("forget", "--user", ANN, "--dry-run")
    assert (looked.code, scenario.store.exists()) == (0, False)
    assert "1 backup" in looked.out
    assert scenario.call("forget", "--user", ANN, "--yes").code == 0
    assert "a user, requested" in scenario.call("forget", "--receipts").out
    assert "No data found" in scenario.call("forget", "--user", ANN, "--dry-run").err


def test_a_person_is_forgotten_everywhere(scenario: Hermes) -> None:
    result = scenario.call("forget", "--user", ANN, "--yes")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("Receipt ")
    assert "a user, requested 2025-03-05 15:00 UTC; done." in result.out
    assert found_in(scenario.home, [SECRET, ANN]) == []
    assert found_in(scenario.home, [BOB]) != []


def test_a_question_comes_first(scenario: Hermes) -> None:
    for answer in ("n\n", "", "\n"):
        result = scenario.call("forget", "--user", ANN, stdin=answer)
        assert (result.code, result.out) == (1, "")
        assert f"Forget user {ANN}? This cannot be undone. [y/N] " in result.err
        assert "4 sessions" in result.err
        assert result.err.splitlines()[-1] == "Cancelled; nothing was changed."
    assert found_in(scenario.home, [SECRET]) != []
    assert scenario.call("forget", "--user", ANN, stdin="y\n").code == 0
    assert found_in(scenario.home, [SECRET]) == []


def test_a_dry_run_changes_nothing(scenario: Hermes) -> None:
    result = scenario.call(
        "forget", "--chat", ROOM, "--platform", "Telegram", "--dry-run", "--json"
    )
    assert (result.code, result.json["forgotten"]) == (0, False)
    assert result.json["places"]["database"]["sessions"] == 1
    assert scenario.call("forget", "--receipts").out == "There are no receipts.\n"


def test_receipts(scenario: Hermes) -> None:
    done = scenario.call("forget", "--user", ANN, "--yes")
    scenario.call("forget", "--chat", ROOM, "--yes", "--json")
    every = scenario.call("forget", "--receipts")
    assert every.out.count("Receipt ") == 2
    hers = scenario.call("forget", "--receipts", "--user", ANN)
    assert hers.out == done.out
    assert scenario.call("forget", "--receipts", "--user", BOB, "--json").json == []
    assert scenario.call("forget", "--receipts", "--platform", "signal").out.startswith(
        "There are no"
    )
    again = scenario.call("forget", "--resume", receipt_of(done.out)[:5])
    assert (again.code, again.out) == (0, done.out)


def test_something_is_pending(scenario: Hermes) -> None:
    """A copy that must not be changed is named; once it is deleted, the rest is done."""
    copy = scenario.home / "state.db.v6.bak"
    copy.write_text(f"... {ANN} ...")
    result = scenario.call("forget", "--user", ANN, "--yes")
    assert result.code == 1
    number = receipt_of(result.out)
    assert f"Pending, copies of the store: Not changed: {copy}." in result.out
    assert f"To finish: hermes forget --resume {number}\n" in result.out
    assert found_in(scenario.home / "state.db", [SECRET]) == []
    assert scenario.call("forget", "--resume", number).code == 1
    copy.unlink()
    done = scenario.call("forget", "--resume", number, "--json")
    assert (done.code, done.json["status"]) == (0, "done")
    assert found_in(scenario.home, [SECRET, ANN]) == []


def test_a_session_with_its_lineage(filled: Hermes) -> None:
    history = filled.home / "chat_history"
    with filled.db() as db:
        [first, *_] = db.get_messages(AUTH)
    history.write_text(
        f"\n# 2025-03-05 09:15:23\n+{first['content']}\n\n# 2025-03-05 10:00:00\n+kept\n+lines\n"
        f"\n# 2025-03-05 10:00:01\n+/title {_title(filled, AUTH)}\n"
    )
    history.chmod(0o600)
    result = filled.call("forget", "--session", AUTH[:15], "--yes", "--json")
    assert (result.code, result.json["status"]) == (0, "done")
    with filled.db() as db:
        assert db.get_session(AUTH) is None
        assert db.get_session(SUBAGENT) is None
        assert db.get_session(WEATHER) is not None
    assert history.read_text() == "\n# 2025-03-05 10:00:00\n+kept\n+lines\n"
    assert history.stat().st_mode & 0o777 == 0o600
    assert found_in(filled.home, [AUTH, SUBAGENT]) == []


def test_lines_that_became_one_message(filled: Hermes) -> None:
    """A backslash continues in the next entry, and input typed meanwhile is joined."""
    with filled.db() as db:
        db.append_message(AUTH, "user", "first part\nsecond part")
        db.append_message(AUTH, "user", "before\u2028after\r")
    history = filled.home / "chat_history"
    kept = b"\n# 2025-03-05 10:00:00\n+first part of another\r\n"
    history.write_bytes(
        b"\n# 2025-03-05 09:15:23\n+first part\\\n\n# 2025-03-05 09:15:24\n+second part\n"
        + kept
        + "\n# 2025-03-05 10:00:01\n+before\u2028after\r\n".encode()
    )
    result = filled.call("forget", "--session", AUTH, "--yes", "--json")
    assert (result.code, result.json["status"]) == (0, "done")
    assert history.read_bytes() == kept


def _title(hermes: Hermes, session_id: str) -> str:
    with hermes.db() as db:
        return str(db.get_session_title(session_id))


def test_a_user_who_is_only_in_a_spool(hermes: Hermes) -> None:
    spool = hermes.home / "gateway" / "spool"
    spool.mkdir(parents=True)
    line = {"source": {"platform": "telegram", "chat_id": "1", "user_id": ANN}, "text": SECRET}
    (spool / "1-a.spool").write_text(json.dumps(line) + "\n")
    result = hermes.call("forget", "--user", ANN, "--yes")
    assert result.code == 0
    assert "spools               1 message\n" in result.out
    assert found_in(hermes.home, [SECRET, ANN]) == []


def test_a_session_in_the_trash(filled: Hermes) -> None:
    filled.call("sessions", "delete", PROJECT, "--yes")
    assert filled.call("forget", "--session", PROJECT, "--yes").code == 0
    assert found_in(filled.store, [PROJECT, PROJECT_1]) == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "Name what to forget with one of --user, --chat and --session."),
        (["--user", "a", "--chat", "b"], 2, "Name what to forget with one of"),
        (["--user", "nobody", "--yes"], 1, "No data found about user nobody; nothing was changed."),
        (["--user", " ", "--yes"], 1, "Give the id of the user to forget."),
        (["--session", "nothing like it", "--yes"], 1, "nothing like it"),
        (["--resume", "abc"], 1, "There is no receipt 'abc'. See: hermes forget --receipts"),
        (["--resume", "abc", "--user", "a"], 2, "--resume cannot be combined with --user"),
    ],
)
def test_wrong_requests(filled: Hermes, arguments: list[str], code: int, said: str) -> None:
    result = filled.call("forget", *arguments)
    assert (result.code, result.out) == (code, "")
    assert said in result.err


def test_an_id_that_two_platforms_have(hermes: Hermes) -> None:
    with hermes.db() as db:
        for source in ("discord", "telegram"):
            db.create_session(f"on-{source}", source, user_id="7")
            db.append_message(f"on-{source}", "user", "hi")
    result = hermes.call("forget", "--user", "7", "--yes")
    assert result.code == 1
    assert "user 7 exists on several platforms: discord, telegram." in result.err
    assert hermes.call("forget", "--user", "7", "--platform", "discord", "--yes").code == 0
    with hermes.db() as db:
        assert [s["id"] for s in db.list_sessions_rich()] == ["on-telegram"]


def test_a_large_store_is_rebuilt_when_asked(
    scenario: Hermes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hermes_sessions.storage.sqlite import provider

    monkeypatch.setattr(provider, "_REBUILT_AT_ONCE", 0)
    result = scenario.call("forget", "--user", ANN, "--yes")
    assert result.code == 1
    command = f"hermes forget --resume {receipt_of(result.out)} --rebuild"
    assert f"To finish: {command}\n" in result.out
    assert scenario.call(*command.split()[1:]).code == 0
    assert scenario.call("forget", "--user", BOB, "-y", "--rebuild").code == 0


# ── deleting for good ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "commands",
    [
        [["delete", WEATHER, "--purge", "--yes"]],
        [["delete", WEATHER, "--yes"], ["trash", "--empty", "--yes"]],
        [["prune", "--older-than", "0", "--purge", "--yes"]],
    ],
    ids=["delete", "trash", "prune"],
)
def test_what_is_deleted_for_good_cannot_be_read(filled: Hermes, commands: list[list[str]]) -> None:
    with filled.db(NOW - 1) as db:
        db.append_message(WEATHER, "user", SECRET)
        db.set_session_title(WEATHER, f"A {SECRET}")
        db.end_session(WEATHER, "done")
        db.optimize_search()
    for command in commands:
        result = filled.call("sessions", *command)
        assert (result.code, result.err) == (0, "")
    assert found_in(filled.store, [SECRET, WEATHER]) == []


def test_a_reader_keeps_it_pending(filled: Hermes, monkeypatch: pytest.MonkeyPatch) -> None:
    from hermes_sessions.storage.sqlite import provider

    monkeypatch.setattr(provider, "_READER_PATIENCE", 0.01)
    with filled.db() as db, db.provider.read() as tx:
        tx.one("SELECT COUNT(*) FROM messages")
        result = filled.call("sessions", "delete", WEATHER, "--purge", "--yes")
        assert result.code == 0
        assert "Some deleted data may still be readable in the store files" in result.err
        assert result.err.endswith("Try again later: hermes sessions trash --empty\n")
    again = filled.call("sessions", "trash", "--empty")
    assert (again.code, again.err) == (0, "")
    assert again.out == "There is nothing in the trash to delete.\n"
    assert found_in(filled.store, [WEATHER, "Las Vegas"]) == []


def test_a_home_without_anything(tmp_path: Path) -> None:
    result = Hermes(tmp_path).call("forget", "--user", "x", "--yes")
    assert (result.code, "No data found" in result.err) == (1, True)

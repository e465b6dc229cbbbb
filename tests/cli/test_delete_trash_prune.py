"""hermes sessions delete, restore, trash and prune."""

import pytest

from tests.cli.harness import DAY, NOW, Hermes, Result
from tests.cli.sample_store import (
    AUTH,
    OLD,
    PLAN,
    PROJECT,
    PROJECT_1,
    PROJECT_2,
    SUBAGENT,
    WEATHER,
)


def stored(hermes: Hermes) -> set[str]:
    with hermes.db() as db:
        rows = db.list_sessions_rich(limit=-1, include_children=True, include_archived=True)
    return {row["id"] for row in rows}


def trashed(hermes: Hermes) -> set[str]:
    with hermes.db() as db:
        return {row["id"] for row in db.list_trash()}


# ── delete ────────────────────────────────────────────────────────────────────────────────────


def test_delete_moves_to_the_trash_after_a_yes(filled: Hermes) -> None:
    result = filled.call("sessions", "delete", "20250303", stdin="y\n")
    assert result.code == 0
    assert result.out == (
        f"Moved 1 session (2 messages) to the trash. To undo: hermes sessions restore {WEATHER}\n"
    )
    assert result.err.splitlines() == [
        f"  {WEATHER}",
        "Move 1 session (2 messages, 61 bytes) to the trash? [y/N] ",
    ]
    assert trashed(filled) == {WEATHER}


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "no way\n", "yep\n"])
def test_anything_but_yes_cancels(filled: Hermes, answer: str) -> None:
    before = stored(filled)
    for extra in ([], ["--purge"], ["--json"]):
        result = filled.call("sessions", "delete", WEATHER, *extra, stdin=answer)
        assert (result.code, result.out) == (1, "")
        assert result.err.splitlines()[-1] == "Cancelled; nothing was changed."
    assert stored(filled) == before


def test_a_conversation_goes_as_a_whole_with_its_subagents(filled: Hermes) -> None:
    result = filled.call("sessions", "delete", "my project #3", AUTH, "--yes", "--json")
    assert set(result.json["deleted"]) == {PROJECT_1, PROJECT_2, PROJECT, AUTH, SUBAGENT}
    assert result.json["messages"] == 12
    assert not result.json["purged"]
    assert result.err == ""


def test_only(filled: Hermes) -> None:
    result = filled.call("sessions", "delete", PROJECT, "--only", "-y", "--json")
    assert result.json["deleted"] == [PROJECT]
    assert {PROJECT_1, PROJECT_2} <= stored(filled)


def test_purge_is_for_good_and_takes_transcript_files(filled: Hermes) -> None:
    transcripts = filled.home / "sessions"
    transcripts.mkdir()
    for name in (f"{WEATHER}.jsonl", f"{AUTH}.jsonl"):
        (transcripts / name).touch()
    result = filled.call("sessions", "delete", WEATHER, "--purge", stdin="yes\n")
    assert result == Result(
        0,
        "Deleted 1 session (2 messages) permanently.\n",
        f"  {WEATHER}\n"
        "Delete 1 session (2 messages, 61 bytes) permanently? This cannot be undone. [y/N] \n",
    )
    assert trashed(filled) == set()
    assert WEATHER not in stored(filled)
    assert [file.name for file in transcripts.iterdir()] == [f"{AUTH}.jsonl"]


def test_one_unknown_name_and_nothing_is_deleted(filled: Hermes) -> None:
    before = stored(filled)
    result = filled.call("sessions", "delete", AUTH, "nobody", "--yes")
    assert result.code == 1
    assert stored(filled) == before


# ── trash and restore ─────────────────────────────────────────────────────────────────────────


def test_the_trash_is_listed(filled: Hermes) -> None:
    assert filled.call("sessions", "trash").out == "The trash is empty.\n"
    filled.call("sessions", "delete", AUTH, "--yes", now=NOW - 3 * DAY)
    listed = filled.call("sessions", "trash").out.splitlines()
    assert "Deleted" in listed[0]
    assert len(listed) == 4
    assert "3d ago" in listed[2]
    sessions = filled.call("sessions", "trash", "--json").json["sessions"]
    assert {session["trashed_at"] for session in sessions} == {NOW - 3 * DAY}
    assert "refactoring auth" in {session["title"] for session in sessions}


@pytest.mark.parametrize("reference", [PROJECT_2, "my project", "20250304_14"])
def test_what_was_one_conversation_comes_back_as_one(filled: Hermes, reference: str) -> None:
    filled.call("sessions", "delete", PROJECT, AUTH, "--yes")
    result = filled.call("sessions", "restore", reference, "--json")
    assert set(result.json["restored"]) == {PROJECT_1, PROJECT_2, PROJECT}
    assert trashed(filled) == {AUTH, SUBAGENT}


def test_restored_titles_are_shown_as_they_are_now(filled: Hermes) -> None:
    filled.call("sessions", "delete", AUTH, "--yes")
    filled.call("sessions", "rename", WEATHER, "refactoring auth")
    result = filled.call("sessions", "restore", AUTH)
    assert f"Restored {AUTH}  refactoring auth #2" in result.out
    assert "2 sessions restored." in result.out


def test_restoring_what_is_not_there(filled: Hermes) -> None:
    filled.call("sessions", "delete", AUTH, WEATHER, "--yes")
    result = filled.call("sessions", "restore", "refactoring auht")
    assert result.code == 1
    assert "Did you mean 'refactoring auth'?" in result.err
    several = filled.call("sessions", "restore", "202503")
    assert several.code == 1
    assert f"  {WEATHER}" in several.err
    assert filled.call("sessions", "restore", "").code == 1


def test_a_session_in_the_trash_is_explained(filled: Hermes) -> None:
    filled.call("sessions", "delete", AUTH, "--yes")
    for reference in (AUTH, "refactoring auth"):
        result = filled.call("sessions", "show", reference)
        assert result.code == 1
        assert "is in the trash" in result.err
    assert "hermes sessions restore 'refactoring auth'" in result.err


def test_emptying_the_trash(filled: Hermes) -> None:
    filled.call("sessions", "delete", WEATHER, "--yes", now=NOW - 40 * DAY)
    filled.call("sessions", "delete", PLAN, "--yes")
    assert filled.call("sessions", "trash", "--empty").code == 1
    old = filled.call("sessions", "trash", "--empty", "--older-than", "30", stdin="y\n")
    assert old.code == 0
    assert old.out == "Deleted 1 session (2 messages) permanently.\n"
    assert trashed(filled) == {PLAN}
    rest = filled.call("sessions", "trash", "--empty", "-y", "--json")
    assert rest.json == {"deleted": [PLAN], "messages": 1, "purged": True}
    nothing = filled.call("sessions", "trash", "--empty")
    assert nothing == Result(0, "There is nothing in the trash to delete.\n", "")
    assert filled.call("sessions", "trash", "--empty", "--yes", "--json").json["deleted"] == []


def test_a_dry_run_of_delete_explains_each_row(filled: Hermes) -> None:
    filled.call("sessions", "pin", AUTH)
    before = stored(filled)
    result = filled.call("sessions", "delete", AUTH, PROJECT, "--dry-run", "--json")
    reasons = {row["id"]: row["reason"] for row in result.json["sessions"]}
    assert reasons == {
        AUTH: "named",
        SUBAGENT: f"subagent of {AUTH}",
        PROJECT: "named",
        PROJECT_1: "part of the same conversation",
        PROJECT_2: "part of the same conversation",
    }
    shown = filled.call("sessions", "delete", AUTH, "--dry-run", "--purge").out.splitlines()
    assert shown[0] == f"{AUTH}  refactoring auth (pinned)"
    assert shown[-1].endswith(") permanently. Nothing was changed.")
    assert stored(filled) == before


# ── prune ─────────────────────────────────────────────────────────────────────────────────────


def test_prune_moves_what_ended_long_ago(filled: Hermes) -> None:
    result = filled.call("sessions", "prune", stdin="y\n")
    assert result.code == 0
    assert "Move 1 session (1 message, 26 bytes) to the trash?" in result.err
    assert trashed(filled) == {OLD}


def test_prune_without_a_yes_changes_nothing(filled: Hermes) -> None:
    assert filled.call("sessions", "prune").code == 1
    assert filled.call("sessions", "prune", "--purge").code == 1
    assert trashed(filled) == set()


def test_prune_by_age_and_source(filled: Hermes) -> None:
    discord = ["sessions", "prune", "-y", "--json", "--source", "discord", "--older-than"]
    assert filled.call(*discord, "10.5").json["deleted"] == []
    assert filled.call(*discord, "5").json["deleted"] == [PLAN]
    everywhere = filled.call("sessions", "prune", "-y", "--json", "--older-than", "0")
    assert everywhere.json["deleted"] == [OLD]


def test_dry_run_shows_and_keeps(filled: Hermes) -> None:
    before = stored(filled)
    result = filled.call("sessions", "prune", "--older-than", "5", "--dry-run")
    assert result.code == 0
    assert OLD in result.out
    assert PLAN in result.out
    lines = result.out.splitlines()
    assert lines[0] == f"{OLD}  old notes"
    why = "ended 2024-08-17 (cli_close), last active 2024-08-17"
    assert lines[1] == f"  1 message, 26 bytes: {why}"
    assert lines[-1].startswith("Would move 2 sessions (2 messages, ")
    assert lines[-1].endswith(") to the trash. Nothing was changed.")
    purge = filled.call("sessions", "prune", "--older-than", "5", "--dry-run", "--purge")
    assert "Would delete " in purge.out
    as_json = filled.call("sessions", "prune", "--dry-run", "--json").json
    assert [session["id"] for session in as_json["sessions"]] == [OLD]
    assert (as_json["dry_run"], as_json["purge"]) == (True, False)
    assert (as_json["messages"], as_json["bytes"]) == (1, 26)
    assert (as_json["sessions"][0]["bytes"], as_json["sessions"][0]["reason"]) == (26, why)
    assert stored(filled) == before


def test_prune_for_good(filled: Hermes) -> None:
    result = filled.call("sessions", "prune", "--purge", "--yes", "--json")
    assert result.json == {"deleted": [OLD], "messages": 1, "purged": True}
    assert trashed(filled) == set()
    assert OLD not in stored(filled)


def test_nothing_to_prune(hermes: Hermes) -> None:
    result = hermes.call("sessions", "prune", "--older-than", "1")
    assert result == Result(
        0,
        "Nothing to prune: no unpinned conversation has ended and been inactive for more than "
        "1 day.\n",
        "",
    )
    assert hermes.call("sessions", "prune", "--json").json["deleted"] == []


def test_many_conversations_go_in_batches_that_keep_families_together(hermes: Hermes) -> None:
    with hermes.db(now=NOW - 100 * DAY) as db:
        for number in range(120):
            parent = f"s{number}"
            db.create_session(parent, "cli")
            db.end_session(parent, "compression")
            child = f"s{number}b"
            db.create_session(child, "cli", parent_session_id=parent, edge_kind="compression")
            db.end_session(child, "cli_close")
    result = hermes.call("sessions", "prune", "--yes", "--json")
    assert len(result.json["deleted"]) == 240
    assert stored(hermes) == set()

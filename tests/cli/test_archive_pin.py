"""hermes sessions archive, unarchive, pin and unpin."""

import pytest

from tests.cli.harness import Hermes
from tests.cli.sample_store import AUTH, OLD, PROJECT, PROJECT_1, WEATHER


def listed(hermes: Hermes, *options: str) -> list[str]:
    return [s["id"] for s in hermes.call("sessions", "list", *options, "--json").json["sessions"]]


def test_an_archived_conversation_leaves_the_list(filled: Hermes) -> None:
    result = filled.call("sessions", "archive", PROJECT_1, "refactoring auth", AUTH)
    assert (result.code, result.err) == (0, "")
    assert result.out == f"Archived {PROJECT_1}  my project\nArchived {AUTH}  refactoring auth\n"
    assert not {PROJECT, AUTH} & set(listed(filled))
    assert {PROJECT, AUTH} <= set(listed(filled, "--archived"))
    assert filled.call("sessions", "unarchive", PROJECT).code == 0
    assert PROJECT in listed(filled)


def test_a_pinned_conversation_is_not_pruned(filled: Hermes) -> None:
    assert filled.call("sessions", "pin", "old notes").out == f"Pinned {OLD}  old notes\n"
    pruned = filled.call("sessions", "prune", "--yes")
    assert pruned.out.startswith("Nothing to prune")
    assert OLD in listed(filled, "--pinned")
    assert filled.call("sessions", "unpin", OLD).code == 0
    assert filled.call("sessions", "prune", "--yes", "--json").json["deleted"] == [OLD]


@pytest.mark.parametrize("command", ["archive", "unarchive", "pin", "unpin"])
def test_one_unknown_name_changes_nothing(filled: Hermes, command: str) -> None:
    before = filled.call("sessions", "list", "--json").out
    result = filled.call("sessions", command, WEATHER, "nowhere")
    assert (result.code, result.out) == (1, "")
    assert "No session matches 'nowhere'." in result.err
    assert filled.call("sessions", "list", "--json").out == before


def test_marking_twice(filled: Hermes) -> None:
    for _ in range(2):
        assert filled.call("sessions", "pin", AUTH, "--json").json == {"pinned": [AUTH]}
        assert filled.call("sessions", "unarchive", AUTH).code == 0


def test_an_untitled_session_that_is_pinned_shows_its_preview(filled: Hermes) -> None:
    filled.call("sessions", "pin", WEATHER)
    rows = filled.call("sessions", "list", "--plain", "--source", "telegram").out.splitlines()
    assert any("* What's the weather" in row for row in rows)

"""``hermes sessions retention``, ``hold``, ``unhold`` and ``holds``."""

from __future__ import annotations

import pytest

from tests.cli.harness import DAY, NOW, Hermes


@pytest.fixture
def jobs(hermes: Hermes) -> Hermes:
    """Three sessions of a scheduled job; the rule keeps two."""
    with hermes.db() as db:
        for number in range(3):
            name = f"job{number}"
            db.create_session(name, "cron", started_at=NOW - 10 * DAY)
            db.append_message(name, "user", "x", timestamp=NOW - (9 - number) * DAY)
            db.end_session(name, "cron_complete")
    limits(hermes, "cron: {max_count: 2}")
    return hermes


def limits(hermes: Hermes, text: str) -> None:
    (hermes.home / "config.yaml").write_text(f"retention:\n  {text}\n", encoding="utf-8")


def test_nothing_is_moved_without_consent(jobs: Hermes) -> None:
    result = jobs.call("sessions", "retention", "run")
    assert result.code == 1
    assert "have not been approved" in result.err
    assert "hermes sessions retention approve" in result.err
    plan = jobs.call("sessions", "retention", "plan", "--json").json
    assert [one["conversation_id"] for one in plan["departures"]] == ["job0"]
    assert plan["approved"] is False


def test_the_plan_is_shown_before_the_confirmation(jobs: Hermes) -> None:
    result = jobs.call("sessions", "retention", "approve", stdin="n\n")
    assert result.code == 1
    assert "job0" in result.err
    assert "Not approved; nothing was changed." in result.err
    assert jobs.call("sessions", "retention", "run").code == 1
    result = jobs.call("sessions", "retention", "approve", stdin="y\n")
    assert result.code == 0
    assert "job0" in result.err
    assert jobs.call("sessions", "retention", "run", "--dry-run", "--json").json["dry_run"] is True
    result = jobs.call("sessions", "retention", "run", "--json")
    assert result.json["moved"] == ["job0"]
    assert "job0" in jobs.call("sessions", "trash").out
    assert jobs.call("sessions", "restore", "job0").code == 0


def test_changed_limits_ask_again(jobs: Hermes) -> None:
    assert jobs.call("sessions", "retention", "approve", "-y").code == 0
    limits(jobs, "cron: {max_count: 1}")
    result = jobs.call("sessions", "retention", "run")
    assert result.code == 1
    assert "changed after they were approved" in result.err
    assert "have changed since" in jobs.call("sessions", "retention", "status").out


def test_there_are_no_limits(hermes: Hermes) -> None:
    assert "No limits" in hermes.call("sessions", "retention", "plan").out
    result = hermes.call("sessions", "retention", "approve", "--yes")
    assert result.code == 1
    assert "no limits to approve" in result.err
    result = hermes.call("sessions", "retention", "run")
    assert result.code == 0
    assert "nothing was moved" in result.out
    assert "nothing to approve" in hermes.call("sessions", "retention", "status").out


def test_a_limit_that_is_none(hermes: Hermes) -> None:
    hermes.home.mkdir()
    limits(hermes, "cron: {max_age_days: soon}")
    result = hermes.call("sessions", "retention", "plan")
    assert result.code == 2
    assert "retention.cron.max_age_days" in result.err


def test_the_group_alone_shows_its_commands(hermes: Hermes) -> None:
    assert "approve" in hermes.call("sessions", "retention").out


def test_a_hold(jobs: Hermes) -> None:
    result = jobs.call("sessions", "hold", "job0", "job0", "--reason", "a dispute")
    assert result.out == "On hold: job0\n"
    result = jobs.call("sessions", "delete", "job0", "--yes")
    assert result.code == 1
    assert "on hold (a dispute). To lift the hold: hermes sessions unhold job0" in result.err
    assert jobs.call("sessions", "delete", "job0", "--purge", "--yes").code == 1
    assert jobs.call("sessions", "prune", "--older-than", "0", "--yes").code == 0
    assert [
        hold["session_id"] for hold in jobs.call("sessions", "holds", "--json").json["holds"]
    ] == ["job0"]
    assert jobs.call("sessions", "unhold", "job0", "--json").json == {"lifted": ["job0"]}
    assert jobs.call("sessions", "unhold", "job0").out == "Nothing was on hold.\n"
    assert jobs.call("sessions", "holds").out == "Nothing is on hold.\n"
    assert jobs.call("sessions", "delete", "job0", "--yes").code == 0


def test_a_hold_needs_a_session_and_a_reason(jobs: Hermes) -> None:
    assert jobs.call("sessions", "hold", "job0").code == 2
    assert jobs.call("sessions", "hold", "job0", "--reason", " ").code == 1
    result = jobs.call("sessions", "hold", "job0", "nowhere", "--reason", "why")
    assert result.code == 1
    assert jobs.call("sessions", "holds", "--json").json == {"holds": []}

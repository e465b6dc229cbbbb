"""Retention beyond the conformance kit: configuration, maintenance, concurrent programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from hermes_sessions import SessionDB
from hermes_sessions.config import load_settings
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.config.retention_policies import retention_policies
from hermes_sessions.lifecycle.expiry_watcher import ExpiryWatcher
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.model.retention import (
    ClassLimits,
    RetentionCandidate,
    RetentionPolicies,
    retention_class,
    select_removals,
)
from hermes_sessions.storage.care.retention.plan import APPROVAL_KEY
from hermes_sessions.storage.transfer.run import Transfer
from hermes_sessions_testing.clock import FrozenClock

DAY = 86400.0


def policies_of(tmp_path: Path, text: str) -> RetentionPolicies:
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    return retention_policies(load_settings(tmp_path, {}))


def conversation(name: str, days_ago: float, **values: object) -> RetentionCandidate:
    return RetentionCandidate(name, "human", -days_ago * DAY, (name,), 1)._replace(**values)  # type: ignore[arg-type]


def test_classes() -> None:
    assert retention_class("cli", None) == retention_class("telegram", "branch") == "human"
    assert retention_class("cron", None) == "cron"
    assert retention_class("cli", "subagent") == retention_class("subagent", None) == "subagent"
    assert retention_class("api_server", None) == retention_class("webhook", None) == "api"


def test_the_newest_stays_whatever_its_size() -> None:
    sized = [conversation(f"c{n}", n, size=100) for n in range(4)]
    going = [d.conversation.id for d in select_removals(sized, ClassLimits(max_bytes=50), 0.0)]
    assert going == ["c1", "c2", "c3"]
    going = [d.conversation.id for d in select_removals(sized, ClassLimits(max_bytes=200), 0.0)]
    assert going == ["c2", "c3"]


def test_what_is_protected_counts() -> None:
    some = [conversation(f"c{n}", n) for n in range(4)]
    some[0] = some[0]._replace(kept_because="pinned")
    going = [d.conversation.id for d in select_removals(some, ClassLimits(max_count=2), 0.0)]
    assert going == ["c2", "c3"]


def test_no_limits_are_configured(tmp_path: Path) -> None:
    assert policies_of(tmp_path, "") == RetentionPolicies()
    assert not policies_of(tmp_path, "").has_limits


def test_limits_from_the_configuration(tmp_path: Path) -> None:
    policies = policies_of(
        tmp_path, "retention: {close_after_days: 7, cron: {max_age_days: 30, max_bytes: 1KB}}"
    )
    assert policies.cron == ClassLimits(30, None, 1024)
    assert policies.close_after_days == 7
    assert not policies.human.has_limits


def test_auto_prune_limits_the_other_classes(tmp_path: Path) -> None:
    policies = policies_of(
        tmp_path, "sessions: {auto_prune: true}\nretention: {cron: {max_count: 5}}"
    )
    assert policies.human == policies.api == policies.subagent == ClassLimits(90)
    assert policies.cron == ClassLimits(None, 5)
    policies = policies_of(tmp_path, "sessions: {auto_prune: true, retention_days: 10}")
    assert policies.human == ClassLimits(10)


def test_a_fingerprint_is_of_the_limits() -> None:
    first = RetentionPolicies(human=ClassLimits(90))
    assert first.fingerprint == RetentionPolicies(human=ClassLimits(90)).fingerprint
    others = [
        RetentionPolicies(human=ClassLimits(89)),
        RetentionPolicies(cron=ClassLimits(90)),
        RetentionPolicies(human=ClassLimits(max_count=90)),
        first._replace(close_after_days=1),
    ]
    assert len({first.fingerprint, *(one.fingerprint for one in others)}) == 5


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configured store with one session that is old enough to go."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    (tmp_path / "config.yaml").write_text("retention: {human: {max_age_days: 30}}\n")
    with SessionDB(clock=FrozenClock()) as db:
        db.create_session("old", "cli")
        db.append_message("old", "user", "x")
        db.end_session("old", "done")
    return tmp_path


def test_maintenance_asks_for_consent_first(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = FrozenClock()
    clock.advance(days=60)
    with SessionDB(clock=clock) as db:
        assert db.maybe_auto_prune_and_vacuum(retention_days=365)["pruned"] == 0
        assert "hermes sessions retention approve" in caplog.text
        assert db.session_count() == 1
        db.approve_retention(db.plan_retention())
        clock.advance(days=2)
        done = db.maybe_auto_prune_and_vacuum(retention_days=365)
        assert done["retired"] == 1
        assert [row["id"] for row in db.list_trash()] == ["old"]
    # Limits that were changed ask again.
    (home / "config.yaml").write_text("retention: {human: {max_age_days: 1}}\n")
    with SessionDB(clock=clock) as db:
        assert not db.plan_retention().is_approved


def test_the_watcher_of_a_gateway_does_it_too(home: Path) -> None:
    clock = FrozenClock()
    clock.advance(days=60)
    with SessionDB(clock=clock) as db:
        sessions = SessionStore(home / "sessions", GatewayConfig(), db=db)
        assert ExpiryWatcher(sessions).run_pass().retired == 0
        db.approve_retention(db.plan_retention())
        assert ExpiryWatcher(sessions).run_pass().retired == 1
        assert [row["id"] for row in db.list_trash()] == ["old"]


@pytest.mark.usefixtures("home")
def test_consent_that_cannot_be_read_is_none() -> None:
    with SessionDB() as db:
        for text in ("", "nonsense", "[]", '{"fingerprint": 1}', "null"):
            db.set_meta(APPROVAL_KEY, text)
            assert not db.plan_retention().is_approved


@pytest.mark.usefixtures("home")
def test_many_conversations_go_in_steps() -> None:
    clock = FrozenClock()
    with SessionDB(clock=clock, durability="normal") as db:
        for number in range(250):
            db.create_session(f"s{number}", "cli")
            db.end_session(f"s{number}", "done")
        clock.advance(days=60)
        db.approve_retention(db.plan_retention())
        steps: list[int] = []
        assert len(db.run_retention(on_progress=steps.append).moved) == 251
        assert steps == [100, 100, 51]


_RUN = """
from hermes_sessions import SessionDB
from hermes_sessions_testing.clock import FrozenClock
clock = FrozenClock()
clock.advance(days=60)
with SessionDB(clock=clock) as db:
    print(len(db.run_retention().moved))
"""


def test_several_programs_at_once(home: Path) -> None:
    """Everything goes exactly once."""
    clock = FrozenClock()
    with SessionDB(clock=clock, durability="normal") as db:
        for number in range(150):
            db.create_session(f"s{number}", "cli")
            db.end_session(f"s{number}", "done")
        clock.advance(days=60)
        db.approve_retention(db.plan_retention())
    environ = {**os.environ, "HERMES_HOME": str(home)}
    running = [
        subprocess.Popen([sys.executable, "-c", _RUN], env=environ, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    moved = [int(process.communicate()[0]) for process in running]
    assert sum(moved) == 151
    with SessionDB(clock=clock) as db:
        assert db.session_count() == 0
        assert len(db.list_trash()) == 151


def test_holds_move_to_another_database(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "a.db") as first, SessionDB(tmp_path / "b.db") as second:
        first.create_session("s", "cli")
        first.hold_session("s", "a dispute")
        Transfer(first.provider, second.provider).run()
        assert [hold["reason"] for hold in second.list_holds()] == ["a dispute"]


def test_a_store_that_is_only_read_and_has_no_holds_yet(tmp_path: Path) -> None:
    """An older version made it; looking does not change it."""
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        db.create_session("s", "cli")
    connection = apsw.Connection(str(path))
    connection.execute("DROP TABLE holds; DELETE FROM store_migrations WHERE name = '0007_holds'")
    connection.close()
    with SessionDB(path, read_only=True) as db:
        assert db.list_holds() == []
        assert db.list_prune_candidates() == []
        assert db.plan_retention(RetentionPolicies(human=ClassLimits(1))).removals == ()
    with SessionDB(path) as db:
        assert db.hold_session("s", "a dispute")

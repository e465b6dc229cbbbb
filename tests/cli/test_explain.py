"""hermes sessions explain."""

import pytest

from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.model.source import Platform, SessionSource
from tests.cli.harness import Hermes
from tests.cli.sample_lane import ADA, FORMER, LANE, live
from tests.cli.sample_store import AUTH


@pytest.fixture
def lived(filled: Hermes) -> Hermes:
    with filled.db() as db:
        live(db)
    return filled


def lanes(hermes: Hermes, *reference: str) -> list[str]:
    result = hermes.call("sessions", "explain", *reference, "--json")
    assert (result.code, result.err) == (0, "")
    return [lane["session_key"] for lane in result.json["lanes"]]


def test_the_ways_to_name_a_conversation(lived: Hermes) -> None:
    with lived.db() as db:
        db.set_session_title(FORMER, "the first one")
        current = db.resolve_session_id("20250301_12")
        assert current is not None
    ways = [LANE, LANE[:-2], FORMER, current, current[:-3], "agent:", "20250227_090000_0c0c0c0c"]
    for reference in ways:
        assert lanes(lived, reference) == [LANE], reference
    assert lanes(lived, "the", "first", "one") == [LANE]


def test_a_session_that_was_compacted_in_the_last_turn(lived: Hermes) -> None:
    """Lists show where it continues; the lane follows with its next message."""
    with lived.db() as db:
        current = db.resolve_session_id("20250301_12")
        assert current is not None
        db.continue_session(
            current, "20250302_090000_0d0d0d0d", [{"role": "user", "content": "Sum"}]
        )
    assert lanes(lived, "20250302_090000_0d0d0d0d") == [LANE]


def test_every_step_is_there(lived: Hermes) -> None:
    [lane] = lived.call("sessions", "explain", LANE, "--json").json["lanes"]
    assert [(step["action"], step["reason"]) for step in lane["steps"]] == [
        ("create", "new"),
        ("reset", "idle"),
        ("reset", "daily"),
        ("suspend", "stopped"),
        ("reset", "suspended"),
        ("reset", "requested"),
        ("switch", "requested"),
        ("follow", "compaction"),
        ("mark", "restart_interrupted"),
        ("unmark", "completed"),
        ("keep", "busy"),
        ("reset", "force_new"),
        ("create", "session_missing"),
        ("mark", "shutdown_timeout"),
    ]
    idle = lane["steps"][1]
    assert idle["policy"]["idle_minutes"] == 1440
    assert idle["facts"]["expired"] == "idle"
    assert (idle["from_session_id"], idle["actor"]) == (FORMER, "message")
    assert (lane["status"], lane["session_id"]) == (
        "resume_pending",
        lane["steps"][-1]["to_session_id"],
    )
    assert all(step["what"].endswith(".") for step in lane["steps"])


def test_names_of_strangers_do_nothing_to_the_terminal(lived: Hermes) -> None:
    assert "\x1b" not in lived.call("sessions", "explain", LANE).out


def test_an_ambiguous_beginning(lived: Hermes) -> None:
    with lived.db() as db, SessionStore(lived.home / "sessions", db=db) as store:
        for number in range(30):
            store.get_or_create_session(SessionSource(Platform.SLACK, f"C{number}"))
    result = lived.call("sessions", "explain", "agent:main:slack")
    assert (result.code, result.out) == (1, "")
    assert "matches several" in result.err
    assert result.err.count("agent:main:slack:dm:C") == 10
    assert "and more" in result.err
    assert lanes(lived, "agent:main:slack:dm:C1") == ["agent:main:slack:dm:C1"]


def test_two_bots_on_one_key(lived: Hermes) -> None:
    config = GatewayConfig(namespace="other bot")
    with lived.db() as db, SessionStore(lived.home / "sessions", config, db=db) as store:
        store.get_or_create_session(ADA)
    result = lived.call("sessions", "explain", LANE)
    assert result.code == 0
    assert "of other bot" in result.out
    assert lanes(lived, LANE) == [LANE, LANE]


def test_a_session_of_no_messenger(lived: Hermes) -> None:
    result = lived.call("sessions", "explain", AUTH)
    assert (result.code, result.out) == (1, "")
    assert "does not belong to a messenger conversation" in result.err


def test_nothing_of_that_name(lived: Hermes) -> None:
    result = lived.call("sessions", "explain", "nowhere")
    assert (result.code, result.out) == (1, "")
    assert "No session matches 'nowhere'." in result.err

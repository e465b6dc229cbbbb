"""What a message does to a running turn, as a table."""

import pytest

from hermes_sessions.lifecycle.busy_input import (
    BUSY_MODES,
    BusyAction,
    BusyMode,
    RunningTurn,
    on_message,
    should_acknowledge,
)

LONG = 60.0


@pytest.mark.parametrize(
    ("mode", "running", "expected"),
    [
        ("interrupt", RunningTurn(LONG), BusyAction("interrupt")),
        ("interrupt", RunningTurn(LONG, can_steer=True), BusyAction("interrupt")),
        ("interrupt", RunningTurn(LONG, has_subagents=True), BusyAction("queue", "subagents")),
        ("interrupt", RunningTurn(2.9), BusyAction("queue", "follow_up")),
        ("interrupt", RunningTurn(3.0), BusyAction("interrupt")),
        ("interrupt", RunningTurn(-5.0), BusyAction("queue", "follow_up")),
        ("interrupt", RunningTurn(LONG, is_draining=True), BusyAction("queue", "draining")),
        ("queue", RunningTurn(LONG, can_steer=True), BusyAction("queue")),
        ("queue", RunningTurn(LONG, is_draining=True), BusyAction("queue")),
        ("steer", RunningTurn(LONG, can_steer=True), BusyAction("steer")),
        ("steer", RunningTurn(0.5, can_steer=True), BusyAction("steer")),
        ("steer", RunningTurn(LONG, can_steer=True, has_subagents=True), BusyAction("steer")),
        ("steer", RunningTurn(LONG), BusyAction("queue", "cannot_steer")),
        (
            "steer",
            RunningTurn(LONG, can_steer=True, is_draining=True),
            BusyAction("queue", "draining"),
        ),
    ],
)
def test_what_a_text_does(mode: BusyMode, running: RunningTurn, expected: BusyAction) -> None:
    assert on_message(mode, running) == expected


@pytest.mark.parametrize("mode", BUSY_MODES)
def test_files_never_interrupt(mode: BusyMode) -> None:
    assert on_message(mode, RunningTurn(LONG, can_steer=True), has_media=True).action == "queue"


def test_what_the_sender_asks_for_counts_more() -> None:
    running = RunningTurn(LONG, can_steer=True)
    assert on_message("interrupt", running, wants="queue") == BusyAction("queue")
    assert on_message("interrupt", running, wants="steer") == BusyAction("steer")
    assert on_message("queue", running, wants="steer") == BusyAction("steer")


def test_a_sender_is_told_again_after_a_while_only() -> None:
    assert should_acknowledge(None, 1000.0)
    assert not should_acknowledge(1000.0, 1000.0)
    assert not should_acknowledge(1000.0, 1029.9)
    assert should_acknowledge(1000.0, 1030.0)
    assert should_acknowledge(1000.0, 990.0)

"""What a message does to the turn that runs, as a table."""

import pytest

from hermes_sessions.lifecycle.busy_input import (
    BUSY_MODES,
    Answer,
    BusyMode,
    RunningTurn,
    is_acknowledged,
    on_message,
)

LONG = 60.0


@pytest.mark.parametrize(
    ("mode", "running", "expected"),
    [
        ("interrupt", RunningTurn(LONG), Answer("interrupt")),
        ("interrupt", RunningTurn(LONG, can_steer=True), Answer("interrupt")),
        ("interrupt", RunningTurn(LONG, has_subagents=True), Answer("queue", "subagents")),
        ("interrupt", RunningTurn(2.9), Answer("queue", "follow_up")),
        ("interrupt", RunningTurn(3.0), Answer("interrupt")),
        ("interrupt", RunningTurn(-5.0), Answer("queue", "follow_up")),
        ("interrupt", RunningTurn(LONG, is_draining=True), Answer("queue", "draining")),
        ("queue", RunningTurn(LONG, can_steer=True), Answer("queue")),
        ("queue", RunningTurn(LONG, is_draining=True), Answer("queue")),
        ("steer", RunningTurn(LONG, can_steer=True), Answer("steer")),
        ("steer", RunningTurn(0.5, can_steer=True), Answer("steer")),
        ("steer", RunningTurn(LONG, can_steer=True, has_subagents=True), Answer("steer")),
        ("steer", RunningTurn(LONG), Answer("queue", "cannot_steer")),
        ("steer", RunningTurn(LONG, can_steer=True, is_draining=True), Answer("queue", "draining")),
    ],
)
def test_what_a_text_does(mode: BusyMode, running: RunningTurn, expected: Answer) -> None:
    assert on_message(mode, running) == expected


@pytest.mark.parametrize("mode", BUSY_MODES)
def test_files_never_interrupt(mode: BusyMode) -> None:
    assert on_message(mode, RunningTurn(LONG, can_steer=True), has_media=True).action == "queue"


def test_what_the_sender_asks_for_counts_more() -> None:
    running = RunningTurn(LONG, can_steer=True)
    assert on_message("interrupt", running, wants="queue") == Answer("queue")
    assert on_message("interrupt", running, wants="steer") == Answer("steer")
    assert on_message("queue", running, wants="steer") == Answer("steer")


def test_a_sender_is_told_again_after_a_while_only() -> None:
    assert is_acknowledged(None, 1000.0)
    assert not is_acknowledged(1000.0, 1000.0)
    assert not is_acknowledged(1000.0, 1029.9)
    assert is_acknowledged(1000.0, 1030.0)
    assert is_acknowledged(1000.0, 990.0)

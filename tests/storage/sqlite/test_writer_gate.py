"""The gate: turns between processes; no process can block the others for good."""

from __future__ import annotations

import logging
import os
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hermes_sessions.storage.sqlite import writer_gate as gates
from hermes_sessions.storage.sqlite.writer_gate import WriterGate
from tests.storage.sqlite.other_process import OtherProcess, start

FOREVER = float("inf")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def gate(path: Path) -> Iterator[WriterGate]:
    gate = WriterGate(f"{path}.gate")
    yield gate
    gate.close()


@pytest.fixture
def holder(path: Path) -> Iterator[OtherProcess]:
    """Another process that has a turn."""
    with start("hold_gate", path) as other:
        assert other.said() == "inside"
        yield other


def test_one_after_the_other(gate: WriterGate, holder: OtherProcess) -> None:
    assert not gate.enter(time.monotonic())
    holder.tell()
    holder.succeeded()
    assert gate.enter(FOREVER)
    gate.leave()


def test_a_turn_keeps_others_out(gate: WriterGate, path: Path) -> None:
    assert gate.enter(FOREVER)
    with start("try_gate", path) as other:
        assert other.said() == "kept out"
        gate.leave()
        other.tell()
        assert other.said() == "inside"


def test_processes_enter_in_the_order_of_arrival(holder: OtherProcess, path: Path) -> None:
    with ExitStack() as stack:
        line = []
        for _ in range(3):
            line.append(stack.enter_context(start("wait_at_gate", path)))
            assert line[-1].said() == "waiting"
        holder.tell()
        holder.succeeded()
        while line:
            for later in reversed(line[1:]):
                later.tell()
                assert later.said() == "waiting"
            first = line.pop(0)
            first.tell()
            assert first.said() == "inside"
            first.succeeded()


def test_a_turn_lasts_for_some_time(
    gate: WriterGate, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "TURN", FOREVER)
    monkeypatch.setattr(gates, "MAX_WRITES_PER_TURN", 1)
    assert gate.enter(FOREVER)
    with start("wait_at_gate", path) as other:
        assert other.said() == "waiting"
        for _ in range(3):
            gate.leave()
            assert gate.enter(time.monotonic())


def test_a_turn_lasts_for_some_writes_however_slow_they_are(
    gate: WriterGate, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "TURN", 0.0)
    monkeypatch.setattr(gates, "MAX_WRITES_PER_TURN", 3)
    monkeypatch.setattr(gates, "LONGEST_TURN", FOREVER)
    assert gate.enter(FOREVER)
    with start("wait_at_gate", path) as other:
        assert other.said() == "waiting"
        for _ in range(2):
            gate.leave()
            assert gate.enter(time.monotonic())
        gate.leave()
        assert not gate.enter(time.monotonic())


def test_after_a_turn_others_come_first(
    gate: WriterGate, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "LONGEST_TURN", 0.0)
    assert gate.enter(FOREVER)
    with start("wait_at_gate", path) as other:
        assert other.said() == "waiting"
        gate.leave()
        assert not gate.enter(time.monotonic())
        other.tell()
        assert other.said() == "inside"
        other.succeeded()
    assert gate.enter(FOREVER)


def test_others_enter_while_a_turn_is_not_used(
    gate: WriterGate, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "LONGEST_TURN", FOREVER)
    assert gate.enter(FOREVER)
    gate.leave()
    with start("hold_gate", path) as other:
        assert other.said() == "inside"
        assert not gate.enter(time.monotonic())


def test_others_are_noticed(gate: WriterGate, path: Path) -> None:
    assert not gate.is_crowded()
    with start("hold_gate", path) as other:
        assert other.said() == "inside"
        assert gate.is_crowded()
        other.tell()
        other.succeeded()
    assert not gate.is_crowded()
    with start("hold_gate", path) as other:  # Looking has left nothing locked.
        assert other.said() == "inside"


def test_the_death_of_a_process_ends_its_turn(gate: WriterGate, holder: OtherProcess) -> None:
    holder.kill()
    assert gate.enter(FOREVER)


def test_a_stopped_process_costs_one_wait_and_then_moments(
    gate: WriterGate, holder: OtherProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "PATIENCE", 0.02)
    monkeypatch.setattr(gates, "STUCK_GATE_TIMEOUT", 0.0)
    holder.send(signal.SIGSTOP)
    assert not gate.enter(FOREVER)
    monkeypatch.setattr(gates, "PATIENCE", FOREVER)  # It would hang if it stood in line again.
    assert not gate.enter(FOREVER)
    holder.send(signal.SIGCONT)
    holder.tell()
    holder.succeeded()
    assert gate.enter(FOREVER)
    gate.leave()
    # All is well again: it would wait for its turn now.
    assert gate.enter(FOREVER)


def test_little_patience_does_not_make_a_gate_stuck(
    gate: WriterGate, holder: OtherProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not gate.enter(time.monotonic())
    monkeypatch.setattr(gates, "STUCK_GATE_TIMEOUT", 0.0)
    monkeypatch.setattr(gates, "PATIENCE", FOREVER)
    holder.tell()
    assert gate.enter(FOREVER)


def test_a_wait_that_timed_out_blocks_no_process(
    gate: WriterGate, holder: OtherProcess, path: Path
) -> None:
    """A process that gave up leaves no byte locked."""
    assert not gate.enter(time.monotonic())
    holder.tell()
    holder.succeeded()
    with start("hold_gate", path) as other:
        assert other.said() == "inside"


def test_an_interrupted_wait_blocks_no_process(
    gate: WriterGate, holder: OtherProcess, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gates.time, "sleep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            gate.enter(FOREVER)
    gate.leave()
    holder.tell()
    holder.succeeded()
    with start("hold_gate", path) as other:
        assert other.said() == "inside"


def test_leaving_without_a_turn_does_nothing(gate: WriterGate) -> None:
    gate.leave()
    assert gate.enter(FOREVER)
    gate.leave()
    gate.leave()


def test_it_can_be_closed_and_used_again(gate: WriterGate, path: Path) -> None:
    assert gate.enter(FOREVER)
    gate.close()
    gate.close()
    with start("hold_gate", path) as other:
        assert other.said() == "inside"
    assert gate.enter(FOREVER)


def test_its_file_is_private_and_empty(gate: WriterGate, path: Path) -> None:
    old = os.umask(0)
    try:
        assert gate.enter(FOREVER)
    finally:
        os.umask(old)
    facts = Path(f"{path}.gate").stat()
    assert stat.S_IMODE(facts.st_mode) == 0o600
    assert facts.st_size == 0


@pytest.mark.parametrize("obstacle", ["missing directory", "link to the database", "directory"])
def test_without_a_file_there_are_no_turns(
    path: Path, obstacle: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = Path(f"{path}.gate")
    if obstacle == "missing directory":
        place = path.parent / "no" / "gate"
    elif obstacle == "directory":
        place.mkdir()
    else:
        # Opened and closed by the gate, it would take SQLite's locks with it.
        path.touch()
        place.symlink_to(path)
    gate = WriterGate(str(place))
    with caplog.at_level(logging.WARNING):
        assert not gate.enter(FOREVER)
        assert not gate.enter(FOREVER)
    gate.leave()
    gate.close()
    assert len(caplog.records) == 1


def test_no_gate() -> None:
    gate = WriterGate(None)
    assert not gate.enter(FOREVER)
    gate.leave()
    gate.close()

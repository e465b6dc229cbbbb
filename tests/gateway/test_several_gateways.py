"""Several gateways on one server: lanes of a dead one are taken over, and none runs twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions_testing.scripted_model import streamed
from tests.gateway.fleet import Fleet, first_call_held
from tests.gateway.harness import PATIENCE, echo
from tests.servers.stores import Place


@pytest.fixture
def fleet(place: Place, tmp_path: Path) -> Iterator[Fleet]:
    # Longer than a busy machine keeps a gateway from a heartbeat: others would consider it dead.
    with Fleet(tmp_path, place.url(), lease_seconds=10) as fleet:
        yield fleet


def turns_of(place: Place) -> list[tuple[str, int]]:
    """How turns ended, and in which attempt."""
    return [
        (str(outcome), int(attempt))
        for outcome, attempt in place.run("SELECT outcome, attempt FROM turns ORDER BY id")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.fault("A gateway dies or hangs", "Another takes over its lanes; no turn runs twice")
def test_the_lanes_of_a_gateway_that_dies_are_taken_over(
    fleet: Fleet, place: Place, how: signal.Signals
) -> None:
    """Killed, it is seen to be gone; stopped, as a machine that hangs, its leases run out."""
    first = fleet.start_and_wait()
    gate = fleet.model.gate()
    fleet.model.respond = lambda _request: streamed("never said", gate, " to the end")
    fleet.telegram.write("Do not forget me")
    gate.wait_until_reached()
    fleet.model.respond = echo
    fleet.start_and_wait()
    fleet.gateways[first].signal(how)
    fleet.telegram.wait_for(lambda: fleet.replies() == ["You said: Do not forget me"])
    assert turns_of(place) == [("abandoned", 1), ("completed", 2)]
    if how == signal.SIGSTOP:
        # It wakes up and finishes what is not its own any more.
        fleet.gateways[first].signal(signal.SIGCONT)
        gate.open()
        fleet.gateways[first].wait_for_line("considered this one dead")
        fleet.telegram.write("Still there?")
        fleet.telegram.wait_for(lambda: len(fleet.replies()) == 2)
    for gateway in fleet.gateways.values():
        gateway.signal(signal.SIGTERM)
        gateway.wait()
    assert fleet.replies()[:1] == ["You said: Do not forget me"]
    assert not any("never said" in text for text in fleet.replies())
    with SessionDB.from_url(place.url()) as db:
        (session,) = db.list_sessions_rich()
        asked = [row["content"] for row in db.get_messages(session["id"]) if row["role"] == "user"]
    assert asked[0] == "Do not forget me"
    assert len(asked) == len(set(asked)) == len(fleet.replies())


@pytest.mark.slow
def test_what_a_gateway_was_sending_when_it_died_is_sent_by_another(
    fleet: Fleet, place: Place
) -> None:
    for _ in range(2):
        fleet.start_and_wait()
    with first_call_held(fleet.telegram, "sendMessage") as is_held:
        fleet.telegram.write("Answer me")
        assert is_held.wait(PATIENCE)
        ((pid,),) = place.run(
            "SELECT p.pid FROM outbox o JOIN processes p ON p.id = o.claimed_by "
            "WHERE o.status = 'sending'"
        )
        (sending,) = (each for each in fleet.gateways.values() if each.pid == pid)
        sending.kill()
    # The claim itself would last for two minutes.
    fleet.telegram.wait_for(lambda: "You said: Answer me" in fleet.replies())

"""SIGKILL between receiving and replying: the real command, killed and started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.platforms.crash_restart import gateway, killed_while_answering, stored
from tests.gateway.platforms.signal.harness import SignalTown


@pytest.mark.slow
def test_a_message_is_answered_although_the_gateway_was_killed(short_path: Path) -> None:
    with SignalTown(short_path) as town:
        town.write_config()
        timestamp = town.signal.tick()
        with killed_while_answering(town, gateway(town, "signal")):
            town.signal.write("Do not forget me", timestamp=timestamp)
        town.signal.wait_for(lambda: not town.signal.subscribers)
        # signal-cli, too, may not be sure that it was handed over.
        town.signal.write("Do not forget me", timestamp=timestamp)
        with gateway(town, "signal"):
            assert town.wait_for_replies(1) == ["You said: Do not forget me"]
            town.signal.write("Still there?")
            assert town.wait_for_replies(2)[1:] == ["You said: Still there?"]
        (said,) = stored(town)
        assert said.count("Do not forget me") == 1

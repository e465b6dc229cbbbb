"""SIGKILL between receiving and replying: the real command, killed and started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.platforms.crash_restart import gateway, killed_while_answering, stored
from tests.gateway.platforms.signal.harness import SignalHarness


@pytest.mark.slow
def test_a_message_is_answered_although_the_gateway_was_killed(short_path: Path) -> None:
    with SignalHarness(short_path) as harness:
        harness.write_config()
        timestamp = harness.signal.tick()
        with killed_while_answering(harness, gateway(harness, "signal")):
            harness.signal.write("Do not forget me", timestamp=timestamp)
        harness.signal.wait_for(lambda: not harness.signal.subscribers)
        # signal-cli, too, may not be sure that it was handed over.
        harness.signal.write("Do not forget me", timestamp=timestamp)
        with gateway(harness, "signal"):
            assert harness.wait_for_replies(1) == ["You said: Do not forget me"]
            harness.signal.write("Still there?")
            assert harness.wait_for_replies(2)[1:] == ["You said: Still there?"]
        (said,) = stored(harness)
        assert said.count("Do not forget me") == 1

"""SIGKILL between receiving and replying: the real command, killed and started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.platforms.crash_restart import gateway, killed_while_answering, stored
from tests.gateway.platforms.matrix.harness import MatrixHarness
from tests.gateway.platforms.matrix.synapse_platform import SynapsePlatform


@pytest.mark.slow
def test_a_message_is_answered_although_the_gateway_was_killed(
    tmp_path: Path, messenger: SynapsePlatform
) -> None:
    with MatrixHarness(tmp_path, messenger) as harness:
        harness.write_config()
        with killed_while_answering(harness, gateway(harness, "matrix")):
            message_id = messenger.write("Do not forget me")
        # The homeserver does not know whether it was read: it tells everything again.
        messenger.deliver_again(message_id)
        with gateway(harness, "matrix"):
            assert harness.wait_for_replies(1) == ["You said: Do not forget me"]
            messenger.write("Still there?")
            assert harness.wait_for_replies(2)[1:] == ["You said: Still there?"]
        (said,) = stored(harness)
        assert said.count("Do not forget me") == 1

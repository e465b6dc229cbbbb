"""SIGKILL between receiving and replying: the real command, killed and started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.platforms.crash_restart import gateway, killed_while_answering, stored
from tests.gateway.platforms.slack.harness import SlackHarness


@pytest.mark.slow
def test_a_message_is_answered_although_the_gateway_was_killed(tmp_path: Path) -> None:
    with SlackHarness(tmp_path) as harness:
        harness.write_config()
        event = harness.slack.event("Do not forget me")
        with killed_while_answering(harness, gateway(harness, "slack")):
            harness.slack.push(harness.slack.envelop(event))
            harness.slack.wait_for(lambda: not harness.slack.waiting)
        # Slack, too, may not be sure that it was acknowledged.
        harness.slack.push(harness.slack.envelop(event))
        with gateway(harness, "slack"):
            assert harness.wait_for_replies(1) == ["You said: Do not forget me"]
            harness.slack.write("Still there?")
            assert harness.wait_for_replies(2)[1:] == ["You said: Still there?"]
        (said,) = stored(harness)
        assert said.count("Do not forget me") == 1

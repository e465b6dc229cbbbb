"""SIGKILL between receiving and replying: the real command, killed and started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.platforms.crash_restart import gateway, killed_while_answering, stored
from tests.gateway.platforms.slack.harness import SlackTown


@pytest.mark.slow
def test_a_message_is_answered_although_the_gateway_was_killed(tmp_path: Path) -> None:
    with SlackTown(tmp_path) as town:
        town.write_config()
        event = town.slack.event("Do not forget me")
        with killed_while_answering(town, gateway(town, "slack")):
            town.slack.push(town.slack.envelop(event))
            town.slack.wait_for(lambda: not town.slack.waiting)
        # Slack, too, may not be sure that it was acknowledged.
        town.slack.push(town.slack.envelop(event))
        with gateway(town, "slack"):
            assert town.wait_for_replies(1) == ["You said: Do not forget me"]
            town.slack.write("Still there?")
            assert town.wait_for_replies(2)[1:] == ["You said: Still there?"]
        (said,) = stored(town)
        assert said.count("Do not forget me") == 1

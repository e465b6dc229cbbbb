"""SIGKILL between receiving and replying: the real command, killed and started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_sessions_testing.fake_servers.discord.server import GENERAL
from tests.gateway.platforms.crash_restart import gateway, killed_while_answering, stored
from tests.gateway.platforms.discord.harness import DiscordHarness


@pytest.mark.slow
def test_messages_are_answered_although_the_gateway_was_killed(tmp_path: Path) -> None:
    with DiscordHarness(tmp_path) as harness:
        harness.write_config()
        with killed_while_answering(harness, gateway(harness, "discord")):
            message_id = harness.discord.write("Do not forget me")
        # What was never received is in the history.
        harness.discord.write("Nor me", channel=GENERAL, is_addressed=True)
        with gateway(harness, "discord"):
            assert harness.wait_for_replies(1) == ["You said: Do not forget me"]
            assert harness.wait_for_replies(1, GENERAL) == ["You said: Nor me"]
            harness.discord.tell_again(harness.private, message_id)
            harness.discord.write("Still there?")
            assert harness.wait_for_replies(2)[1:] == ["You said: Still there?"]
        said = [text for session in stored(harness) for text in session]
        assert said.count("Do not forget me") == said.count("Nor me") == 1

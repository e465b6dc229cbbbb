"""SIGKILL between receiving and replying: the real command, killed and started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_sessions.testing.discord_server import GENERAL
from tests.gateway.platforms.crash_restart import gateway, killed_while_answering, stored
from tests.gateway.platforms.discord.harness import DiscordTown


@pytest.mark.slow
def test_messages_are_answered_although_the_gateway_was_killed(tmp_path: Path) -> None:
    with DiscordTown(tmp_path) as town:
        town.write_config()
        with killed_while_answering(town, gateway(town, "discord")):
            message_id = town.discord.write("Do not forget me")
        # What was never received is in the history.
        town.discord.write("Nor me", channel=GENERAL, is_addressed=True)
        with gateway(town, "discord"):
            assert town.wait_for_replies(1) == ["You said: Do not forget me"]
            assert town.wait_for_replies(1, GENERAL) == ["You said: Nor me"]
            town.discord.tell_again(town.private, message_id)
            town.discord.write("Still there?")
            assert town.wait_for_replies(2)[1:] == ["You said: Still there?"]
        said = [text for session in stored(town) for text in session]
        assert said.count("Do not forget me") == said.count("Nor me") == 1

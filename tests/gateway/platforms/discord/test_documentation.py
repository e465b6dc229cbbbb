"""The page about Discord says what to ask Discord for."""

import re
from pathlib import Path

import discord

from hermes_sessions.gateway.platforms.discord.websocket import INTENTS

PAGE = Path(__file__).parents[4] / "docs" / "discord.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_permissions_are_those_of_the_address() -> None:
    granted = discord.Permissions(
        view_channel=True,
        send_messages=True,
        send_messages_in_threads=True,
        read_message_history=True,
    )
    assert set(re.findall(r"permissions=(\d+)|`(\d{9,})`", TEXT)) == {
        (str(granted.value), ""),
        ("", str(granted.value)),
    }


def test_one_intent_is_privileged() -> None:
    privileged = {"members", "presences", "message_content"}
    assert {name for name, is_on in INTENTS if is_on} & privileged == {"message_content"}

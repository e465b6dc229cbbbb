"""The page about Discord names every key with its default, and what to ask Discord for."""

import re
from dataclasses import fields
from pathlib import Path

import discord

from hermes_sessions.config.key_types import ParseContext, Size
from hermes_sessions.gateway.platforms.discord.settings import _FREE, _KEYS, DiscordSettings
from hermes_sessions.gateway.platforms.discord.websocket import INTENTS

PAGE = Path(__file__).parents[4] / "docs" / "discord.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([a-z_.]+)` \| `?([^|`]*?)`? \|", TEXT, re.MULTILINE))


def test_every_key_is_on_the_page() -> None:
    assert ROWS.keys() == {"token", _FREE, *_KEYS}


def test_the_defaults_are_right() -> None:
    defaults = {each.name: each.default for each in fields(DiscordSettings)}
    size = Size(at_least=0, at_most=10**12).parse(ROWS["max_file_bytes"], ParseContext(PAGE, {}))
    assert size == defaults["max_file_bytes"]
    for name in ("base_url", "catch_up_hours"):
        assert ROWS[name] == str(defaults[name])
    assert (ROWS["require_mention"] == "true") is defaults["require_mention"]


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

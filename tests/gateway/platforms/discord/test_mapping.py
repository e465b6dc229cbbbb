"""What becomes of a message on Discord, without Discord."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.gateway.platforms.discord.directory import ChannelInfo, Directory
from hermes_sessions.gateway.platforms.discord.identifiers import snowflake_at, time_of
from hermes_sessions.gateway.platforms.discord.mapping import InboundReader, locate
from hermes_sessions.gateway.platforms.port import UnreadablePayload
from hermes_sessions.model.lane import build_session_key
from hermes_sessions.model.source import Platform, SessionSource

BOT = "100"
ANNA = {"id": "7", "username": "anna", "global_name": "Anna"}
BERT = {"id": "8", "username": "bert"}
GUILD = {
    "id": "20",
    "name": "Team",
    "roles": [{"id": "41", "tags": {"bot_id": BOT}}, {"id": "40"}],
    "channels": [
        {"id": "30", "type": 0, "name": "general", "topic": "Everything", "last_message_id": "5"},
        {"id": "31", "type": 15, "name": "forum"},
    ],
    "threads": [
        {"id": "32", "type": 11, "name": "The pump", "parent_id": "30"},
        {"id": "33", "type": 12, "name": "Quiet", "parent_id": "31"},
    ],
}
READER = InboundReader(BOT, commands=frozenset({"new"}))


@pytest.fixture
def directory() -> Directory:
    directory = Directory(BOT)
    directory.take("GUILD_CREATE", GUILD)
    return directory


def message(text: Any = "Hello", channel: str = "50", **fields: Any) -> dict[str, Any]:
    return {
        "id": "1000",
        "type": 0,
        "channel_id": channel,
        "author": ANNA,
        "content": text,
    } | fields


def read(directory: Directory, data: dict[str, Any], reader: InboundReader = READER) -> Any:
    located = locate(data)
    channel = directory.channels.get(located.channel_id) or ChannelInfo(located.channel_id)
    return reader.read(located, channel, directory)


def addressed(text: str = "Hello", channel: str = "30", **fields: Any) -> dict[str, Any]:
    mention = f"<@{BOT}> {text}"
    return message(mention, channel, guild_id="20", mentions=[{"id": BOT}], **fields)


# ── where it is from ──────────────────────────────────────────────────────────────────────────


def test_a_private_message(directory: Directory) -> None:
    inbound = read(directory, message())
    assert inbound.source == SessionSource(
        platform=Platform.DISCORD,
        chat_id="50",
        chat_name="Anna",
        chat_type="dm",
        user_id="7",
        user_name="Anna",
        message_id="1000",
    )
    assert (inbound.text, inbound.message_id, inbound.roles) == ("Hello", "1000", ())
    assert (inbound.sent_at, inbound.order) == (time_of(1000), 1000)
    assert build_session_key(inbound.source) == "agent:main:discord:dm:50"


def test_a_message_in_a_channel(directory: Directory) -> None:
    member = {"nick": "Änni", "roles": ["40", 5, "x"]}
    inbound = read(directory, addressed(member=member))
    assert inbound.source == SessionSource(
        platform=Platform.DISCORD,
        chat_id="30",
        chat_name="Team / #general",
        chat_type="group",
        user_id="7",
        user_name="Änni",
        chat_topic="Everything",
        guild_id="20",
        message_id="1000",
    )
    # Everybody on a server has the role that has its id.
    assert inbound.roles == ("20", "40")
    assert build_session_key(inbound.source) == "agent:main:discord:group:30:7"


@pytest.mark.parametrize(
    ("thread", "parent", "name"),
    [("32", "30", "Team / #general / The pump"), ("33", "31", "Team / #forum / Quiet")],
)
def test_a_message_in_a_thread(directory: Directory, thread: str, parent: str, name: str) -> None:
    source = read(directory, addressed(channel=thread)).source
    assert (source.chat_id, source.thread_id) == (parent, thread)
    assert (source.parent_chat_id, source.guild_id, source.chat_name) == (parent, "20", name)
    assert build_session_key(source) == f"agent:main:discord:group:{parent}:{thread}"


def test_a_thread_whose_channel_is_not_known(directory: Directory) -> None:
    directory.take("THREAD_CREATE", {"id": "34", "type": 11, "guild_id": "20"})
    source = read(directory, addressed(channel="34")).source
    assert (source.chat_id, source.thread_id, source.chat_name) == ("34", "34", "Team")


def test_snowflakes_and_time() -> None:
    assert time_of(175928847299117063) == pytest.approx(1462015105.796)
    assert time_of(snowflake_at(1700000000.5)) == 1700000000.5
    assert snowflake_at(0) == 0


# ── for whom it is ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"content": f"<@{BOT}> hi"}, "hi"),
        ({"content": f"<@!{BOT}>, hi"}, "hi"),
        ({"content": f"<@{BOT}>\n/new"}, "/new"),
        ({"content": f"ask <@{BOT}>", "mentions": [{"id": BOT}]}, f"ask <@{BOT}>"),
        ({"content": "<@&41> hi", "mention_roles": ["41"]}, "<@&41> hi"),
        ({"content": "/new"}, "/new"),
        ({"content": "/NEW please"}, "/NEW please"),
        (
            {
                "content": "thanks",
                "type": 19,
                "message_reference": {"message_id": "9"},
                "referenced_message": {"author": {"id": BOT}, "content": "You are welcome"},
            },
            "thanks",
        ),
    ],
)
def test_what_is_for_the_bot(directory: Directory, fields: dict[str, Any], text: str) -> None:
    inbound = read(directory, message(channel="30", guild_id="20") | fields)
    assert inbound.text == text


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"content": "/newer"},
        {"content": "/"},
        {"content": f"<@{BOT}0> hi", "mentions": [{"id": f"{BOT}0"}]},
        {"content": "@everyone", "mention_everyone": True},
        {"content": "<@&40>", "mention_roles": ["40"]},
        {"content": "<@&40>", "mention_roles": "41"},
        {"message_reference": {"message_id": "9"}, "referenced_message": {"author": BERT}},
        {"message_reference": {"message_id": "9"}, "referenced_message": None},
    ],
)
def test_what_is_not(directory: Directory, fields: dict[str, Any]) -> None:
    assert read(directory, message(channel="30", guild_id="20") | fields) is None


@pytest.mark.parametrize(
    "reader",
    [InboundReader(BOT, needs_mention=False), InboundReader(BOT, free_channels=frozenset({"30"}))],
    ids=["everywhere", "in a channel"],
)
def test_where_no_mention_is_needed(directory: Directory, reader: InboundReader) -> None:
    for channel in ("30", "32"):
        assert read(directory, message(channel=channel, guild_id="20"), reader).text == "Hello"


def test_a_free_thread_is_not_its_channel(directory: Directory) -> None:
    reader = InboundReader(BOT, free_channels=frozenset({"32"}))
    assert read(directory, message(channel="30", guild_id="20"), reader) is None
    assert read(directory, message(channel="32", guild_id="20"), reader) is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"author": ANNA | {"bot": True}},
        {"author": ANNA | {"system": True}},
        {"author": {"id": BOT, "username": "hermes"}},
        {"webhook_id": "5"},
        {"type": 7},
        {"type": 18},
        {"content": ""},
    ],
)
def test_programs_notices_and_nothing(directory: Directory, fields: dict[str, Any]) -> None:
    assert read(directory, message() | fields) is None


# ── what it holds ─────────────────────────────────────────────────────────────────────────────


def test_files(directory: Directory) -> None:
    files = [
        {"id": "61", "filename": "a b.png", "content_type": "image/png", "size": 5},
        {"id": "62", "content_type": "audio/ogg", "size": 6},
        {"id": "63", "filename": "x", "size": True},
        {"id": "64", "filename": "big.mp4", "content_type": "video/mp4", "size": 11},
    ]
    inbound = read(directory, message("", attachments=files), InboundReader(BOT, max_file_bytes=10))
    found = [(file.kind, file.reference, file.name, file.size) for file in inbound.attachments]
    assert found == [
        ("photo", "50/1000/61", "a b.png", 5),
        ("audio", "50/1000/62", None, 6),
        ("document", "50/1000/63", "x", None),
    ]
    assert inbound.text == "[A video 'big.mp4' of 11 bytes was skipped: the limit is 10 bytes.]"


def test_stickers_polls_and_forwarded_messages(directory: Directory) -> None:
    poll = {
        "question": {"text": "Tea?"},
        "answers": [{"poll_media": {"text": "yes"}}, {"poll_media": {"text": "no"}}, 5],
    }
    stickers = [{"name": "wave"}, {}]
    inbound = read(directory, message("", sticker_items=stickers, poll=poll))
    assert inbound.text == "[Sticker: wave]\n[Poll: Tea? yes / no]"
    shared = {"content": "the news"}
    reference = {"type": 1, "message_id": "9"}
    data = message("", message_reference=reference, message_snapshots=[{"message": shared}])
    forwarded = read(directory, data)
    assert (forwarded.text, forwarded.reply_to) == ("[Forwarded]\nthe news", None)
    for shared, text, files in (
        ({"content": "", "sticker_items": stickers}, "[Forwarded]\n[Sticker: wave]", 0),
        ({"content": "", "attachments": [{"id": "8", "size": 5}]}, "[Forwarded]", 1),
        ({"content": ""}, "[Forwarded]\n(no text)", 0),
    ):
        data = message("", message_reference=reference, message_snapshots=[{"message": shared}])
        inbound = read(directory, data)
        assert (inbound.text, len(inbound.attachments)) == (text, files)


def test_what_is_answered_is_quoted(directory: Directory) -> None:
    original = {"author": BERT, "content": "one\ntwo"}
    reference = {"message_id": "9"}
    data = message("why?", type=19, message_reference=reference, referenced_message=original)
    inbound = read(directory, data)
    assert (inbound.text, inbound.reply_to) == ("> bert: one\n> two\n\nwhy?", "9")
    # A command stays one, and the bot knows its own words.
    assert read(directory, data | {"content": "/new"}).text == "/new"
    own = original | {"author": {"id": BOT}}
    assert read(directory, data | {"referenced_message": own}).text == "why?"
    long = original | {"content": "x" * 5000}
    assert len(read(directory, data | {"referenced_message": long}).text) < 1100


# ── what cannot be read ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "x",
        {},
        message() | {"id": 5},
        message() | {"id": "-5"},
        message() | {"id": "9" * 30},
        message() | {"channel_id": "../x"},
        message() | {"guild_id": 5},
        message() | {"author": []},
        message() | {"author": {"id": "x"}},
        message(5),
        message("x" * 100_001),
        message() | {"attachments": [5]},
        message() | {"attachments": [{"id": "../x"}]},
        message(channel="30", guild_id="20") | {"mentions": 5},
    ],
    ids=range(16),
)
def test_what_cannot_be_read(directory: Directory, data: Any) -> None:
    with pytest.raises(UnreadablePayload):
        read(directory, data)


# ── what is known of places ───────────────────────────────────────────────────────────────────


def test_places_come_and_go(directory: Directory) -> None:
    assert {channel.id for channel in directory.channels_of("20")} == {"30", "31", "32", "33"}
    assert directory.channels["30"].last_message_id == 5
    directory.take("CHANNEL_DELETE", {"id": "31"})
    directory.take("THREAD_DELETE", {"id": "33"})
    new = {"id": "35", "type": 11, "parent_id": "30"}
    directory.take("THREAD_LIST_SYNC", {"guild_id": "20", "threads": [new]})
    assert {channel.id for channel in directory.channels_of("20")} == {"30", "32", "35"}
    # A server that cannot be reached is still one.
    directory.take("GUILD_DELETE", {"id": "20", "unavailable": True})
    assert directory.guilds
    directory.take("GUILD_DELETE", {"id": "20"})
    assert not directory.guilds
    assert not directory.channels

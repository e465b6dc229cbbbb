"""What Slack brings, as messages of the gateway."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.gateway.events import Attachment, Inbound
from hermes_sessions.gateway.platforms.port import UnreadablePayload
from hermes_sessions.gateway.platforms.slack.mapping import InboundReader, SlackMessage
from hermes_sessions.model.lane import build_session_key

READER = InboundReader("U0BOT", "T1", commands=frozenset({"new", "status"}))
TS = "1700000000.000100"
ROOT = "1699999999.000001"
EVENT: dict[str, Any] = {
    "type": "message",
    "user": "U0ANNA",
    "text": "Hello",
    "ts": TS,
    "channel": "D0ANNA",
    "channel_type": "im",
}
IN_CHANNEL = {"channel": "C0GENERAL", "channel_type": "channel"}


def call(**fields: object) -> dict[str, Any]:
    return {"type": "event_callback", "team_id": "T1", "event": EVENT | fields}


def read(reader: InboundReader = READER, **fields: object) -> SlackMessage | None:
    return reader.read(call(**fields))


def heard(reader: InboundReader = READER, **fields: object) -> Inbound:
    message = read(reader, **fields)
    assert message is not None
    return message.inbound


# ── where ─────────────────────────────────────────────────────────────────────────────────────


def test_a_private_message() -> None:
    inbound = heard()
    source = inbound.source
    assert (inbound.text, inbound.message_id, inbound.sent_at) == ("Hello", TS, 1700000000.0001)
    assert inbound.order == 1700000000.0001
    assert (source.platform.value, source.chat_type, source.chat_id) == ("slack", "dm", "D0ANNA")
    assert (source.user_id, source.guild_id, source.thread_id) == ("U0ANNA", "T1", None)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({}, "agent:main:slack:dm:D0ANNA"),
        ({"thread_ts": ROOT}, f"agent:main:slack:dm:D0ANNA:{ROOT}"),
        (IN_CHANNEL, "agent:main:slack:channel:C0GENERAL:U0ANNA"),
        (IN_CHANNEL | {"thread_ts": ROOT}, f"agent:main:slack:channel:C0GENERAL:{ROOT}"),
        (IN_CHANNEL | {"thread_ts": TS}, "agent:main:slack:channel:C0GENERAL:U0ANNA"),
        (
            {"channel": "C0SECRET", "channel_type": "group"},
            "agent:main:slack:channel:C0SECRET:U0ANNA",
        ),
        ({"channel": "G0GROUP", "channel_type": "mpim"}, "agent:main:slack:group:G0GROUP:U0ANNA"),
    ],
)
def test_keys_of_lanes(fields: dict[str, str], key: str) -> None:
    assert build_session_key(heard(text="<@U0BOT> Hello", **fields).source) == key


def test_a_mention_is_the_message_that_it_comes_with() -> None:
    """Slack brings it as both, and says where it is with one of them only."""
    message = read(text="<@U0BOT> Hello", **IN_CHANNEL)
    mention = read(
        type="app_mention", text="<@U0BOT> Hello", channel="C0GENERAL", channel_type=None
    )
    assert message is not None
    assert mention is not None
    assert message.inbound == mention.inbound
    assert (message.is_kind_known, mention.is_kind_known) == (True, False)


def test_a_message_may_open_a_thread() -> None:
    reader = InboundReader("U0BOT", "T1", opens_threads=True)
    fields = IN_CHANNEL | {"text": "<@U0BOT> Hello"}
    assert heard(reader, **fields).source.thread_id == TS
    assert heard(reader, **fields, thread_ts=ROOT).source.thread_id == ROOT
    assert heard(reader).source.thread_id is None  # in private there is no need


# ── for whom ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "fields", "is_addressed"),
    [
        ("Hello", {}, None),
        ("Hello <@U0OTHER>", {}, None),
        ("&lt;@U0BOT&gt; typed, not named", {}, None),
        ("<@U0BOT> Hello", {}, True),
        ("Hello, <@U0BOT|hermes>!", {}, True),
        ("Hello", {"thread_ts": ROOT}, False),
        ("<@U0OTHER> Hello", {"thread_ts": ROOT}, None),
        ("<@U0OTHER> ask <@U0BOT>", {"thread_ts": ROOT}, True),
        ("Hello", {"thread_ts": ROOT, "parent_user_id": "U0BOT"}, True),
        ("<@U0OTHER> Hello", {"thread_ts": ROOT, "parent_user_id": "U0BOT"}, None),
        ("Hello", {"thread_ts": ROOT, "parent_user_id": "U0ANNA"}, False),
    ],
)
def test_in_channels_it_must_be_for_the_bot(
    text: str, fields: dict[str, str], is_addressed: bool | None
) -> None:
    """Or, in threads, the bot must be in it: then it is not known here."""
    message = read(text=text, **IN_CHANNEL, **fields)
    assert (None if message is None else message.is_addressed) is is_addressed


def test_the_bot_may_listen_to_everything() -> None:
    reader = InboundReader("U0BOT", "T1", needs_mention=False)
    assert heard(reader, **IN_CHANNEL).text == "Hello"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<@U0BOT> Hello", "Hello"),
        ("<@U0BOT>, Hello", "Hello"),
        (" <@U0BOT|hermes>:\n/new Title", "/new Title"),
        ("Ask <@U0BOT> and <@U0ANNA>", "Ask <@U0BOT> and <@U0ANNA>"),
    ],
)
def test_the_bots_name_is_taken_away_before_what_is_said(text: str, said: str) -> None:
    assert heard(text=text, **IN_CHANNEL).text == said
    assert heard(text=text).text == said


@pytest.mark.parametrize(
    "fields",
    [
        {"bot_id": "B1"},
        {"bot_profile": {"id": "B1"}},
        {"subtype": "bot_message"},
        {"user": "U0BOT"},
        {"user": "USLACKBOT"},
        {"subtype": "message_changed", "message": {"text": "Hello!"}, "hidden": True},
        {"subtype": "message_deleted", "deleted_ts": TS},
        {"subtype": "message_replied"},
        {"subtype": "channel_join"},
        {"subtype": "channel_topic"},
        {"subtype": "unheard_of"},
        {"hidden": True},
        {"text": ""},
        {"text": "<@U0BOT>"},
        {"type": "reaction_added"},
    ],
    ids=str,
)
def test_what_nobody_expects_an_answer_to(fields: dict[str, object]) -> None:
    assert read(**fields) is None


@pytest.mark.parametrize("subtype", ["file_share", "me_message", "thread_broadcast"])
def test_other_ways_to_say_something(subtype: str) -> None:
    assert heard(subtype=subtype).text == "Hello"


def test_other_workspaces_have_tokens_of_their_own() -> None:
    assert READER.read(call() | {"team_id": "T2"}) is None
    # Somebody from another workspace writes in a channel that is shared with ours.
    ours = {"team_id": "T2", "authorizations": [{"team_id": "T1", "user_id": "U0BOT"}]}
    assert READER.read(call() | ours) is not None
    theirs = {"team_id": "T2", "authorizations": [{"team_id": "T2", "user_id": "U0BOT2"}]}
    assert READER.read(call() | theirs) is None
    namesake = {"team_id": "T2", "authorizations": [{"team_id": "T2", "user_id": "U0BOT"}]}
    assert READER.read(call() | namesake) is None


# ── what ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("a &lt; b &amp;&amp; c &gt; d", "a < b && c > d"),
        ("&amp;lt;", "&lt;"),
        ("<https://x.org/?a=1&amp;b=2>", "https://x.org/?a=1&b=2"),
        ("<https://x.org|the page>", "the page (https://x.org)"),
        ("<http://x.org|x.org>", "x.org"),
        ("<mailto:a@x.org|a@x.org>", "a@x.org"),
        ("<tel:+49157|+49157>", "+49157"),
        ("<@U0ANNA> in <#C1|general> <!here>", "<@U0ANNA> in <#C1|general> <!here>"),
        ("a > b < c", "a > b < c"),
        ("<>", ""),
    ],
)
def test_text_is_as_it_was_typed(raw: str, text: str) -> None:
    assert heard(text=f"{raw}!").text == f"{text}!"


def test_what_was_forwarded_is_quoted() -> None:
    shared = {"is_share": True, "text": "We ship &lt;now&gt;\nreally", "author_name": "Bert"}
    preview = {"text": "A page", "from_url": "https://x.org"}
    inbound = heard(text="Is that so?", attachments=[shared, preview, None])
    assert inbound.text == "Is that so?\n\n[Forwarded from Bert]\n> We ship <now>\n> really"
    alone = heard(text="", attachments=[{"is_msg_unfurl": True, "text": "x" * 9000}])
    assert alone.text.startswith("[Forwarded from an unknown user]\n> xxx")
    assert len(alone.text) < 4100
    files = [{"id": "F1", "name": "a.png"}, 5, {"id": "F2"}]
    only_files = heard(text="", attachments=[{"is_share": True, "text": "", "files": files}])
    assert only_files.text == (
        "[Forwarded from an unknown user]\n> [file: a.png]\n> [file: without a name]"
    )


def test_files_come_by_reference() -> None:
    picture = {"id": "F1", "name": "a.png", "mimetype": "image/png", "size": 9, "mode": "hosted"}
    inbound = heard(
        text="",
        subtype="file_share",
        files=[picture, {"id": "F2", "mimetype": "audio/mp4"}, {"id": "F3", "size": -1}],
    )
    assert inbound.text == ""
    assert inbound.attachments == (
        Attachment("photo", "F1", "a.png", "image/png", 9),
        Attachment("audio", "F2", None, "audio/mp4"),
        Attachment("document", "F3"),
    )


def test_files_that_cannot_be_had_are_told_of() -> None:
    inbound = heard(
        InboundReader("U0BOT", "T1", max_file_bytes=100),
        files=[
            {"id": "F1", "name": "big.mp4", "mimetype": "video/mp4", "size": 101},
            {"id": "F2", "mode": "tombstone"},
            {"id": "F3", "name": "plan", "mode": "external", "url_private": "https://docs.org/1"},
        ],
    )
    assert inbound.attachments == ()
    assert inbound.text == (
        "Hello\n\n[A video 'big.mp4' of 101 bytes was skipped: the limit is 100 bytes.]\n\n"
        "[A file no longer exists.]\n\n[A file 'plan' is stored elsewhere: https://docs.org/1]"
    )


# ── slash commands ────────────────────────────────────────────────────────────────────────────

COMMAND = {
    "command": "/hermes",
    "text": "",
    "team_id": "T1",
    "channel_id": "C0GENERAL",
    "channel_name": "general",
    "user_id": "U0ANNA",
    "trigger_id": "1.2.abc",
}


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        ("/hermes", "", "/help"),
        ("/hermes", "new The title", "/new The title"),
        ("/hermes", " Status ", "/Status"),
        ("/hermes", "/new x", "/new x"),
        ("/hermes", "what is a &lt; b?", "what is a < b?"),
        ("/new", "The title", "/new The title"),
        ("/status", "", "/status"),
        ("/ask", "anything", "anything"),
    ],
)
def test_commands(command: str, text: str, said: str) -> None:
    message = READER.read(COMMAND | {"command": command, "text": text})
    assert message is not None
    assert message.is_addressed
    assert message.inbound.text == said
    assert message.inbound.message_id == "slash:1.2.abc"


@pytest.mark.parametrize(
    ("channel_id", "name", "chat_type"),
    [
        ("C1", "general", "channel"),
        ("C1", "privategroup", "channel"),
        ("C1", "mpdm-anna--bert-1", "group"),
        ("D1", "directmessage", "dm"),
    ],
)
def test_a_command_belongs_to_the_lane_of_its_chat(
    channel_id: str, name: str, chat_type: str
) -> None:
    message = READER.read(COMMAND | {"channel_id": channel_id, "channel_name": name})
    assert message is not None
    source = message.inbound.source
    assert (source.chat_id, source.chat_type, source.user_id) == (channel_id, chat_type, "U0ANNA")


def test_commands_of_other_workspaces() -> None:
    assert READER.read(COMMAND | {"team_id": "T2"}) is None


# ── anything else ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "fields",
    [
        {"user": None},
        {"user": "anna"},
        {"user": ["U1"]},
        {"channel": ""},
        {"channel": "D0/../X"},
        {"ts": "1700000000"},
        {"ts": 1700000000.1},
        {"thread_ts": ""},
        {"text": ["x"]},
        {"text": "x" * 100_001},
        {"subtype": {}},
        {"files": {}},
        {"files": ["F1"]},
        {"files": [{"id": "F1", "mode": {}}]},
    ],
    ids=lambda fields: json.dumps(fields)[:40],
)
def test_what_slack_does_not_send_is_said(fields: dict[str, object]) -> None:
    with pytest.raises(UnreadablePayload):
        read(**fields)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "type event team_id user text ts thread_ts channel files attachments "
                "authorizations command trigger_id channel_id user_id id mode".split()
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(anything)
def test_anything_is_read_or_said_to_be_unreadable(payload: object) -> None:
    for each in (payload, {"type": "event_callback", "team_id": "T1", "event": payload}):
        with suppress(UnreadablePayload):
            READER.read(each)


@given(st.dictionaries(st.sampled_from([*EVENT, "files", "attachments", "subtype"]), anything))
def test_any_field_may_be_anything(fields: dict[str, object]) -> None:
    for each in (call(**fields), COMMAND | fields):
        with suppress(UnreadablePayload):
            READER.read(each)

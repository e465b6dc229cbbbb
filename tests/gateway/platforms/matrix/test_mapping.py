"""Events as messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.platforms.matrix.attachments import (
    FileKey,
    MediaReference,
    reference_of,
)
from hermes_sessions.gateway.platforms.matrix.client import MatrixClient, RoomTimeline
from hermes_sessions.gateway.platforms.matrix.mapping import InboundReader, RoomDetails, with_edits
from hermes_sessions.gateway.platforms.matrix.sync_reader import all_new_events, since_invited
from hermes_sessions.gateway.platforms.port import Undeliverable, UnreadablePayload
from hermes_sessions.model.lane import build_session_key

BOT, ANNA, BERT = "@hermes:example.org", "@anna:example.org", "@bert:other.org"
NAMES = {BOT: "Hermes", ANNA: "Anna", BERT: "Bert"}
DIRECT = RoomDetails("!dm:example.org", is_direct=True, names=NAMES)
GROUP = RoomDetails("!group:example.org", "The group", "Everything", names=NAMES)
READER = InboundReader(BOT, commands=frozenset({"new"}), max_file_bytes=1000)


def event(body: object = "Hello", **changes: Any) -> dict[str, Any]:
    """A message of Anna's; what is not a part of an event goes into its content."""
    parts = ("type", "sender", "event_id", "content", "origin_server_ts", "state_key", "unsigned")
    content = {name: changes.pop(name) for name in list(changes) if name not in parts}
    made = {
        "type": "m.room.message",
        "sender": ANNA,
        "event_id": "$one",
        "origin_server_ts": 1_700_000_000_500,
        "content": {"msgtype": "m.text", "body": body} | content,
    }
    return made | changes


def read(given: dict[str, Any], room: RoomDetails = DIRECT) -> Inbound | None:
    return READER.read(given, room)


def text(given: dict[str, Any], room: RoomDetails = DIRECT) -> str:
    inbound = read(given, room)
    assert inbound is not None
    return inbound.text


def relates(**relation: Any) -> dict[str, Any]:
    return {"m.relates_to": {name.replace("__", "."): value for name, value in relation.items()}}


def test_a_message_in_a_conversation_of_two() -> None:
    inbound = read(event())
    assert inbound is not None
    source = inbound.source
    assert (inbound.text, inbound.message_id, inbound.sent_at) == ("Hello", "$one", 1_700_000_000.5)
    assert (source.chat_id, source.chat_type, source.chat_name) == (DIRECT.room_id, "dm", "Anna")
    assert (source.user_id, source.user_name, source.guild_id) == (ANNA, "Anna", "example.org")
    assert build_session_key(source) == "agent:main:matrix:dm:!dm%3Aexample.org"


def test_a_message_in_a_group_and_in_its_threads() -> None:
    mention = {"m.mentions": {"user_ids": [BOT]}}
    inbound = read(event(**mention), GROUP)
    assert inbound is not None
    assert (inbound.source.chat_name, inbound.source.chat_topic) == ("The group", "Everything")
    assert build_session_key(inbound.source) == (
        "agent:main:matrix:group:!group%3Aexample.org:@anna%3Aexample.org"
    )
    thread = relates(rel_type="m.thread", event_id="$root", is_falling_back=True) | mention
    thread["m.relates_to"]["m.in_reply_to"] = {"event_id": "$before"}
    inbound = read(event(**thread), GROUP)
    assert inbound is not None
    assert (inbound.source.thread_id, inbound.reply_to) == ("$root", None)
    assert build_session_key(inbound.source) == (
        "agent:main:matrix:group:!group%3Aexample.org:$root"
    )


@pytest.mark.parametrize(
    "content",
    [
        {"m.mentions": {"user_ids": [BOT]}},
        {"body": f"{BOT}: Hello"},
        {"body": "@hermes Hello"},
        {"body": "Hermes: Hello"},
        {"body": "hermes, Hello"},
        {"formatted_body": f'<a href="https://matrix.to/#/{BOT}">Hermes</a> Hello'},
        {"formatted_body": '<a href="https://matrix.to/#/%40hermes%3Aexample.org">H</a> Hello'},
    ],
    ids=str,
)
def test_in_groups_the_bot_is_called(content: dict[str, Any]) -> None:
    assert text(event(**content), GROUP) == "Hello"


@pytest.mark.parametrize(
    "body",
    [
        "Hello",
        "Hermes is a god",
        "hermes",
        "@hermesson: Hello",
        "mail@hermes.org",
        "@hermes:other.org: Hello",
    ],
)
def test_in_groups_others_are_left_alone(body: str) -> None:
    assert read(event(body), GROUP) is None
    assert read(event(body, **{"m.mentions": {"user_ids": [BERT]}}), GROUP) is None
    everything = InboundReader(BOT, needs_mention=False)
    assert everything.read(event(body), GROUP) is not None


def test_commands_need_no_mention_and_may_begin_with_an_exclamation_mark() -> None:
    assert text(event("/new"), GROUP) == "/new"
    assert text(event("!new chat"), GROUP) == "/new chat"
    assert text(event("Hermes: !new"), GROUP) == "/new"
    assert text(event("!important")) == "!important"
    assert read(event("!important"), GROUP) is None


def test_an_answer_says_what_it_answers() -> None:
    answer = relates(m__in_reply_to={"event_id": "$before"})
    fallback = f"> <{BERT}> It is\n> late\n\nWhat does he mean?"
    inbound = read(event(fallback, **answer))
    assert inbound is not None
    assert inbound.text == "> Bert: It is\n> late\n\nWhat does he mean?"
    assert inbound.reply_to == "$before"
    assert text(event(f"> <{BOT}> Yes\n\nThanks", **answer), GROUP) == "Thanks"
    assert text(event("> quoted by hand\n\nx")) == "> quoted by hand\n\nx"


def test_an_answer_without_a_quotation_gets_one() -> None:
    inbound = read(event("Why?", **relates(m__in_reply_to={"event_id": "$before"})))
    assert inbound is not None
    answered = event("It rains", sender=BERT)
    assert READER.with_quotation(inbound, answered, DIRECT).text == "> Bert: It rains\n\nWhy?"
    for other in (event("x", sender=BOT), {"content": 5}, None, event(5), event("x", sender=5)):
        assert READER.with_quotation(inbound, other, DIRECT) == inbound


@pytest.mark.parametrize(
    "given",
    [
        event(sender=BOT),
        event(msgtype="m.notice"),
        event(msgtype="m.key.verification.request"),
        event(**relates(rel_type="m.replace", event_id="$old")),
        event(content={}),
        event(type="m.reaction"),
        event(type="m.room.topic", state_key=""),
        event(""),
    ],
    ids=["own", "notice", "verification", "edit", "deleted", "reaction", "state", "empty"],
)
def test_what_is_no_message_is_left_alone(given: dict[str, Any]) -> None:
    assert read(given) is None


@pytest.mark.parametrize(
    "given",
    [
        5,
        event(sender="nobody"),
        event(sender=None),
        event(5),
        event("x" * 100_001),
        event(content=5),
        event(content={"body": "x"}),
        event(event_id="one"),
        event(event_id="$" + "x" * 300),
        event(msgtype="m.image"),
        event(msgtype="m.file", url="mxc://example.org/../x"),
        event(msgtype="m.file", file={"url": "mxc://example.org/x"}),
        event(**relates(rel_type="m.thread", event_id="root")),
    ],
)
def test_what_cannot_be_read_is_said(given: Any) -> None:
    with pytest.raises(UnreadablePayload):
        READER.read(given, DIRECT)


def test_other_kinds_of_messages() -> None:
    assert text(event("waves", msgtype="m.emote")) == "* Anna waves"
    place = event("Home", msgtype="m.location", geo_uri="geo:1,2")
    assert text(place) == "[Location: geo:1,2 Home]"


def test_files_come_by_reference() -> None:
    info = {"size": 900, "mimetype": "image/png"}
    image = event("cat.png", msgtype="m.image", url="mxc://example.org/abc", info=info)
    inbound = read(image)
    assert inbound is not None
    (file,) = inbound.attachments
    assert (inbound.text, file.kind, file.name, file.size) == ("", "photo", "cat.png", 900)
    assert reference_of(file) == MediaReference("example.org", "abc")
    image["content"] |= {"filename": "cat.png", "body": "My cat"}
    assert text(image) == "My cat"
    image["content"]["info"] = {"size": 1001}
    inbound = read(image)
    assert inbound is not None
    assert inbound.attachments == ()
    assert "skipped: the limit is 1,000 bytes" in inbound.text


def test_an_encrypted_file_keeps_its_key() -> None:
    file = {"url": "mxc://x/y", "key": {"k": "K"}, "iv": "I", "hashes": {"sha256": "H"}}
    inbound = read(event("x", msgtype="m.audio", file=file))
    assert inbound is not None
    assert reference_of(inbound.attachments[0]) == MediaReference("x", "y", FileKey("K", "I", "H"))
    with pytest.raises(Undeliverable):
        reference_of(inbound.attachments[0].__class__("other", "file:///etc/passwd"))


def test_what_was_changed_before_it_was_read_is_read_as_it_is_now() -> None:
    def edit(body: str, **changes: Any) -> dict[str, Any]:
        new = {"m.new_content": {"msgtype": "m.text", "body": body}}
        made = event(f"* {body}", **relates(rel_type="m.replace", event_id="$one"), **new)
        return made | {"event_id": "$edit"} | changes

    first = event("Helo", **relates(rel_type="m.thread", event_id="$root"))
    (changed, *_) = with_edits([first, edit("Hello"), edit("Hallo", sender=BERT)])
    assert isinstance(changed, dict)
    inbound = read(changed)
    assert inbound is not None
    assert (inbound.text, inbound.source.thread_id) == ("Hello", "$root")
    assert with_edits([5, edit("alone")])[0] == 5


def test_nothing_that_was_said_before_the_invitation() -> None:
    def member(membership: str, before: str | None = None) -> dict[str, Any]:
        unsigned = {"prev_content": {"membership": before}} if before else {}
        content = {"membership": membership}
        return {
            "type": "m.room.member",
            "state_key": BOT,
            "content": content,
            "unsigned": unsigned,
        }

    old, new, newer = event("old"), event("new"), event("newer")
    invite, join = member("invite"), member("join", "invite")
    assert since_invited(BOT, [old, invite, new, join, newer]) == [invite, new, join, newer]
    assert since_invited(BOT, [old, join, newer]) == [join, newer]
    assert since_invited(BOT, [old, member("join", "join")]) == [old, member("join", "join")]
    assert since_invited(BOT, [old]) == [old]


def test_a_server_that_names_the_same_page_again() -> None:
    class Server:
        async def events_before(self, *_asked: str) -> tuple[list[Any], str]:
            return [event("earlier")], "again"

    async def wait(answer: Awaitable[Any]) -> Any:
        return await answer

    news = RoomTimeline("!room", [event("now")], gap_before="here")
    found = asyncio.run(all_new_events(cast("MatrixClient", Server()), news, "since", BOT, wait))
    assert found == [event("earlier"), event("earlier"), event("now")]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
PARTS = ["msgtype", "body", "m.relates_to", "m.mentions", "formatted_body", "info", "file", "url"]


@given(
    st.dictionaries(st.sampled_from(PARTS), anything),
    st.sampled_from(["m.text", "m.image", "m.emote", "m.location"]),
    st.booleans(),
)
def test_nothing_makes_it_fail(content: dict[str, Any], kind: str, is_direct: bool) -> None:
    given = event(content={"msgtype": kind, "body": "x"} | content)
    try:
        inbound = READER.read(given, DIRECT if is_direct else GROUP)
    except UnreadablePayload:
        return
    with_edits([given, given])
    if inbound is not None:
        assert Inbound.from_dict(json.loads(json.dumps(inbound.to_dict()))) == inbound

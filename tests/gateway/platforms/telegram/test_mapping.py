"""Updates as messages: who, where, what; and nothing that comes can break it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.gateway.events import Attachment
from hermes_sessions.gateway.platforms.port import UnreadablePayload
from hermes_sessions.gateway.platforms.telegram.mapping import InboundReader, target_of
from hermes_sessions.model.source import Platform

READER = InboundReader(bot_id=99, bot_name="hermes_bot")
ANNA = {"id": 7, "is_bot": False, "first_name": "Anna", "last_name": "Ost", "username": "anna"}
BOT = {"id": 99, "is_bot": True, "first_name": "Hermes", "username": "hermes_bot"}
PRIVATE = {"id": 7, "type": "private", "first_name": "Anna"}
GROUP = {"id": -100, "type": "supergroup", "title": "Team"}
FORUM = GROUP | {"is_forum": True}


def update(number: int = 1, **message: Any) -> dict[str, Any]:
    defaults = {"message_id": 41, "date": 1700000000, "chat": PRIVATE, "from": ANNA}
    return {"update_id": number, "message": defaults | message}


def test_a_private_message() -> None:
    inbound = READER.read(update(text="Hello"))
    assert inbound is not None
    source = inbound.source
    assert source.platform is Platform.TELEGRAM
    assert (source.chat_id, source.chat_type, source.user_id) == ("7", "dm", "7")
    assert (source.user_name, source.chat_name) == ("Anna Ost", "Anna")
    assert (inbound.text, inbound.message_id, inbound.sent_at) == ("Hello", "41", 1700000000.0)
    assert (source.thread_id, source.message_id, inbound.reply_to) == (None, "41", None)


def test_a_topic_in_a_forum() -> None:
    root = {"message_id": 5, "forum_topic_created": {"name": "Release"}, "chat": FORUM}
    inbound = READER.read(
        update(
            text="@hermes_bot go on",
            chat=FORUM,
            message_thread_id=5,
            is_topic_message=True,
            reply_to_message=root,
        )
    )
    assert inbound is not None
    assert (inbound.source.thread_id, inbound.source.chat_topic) == ("5", "Release")
    assert (inbound.source.chat_name, inbound.source.chat_type) == ("Team", "group")
    assert (inbound.text, inbound.reply_to) == ("go on", None)
    target = target_of(inbound)
    assert (target.chat_id, target.thread_id, target.reply_to) == ("-100", "5", "41")


def test_a_topic_in_a_private_chat() -> None:
    inbound = READER.read(update(text="Hi", message_thread_id=8, is_topic_message=True))
    assert inbound is not None
    assert inbound.source.thread_id == "8"
    assert target_of(inbound).reply_to is None


def test_an_answer_in_a_plain_group_is_no_topic() -> None:
    answered = {"message_id": 12, "from": BOT, "chat": GROUP}
    inbound = READER.read(
        update(text="Why?", chat=GROUP, message_thread_id=12, reply_to_message=answered)
    )
    assert inbound is not None
    assert (inbound.source.thread_id, inbound.reply_to) == (None, "12")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@hermes_bot what is up?", "what is up?"),
        ("@Hermes_Bot, what?", "what?"),
        ("ask @hermes_bot about it", "ask @hermes_bot about it"),
        ("/new", "/new"),
        ("/new@hermes_bot", "/new"),
        ("/title@Hermes_Bot My work", "/title My work"),
        ("/new@other_bot", None),
        ("just talking", None),
        ("@hermes_bot2 hello", None),
    ],
)
def test_in_groups_the_bot_is_addressed(text: str, expected: str | None) -> None:
    inbound = READER.read(update(text=text, chat=GROUP))
    assert (inbound.text if inbound else None) == expected


BERT = {"id": 8, "is_bot": False, "first_name": "Bert"}
SAID = {"message_id": 12, "from": BERT, "chat": GROUP, "text": "We ship\non Friday."}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"reply_to_message": SAID}, "> Bert: We ship\n> on Friday.\n\nReally?"),
        ({"reply_to_message": SAID | {"text": "x" * 2000}}, f"> Bert: {'x' * 1000}…\n\nReally?"),
        ({"reply_to_message": SAID, "quote": {"text": "Friday"}}, "> Bert: Friday\n\nReally?"),
        ({"reply_to_message": SAID | {"from": BOT}}, "Really?"),
        (
            {"reply_to_message": SAID | {"from": BOT}, "quote": {"text": "Friday"}},
            "> Hermes: Friday\n\nReally?",
        ),
        ({"reply_to_message": SAID | {"text": None}}, "Really?"),
        ({"forward_origin": {"sender_user": BERT}}, "[Forwarded from Bert]\nReally?"),
        ({"forward_origin": {"sender_user_name": "Cleo"}}, "[Forwarded from Cleo]\nReally?"),
        ({"forward_origin": {"chat": {"title": "News\n!"}}}, "[Forwarded from News !]\nReally?"),
        ({"forward_origin": {"date": 1}}, "[Forwarded from unknown]\nReally?"),
    ],
)
def test_what_a_message_refers_to_is_said(message: dict[str, Any], text: str) -> None:
    inbound = READER.read(update(text="Really?", **message))
    assert inbound is not None
    assert inbound.text == text


def test_a_command_that_answers_something_stays_a_command() -> None:
    inbound = READER.read(update(text="/title Friday", reply_to_message=SAID))
    assert inbound is not None
    assert inbound.text == "/title Friday"


def test_a_command_of_somebody_else_is_none() -> None:
    inbound = READER.read(update(text="/new", forward_origin={"sender_user": BERT}))
    assert inbound is not None
    assert not inbound.text.startswith("/")


def test_without_the_need_for_a_mention_everything_in_a_group_is_taken() -> None:
    reader = InboundReader(bot_id=99, bot_name="hermes_bot", needs_mention=False)
    inbound = reader.read(update(text="just talking", chat=GROUP))
    assert inbound is not None


@pytest.mark.parametrize(
    "ignored",
    [
        {"update_id": 1, "edited_message": update(text="x")["message"]},
        {"update_id": 1, "channel_post": update(text="x")["message"]},
        {"update_id": 1, "my_chat_member": {}},
        {"update_id": 1},
        update(text="x", **{"from": BOT}),
        update(text="x", **{"from": None}),
        update(text="x", chat={"id": -5, "type": "channel", "title": "News"}),
        update(text="x", is_automatic_forward=True),
        update(new_chat_members=[ANNA]),
        update(forum_topic_created={"name": "New"}, is_topic_message=True, message_thread_id=4),
        update(pinned_message={}),
        update(text=""),
    ],
)
def test_what_is_not_for_the_bot_is_ignored(ignored: dict[str, Any]) -> None:
    assert READER.read(ignored) is None


def test_files_are_referred_to() -> None:
    photo = [
        {"file_id": "small", "file_size": 100, "width": 90, "height": 90},
        {"file_id": "large", "file_size": 9000, "width": 900, "height": 900},
    ]
    inbound = READER.read(update(caption="Look", photo=photo))
    assert inbound is not None
    assert inbound.text == "Look"
    assert inbound.attachments == (Attachment("photo", "large", size=9000),)
    document = {"file_id": "d", "file_name": "a.pdf", "mime_type": "application/pdf"}
    inbound = READER.read(update(document=document))
    assert inbound is not None
    assert inbound.attachments == (Attachment("document", "d", "a.pdf", "application/pdf"),)
    inbound = READER.read(update(voice={"file_id": "v", "file_size": 5, "duration": 3}))
    assert inbound is not None
    assert inbound.attachments == (Attachment("audio", "v", size=5),)


def test_a_file_that_is_too_large_is_left_out_and_said() -> None:
    video = {"file_id": "v", "file_name": "film.mp4", "file_size": 30 * 1024**2}
    inbound = READER.read(update(caption="Watch", video=video))
    assert inbound is not None
    assert inbound.attachments == ()
    assert inbound.text.startswith("Watch\n[A video 'film.mp4' of 31,457,280 bytes was skipped")


def test_a_place_is_put_in_words() -> None:
    inbound = READER.read(update(location={"latitude": 52.5, "longitude": 13.4}))
    assert inbound is not None
    assert inbound.text == "[Location: 52.5, 13.4]"


def album(number: int, file: str, **message: Any) -> dict[str, Any]:
    message = {"media_group_id": "g", "photo": [{"file_id": file, "file_size": 1}]} | message
    return update(number, message_id=number, **message)


def test_an_album_is_one_message() -> None:
    readings = READER.read_all(
        [album(1, "a"), album(2, "b", caption="Three"), album(3, "c"), update(4, text="next")]
    )
    assert [reading.number for reading in readings] == [3, 4]
    inbound = readings[0].inbound
    assert inbound is not None
    assert [file.reference for file in inbound.attachments] == ["a", "b", "c"]
    assert (inbound.text, inbound.message_id) == ("Three", "1")


def test_an_album_in_a_group_is_addressed_by_one_caption() -> None:
    readings = READER.read_all(
        [album(1, "a", chat=GROUP), album(2, "b", chat=GROUP, caption="@hermes_bot both")]
    )
    assert len(readings) == 1
    inbound = readings[0].inbound
    assert inbound is not None
    assert len(inbound.attachments) == 2


def test_albums_of_different_people_are_not_joined() -> None:
    other = ANNA | {"id": 8}
    readings = READER.read_all(
        [album(1, "a"), album(2, "b", chat=PRIVATE | {"id": 8}, **{"from": other})]
    )
    assert len(readings) == 2


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        "text",
        {"update_id": 1, "message": []},
        update(text=5),
        update(text="x", chat=None),
        update(text="x", chat={"id": "seven", "type": "private"}),
        update(text="x", chat={"id": 10**5000, "type": "private"}),
        update(text="x", message_id=True),
        update(text="x", **{"from": {"id": None}}),
        update(photo={"file_id": "x"}),
        update(photo=[None]),
        update(document={}),
        update(text="x" * 100_001),
    ],
)
def test_what_cannot_be_read_is_said(broken: Any) -> None:
    with pytest.raises(UnreadablePayload):
        READER.read(broken)


def test_one_bad_update_does_not_spoil_its_batch() -> None:
    readings = READER.read_all([update(1, text=5), {"no": "number"}, update(2, text="fine")])
    assert [reading.number for reading in readings] == [1, 2]
    assert readings[0].problem is not None
    assert readings[1].inbound is not None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=10,
)
FIELDS = (
    "message_id date chat from text caption photo document audio voice video video_note animation "
    "sticker location contact media_group_id message_thread_id is_topic_message reply_to_message "
    "is_automatic_forward forward_origin quote"
).split()


@given(st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=6), json_values)
def test_any_json_is_a_message_or_not_and_never_an_accident(
    message: dict[str, Any], other: Any
) -> None:
    READER.read_all([update(1, **message), {"update_id": 2, "message": other}, other])

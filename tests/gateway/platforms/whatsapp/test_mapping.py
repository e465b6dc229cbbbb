"""What Meta brings, as messages of the gateway."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.gateway.events import Attachment, Inbound
from hermes_sessions.gateway.platforms.whatsapp import mapping
from hermes_sessions.gateway.platforms.whatsapp.mapping import (
    OLDEST_SECONDS,
    Content,
    DeliveryStatus,
    InboundReader,
    WebhookBatch,
    content_of,
)
from hermes_sessions.model.lane import build_session_key

NOW = 1_800_000_000.0
NUMBER_ID = "106540352242922"
READER = InboundReader(NUMBER_ID, "15550783881")
CONTACT = {"profile": {"name": "Anna"}, "wa_id": "4915700000007", "user_id": "DE.1349"}
MESSAGE: dict[str, Any] = {
    "from": "4915700000007",
    "id": "wamid.1",
    "timestamp": str(int(NOW)),
    "type": "text",
    "text": {"body": "Hello"},
}


def call(*messages: object, contacts: object = (CONTACT,), **more: object) -> dict[str, Any]:
    value = {
        "messaging_product": "whatsapp",
        "metadata": {"display_phone_number": "15550783881", "phone_number_id": NUMBER_ID},
        "contacts": list(contacts) if isinstance(contacts, tuple) else contacts,
        "messages": list(messages),
        **more,
    }
    changes = [{"field": "messages", "value": value}]
    return {"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": changes}]}


def read(payload: object) -> WebhookBatch:
    return READER.read(payload, now=NOW)


def read_one(known: object = (CONTACT,), **fields: object) -> Inbound:
    brought = read(call(MESSAGE | fields, contacts=known))
    assert brought.problems == ()
    (inbound,) = brought.messages
    return inbound


def test_a_private_message() -> None:
    inbound = read_one()
    source = inbound.source
    assert (inbound.text, inbound.message_id, inbound.sent_at) == ("Hello", "wamid.1", NOW)
    assert (source.platform.value, source.chat_type) == ("whatsapp", "dm")
    assert (source.chat_id, source.user_id) == ("4915700000007", "4915700000007")
    assert (source.chat_id_alt, source.user_id_alt) == ("DE.1349", "DE.1349")
    assert (source.user_name, source.chat_name) == ("Anna", "Anna")
    assert build_session_key(source) == "agent:main:whatsapp:dm:4915700000007"


def test_participants_of_a_group_have_lanes_of_their_own() -> None:
    source = read_one(group_id="Y2FwaV9ncm91").source
    assert (source.chat_id, source.chat_type) == ("Y2FwaV9ncm91", "group")
    assert (source.chat_id_alt, source.chat_name) == (None, None)
    assert (source.user_id, source.user_name) == ("4915700000007", "Anna")
    assert build_session_key(source) == "agent:main:whatsapp:group:Y2FwaV9ncm91:DE.1349"


@pytest.mark.parametrize(
    "contacts",
    [
        ({"wa_id": "4915700000007"},),
        ({"profile": {}, "wa_id": "4915700000007"},),
        ({"profile": "Anna", "wa_id": "4915700000007", "user_id": 7},),
        (None, 5),
        (),
        None,
        "nobody",
        (CONTACT | {"wa_id": "4915700000008", "user_id": "DE.1350"},),
    ],
    ids=range(8),
)
def test_contacts_may_lack_anything(contacts: object) -> None:
    source = read_one(contacts).source
    assert (source.user_id, source.user_id_alt, source.user_name) == ("4915700000007", None, None)


def test_somebody_who_hides_their_number() -> None:
    hidden = {name: value for name, value in MESSAGE.items() if name != "from"}
    contact = {"profile": {"username": "anna"}, "user_id": "DE.1349"}
    (inbound,) = read(call(hidden | {"from_user_id": "DE.1349"}, contacts=(contact,))).messages
    source = inbound.source
    assert (source.chat_id, source.user_id, source.user_name) == ("DE.1349", "DE.1349", "anna")
    assert (source.chat_id_alt, source.user_id_alt) == (None, None)


@pytest.mark.parametrize(
    "form", ["+4915700000007", "4915700000007:12@s.whatsapp.net", "4915700000007@lid"]
)
def test_ids_have_one_form(form: str) -> None:
    assert read_one(**{"from": form}).source == read_one().source


MEDIA = {"id": "2754859441498128", "mime_type": "image/jpeg", "sha256": "abc="}


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("location", {"latitude": 1.5, "longitude": 2}, "[Location: 1.5, 2]"),
        (
            "location",
            {"latitude": 1.5, "longitude": 2, "name": "Home", "address": "Street\n1"},
            "[Location: 1.5, 2, Home, Street 1]",
        ),
        (
            "contacts",
            [{"name": {"formatted_name": "Bert"}, "phones": [{"phone": "+49 157"}]}, {}],
            "[Contact: Bert +49 157; without a name]",
        ),
        (
            "interactive",
            {"type": "button_reply", "button_reply": {"id": "y", "title": "Yes"}},
            "Yes",
        ),
        (
            "interactive",
            {"type": "list_reply", "list_reply": {"id": "2", "title": "Two", "description": "x"}},
            "Two",
        ),
        (
            "interactive",
            {"type": "nfm_reply", "nfm_reply": {"response_json": '{"a": 1}', "body": "Sent"}},
            '[Form: {"a": 1}]',
        ),
        ("button", {"text": "Stop", "payload": "s"}, "Stop"),
        (
            "order",
            {"text": "Please", "product_items": [{"product_retailer_id": "p1", "quantity": 2}]},
            "Please\n[Order: p1 x 2]",
        ),
    ],
)
def test_what_has_words(kind: str, body: object, text: str) -> None:
    assert read_one(type=kind, **{kind: body}).text == text


@pytest.mark.parametrize(
    ("kind", "as_kind"),
    [
        ("image", "photo"),
        ("audio", "audio"),
        ("video", "video"),
        ("document", "document"),
        ("sticker", "other"),
    ],
)
def test_files_come_by_reference(kind: str, as_kind: Any) -> None:
    file = MEDIA | {"caption": "Look", "filename": "a\n b.jpg"}
    inbound = read_one(type=kind, **{kind: file})
    assert inbound.text == "Look"
    expected = Attachment(as_kind, "2754859441498128", "a b.jpg", "image/jpeg")
    assert inbound.attachments == (expected,)


def test_answers_and_forwards() -> None:
    assert read_one(context={"from": "1", "id": "wamid.0"}).reply_to == "wamid.0"
    assert read_one(context={"id": "a\r\nb"}).reply_to is None
    assert read_one(context={"forwarded": True}).text == "[Forwarded]\nHello"
    assert read_one(context="x").text == "Hello"


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "reaction", "reaction": {"message_id": "wamid.0", "emoji": "👍"}},
        {"type": "system", "system": {"type": "user_changed_number", "wa_id": "49157"}},
        {"type": "unsupported", "errors": [{"code": 131051}]},
        {"type": "of_next_year", "of_next_year": {}},
        {"type": "interactive", "interactive": {"type": "new"}},
        {"from": "15550783881"},
        {"text": {"body": ""}},
    ],
    ids=lambda fields: next(iter(fields.values())),
)
def test_what_nobody_expects_an_answer_to(fields: dict[str, object]) -> None:
    assert read(call(MESSAGE | fields)) == ((), (), ())


def test_what_is_not_ours_is_left_alone() -> None:
    other = call(MESSAGE)
    other["entry"][0]["changes"][0]["value"]["metadata"]["phone_number_id"] = "999"
    assert read(other) == ((), (), ())
    echo = call(MESSAGE)
    echo["entry"][0]["changes"][0]["field"] = "smb_message_echoes"
    assert read(echo) == ((), (), ())


def test_one_bad_message_does_not_hide_the_others() -> None:
    good = [MESSAGE | {"id": f"wamid.{number}"} for number in range(3)]
    bad: list[Any] = [None, {"type": "text"}, MESSAGE | {"text": []}]
    brought = read(call(good[0], bad[0], good[1], *bad[1:], good[2], statuses=[None]))
    assert [each.message_id for each in brought.messages] == ["wamid.0", "wamid.1", "wamid.2"]
    assert len(brought.problems) == 4


def test_what_nobody_foresaw_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def content(kind: str, message: Mapping[str, Any]) -> Content | None:
        return {}[kind] if message["id"] == "wamid.bad" else content_of(kind, message)

    monkeypatch.setattr(mapping, "content_of", content)
    brought = read(call(MESSAGE | {"id": "wamid.bad"}, MESSAGE))
    assert [each.message_id for each in brought.messages] == ["wamid.1"]
    (problem,) = brought.problems
    assert "KeyError" in str(problem)


def test_a_message_of_long_ago_is_not_heard_again() -> None:
    old = str(int(NOW - OLDEST_SECONDS - 1))
    brought = read(call(MESSAGE | {"timestamp": old}))
    assert brought.messages == ()
    assert "older" in str(brought.problems[0])
    assert read(call(MESSAGE | {"timestamp": str(int(NOW - 7 * 86400))})).messages


def test_statuses() -> None:
    failed = {
        "id": "wamid.9",
        "status": "failed",
        "biz_opaque_callback_data": "12.0",
        "errors": [{"code": 131047, "title": "Re-engagement", "error_data": {"details": "24 h"}}],
    }
    brought = read(call(statuses=[{"id": "wamid.8", "status": "read"}, failed]))
    assert brought.messages == ()
    assert brought.statuses == (
        DeliveryStatus("wamid.8", "read"),
        DeliveryStatus("wamid.9", "failed", "12.0", 131047, "24 h"),
    )


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


FIELDS = (
    "type id from from_user_id group_id timestamp context text "
    "image contacts interactive order location button"
).split()


@given(st.sampled_from(FIELDS), anything)
def test_any_field_may_be_anything(name: str, value: object) -> None:
    kind = name if name in {"image", "contacts", "interactive", "order", "location"} else "text"
    brought = read(call(MESSAGE | {"type": kind, name: value}))
    for inbound in brought.messages:
        assert Inbound.from_dict(json.loads(json.dumps(inbound.to_dict()))) == inbound


@given(anything)
def test_any_payload_may_come(value: object) -> None:
    assert read(value).messages == ()
    assert read(call(value, contacts=value, statuses=value)).messages == ()
    assert read({"object": "whatsapp_business_account", "entry": [{"changes": [value]}]})

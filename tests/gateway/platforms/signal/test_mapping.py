"""What signal-cli receives, as messages of the gateway."""

from typing import Any

import pytest

from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.platforms.port import UnreadablePayload
from hermes_sessions.gateway.platforms.signal.identifiers import group_id, parse_message_ref
from hermes_sessions.gateway.platforms.signal.long_texts import LONG_TEXT, completed
from hermes_sessions.gateway.platforms.signal.mapping import InboundReader
from hermes_sessions.model.lane import build_session_key
from hermes_sessions_testing.fake_servers.signal.daemon import (
    ACCOUNT,
    ANNA,
    BERT,
    GROUP,
    Person,
    envelope,
)

NOW = 1_700_000_000_123
IN_GROUP = {"groupId": GROUP, "groupName": "Team", "revision": 1, "type": "DELIVER"}


def read(user: Person = ANNA, reader: InboundReader | None = None, **data: Any) -> Inbound | None:
    message = {"timestamp": NOW, "message": "Hello", **data}
    params = {"envelope": envelope(user, NOW, dataMessage=message), "account": ACCOUNT}
    return (reader or InboundReader(ACCOUNT)).read({"subscription": 3, "result": params})


def known(inbound: Inbound | None) -> Inbound:
    assert inbound is not None
    return inbound


def test_a_private_message() -> None:
    inbound = known(read())
    source = inbound.source
    assert (source.chat_id, source.chat_id_alt) == (ANNA.uuid, ANNA.number)
    assert (source.user_id, source.user_id_alt) == (ANNA.number, ANNA.uuid)
    assert (source.user_name, source.chat_type) == ("Anna", "dm")
    assert inbound.message_id == f"{NOW}-{ANNA.uuid}"
    assert inbound.sent_at == NOW / 1000
    assert build_session_key(source) == f"agent:main:signal:dm:{ANNA.uuid}"


def test_a_number_that_is_hidden_does_not_change_the_conversation() -> None:
    hidden = known(read(ANNA._replace(number=None))).source
    assert hidden.user_id == ANNA.uuid
    assert build_session_key(hidden) == build_session_key(known(read()).source)


def test_who_has_no_uuid_is_known_by_the_number() -> None:
    message = {"timestamp": NOW, "message": "Hi"}
    old = {"source": ANNA.number, "timestamp": NOW, "dataMessage": message}
    inbound = known(InboundReader(ACCOUNT).read({"envelope": old}))
    assert inbound.source.chat_id == ANNA.number
    assert inbound.message_id == f"{NOW}-{ANNA.number}"


@pytest.mark.parametrize(
    "written",
    [
        GROUP,
        GROUP.rstrip("="),
        GROUP.replace("+", "-").replace("/", "_"),
        f"group:{GROUP}",
        "group.UG1waStFZlBXbXN4aW9tTGU5TngyWEY5SE9FNDgzcDZpS2lGajY1aU13ST0=",
    ],
)
def test_groups_have_one_form(written: str) -> None:
    assert group_id(written) == GROUP
    inbound = known(read(message="/new", groupInfo=IN_GROUP | {"groupId": written}))
    assert (inbound.source.chat_id, inbound.source.chat_id_alt) == (GROUP, f"group:{GROUP}")
    assert (inbound.source.chat_name, inbound.source.chat_type) == ("Team", "group")


@pytest.mark.parametrize("text", ["", "abc", "+15550107", ANNA.uuid, "group.ü", "group:x", 5, None])
def test_what_is_no_group(text: object) -> None:
    assert group_id(text) is None


def test_the_same_millisecond_of_two_people() -> None:
    one, two = known(read(ANNA)), known(read(BERT))
    assert one.message_id != two.message_id
    name = parse_message_ref(one.message_id)
    assert name is not None
    assert (name.timestamp, name.author) == (NOW, ANNA.uuid)


@pytest.mark.parametrize(
    "content",
    [
        {"receiptMessage": {"when": NOW, "isDelivery": True, "timestamps": [NOW]}},
        {"typingMessage": {"action": "STARTED", "timestamp": NOW}},
        {"editMessage": {"targetSentTimestamp": NOW, "dataMessage": {"message": "x"}}},
        {"syncMessage": {"sentMessage": {"message": "x", "timestamp": NOW}}},
        {"storyMessage": {"allowsReplies": True}},
        {"callMessage": {"hangupMessage": {"id": 1}}},
        {"dataMessage": {"timestamp": NOW, "message": None, "reaction": {"emoji": "👍"}}},
        {"dataMessage": {"timestamp": NOW, "message": None, "remoteDelete": {"timestamp": NOW}}},
        {"dataMessage": {"timestamp": NOW, "message": None, "groupInfo": {"type": "UPDATE"}}},
        {"dataMessage": {"timestamp": NOW, "message": None, "expiresInSeconds": 60}},
    ],
    ids="-".join,
)
def test_what_is_not_for_the_agent(content: dict[str, Any]) -> None:
    params = {"envelope": envelope(ANNA, NOW, **content), "account": ACCOUNT}
    assert InboundReader(ACCOUNT).read(params) is None


def test_what_the_account_wrote_itself() -> None:
    assert read(Person("0b9d1e9e-0000-4000-8000-000000000000", "Me", ACCOUNT)) is None


def test_another_account_of_the_daemon() -> None:
    params = {"envelope": envelope(ANNA, NOW, dataMessage={}), "account": "+15550199"}
    with pytest.raises(UnreadablePayload, match="not for the account"):
        InboundReader(ACCOUNT).read(params)


def test_what_could_not_be_decrypted() -> None:
    problem = {"message": "secret words", "type": "UntrustedIdentityException"}
    params = {"envelope": envelope(ANNA, NOW), "account": ACCOUNT, "exception": problem}
    with pytest.raises(UnreadablePayload, match="UntrustedIdentityException") as raised:
        InboundReader(ACCOUNT).read(params)
    assert "secret" not in str(raised.value)


class TestGroups:
    def test_only_what_is_addressed(self) -> None:
        assert read(message="Hello all", groupInfo=IN_GROUP) is None
        assert known(read(message="/new", groupInfo=IN_GROUP)).text == "/new"
        quote = {"id": NOW - 1, "author": ACCOUNT, "authorNumber": ACCOUNT, "text": "Yes."}
        answer = known(read(message="Sure?", groupInfo=IN_GROUP, quote=quote))
        assert answer.text == "Sure?"
        assert answer.reply_to == f"{NOW - 1}-{ACCOUNT}"

    def test_everything_if_wanted(self) -> None:
        reader = InboundReader(ACCOUNT, needs_mention=False)
        assert known(read(reader=reader, message="Hello all", groupInfo=IN_GROUP)).text

    def test_mentions_are_counted_in_utf16(self) -> None:
        text = "😀 \ufffc ask \ufffc, 😀"
        mentions = [
            {"name": "Hermes", "number": ACCOUNT, "start": 3, "length": 1},
            {"name": "Bert", "number": BERT.number, "start": 9, "length": 1},
        ]
        inbound = known(read(message=text, mentions=mentions, groupInfo=IN_GROUP))
        assert inbound.text == "😀 ask @Bert, 😀"

    @pytest.mark.parametrize(
        "mention", [5, {}, {"start": -1, "length": 1}, {"start": 99, "length": 1}, {"start": True}]
    )
    def test_faulty_mentions_do_not_matter(self, mention: object) -> None:
        assert known(read(message="\ufffc x", mentions=[mention])).text == "\ufffc x"


def test_a_quotation_of_somebody_else() -> None:
    quote = {"id": NOW - 1, "authorUuid": BERT.uuid, "text": "one\ntwo"}
    inbound = known(read(quote=quote))
    assert inbound.text == "> one\n> two\n\nHello"
    assert inbound.reply_to == f"{NOW - 1}-{BERT.uuid}"


def test_files_by_reference() -> None:
    picture = {"id": "abc-1.jpg", "contentType": "image/jpeg", "filename": "a.jpg", "size": 7}
    large = {"id": "x", "contentType": "video/mp4", "size": 10**9}
    inbound = known(read(message=None, attachments=[picture, large]))
    (file,) = inbound.attachments
    assert (file.kind, file.reference, file.name, file.size) == ("photo", "abc-1.jpg", "a.jpg", 7)
    assert "1,000,000,000 bytes was skipped" in inbound.text


def test_a_long_text_is_a_beginning_and_a_file() -> None:
    rest = {"id": "long", "contentType": LONG_TEXT, "size": 5000}
    large = {"id": "x", "contentType": "video/mp4", "size": 10**9}
    mention = {"name": "Hermes", "number": ACCOUNT, "start": 0, "length": 1}
    inbound = known(
        read(
            reader=InboundReader(ACCOUNT, max_file_bytes=100),
            message="\ufffc One two ",
            mentions=[mention],
            groupInfo=IN_GROUP,
            attachments=[large, rest],
        )
    )
    # Whatever else there is to say comes before, so that the rest can follow.
    assert inbound.text.endswith("]\nOne two ")
    whole = completed(inbound, "\ufffc One two three\nfour")
    assert whole.text.endswith("]\nOne two three\nfour")
    assert whole.attachments == ()
    assert whole.extra == {"quote": "One two"}
    missing = completed(inbound, None)
    assert "One two" in missing.text
    assert "is missing" in missing.text


def test_what_may_be_viewed_once_is_not_kept() -> None:
    picture = {"id": "abc", "contentType": "image/jpeg", "size": 7}
    inbound = known(read(message=None, attachments=[picture], viewOnce=True))
    assert inbound.attachments == ()
    assert "once" in inbound.text


def test_stickers_and_contacts_in_words() -> None:
    assert known(read(message=None, sticker={"packId": "x", "stickerId": 1})).text == "[A sticker]"
    contact = {"name": {"display": "Carl\nC."}, "phone": [{"value": "+15550109"}]}
    assert known(read(message=None, contacts=[contact])).text == "[Contact: Carl C. +15550109]"

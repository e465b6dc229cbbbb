"""Session keys: which messages share a lane, and that keys are unambiguous."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.lane import (
    LaneKey,
    build_session_key,
    digests_of,
    is_shared_multi_user_session,
    key_hash,
    lane_key,
    normalise_whatsapp,
    parse_key,
)
from hermes_sessions.model.source import Platform, SessionSource


def at(platform: str, chat_id: str = "", chat_type: str = "dm", **rest: str) -> SessionSource:
    return SessionSource(Platform(platform), chat_id, chat_type=chat_type, **rest)  # type: ignore[arg-type]


U1 = {"user_id": "u1"}


@pytest.mark.parametrize(
    ("source", "key"),
    [
        (at("telegram", "12345"), "telegram:dm:12345"),
        (at("telegram", "12345", **U1), "telegram:dm:12345"),
        (at("telegram", "12345", thread_id="678"), "telegram:dm:12345:678"),
        (at("signal", user_id="u1", user_id_alt="A"), "signal:dm:A"),
        (at("signal", **U1, thread_id="3"), "signal:dm:u1:3"),
        (at("telegram", thread_id="3"), "telegram:dm:3"),
        (at("telegram"), "telegram:dm"),
        (at("telegram", "-100", "group", **U1), "telegram:group:-100:u1"),
        (at("telegram", "-100", "group", user_id="u1", user_id_alt="A"), "telegram:group:-100:A"),
        (at("telegram", "-100", "group"), "telegram:group:-100"),
        (at("telegram", "-100", "group", **U1, thread_id="7"), "telegram:group:-100:7"),
        (at("telegram", "-100", "group", user_id="u2", thread_id="7"), "telegram:group:-100:7"),
        (at("slack", "C12345", "channel"), "slack:channel:C12345"),
        (at("discord", "9", "thread", **U1), "discord:thread:9:u1"),
        (at("discord", "9", "private", **U1), "discord:private:9:u1"),
        (at("discord", "", "group", **U1), "discord:group:u1"),
        (
            at("matrix", "!a:b.org", "group", user_id="@u:b.org"),
            "matrix:group:!a%3Ab.org:@u%3Ab.org",
        ),
    ],
)
def test_keys_with_the_default_isolation(source: SessionSource, key: str) -> None:
    assert build_session_key(source) == f"agent:main:{key}"


@pytest.mark.parametrize(
    ("thread_id", "group", "thread", "key"),
    [
        ("", False, False, "-100"),
        ("", False, True, "-100"),
        ("", True, True, "-100:u1"),
        ("7", True, True, "-100:7:u1"),
        ("7", False, True, "-100:7"),
        ("7", False, False, "-100:7"),
    ],
)
def test_isolation_can_be_chosen(thread_id: str, group: bool, thread: bool, key: str) -> None:
    source = at("telegram", "-100", "group", user_id="u1", thread_id=thread_id)
    assert build_session_key(source, group, thread) == f"agent:main:telegram:group:{key}"


def test_a_profile_has_its_own_lanes() -> None:
    source = at("telegram", "1", profile="work")
    assert build_session_key(source) == "agent:work:telegram:dm:1"
    assert parse_key("agent:work:telegram:dm:1") == lane_key(source)


@pytest.mark.parametrize(
    "chat_id",
    ["60123456789@s.whatsapp.net", "60123456789:47@s.whatsapp.net", "+60123456789", " 60123456789"],
)
def test_the_forms_of_a_whatsapp_number_are_one_person(chat_id: str) -> None:
    assert build_session_key(at("whatsapp", chat_id)) == "agent:main:whatsapp:dm:60123456789"
    group = at("whatsapp", "1203-44@g.us", "group", user_id=chat_id)
    assert build_session_key(group) == "agent:main:whatsapp:group:1203-44@g.us:60123456789"


@pytest.mark.parametrize("odd", ["../../etc/passwd", ":", "@", "+", "::@", "a/b\\c", "\x00", "💥"])
def test_odd_whatsapp_ids_make_keys_too(odd: str) -> None:
    key = lane_key(at("whatsapp", odd))
    assert parse_key(key.render()) == key
    assert key.chat_id


def test_the_choice_among_aliases_is_asked_for_with_all_that_are_known() -> None:
    asked: list[tuple[str, list[str]]] = []

    def canonical(platform: str, aliases: list[str]) -> str:
        asked.append((platform, aliases))
        return "chosen"

    chat = SessionSource(Platform.WHATSAPP, "1@lid", chat_id_alt="2", user_id="3")
    assert lane_key(chat, canonical=canonical).chat_id == "chosen"  # type: ignore[arg-type]
    person = at("whatsapp", "g", "group", user_id="3", user_id_alt="4")
    assert lane_key(person, canonical=canonical).participant_id == "chosen"  # type: ignore[arg-type]
    assert asked == [("whatsapp", ["1@lid", "2"]), ("whatsapp", ["4", "3"])]
    # Elsewhere a person has one id, and two that are given may be of different kinds.
    assert lane_key(at("signal", "1"), canonical=canonical).chat_id == "1"  # type: ignore[arg-type]


@pytest.mark.parametrize("nothing", [None, "", "  ", "+", ":1", "@x"])
def test_whatsapp_ids_that_are_nothing(nothing: str | None) -> None:
    assert normalise_whatsapp(nothing) == ""


parts = st.text(alphabet=st.sampled_from("ab1%:3A25é\x00-"), min_size=1, max_size=6)
optional = st.none() | parts


@st.composite
def keys(draw: st.DrawFn) -> LaneKey:
    """Keys as sources make them: the parts before one that is there are there, too, but a group's
    person needs no thread.
    """
    kind = draw(st.sampled_from(["dm", "group", "channel", "thread", "p:%"]))
    chat = draw(optional)
    thread = draw(optional) if chat else None
    person = draw(optional) if chat and kind != "dm" else None
    return LaneKey(draw(parts), draw(parts), kind, chat, thread, person)


def shape(key: LaneKey) -> tuple[bool, ...]:
    return (key.chat_id is None, key.thread_id is None, key.participant_id is None)


@given(keys(), keys())
def test_different_keys_look_different(one: LaneKey, other: LaneKey) -> None:
    if shape(one) == shape(other):
        assert (one.render() == other.render()) == (one == other)
    # Whatever is in them, as many parts are seen as there are.
    assert one.render().count(":") == 6 - sum(shape(one))
    assert (one.digest == other.digest) == (one == other)


@given(keys())
def test_a_key_is_found_by_its_string(key: LaneKey) -> None:
    remembers = key.render()
    assert digests_of(key) == digests_of(remembers) == (key.digest,)
    # A plain string may mean several; what `parse_key` reads comes first.
    plain = digests_of(str(remembers))
    assert key.digest in plain
    assert plain[0] == parse_key(str(remembers)).digest


def test_a_string_that_remembers_its_key() -> None:
    key = LaneKey("main", "telegram", "group", "-100", "7")
    text = pickle.loads(pickle.dumps(key.render()))
    assert (text, text.key) == ("agent:main:telegram:group:-100:7", key)
    assert digests_of("no key") == ()


@given(keys())
def test_a_key_can_be_read_back(key: LaneKey) -> None:
    read = parse_key(key.render())
    assert read.render() == key.render()
    alone = (key.thread_id is None) != (key.participant_id is None)
    if not alone or (key.chat_type in {"dm", "thread"}) == (key.thread_id is not None):
        assert read == key


@given(st.tuples(parts, parts, parts), st.tuples(parts, parts, parts))
def test_ids_cannot_run_into_each_other(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    def key(ids: tuple[str, str, str]) -> str:
        source = at("telegram", ids[0], "group", thread_id=ids[1], user_id=ids[2])
        return build_session_key(source, thread_sessions_per_user=True)

    assert (key(one) == key(other)) == (one == other)


def test_keys_of_older_installations_did_not_escape() -> None:
    read = parse_key("agent:main:matrix:group:!a:b.org:@u:b.org")
    assert (read.platform, read.chat_type, read.chat_id) == ("matrix", "group", "!a")
    assert parse_key("agent:main:telegram:dm") == LaneKey("main", "telegram", "dm")


@pytest.mark.parametrize(
    "text", ["", "agent", "agent:main", "agent:main:telegram", "a:b:c:d", None]
)
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a lane key"):
        parse_key(text)


def test_a_key_needs_a_platform_and_a_type() -> None:
    with pytest.raises(InvalidInput, match="needs a platform"):
        LaneKey("main", "", "dm")


def test_the_digest_of_a_key() -> None:
    assert key_hash("12345").startswith("5994471abb01")
    assert len(key_hash("\ud800")) == 64


@pytest.mark.parametrize(
    ("chat_type", "thread_id", "group", "thread", "shared"),
    [
        ("dm", "", False, False, False),
        ("dm", "7", False, False, False),
        ("group", "", True, False, False),
        ("group", "", False, False, True),
        ("channel", "", True, True, False),
        ("group", "7", True, False, True),
        ("group", "7", True, True, False),
        ("thread", "", True, False, False),
    ],
)
def test_who_shares(
    chat_type: str, thread_id: str, group: bool, thread: bool, shared: bool
) -> None:
    source = at("telegram", "-100", chat_type, thread_id=thread_id)
    assert shared is is_shared_multi_user_session(
        source, group_sessions_per_user=group, thread_sessions_per_user=thread
    )

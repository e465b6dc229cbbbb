"""Sources: their fields, descriptions, and lossless storing."""

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.source import Platform, SessionSource

texts = st.text(max_size=12)
maybe = st.none() | texts
sources = st.builds(
    SessionSource,
    platform=st.sampled_from(Platform.known()),
    chat_id=texts,
    chat_name=maybe,
    chat_type=st.sampled_from(["dm", "group", "channel", "thread", "private"]),
    user_id=maybe,
    user_name=maybe,
    thread_id=maybe,
    chat_topic=maybe,
    user_id_alt=maybe,
    chat_id_alt=maybe,
    is_bot=st.booleans(),
    guild_id=maybe,
    parent_chat_id=maybe,
    message_id=maybe,
    role_authorized=st.booleans(),
    profile=maybe,
)


def test_platforms_are_text_and_found_in_any_case() -> None:
    assert Platform("Telegram") is Platform.TELEGRAM
    assert Platform.TELEGRAM == "telegram"
    assert Platform.TELEGRAM.value == f"{Platform.TELEGRAM}" == "telegram"
    assert type(Platform.TELEGRAM.value) is str
    assert json.dumps([Platform.SIGNAL]) == '["signal"]'
    assert {"local", "whatsapp_cloud", "msgraph_webhook", "relay"} <= set(Platform.known())


def test_a_platform_stays_the_same_object_when_copied() -> None:
    assert copy.deepcopy(Platform.SLACK) is Platform.SLACK
    assert pickle.loads(pickle.dumps(Platform.SLACK)) is Platform.SLACK


@pytest.mark.parametrize("name", ["telegraf", "", "  ", None, 7])
def test_platforms_that_nobody_registered(name: object) -> None:
    with pytest.raises(ValueError, match=r"There is no platform .* Platform\.register"):
        Platform(name)


def test_a_plug_in_registers_its_platform() -> None:
    ours = Platform.register("Smoke-Signal")
    assert ours is Platform("smoke-signal") is Platform.register("SMOKE-SIGNAL")
    assert not ours.pii_safe
    assert Platform.register("smoke-signal", pii_safe=True).pii_safe
    with pytest.raises(InvalidInput, match="must not be blank"):
        Platform.register("  ")


def test_where_people_are_mentioned_by_id_the_id_is_needed() -> None:
    built_in = [Platform(name) for name in Platform.__annotations__]
    assert {name for name in built_in if not name.pii_safe} == {"discord", "slack"}


def test_ids_become_text_and_empty_ones_none() -> None:
    source = SessionSource("telegram", -100, user_id=7, thread_id="", message_id=0)  # type: ignore[arg-type]
    assert source.platform is Platform.TELEGRAM
    assert (source.chat_id, source.user_id, source.thread_id) == ("-100", "7", None)
    assert source.message_id == "0"
    assert SessionSource(Platform.SIGNAL, None).chat_id == ""  # type: ignore[arg-type]


def test_a_source_cannot_be_changed() -> None:
    source = SessionSource(Platform.TELEGRAM, "1")
    with pytest.raises(FrozenInstanceError):
        source.thread_id = "2"  # type: ignore[misc]
    assert replace(source, thread_id="2") != source
    assert len({source, SessionSource(Platform.TELEGRAM, "1")}) == 1


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (SessionSource(Platform.LOCAL, "x"), "CLI terminal"),
        (SessionSource(Platform.TELEGRAM, "1", user_name="Alice", user_id="7"), "DM with Alice"),
        (SessionSource(Platform.TELEGRAM, "1", user_id="7"), "DM with 7"),
        (SessionSource(Platform.TELEGRAM, "1"), "DM with user"),
        (SessionSource(Platform.TELEGRAM, "1", "My Group", "group"), "group: My Group"),
        (
            SessionSource(Platform.TELEGRAM, "1", "My Group", "group", thread_id="12345"),
            "group: My Group, thread: 12345",
        ),
        (SessionSource(Platform.SLACK, "C1", chat_type="channel"), "channel: C1"),
        (SessionSource(Platform.DISCORD, "9", "Plans", "thread"), "Plans"),
        (SessionSource(Platform.DISCORD, "9", chat_type="thread", thread_id="9"), "9, thread: 9"),
    ],
)
def test_sources_in_words(source: SessionSource, words: str) -> None:
    assert source.description == words


def test_the_documented_form() -> None:
    assert SessionSource(Platform.TELEGRAM, "1").to_dict() == {
        "platform": "telegram",
        "chat_id": "1",
        "chat_name": None,
        "chat_type": "dm",
        "user_id": None,
        "user_name": None,
        "thread_id": None,
        "chat_topic": None,
    }


@given(sources)
def test_every_field_survives_being_kept(source: SessionSource) -> None:
    kept = json.loads(json.dumps(source.to_dict()))
    assert SessionSource.from_dict(kept) == source
    assert type(kept["platform"]) is str


def test_sources_of_other_versions() -> None:
    read = SessionSource.from_dict({"platform": "discord", "chat_id": 5, "scope_id": 9, "new": 1})
    assert read == SessionSource(Platform.DISCORD, "5", guild_id="9")


@pytest.mark.parametrize(
    "values",
    [{}, {"platform": "telegram"}, {"chat_id": "1"}, {"platform": "x-y-z", "chat_id": "1"}, True],
)
def test_what_is_no_source(values: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        SessionSource.from_dict(values)

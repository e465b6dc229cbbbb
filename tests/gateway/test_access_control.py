"""Only allowed or paired users get an answer."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.gateway.access_control import AccessPolicy, Authorisation
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.repositories.senders import Senders
from hermes_sessions_testing.clock import FrozenClock


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def senders(tmp_path: Path, clock: FrozenClock) -> Iterator[Senders]:
    with SessionDB(tmp_path / "state.db", clock=clock) as db:
        yield Senders(db.store, "main")


def source(**fields: Any) -> SessionSource:
    return SessionSource(Platform.TELEGRAM, **({"chat_id": "c", "user_id": "u"} | fields))


def authorisation(senders: Senders, clock: FrozenClock, **access: Any) -> Authorisation:
    return Authorisation(
        senders, {"telegram": AccessPolicy(**access)}, clock, choose=random.Random(1).choice
    )


@pytest.mark.parametrize(
    ("access", "fields", "because"),
    [
        ({"allowed_users": frozenset({"u"})}, {}, "user"),
        ({"allowed_users": frozenset({"alt"})}, {"user_id_alt": "alt"}, "user"),
        ({"allowed_chats": frozenset({"c"})}, {"chat_type": "group"}, "chat"),
        ({"allowed_chats": frozenset({"p"})}, {"parent_chat_id": "p"}, "chat"),
        ({}, {"role_authorized": True}, "role"),
        ({"allowed_users": frozenset("*")}, {}, "open"),
    ],
)
def test_which_senders_are_allowed(
    senders: Senders,
    clock: FrozenClock,
    access: dict[str, Any],
    fields: dict[str, Any],
    because: str,
) -> None:
    verdict = authorisation(senders, clock, **access).decide(source(**fields))
    assert verdict == (True, because, None)


@pytest.mark.parametrize(
    ("access", "fields"),
    [
        ({}, {"chat_type": "group"}),
        ({"pairing": False}, {}),
        ({"allowed_users": frozenset({"v"}), "pairing": False}, {}),
        ({}, {"user_id": None}),
        ({"allowed_users": frozenset({"ann"}), "pairing": False}, {"user_name": "ann"}),
        ({"allowed_chats": frozenset({"other"})}, {"chat_type": "group"}),
    ],
)
def test_others_are_refused_without_a_word(
    senders: Senders, clock: FrozenClock, access: dict[str, Any], fields: dict[str, Any]
) -> None:
    verdict = authorisation(senders, clock, **access).decide(source(**fields))
    assert verdict == (False, "unknown", None)


def test_members_of_a_role_are_allowed(senders: Senders, clock: FrozenClock) -> None:
    asked = authorisation(senders, clock, allowed_roles=frozenset({"r"}), pairing=False)
    assert asked.decide(source(), ["q", "r"]) == (True, "role", None)
    assert asked.decide(source(), ["q"]) == (False, "unknown", None)
    assert asked.decide(source()) == (False, "unknown", None)
    without_roles = authorisation(senders, clock, pairing=False)
    assert without_roles.decide(source(), ["r"]) == (False, "unknown", None)


def test_a_bot_is_refused_wherever_it_writes(senders: Senders, clock: FrozenClock) -> None:
    verdict = authorisation(senders, clock, allowed_users=frozenset("*")).decide(
        source(is_bot=True)
    )
    assert verdict == (False, "bot", None)


def test_a_platform_without_configuration_allows_no_sender(
    senders: Senders, clock: FrozenClock
) -> None:
    assert Authorisation(senders, {}, clock).decide(source()) == (False, "unknown", None)


def test_a_stranger_is_paired(senders: Senders, clock: FrozenClock) -> None:
    deciding = authorisation(senders, clock)
    verdict = deciding.decide(source(user_name="Ann"))
    assert not verdict.is_allowed
    assert verdict.reply is not None
    code = verdict.reply.rpartition(" ")[2]
    senders.approve(code)
    assert deciding.decide(source()) == (True, "paired", None)


@pytest.mark.parametrize(
    "access",
    [
        {"allowed_users": frozenset({"u"})},
        {"allowed_users": frozenset("*")},
        {"allowed_chats": frozenset({"c"})},
        {"allowed_roles": frozenset({"r"})},
    ],
)
def test_who_is_blocked_is_on_no_list(
    senders: Senders, clock: FrozenClock, access: dict[str, Any]
) -> None:
    deciding = authorisation(senders, clock, **access)
    assert deciding.decide(source(), ["r"]).is_allowed
    assert deciding.may_talk(source(), ["r"])
    senders.decide("telegram", "u", "blocked")
    assert deciding.decide(source(), ["r"]) == (False, "blocked", None)
    assert not deciding.may_talk(source(), ["r"])
    assert deciding.is_blocked(source())


def test_asking_who_may_talk_changes_nothing(senders: Senders, clock: FrozenClock) -> None:
    deciding = authorisation(senders, clock, messages_per_minute=1)
    stranger = source(chat_type="dm")
    assert not deciding.may_talk(stranger)
    assert senders.list() == []
    senders.decide("telegram", "u", "allowed")
    assert all(deciding.may_talk(stranger) for _ in range(5))
    assert deciding.decide(stranger).is_allowed
    assert not deciding.may_talk(source(is_bot=True))
    assert not deciding.may_talk(source(user_id=None))
    elsewhere = SessionSource(Platform.SLACK, "c", user_id="u")
    assert not deciding.may_talk(elsewhere)


def test_a_blocked_person_hears_nothing(senders: Senders, clock: FrozenClock) -> None:
    senders.decide("telegram", "u", "blocked")
    assert authorisation(senders, clock).decide(source()) == (False, "blocked", None)


@pytest.mark.parametrize("decided_about", ["u", "lasting"])
def test_a_decision_about_either_id_of_a_person_holds(
    senders: Senders, clock: FrozenClock, decided_about: str
) -> None:
    deciding = authorisation(senders, clock)
    sender = source(user_id_alt="lasting")
    senders.decide("telegram", decided_about, "allowed")
    assert deciding.decide(sender) == (True, "paired", None)
    senders.decide("telegram", decided_about, "blocked")
    assert deciding.decide(sender) == (False, "blocked", None)
    senders.decide("telegram", "u" if decided_about == "lasting" else "lasting", "allowed")
    assert deciding.decide(sender) == (False, "blocked", None)


def test_a_sender_above_the_rate_limit_waits(senders: Senders, clock: FrozenClock) -> None:
    deciding = authorisation(senders, clock, allowed_users=frozenset("*"), messages_per_minute=3)
    assert [deciding.decide(source()).is_allowed for _ in range(4)] == [True, True, True, False]
    refused = deciding.decide(source())
    assert (refused.because, refused.reply is not None and "20 s" in refused.reply) == (
        "too many",
        True,
    )
    assert deciding.decide(source(user_id="other")).is_allowed
    clock.advance(20)
    assert [deciding.decide(source()).is_allowed for _ in range(2)] == [True, False]
    clock.advance(minutes=60)
    assert [deciding.decide(source()).is_allowed for _ in range(4)] == [True, True, True, False]


def test_no_limit(senders: Senders, clock: FrozenClock) -> None:
    deciding = authorisation(senders, clock, allowed_users=frozenset("*"), messages_per_minute=0)
    assert all(deciding.decide(source()).is_allowed for _ in range(100))

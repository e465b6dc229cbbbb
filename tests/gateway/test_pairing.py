"""Users get access by a code that the owner approves."""

from __future__ import annotations

import random

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import InvalidInput, NotFound
from hermes_sessions.storage.repositories.senders import (
    CODE_SECONDS,
    MOST_CODES,
    MOST_PENDING,
    Senders,
)
from hermes_sessions_testing.clock import FrozenClock


@pytest.fixture
def senders(db: SessionDB) -> Senders:
    return Senders(db.store, "main")


def ask(senders: Senders, who: str = "u", seed: int = 1) -> str | None:
    return senders.request("telegram", who, "Ann", random.Random(seed).choice)


def test_a_code_lets_its_owner_in(senders: Senders) -> None:
    code = ask(senders)
    assert code is not None
    assert senders.status("telegram", "u") == "pending"
    approved = senders.approve(f" {code[:4]}-{code[4:]} ".lower())
    assert (approved.sender_id, approved.name, approved.status) == ("u", "Ann", "allowed")
    assert senders.status("telegram", "u") == "allowed"
    assert senders.status("telegram", "other") is None
    assert senders.status("matrix", "u") is None


def test_a_code_works_once_and_for_a_while(senders: Senders, clock: FrozenClock) -> None:
    code = ask(senders)
    assert code is not None
    senders.approve(code)
    with pytest.raises(NotFound, match="hermes gateway pair"):
        senders.approve(code)
    late = ask(senders, "v", 2)
    assert late is not None
    clock.advance(CODE_SECONDS)
    with pytest.raises(NotFound):
        senders.approve(late)
    assert ask(senders, "v", 3) is not None


def test_only_the_latest_code_works(senders: Senders) -> None:
    first, second = ask(senders, seed=1), ask(senders, seed=2)
    assert first is not None
    assert second is not None
    with pytest.raises(NotFound):
        senders.approve(first)
    senders.approve(second)


def test_the_number_of_codes_is_limited(senders: Senders) -> None:
    given = [ask(senders, seed=seed) for seed in range(MOST_CODES + 2)]
    assert given.count(None) == 2
    for number in range(MOST_PENDING):
        ask(senders, f"crowd-{number}", number)
    assert ask(senders, "one too many") is None


def test_a_sender_with_a_decision_gets_no_code(senders: Senders) -> None:
    senders.decide("telegram", "u", "blocked")
    assert ask(senders) is None
    assert senders.status("telegram", "u") == "blocked"
    assert senders.forget("telegram", "u")
    assert not senders.forget("telegram", "u")
    assert ask(senders) is not None


def test_the_list_shows_who_waits_and_no_code(senders: Senders) -> None:
    code = ask(senders)
    senders.decide("telegram", "v", "allowed")
    assert [(each.sender_id, each.status) for each in senders.list()] == [
        ("u", "pending"),
        ("v", "allowed"),
    ]
    assert [each.sender_id for each in senders.list("pending")] == ["u"]
    assert str(code) not in repr(senders.list())


def test_namespaces_do_not_see_each_other(db: SessionDB, senders: Senders) -> None:
    code = ask(senders)
    assert code is not None
    other = Senders(db.store, "other")
    assert other.status("telegram", "u") is None
    with pytest.raises(NotFound):
        other.approve(code)


def test_a_decision_needs_an_id(senders: Senders) -> None:
    with pytest.raises(InvalidInput, match="Give the sender's id"):
        senders.decide("telegram", "", "allowed")

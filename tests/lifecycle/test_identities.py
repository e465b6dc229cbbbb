"""Aliases of users: one stable decision per alias, on every database."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from hermes_sessions import Platform, SessionDB, SessionSource
from hermes_sessions.errors import InvalidInput
from hermes_sessions.lifecycle.legacy_files import LidMapping
from hermes_sessions.model.lane import lane_key
from hermes_sessions.storage.repositories.identities import Identities
from hermes_sessions_testing.clock import FrozenClock
from tests.servers.stores import ONCE, OpenStore

PHONE, LID = "60123456789", "170141183460469"


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def db(open_store: OpenStore, clock: FrozenClock) -> Iterator[SessionDB]:
    with open_store(clock=clock) as handle:
        yield handle


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "whatsapp" / "session").mkdir(parents=True)
    return tmp_path


def link(home: Path, name: str, content: object) -> Path:
    path = home / "whatsapp" / "session" / f"lid-mapping-{name}.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_the_shortest_of_new_aliases_stands_for_all(db: SessionDB) -> None:
    identities = Identities(db.store)
    assert identities.canonical("whatsapp", [f"{LID}@lid", f"+{PHONE}"]) == PHONE
    for alias in (LID, f"{LID}:3@lid", PHONE, f"{PHONE}@s.whatsapp.net"):
        assert Identities(db.store).canonical("whatsapp", [alias]) == PHONE


def test_the_first_decision_stays(db: SessionDB, clock: FrozenClock) -> None:
    assert Identities(db.store).canonical("whatsapp", [LID]) == LID
    clock.advance(1)
    # A shorter alias becomes known: it joins, and the person stays where they are.
    assert Identities(db.store).canonical("whatsapp", [PHONE, LID]) == LID
    assert Identities(db.store).canonical("whatsapp", [PHONE]) == LID


def test_two_decisions_that_turn_out_to_be_about_one_person(
    db: SessionDB, clock: FrozenClock
) -> None:
    identities = Identities(db.store)
    assert identities.canonical("whatsapp", [LID]) == LID
    clock.advance(1)
    assert identities.canonical("whatsapp", [PHONE]) == PHONE
    for order in ([PHONE, LID], [LID, PHONE], [PHONE, "5", LID]):
        assert identities.canonical("whatsapp", order) == LID
    assert identities.canonical("whatsapp", [PHONE]) == PHONE
    assert identities.canonical("whatsapp", ["5"]) == LID


def test_many_decide_at_once_and_agree(open_store: OpenStore, db: SessionDB) -> None:
    """Handles that see two aliases of a person at the same time choose the same one."""
    people = range(10)
    start = Barrier(4)

    def decide(order: int) -> list[str]:
        with open_store() as handle:
            identities = Identities(handle.store)
            start.wait()
            names = [[f"{person}00", f"{person}1111", f"{person}222222"] for person in people]
            return [identities.canonical("whatsapp", names[p][order % 2 :]) for p in people]

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(decide, range(4)))
    for person, chosen in enumerate(zip(*answers, strict=True)):
        assert len(set(chosen)) == 1
        assert Identities(db.store).canonical("whatsapp", [f"{person}1111"]) == chosen[0]


def test_platforms_do_not_know_each_other(db: SessionDB) -> None:
    identities = Identities(db.store)
    assert identities.canonical("whatsapp", ["1", "22"]) == "1"
    assert identities.canonical("signal", ["22"]) == "22"


@pytest.mark.parametrize("odd", ["../../etc/passwd", ":", "a" * 5000, "💥" * 100, "\x00", "\ud800"])
def test_odd_ids_are_people_too(db: SessionDB, odd: str) -> None:
    chosen = Identities(db.store).canonical("whatsapp", [odd])
    assert chosen
    assert Identities(db.store).canonical("whatsapp", [odd, "another" * 100]) == chosen


def test_case_is_a_difference(db: SessionDB) -> None:
    identities = Identities(db.store)
    assert identities.canonical("whatsapp", ["abc"]) == "abc"
    assert identities.canonical("whatsapp", ["ABC"]) == "ABC"


@ONCE
def test_an_identity_needs_an_id(db: SessionDB) -> None:
    with pytest.raises(InvalidInput, match="At least one id"):
        Identities(db.store).canonical("whatsapp", [""])


def test_the_lane_of_a_person_does_not_depend_on_the_alias(db: SessionDB, home: Path) -> None:
    link(home, PHONE, LID)
    link(home, f"{LID}_reverse", PHONE)
    identities = Identities(db.store, LidMapping(home).aliases_of)

    def key(chat_id: str) -> str:
        source = SessionSource(Platform.WHATSAPP, chat_id)
        return lane_key(source, canonical=identities.canonical).render()

    expected = f"agent:main:whatsapp:dm:{PHONE}"
    for form in (
        f"{LID}@lid",
        f"{PHONE}@s.whatsapp.net",
        f"{PHONE}:47@s.whatsapp.net",
        f"+{PHONE}",
    ):
        assert key(form) == expected
    # Decided: also when the files are gone.
    for path in (home / "whatsapp" / "session").iterdir():
        path.unlink()
    assert Identities(db.store).canonical("whatsapp", [f"{LID}@lid"]) == PHONE


def test_the_files_of_an_older_installation_are_taken_over(db: SessionDB, home: Path) -> None:
    for number in range(450):
        link(home, f"1{number:04}", f"99999{number:04}")
        link(home, f"99999{number:04}_reverse", f"1{number:04}")
    identities = Identities(db.store)
    assert identities.join("whatsapp", LidMapping(home).people()) == 900
    assert identities.join("whatsapp", LidMapping(home).people()) == 0
    assert identities.canonical("whatsapp", ["999990449@lid"]) == "10449"


def test_files_that_say_nothing_are_left_out(home: Path) -> None:
    directory = home / "whatsapp" / "session"
    link(home, "1", {"not": "text"})
    link(home, "2", "../../etc/passwd")
    link(home, "3", "x" * 5000)
    (directory / "lid-mapping-4.json").write_bytes(b"\xff{")
    (directory / "lid-mapping-5.json").write_text("[" * 3000)
    (directory / "lid-mapping-6.json").mkdir()
    os.mkfifo(directory / "lid-mapping-7.json")
    link(home, "8", 12345)
    link(home, "9", "9")
    mapping = LidMapping(home)
    assert [mapping.aliases_of(str(number)) for number in range(1, 10)] == [
        *((str(number),) for number in range(1, 8)),
        ("8", "12345"),
        ("9",),
    ]
    assert list(mapping.people()) == [("8", "12345")]
    assert list(LidMapping(home / "nowhere").people()) == []
    assert LidMapping(home / "nowhere").aliases_of("1") == ("1",)


def test_nothing_outside_the_directory_is_read(home: Path) -> None:
    secret = home / "secret.json"
    secret.write_text('"stolen"')
    directory = home / "whatsapp" / "session"
    (directory / "lid-mapping-1.json").symlink_to(secret)
    mapping = LidMapping(home)
    assert mapping.aliases_of("1") == ("1",)
    (directory / "lid-mapping-x").mkdir()
    (directory.parent / "y.json").write_text('"stolen"')
    for odd in ("x/../../y", "x/../../../secret", "../secret", "..", "x/../../../secret.json\x00"):
        assert mapping.aliases_of(odd) == (odd,)


@pytest.mark.parametrize("odd", ["../../secret", "x/../../../secret", "\x00", ":", "a/b"])
def test_odd_ids_have_lanes_and_open_no_doors(db: SessionDB, home: Path, odd: str) -> None:
    (home / "secret.json").write_text('"stolen"')
    identities = Identities(db.store, LidMapping(home).aliases_of)
    key = lane_key(SessionSource(Platform.WHATSAPP, odd), canonical=identities.canonical)
    assert key.chat_id == odd


def test_a_circle_of_files_ends(home: Path) -> None:
    for number in range(40):
        link(home, f"1{number:02}", f"1{(number + 1) % 40:02}")
    assert len(LidMapping(home).aliases_of("100")) == 16

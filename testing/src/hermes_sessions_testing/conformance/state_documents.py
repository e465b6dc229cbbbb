"""State documents: small JSON values of frameworks, with revisions."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hermes_sessions.errors import (
    ConversationHeld,
    InvalidInput,
    RevisionConflict,
    StaleFence,
    UnknownSession,
)
from hermes_sessions.storage.care.erasure.coordinator import Erasure
from hermes_sessions.storage.care.erasure.targets import ErasureSubject
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.concurrency import THREADS, at_once
from hermes_sessions_testing.conformance.fidelity import DIFFICULT_TEXTS
from hermes_sessions_testing.conformance.fixtures import OpenStore
from hermes_sessions_testing.conformance.helpers import say, session

OWNERS = [("session", "s"), ("user", "anna"), ("app", "shop")]
every_owner = pytest.mark.parametrize(("scope", "owner"), OWNERS, ids=[s for s, _ in OWNERS])


def names(db: SessionDB, scope: str, owner: str, prefix: str = "") -> list[str]:
    """Return the names of the documents."""
    return [found["name"] for found in db.list_state(scope, owner, prefix=prefix)]


class TestState:
    """Each owner has documents by name."""

    @every_owner
    def test_there_and_back(
        self, db: SessionDB, clock: FrozenClock, scope: str, owner: str
    ) -> None:
        """Behaviour 130: value, revision and time; None for one that does not exist."""
        say(db, "s", "hello")
        assert db.get_state(scope, owner, "cart") is None
        assert db.set_state(scope, owner, "cart", {"items": [1, None]}) == 1
        clock.advance(5)
        assert db.set_state(scope, owner, "cart", ["other"]) == 2
        assert db.get_state(scope, owner, "cart") == {
            "scope": scope,
            "owner": owner,
            "name": "cart",
            "value": ["other"],
            "revision": 2,
            "updated_at": clock(),
        }
        assert db.delete_state(scope, owner, "cart") is True
        assert db.delete_state(scope, owner, "cart") is False
        assert db.get_state(scope, owner, "cart") is None

    @pytest.mark.parametrize("text", DIFFICULT_TEXTS.values(), ids=DIFFICULT_TEXTS)
    def test_every_text(self, db: SessionDB, text: str) -> None:
        """Behaviour 130: in owners, names, keys and values."""
        short = text[:30] + "x"
        kept = text[:1000]
        value = {short: [kept, {"n": 2**70, "f": 0.1}], "": None}
        db.set_state("app", short, short, value)
        found = db.get_state("app", short, short)
        assert found is not None
        assert found["value"] == value
        assert names(db, "app", short, short[:-1]) == [short]

    @pytest.mark.parametrize("value", [None, False, 0, "", [], {}, "null", 1.5])
    def test_empty_values(self, db: SessionDB, value: Any) -> None:
        """Behaviour 130: a document that holds nothing is still one."""
        db.set_state("user", "anna", "empty", value)
        found = db.get_state("user", "anna", "empty")
        assert found is not None
        assert (found["value"], type(found["value"])) == (value, type(value))

    def test_owners_are_apart(self, db: SessionDB) -> None:
        """Behaviour 130: by scope and by id; a list is sorted and bounded by a prefix."""
        for owner in ("s", "t"):
            db.create_session(owner, "cli")
        for scope, owner in (*OWNERS, ("session", "t"), ("user", "s"), ("app", "s")):
            db.set_state(scope, owner, "who", [scope, owner])
        for scope, owner in (*OWNERS, ("session", "t"), ("user", "s"), ("app", "s")):
            assert [d["value"] for d in db.list_state(scope, owner)] == [[scope, owner]]
        for name in ("b_1", "b%2", "a", "B"):
            db.set_state("app", "x", name, name)
        assert names(db, "app", "x", "b") == ["b%2", "b_1"]
        assert set(names(db, "app", "x")) == {"a", "b_1", "b%2", "B"}
        assert names(db, "app", "x", "b_") == ["b_1"]
        assert names(db, "app", "nobody") == []

    @every_owner
    def test_an_expected_revision(self, db: SessionDB, scope: str, owner: str) -> None:
        """Behaviour 131: of the document; nothing is written at another one."""
        say(db, "s", "hello")
        with pytest.raises(RevisionConflict) as raised:
            db.set_state(scope, owner, "n", "x", expected_revision=1)
        assert (raised.value.expected, raised.value.actual) == (1, 0)
        assert db.set_state(scope, owner, "n", 1, expected_revision=0) == 1
        for wrong in (0, 2, -1):
            with pytest.raises(RevisionConflict, match="'n'"):
                db.set_state(scope, owner, "n", "x", expected_revision=wrong)
            with pytest.raises(RevisionConflict, match="'n'"):
                db.delete_state(scope, owner, "n", expected_revision=wrong)
        assert db.set_state(scope, owner, "n", 2, expected_revision=1) == 2
        assert db.delete_state(scope, owner, "n", expected_revision=2) is True
        assert db.delete_state(scope, owner, "n", expected_revision=0) is False
        with pytest.raises(RevisionConflict):
            db.delete_state(scope, owner, "n", expected_revision=2)

    def test_state_of_a_session(self, db: SessionDB) -> None:
        """Behaviour 132: it is a change of the session, which must exist and be free."""
        say(db, "s", "hello")
        number = session(db, "s")["revision"]
        db.set_state("session", "s", "a", 1)
        db.set_state("session", "s", "a", 2)
        db.delete_state("session", "s", "a")
        db.delete_state("session", "s", "a")
        assert session(db, "s")["revision"] == number + 3
        db.set_state("user", "s", "a", 1)
        assert session(db, "s")["revision"] == number + 3
        lease = db.take_lease("s", "a chat")
        with pytest.raises(ConversationHeld):
            db.set_state("session", "s", "a", 1)
        with pytest.raises(StaleFence):
            db.delete_state("session", "s", "a", fence=lease.token - 1)
        assert db.set_state("session", "s", "a", 1, fence=lease.token) == 1
        with pytest.raises(InvalidInput, match="fence"):
            db.set_state("user", "s", "a", 1, fence=lease.token)
        with pytest.raises(UnknownSession):
            db.set_state("session", "missing", "a", 1)
        assert db.delete_state("session", "missing", "a") is False

    def test_a_session_takes_its_state_along(self, db: SessionDB) -> None:
        """Behaviour 132: to the trash, back from it, and out of the store."""
        for name in ("s", "t"):
            say(db, name, "hello")
            db.set_state("session", name, "a", name)
        db.trash_sessions(["s"])
        assert (db.get_state("session", "s", "a"), names(db, "session", "s")) == (None, [])
        with pytest.raises(UnknownSession):
            db.set_state("session", "s", "a", 1)
        db.restore_sessions(["s"])
        assert names(db, "session", "s") == ["a"]
        db.delete_session("s")
        db.create_session("s", "cli")
        assert names(db, "session", "s") == []
        assert names(db, "session", "t") == ["a"]

    @pytest.mark.parametrize(
        "value", [math.nan, b"x", {1: 2}, (1,), object(), "x" * (1024 * 1024)], ids=type
    )
    def test_values_that_are_refused(self, db: SessionDB, value: Any) -> None:
        """Behaviour 133: the earlier value stays."""
        db.set_state("app", "x", "a", "before")
        with pytest.raises(InvalidInput, match=r"state document|State"):
            db.set_state("app", "x", "a", value)
        found = db.get_state("app", "x", "a")
        assert found is not None
        assert (found["value"], found["revision"]) == ("before", 1)

    def test_the_number_of_documents(self, db: SessionDB) -> None:
        """Behaviour 133: a thousand for each owner; those that exist can still be changed."""
        for number in range(1000):
            db.set_state("user", "anna", str(number), number)
        with pytest.raises(InvalidInput, match="1000 state documents"):
            db.set_state("user", "anna", "one more", 1)
        assert db.set_state("user", "anna", "999", 1) == 2
        assert db.set_state("user", "ben", "one more", 1) == 1
        db.delete_state("user", "anna", "0")
        assert db.set_state("user", "anna", "one more", 1) == 1

    @pytest.mark.parametrize(
        ("scope", "owner", "name"),
        [
            ("temp", "x", "a"),
            ("Session", "x", "a"),
            (None, "x", "a"),
            ("user", "", "a"),
            ("user", 5, "a"),
            ("user", "x" * 192, "a"),
            ("user", "x", ""),
            ("user", "x", None),
            ("user", "x", "a" * 192),
        ],
    )
    def test_keys_that_cannot_be_used(
        self, db: SessionDB, scope: Any, owner: Any, name: Any
    ) -> None:
        """The error says what is wrong."""
        for call in (db.get_state, db.delete_state):
            with pytest.raises(InvalidInput):
                call(scope, owner, name)
        with pytest.raises(InvalidInput):
            db.set_state(scope, owner, name, 1)
        with pytest.raises(InvalidInput, match="revision"):
            db.set_state("user", "x", "a", 1, expected_revision="1")  # type: ignore[arg-type]

    def test_forgetting_a_user(self, db: SessionDB) -> None:
        """Behaviour 134: with the state of the user's sessions; that of others stays."""
        for name, user in (("s", "anna"), ("t", "ben")):
            db.create_session(name, "cli", user_id=user)
            db.append_message(name, "user", "hello")
            db.set_state("session", name, "a", user)
            db.set_state("user", user, "a", user)
        db.set_state("app", "anna", "a", "an app of that name")
        erasure = Erasure(db.store)
        subject = ErasureSubject("user", "anna")
        assert erasure.plan(subject).places["database"]["state_documents"] == 2
        done = erasure.forget(subject).step("database")
        assert done is not None
        assert done.removed["state_documents"] == 2
        assert (names(db, "user", "anna"), names(db, "user", "ben")) == ([], ["a"])
        assert (names(db, "session", "t"), names(db, "app", "anna")) == (["a"], ["a"])


class TestStateAtOnce:
    """Concurrent callers, each with a handle of its own."""

    @every_owner
    def test_a_counter(
        self, db: SessionDB, open_another: OpenStore, scope: str, owner: str
    ) -> None:
        """Behaviour 131: no increment is lost, from the first one on."""
        db.create_session("s", "cli")
        handles = [open_another() for _ in range(THREADS)]

        def work(number: int) -> None:
            done = 0
            while done < 5:
                found = handles[number].get_state(scope, owner, "n")
                value, seen = (found["value"], found["revision"]) if found else (0, 0)
                try:
                    handles[number].set_state(scope, owner, "n", value + 1, expected_revision=seen)
                except RevisionConflict:
                    continue
                done += 1

        at_once(work)
        found = db.get_state(scope, owner, "n")
        assert found is not None
        assert (found["value"], found["revision"]) == (THREADS * 5, THREADS * 5)

    @every_owner
    def test_writes_without_a_revision(
        self, db: SessionDB, open_another: OpenStore, scope: str, owner: str
    ) -> None:
        """Behaviour 131: each gets a revision of its own, and the last one stays."""
        db.create_session("s", "cli")
        handles = [open_another() for _ in range(THREADS)]
        given = at_once(lambda n: {handles[n].set_state(scope, owner, "n", n): n})
        by_revision = {revision: n for each in given for revision, n in each.items()}
        assert sorted(by_revision) == list(range(1, THREADS + 1))
        found = db.get_state(scope, owner, "n")
        assert found is not None
        assert (found["value"], found["revision"]) == (by_revision[THREADS], THREADS)

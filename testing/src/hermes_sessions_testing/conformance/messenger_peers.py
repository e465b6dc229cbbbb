"""Chats of messengers: which session belongs to which, and the maps that gateways keep."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import ids, session

PEER: dict[str, Any] = {
    "source": "telegram",
    "user_id": "7",
    "session_key": "agent:main:telegram:dm:42",
    "chat_id": "42",
    "chat_type": "dm",
    "thread_id": None,
}


def chat(db: SessionDB, clock: FrozenClock, session_id: str, said: int = 1, **peer: Any) -> None:
    """Create a session of a chat, in which something was said; later ones start later."""
    clock.advance(1)
    given = PEER | peer
    db.create_session(session_id, given["source"])
    db.record_gateway_session_peer(session_id, **given)
    for _ in range(said):
        db.append_message(session_id, "user", "hello")


class TestMessengerPeers:
    """Sessions are found again by the chat that they belong to."""

    def test_a_chat_is_recorded(self, db: SessionDB) -> None:
        """All of it is overwritten, except a name and an origin that are not given."""
        db.create_session("s", "cli", user_id="old", thread_id="1")
        shown = {"display_name": "Anna", "origin_json": '{"platform": "telegram"}'}
        db.record_gateway_session_peer("s", **PEER, **shown)
        stored = dict(session(db, "s"))
        assert {name: stored[name] for name in PEER | shown} == PEER | shown
        other = {"source": "signal", "session_key": "other", "chat_id": 43}
        db.record_gateway_session_peer("s", **other)  # type: ignore[arg-type]
        stored = dict(session(db, "s"))
        assert (stored["source"], stored["session_key"], stored["chat_id"]) == (
            *("signal", "other", "43"),
        )
        assert (stored["user_id"], stored["chat_type"]) == (None, None)
        assert (stored["display_name"], stored["origin_json"]) == tuple(shown.values())

    def test_without_a_key_or_a_session(self, db: SessionDB) -> None:
        """Nothing is recorded."""
        db.create_session("s", "cli")
        db.record_gateway_session_peer("s", source="telegram", session_key="", chat_id="1")
        db.record_gateway_session_peer("", **PEER)
        db.record_gateway_session_peer("missing", **PEER)
        stored = session(db, "s")
        assert (stored["source"], stored["chat_id"]) == ("cli", None)
        assert db.get_session("missing") is None
        with pytest.raises(InvalidInput):
            db.record_gateway_session_peer("s", **(PEER | {"session_key": "k" * 192}))

    def test_the_latest_by_its_key(self, db: SessionDB, clock: FrozenClock) -> None:
        """The key and the source must be equal; accidental ends are no end."""
        find = db.find_latest_gateway_session_for_peer
        chat(db, clock, "old")
        chat(db, clock, "new")
        chat(db, clock, "empty", said=0)
        chat(db, clock, "elsewhere", source="Telegram")
        found = find(**PEER)
        assert found is not None
        assert found["id"] == "new"
        assert ids([find(source="telegram", session_key=PEER["session_key"]) or {}]) == ["new"]
        for reason, wanted in (
            ("agent_close", "new"),
            ("ws_orphan_reap", "new"),
            ("session_reset", "old"),
        ):
            db.reopen_session("new")
            db.end_session("new", reason)
            assert ids([find(**PEER) or {}]) == [wanted]
        assert find(**(PEER | {"session_key": None})) is None
        assert find(source="telegram", session_key="unknown") is None

    def test_the_latest_by_its_chat(self, db: SessionDB, clock: FrozenClock) -> None:
        """Without a session of this key, all else must be equal; empty is like nothing."""
        find = db.find_latest_gateway_session_for_peer
        chat(db, clock, "s", session_key="before")
        chat(db, clock, "thread", session_key="before", thread_id="9")
        assert ids([find(**PEER) or {}]) == ["s"]
        assert ids([find(**(PEER | {"thread_id": ""})) or {}]) == ["s"]
        assert ids([find(**(PEER | {"thread_id": "9"})) or {}]) == ["thread"]
        for change in ({"user_id": "8"}, {"chat_id": "43"}, {"chat_type": None}):
            assert find(**(PEER | change)) is None

    def test_hidden_messages_are_messages(self, db: SessionDB, clock: FrozenClock) -> None:
        """A chat whose messages were all rewound goes on, too."""
        chat(db, clock, "s", said=0)
        db.rewind_to_message("s", db.append_message("s", "user", "hello"))
        assert db.find_latest_gateway_session_for_peer(**PEER) is not None

    def test_chats_are_listed(self, db: SessionDB, clock: FrozenClock) -> None:
        """One row per key, the newest activity first."""
        db.create_session("no chat", "telegram")
        chat(db, clock, "old")
        chat(db, clock, "new")
        chat(db, clock, "signal", source="signal", session_key="s-key")
        clock.advance(5)
        db.append_message("new", "user", "later")
        rows = db.list_gateway_sessions()
        assert ids(rows) == ["new", "signal"]
        assert rows[0]["last_active"] == clock()
        assert ids(db.list_gateway_sessions(platform="SIGNAL")) == ["signal"]
        db.end_session("new", "session_reset")
        assert ids(db.list_gateway_sessions()) == ["signal", "old"]
        assert ids(db.list_gateway_sessions(active_only=False)) == ["new", "signal"]

    def test_a_chat_by_its_origin(self, db: SessionDB, clock: FrozenClock) -> None:
        """Platform and chat decide; a thread and a user if they are given."""
        find = db.find_session_by_origin
        chat(db, clock, "plain")
        chat(db, clock, "thread", session_key="t", thread_id="9")
        assert find(platform="TELEGRAM", chat_id=42) == "thread"
        assert find(platform="telegram", chat_id="42", thread_id="") == "plain"
        assert find(platform="telegram", chat_id="42", thread_id="9") == "thread"
        assert find(platform="telegram", chat_id="42", thread_id="8") is None
        assert find(platform="telegram", chat_id="43") is None
        for platform, chat_id in (("", "42"), ("telegram", "")):
            assert find(platform=platform, chat_id=chat_id) is None
        db.end_session("thread", "agent_close")
        assert find(platform="telegram", chat_id="42") == "plain"

    def test_chats_of_several_users(self, db: SessionDB, clock: FrozenClock) -> None:
        """A session that could be another user's is not chosen."""
        find = db.find_session_by_origin
        chat(db, clock, "a", session_key="a", user_id="7")
        assert find(platform="telegram", chat_id="42", user_id="8") == "a", "there is one only"
        chat(db, clock, "b", session_key="b", user_id="9")
        assert find(platform="telegram", chat_id="42") is None
        assert find(platform="telegram", chat_id="42", user_id="7") == "a"
        assert find(platform="telegram", chat_id="42", user_id="8") is None
        db.end_session("b", "done")
        chat(db, clock, "c", session_key="c", user_id=None)
        assert find(platform="telegram", chat_id="42") == "c", "one user, and one unknown"

    def test_the_end_of_a_session(self, db: SessionDB) -> None:
        """Whether its hooks ran is a flag."""
        db.create_session("s", "telegram")
        db.set_expiry_finalized("s")
        assert session(db, "s")["expiry_finalized"] == 1
        db.set_expiry_finalized("s", False)
        assert session(db, "s")["expiry_finalized"] == 0
        db.set_expiry_finalized("missing")


class TestGatewayRouting:
    """The map of a gateway is stored as it was given."""

    def test_a_map(self, db: SessionDB) -> None:
        """It is replaced as a whole, without touching those of other gateways."""
        assert db.load_gateway_routing_entries() == {}
        first = {"a": '{"id": 1}', "b": "no JSON", "": "x", "c": ""}
        db.replace_gateway_routing_entries(first)
        db.replace_gateway_routing_entries({"a": "other"}, scope="/home/x/sessions")
        assert db.load_gateway_routing_entries() == {"a": '{"id": 1}', "b": "no JSON"}
        db.replace_gateway_routing_entries({"b": "new", "d": "{}"})
        assert db.load_gateway_routing_entries() == {"b": "new", "d": "{}"}
        assert db.load_gateway_routing_entries(scope="/home/x/sessions") == {"a": "other"}
        assert db.load_gateway_routing_entries(scope="unknown") == {}
        db.replace_gateway_routing_entries({})
        db.replace_gateway_routing_entries(None, scope="/home/x/sessions")
        assert db.load_gateway_routing_entries() == {}
        assert db.load_gateway_routing_entries(scope="/home/x/sessions") == {}

    def test_single_entries(self, db: SessionDB) -> None:
        """They are overwritten and deleted by their key."""
        db.save_gateway_routing_entry("a", "1")
        db.save_gateway_routing_entry("a", "2")
        db.save_gateway_routing_entry("b", "3", scope="s")
        db.save_gateway_routing_entry("", "4")
        db.save_gateway_routing_entry("c", "")
        assert db.load_gateway_routing_entries() == {"a": "2"}
        db.delete_gateway_routing_entries(["a", "", "unknown"], scope="s")
        assert db.load_gateway_routing_entries() == {"a": "2"}
        db.delete_gateway_routing_entries(["a"])
        assert db.load_gateway_routing_entries() == {}
        assert db.load_gateway_routing_entries(scope="s") == {"b": "3"}

    def test_what_cannot_be_stored(self, db: SessionDB) -> None:
        """Then the map stays as it was."""
        db.replace_gateway_routing_entries({"a": "1"})
        wrong: list[dict[Any, Any]] = [{"b": {"no": "text"}}, {5: "x"}, {"k" * 192: "x"}]
        for entries in wrong:
            with pytest.raises(InvalidInput):
                db.replace_gateway_routing_entries(entries)
        with pytest.raises(InvalidInput):
            db.replace_gateway_routing_entries({"a": "2"}, scope="s" * 192)
        assert db.load_gateway_routing_entries() == {"a": "1"}

"""Scopes: for the caller, sessions out of scope do not exist.

The strongest form of that: whatever others store, every answer stays the one it was before.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.search import candidate_reader
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.text.query.filters import SearchConditions
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import compress, exchange, found, ids, say

#: Text that only other users have written.
PLACE = "Zanzibar"
ANNA = Scope(user_id="anna")

#: Methods about one session and one of its messages.
ABOUT_A_SESSION: dict[str, Callable[[SessionDB, str, int, Scope], Any]] = {
    "get_session": lambda db, sid, mid, scope: db.get_session(sid, scope=scope),
    "list_conversation": lambda db, sid, mid, scope: db.list_conversation(sid, scope=scope),
    "get_messages": lambda db, sid, mid, scope: db.get_messages(sid, scope=scope),
    "get_messages_around": lambda db, sid, mid, scope: db.get_messages_around(
        sid, mid, scope=scope
    ),
    "get_anchored_view": lambda db, sid, mid, scope: db.get_anchored_view(
        sid, mid, keep_roles=None, scope=scope
    ),
}
#: Methods that list or search.
ABOUT_ALL: dict[str, Callable[[SessionDB, Scope], Any]] = {
    "list_sessions_rich": lambda db, scope: db.list_sessions_rich(limit=-1, scope=scope),
    "list_sessions_rich by start": lambda db, scope: db.list_sessions_rich(
        limit=-1, order_by_last_active=False, scope=scope
    ),
    "list_sessions_rich heads": lambda db, scope: db.list_sessions_rich(
        limit=-1, project_compression_tips=False, scope=scope
    ),
    "list_sessions_rich with children": lambda db, scope: db.list_sessions_rich(
        limit=-1, include_children=True, scope=scope
    ),
    "search_messages": lambda db, scope: db.search_messages("kettle", limit=-1, scope=scope),
    "search": lambda db, scope: [
        hit.as_dict() for hit in db.search("kettle", limit=1000, scope=scope).hits
    ],
}

QUERIES = (
    "kettle",
    "kettle OR pot",
    '"kettle is blue"',
    "kett*",
    "*ettl*",
    "-kettle",
    "NOT zeppelin",
    "the kettle and the pot of which",
    "kettle zeppelin",
    "ettl",
    PLACE,
    f"{PLACE} kettle",
    f"*{PLACE[1:5]}*",
    "user:bert kettle",
    "-user:bert kettle",
    f"source:{PLACE} kettle",
    f'in:"Kettle {PLACE}" kettle',
    "session:b kettle",
    "session:a kettle",
    "session:a-p kettle",
    f"model:m-{PLACE} kettle",
    f"tool:{PLACE} kettle",
    "has:error kettle",
    "has:title",
    "after:2001",
    "before:2001 kettle",
    "nothing at all like it",
)

ORDERS = ("relevance", "newest", "oldest")
CONDITIONS = (None, SearchConditions(sessions=("a", "b")), SearchConditions(roles=("user",)))


def fill_for_anna(db: SessionDB, clock: FrozenClock) -> None:
    """Store messages of the calling user."""
    say(db, "a-plan", "the kettle is blue", "the pot is red", user_id="anna", title="Kettles")
    compress(db, clock, "a-plan", "a-more", user_id="anna")
    exchange(db, "a-more", "the kettle again")
    say(db, "a-run", "kettle check", source="cron", user_id="anna")
    clock.advance(60)
    say(db, "a-long", *[f"kettle {number}" for number in range(40)], user_id="anna")


def plant_for_others(db: SessionDB, clock: FrozenClock) -> list[int]:
    """Store text of other users wherever it could leak; return the ids of its messages."""
    said = f"kettle {PLACE} pot"
    bert: dict[str, Any] = {"user_id": "bert", "model": f"m-{PLACE}"}
    stored = say(db, "b-own", said, said, title=f"Kettle {PLACE}", **bert)
    # In conversations of the calling user.
    parents = {"b-branch": ("a-plan", "branch"), "b-helper": ("a-more", "subagent")}
    parents["b-next"] = ("a-more", "compression")
    for session_id, (parent, kind) in parents.items():
        stored += say(db, session_id, said, parent_session_id=parent, edge_kind=kind, **bert)
    stored += say(db, f"{PLACE}-id", said, source=PLACE, **bert)
    stored += say(db, "nobody", said)
    # Ids that are prefixes of the calling user's ids.
    stored += say(db, "a", said, **bert)
    stored += say(db, "a-p", said, **bert)
    clock.advance(60)
    stored += say(db, "b-noisy", *[said] * 300, **bert)
    call = [{"id": "c", "function": {"name": PLACE, "arguments": json.dumps([said])}}]
    stored.append(db.append_message("b-own", "assistant", said, tool_calls=call))
    stored.append(db.append_message("b-own", "tool", f"error {said}", tool_name=PLACE))
    for number in range(60):
        say(db, f"b-titled{number}", "hello", title=f"Kettle {PLACE} {number}", **bert)
    return stored


def answers(db: SessionDB, scope: Scope) -> dict[str, Any]:
    """Return the results of every query that must not depend on other users."""
    told: dict[str, Any] = {}
    for number, query in enumerate(QUERIES):
        # Every query plainly, in every order and on every condition; over all queries, every
        # order on every condition.
        turned = CONDITIONS[number % 3 :] + CONDITIONS[: number % 3]
        for sort, conditions in [("relevance", None), *zip(ORDERS, turned, strict=True)]:
            if (name := f"{query} {sort} {conditions}") in told:
                continue
            answer = db.search(query, sort=sort, conditions=conditions, scope=scope, limit=15)
            account = asdict(answer.report)
            account.pop("elapsed_ms")
            told[name] = (
                [hit.as_dict() for hit in answer.hits],
                answer.next_cursor is None,
                account,
            )
        rows = db.search_messages(query, sort=ORDERS[number % 3], limit=-1, scope=scope)
        told[f"{query} documented"] = rows
    return told


class TestScope:
    """Every read with a scope returns only what the scope allows."""

    def test_what_others_store_changes_no_answer(self, db: SessionDB, clock: FrozenClock) -> None:
        """No hit, count, order, score, reading or note."""
        fill_for_anna(db, clock)
        before = answers(db, ANNA)
        others = plant_for_others(db, clock)
        after = answers(db, ANNA)
        assert {asked: told for asked, told in after.items() if told != before[asked]} == {}
        shown = {
            row["id"] for asked, told in after.items() if "documented" in asked for row in told
        }
        assert shown
        assert not shown & set(others)
        assert len(found(db, f"{PLACE} kettle", limit=1_000)) > 300

    def test_pages_of_what_is_in_scope(self, db: SessionDB, clock: FrozenClock) -> None:
        """They join to the whole, whatever lies between."""
        fill_for_anna(db, clock)
        plant_for_others(db, clock)
        for sort in ("relevance", "newest", "oldest"):
            options: dict[str, Any] = {"sort": sort, "scope": ANNA}
            whole = [hit.id for hit in db.search("kettle", limit=100, **options).hits]
            assert len(whole) == 43
            shown: list[int] = []
            cursor = None
            while True:
                answer = db.search("kettle", limit=10, cursor=cursor, **options)
                shown += [hit.id for hit in answer.hits]
                if (cursor := answer.next_cursor) is None:
                    break
            assert shown == whole

    @pytest.mark.parametrize("verb", ABOUT_A_SESSION)
    def test_no_verb_tells_about_a_session_out_of_scope(
        self, db: SessionDB, clock: FrozenClock, verb: str
    ) -> None:
        """For any session and message."""
        fill_for_anna(db, clock)
        plant_for_others(db, clock)
        sessions = db.list_sessions_rich(limit=-1, include_children=True)
        told = {
            scope: json.dumps(
                [
                    ABOUT_A_SESSION[verb](db, session["id"], message["id"], scope)
                    for session in sessions
                    for message in db.get_messages(session["id"], limit=1)
                ]
            )
            for scope in (ANNA, OWNER)
        }
        assert PLACE in told[OWNER]
        assert PLACE not in told[ANNA]
        assert '"nobody"' not in told[ANNA]
        assert '"a-long"' in told[ANNA]

    @pytest.mark.parametrize("verb", ABOUT_ALL)
    def test_no_verb_lists_or_finds_what_is_out_of_scope(
        self, db: SessionDB, clock: FrozenClock, verb: str
    ) -> None:
        """Not even sessions without a user."""
        fill_for_anna(db, clock)
        plant_for_others(db, clock)
        told = {scope: json.dumps(ABOUT_ALL[verb](db, scope)) for scope in (ANNA, OWNER)}
        assert PLACE in told[OWNER]
        assert PLACE not in told[ANNA]
        assert '"nobody"' not in told[ANNA]
        assert '"a-long"' in told[ANNA]

    def test_a_session_out_of_scope_does_not_lead_to_its_conversation(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """Although the conversation has sessions in scope."""
        fill_for_anna(db, clock)
        plant_for_others(db, clock)
        assert db.list_conversation("b-branch", scope=ANNA) == []
        assert ids(db.list_conversation("a-more", scope=ANNA)) == ["a-plan", "a-more"]

    def test_titles_of_others_are_not_looked_through(
        self, db: SessionDB, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Limits count only visible messages, so users find theirs among any number of others."""
        say(db, "own", "hello", title="My kettle", user_id="anna")
        for number in range(2 * candidate_reader.MAX_TITLES + 10):
            say(db, f"b-titled{number}", "hello", title=f"A kettle {number}", user_id="bert")
        monkeypatch.setattr(candidate_reader, "SCANNED_TITLES", 2 * candidate_reader.MAX_TITLES)
        for query in ("kettle", "kett*", "*ettl*", "ettl", "kettle zeppelin"):
            for sort in ORDERS:
                answer = db.search(query, sort=sort, scope=ANNA)
                assert [hit.session_id for hit in answer.hits] == ["own"], query
                assert answer.report.total == 1, query

    def test_by_source_and_by_conversation(self, db: SessionDB) -> None:
        """All conditions of a scope must hold; an empty list of conversations allows nothing."""
        say(db, "here", "kettle", source="telegram", user_id="anna")
        say(db, "there", "kettle", source="discord", user_id="anna")
        say(db, "room", "kettle", source="telegram")
        cases = {
            Scope(user_id="anna", source="telegram"): {"here"},
            Scope(source="discord"): {"there"},
            Scope(source="telegram"): {"here", "room"},
            Scope(conversation_ids=("room", "there")): {"room", "there"},
            Scope(user_id="anna", conversation_ids=("room", "there")): {"there"},
            Scope(conversation_ids=()): set(),
            Scope(user_id="nobody"): set(),
            Scope(user_id=""): set(),
            OWNER: {"here", "room", "there"},
        }
        for scope, expected in cases.items():
            listed = db.list_sessions_rich(scope=scope)
            rows = db.search_messages("kettle", scope=scope)
            answer = db.search("kettle", scope=scope)
            assert {row["id"] for row in listed} == expected
            assert {row["session_id"] for row in rows} == expected
            assert {hit.session_id for hit in answer.hits} == expected
            assert answer.report.total == len(expected)
            assert {
                sid for sid in ("here", "there", "room") if db.get_session(sid, scope=scope)
            } == (expected)

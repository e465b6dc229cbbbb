"""Hostile text: whatever is stored or asked is text, to the database and to its search engine."""

from __future__ import annotations

from itertools import cycle
from typing import Any, Final

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.testing.conformance.helpers import say
from hermes_sessions.text.query.filters import Conditions

#: What breaks out of SQL, out of a full-text engine's language, out of formatting and out of text.
ATTACKS: Final = (
    "'; DROP TABLE messages; --",
    "x'); DELETE FROM sessions; --",
    '" OR 1=1 --',
    "' OR '1'='1",
    "x' UNION SELECT sql FROM sqlite_master --",
    "%' OR content LIKE '%",
    "\\'; DROP TABLE messages; --",
    "\\",
    "''''''",
    '""""""',
    "`messages`; --",
    "/* comment */ x -- y",
    "1; SELECT pg_sleep(0)",
    "U&'\\0027' E'\\'' $$x$$ $tag$x$tag$",
    "CHAR(39) 0x27 @@version",
    "? ?1 :name @name $1 %s %(name)s {0} {name}",
    "%n%x%s %% %",
    "search_index MATCH 'x'",
    "tokens : x content:secret {tokens}: x - y",
    "NEAR(a b, 5) ^start a + b col1:val",
    '"a" NOT "b" AND ("c" OR',
    "a <-> b & !c | d:*AB",
    "+must -mustnot >more <less ~no (grouped) 'q' @3",
    "*" * 40,
    "(" * 200 + "x" + ")" * 199,
    "-" * 50 + "x",
    "NOT " * 100 + "x",
    "x AND " * 100,
    "a\x00b",
    "\x00",
    "\ud800 lone \udfff",
    "\ufdd00000 \ufdd0",
    "\ufffe\uffff\U0010ffff",
    "\x1a\x08\x7f\x1b[31m",
    "\u202e reversed \u2066 \u200b\u200d",
    "a\u0301" + "\u0301" * 500,
    "'\u2019\u02bc OR 1=1 \uff07 \uff02",
    "\r\n;\n\t;",
    ">>>marked<<<",
    "<script>alert('x')</script>",
    "0" * 400,
    "1e309 -0 NaN NULL true",
    "source:' role:\" session:% in:_ model:%_ tool:\\ has:'",
)
#: Those that can be names: ids are bounded.
NAMES: Final = tuple(attack for attack in ATTACKS if len(attack) <= 100)


def without_quotes(text: str) -> str:
    """Return a piece of text that can be typed between quotes and stars."""
    pieces = text.translate(dict.fromkeys(map(ord, '"\u201c\u201d\uff02'), "\n")).split("\n")
    return max((piece.strip() for piece in pieces), key=len)


def state(db: SessionDB) -> Any:
    """Return everything that is stored."""
    return sorted(db.export_all(), key=lambda record: record["id"]), db.get_stats()["messages"]


class TestHostileText:
    """No query and no value changes the store, fails, or means more than it says."""

    def test_as_questions(self, db: SessionDB) -> None:
        """Behaviours 63, 68 and 71: answered, and nothing is changed."""
        say(db, "s", "something harmless", "another message", title="A title")
        before = state(db)
        # An odd number of forms: each attack in both orders, and the next one the other way round.
        orders = cycle(("relevance", "newest"))
        for attack in ATTACKS:
            for query in (attack, f'"{attack}"', f"*{attack}*", f"({attack})", f"{attack}*"):
                answer = db.search(query, sort=next(orders), scope=Scope(source="cli"))
                assert answer.account.complete, query
            assert isinstance(db.search_messages(attack), list)
        assert state(db) == before

    def test_as_texts(self, db: SessionDB) -> None:
        """Behaviour 71: stored and found as they are."""
        stored = dict(zip(say(db, "s", *ATTACKS), ATTACKS, strict=True))
        before = state(db)
        for number, attack in stored.items():
            piece = without_quotes(attack)
            if piece.strip("*"):
                hits = db.search(f'*"{piece}"*', limit=100, relax=False, sort="oldest").hits
                assert number in {hit.id for hit in hits}, attack
        assert [message["content"] for message in db.get_messages("s")] == list(ATTACKS)
        assert len(db.search("role:user OR role:assistant", limit=100).hits) == len(ATTACKS)
        db.optimize_search(rebuild=True)
        assert state(db) == before

    def test_their_words_are_found(self, db: SessionDB) -> None:
        """Behaviour 71: as words, whatever signs stand around them."""
        say(db, "s", *ATTACKS, "drop the table of messages")
        expected = {
            '"drop table messages"': 2,
            "sqlite_master": 1,
            "pg_sleep": 1,
            '"near a b 5"': 1,
            "grouped mustnot": 1,
            '"script alert x script"': 1,
            "reversed": 1,
            "marked": 1,
        }
        answers = {query: len(db.search(query, relax=False).hits) for query in expected}
        assert answers == expected

    @pytest.mark.parametrize(
        "name",
        ["sources", "roles", "tools", "models", "users", "sessions", "titles", "conversations"],
    )
    def test_as_values_of_filters(self, db: SessionDB, name: str) -> None:
        """Behaviour 68: a value that nothing has keeps nothing, and excludes nothing."""
        say(db, "s", "something harmless", title="A title", model="m", user_id="u")
        before = state(db)
        for attack in ATTACKS:
            wanted: dict[str, Any] = {name: (attack,)}
            hits = db.search("harmless", conditions=Conditions(**wanted)).hits
            assert hits == [], attack
        unwanted: dict[str, Any] = {"exclude_" + name: (*ATTACKS, "none")}
        assert len(db.search("harmless", conditions=Conditions(**unwanted)).hits) == 1
        assert state(db) == before

    def test_as_other_parameters(self, db: SessionDB) -> None:
        """Behaviour 71: a scope that nobody has sees nothing; a cursor that is none is an error."""
        say(db, "s", "something harmless", user_id="u")
        before = state(db)
        for number, attack in enumerate(ATTACKS):
            scopes = (
                Scope(user_id=attack),
                Scope(source=attack),
                Scope(conversation_ids=(attack,)),
            )
            for scope in scopes:
                assert db.search("harmless", scope=scope).hits == [], attack
            assert db.search_messages("harmless", scope=scopes[number % 3]) == [], attack
            with pytest.raises(InvalidInput):
                db.search("harmless", cursor=attack)
        assert db.search_messages("harmless", source_filter=list(ATTACKS)) == []
        assert db.search_messages("harmless", role_filter=list(ATTACKS)) == []
        assert len(db.search_messages("harmless", exclude_sources=list(ATTACKS))) == 1
        assert state(db) == before

    def test_as_names_of_sessions(self, db: SessionDB) -> None:
        """Behaviour 68: each is found by its own id, source, user and model, and by no other's."""
        for attack in NAMES:
            say(db, attack, "harmless", source=attack, user_id=attack, model=attack)
        for attack in NAMES:
            for conditions in (
                Conditions(sessions=(attack,)),
                Conditions(sources=(attack,)),
                Conditions(users=(attack,)),
                Conditions(conversations=(attack,)),
            ):
                hits = db.search("harmless", conditions=conditions).hits
                assert [hit.session_id for hit in hits] == [attack]
            hits = db.search("harmless", conditions=Conditions(models=(attack,)), limit=100).hits
            assert attack in {hit.session_id for hit in hits}
            rows = db.search_messages("harmless", scope=Scope(user_id=attack, source=attack))
            assert [row["session_id"] for row in rows] == [attack]

    def test_as_names_of_tools(self, db: SessionDB) -> None:
        """Behaviour 68: by the name of the tool that answered, and of the one that was called."""
        db.create_session("s", "cli")
        for attack in NAMES:
            call = {"id": "c", "function": {"name": attack, "arguments": "{}"}}
            called = db.append_message("s", "assistant", "harmless", tool_calls=[call])
            answered = db.append_message("s", "tool", "harmless", tool_name=attack)
            hits = db.search("harmless", conditions=Conditions(tools=(attack,))).hits
            assert {hit.id for hit in hits} == {called, answered}, attack

    @pytest.mark.parametrize(
        "wrong",
        [
            {"query": 5},
            {"query": b"x"},
            {"query": ["x"]},
            {"limit": None},
            {"limit": "5"},
            {"limit": 1.5},
            {"scope": None},
            {"scope": "anna"},
            {"scope": {"user_id": "anna"}},
        ],
        ids=str,
    )
    def test_values_of_other_types(self, db: SessionDB, wrong: dict[str, Any]) -> None:
        """They are refused with words; above all, what is no scope is not everything."""
        say(db, "s", "x")
        given: dict[str, Any] = {"query": "x", **wrong}
        for verb in (db.search, db.search_messages):
            with pytest.raises(InvalidInput, match="must be"):
                verb(**given)

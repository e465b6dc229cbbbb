"""Hostile text: the database and its search engine treat stored text and queries as text."""

from __future__ import annotations

from itertools import cycle, product
from random import Random
from typing import Any, Final

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.text.query.filters import SearchConditions
from hermes_sessions_testing.conformance.helpers import say, unmarked

# Search operators: they hold in every relaxation step.

#: Words of several kinds, none inside another: plain, with an accent, a path, runs of
#: characters without blanks, a common word, an emoji.
_WORDS: Final = ("otter", "café", "src/lynx.py", "数据库", "こんにちは", "what", "🚀")
#: For each word, the text that a relaxed query finds instead.
_NEARLY: Final = ("otters", "cafeteria", "lynx", "数据", "こん", "whatever", "🛰")


def relaxed(db: SessionDB, query: str, **options: Any) -> set[str]:
    """Return the snippets that a query finds in any relaxation step."""
    hits = db.search(query, limit=100, **options).hits
    listed = db.search_messages(query, limit=-1, **options)
    assert {hit.id for hit in hits} == {row["id"] for row in listed}
    return {unmarked(hit.snippet) for hit in hits}


class TestSearchOperators:
    """Only loose words are relaxed; operators and quotes are kept."""

    def test_no_side_is_found_alone(self, db: SessionDB) -> None:
        """Not by common words, other forms, any word, parts of a term, or inside words."""
        say(
            db,
            "s",
            *_WORDS,
            *_NEARLY,
            *(f"{a} and {b}" for a, b in zip(_NEARLY, _WORDS, strict=True)),
        )
        for first, second in product(_WORDS, _WORDS):
            if first == second:
                continue
            for query in (
                f"{first} AND {second}",
                f"+{first} +{second}",
                f'"{first}" "{second}"',
                f'+"{first}" AND ({second})',
                f"({first} AND {second}) OR zeppelin",
                f"zeppelin OR (+{second} +{first})",
                f"blimp ({first} AND {second})",
            ):
                assert relaxed(db, query) == set(), query
        both = "otter, what about 数据库?"
        db.append_message("s", "user", both)
        for query in ("otter AND what", "+数据库 +otter", '"otter" "what"', "what AND 数据库"):
            assert relaxed(db, query) == {both}, query

    def test_what_is_loose_beside_an_operator(self, db: SessionDB) -> None:
        """Is relaxed, while the rest holds; what has more of it stands first."""
        say(db, "s", "an otter swims", "an otter dives deep", "a seal dives", "the deep sea")
        query = "+otter diving deep zeppelin"
        assert relaxed(db, query) == {"an otter swims", "an otter dives deep"}
        answer = db.search(query)
        assert answer.report.step == "any of the words"
        assert unmarked(answer.hits[0].snippet) == "an otter dives deep"
        assert relaxed(db, '"an otter" zeppelin') == {"an otter swims", "an otter dives deep"}
        assert relaxed(db, "+otter wim") == {"an otter swims", "an otter dives deep"}
        assert relaxed(db, "(seal OR sea) zeppelin") == {"a seal dives", "the deep sea"}

    def test_phrases_stay_whole(self, db: SessionDB) -> None:
        """Neither their words nor pieces of longer words are enough."""
        say(db, "s", "nightly backups ran", "backups ran nightly", "fortnightly backupsets")
        assert relaxed(db, '"nightly backups" zeppelin') == {"nightly backups ran"}
        assert relaxed(db, '"backups nightly"') == set()
        assert relaxed(db, '"nightly backupset"') == set()
        assert relaxed(db, '"ran nightly" "nightly backups"') == set()

    def test_what_is_excluded_stays_absent(self, db: SessionDB) -> None:
        """Also inside alternatives and groups, and in a message that its title finds."""
        say(db, "s", "otter and seal", "otter", "lynx")
        for query, expected in {
            "otters -seal": {"otter"},
            "otters zeppelin NOT seal": {"otter"},
            "(otters -seal) OR zeppelins": {"otter"},
            "zeppelin (otters -seal)": {"otter"},
            "zeppelin OR (otters blimp NOT seal)": {"otter"},
            "zeppelins AND NOT seal": set(),
        }.items():
            assert relaxed(db, query) == expected, query
        say(db, "t", "a seal sleeps", title="Walrus")
        assert relaxed(db, "walrus -seal") == set()
        assert relaxed(db, "(walrus -seal) OR zeppelin") == set()
        assert relaxed(db, "(walrus -fish) OR zeppelin") == {"Walrus"}

    def test_filters_and_operators(self, db: SessionDB) -> None:
        """A filter that is joined is one; both hold in every reading."""
        say(db, "s", "otter", "seal")
        say(db, "t", "otter and seal", source="telegram")
        assert relaxed(db, "otter AND source:cli AND seal") == set()
        assert relaxed(db, "otter AND +source:telegram seal") == {"otter and seal"}
        only = SearchConditions(sources=("cli",))
        assert relaxed(db, "+otter +seal", conditions=only) == set()
        assert relaxed(db, "+otter +seal source:telegram", conditions=only) == set()

    def test_what_matched_of_each_side(self, db: SessionDB) -> None:
        """When nothing matches all sides, the account counts each of them."""
        say(db, "s", "otter one", "otter two", "seal", "otter and lynx")
        for query, sides in {
            "otter AND seal": {"otter": 3, "seal": 1},
            "+otter +zeppelin": {"otter": 3, "zeppelin": 0},
            '"otter two" "seal"': {'"otter two"': 1, '"seal"': 1},
            '"two otter"': {'"two otter"': 0},
            "lynx -otter": {"lynx": 1, "NOT otter": 1},
            "(seal OR lynx) AND two": {"(seal OR lynx)": 2, "two": 1},
            "otter AND seal source:telegram": {"otter": 0, "seal": 0},
        }.items():
            for relax in (True, False):
                account = db.search(query, relax=relax).report
                assert (account.total, account.sides) == (0, sides), query
                assert any("Remove operators" in note for note in account.notes), query
        assert db.search("otter AND lynx").report.sides == {}
        assert db.search("zeppelin blimp").report.sides == {}
        assert db.search("otter AND seal", count=False).report.sides == {}
        (note,) = db.search("otter AND seal").report.notes
        assert note == (
            "No message matches all of: otter (3), seal (1). Remove operators and quotes "
            "to find messages that match some of them."
        )

    def test_any_question_against_a_plain_reading(self, db: SessionDB) -> None:
        """What is required and excluded holds in what any question finds, within its filters."""
        chosen = Random(11)  # noqa: S311 - the same questions each time
        words = ("ant", "bee", "cow", "dog", "elk", "fox")
        texts = [" ".join(chosen.sample(words, chosen.randint(1, 4))) for _ in range(60)]
        for source in ("cli", "telegram"):
            half = texts[::2] if source == "cli" else texts[1::2]
            say(db, source, *half, source=source)
        asked = {"cli": texts[::2], "telegram": texts[1::2]}
        for _ in range(150):
            needed = chosen.sample(words, chosen.randint(1, 3))
            rest = [word for word in words if word not in needed]
            absent, loose = chosen.sample(rest, chosen.randint(0, 1)), chosen.choice([[], ["gnu"]])
            joined = chosen.choice([" AND ".join(needed), " ".join(f"+{w}" for w in needed)])
            if chosen.random() < 0.3:
                needed = [" ".join(needed)]
                joined = f'"{needed[0]}"'
            given = chosen.choice([("cli",), ("telegram",), ("cli", "telegram")])
            text = chosen.choice([None, "cli", "telegram"])
            query = " ".join(
                [f"({joined})", *(f"-{w}" for w in absent), *loose]
                + ([f"source:{text}"] if text else [])
            )
            expected = {
                said
                for source in given
                if text in (None, source)
                for said in asked[source]
                if all(f" {part} " in f" {said} " for part in needed)
                and not any(word in said.split() for word in absent)
            }
            found = relaxed(db, query, conditions=SearchConditions(sources=given))
            assert found == expected, (query, given)


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
    """No query or value changes the store, fails, or matches more than its text."""

    def test_as_questions(self, db: SessionDB) -> None:
        """Behaviours 63, 68 and 71: a result is returned, and nothing is changed."""
        say(db, "s", "something harmless", "another message", title="A title")
        before = state(db)
        # An odd number of forms: each attack in both orders, and the next one the other way round.
        orders = cycle(("relevance", "newest"))
        for attack in ATTACKS:
            for query in (attack, f'"{attack}"', f"*{attack}*", f"({attack})", f"{attack}*"):
                answer = db.search(query, sort=next(orders), scope=Scope(source="cli"))
                assert answer.report.complete, query
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
        """Behaviour 68: an unknown value matches nothing and excludes nothing."""
        say(db, "s", "something harmless", title="A title", model="m", user_id="u")
        before = state(db)
        for attack in ATTACKS:
            wanted: dict[str, Any] = {name: (attack,)}
            hits = db.search("harmless", conditions=SearchConditions(**wanted)).hits
            assert hits == [], attack
        unwanted: dict[str, Any] = {"exclude_" + name: (*ATTACKS, "none")}
        assert len(db.search("harmless", conditions=SearchConditions(**unwanted)).hits) == 1
        assert state(db) == before

    def test_as_other_parameters(self, db: SessionDB) -> None:
        """Behaviour 71: the scope of an unknown user is empty; an invalid cursor is an error."""
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
                SearchConditions(sessions=(attack,)),
                SearchConditions(sources=(attack,)),
                SearchConditions(users=(attack,)),
                SearchConditions(conversations=(attack,)),
            ):
                hits = db.search("harmless", conditions=conditions).hits
                assert [hit.session_id for hit in hits] == [attack]
            hits = db.search(
                "harmless", conditions=SearchConditions(models=(attack,)), limit=100
            ).hits
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
            hits = db.search("harmless", conditions=SearchConditions(tools=(attack,))).hits
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
        """They raise errors; above all, an invalid scope never means everything."""
        say(db, "s", "x")
        given: dict[str, Any] = {"query": "x", **wrong}
        for verb in (db.search, db.search_messages):
            with pytest.raises(InvalidInput, match="must be"):
                verb(**given)


#: Questions, and the message that answers each.
ANSWERED = {
    "Wann haben wir die Datenbank migriert?": "Die Migration der Datenbanken lief am Dienstag",
    "¿Cuándo actualizamos los contenedores?": "El contenedor se actualizó el viernes",
    "Когда мы обновили базу данных?": "Обновление баз данных прошло ночью",
    "Kiedy zaktualizowaliśmy serwery?": "Serwer został zaktualizowany w piątek",
    "Milloin päivitimme palvelimet?": "Palvelimen päivitys tehtiin maanantaina",
    "متى قمنا بتحديث الخوادم؟": "تم تحديث الخادم يوم الثلاثاء",
    "什么时候迁移了数据库？": "数据库的迁移在星期二完成",
    "kubernets upgrade": "The kubernetes cluster was upgraded",
    "k8s nodes": "two kubernetes nodes are gone",
    "parseQuery bug": "the bug is in parse_query",
    "Herr Mueller": "Müller hat angerufen",
    "поездка Moskva": "a trip to Москва",
}


class TestLanguages:
    """Questions in other languages, misspellings, synonyms and other spellings find answers."""

    def test_answers_are_found(self, db: SessionDB) -> None:
        """Each question finds its answer first, among the others."""
        say(db, "s", *ANSWERED.values(), "something else", "noch etwas")
        found = {question: db.search(question, limit=1).hits for question in ANSWERED}
        assert {q: hits[0].snippet_text if hits else None for q, hits in found.items()} == ANSWERED

    def test_misspellings_only_for_unknown_words(self, db: SessionDB) -> None:
        """A word that some message has stands for itself."""
        say(db, "s", "a terminal here", "one terminus there")
        assert len(db.search("terminal zeppelin").hits) == 1
        (hit,) = db.search("termnial zeppelin").hits
        assert hit.snippet == "a >>>terminal<<< here"
        assert db.search('"termnial" AND zeppelin').hits == []

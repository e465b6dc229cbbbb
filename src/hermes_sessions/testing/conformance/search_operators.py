"""Operators of a search: what is joined, required, quoted or excluded holds in every reading."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any, Final

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.testing.conformance.helpers import say, unmarked
from hermes_sessions.text.query.filters import Conditions

#: Words of several kinds, none of which is inside another: plain, with an accent, a path, runs of
#: characters without blanks, a common word, an emoji.
_WORDS: Final = ("otter", "café", "src/lynx.py", "数据库", "こんにちは", "what", "🚀")
#: Of each word: what a looser reading finds instead of it.
_NEARLY: Final = ("otters", "cafeteria", "lynx", "数据", "こん", "whatever", "🛰")


def relaxed(db: SessionDB, query: str, **options: Any) -> set[str]:
    """Return what a query finds, in whatever reading: the texts, if they are short."""
    hits = db.search(query, limit=100, **options).hits
    listed = db.search_messages(query, limit=-1, **options)
    assert {hit.id for hit in hits} == {row["id"] for row in listed}
    return {unmarked(hit.snippet) for hit in hits}


class TestSearchOperators:
    """A question is relaxed where it is loose; operators and quotes bind."""

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
        assert answer.account.step == "any of the words"
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
        only = Conditions(sources=("cli",))
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
                account = db.search(query, relax=relax).account
                assert (account.total, account.sides) == (0, sides), query
                assert any("leave" in note for note in account.notes), query
        assert db.search("otter AND lynx").account.sides == {}
        assert db.search("zeppelin blimp").account.sides == {}
        assert db.search("otter AND seal", count=False).account.sides == {}
        (note,) = db.search("otter AND seal").account.notes
        assert note == (
            "No message matches all of: otter (3), seal (1). Operators and quotes bind; leave "
            "them out to find messages that match in part."
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
            found = relaxed(db, query, conditions=Conditions(sources=given))
            assert found == expected, (query, given)

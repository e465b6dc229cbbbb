"""Titles: cleaning, uniqueness, and the numbered family of one title."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.errors import InvalidTitle, TitleTaken
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import bases_of, branch, compress, session


def titled(db: SessionDB, clock: FrozenClock, *titles: str) -> None:
    """Create a session for each title, under the title as its id, one second apart."""
    for title in titles:
        clock.advance(1)
        db.create_session(title, "cli")
        assert db.set_session_title(title, title) is True


class TestTitles:
    """A title is cleaned, unique, and can be continued by a number."""

    @pytest.mark.parametrize(
        ("given", "stored"),
        [
            pytest.param("\t a \n b  ", "a b", id="behaviour 11: white space becomes one blank"),
            pytest.param("a\x0bb\x0cc", "abc", id="behaviour 12: controls vanish"),
            pytest.param("a\x00b\x1fc\x7fd", "abcd", id="behaviour 12: NUL and DEL vanish"),
            pytest.param("a\x80b\x9b31mc\x9fd", "ab31mcd", id="the other controls vanish, too"),
            pytest.param("a\u2028b\u2029c", "abc", id="behaviour 13: line separators vanish"),
            pytest.param("\ufeff", None, id="behaviour 14: nothing visible is no title"),
            pytest.param("a\u200bb\u202ec\u2066d\ufffce", "abcde", id="invisible marks vanish"),
            pytest.param("a\u0085b\u00a0c\u3000d", "a b c d", id="blanks of all kinds"),
            pytest.param("a\u00adb\u180ec", "a\u00adb\u180ec", id="soft hyphen stays"),
            pytest.param("日本語 🎉 Ünï", "日本語 🎉 Ünï", id="all alphabets stay"),
        ],
    )
    def test_a_title_is_cleaned(self, db: SessionDB, given: str, stored: str | None) -> None:
        """Behaviours 11 to 14: `sanitize_title` says what `set_session_title` stores."""
        db.create_session("s", "cli")
        assert db.set_session_title("s", given) is True
        assert SessionDB.sanitize_title(given) == stored
        assert db.get_session_title("s") == stored

    def test_a_title_has_at_most_a_hundred_characters(self, db: SessionDB) -> None:
        """Behaviour 15: counted after cleaning; the error states both numbers."""
        db.create_session("s", "cli")
        for letter in ("x", "語", "🎉"):
            assert db.set_session_title("s", f"  {letter * 100}  ") is True
            assert db.get_session_title("s") == letter * 100
        with pytest.raises(InvalidTitle) as raised:
            db.set_session_title("s", "x" * 101)
        assert "ValueError" in bases_of(raised.value)
        assert "101" in str(raised.value)
        assert "100" in str(raised.value)
        assert db.get_session_title("s") == "🎉" * 100
        assert SessionDB.MAX_TITLE_LENGTH == 100

    def test_a_title_is_text(self, db: SessionDB) -> None:
        """Something else is a TypeError."""
        db.create_session("s", "cli")
        not_text: Any = 5
        with pytest.raises(TypeError):
            db.set_session_title("s", not_text)
        with pytest.raises(TypeError):
            SessionDB.sanitize_title(not_text)

    def test_a_title_names_one_session(self, db: SessionDB) -> None:
        """Behaviour 16: the error for a taken title names its session."""
        db.create_session("first", "cli")
        db.create_session("second", "cli")
        db.set_session_title("first", "My project")
        with pytest.raises(TitleTaken) as raised:
            db.set_session_title("second", "  My\tproject ")
        assert "ValueError" in bases_of(raised.value)
        assert "My project" in str(raised.value)
        assert "first" in str(raised.value)
        assert (raised.value.title, raised.value.holder) == ("My project", "first")
        assert db.get_session_title("second") is None

    def test_the_same_title_again(self, db: SessionDB) -> None:
        """Behaviour 17: a session may be given the title it has."""
        db.create_session("s", "cli")
        assert db.set_session_title("s", "T") is True
        assert db.set_session_title("s", " T ") is True
        assert db.get_session_title("s") == "T"

    def test_titles_are_compared_exactly(self, db: SessionDB) -> None:
        """Behaviour 18: case and accents tell titles apart."""
        titles = ["My Project", "my project", "Resume", "Résumé", "Re\u0301sume\u0301", "ß", "ss"]
        for title in titles:
            db.create_session(title, "cli")
            assert db.set_session_title(title, title) is True
        for title in titles:
            found = db.get_session_by_title(title)
            assert found is not None
            assert found["id"] == title

    @pytest.mark.parametrize("blank", [None, "", "  \n", "\u200b"])
    def test_a_blank_title_clears(self, db: SessionDB, blank: str | None) -> None:
        """Behaviour 19: and the title is free again."""
        db.create_session("s", "cli")
        db.create_session("t", "cli")
        db.set_session_title("s", "T")
        assert db.set_session_title("s", blank) is True
        assert db.get_session_title("s") is None
        assert session(db, "s")["title"] is None
        assert db.set_session_title("t", "T") is True
        assert db.set_session_title("missing", blank) is False

    def test_a_title_for_nobody(self, db: SessionDB) -> None:
        """Behaviour 20: an unknown session gets none; a taken title is reported first."""
        db.create_session("s", "cli")
        db.set_session_title("s", "T")
        assert db.set_session_title("missing", "free") is False
        with pytest.raises(TitleTaken):
            db.set_session_title("missing", "T")
        assert db.get_session_by_title("free") is None

    def test_lookup_by_title(self, db: SessionDB) -> None:
        """The exact title, as stored; nothing is cleaned for the caller."""
        db.create_session("s", "cli")
        db.set_session_title("s", "My project")
        found = db.get_session_by_title("My project")
        assert found == db.get_session("s")
        for other in (" My project", "my project", "My", "", "My%"):
            assert db.get_session_by_title(other) is None
        assert db.get_session_title("missing") is None

    def test_the_newest_of_a_family(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 21: a title resolves to its newest continuation."""
        titled(db, clock, "P", "P #2", "P #3")
        assert db.resolve_session_by_title("P") == "P #3"
        assert db.resolve_session_by_title("P #2") == "P #2"
        assert db.resolve_session_by_title("Q") is None

    def test_only_a_number_continues_a_title(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 22: newest activity decides, not the number; other endings are other titles."""
        titled(db, clock, "P", "P #2", "P #1", "P #notes", "P #2b", "P#9", "PP #3")
        assert db.resolve_session_by_title("P") == "P #1"
        clock.advance(1)
        db.append_message("P #2", "user", "still here")
        assert db.resolve_session_by_title("P") == "P #2"
        clock.advance(1)
        db.append_message("P", "user", "back to the beginning")
        assert db.resolve_session_by_title("P") == "P"
        assert db.resolve_session_by_title("P #notes") == "P #notes"

    def test_case_within_a_family(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 23: numbered titles forgive ASCII case, the bare title does not."""
        titled(db, clock, "Q")
        assert db.resolve_session_by_title("q") is None
        titled(db, clock, "P #2", "É #2")
        assert db.resolve_session_by_title("p") == "P #2"
        assert db.resolve_session_by_title("é") is None

    def test_the_next_title(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 24: the highest number plus one; an unused family starts bare."""
        titled(db, clock, "P", "P #2", "P #3", "P #notes", "Q #10", "Q #9")
        assert db.get_next_title_in_lineage("P") == "P #4"
        assert db.get_next_title_in_lineage("P #2") == "P #4"
        assert db.get_next_title_in_lineage("p") == "p #4"
        assert db.get_next_title_in_lineage("Q") == "Q #11"
        assert db.get_next_title_in_lineage("fresh") == "fresh"
        assert db.get_next_title_in_lineage("fresh #7") == "fresh"

    def test_the_next_title_of_a_single_one(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 24: the bare title counts as number 1."""
        titled(db, clock, "P")
        assert db.get_next_title_in_lineage("P") == "P #2"

    def test_no_wildcards_in_titles(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 25: every character of a title stands for itself."""
        titled(db, clock, "100%_done", "100%_done #2", "a\\b", "[x]*?")
        assert db.get_next_title_in_lineage("100xxdone") == "100xxdone"
        assert db.get_next_title_in_lineage("100%_done") == "100%_done #3"
        assert db.resolve_session_by_title("100xxdone") is None
        assert db.resolve_session_by_title("%") is None
        assert db.resolve_session_by_title("a\\b") == "a\\b"
        assert db.get_next_title_in_lineage("[x]*?") == "[x]*? #2"

    def test_a_title_moves_along_its_chain(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 95: the continuation may take the title of the session it continues."""
        db.create_session("root", "cli")
        db.set_session_title("root", "Plan")
        compress(db, clock, "root", "middle")
        compress(db, clock, "middle", "tip")
        assert db.set_session_title("tip", "Plan") is True
        assert db.get_session_title("tip") == "Plan"
        assert db.get_session_title("root") is None

    def test_a_title_does_not_move_back(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 95: the present part of a thread keeps its title."""
        db.create_session("root", "cli")
        compress(db, clock, "root", "tip")
        db.set_session_title("tip", "Plan")
        with pytest.raises(TitleTaken):
            db.set_session_title("root", "Plan")
        assert db.get_session_title("tip") == "Plan"

    def test_a_title_does_not_move_to_a_branch(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 95: a branch is a thread of its own, and so is a subagent."""
        db.create_session("root", "cli")
        db.set_session_title("root", "Plan")
        db.create_session("helper", "cli", parent_session_id="root", edge_kind="subagent")
        branch(db, clock, "root", "fork")
        for other in ("fork", "helper"):
            with pytest.raises(TitleTaken):
                db.set_session_title(other, "Plan")
        assert db.get_session_title("root") == "Plan"

    def test_a_generated_title_never_overwrites(self, db: SessionDB) -> None:
        """A title given meanwhile by hand stays; a taken one gets the next number."""
        for name in ("a", "b", "c"):
            db.create_session(name, "cli")
        assert db.set_auto_title_if_empty("a", "  Trip to\nRome ") is True
        assert db.get_session_title("a") == "Trip to Rome"
        assert db.set_auto_title_if_empty("a", "Other") is False
        assert db.get_session_title("a") == "Trip to Rome"
        assert db.set_auto_title_if_empty("b", "Trip to Rome") is True
        assert db.get_session_title("b") == "Trip to Rome #2"
        assert db.set_auto_title_if_empty("missing", "Any") is False
        assert db.set_auto_title_if_empty("c", " \u200b ") is False
        assert db.get_session_title("c") is None

    def test_a_generated_title_of_full_length(self, db: SessionDB) -> None:
        """A long title is shortened to make room for the number."""
        titles = set()
        for number in range(12):
            db.create_session(str(number), "cli")
            assert db.set_auto_title_if_empty(str(number), "x" * 100) is True
            titles.add(db.get_session_title(str(number)))
        assert len(titles) == 12
        assert all(SessionDB.sanitize_title(title) == title for title in titles)

    def test_titles_that_begin_alike(self, db: SessionDB, clock: FrozenClock) -> None:
        """Newest first; no character is a wildcard; what is in the trash has no title."""
        for name, title in (("a", "Plan A"), ("b", "plan 日本"), ("c", "100%"), ("d", "Plan D")):
            clock.advance(1)
            db.create_session(name, "cli")
            db.set_session_title(name, title)
        db.create_session("untitled", "cli")
        db.trash_sessions(["d"])
        assert db.find_session_titles("PLAN") == [("plan 日本", "b"), ("Plan A", "a")]
        assert db.find_session_titles("plan 日") == [("plan 日本", "b")]
        assert db.find_session_titles("", limit=2) == [("100%", "c"), ("plan 日本", "b")]
        for nothing in ("%", "1_0", "\x00", "\ud800", "Plan AB"):
            assert db.find_session_titles(nothing) == []

"""Ids: valid ids, and resolving prefixes."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.ids import MAX_ID_LENGTH
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import bases_of, session


class TestIds:
    """Ids are compared exactly; prefixes ignore the case of ASCII letters."""

    def test_a_unique_prefix_is_enough(self, db: SessionDB) -> None:
        """Behaviour 26: one match resolves; none or several do not; an exact id always does."""
        for name in ("20250305_091500_ab12", "20250305_101500_cd34", "x", "xy"):
            db.create_session(name, "cli")
        assert db.resolve_session_id("20250305_0") == "20250305_091500_ab12"
        assert db.resolve_session_id("20250305_1015") == "20250305_101500_cd34"
        assert db.resolve_session_id("20250305") is None
        assert db.resolve_session_id("2024") is None
        assert db.resolve_session_id("x") == "x"
        assert db.resolve_session_id("xyz") is None

    def test_case_of_ascii_letters_is_ignored_in_prefixes(self, db: SessionDB) -> None:
        """Behaviour 27: "ab" finds "ABC"; other alphabets are compared exactly."""
        db.create_session("ABC", "cli")
        db.create_session("École", "cli")
        assert db.resolve_session_id("ab") == "ABC"
        assert db.resolve_session_id("aBc") == "ABC"
        assert db.resolve_session_id("ÉCO") == "École"
        assert db.resolve_session_id("éco") is None
        assert db.resolve_session_id("eco") is None

    @pytest.mark.parametrize("wildcard", ["_", "%", "*", "?", "\\", ".", "[0-9]", "'", '"'])
    def test_nothing_is_a_wildcard(self, db: SessionDB, wildcard: str) -> None:
        """Behaviour 28: every character of a prefix stands for itself."""
        db.create_session("20250305_091500_ab12", "cli")
        db.create_session(f"x{wildcard}y", "cli")
        assert db.resolve_session_id(f"2025030{wildcard}") is None
        assert db.resolve_session_id(wildcard) is None
        assert db.resolve_session_id(f"x{wildcard}") == f"x{wildcard}y"
        assert db.find_session_ids(f"2025030{wildcard}") == []

    def test_an_empty_prefix_is_nobody(self, db: SessionDB) -> None:
        """An empty prefix resolves to None, even with a single session."""
        db.create_session("only", "cli")
        assert db.resolve_session_id("") is None

    def test_prefixes_list_their_matches(self, db: SessionDB, clock: FrozenClock) -> None:
        """`find_session_ids` gives the newest activity first and respects its limit."""
        for name in ("Ab1", "ab2", "aB3", "b"):
            db.create_session(name, "cli")
            clock.advance(1)
        db.append_message("Ab1", "user", "hi")
        assert db.find_session_ids("AB") == ["Ab1", "aB3", "ab2"]
        assert db.find_session_ids("ab", limit=2) == ["Ab1", "aB3"]
        assert db.find_session_ids("c") == []

    def test_ids_that_only_look_alike_are_different(self, db: SessionDB) -> None:
        """Case, accents, width, trailing blanks and normal forms tell ids apart."""
        names = ["a", "A", "a ", " a", "á", "a\u0301", "ａ", "a\t", "a\n", "ß", "ss", "ı", "i", "İ"]
        for name in names:
            db.create_session(name, f"source of {name!r}")
            db.append_message(name, "user", f"I am {name!r}")
        assert db.session_count() == len(names)
        for name in names:
            assert session(db, name)["source"] == f"source of {name!r}"
            assert [m["content"] for m in db.get_messages(name)] == [f"I am {name!r}"]

    def test_any_text_may_be_an_id(self, db: SessionDB) -> None:
        """Agents use their own ids."""
        for name in ("agent:main:telegram:dm:123", "日本語 🎉", "a/b\\c", "'; --", "שלום", "$1"):
            assert db.create_session(name, "cli") == name
            assert session(db, name)["id"] == name
            assert db.resolve_session_id(name) == name

    def test_the_longest_id(self, db: SessionDB) -> None:
        """An id may have 191 characters, of any alphabet."""
        for letter in ("a", "語", "🎉"):
            name = letter * MAX_ID_LENGTH
            db.create_session(name, "cli")
            db.append_message(name, "user", "hi")
            assert db.message_count(name) == 1
            assert db.resolve_session_id(letter * 10) == name

    def test_characters_that_are_stored_as_several(self, db: SessionDB) -> None:
        """The encoded length counts: lone surrogates and NUL take five characters."""
        longest = "\ud800" * (MAX_ID_LENGTH // 5) + "x"
        db.create_session(longest, "cli")
        db.append_message(longest, "user", "hi", external_id=longest)
        db.set_meta(longest, "value")
        assert session(db, longest)["id"] == longest
        assert db.has_external_id(longest, longest)
        assert db.get_meta(longest) == "value"
        assert db.resolve_session_id("\ud800" * 7) == longest

    @pytest.mark.parametrize(
        "name", ["語" * (MAX_ID_LENGTH + 1), "\x00" * (MAX_ID_LENGTH // 5 + 1)]
    )
    def test_names_that_are_too_long(self, db: SessionDB, name: str) -> None:
        """The limit applies to everything that is looked up by name."""
        db.create_session("s", "cli")
        with pytest.raises(InvalidInput):
            db.create_session(name, "cli")
        with pytest.raises(InvalidInput):
            db.append_message("s", "user", "hi", external_id=name)
        with pytest.raises(InvalidInput):
            db.set_meta(name, "value")
        with pytest.raises(InvalidInput):
            db.try_acquire_compression_lock(name, "me")
        record = {"id": "t", "messages": [{"role": "user", "timestamp": 1, "external_id": name}]}
        assert not db.import_sessions([record])["ok"]
        assert db.get_meta(name) is None
        assert not db.has_external_id("s", name)
        assert db.get_session(name) is None
        assert (db.session_count(), db.message_count()) == (1, 0)

    @pytest.mark.parametrize(
        "name", ["", " ", "\t\n", "\u3000", "x" * (MAX_ID_LENGTH + 1), None, 5, b"s"]
    )
    def test_what_cannot_be_an_id(self, db: SessionDB, name: Any) -> None:
        """An unusable id is refused before anything is written; None asks for a new session."""
        if name is not None:
            with pytest.raises(InvalidInput) as raised:
                db.create_session(name, "cli")
            assert "ValueError" in bases_of(raised.value)
        with pytest.raises(InvalidInput):
            db.update_token_counts(name, input_tokens=1)
        assert db.session_count() == 0

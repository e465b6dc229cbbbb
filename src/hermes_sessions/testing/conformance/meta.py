"""Meta: small named values."""

from __future__ import annotations

from hermes_sessions.storage.sessiondb import SessionDB


class TestMeta:
    """A key has one value, and it is text."""

    def test_upsert(self, db: SessionDB) -> None:
        """Behaviour 79: the newest value wins; a missing key is None."""
        assert db.get_meta("k") is None
        db.set_meta("k", "1")
        assert db.get_meta("k") == "1"
        db.set_meta("k", "2")
        assert db.get_meta("k") == "2"

    def test_values_are_text(self, db: SessionDB) -> None:
        """Behaviour 79: a number reads back as text, None as None, "" as ""."""
        db.set_meta("k", 5)
        assert db.get_meta("k") == "5"
        db.set_meta("k", 2.5)
        assert db.get_meta("k") == "2.5"
        db.set_meta("k", "")
        assert db.get_meta("k") == ""
        db.set_meta("k", None)
        assert db.get_meta("k") is None

    def test_keys_are_compared_exactly(self, db: SessionDB) -> None:
        """Case, accents and blanks tell keys apart."""
        keys = ["k", "K", "k ", "ḱ", "k\u0301", "%", "_"]
        for key in keys:
            db.set_meta(key, f"value of {key!r}")
        assert [db.get_meta(key) for key in keys] == [f"value of {key!r}" for key in keys]

    def test_long_values(self, db: SessionDB) -> None:
        """A value may be a document."""
        value = "líne\n" * 50_000
        db.set_meta("k", value)
        assert db.get_meta("k") == value

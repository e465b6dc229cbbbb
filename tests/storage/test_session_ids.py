"""Ids that the store makes for new sessions."""

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.repositories import sessions


def test_an_id_in_use_is_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(["taken", "trashed", "free"])
    monkeypatch.setattr(sessions, "new_session_id", lambda _now: next(drawn))
    with SessionDB(":memory:") as db:
        db.create_session("taken", "cli", model="theirs")
        db.create_session("trashed", "cli")
        db.trash_sessions(["trashed"])
        assert db.create_session(source="api", model="ours") == "free"
        assert (db.get_session("taken") or {})["model"] == "theirs"

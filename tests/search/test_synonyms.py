"""Synonyms of the configuration apply to searches."""

from pathlib import Path

import pytest

from hermes_sessions import SessionDB


def test_synonyms_of_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    with SessionDB() as db:
        session_id = db.create_session(source="cli")
        db.append_message(session_id, "user", "the boiler leaks")
        assert db.search("kettle").hits == []
    (tmp_path / "config.yaml").write_text("search:\n  synonyms: [kettle = boiler]\n")
    with SessionDB() as db:
        (hit,) = db.search("kettle").hits
        assert hit.snippet == "the >>>boiler<<< leaks"

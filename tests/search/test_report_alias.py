"""The names that the report of a search had in version 0.2."""

from __future__ import annotations

from pathlib import Path

from hermes_sessions import SessionDB
from hermes_sessions.storage.search.answer import Account, SearchReport


def test_the_report_has_its_former_name(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "sessions.db") as db:
        answer = db.search("anything")
    assert answer.account is answer.report
    assert Account is SearchReport

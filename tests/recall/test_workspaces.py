"""Recall within one project."""

from pathlib import Path

import pytest

from hermes_sessions import Scope, SessionDB
from tests.recall.conftest import Ask


@pytest.fixture(autouse=True)
def projects(db: SessionDB, tmp_path: Path) -> None:
    """Two conversations about ``api``, one about ``web`` and one about neither."""
    for name, folder in (("a1", "api"), ("a2", "api"), ("w", "web"), ("n", None)):
        db.create_session(
            name, "cli", user_id="anna", cwd=None if folder is None else tmp_path / folder
        )
        db.append_message(name, "user", f"the kettle of {name}")


def found(result: dict[str, object]) -> list[str]:
    assert result["success"], result
    rows = result["results"]
    assert isinstance(rows, list)
    return sorted(row["session_id"] for row in rows)


def test_by_name(ask: Ask) -> None:
    assert found(ask(workspace="API")) == ["a1", "a2"]
    assert found(ask("kettle", workspace="web")) == ["w"]
    assert found(ask("kettle workspace:web")) == ["w"]
    assert found(ask("kettle", limit=10)) == ["a1", "a2", "n", "w"]


def test_that_of_the_current_conversation(ask: Ask) -> None:
    assert found(ask("kettle", workspace="current", current_session_id="a1")) == ["a2"]
    assert found(ask(workspace="Current", current_session_id="a1")) == ["a2"]
    for session in ("n", None):
        answer = ask("kettle", workspace="current", current_session_id=session)
        assert "Leave workspace out" in answer["error"]


def test_one_that_does_not_exist(db: SessionDB, ask: Ask) -> None:
    answer = ask("kettle", workspace="kitchen")
    assert answer["error"].startswith("There is no workspace 'kitchen'. The latest are: ")
    assert {"api", "web"} <= set(answer["error"].replace(",", "").replace(".", "").split())


def test_the_scope(db: SessionDB, ask: Ask, tmp_path: Path) -> None:
    db.create_session("b", "cli", user_id="bert", cwd=tmp_path / "secret")
    db.append_message("b", "user", "the kettle of bert")
    anna = Scope(user_id="anna")
    for arguments in ({}, {"query": "kettle"}):
        answer = ask(workspace="secret", scope=anna, **arguments)
        assert answer["error"].startswith("There is no workspace 'secret'.")
        assert "secret" not in answer["error"].split("The latest are")[1]
    answer = ask("kettle", workspace="current", scope=anna, current_session_id="b")
    assert "Leave workspace out" in answer["error"]

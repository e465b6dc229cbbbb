"""The public names of `hermes_sessions`, and their import cost."""

import subprocess
import sys

import pytest

import hermes_sessions

OPENED = "import hermes_sessions; hermes_sessions.SessionDB(':memory:').session_count()"


def modules_after(program: str) -> set[str]:
    """Return what a process has imported after running a program."""
    result = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(result.stdout.split())


#: Names that were renamed and still import.
FORMER_NAMES = {
    "Conditions": "SearchConditions",
    "Holding": "ConversationLease",
    "Notice": "LaneNotice",
}


def test_every_name_is_there() -> None:
    assert hermes_sessions.__all__ == sorted(hermes_sessions.__all__)
    for name in hermes_sessions.__all__:
        assert getattr(hermes_sessions, name).__name__ == FORMER_NAMES.get(name, name)


def test_values_for_searching_are_among_them() -> None:
    from hermes_sessions import Scope, SearchConditions, SessionDB

    with SessionDB(":memory:") as db:
        db.create_session("s", "cli", user_id="anna")
        db.append_message("s", "user", "hello")
        answer = db.search(
            "hello", conditions=SearchConditions(roles=("user",)), scope=Scope("anna")
        )
        assert len(answer.hits) == 1


def test_a_session_is_stored_in_two_lines() -> None:
    from hermes_sessions import SessionDB, new_session_id

    assert new_session_id() != new_session_id()
    with SessionDB(":memory:") as db:
        for session_id in (db.create_session(source="cli"), db.create_session(new_session_id())):
            assert db.append_message(session_id, "user", "hello") > 0


def test_an_agent_and_its_tools_are_loaded_when_they_are_asked_for() -> None:
    assert not any(name.startswith("hermes_sessions.agent") for name in modules_after(OPENED))
    asked = modules_after("from hermes_sessions import Agent, Tool")
    assert "hermes_sessions.agent.turn" in asked
    assert not asked & {"httpx", "asyncio", "ssl"}


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = hermes_sessions.Nonsense


def test_what_only_searching_needs_is_loaded_when_it_is_asked_for() -> None:
    assert not {
        name
        for name in modules_after("import hermes_sessions")
        if name.startswith("hermes_sessions.text")
    }
    asked = modules_after("from hermes_sessions import SearchConditions")
    assert "hermes_sessions.text.query.filters" in asked


def test_what_only_an_event_loop_needs_is_loaded_when_it_is_asked_for() -> None:
    assert not modules_after(OPENED) & {"asyncio", "concurrent.futures"}
    assert "asyncio" in modules_after("from hermes_sessions import AsyncSessionDB")


def test_importing_the_drop_in_module_loads_no_database() -> None:
    modules = modules_after("import hermes_state")
    assert not {
        name
        for name in modules
        if name.startswith(
            ("hermes_sessions.storage.repositories", "hermes_sessions.storage.sqlite")
        )
    }
    # Slow to load, and needed by few or only once a store is opened.
    assert not modules & {"apsw", "dataclasses", "inspect", "logging", "pathlib", "random"}


def test_an_open_store_has_loaded_only_the_verbs_that_were_used() -> None:
    modules = modules_after(
        "import hermes_sessions; db = hermes_sessions.SessionDB(':memory:'); db.get_meta('x')"
    )
    repositories = "hermes_sessions.storage.repositories"
    assert {name for name in modules if name.startswith(repositories)} == {
        repositories,
        f"{repositories}.meta",
    }


def test_what_only_a_gateway_needs_is_loaded_when_it_is_asked_for() -> None:
    opened = modules_after("import hermes_sessions; hermes_sessions.SessionDB(':memory:')")
    assert not {name for name in opened if name.startswith("hermes_sessions.model.")} & {
        "hermes_sessions.model.lane",
        "hermes_sessions.model.reset_policy",
        "hermes_sessions.model.source",
    }
    from hermes_sessions import Platform, SessionSource, build_session_key

    assert build_session_key(SessionSource(Platform.SIGNAL, "1")) == "agent:main:signal:dm:1"

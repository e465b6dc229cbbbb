"""`SessionDB` and `AsyncSessionDB` have the same signatures."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import AsyncSessionDB, SessionDB
from hermes_sessions.storage.async_handle import AsyncHandle

ROOT = Path(__file__).parents[3]
OPENING = {"from_url"}  # And the constructor, which is ``open``.


def public_names(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


VERBS = sorted(
    name
    for name in public_names(SessionDB) - OPENING
    if inspect.isfunction(inspect.getattr_static(SessionDB, name))
)


def shown(verb: Any, *leave_out: str) -> list[tuple[str, Any, Any, Any]]:
    """Parameters as they are written, and what kind they are."""
    return [
        (p.name, p.kind, p.default, p.annotation)
        for p in inspect.signature(verb).parameters.values()
        if p.name not in leave_out
    ]


def test_neither_has_names_that_the_other_lacks() -> None:
    assert public_names(AsyncSessionDB) == public_names(SessionDB) | {"open"}
    assert "__getattr__" not in dir(AsyncSessionDB)


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_the_signature_of_its_twin(name: str) -> None:
    verb, twin = getattr(SessionDB, name), getattr(AsyncSessionDB, name)
    assert shown(twin) == shown(verb)
    returns = inspect.signature(verb).return_annotation
    if returns.startswith("Iterator["):
        item = returns.removeprefix("Iterator[").removesuffix("]")
        assert inspect.signature(twin).return_annotation == f"AsyncGenerator[{item}, None]"
    else:
        assert inspect.iscoroutinefunction(twin)
        assert inspect.signature(twin).return_annotation == returns
    if name not in vars(AsyncHandle):
        assert f"`SessionDB.{name}`" in (inspect.getdoc(twin) or "")


def test_stores_are_opened_with_the_same_options() -> None:
    more = ("self", "cls", "threads")
    assert shown(AsyncSessionDB.open, *more) == shown(SessionDB.__init__, *more)
    assert shown(AsyncSessionDB.from_url, *more) == shown(SessionDB.from_url, *more)


def test_opening_returns_the_handle_or_a_context() -> None:
    for way in (AsyncSessionDB.open, AsyncSessionDB.from_url):
        assert inspect.signature(way).return_annotation == "Opening[Self]"


def test_what_asks_no_database_is_the_same() -> None:
    assert AsyncSessionDB.MAX_TITLE_LENGTH == SessionDB.MAX_TITLE_LENGTH
    assert shown(AsyncSessionDB.sanitize_title) == shown(SessionDB.sanitize_title)


def test_the_file_is_what_the_script_makes() -> None:
    program = "import async_twin as a; assert a.TWIN.read_text() == a.twin_of(a.FACADE.read_text())"
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "scripts", capture_output=True, check=False
    )
    assert result.returncode == 0, f"Run scripts/async_twin.py. {result.stderr.decode()}"

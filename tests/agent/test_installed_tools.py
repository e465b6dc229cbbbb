"""Tools of installed packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_sessions.agent.tools.builtin import default_tools

BUILTIN = ["session_search", "current_time"]
MODULE = """
from hermes_sessions.agent.tools.registry import Tool
LUCK = Tool("luck", "Says it.", {"type": "object"}, lambda given, where: "luck")
TIME = Tool("current_time", "Another one.", {"type": "object"}, lambda given, where: "now")
def several():
    return [LUCK, Tool("more", "Says more.", {"type": "object"}, lambda given, where: "more")]
NOTHING = [1]
def failing():
    raise ZeroDivisionError("no luck")
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Installs a package whose entry points are given."""

    def install(**points: str) -> None:
        (tmp_path / "some_tools.py").write_text(MODULE)
        info = tmp_path / "some_tools-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-tools\nVersion: 1.0\n")
        lines = [f"{name} = some_tools:{value}" for name, value in points.items()]
        (info / "entry_points.txt").write_text(
            "[hermes_sessions.tools]\n" + "\n".join(lines) + "\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))

    return install


@pytest.mark.parametrize(("value", "names"), [("LUCK", ["luck"]), ("several", ["luck", "more"])])
def test_they_are_there(install: object, value: str, names: list[str]) -> None:
    install(mine=value)  # type: ignore[operator]
    assert [tool.name for tool in default_tools()] == [*BUILTIN, *names]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("failing", "no luck"),
        ("NOTHING", "some of them are not tools"),
        ("missing", "AttributeError"),
        ("TIME", "There is already a tool 'current_time'"),
    ],
)
def test_one_that_cannot_be_used_is_left_out(install: object, value: str, words: str) -> None:
    install(mine=value)  # type: ignore[operator]
    with pytest.warns(RuntimeWarning, match=words):
        tools = default_tools()
    assert [tool.name for tool in tools] == BUILTIN

"""The main screens in a real terminal. ``--update-golden`` rewrites them."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes_sessions_testing.scripted_model import ScriptedModel, streamed
from tests.cli.harness import NOW, Hermes
from tests.cli.tmux import Tmux

SCREENS = Path(__file__).parent / "screens"
WIDE, NARROW = (80, 24), (40, 24)
_PORT = re.compile(r"127\.0\.0\.1:\d{5}")


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        yield model


def environ(model: ScriptedModel) -> dict[str, str]:
    return {"HERMES_BASE_URL": model.base_url, "HERMES_MODEL": "scripted-1"}


@pytest.fixture
def is_kept(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a screen with the file that keeps it."""

    def check(screen: str, name: str) -> None:
        # Every run has another port; one of five digits keeps the lines as they are.
        screen = _PORT.sub("127.0.0.1:12345", screen)
        file = SCREENS / f"tmux-{name}.txt"
        if request.config.getoption("--update-golden"):
            file.write_text(screen, encoding="utf-8")
        assert screen == file.read_text(encoding="utf-8")

    return check


Check = Callable[[str, str], None]


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_greeting_and_answer(
    hermes: Hermes, model: ScriptedModel, tmp_path: Path, size: tuple[int, int], is_kept: Check
) -> None:
    model.add(streamed("It is at the missing", " libfoo.\n\nInstall it first."))
    with Tmux(hermes, tmp_path, "chat", size=size, now=NOW, **environ(model)) as tmux:
        is_kept(tmux.wait_for(lambda screen: screen.endswith("❯\n")), f"greeting-{size[0]}")
        tmux.keys("/title Docker build", "Enter")
        tmux.wait_for(lambda screen: "Title: Docker build\n❯" in screen)
        tmux.keys("Where did we leave the Docker build?", "Enter")
        answered = tmux.wait_for(lambda screen: screen.endswith("Install it first.\n❯\n"))
        is_kept(answered, f"answer-{size[0]}")


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_recap(
    filled: Hermes, model: ScriptedModel, tmp_path: Path, size: tuple[int, int], is_kept: Check
) -> None:
    arguments = ("-c", "refactoring", "auth")
    with Tmux(filled, tmp_path, *arguments, size=size, now=NOW, **environ(model)) as tmux:
        is_kept(tmux.wait_for(lambda screen: screen.endswith("❯\n")), f"recap-{size[0]}")


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_browse(filled: Hermes, tmp_path: Path, size: tuple[int, int], is_kept: Check) -> None:
    with Tmux(filled, tmp_path, "sessions", "browse", size=size, now=NOW) as tmux:
        is_kept(tmux.wait_for(lambda screen: "Enter" in screen), f"browse-{size[0]}")
        tmux.keys("weath")
        found = tmux.wait_for(lambda screen: ">>>weather<<<" in screen)
        is_kept(found, f"browse-found-{size[0]}")


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_search(filled: Hermes, tmp_path: Path, size: tuple[int, int], is_kept: Check) -> None:
    arguments = ("sessions", "search", "auth", "module")
    with Tmux(filled, tmp_path, *arguments, size=size, now=NOW) as tmux:
        is_kept(tmux.wait_for_the_end(), f"search-{size[0]}")


@pytest.mark.parametrize("size", [(80, 60), (40, 60)])
def test_insights(filled: Hermes, tmp_path: Path, size: tuple[int, int], is_kept: Check) -> None:
    with Tmux(filled, tmp_path, "insights", "--days", "0", size=size, now=NOW) as tmux:
        is_kept(tmux.wait_for_the_end(), f"insights-{size[0]}")


def test_listing(filled: Hermes, tmp_path: Path, is_kept: Check) -> None:
    with Tmux(filled, tmp_path, "sessions", "list", size=WIDE, now=NOW) as tmux:
        is_kept(tmux.wait_for_the_end(), "list-80")

"""A messenger of another package works wherever a built-in one does."""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hermes_sessions.config import load_settings
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.reference import platform_table
from hermes_sessions.gateway.platforms.registry import (
    BUILT_IN,
    PackageMissing,
    find_spec,
    known_platforms,
)
from hermes_sessions_testing.scripted_model import ScriptedModel
from tests.cli.harness import Hermes
from tests.gateway.harness import echo
from tests.gateway.platforms.third_party.pigeon_server import TOKEN, PigeonServer

HERMES = str(Path(sys.executable).with_name("hermes"))


@pytest.fixture
def hermes(short_path: Path) -> Hermes:
    return Hermes(short_path / "home")


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    model = ScriptedModel()
    model.respond = echo
    yield model
    model.close()


@pytest.mark.usefixtures("installed")
def test_it_is_set_up_runs_and_answers(
    hermes: Hermes, pigeon: PigeonServer, model: ScriptedModel
) -> None:
    (listed,) = [
        each
        for each in hermes.call("gateway", "setup", "--json").json["platforms"]
        if each["name"] == "pigeon"
    ]
    assert listed == {"name": "pigeon", "enabled": False}

    result = hermes.call(
        *("gateway", "setup", "pigeon", "--yes", "--json", "--set", f"url={pigeon.url}"),
        *("--token-from-env", "PIGEON_TOKEN", "--allow", "anna"),
        environ={"PIGEON_TOKEN": TOKEN},
    )
    assert result.code == 0, result.err
    assert result.json["who"] == "Hermes on Pigeon"
    config = yaml.safe_load((hermes.home / "config.yaml").read_text(encoding="utf-8"))
    assert config["platforms"]["pigeon"] == {
        "enabled": True,
        "token": "${PIGEON_TOKEN}",
        "url": pigeon.url,
        "allowed_users": ["anna"],
    }
    config["model"] = {"base_url": model.base_url, "default": model.model}
    (hermes.home / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    environ = hermes.environ(PIGEON_TOKEN=TOKEN)
    running = subprocess.Popen([HERMES, "gateway", "run"], env=environ, stderr=subprocess.PIPE)
    try:
        pigeon.write("Coo")
        pigeon.wait_for(lambda: pigeon.texts("anna")[-1:] == ["You said: Coo"])
        assert "pigeon: connected" in hermes.run("gateway", "status").out

        # A stranger gets a code, and the owner approves it.
        pigeon.write("Let me in", sender="bert")
        pigeon.wait_for(lambda: pigeon.texts("bert"))
        found = re.search(r"gateway pair (\S+)", pigeon.texts("bert")[0])
        assert found is not None, pigeon.texts("bert")
        approved = hermes.run("gateway", "pair", found[1].strip("`."))
        assert approved.out == "bert on pigeon may talk to the agent now.\n", approved.err
        pigeon.write("Hello", sender="bert")
        pigeon.wait_for(lambda: pigeon.texts("bert")[-1:] == ["You said: Hello"])
    finally:
        running.send_signal(signal.SIGTERM)
        _, logged = running.communicate(timeout=60)
    assert running.returncode == 0, logged.decode()

    sessions = hermes.run("sessions", "list", "--source", "pigeon", "--json").json["sessions"]
    assert {each["source"] for each in sessions} == {"pigeon"}
    assert hermes.run("doctor", "--json").code == 0


@pytest.mark.usefixtures("installed")
def test_its_name_and_settings_are_known(hermes: Hermes) -> None:
    assert "pigeon" in known_platforms()
    spec = find_spec("pigeon")
    assert [question.key for question in spec.questions] == ["token", "url"]
    assert "| `poll_seconds` | `20` |" in platform_table("pigeon")
    hermes.home.mkdir()
    (hermes.home / "config.yaml").write_text(
        "platforms:\n  pigeon: {enabled: true, token: pgn-00000000, ulr: x}\n"
    )
    section = load_settings(hermes.home, {}).platforms["pigeon"]
    with pytest.raises(ConfigError, match="has no key ulr; did you mean url"):
        spec.read(section, hermes.home)


def add_package(folder: Path, name: str, entry: str, source: str = "") -> None:
    """Install a package by hand: a module and its metadata."""
    module = entry.partition(":")[0]
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    points = f"[hermes_sessions.platforms]\n{name} = {entry}\n"
    (info / "entry_points.txt").write_text(points, encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    importlib.invalidate_caches()
    return tmp_path


@pytest.mark.parametrize("name", [*BUILT_IN, "api_server"])
def test_a_built_in_name_is_refused(site: Path, name: str) -> None:
    add_package(site, name, "shadow_platform:SPEC")
    with pytest.raises(ConfigError, match=f"shadow_platform adds a platform named {name}, which"):
        known_platforms()
    if name in BUILT_IN:
        assert find_spec(name).name == name  # the built-in one is used all the same


def test_two_packages_with_the_same_name_are_refused(site: Path) -> None:
    add_package(site, "owl", "owl_one:SPEC")
    add_package(site, "owl", "owl_two:SPEC")
    with pytest.raises(ConfigError, match="both add a platform named owl"):
        find_spec("owl")


def test_a_missing_package_is_named_with_what_to_install(site: Path, hermes: Hermes) -> None:
    add_package(site, "raven", "raven_platform:SPEC", "import package_that_is_missing\n")
    with pytest.raises(PackageMissing, match="package_that_is_missing: pip install 'raven_platfo"):
        find_spec("raven")
    result = hermes.call("gateway", "setup", "raven", "--yes")
    assert result.code != 0
    assert "platforms.raven needs the package package_that_is_missing" in result.err


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("SPEC = 5\n", "must be a PlatformSpec with name='crow'"),
        ("from hermes_sessions.gateway.platforms.local.spec import SPEC\n", "name='crow'"),
        ("", "cannot be loaded"),
    ],
)
def test_an_entry_point_that_is_wrong(site: Path, source: str, words: str) -> None:
    module = f"crow_{len(source)}"
    add_package(site, "crow", f"{module}:SPEC", source)
    with pytest.raises(ConfigError, match=words):
        find_spec("crow")


def test_a_name_like_a_built_in_one_is_no_misspelling(site: Path, hermes: Hermes) -> None:
    hermes.home.mkdir()
    (hermes.home / "config.yaml").write_text("platforms:\n  telegrams: {enabled: false}\n")
    (warning,) = load_settings(hermes.home, {}).warnings
    assert "did you mean platforms.telegram?" in warning
    add_package(site, "telegrams", "telegrams_platform:SPEC")
    assert load_settings(hermes.home, {}).warnings == ()

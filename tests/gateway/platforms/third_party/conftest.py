"""The example package, built and installed where this process and its children find it."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.platforms.third_party.pigeon_server import PigeonServer

EXAMPLE = Path(__file__).parents[3] / "fixtures" / "example_platform"


@pytest.fixture(scope="session")
def example_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the installed package: its modules and its metadata."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(EXAMPLE, folder / "project", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")],
        cwd=folder / "project",
        check=True,
        capture_output=True,
    )
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def installed(example_site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example package is installed."""
    monkeypatch.syspath_prepend(example_site)
    paths = [str(example_site), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    importlib.invalidate_caches()
    yield example_site
    for name in [each for each in sys.modules if each.partition(".")[0] == "hermes_pigeon"]:
        del sys.modules[name]


@pytest.fixture
def pigeon() -> Iterator[PigeonServer]:
    server = PigeonServer()
    yield server
    server.close()

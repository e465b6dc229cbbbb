"""This product beside a released client: nothing of it changes, and taking over is one step."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest

from tests.clients.released import interpreter

ROOT = Path(__file__).parents[2]
RELEASE = "0.19.0"


class Environment:
    """A virtual environment."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder)
        self.bin = folder / "bin"
        (self.packages,) = folder.glob("lib/python*/site-packages")

    def install(self, *wanted: str | Path) -> None:
        """Install packages with the installer of the client's environment, which has them."""
        command = [interpreter(RELEASE), "-m", "uv", "pip", "install", "--quiet", "--python"]
        subprocess.run([*command, self.bin / "python", *wanted], check=True)

    def run(self, program: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.bin / program, *arguments],
            cwd=home,
            env={"HERMES_HOME": str(home), "HOME": str(home), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )

    def module(self, home: Path, *, first: str = "sys") -> Path:
        """Return the file that ``import hermes_state`` loads, after the module *first*."""
        program = f"import {first}, hermes_state; print(hermes_state.__file__)"
        found = self.run("python", "-c", program, home=home)
        return Path(found.stdout.strip())

    def files_of(self, name: str) -> dict[str, str]:
        """Return digests of the files that a package installed."""
        (info,) = self.packages.glob(f"{name}-*.dist-info")
        paths = [line.split(",")[0] for line in (info / "RECORD").read_text().splitlines()]
        return {
            path: hashlib.sha256((self.packages / path).read_bytes()).hexdigest()
            for path in paths
            if (self.packages / path).is_file() and not path.endswith(".pyc")
        }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def own_packages() -> list[str]:
    return [f"{name}=={metadata.version(name)}" for name in ("apsw", "click", "PyYAML", "wcwidth")]


@pytest.mark.slow
def test_beside_a_released_client(wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(f"hermes-agent=={RELEASE}")
    before = environment.files_of("hermes_agent")
    assert {"hermes_state.py", "../../../bin/hermes"} <= before.keys()
    environment.install(*own_packages(), wheel)
    home = tmp_path / "home"
    home.mkdir()
    theirs = environment.packages / "hermes_state.py"
    ours = environment.packages / "hermes_sessions_drop_in" / "hermes_state.py"

    assert environment.files_of("hermes_agent") == before
    assert environment.module(home) == theirs

    for _ in range(2):
        adopted = environment.run("hermes-sessions", "adopt", home=home)
        assert (adopted.returncode, adopted.stderr) == (0, "")
        assert adopted.stdout.startswith(f"hermes-agent {RELEASE} uses this store")
        assert environment.module(home) == ours
        # The command of the client puts its own directory first on Python's path.
        assert environment.module(home, first="hermes_cli.main") == ours
        assert environment.files_of("hermes_agent") == before

    taken_back = environment.run("hermes-sessions", "unadopt", home=home)
    assert taken_back.stdout == f"hermes-agent {RELEASE} uses its own store from its next start.\n"
    assert environment.module(home) == theirs
    again = environment.run("hermes-sessions", "unadopt", home=home)
    assert again.stdout == "Nothing to take back: this environment is not adopted.\n"
    assert environment.files_of("hermes_agent") == before

    # Removed without a step back, it is no longer in the way.
    environment.run("hermes-sessions", "adopt", home=home)
    command = [interpreter(RELEASE), "-m", "uv", "pip", "uninstall", "--quiet", "--python"]
    subprocess.run([*command, environment.bin / "python", "hermes-sessions"], check=True)
    assert environment.module(home) == theirs
    assert environment.files_of("hermes_agent") == before


def in_read_only(folder: Path) -> list[str]:
    """Return the beginning of a command line whose command cannot change the folder."""
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    prefix = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, str(folder)]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user cannot make a file system read-only")
    return prefix


@pytest.mark.slow
def test_installed_first_and_the_client_upgraded_later(wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(*own_packages(), wheel)
    # Without its dependencies: it is not run.
    environment.install("--no-deps", "hermes-agent==0.18.2")
    theirs = environment.packages / "hermes_state.py"
    ours = environment.packages / "hermes_sessions_drop_in" / "hermes_state.py"
    assert environment.module(tmp_path) == theirs
    assert environment.run("hermes-sessions", "adopt", home=tmp_path).returncode == 0
    assert environment.module(tmp_path) == ours

    environment.install("--no-deps", f"hermes-agent=={RELEASE}")
    assert environment.module(tmp_path) == ours
    before = environment.files_of("hermes_agent")
    adopted = environment.run("hermes-sessions", "adopt", home=tmp_path)
    assert adopted.stdout.startswith(f"hermes-agent {RELEASE} uses this store")
    assert environment.files_of("hermes_agent") == before
    taken_back = environment.run("hermes-sessions", "unadopt", home=tmp_path)
    assert taken_back.returncode == 0
    assert environment.module(tmp_path) == theirs


@pytest.mark.slow
def test_in_a_read_only_environment(wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(*own_packages(), wheel)
    environment.install("--no-deps", f"hermes-agent=={RELEASE}")
    prefix = in_read_only(tmp_path / "environment")

    def refused(step: str) -> str:
        command = [*prefix, environment.bin / "hermes-sessions", step]
        done = subprocess.run(
            command, env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, done.stderr
        return done.stderr

    path_file = environment.packages / "hermes_sessions_adopted.pth"
    words = f"{path_file} cannot be changed (Read-only file system). Run this as the owner"
    assert words in refused("adopt")
    assert not path_file.exists()
    assert environment.run("hermes-sessions", "adopt", home=tmp_path).returncode == 0
    assert words in refused("unadopt")
    assert path_file.exists()


@pytest.mark.slow
def test_without_another_client(wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(*own_packages(), wheel)
    assert environment.module(tmp_path) == (
        environment.packages / "hermes_sessions_drop_in" / "hermes_state.py"
    )
    command = environment.bin / "hermes"
    assert not command.exists()

    for said in (f"Added the command {command}.", f"{command} is already this product's command."):
        adopted = environment.run("hermes-sessions", "adopt", home=tmp_path)
        assert (adopted.returncode, adopted.stdout) == (0, said + "\n")
        assert "Usage: hermes " in environment.run("hermes", "--help", home=tmp_path).stdout

    taken_back = environment.run("hermes-sessions", "unadopt", home=tmp_path)
    assert taken_back.stdout == f"Removed the command {command}.\n"
    assert not command.exists()

    command.write_text("#!/bin/sh\necho other\n")
    refused = environment.run("hermes-sessions", "adopt", home=tmp_path)
    assert refused.returncode == 1
    assert f"{command} belongs to another program. Use hermes-sessions" in refused.stderr
    assert command.read_text() == "#!/bin/sh\necho other\n"
    environment.run("hermes-sessions", "unadopt", home=tmp_path)
    assert command.exists()

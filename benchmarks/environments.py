"""Throw-away virtual environments, one for each opponent, kept in the cache directory."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PROJECT_FILES = ("pyproject.toml", "README.md", "LICENSE", "src")


class EnvironmentFailed(RuntimeError):
    """An opponent could not be installed; the text is the installer's own."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What is installed for an opponent.

    ``without_dependencies`` are installed bare, for packages that declare far more than the
    measured module imports. ``project`` installs this repository, with these ``extras``.
    """

    name: str
    requirements: tuple[str, ...] = ()
    without_dependencies: tuple[str, ...] = ()
    project: bool = False
    extras: tuple[str, ...] = ()

    def fingerprint(self) -> str:
        """Return a digest that changes when the environment or its stores must be rebuilt."""
        wanted = {name: value for name, value in asdict(self).items() if value or name != "extras"}
        facts = json.dumps([wanted, sys.version, project_digest() if self.project else ""])
        return hashlib.sha256(facts.encode()).hexdigest()[:12]


@cache
def project_digest() -> str:
    """A digest of every file that goes into the installed project, the same for a whole run."""
    digest = hashlib.sha256()
    files = [REPOSITORY / "pyproject.toml", *sorted((REPOSITORY / "src").rglob("*"))]
    for path in files:
        if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path):
            digest.update(str(path.relative_to(REPOSITORY)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def prepare(environment: Environment, cache_directory: Path) -> Path:
    """Return the environment's Python, making or renewing the environment when it is stale.

    Raises :class:`EnvironmentFailed` with the installer's output.
    """
    directory = cache_directory / "environments" / environment.name
    python = directory / "bin" / "python"
    stamp = directory / "fingerprint"
    wanted = environment.fingerprint()
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    needs_pip = environment.requirements or environment.without_dependencies or environment.project
    _run([sys.executable, "-m", "venv", *([] if needs_pip else ["--without-pip"]), str(directory)])
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if environment.without_dependencies:
        _run([*install, "--no-deps", *environment.without_dependencies])
    if environment.requirements:
        _run([*install, *environment.requirements])
    if environment.project:
        with tempfile.TemporaryDirectory() as copy:
            # Building in a copy keeps build artefacts out of the working tree.
            extras = f"[{','.join(environment.extras)}]" if environment.extras else ""
            _run([*install, f"{_copy_project(Path(copy))}{extras}"])
    stamp.write_text(wanted)
    return python


def _copy_project(directory: Path) -> Path:
    for name in PROJECT_FILES:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy2(source, directory / name)
    return directory


def _run(command: list[str]) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise EnvironmentFailed(f"{' '.join(command[1:])}\n{finished.stderr[-2000:]}")

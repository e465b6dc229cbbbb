"""Processes of an earlier and of the present version."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.storage.sqlite.other_process import OtherProcess

ROOT = Path(__file__).parents[2]
RELEASES = ROOT / "tests" / "fixtures" / "releases"


def unpack(release: str, directory: Path) -> Path:
    """Unpack the wheel of a version; return what to put on the path."""
    (wheel,) = RELEASES.glob(f"hermes_sessions-{release}-*.whl")
    target = directory / release
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def start_writer(version: Path, url: str, writer: str) -> OtherProcess:
    """Start a process of the version at that path; it says "ready" and waits."""
    return OtherProcess(
        subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "update" / "program.py"), url, writer],
            env={**os.environ, "PYTHONPATH": str(version)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )

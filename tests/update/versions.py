"""Processes of an earlier and of the present version."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.storage.sqlite.other_process import OtherProcess

ROOT = Path(__file__).parents[2]
RELEASES = ROOT / "tests" / "fixtures" / "releases"


def unpack(release: str, directory: Path) -> Path:
    """Unpack the wheel of a version; return what to put on the path."""
    (packed,) = RELEASES.glob(f"hermes_sessions-{release}[-.]*")
    target = directory / release
    shutil.unpack_archive(packed, target, "zip" if packed.suffix == ".whl" else "xztar")
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

"""A process that opens a store, says what came of it, and ends.

    python -m tests.storage.sqlite.opener /some/where/state.db

Prints one line of JSON: the number of sessions, or class and text of the error.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes_sessions.errors import HermesSessionsError
from tests.storage.sqlite.hermes_files import UpgradingSessionDB

ROOT = Path(__file__).parents[3]


def command(path: Path, *, lock_timeout: float = 60.0) -> list[str]:
    """The command line that opens *path* in a process of its own."""
    return [sys.executable, "-m", __name__, str(path), "--lock-timeout", str(lock_timeout)]


def environment() -> dict[str, str]:
    """The environment in which the process finds this module and what it imports."""
    search = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1"}


def start(path: Path, prefix: Sequence[str] = (), **options: Any) -> subprocess.Popen[str]:
    """Start the process, behind the command line *prefix* if there is one."""
    return subprocess.Popen(
        [*prefix, *command(path, **options)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What the process said; fails when it said nothing."""
    out, err = process.communicate()
    assert out.strip(), err
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result


def open_elsewhere(path: Path, prefix: Sequence[str] = (), **options: Any) -> dict[str, Any]:
    """Open *path* in another process and return what it said."""
    return result_of(start(path, prefix, **options))


def main() -> None:
    parser = argparse.ArgumentParser(description="Open a store and say what came of it.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--lock-timeout", type=float, default=60.0)
    arguments = parser.parse_args()
    try:
        with UpgradingSessionDB(arguments.path, lock_timeout=arguments.lock_timeout) as db:
            print(json.dumps({"sessions": db.session_count(), "messages": db.message_count()}))
    except HermesSessionsError as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}))


if __name__ == "__main__":
    main()

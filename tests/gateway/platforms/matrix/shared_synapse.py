"""Keeps one Synapse for all processes of a test run: ``python shared_synapse.py FOLDER``.

Those who use the server hold a shared lock on ``FOLDER/users``. When nobody does any more, also
because they were killed, the server is ended and the folder emptied.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path


def main(folder: Path) -> None:
    with (folder / "users").open("a") as users, (folder / "log").open("ab") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "synapse.app.homeserver", "-c", str(folder / "server.yaml")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
        )
        try:
            fcntl.flock(users, fcntl.LOCK_EX)
        finally:
            (folder / "address").unlink(missing_ok=True)
            server.kill()
            server.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

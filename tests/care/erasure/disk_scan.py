"""Searches the raw files of a store for words, as an attacker with the disk would.

In another process: opening a live SQLite file beside SQLite would drop its locks.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

_PROGRAM = """
import json, pathlib, sys
place, needles = json.loads(sys.stdin.read())
path = pathlib.Path(place)
files = [f for f in path.rglob("*") if f.is_file()] if path.is_dir() else [
    f for f in path.parent.iterdir() if f.is_file() and f.name.startswith(path.name)
]
found = []
for file in files:
    content = file.read_bytes().lower()
    found += [[file.name, n] for n in needles if n.lower().encode() in content
              or n.lower().encode("utf-16-le") in content]
print(json.dumps(sorted(found)))
"""


def found_in(place: Path, needles: Iterable[str]) -> list[tuple[str, str]]:
    """Which files have which words: those of a folder, or a file and those beside it whose names
    begin so.
    """
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps([str(place), list(needles)]),
        capture_output=True,
        text=True,
        check=True,
    )
    return [(file, word) for file, word in json.loads(done.stdout)]

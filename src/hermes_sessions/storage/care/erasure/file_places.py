"""Files of sessions beside the database: older transcripts, and copies of the store itself."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hermes_sessions.storage.care.erasure.receipts import Step
from hermes_sessions.storage.care.erasure.targets import Targets

TRANSCRIPTS: Final = "transcript files"
COPIES: Final = "copies of the store"
#: What SQLite and this program keep beside a store that is in use; no copies of it.
_IN_USE: Final = ("-wal", "-shm", "-journal", ".gate")
_CHUNK: Final = 4 * 2**20
_LOOKED_FOR: Final = 200


class Transcripts:
    """What older versions wrote for each session into *directory*. See `Place`."""

    name = TRANSCRIPTS
    needs_rows = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def count(self, targets: Targets) -> dict[str, int]:
        """See `Place.count`."""
        return _counted(sum(1 for _ in self._files(targets)))

    def remove(self, targets: Targets) -> Step:
        """See `Place.remove`."""
        removed = 0
        problems: list[str] = []
        for file in list(self._files(targets)):
            try:
                file.unlink(missing_ok=True)
                removed += 1
            except OSError as error:
                problems.append(f"{file} cannot be removed: {error.strerror}.")
        if problems:
            return Step(TRANSCRIPTS, "pending", _counted(removed), " ".join(problems))
        return Step(TRANSCRIPTS, removed=_counted(removed))

    def _files(self, targets: Targets) -> Iterator[Path]:
        for session_id in targets.session_ids:
            if "/" in session_id or "\\" in session_id or "\x00" in session_id:
                continue  # Such an id never named a file of ours.
            names = (f"{session_id}.json", f"{session_id}.jsonl")
            yield from (file for name in names if (file := self._directory / name).is_file())
            yield from self._directory.glob(f"request_dump_{glob.escape(session_id)}_*.json")


class Copies:
    """Whole copies of a SQLite store that lie beside it, from before an upgrade, a repair or a
    restore. They are not ours to take apart: those that hold something are named. See `Place`.
    """

    name = COPIES
    needs_rows = False

    def __init__(self, store: Path) -> None:
        self._store = store

    def count(self, targets: Targets) -> dict[str, int]:
        """See `Place.count`."""
        return _counted(len(self._holding(targets)))

    def remove(self, targets: Targets) -> Step:
        """See `Place.remove`."""
        try:
            found = self._holding(targets)
        except OSError as error:
            return Step(COPIES, "pending", why=f"{error}.")
        if not found:
            return Step(COPIES)
        names = ", ".join(str(file) for file in found)
        why = f"Not changed: {names}. Remove what you do not need any more, then resume."
        return Step(COPIES, "pending", why=why)

    def _holding(self, targets: Targets) -> list[Path]:
        # Of many sessions, some will do: a copy that holds any of them holds them all, or it is
        # from another time, and then it holds the person.
        sessions = targets.session_ids[:: len(targets.session_ids) // _LOOKED_FOR + 1]
        # Of rooms nobody can tell: who wrote what was not always noted.
        wanted = (*targets.ids, *sessions, *targets.rooms)
        words = [word.encode("utf-8", "surrogatepass") for word in wanted]
        return [file for file in self._copies() if _holds(file, words)]

    def _copies(self) -> list[Path]:
        name = self._store.name
        if not self._store.parent.is_dir():
            return []
        beside = [
            file
            for file in self._store.parent.iterdir()
            if file.name.startswith(name)
            and file.name != name
            and file.name.removeprefix(name) not in _IN_USE
        ]
        # A repair that was killed has left a folder.
        inside = [file for folder in beside if _is_folder(folder) for file in folder.iterdir()]
        return sorted(file for file in (*beside, *inside) if _is_file(file))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _holds(file: Path, words: list[bytes]) -> bool:
    """Look for words anywhere in a file, also where a piece of it ends."""
    longest = max(map(len, words), default=0)
    before = b""
    with file.open("rb") as reading:
        while piece := reading.read(_CHUNK):
            if any(word in before + piece for word in words):
                return True
            before = piece[-longest:] if longest else b""
    return False


def _counted(files: int) -> dict[str, int]:
    return {"files": files} if files else {}

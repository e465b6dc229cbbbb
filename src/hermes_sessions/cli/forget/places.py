"""All places around a store that may hold data about a user, and the chat's input history."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hermes_sessions.agent.chat_spool import chat_spool_root
from hermes_sessions.config.settings import Settings
from hermes_sessions.gateway.spool_erasure import spools_of
from hermes_sessions.lifecycle.file_erasure import RestartCountEntries, SessionsJsonEntries
from hermes_sessions.storage.care.erasure.coordinator import Erasure, ErasurePlace
from hermes_sessions.storage.care.erasure.discovery import column
from hermes_sessions.storage.care.erasure.file_places import (
    BackupPlace,
    StoreCopyPlace,
    TranscriptPlace,
)
from hermes_sessions.storage.care.erasure.receipts import ErasureStep
from hermes_sessions.storage.care.erasure.targets import ErasureTargets
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.store_context import StoreContext
from hermes_sessions.storage.transfer.copy_ledger import identity

NAME: Final = "input history"


class InputHistory:
    """The lines in the prompt's history *file* that are messages or titles of erased sessions.

    Finds them by their text, so it must run before the sessions are erased. See `ErasurePlace`.
    """

    name = NAME
    needs_rows = True

    def __init__(self, store: StoreContext, file: Path) -> None:
        self._store = store
        self._file = file

    def count(self, targets: ErasureTargets) -> dict[str, int]:
        """See `ErasurePlace.count`."""
        said = self._said(targets)
        number = sum(_is_meant(entry, said) for entry in self._entries()) if said else 0
        return {"lines": number} if number else {}

    def remove(self, targets: ErasureTargets) -> ErasureStep:
        """See `ErasurePlace.remove`."""
        said = self._said(targets)
        if not said:
            return ErasureStep(NAME)
        try:
            entries = list(self._entries())
            kept = [entry for entry in entries if not _is_meant(entry, said)]
            if len(kept) < len(entries):
                _replace(self._file, "".join(kept))
        except OSError as error:
            return ErasureStep(NAME, "pending", why=f"{self._file}: {error.strerror}.")
        removed = len(entries) - len(kept)
        return ErasureStep(NAME, removed={"lines": removed} if removed else {})

    def _said(self, targets: ErasureTargets) -> frozenset[str]:
        """Return the lines of the sessions' messages and titles.

        One message can be several entries: a backslash continues a line in the next entry, and
        lines typed during an answer are joined.
        """
        ids = targets.session_ids
        with self._store.provider.read() as tx:
            said = column(
                tx,
                "SELECT content FROM messages WHERE session_id IN ({}) AND role = ?",
                ids,
                "user",
            )
            for name in ("title", "trashed_title"):
                said += column(tx, f"SELECT {name} FROM sessions WHERE id IN ({{}})", ids)
        return frozenset(line for text in said if text for line in _lines(text))

    def _entries(self) -> Iterator[str]:
        """Yield the entries of the file unchanged: a comment, then lines that start with a plus.

        A missing file has no entries.

        Raises:
            OSError: the file cannot be read.
        """
        try:
            text = self._file.read_bytes().decode("utf-8", "surrogateescape")
        except FileNotFoundError:
            return
        entry: list[str] = []
        # Split at newlines only: typed text may contain other characters that end a line.
        for line in re.findall(r"[^\n]*\n|[^\n]+", text):
            if entry and entry[-1].startswith("+") and not line.startswith("+"):
                yield "".join(entry)
                entry = []
            entry.append(line)
        if entry:
            yield "".join(entry)


def _is_meant(entry: str, said: frozenset[str]) -> bool:
    text = "\n".join(line[1:] for line in entry.split("\n") if line.startswith("+")).strip()
    # A command belongs to a session if its argument is a message or the title of the session.
    argument = text.partition(" ")[2] if text.startswith("/") else ""
    return any(lines and lines <= said for lines in (_lines(text), _lines(argument)))


def _lines(text: str) -> set[str]:
    lines = (line.strip().removesuffix("\\").strip() for line in text.split("\n"))
    return {line for line in lines if line}


def _replace(file: Path, text: str) -> None:
    new = file.with_name(f".{file.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as writing:
        writing.write(text.encode("utf-8", "surrogateescape"))
        writing.flush()
        os.fsync(writing.fileno())
    new.replace(file)


#: The file in the home in which the prompt of a chat keeps typed lines.
HISTORY_FILE = "chat_history"


def make_erasure(db: SessionDB, settings: Settings) -> Erasure:
    """Return the erasure for the configured store and all places around it."""
    home = settings.home
    sessions = home / "sessions"
    places: list[ErasurePlace] = [
        InputHistory(db.store, home / HISTORY_FILE),
        spools_of(home, db.store, [chat_spool_root(home)]),
        SessionsJsonEntries(sessions),
        RestartCountEntries(home),
        TranscriptPlace(sessions),
        BackupPlace(settings.backups.directory, identity(db.provider)),
    ]
    file = db.provider.describe().get("path")
    if file:
        places.append(StoreCopyPlace(Path(file)))
    return Erasure(db.store, places)

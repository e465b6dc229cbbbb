"""Spool files: messages of a gateway, a chat or an adapter that wait for the database."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from hermes_sessions.storage.care.erasure.receipts import ErasureStep
from hermes_sessions.storage.care.erasure.targets import ErasureTargets
from hermes_sessions.storage.fsync import sync_directory, sync_file
from hermes_sessions.storage.spool import count_entries, remove_entries

NAME: Final = "spools"


class SpoolPlace:
    """The spools in *directories* and below, and *journals*: files with one message per line, which
    a gateway may be writing if *is_running*. See `ErasurePlace`.
    """

    name = NAME
    needs_rows = False

    def __init__(
        self,
        directories: Sequence[Path],
        journals: Sequence[Path] = (),
        is_running: Callable[[], bool] = lambda: False,
    ) -> None:
        self._directories = directories
        self._journals = journals
        self._is_running = is_running

    def count(self, targets: ErasureTargets) -> dict[str, int]:
        """See `ErasurePlace.count`."""
        is_meant = partial(_is_meant, targets)
        number = sum(count_entries(directory, is_meant) for directory in self._directories)
        number += sum(len(_meant_in(journal, targets)) for journal in self._journals)
        return {"messages": number} if number else {}

    def remove(self, targets: ErasureTargets) -> ErasureStep:
        """See `ErasurePlace.remove`."""
        removed = in_use = 0
        try:
            for directory in self._directories:
                taken = remove_entries(directory, partial(_is_meant, targets))
                removed, in_use = removed + taken.removed, in_use + taken.in_use
            for journal in self._journals:
                found = len(_meant_in(journal, targets))
                if found and self._is_running():
                    in_use += found
                elif found:
                    _take_out_of(journal, targets)
                    removed += found
        except OSError as error:
            return ErasureStep(NAME, "pending", {"messages": removed}, f"{error}.")
        if in_use:
            why = (
                f"{in_use} wait in files of a running gateway or chat. It drops them when it "
                f"reaches the database, or after it has stopped."
            )
            return ErasureStep(NAME, "pending", {"messages": removed} if removed else {}, why)
        return ErasureStep(NAME, removed={"messages": removed} if removed else {})


def is_about(targets: ErasureTargets, values: Any) -> bool:
    """Tell whether a spooled message is to be erased."""
    if not isinstance(values, dict):
        return False
    if values.get("session_id") in targets.session_ids:
        return True
    source = values.get("source")
    if not isinstance(source, dict):
        return targets.subject.kind == "user" and values.get("user_id") in targets.ids
    people = [_text(source.get(name)) for name in ("user_id", "user_id_alt")]
    return targets.concern(str(source.get("platform")), people, _text(source.get("chat_id")))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _is_meant(targets: ErasureTargets, line: bytes) -> bool:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        # It cannot be parsed, so only an id in it can identify it.
        wanted = (*targets.ids, *targets.session_ids)
        return any(json.dumps(word).encode() in line for word in wanted)
    return is_about(targets, values)


def _lines(journal: Path) -> list[bytes]:
    try:
        return journal.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []


def _meant_in(journal: Path, targets: ErasureTargets) -> list[bytes]:
    return [line for line in _lines(journal) if _is_meant(targets, line)]


def _take_out_of(journal: Path, targets: ErasureTargets) -> None:
    kept = [line for line in _lines(journal) if not _is_meant(targets, line)]
    if not kept:
        journal.unlink(missing_ok=True)
        return
    new = journal.with_suffix(".rewritten")
    new.touch(mode=0o600)
    new.write_bytes(b"".join(kept))
    # The remaining messages must be durable.
    sync_file(new)
    new.replace(journal)
    sync_directory(journal.parent)

"""Files that commands write and read: written whole or not at all."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, BinaryIO, Final

from hermes_sessions.errors import HermesSessionsError, ImportRefused
from hermes_sessions.storage.jsonl import MAX_LINE_BYTES

STANDARD_STREAM = "-"
_PIECE: Final = 1024 * 1024


class FileRefused(HermesSessionsError):
    """A file cannot be written, or must not be; nothing was written."""


@contextmanager
def atomic_write(target: str, *, replace: bool) -> Iterator[BinaryIO]:
    """Lend a file whose content appears under the name *target* when the block ends well.

    Until then it has another name in the same directory, which is removed when the block fails or
    the process is told to end. The file is readable for its owner only, unless it replaces one. A
    pipe or a device is written to directly; ``-`` is standard output.

    Raises:
        FileRefused: *target* exists and *replace* is not set, or cannot be written.
    """
    if target == STANDARD_STREAM:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    named = Path(target)
    # Not by its real path: a pipe of a shell (/dev/fd/63) has none.
    if named.exists() and not named.is_file() and not named.is_dir():
        with _explained(target), named.open("wb") as stream:
            yield stream
        return
    path = Path(os.path.realpath(target))
    _require_free(target, path, replace=replace)
    with _explained(target), _removed_when_told_to_end():
        descriptor, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=".part"
        )
        part = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                if path.exists():
                    os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
                file.flush()
                os.fsync(file.fileno())
            _require_free(target, path, replace=replace)
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)


def _require_free(target: str, path: Path, *, replace: bool) -> None:
    if path.is_dir():
        raise FileRefused(f"{target} is a directory. Give the name of a file.")
    if path.exists() and not replace:
        raise FileRefused(f"{target} exists. Choose another name, or replace it with --force.")


@contextmanager
def _explained(target: str) -> Iterator[None]:
    """Turn what the system says about a file into one line that names it."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if isinstance(error, HermesSessionsError):
            raise
        raise FileRefused(f"{target} cannot be written: {error.strerror or error}.") from error


@contextmanager
def _removed_when_told_to_end() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the block instead of ending the process on the spot.

    Only the main thread can; in another one they do what they always do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def unwind(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, unwind) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _sync_directory(directory: Path) -> None:
    """Make the new name durable, too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def rereadable_copy(source: str) -> Iterator[Path]:
    """Lend the path of a file with the content of *source* that can be read again and again.

    ``-`` (standard input) and pipes are first written to a temporary file.

    Raises:
        ImportRefused: *source* cannot be read.
    """
    path = Path(source)
    if source != STANDARD_STREAM:
        if path.is_dir():
            raise ImportRefused(f"{source} is a directory. Give the name of a file.")
        if not path.exists():
            raise ImportRefused(f"{source} does not exist.")
        if path.is_file():
            yield path
            return
    with _removed_when_told_to_end(), tempfile.NamedTemporaryFile(suffix=".jsonl") as copy:
        try:
            if source == STANDARD_STREAM:
                _copy_lines(sys.stdin.buffer, copy)
            else:
                with path.open("rb") as stream:
                    _copy_lines(stream, copy)
            copy.flush()
        except OSError as error:
            why = error.strerror or error
            raise ImportRefused(f"{source} cannot be copied to read it twice: {why}.") from error
        yield Path(copy.name)


def _copy_lines(stream: BinaryIO, copy: IO[bytes]) -> None:
    """Copy what a stream says; one that never ends a line would fill the disk.

    Raises:
        ImportRefused: a line is longer than any that is read.
    """
    number, length = 1, 0
    while piece := stream.read(_PIECE):
        first, *others = piece.split(b"\n")
        length += len(first)
        if length > MAX_LINE_BYTES:
            raise ImportRefused(
                f"Line {number}: it is longer than {MAX_LINE_BYTES:,} bytes. Nothing was imported."
            )
        if others:
            number, length = number + len(others), len(others[-1])
        copy.write(piece)

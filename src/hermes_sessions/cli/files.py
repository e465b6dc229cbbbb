"""Files that commands read and write; writes are atomic."""

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
    """A file cannot or must not be written; nothing was written."""


@contextmanager
def atomic_write(target: str, *, replace: bool) -> Iterator[BinaryIO]:
    """Lend a file whose content appears under the name *target* when the block succeeds.

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
    with _explained(target), _unwound_by_signals():
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
        raise FileRefused(f"{target} is a directory. Give a file name.")
    if path.exists() and not replace:
        raise FileRefused(
            f"{target} already exists. Choose another name, or overwrite it with --force."
        )


@contextmanager
def _explained(target: str) -> Iterator[None]:
    """Turn an OSError into one line that names the file."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if isinstance(error, HermesSessionsError):
            raise
        raise FileRefused(f"Cannot write {target}: {error.strerror or error}.") from error


@contextmanager
def _unwound_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the block, so that temporary files are removed.

    Works in the main thread only; elsewhere the signals keep their usual effect.
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
    """Make the new directory entry durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def rereadable_copy(source: str) -> Iterator[Path]:
    """Lend the path of a file with the content of *source* that can be read several times.

    ``-`` (standard input) and pipes are first written to a temporary file.

    Raises:
        ImportRefused: *source* cannot be read.
    """
    path = Path(source)
    if source != STANDARD_STREAM:
        if path.is_dir():
            raise ImportRefused(f"{source} is a directory. Give a file name.")
        if not path.exists():
            raise ImportRefused(f"{source} does not exist.")
        if path.is_file():
            yield path
            return
    with _unwound_by_signals(), tempfile.NamedTemporaryFile(suffix=".jsonl") as copy:
        try:
            if source == STANDARD_STREAM:
                _copy_lines(sys.stdin.buffer, copy)
            else:
                with path.open("rb") as stream:
                    _copy_lines(stream, copy)
            copy.flush()
        except OSError as error:
            why = error.strerror or error
            raise ImportRefused(f"Cannot copy {source} to a temporary file: {why}.") from error
        yield Path(copy.name)


def _copy_lines(stream: BinaryIO, copy: IO[bytes]) -> None:
    """Copy a stream; the limit on a line keeps endless input from filling the disk.

    Raises:
        ImportRefused: a line is too long.
    """
    number, length = 1, 0
    while piece := stream.read(_PIECE):
        first, *others = piece.split(b"\n")
        length += len(first)
        if length > MAX_LINE_BYTES:
            raise ImportRefused(
                f"Line {number} is longer than {MAX_LINE_BYTES:,} bytes. Nothing was imported."
            )
        if others:
            number, length = number + len(others), len(others[-1])
        copy.write(piece)

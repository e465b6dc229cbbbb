"""The file form of a backup: compressed sections, then a manifest, then a line that ends the file.

::

    HERMES SESSIONS BACKUP\\n1\\n           what it is, and the version of this form
    sections, one after the other           each a zlib stream
    manifest                                JSON: what the backup is, and a digest per section
    offset length sha256 END OF BACKUP\\n   where the manifest is, and its digest

Every byte is covered: the head is compared, sections and manifest have digests, and the last line
must lead exactly to the end of the file. So a file that was cut or changed anywhere is told from a
whole one. There are no names of files inside, so none can lead anywhere.

What is read is not trusted: nothing is believed before its digest was compared, nothing is held in
memory beyond the bounds below, and a stream that gives more than the manifest says is refused.
"""

from __future__ import annotations

import json
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from hermes_sessions.errors import BackupDamaged, BackupRefused

FORMAT: Final = 1
_MAGIC: Final = b"HERMES SESSIONS BACKUP\n"
_HEAD: Final = _MAGIC + b"%d\n" % FORMAT
_END: Final = b"END OF BACKUP\n"
_FOOTER: Final = 20 + 1 + 10 + 1 + 64 + 1 + len(_END)
#: Of the manifest; ours have a few kilobytes.
_LONGEST_MANIFEST: Final = 4 * 1024 * 1024
_LONGEST_LINE: Final = 1024 * 1024 * 1024
_MOST_SECTIONS: Final = 16
_CHUNK: Final = 256 * 1024
#: Measured in decision 0016.
_LEVEL: Final = 3


class Section(NamedTuple):
    """Where a stream is in the file, and what it holds."""

    name: str
    offset: int
    length: int
    sha256: str
    raw_length: int
    raw_sha256: str
    #: Of the longest line, where it has lines.
    longest_line: int = 0


# ── writing ───────────────────────────────────────────────────────────────────────────────────


class SectionWriter:
    """Compresses what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._press = zlib.compressobj(_LEVEL)
        self._sum = sha256()
        self._raw_sum = sha256()
        self.length = 0
        self.raw_length = 0
        self.longest_line = 0

    def write(self, data: bytes) -> None:
        """Add bytes."""
        self._raw_sum.update(data)
        self.raw_length += len(data)
        self._put(self._press.compress(data))

    def write_line(self, line: bytes) -> None:
        """Add one line, which ends with its newline."""
        self.longest_line = max(self.longest_line, len(line))
        self.write(line)

    def _put(self, pressed: bytes) -> None:
        if pressed:
            self._file.write(pressed)
            self._sum.update(pressed)
            self.length += len(pressed)

    def end(self, name: str, offset: int) -> Section:
        """Write what is left; return what was written."""
        self._put(self._press.flush())
        return Section(
            name,
            offset,
            self.length,
            self._sum.hexdigest(),
            self.raw_length,
            self._raw_sum.hexdigest(),
            self.longest_line,
        )


class ContainerWriter:
    """Writes a backup into a file that is open for writing and empty."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._offset = file.write(_HEAD)
        self._sections: list[Section] = []

    @contextmanager
    def section(self, name: str) -> Iterator[SectionWriter]:
        """Lend a new section, to be written while nothing else is."""
        writer = SectionWriter(self._file)
        yield writer
        section = writer.end(name, self._offset)
        self._sections.append(section)
        self._offset += section.length

    def finish(self, facts: dict[str, Any]) -> None:
        """Write the manifest and the end, and make all of it durable."""
        manifest = {
            "format": FORMAT,
            **facts,
            "sections": [section._asdict() for section in self._sections],
        }
        text = json.dumps(manifest, ensure_ascii=True, indent=1).encode("ascii")
        self._file.write(text)
        self._file.write(
            b"%020d %010d %s " % (self._offset, len(text), sha256(text).hexdigest().encode())
        )
        self._file.write(_END)
        self._file.flush()
        os.fsync(self._file.fileno())


# ── reading ───────────────────────────────────────────────────────────────────────────────────


class Container:
    """A backup that is open for reading; its head, end and manifest are whole."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        """Raises:
        BackupDamaged: it is no backup, or not a whole one.
        BackupRefused: a later version wrote it.
        """
        self._file = file
        self.path = path
        self.size = os.fstat(file.fileno()).st_size
        self._read_head()
        self.manifest, end = self._read_manifest()
        self.sections = self._read_sections(end)

    def damaged(self, what: str) -> BackupDamaged:
        """Return the error for something that is not as it was written."""
        return BackupDamaged(
            f"{self.path} is damaged: {what}. It was not used; take another backup "
            f"(hermes backup list)."
        )

    def _read_head(self) -> None:
        head = self._file.read(len(_MAGIC) + 12)
        if not head.startswith(_MAGIC):
            raise BackupDamaged(f"{self.path} is no backup of Hermes Sessions; nothing was done.")
        version, newline, _ = head[len(_MAGIC) :].partition(b"\n")
        if not newline or not version.isdigit() or len(version) > 9:
            raise self.damaged("its first bytes are not as they were written")
        if int(version) > FORMAT:
            raise BackupRefused(
                f"{self.path} was written by a later version (form {int(version)}, this one reads "
                f"up to {FORMAT}). Update this program, then try again."
            )
        if not head.startswith(_HEAD):
            raise self.damaged("its first bytes are not as they were written")

    def _read_manifest(self) -> tuple[dict[str, Any], int]:
        if self.size < len(_HEAD) + _FOOTER:
            raise self.damaged("its end is missing")
        self._file.seek(self.size - _FOOTER)
        footer = self._file.read(_FOOTER)
        parts = footer.split(b" ", 3)
        if len(parts) != 4 or parts[3] != _END:
            raise self.damaged("its end is missing")
        if [len(part) for part in parts[:3]] != [20, 10, 64] or not (
            parts[0].isdigit() and parts[1].isdigit()
        ):
            raise self.damaged("its last line is not as it was written")
        offset, length = int(parts[0]), int(parts[1])
        if (
            offset < len(_HEAD)
            or length > _LONGEST_MANIFEST
            or offset + length + _FOOTER != self.size
        ):
            raise self.damaged("its last line leads nowhere")
        self._file.seek(offset)
        text = self._file.read(length)
        if sha256(text).hexdigest().encode() != parts[2]:
            raise self.damaged("its manifest is not as it was written")
        try:
            manifest = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.damaged("its manifest cannot be read") from error
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise self.damaged("its manifest is none")
        return manifest, offset

    def _read_sections(self, end: int) -> dict[str, Section]:
        listed = self.manifest.get("sections")
        if not isinstance(listed, list) or len(listed) > _MOST_SECTIONS:
            raise self.damaged("its manifest has no list of sections")
        found: dict[str, Section] = {}
        at = len(_HEAD)
        for each in listed:
            section = self._section(each)
            if section.offset != at or section.name in found:
                raise self.damaged("its sections do not follow each other")
            found[section.name] = section
            at += section.length
        if at != end:
            raise self.damaged("its sections do not fill it")
        return found

    def _section(self, value: object) -> Section:
        if not isinstance(value, dict) or set(value) != set(Section._fields):
            raise self.damaged("its manifest has a section that is none")
        for name in Section._fields:
            found: Any = value[name]
            wanted = str if name in ("name", "sha256", "raw_sha256") else int
            if type(found) is not wanted or (isinstance(found, int) and found < 0):
                raise self.damaged("its manifest has a section that is none")
        return Section(**value)

    def require(self, name: str) -> Section:
        """Return a section that every backup of its kind has."""
        if name not in self.sections:
            raise self.damaged(f"it has no section {name!r}")
        return self.sections[name]

    def check_digests(self) -> None:
        """Compare every section with its digest; nothing is uncompressed.

        Raises:
            BackupDamaged: one is not as it was written.
        """
        for section in self.sections.values():
            for _ in self._pressed(section):
                pass

    def _pressed(self, section: Section) -> Iterator[bytes]:
        self._file.seek(section.offset)
        left, digest = section.length, sha256()
        while left:
            chunk = self._file.read(min(_CHUNK, left))
            if not chunk:
                raise self.damaged("its end is missing")
            left -= len(chunk)
            digest.update(chunk)
            yield chunk
        if digest.hexdigest() != section.sha256:
            raise self.damaged(f"its section {section.name!r} is not as it was written")

    def read(self, name: str) -> Iterator[bytes]:
        """Yield a section's content in pieces of bounded size. It is proven at its end, and not
        before: who cannot take back what it did with the pieces calls `check_digests` first.

        Raises:
            BackupDamaged: it is not what was written.
        """
        section = self.require(name)
        unpress, digest, length = zlib.decompressobj(), sha256(), 0
        for chunk in self._pressed(section):
            left = chunk
            while left:
                try:
                    piece = unpress.decompress(left, _CHUNK)
                except zlib.error as error:
                    raise self.damaged(f"its section {name!r} cannot be uncompressed") from error
                left = unpress.unconsumed_tail
                length += len(piece)
                if length > section.raw_length or unpress.unused_data:
                    raise self.damaged(f"its section {name!r} holds more than its manifest says")
                digest.update(piece)
                if piece:
                    yield piece
        if not unpress.eof or length != section.raw_length:
            raise self.damaged(f"its section {name!r} holds less than its manifest says")
        if digest.hexdigest() != section.raw_sha256:
            raise self.damaged(f"its section {name!r} is not what was written")

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield a section's lines; see `read`."""
        longest = min(self.require(name).longest_line, _LONGEST_LINE)
        rest: list[bytes] = []
        waiting = 0
        for piece in self.read(name):
            first, *others = piece.split(b"\n")
            waiting += len(first)
            rest.append(first)
            for other in others:
                if waiting >= longest:
                    raise self.damaged(f"a line in {name!r} is longer than its manifest says")
                yield b"".join(rest)
                rest, waiting = [other], len(other)
            if waiting >= max(longest, 1):
                raise self.damaged(f"a line in {name!r} is longer than its manifest says")
        if waiting:
            raise self.damaged(f"the last line in {name!r} has no end")


@contextmanager
def opened(path: Path) -> Iterator[Container]:
    """Lend the backup at *path*.

    Raises:
        BackupDamaged, BackupRefused: see `Container`; also when there is no such file.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BackupRefused(f"{path} is no file.")
        file = path.open("rb")
    except OSError as error:
        raise BackupRefused(f"{path} cannot be read: {error.strerror}.") from error
    with file:
        yield Container(file, path)

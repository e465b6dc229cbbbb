"""The file format of a backup: compressed sections, a manifest, and a last line.

::

    HERMES SESSIONS BACKUP\\n1\\n           magic, and the version of the format
    sections, one after the other           each a zlib stream
    manifest                                JSON: description, and a digest per section
    offset length sha256 END OF BACKUP\\n   position of the manifest, and its digest

Every byte is covered: the head is compared, sections and manifest have digests, and the last line
must lead exactly to the end of the file. So any truncation or change is detected. There are no file
names inside, so none can lead elsewhere.

The content is untrusted: nothing is used before its digest was compared, memory use is bounded by
the limits below, and a stream with more data than the manifest states is refused.
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
#: The manifest's size limit; typical ones have a few kilobytes.
_LONGEST_MANIFEST: Final = 4 * 1024 * 1024
_LONGEST_LINE: Final = 1024 * 1024 * 1024
_MOST_SECTIONS: Final = 16
_CHUNK: Final = 256 * 1024
#: Measured in decision 0016.
_LEVEL: Final = 3


class Section(NamedTuple):
    """The position of a stream in the file, and its content."""

    name: str
    offset: int
    length: int
    sha256: str
    raw_length: int
    raw_sha256: str
    #: The length of the longest line, if it consists of lines.
    longest_line: int = 0


# Writing


class SectionWriter:
    """Compresses the data written to it."""

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
        """Flush the stream; return its description."""
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
    """Writes a backup into an empty file that is open for writing."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._offset = file.write(_HEAD)
        self._sections: list[Section] = []

    @contextmanager
    def section(self, name: str) -> Iterator[SectionWriter]:
        """Lend a new section; only one can be written at a time."""
        writer = SectionWriter(self._file)
        yield writer
        section = writer.end(name, self._offset)
        self._sections.append(section)
        self._offset += section.length

    def finish(self, facts: dict[str, Any]) -> None:
        """Write the manifest and the last line, and make the file durable."""
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


# Reading


class Container:
    """A backup open for reading, whose head, end and manifest are intact."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        """Read the head and the manifest.

        Raises:
            BackupDamaged: not a backup, or not a complete one.
            BackupRefused: a later version wrote it.
        """
        self._file = file
        self.path = path
        self.size = os.fstat(file.fileno()).st_size
        self._read_head()
        self.manifest, end = self._read_manifest()
        self.sections = self._read_sections(end)

    def damaged(self, what: str) -> BackupDamaged:
        """Return the error for damaged content."""
        return BackupDamaged(
            f"{self.path} is damaged: {what}. It was not used; choose another backup "
            f"(hermes backup list)."
        )

    def _read_head(self) -> None:
        head = self._file.read(len(_MAGIC) + 12)
        if not head.startswith(_MAGIC):
            raise BackupDamaged(f"{self.path} is not a Hermes Sessions backup; nothing was done.")
        version, newline, _ = head[len(_MAGIC) :].partition(b"\n")
        if not newline or not version.isdigit() or len(version) > 9:
            raise self.damaged("its first bytes are damaged")
        if int(version) > FORMAT:
            raise BackupRefused(
                f"{self.path} was written by a later version (format {int(version)}, this one "
                f"reads up to {FORMAT}). Update this program, then try again."
            )
        if not head.startswith(_HEAD):
            raise self.damaged("its first bytes are damaged")

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
            raise self.damaged("its last line is damaged")
        offset, length = int(parts[0]), int(parts[1])
        if (
            offset < len(_HEAD)
            or length > _LONGEST_MANIFEST
            or offset + length + _FOOTER != self.size
        ):
            raise self.damaged("its last line points to the wrong position")
        self._file.seek(offset)
        text = self._file.read(length)
        if sha256(text).hexdigest().encode() != parts[2]:
            raise self.damaged("its manifest is damaged")
        try:
            manifest = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.damaged("its manifest cannot be read") from error
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise self.damaged("its manifest is not an object")
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
                raise self.damaged("its sections are not consecutive")
            found[section.name] = section
            at += section.length
        if at != end:
            raise self.damaged("its sections do not fill the file")
        return found

    def _section(self, value: object) -> Section:
        if not isinstance(value, dict) or set(value) != set(Section._fields):
            raise self.damaged("its manifest has an invalid section")
        for name in Section._fields:
            found: Any = value[name]
            wanted = str if name in ("name", "sha256", "raw_sha256") else int
            if type(found) is not wanted or (isinstance(found, int) and found < 0):
                raise self.damaged("its manifest has an invalid section")
        return Section(**value)

    def require(self, name: str) -> Section:
        """Return a section that every backup of its kind has."""
        if name not in self.sections:
            raise self.damaged(f"it has no section {name!r}")
        return self.sections[name]

    def check_digests(self) -> None:
        """Compare every section with its digest, without decompressing it.

        Raises:
            BackupDamaged: a section is damaged.
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
            raise self.damaged(f"its section {section.name!r} is damaged")

    def read(self, name: str) -> Iterator[bytes]:
        """Yield a section's content in pieces of bounded size.

        It is only verified at the end. Callers that cannot undo their use of the pieces call
        `check_digests` first.

        Raises:
            BackupDamaged: it differs from what was written.
        """
        section = self.require(name)
        unpress, digest, length = zlib.decompressobj(), sha256(), 0
        for chunk in self._pressed(section):
            left = chunk
            while left:
                try:
                    piece = unpress.decompress(left, _CHUNK)
                except zlib.error as error:
                    raise self.damaged(f"its section {name!r} cannot be decompressed") from error
                left = unpress.unconsumed_tail
                length += len(piece)
                if length > section.raw_length or unpress.unused_data:
                    raise self.damaged(f"its section {name!r} is longer than its manifest says")
                digest.update(piece)
                if piece:
                    yield piece
        if not unpress.eof or length != section.raw_length:
            raise self.damaged(f"its section {name!r} is shorter than its manifest says")
        if digest.hexdigest() != section.raw_sha256:
            raise self.damaged(f"its section {name!r} differs from what was written")

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
            raise self.damaged(f"the last line in {name!r} is incomplete")


@contextmanager
def opened(path: Path) -> Iterator[Container]:
    """Lend the backup at *path*.

    Raises:
        BackupDamaged, BackupRefused: see `Container`; also if the file does not exist.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BackupRefused(f"{path} is not a file.")
        file = path.open("rb")
    except OSError as error:
        raise BackupRefused(f"{path} cannot be read: {error.strerror}.") from error
    with file:
        yield Container(file, path)

"""The configuration file as a tree of text with line numbers.

Built from YAML events rather than by a YAML loader: the text stays as it was written, keys of
other programs are never turned into objects, every node knows its line, duplicates are visible,
and nesting is bounded, which the C loader does not do for itself.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from hermes_sessions.errors import ConfigError

if TYPE_CHECKING:
    import yaml

MAX_FILE_BYTES = 4 * 1024**2
MAX_DEPTH = 100

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_MERGE = "<<"


@dataclass(slots=True, eq=False)
class Scalar:
    """A text as written; ``plain`` if it has no quotes."""

    line: int
    text: str
    plain: bool

    @property
    def is_null(self) -> bool:
        """Whether this is YAML's null."""
        return self.plain and self.text in _NULLS


@dataclass(slots=True, eq=False)
class Listing:
    """A list."""

    line: int
    items: list[Node] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Section:
    """A mapping; keys in file order, duplicates included."""

    line: int
    pairs: list[tuple[Node, Node]] = field(default_factory=list)

    def entries(self) -> list[tuple[Scalar, Node]]:
        """Return the keys of this section with their values, in file order.

        Keys merged by ``<<`` come last, except those that are written here. Keys that are not text
        are skipped: none of ours is.
        """
        own = [
            (key, value)
            for key, value in self.pairs
            if isinstance(key, Scalar) and not _is_merge(key)
        ]
        names = {key.text for key, _ in own}
        merged: list[tuple[Scalar, Node]] = []
        for section in self._merged_sections():
            for key, value in section.pairs:
                if isinstance(key, Scalar) and not _is_merge(key) and key.text not in names:
                    names.add(key.text)
                    merged.append((key, value))
        return own + merged

    def _merged_sections(self) -> list[Section]:
        """Return the sections merged into this one, nearest first, each once."""
        found: list[Section] = []
        seen: set[int] = set()
        pending: list[Node] = [self]
        while pending:
            node = pending.pop(0)
            if isinstance(node, Scalar) or id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, Listing):
                pending = node.items + pending
            else:
                found.append(node)
                pending = [value for key, value in node.pairs if _is_merge(key)] + pending
        return found[1:]


Node = Scalar | Listing | Section


def _is_merge(key: Node) -> bool:
    return isinstance(key, Scalar) and key.plain and key.text == _MERGE


def read_document(path: Path) -> Section | None:
    """Return the content of the file, or None when it does not exist or holds nothing.

    Raises ConfigError, naming the file and the place in it, when the file cannot be read or is
    not one YAML mapping. No message repeats text of the file, which may hold secrets.
    """
    content = _read(path)
    if content is None:
        return None
    text = _decode(path, content)
    if not text.strip():
        return None
    root = _parse(path, text)
    if root is None or (isinstance(root, Scalar) and root.is_null):
        return None
    if not isinstance(root, Section):
        found = "a list" if isinstance(root, Listing) else "a single value"
        raise ConfigError(
            f"{path} holds {found} where sections with keys are expected. Write it like this:\n"
            f"sessiondb:\n  provider: sqlite"
        )
    return root


def _read(path: Path) -> bytes | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise ConfigError(
                f"{path} is a link to a file that does not exist. "
                f"Restore the file, or remove the link to use the defaults."
            ) from None
        return None
    except NotADirectoryError:
        raise ConfigError(
            f"{path.parent} is not a directory. Set HERMES_HOME to a directory."
        ) from None
    except OSError as error:
        _unreadable(path, error)
    if stat.S_ISDIR(status.st_mode):
        raise ConfigError(
            f"{path} is a directory, not a file. Remove it; without a file the defaults apply."
        )
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{path} is not a regular file. Replace it with one, or remove it.")
    if status.st_size > MAX_FILE_BYTES:
        raise ConfigError(
            f"{path} has {status.st_size:,} bytes; a configuration has at most "
            f"{MAX_FILE_BYTES:,}. Check that it is the right file."
        )
    try:
        return path.read_bytes()
    except OSError as error:
        _unreadable(path, error)


def _unreadable(path: Path, error: OSError) -> NoReturn:
    raise ConfigError(
        f"{path} cannot be read: {error.strerror}. "
        f"Give yourself permission to read it, or set HERMES_HOME to another directory."
    ) from error


def _decode(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _line_and_column(content[: error.start].decode("utf-8-sig"))
        raise ConfigError(
            f"{path}, line {line}, column {column}: byte 0x{content[error.start]:02x} is not "
            f"UTF-8. Save the file with the encoding UTF-8."
        ) from None


def _line_and_column(before: str) -> tuple[int, int]:
    """Return line and column, counted from 1, of what follows ``before``."""
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _parse(path: Path, text: str) -> Node | None:
    import yaml

    # The parser written in C is many times faster and part of the usual builds, but not of all.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Builder(path).build(yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise ConfigError(_syntax_message(path, text, line, column, error.problem or "")) from None
    except yaml.reader.ReaderError as error:
        # Its position is counted in bytes by one parser and in characters by the other.
        line, column = _line_and_column(text.partition(chr(error.character))[0])
        raise ConfigError(
            f"{path}, line {line}, column {column}: the control character "
            f"0x{error.character:02x} is not allowed in YAML. Remove it."
        ) from None


def _syntax_message(path: Path, text: str, line: int, column: int, problem: str) -> str:
    # Longer quotes in the parser's message are text of the file: an alias, an anchor, a tag.
    reason = re.sub(r"'(?!<)[^']{2,}'", "", problem).strip() or "the text cannot be parsed"
    lines = text.splitlines()
    content = lines[line - 1] if line <= len(lines) else ""
    if content[column - 1 : column] == "\t" or content.lstrip(" ").startswith("\t"):
        hint = "Indent with spaces; YAML does not allow tabs."
    elif "${" in content and "{" in content.replace("${", ""):
        hint = 'Put values with ${...} in quotes: "${NAME}".'
    else:
        hint = "Check the indentation, colons and quotes there and in the line above."
    return f"{path}, line {line}, column {column}: not valid YAML ({reason}). {hint}"


class _Builder:
    """Builds the tree from parser events with an explicit stack."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._anchors: dict[str, Node] = {}
        self._open: list[Section | Listing] = []
        self._keys: list[Node | None] = []
        self._root: Node | None = None

    def build(self, events: Iterator[yaml.Event]) -> Node | None:
        import yaml

        documents = 0
        for event in events:
            line = event.start_mark.line + 1 if event.start_mark else 0
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._refuse(line, "a second document begins. Keep one, without '---' between")
            elif isinstance(event, yaml.ScalarEvent):
                plain = event.style is None or event.style == ""
                self._add(Scalar(line, event.value, plain and not event.tag), event.anchor)
            elif isinstance(event, yaml.AliasEvent):
                if event.anchor not in self._anchors:
                    self._refuse(
                        line,
                        "an alias (*name) has no anchor (&name). Quote the value if it is text",
                    )
                self._add(self._anchors[event.anchor], None)
            elif isinstance(event, yaml.MappingStartEvent):
                self._enter(Section(line), event.anchor)
            elif isinstance(event, yaml.SequenceStartEvent):
                self._enter(Listing(line), event.anchor)
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                self._open.pop()
                self._keys.pop()
        return self._root

    def _enter(self, node: Section | Listing, anchor: str | None) -> None:
        if len(self._open) >= MAX_DEPTH:
            self._refuse(node.line, f"nested more than {MAX_DEPTH} levels deep. Flatten it")
        self._add(node, anchor)
        self._open.append(node)
        self._keys.append(None)

    def _add(self, node: Node, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        if isinstance(parent, Listing):
            parent.items.append(node)
            return
        key = self._keys[-1]
        if key is None:
            self._keys[-1] = node
        else:
            parent.pairs.append((key, node))
            self._keys[-1] = None

    def _refuse(self, line: int, problem: str) -> NoReturn:
        raise ConfigError(f"{self._path}, line {line}: {problem}.")

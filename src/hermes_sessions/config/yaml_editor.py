"""Edit the text of a configuration in place, so that the rest stays exactly as it is.

A YAML library that reads and writes would lose comments, order and quotes. So the text itself is
edited at the positions that the parser reports, and the result is parsed and compared with what was
intended. Unusual YAML is refused, with the lines to write by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import yaml

from hermes_sessions.errors import ConfigError

#: The value of a key; None removes it.
Value = str | bool | tuple[str, ...] | None

_SECTION: Final = "platforms"
_STEP: Final = 2
_BOM: Final = "\ufeff"


class NotEditable(ConfigError):
    """The text cannot be edited in place."""


def with_platform(text: str, name: str, values: Mapping[str, Value]) -> str:
    """Return the text with keys of ``platforms.<name>`` set or removed; the rest stays.

    Raises:
        NotEditable: it cannot be edited; the message has the lines to write by hand.
    """
    mark = _BOM if text.startswith(_BOM) else ""
    before = text.removeprefix(mark).replace("\r\n", "\n")
    try:
        after = _Edited(before, name, values).text
        is_right = _content(after) == _expected(before, name, values)
    except (yaml.YAMLError, _Unusual, TypeError):
        is_right, after = False, ""
    if not is_right:
        lines = "".join(f"  {line}\n" for line in platform_lines(name, values))
        raise NotEditable(
            f"The configuration cannot be edited automatically, because of how it is written. Add "
            f"this by hand:\n{_SECTION}:\n{lines}"
        )
    return mark + (after.replace("\n", "\r\n") if "\r\n" in text else after)


def platform_lines(name: str, values: Mapping[str, Value]) -> list[str]:
    """Return the lines of a platform's section under ``platforms``."""
    return [f"{name}:", *(f"{' ' * _STEP}{line}" for line in _key_lines(values))]


def _key_lines(values: Mapping[str, Value]) -> list[str]:
    return [f"{key}: {_written(value)}" for key, value in values.items() if value is not None]


def _written(value: Value) -> str:
    plain: object = list(value) if isinstance(value, tuple) else value
    text = yaml.safe_dump(plain, default_flow_style=True, width=10**9, allow_unicode=True)
    return text.removesuffix("...\n").rstrip("\n")


class _Unusual(Exception):
    """This form of YAML is not edited."""


class _Edited:
    """One text, edited."""

    def __init__(self, text: str, name: str, values: Mapping[str, Value]) -> None:
        self.text = text if not text or text.endswith("\n") else f"{text}\n"
        self._name = name
        self._values = values
        root = yaml.compose(self.text, Loader=yaml.SafeLoader)
        if root is None or _is_null(root):
            self._append(0)
            return
        platforms = _find(_block(root), _SECTION)
        if platforms is None:
            self._append(root.start_mark.column)
        elif _is_null(platforms[1]):
            self._fill(*platforms, platform_lines(name, values))
        else:
            self._in_platforms(_block(platforms[1]))

    def _in_platforms(self, platforms: yaml.MappingNode) -> None:
        section = _find(platforms, self._name)
        if section is None:
            lines = platform_lines(self._name, self._values)
            self._insert(self._end_of(platforms), platforms.start_mark.column, lines)
        elif _is_null(section[1]):
            self._fill(*section, _key_lines(self._values))
        else:
            self._in_section(_block(section[1]))

    def _in_section(self, section: yaml.MappingNode) -> None:
        column = section.start_mark.column
        new = {}
        edits: list[tuple[int, int, str]] = []
        for key, value in self._values.items():
            found = _find(section, key)
            if found is None:
                new[key] = value
            else:
                edits.append(self._edit(*found, value))
        # At its end, so that a comment at the start of a section stays there.
        lines = "".join(f"{' ' * column}{line}\n" for line in _key_lines(new))
        edits.append((self._end_of(section), self._end_of(section), lines))
        for start, end, replacement in sorted(edits, reverse=True):
            self.text = self.text[:start] + replacement + self.text[end:]

    def _edit(self, key: yaml.Node, node: yaml.Node, value: Value) -> tuple[int, int, str]:
        """Return the part of the text in which a key is set, and its replacement."""
        if value is not None and isinstance(node, yaml.ScalarNode) and node.style not in ("|", ">"):
            space = " " if node.start_mark.index == node.end_mark.index else ""
            return node.start_mark.index, node.end_mark.index, space + _written(value)
        start = self._start_of_line(key.start_mark.index)
        column = " " * key.start_mark.column
        line = "" if value is None else f"{column}{_key_lines({key.value: value})[0]}\n"
        return start, self._end_of(node), line

    def _append(self, column: int) -> None:
        gap = "\n" if self.text.strip() else ""
        lines = [f"{_SECTION}:", *(f"  {x}" for x in platform_lines(self._name, self._values))]
        self._insert(len(self.text), column, lines, before=gap)

    def _fill(self, key: yaml.Node, node: yaml.Node, lines: list[str]) -> None:
        """Add keys to an empty section."""
        self._insert(self._end_of(node), key.start_mark.column + _STEP, lines)
        self.text = self.text[: node.start_mark.index] + self.text[node.end_mark.index :]

    def _insert(self, at: int, column: int, lines: list[str], before: str = "") -> None:
        inserted = "".join(f"{' ' * column}{line}\n" for line in lines)
        self.text = self.text[:at] + before + inserted + self.text[at:]

    def _start_of_line(self, index: int) -> int:
        return self.text.rfind("\n", 0, index) + 1

    def _end_of(self, node: yaml.Node) -> int:
        """Return where the line after the last one of a value begins."""
        # The parser ends a block where the next node starts, which is after comments.
        while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
            last = node.value[-1]
            node = last[1] if isinstance(node, yaml.MappingNode) else last
        end = node.end_mark.index
        if end and self.text[end - 1] == "\n" and end > node.start_mark.index:
            return cast(int, end)
        return self.text.find("\n", end) + 1 or len(self.text)


def _block(node: yaml.Node) -> yaml.MappingNode:
    if not isinstance(node, yaml.MappingNode) or node.flow_style or not node.value:
        raise _Unusual
    return node


def _find(section: yaml.MappingNode, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    found = [(key, value) for key, value in section.value if _named(key) == name]
    if len(found) > 1:
        raise _Unusual
    return found[0] if found else None


def _named(key: yaml.Node) -> str | None:
    return key.value.strip().lower() if isinstance(key, yaml.ScalarNode) else None


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _content(text: str) -> Any:
    return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - makes nothing but text


def _expected(text: str, name: str, values: Mapping[str, Value]) -> Any:
    """Return the intended contents."""
    content = _section(_content(text))
    platforms = _section(content.get(_SECTION))
    called = next((key for key in platforms if key.strip().lower() == name), name)
    section = _section(platforms.get(called))
    for key, value in values.items():
        if value is None:
            section.pop(key, None)
        else:
            section[key] = _content(_written(value))
    return {**content, _SECTION: {**platforms, called: section}}


def _section(content: Any) -> dict[str, Any]:
    return dict(content) if isinstance(content, dict) else {}

"""Which pieces SQL texts are put together from, read from the source.

A text is made of constants when each piece that is put into it is a literal, a constant of a module
(in capitals), what one of the helpers below makes of names of columns, or a variable that only ever
holds such a text. Everything else is a finding.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[2] / "src"

_LOOKS_LIKE_SQL = re.compile(
    r"\b(SELECT\s|INSERT\s(OR\s\w+\s)?INTO|UPDATE\s+\S+\s+SET|DELETE\sFROM|WHERE\s|FROM\s\w|"
    r"VALUES\s*\(|PRAGMA\s|ORDER\sBY|CREATE\s(TABLE|INDEX|TRIGGER)|ALTER\sTABLE|DROP\s\w+|"
    r"LIMIT\s|ON\sCONFLICT|VACUUM|OPTIMIZE\sTABLE)"
)
#: A file without any of these words has no text that looks like it; most have none.
_WORDS = re.compile(
    r"SELECT|INSERT|UPDATE|DELETE|WHERE|FROM|VALUES|PRAGMA|ORDER|CREATE|ALTER|DROP|LIMIT|CONFLICT|"
    r"VACUUM|OPTIMIZE"
)
#: What makes SQL of names of columns and tables, or of a number; never of a value.
HELPERS = frozenset(
    {
        "placeholders",
        "names",
        "_names",
        "columns",
        "quoted",
        "_quoted",
        "order_by",
        "key_placeholder",
        "len",
        "_column",
        "_insert",
        "_select",
        "_is_number",
        "_is_plain",
        "_as_bytes",
        "_added_cost",
        "ascii_lower",
    }
)
#: Attributes that hold SQL, or names that are declared in ``storage/tables.py``.
ATTRIBUTES = frozenset(
    {"sql", "for_update", "name", "columns", "key", "condition", "references", "default"}
)


class Finding(NamedTuple):
    """A piece of a text that may be anything."""

    module: str
    function: str
    piece: str
    line: int

    @property
    def where(self) -> tuple[str, str]:
        return f"{self.module}:{self.function}", self.piece


@cache
def findings() -> tuple[Finding, ...]:
    """Return what there is in the whole source."""
    return tuple(
        finding
        for path in sorted(SOURCE.rglob("*.py"))
        for finding in findings_in(
            path.read_text(encoding="utf-8"),
            ".".join(path.relative_to(SOURCE).with_suffix("").parts),
        )
    )


def findings_in(source: str, module: str) -> Iterator[Finding]:
    """Yield each piece of an SQL text that is not made of constants."""
    if not _WORDS.search(source):
        return
    tree = ast.parse(source)
    for function in [tree, *(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))]:
        scope = _Scope(function)
        for text in scope.texts():
            for piece in scope.loose_pieces(text):
                name = getattr(function, "name", "")
                yield Finding(module, name, ast.unparse(piece), text.lineno)


class _Scope:
    """A function, or the body of a module, without the functions inside."""

    def __init__(self, node: ast.AST) -> None:
        self._nodes = list(self._inside(node))
        self._assigned: dict[str, list[ast.expr]] = {}
        for each in self._nodes:
            match each:
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._note(target, value)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._note(target, value)
                case ast.AugAssign(target=target, value=value):
                    self._note(target, value)
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value]
                ):
                    self._assigned.setdefault(name, []).append(value)

    def _inside(self, node: ast.AST) -> Iterator[ast.AST]:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield child
                yield from self._inside(child)

    def _note(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._assigned.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for name, part in zip(target.elts, value.elts, strict=False):
                self._note(name, part)

    def texts(self) -> Iterator[ast.expr]:
        """Texts that are put together here and look like SQL."""
        for node in self._nodes:
            match node:
                case ast.JoinedStr(values=values):
                    if _LOOKS_LIKE_SQL.search(_literal(values)):
                        yield node
                case ast.BinOp(left=left, op=ast.Add() | ast.Mod(), right=right):
                    if any(_is_sql(side) for side in (left, right)):
                        yield node
                case ast.Call(func=ast.Attribute(value=ast.Constant() as value, attr="format")):
                    if _is_sql(value):
                        yield node

    def loose_pieces(self, text: ast.expr) -> Iterator[ast.expr]:
        """Pieces that may be anything."""
        match text:
            case ast.JoinedStr(values=values):
                for each in values:
                    if isinstance(each, ast.FormattedValue) and not self.is_constant(each.value):
                        yield each.value
            case ast.BinOp(left=left, right=right):
                for side in (left, right):
                    if not self.is_constant(side):
                        yield side
            case ast.Call(args=args, keywords=keywords):
                for argument in [*args, *(each.value for each in keywords)]:
                    if not self.is_constant(argument):
                        yield argument

    def is_constant(  # noqa: C901, PLR0911, PLR0912 - one case for each kind of expression
        self, node: ast.expr, seen: frozenset[str] = frozenset()
    ) -> bool:
        """Whether a piece is made of constants."""

        def every(*parts: ast.expr) -> bool:
            return all(self.is_constant(part, seen) for part in parts)

        match node:
            case ast.Constant():
                return True
            case ast.Name(id=name) if name.strip("_").isupper():
                return True
            case ast.Name(id=name) if name in self._assigned and name not in seen:
                inner = seen | {name}
                return all(self.is_constant(value, inner) for value in self._assigned[name])
            case ast.Name(id=name):
                return name in seen
            case ast.Attribute(attr=attr):
                return attr.strip("_").isupper() or attr in ATTRIBUTES
            case ast.JoinedStr(values=values):
                return every(*(v.value for v in values if isinstance(v, ast.FormattedValue)))
            case ast.IfExp(body=body, orelse=orelse):
                return every(body, orelse)
            case ast.BinOp(left=left, right=right):
                return every(left, right)
            case ast.BoolOp(values=values):
                return every(*values)
            case ast.List(elts=elts) | ast.Tuple(elts=elts):
                return every(*elts)
            case ast.Starred(value=value):
                return every(value)
            case ast.Subscript(value=value):
                return every(value)
            case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="join"), args=[parts]):
                return every(parts)
            case ast.Call(func=ast.Name(id="map"), args=[ast.Name(id=helper), *_]):
                return helper in HELPERS
            case ast.Call(func=ast.Name(id=helper)):
                return helper in HELPERS
            case ast.GeneratorExp(elt=elt) | ast.ListComp(elt=elt):
                return self._is_constant_for_each(node, elt, seen)
        return False

    def _is_constant_for_each(
        self, node: ast.GeneratorExp | ast.ListComp, elt: ast.expr, seen: frozenset[str]
    ) -> bool:
        names = set()
        for generator in node.generators:
            if self.is_constant(generator.iter, seen):
                names |= {n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name)}
        return self.is_constant(elt, seen | names)


def _literal(values: list[ast.expr]) -> str:
    return "".join(str(v.value) if isinstance(v, ast.Constant) else "x" for v in values)


def _is_sql(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str() as text):
            return bool(_LOOKS_LIKE_SQL.search(text))
        case ast.JoinedStr(values=values):
            return bool(_LOOKS_LIKE_SQL.search(_literal(values)))
    return False

"""Translates SQL that was written for SQLite to that of a server.

Callers of the drop-in module read the documented tables with statements of their own. What means
the same on every database is passed on; the rest is translated, or refused if it is not known to
mean the same: a wrong answer would be worse than an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hermes_sessions.errors import StatementRefused

_TOKEN: Final = re.compile(
    r"""(?P<space>(?:\s+|--[^\n]*|/\*.*?\*/)+)
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<word>[A-Za-z_]\w*)
    |(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<mark>\?|[:@$][A-Za-z_]\w*)
    |(?P<sign><=|>=|<>|!=|==|[=<>+\-*(),.;])""",
    re.VERBOSE | re.DOTALL,
)
#: Texts that mean the same within every server's quotes.
_PLAIN: Final = re.compile(r"'[\w .,:/-]*'", re.ASCII)
#: Words that a server understands in another way than SQLite, or not at all.
_REFUSED: Final = frozenset(
    "CAST COLLATE FILTER GLOB INDEXED LIKE MATCH OVER REGEXP REPLACE RETURNING ROWID".split()
)
_VERBS: Final = frozenset({"SELECT", "WITH", "INSERT", "UPDATE", "DELETE"})
#: Words before a parenthesis that are no functions.
_KEYWORDS: Final = frozenset(
    "ALL AND AS BETWEEN BY CASE DISTINCT ELSE EXCEPT EXISTS FROM HAVING IN INTERSECT IS JOIN LIMIT "
    "NOT OFFSET ON OR SELECT SET THEN UNION USING VALUES WHEN WHERE".split()
)
_END_OF_TERMS: Final = frozenset({"LIMIT", "UNION", "EXCEPT", "INTERSECT"})


class ServerSyntax(NamedTuple):
    """How a server says what SQLite says in another way."""

    #: The name in messages.
    name: str
    #: The day of a time in seconds, as text; ``{}`` stands for the time.
    day: str
    #: The server's functions, by SQLite's names.
    functions: Mapping[str, str]
    #: Whether NULLs must be placed where SQLite sorts them.
    places_nulls: bool = False


#: Functions that mean the same everywhere.
FUNCTIONS: Final = {
    name: name for name in "ABS AVG COALESCE COUNT LENGTH MAX MIN NULLIF SUBSTR SUM".split()
} | {"IFNULL": "COALESCE"}


class Translated(NamedTuple):
    """A statement for a server."""

    #: INSERT, UPDATE, DELETE or SELECT, which includes queries that begin with WITH.
    verb: str
    sql: str
    params: tuple[Any, ...]


class _Token(NamedTuple):
    kind: str
    text: str

    @property
    def word(self) -> str:
        """The token as a word in upper case; empty for other kinds."""
        return self.text.upper() if self.kind == "word" else ""


def translate(
    sql: str, params: Sequence[Any] | Mapping[str, Any], syntax: ServerSyntax
) -> Translated:
    """Return *sql* and its parameters for a server.

    Raises:
        StatementRefused: it contains something that is not known to mean the same there.
    """
    tokens = _tokens(sql, syntax)
    while tokens and tokens[-1].text in {";", " "}:
        tokens.pop()
    verb = next((token.text.upper() for token in tokens if token.kind != "space"), "")
    if verb not in _VERBS:
        raise _refused(verb or "an empty statement", syntax)
    writer = _Writer(tokens, params, syntax)
    text = writer.written()
    if not isinstance(params, Mapping) and writer.used != len(params):
        raise StatementRefused(
            f"The statement uses {writer.used} parameters, and {len(params)} were given. "
            f"Give one for each."
        )
    return Translated("SELECT" if verb == "WITH" else verb, text, tuple(writer.params))


def _tokens(sql: str, syntax: ServerSyntax) -> list[_Token]:
    tokens = []
    position = 0
    while position < len(sql):
        found = _TOKEN.match(sql, position)
        if found is None:
            raise _refused(repr(sql[position : position + 2].strip()), syntax)
        kind = str(found.lastgroup)
        tokens.append(_Token(kind, " " if kind == "space" else found.group()))
        position = found.end()
    return tokens


def _refused(what: str, syntax: ServerSyntax) -> StatementRefused:
    return StatementRefused(
        f"Raw SQL on {syntax.name} cannot use {what}: it is not known to mean there what it means "
        f"on SQLite. Use a method of SessionDB, or simpler SQL."
    )


class _Writer:
    """Writes the tokens of one statement for a server."""

    def __init__(
        self,
        tokens: list[_Token],
        given: Sequence[Any] | Mapping[str, Any],
        syntax: ServerSyntax,
    ) -> None:
        self._tokens = tokens
        self._given = given
        self._syntax = syntax
        #: Parameters in the order of their question marks.
        self.params: list[Any] = []
        #: How many of the given parameters were used.
        self.used = 0

    def written(self) -> str:
        """Return the statement."""
        return "".join(self._pieces(0, len(self._tokens)))

    def _pieces(self, start: int, end: int) -> Iterator[str]:
        orders: list[bool] = [False]
        position = start
        while position < end:
            token = self._tokens[position]
            if self._syntax.places_nulls and _ends_term(token, orders[-1]):
                yield self._null_order(position)
            if token.text == "(":
                orders.append(False)
            elif token.text == ")" and len(orders) > 1:
                orders.pop()
            elif token.word == "BY" and self._before(position).word == "ORDER":
                orders[-1] = True
            elif token.word in _END_OF_TERMS:
                orders[-1] = False
            if token.word == "DATE" and self._after(position).text == "(":
                yield self._day(position)
                position = self._closing(position) + 1
                continue
            yield self._piece(token, position)
            position += 1
        if self._syntax.places_nulls and orders[-1]:
            yield self._null_order(end)

    def _piece(self, token: _Token, position: int) -> str:
        if token.kind == "mark":
            return self._mark(token.text)
        if token.kind == "text" and not _PLAIN.fullmatch(token.text):
            self.params.append(token.text[1:-1].replace("''", "'"))
            return "?"
        if token.text == "==":
            return "="
        if token.text == ";":
            raise _refused("several statements at once", self._syntax)
        if token.kind == "quoted" and "?" in token.text:
            raise _refused(token.text, self._syntax)
        if token.word in _REFUSED:
            raise _refused(token.word, self._syntax)
        if token.word == "OR" and self._before(position).word in {"INSERT", "UPDATE"}:
            raise _refused(f"{self._before(position).word} OR", self._syntax)
        if token.word and self._is_function(token, position):
            if token.word not in self._syntax.functions:
                raise _refused(f"the function {token.text}", self._syntax)
            return self._syntax.functions[token.word]
        return token.text

    def _mark(self, text: str) -> str:
        try:
            value = self._given[self.used] if text == "?" else self._given[text[1:]]  # type: ignore[call-overload,index]
        except (IndexError, KeyError, TypeError) as error:
            raise StatementRefused(f"There is no parameter for {text}. Give one.") from error
        self.params.append(value)
        self.used += 1
        return "?"

    def _is_function(self, token: _Token, position: int) -> bool:
        if self._after(position).text != "(" or token.word in _KEYWORDS:
            return False
        if self._before(position).word == "INTO":
            return False
        # The name of a common table expression, with its columns, has AS and a query after it.
        behind = self._index_after(self._closing(position))
        is_named = behind < len(self._tokens) and self._tokens[behind].word == "AS"
        return not (is_named and self._after(behind).text == "(")

    def _day(self, position: int) -> str:
        """Return the translation of ``date(TIME, 'unixepoch')``."""
        first = self._index_after(position) + 1
        end = self._closing(position)
        commas = list(self._outer_commas(first, end))
        rest = "".join(token.text for token in self._tokens[commas[0] + 1 : end]) if commas else ""
        if len(commas) != 1 or rest.strip().lower() != "'unixepoch'":
            raise _refused("date() other than date(time, 'unixepoch')", self._syntax)
        return self._syntax.day.format("".join(self._pieces(first, commas[0])))

    def _outer_commas(self, start: int, end: int) -> Iterator[int]:
        depth = 0
        for position in range(start, end):
            text = self._tokens[position].text
            depth += (text == "(") - (text == ")")
            if text == "," and depth == 0:
                yield position

    def _closing(self, position: int) -> int:
        """Return the position of the parenthesis that closes the next one."""
        depth = 0
        for index in range(self._index_after(position), len(self._tokens)):
            depth += (self._tokens[index].text == "(") - (self._tokens[index].text == ")")
            if depth == 0:
                return index
        raise StatementRefused("A parenthesis of the statement is not closed. Check the statement.")

    def _null_order(self, end: int) -> str:
        is_descending = self._before(end).word == "DESC"
        return " NULLS LAST " if is_descending else " NULLS FIRST "

    def _index_after(self, position: int) -> int:
        position += 1
        if position < len(self._tokens) and self._tokens[position].kind == "space":
            position += 1
        return position

    def _after(self, position: int) -> _Token:
        index = self._index_after(position)
        return self._tokens[index] if index < len(self._tokens) else _Token("end", "")

    def _before(self, position: int) -> _Token:
        position -= 1
        if position >= 0 and self._tokens[position].kind == "space":
            position -= 1
        return self._tokens[position] if position >= 0 else _Token("end", "")


def _ends_term(token: _Token, is_ordering: bool) -> bool:
    """Return whether a term of ORDER BY ends before this token."""
    return is_ordering and (token.text in {",", ")"} or token.word in _END_OF_TERMS)

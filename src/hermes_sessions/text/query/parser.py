"""Parse search queries. Every input is a valid query; repairs are reported.

::

    query  = either
    either = every ("OR" every)*
    every  = (["AND"] ["NOT" | "-"] ["+"] item)+
    item   = term | "phrase" | *infix* | "(" either ")" | name:value

Operators are upper case; ``and``, ``or`` and ``not`` are words. A star at the end of a term or
phrase makes it a prefix, a leading star matches inside words. Parentheses, quotes and dashes are
syntax only at the start of a term, so that code, paths and shell commands can be typed as they are.
``AND``, ``+`` and quotes bind: what they join or mark is never relaxed; see `relaxation`.
A symbol between words, such as ``&`` or a lone dash, is ignored; alone it is searched literally.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass, field
from typing import Final

from hermes_sessions.text.query.tree import (
    And,
    Filter,
    Node,
    Not,
    Or,
    Query,
    Substring,
    Term,
    all_of,
    any_of,
    bound,
)
from hermes_sessions.text.tokenizer import query_parts, words

FILTER_NAMES: Final = frozenset(
    "source role tool model session in user tag workspace before after has".split()
)
#: The beginning of a filter on a key of the metadata: ``meta.ticket:42``.
META: Final = "meta."
#: Each value of these filters narrows further; several values of the others are alternatives.
_NARROWING: Final = frozenset({"tag", "before", "after", "has"})
#: Longer queries are cut, to bound the work; they are not typed by hand.
MAX_LENGTH: Final = 4096
MAX_DEPTH: Final = 50

#: Each of these both opens and closes: " “ ” „ ‟ « » 「 」 『 』 ＂
_QUOTES: Final = '"\u201c\u201d\u201e\u201f\u00ab\u00bb\u300c\u300d\u300e\u300f\uff02'
_WITHOUT_QUOTES: Final = dict.fromkeys(map(ord, _QUOTES), " ")
#: In any case: phones capitalise the first letter of a message.
_FILTER = re.compile(r"(meta\.[^\s:()]+|[a-z]+):(?=\S)", re.IGNORECASE)
#: ``-rf``, ``-v``, ``-euo``, ``--force``: options of a command, not exclusions.
_OPTION = re.compile(
    r"-(?:-|([a-z0-9]{1,2}|[b-df-hj-np-tv-xz]+|[aeiou]+)(?![^\s)]))", re.IGNORECASE | re.ASCII
)
#: Words without vowels that are words nevertheless: ``report -pdf`` excludes pdf.
_ABBREVIATIONS: Final = frozenset(
    "bsd cdn css csv dns ftp gcp gdpr gpg gpt grpc gtk html http https jpg jvm jwt kvm llm llvm "
    "mcp mqtt nfs nlp npm pdf php png psd rdp rpc rss sdk sftp smb sms smtp sql ssd ssh ssl "
    "svg svn tcp tls tpm tts vpn wsl xml xss zsh".split()
)
_SIGNS: Final = tuple(string.punctuation)


def parse(text: str) -> Query:
    """Return the query for any text; never raises."""
    reader = _Reader(text[:MAX_LENGTH])
    if len(text) > MAX_LENGTH:
        reader.repairs.append(f"only the first {MAX_LENGTH} characters were read")
    node = reader.either(depth=0)
    while not reader.at_end():
        # A surplus closing parenthesis; the text after it still counts.
        reader.position += 1
        reader.repair("ignored a closing parenthesis without an opening one")
        rest = reader.either(depth=0)
        node = all_of([part for part in (node, rest) if part is not None])
    if reader.signs and (words := _without(node, set(map(id, reader.signs)))) is not None:
        node = words
        for sign in reader.signs:
            reader.repair(f"ignored {sign.raw}: not a word")
    return Query(node, tuple(reader.filters), tuple(dict.fromkeys(reader.repairs)))


def filter_name(text: str) -> str | None:
    """Return the filter that the text before a colon names, or None; keys keep their case."""
    name = text.lower()
    if name.startswith(META) and len(name) > len(META):
        return META + text[len(META) :]
    return name if name in FILTER_NAMES else None


@dataclass(frozen=True, slots=True)
class _Branch:
    """One side of an OR: words, filters, or both."""

    node: Node | None
    filters: list[Filter]

    @property
    def is_empty(self) -> bool:
        return self.node is None and not self.filters

    @property
    def names(self) -> set[str]:
        return {item.name for item in self.filters}


@dataclass(slots=True)
class _Reader:
    text: str
    position: int = 0
    filters: list[Filter] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    #: Unquoted items that consist of punctuation only.
    signs: list[Substring] = field(default_factory=list)
    #: Whether the group being read is excluded.
    inside_not: bool = False

    # Grammar

    def either(self, depth: int) -> Node | None:
        branches: list[_Branch] = []
        while True:
            filters = len(self.filters)
            branch = _Branch(self.every(depth), self.filters[filters:])
            goes_on = self._operator("OR")
            if not branch.is_empty:
                branches.append(branch)
            elif branches or goes_on:
                self.repair("ignored an OR without terms on both sides")
            if not goes_on:
                break
        if any(branch.filters for branch in branches) and not self._is_kept(branches):
            self.repair("applied filters to the whole search, even beside OR and in exclusions")
        return any_of([branch.node for branch in branches if branch.node is not None])

    def _is_kept(self, branches: list[_Branch]) -> bool:
        """Whether applying the filters to the whole search preserves the meaning."""
        filters = [item for branch in branches for item in branch.filters]
        if self.inside_not:
            # In an exclusion every alternative is excluded: it must not combine a filter with more.
            return all(item.excluded for item in filters) and not any(
                branch.filters and (branch.node is not None or len(branch.names) > 1)
                for branch in branches
            )
        # ``source:cli tea OR pot`` is meant to narrow both; a filter as an alternative is not.
        if len(branches) < 2 or all(branch.node is not None for branch in branches):
            return True
        return (
            all(branch.node is None for branch in branches)
            and len({item.name for item in filters}) == 1
            and filters[0].name not in _NARROWING
            and not any(item.excluded for item in filters)
        )

    def every(self, depth: int) -> Node | None:
        nodes: list[Node] = []
        filters = len(self.filters)
        is_explicit = False
        while True:
            joined = self._operator("AND")
            if joined and not nodes and len(self.filters) == filters:
                self.repair("ignored an AND without terms on both sides")
            excluded = self._negations()
            while self._operator("AND"):
                self.repair("ignored an AND without terms on both sides")
                excluded += self._negations()
            self._skip_blanks()
            if self.at_end() or self.text[self.position] == ")" or self._looking_at("OR"):
                if excluded or joined:
                    name = "NOT" if excluded else "AND"
                    self.repair(f"ignored {name} at the end")
                return bound(nodes) if is_explicit else all_of(nodes)
            is_explicit = is_explicit or (joined and bool(nodes or len(self.filters) > filters))
            node = self.item(depth, excluded=bool(excluded % 2))
            if node is not None:
                nodes.append(_negated(node) if excluded % 2 else node)

    def item(self, depth: int, *, excluded: bool) -> Node | None:
        if self._plus():
            self.position += 1
            required = self.item(depth, excluded=excluded)
            return None if required is None else bound([required])
        start = self.text[self.position]
        if start == "(" and depth < MAX_DEPTH:
            return self._group(depth, excluded=excluded)
        if start in _QUOTES:
            return self._phrase()
        if start == "*" and (infix := self._infix()) is not None:
            return infix
        if self._filter(excluded=excluded):
            return None
        return self._term()

    # Items

    def _group(self, depth: int, *, excluded: bool) -> Node | None:
        self.position += 1
        filters, outside = len(self.filters), self.inside_not
        self.inside_not = outside != excluded
        node = self.either(depth + 1)
        self.inside_not = outside
        if node is None and len(self.filters) == filters:
            self.repair("ignored empty parentheses")
        if self.at_end():
            self.repair("added a missing closing parenthesis")
        else:
            self.position += 1
        return node

    def _phrase(self) -> Node | None:
        raw = self._quoted()
        return self._make_term(raw, prefix=self._star(), quoted=True)

    def _quoted(self) -> str:
        """Read a quoted text at the position; an unclosed quote ends with the query."""
        start = self.position + 1
        end = next((i for i in range(start, len(self.text)) if self.text[i] in _QUOTES), None)
        if end is None:
            self.repair("added a missing closing quote")
            self.position = len(self.text)
            return self.text[start:]
        self.position = end + 1
        return self.text[start:end]

    def _star(self) -> bool:
        stars = False
        while not self.at_end() and self.text[self.position] == "*":
            self.position += 1
            stars = True
        return stars

    def _infix(self) -> Node | None:
        before = self.position
        self._star()
        if self.at_end() or self.text[self.position].isspace():
            self.position = before
            return None
        if self.text[self.position] in _QUOTES:
            raw = self._quoted()
            self._star()
        else:
            raw = _unquoted(self._run().strip("*"))
        return Substring(raw) if raw.strip() else self._nothing(raw)

    def _filter(self, *, excluded: bool) -> bool:
        match = _FILTER.match(self.text, self.position)
        if match is None or (name := filter_name(match[1])) is None:
            return False
        self.position = match.end()
        value = _unquoted(self._quoted() if self.text[self.position] in _QUOTES else self._run())
        if value:
            self.filters.append(Filter(name, value, excluded=excluded != self.inside_not))
        else:
            self.repair(f"ignored {name}: without a value")
        return True

    def _term(self) -> Node | None:
        raw = self._run()
        core = raw.rstrip("*")
        if not core:
            self.repair("ignored a lone star")
            return None
        # A star after punctuation, as in ``1.2.*`` and ``src/*``, does not extend a word.
        node = self._make_term(core, prefix=len(core) < len(raw) and not core.endswith(_SIGNS))
        if isinstance(node, Substring):
            self.signs.append(node)
        return node

    def _run(self) -> str:
        """Read up to the next blank; parentheses opened inside belong to the text."""
        start, opened = self.position, 0
        while not self.at_end():
            char = self.text[self.position]
            if char.isspace() or (char in _QUOTES and self._closes_later()):
                break
            if char == "(":
                opened += 1
            elif char == ")":
                if opened == 0 and self.position > start:
                    break
                opened -= 1
            self.position += 1
        return self.text[start : self.position]

    def _closes_later(self) -> bool:
        return any(char in _QUOTES for char in self.text[self.position + 1 :])

    def _make_term(self, raw: str, *, prefix: bool, quoted: bool = False) -> Node | None:
        raw = _unquoted(raw)
        parts = tuple(query_parts(raw, prefix=prefix))
        if parts:
            return Term(parts, raw, prefix, quoted)
        # Only punctuation: searched literally.
        return Substring(raw) if raw else self._nothing(raw)

    def _nothing(self, raw: str) -> Node | None:
        self.repair("ignored empty quotes" if not raw.strip() else f"ignored {raw!r}")
        return None

    # Words and symbols

    def at_end(self) -> bool:
        return self.position >= len(self.text)

    def repair(self, what: str) -> None:
        self.repairs.append(what)

    def _skip_blanks(self) -> None:
        while not self.at_end() and self.text[self.position].isspace():
            self.position += 1

    def _looking_at(self, word: str) -> bool:
        self._skip_blanks()
        end = self.position + len(word)
        if self.text[self.position : end] != word:
            return False
        return end == len(self.text) or self.text[end].isspace() or self.text[end] in '()"'

    def _operator(self, word: str) -> bool:
        if not self._looking_at(word):
            return False
        self.position += len(word)
        return True

    def _negations(self) -> int:
        count = 0
        while True:
            if self._operator("NOT"):
                count += 1
            elif self._dash():
                self.position += 1
                count += 1
            else:
                return count

    def _dash(self) -> bool:
        """Whether a dash at the position excludes the item after it."""
        self._skip_blanks()
        rest = self.text[self.position : self.position + 2]
        if len(rest) < 2 or rest[0] != "-" or rest[1].isspace():
            return False
        option = _OPTION.match(self.text, self.position)
        if option and (option[1] or "").lower() not in _ABBREVIATIONS:
            word = self.text[self.position :].split(maxsplit=1)[0]
            self.repair(f"read {word} as an option, not as an exclusion")
            return False
        return _begins_item(rest[1])

    def _plus(self) -> bool:
        """Whether a plus at the position requires the item after it."""
        rest = self.text[self.position : self.position + 2]
        return len(rest) == 2 and rest[0] == "+" and _begins_item(rest[1])


def _begins_item(char: str) -> bool:
    if char in "(" + _QUOTES or char.isalnum() or char in "*_/.@#":
        return True
    # Symbols such as ``->`` exclude nothing; emoji count as words.
    return bool(words(char))


def _negated(node: Node) -> Node:
    return node.node if isinstance(node, Not) else Not(node)


def _unquoted(text: str) -> str:
    """Return text without stray quotes, so that it can be printed in quotes."""
    return text.translate(_WITHOUT_QUOTES).strip()


def _without(node: Node | None, signs: set[int]) -> Node | None:
    """Return the tree without the nodes of these identities; None when nothing is left."""
    if isinstance(node, Substring):
        return None if id(node) in signs else node
    if isinstance(node, Not):
        inner = _without(node.node, signs)
        return None if inner is None else Not(inner)
    if isinstance(node, (And, Or)):
        kept = [child for child in (_without(n, signs) for n in node.nodes) if child is not None]
        if isinstance(node, And):
            return bound(kept) if node.explicit else all_of(kept)
        return any_of(kept)
    return node

"""What every query of the golden set must find, by brute force over the raw corpus.

Nothing of the product's text analysis is used here: the rules are written down a second time, as
plainly as possible, and speed does not matter. A query is given as its meaning:

- ``"text"``: its words one after the other. ASCII signs and all punctuation only separate, so
  ``base_events``, ``base/events`` and ``"base events"`` mean the same; other signs, such as emoji,
  count as words. A single word is also found as a part of a camelCase name. A run of Chinese,
  Japanese or Korean characters is found anywhere inside such a run; where a phrase goes on before
  or behind it, the run must begin or end there.
- ``{"prefix": "text"}``: the same, and the last word may continue.
- ``{"inside": "text"}``: these characters in this order, anywhere.
- ``{"and": [...]}``, ``{"or": [...]}``, ``{"not": ...}``.
- ``None``: every message; what is left is decided by filters.

Compared are folded texts: compatibility forms, letter case, the accents and strokes of Latin, Greek
and Cyrillic letters make no difference; no other mark is ever removed.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal

from tests.search.golden.corpus import NOW, Message, Record, Session, findable

Means = str | Record | None

# ── folding ───────────────────────────────────────────────────────────────────────────────────

_ACCENTED_SCRIPTS = ("LATIN", "GREEK", "CYRILLIC")
_RUN_SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "IDEOGRAPHIC")
#: Choose a picture's look, not what it shows: the joiner and the variation selectors.
_INVISIBLE = "\u200d\ufe0e\ufe0f"
#: Letters with a stroke or of two letters in one, which people type without.
_TYPED_AS = {"ı": "i", "ø": "o", "đ": "d", "ł": "l", "œ": "oe", "æ": "ae"}
#: Signs that stand for themselves, not for letters of the word beside them.
_ALONE = "½¼¾™"
_FRACTION_SLASH = "\u2044"


@cache
def _script(char: str) -> str:
    return unicodedata.name(char, "?").split()[0]


def _plain(text: str) -> str:
    """Return *text* without compatibility forms and accents, but with its letter case."""
    for sign in _ALONE:
        text = text.replace(sign, f" {sign} ")
    kept: list[str] = []
    base = ""
    for char in unicodedata.normalize("NFKD", text):
        if unicodedata.combining(char):
            if base and _script(base) in _ACCENTED_SCRIPTS:
                continue
        else:
            base = char
        kept.append(_typed(char))
    return unicodedata.normalize("NFC", "".join(kept))


def _typed(char: str) -> str:
    simple = _TYPED_AS.get(char.lower(), char)
    return simple.capitalize() if char.isupper() and simple is not char else simple


@cache
def folded(text: str) -> str:
    """Return what is compared instead of *text*."""
    return unicodedata.normalize("NFC", _plain(text).casefold())


# ── words ─────────────────────────────────────────────────────────────────────────────────────

Kind = Literal["word", "run", "symbol"]


@dataclass(frozen=True)
class Unit:
    """A word, a run of Chinese, Japanese or Korean characters, or a symbol; folded."""

    kind: Kind
    text: str
    #: The parts of a camelCase word, folded.
    parts: frozenset[str] = frozenset()


def _kind(char: str) -> Kind | None:
    category = unicodedata.category(char)
    if category[0] in "LN" or char in "々ー":
        return "run" if _script(char) in _RUN_SCRIPTS else "word"
    if category[0] == "S" and not char.isascii() and char != _FRACTION_SLASH:
        return "symbol"
    return None


@cache
def units(text: str) -> tuple[Unit, ...]:
    """Return the words, runs and symbols of *text*, in order."""
    found: list[tuple[Kind, str]] = []
    open_kind: Kind | None = None
    for char in _plain(text):
        if char in _INVISIBLE:
            continue
        if unicodedata.category(char)[0] == "M":
            if open_kind in ("word", "run"):
                found[-1] = (found[-1][0], found[-1][1] + char)
            continue
        kind = _kind(char)
        if kind is not None and kind == open_kind and (kind != "symbol" or _is_flag(found, char)):
            found[-1] = (kind, found[-1][1] + char)
        elif kind is not None:
            found.append((kind, char))
        open_kind = kind
    return tuple(_unit(kind, raw) for kind, raw in found)


def _is_flag(found: list[tuple[Kind, str]], second: str) -> bool:
    """Return whether two letters of a flag meet."""
    first = found[-1][1]
    return len(first) == 1 and _script(first) == _script(second) == "REGIONAL"


def _unit(kind: Kind, raw: str) -> Unit:
    parts: list[str] = []
    if kind == "word" and not raw.isupper():  # 500M and DATABASE are no names of several words
        parts = re.findall(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[^A-Z]+|[A-Z]", raw)
    return Unit(kind, folded(raw), frozenset(map(folded, parts)) if len(parts) > 1 else frozenset())


# ── texts of a message ────────────────────────────────────────────────────────────────────────


def texts(message: Message) -> list[str]:
    """Return what can be found of a message: content, tool names, arguments, results."""
    content = message.content
    found = [part["text"] for part in content if "text" in part] if _is_list(content) else []
    if isinstance(content, str):
        found.append(_unescaped(content) if message.role == "tool" else content)
    if message.tool_name:
        found.append(message.tool_name)
    for call in message.tool_calls or []:
        found.append(call["function"]["name"])
        found.append(_unescaped(call["function"]["arguments"]))
    return found


def _is_list(content: Any) -> bool:
    return isinstance(content, list)


def _unescaped(text: str) -> str:
    """Return JSON as the texts in it; anything else as it is."""
    try:
        return " ".join(_leaves(json.loads(text)))
    except ValueError:
        return text


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield str(value)


# ── matching ──────────────────────────────────────────────────────────────────────────────────


def matches(means: Means, found: list[str]) -> bool:
    """Return whether a message with these texts is meant."""
    if means is None:
        return True
    if isinstance(means, str):
        return any(_has_phrase(text, units(means), prefix=False) for text in found)
    ((operator, value),) = means.items()
    if operator == "prefix":
        return any(_has_phrase(text, units(value), prefix=True) for text in found)
    if operator == "inside":
        return any(folded(value) in folded(text) for text in found)
    if operator == "not":
        return not matches(value, found)
    decide = {"and": all, "or": any}[operator]
    return decide(matches(item, found) for item in value)


def _has_phrase(text: str, phrase: tuple[Unit, ...], *, prefix: bool) -> bool:
    assert phrase, "a term without words cannot be looked for"
    if phrase[0].text not in _all_units(text):
        return False  # Only to be quick: nearly every text ends here.
    there = units(text)
    if len(phrase) == 1:
        wanted = phrase[0].text
        parts = (part for unit in there for part in unit.parts)
        if any(part.startswith(wanted) if prefix else part == wanted for part in parts):
            return True
    last = len(phrase) - 1
    return any(
        all(
            _same(there[start + i], wanted, first=i == 0, last=i == last, prefix=prefix)
            for i, wanted in enumerate(phrase)
        )
        for start in range(len(there) - last)
    )


@cache
def _all_units(text: str) -> str:
    return "\n".join(unit.text for unit in units(text))


def _same(unit: Unit, wanted: Unit, *, first: bool, last: bool, prefix: bool) -> bool:
    if unit.kind != wanted.kind:
        return False
    if unit.kind == "run":
        if first and last:
            return wanted.text in unit.text
        if first:
            return unit.text.endswith(wanted.text)
        return unit.text.startswith(wanted.text) if last else unit.text == wanted.text
    if last and prefix:
        return unit.text.startswith(wanted.text)
    return unit.text == wanted.text


# ── filters ───────────────────────────────────────────────────────────────────────────────────

_AGES = {"h": 3600.0, "d": 86400.0, "w": 604800.0}


def moment(value: str) -> float:
    """Return the moment of ``7d`` (before now) or of a date or time in the host's zone."""
    if match := re.fullmatch(r"(\d+)([hdw])", value):
        return NOW - int(match[1]) * _AGES[match[2]]
    return datetime.fromisoformat(f"{value}-01" if len(value) == 7 else value).timestamp()


def passes(name: str, value: str, session: Session, message: Message) -> bool:
    """Return whether a message satisfies ``name:value``."""
    return (
        _has(value, session, message) if name == "has" else _FILTERS[name](value, session, message)
    )


_FILTERS: dict[str, Callable[[str, Session, Message], bool]] = {
    "source": lambda value, session, _: session.source == value,
    "role": lambda value, _, message: message.role == value,
    "tool": lambda value, _, message: value in _tools(message),
    "model": lambda value, session, _: _has_phrase(session.model, units(value), prefix=False),
    "user": lambda value, session, _: session.user == value,
    "session": lambda value, session, _: _is_session(value, session.id),
    "in": lambda value, session, _: _family(session.title or "") == _family(value),
    "before": lambda value, _, message: message.at < moment(value),
    "after": lambda value, _, message: message.at >= moment(value),
}


def _is_session(value: str, session_id: str) -> bool:
    """Return whether this is the session of that id; without one, whether its id begins so."""
    seen = {session.id for session, _ in findable()}
    return session_id == value if value in seen else session_id.startswith(value)


def _family(title: str) -> str:
    """Return what the numbered titles of one conversation have in common."""
    return re.sub(r" #\d+$", "", title).lower()


def _tools(message: Message) -> set[str]:
    called = {call["function"]["name"] for call in message.tool_calls or []}
    return called | ({message.tool_name} if message.tool_name else set())


def _has(value: str, session: Session, message: Message) -> bool:
    if value == "title":
        return session.title is not None
    if value == "tool_calls":
        return bool(message.tool_calls)
    assert value == "error", value
    return message.role == "tool" and "error" in str(message.content).lower()


def allowed(where: list[str], session: Session, message: Message) -> bool:
    """Return whether all filters hold; several values of one name are alternatives, but for
    moments and for what a message has.
    """
    wanted: dict[str, list[bool]] = {}
    for item in where:
        name, value = item.removeprefix("-").split(":", 1)
        passed = passes(name, value, session, message)
        if item.startswith("-"):
            if passed:
                return False
        elif name in ("before", "after", "has"):
            wanted[item] = [passed]
        else:
            wanted.setdefault(name, []).append(passed)
    return all(any(alternatives) for alternatives in wanted.values())


def expected(means: Means, where: list[str]) -> list[str]:
    """Return the corpus ids of all messages that are meant, sorted."""
    return sorted(
        message.id
        for session, message, found in _findable_texts()
        if allowed(where, session, message) and matches(means, found)
    )


def expected_by_title(means: Means, where: list[str]) -> list[str]:
    """Return the messages that stand for sessions whose title is meant: the first of each that
    passes the filters, unless its own text is meant, or has something that must be absent.
    """
    found: dict[str, str] = {}
    for session, message, own in _findable_texts():
        title = [session.title or ""]
        if session.id in found or not allowed(where, session, message):
            continue
        by_title = matches(means, title) and matches(means, title + own)
        found[session.id] = message.id if by_title and not matches(means, own) else ""
    return sorted(filter(None, found.values()))


@cache
def _findable_texts() -> list[tuple[Session, Message, list[str]]]:
    return [(session, message, texts(message)) for session, message in findable()]

"""Filters and scope as SQL over ``messages m`` joined with ``sessions s``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from hermes_sessions.model.ids import ascii_lower
from hermes_sessions.model.scope import Scope
from hermes_sessions.model.title import family_key
from hermes_sessions.storage.codec import encode_text, to_json
from hermes_sessions.storage.provider import Dialect, ReadTransaction, placeholders
from hermes_sessions.storage.repositories.rows import scope_condition
from hermes_sessions.text.query.filters import SearchConditions

#: Values that one statement looks up.
_CHUNK: Final = 500


@dataclass(frozen=True, slots=True)
class Where:
    """A condition and its parameters."""

    sql: str
    params: tuple[Any, ...] = ()

    def __and__(self, other: Where) -> Where:
        return Where(f"{self.sql} AND {other.sql}", self.params + other.params)

    def negated(self) -> Where:
        """Return what is true where this is not. NULL (an untitled session) counts as not true."""
        return Where(f"COALESCE({self.sql}, 1 = 0) = (1 = 0)", self.params)


def ids_among(tx: ReadTransaction, several: Sequence[SearchConditions], scope: Scope) -> set[str]:
    """Return those values of the filters by session that are ids of sessions, as they stand.

    Only sessions that *scope* sees count: others do not exist for whoever asks.
    """
    named = [name for c in several for name in (*c.sessions, *c.exclude_sessions)]
    where = Where("s.trashed_at IS NULL") & scope_as_sql(scope)
    found: set[str] = set()
    for start in range(0, len(named), _CHUNK):
        chunk = named[start : start + _CHUNK]
        rows = tx.all(
            f"SELECT s.id FROM sessions s WHERE s.id IN ({placeholders(len(chunk))}) "
            f"AND {where.sql}",
            (*chunk, *where.params),
        )
        found.update(row[0] for row in rows)
    return found


def as_sql(
    several: Sequence[SearchConditions],
    dialect: Dialect,
    known_sessions: Collection[str] = frozenset(),
) -> dict[str, Where]:
    """Return each condition that is set, by name, so that an answer can say what it removed.

    What is set more than once must hold each time. A value that is one of the *known_sessions*
    means that session alone.
    """
    found: dict[str, Where] = {}
    for conditions in several:
        for name, where in _as_sql(conditions, dialect, known_sessions).items():
            found[name] = found[name] & where if name in found else where
    return found


#: By the name of a condition: what it is about, as people call it.
_SUBJECTS: Final = {
    "sources": "source",
    "roles": "role",
    "users": "user",
    "conversations": "conversation",
    "sessions": "session",
    "titles": "title",
    "tools": "tool",
    "models": "model",
    "after": "time",
    "before": "time",
}


def by_subject(conditions: dict[str, Where]) -> dict[str, Where]:
    """Return the conditions of `as_sql` by what they are about, those that exclude included."""
    found: dict[str, Where] = {}
    for name, where in conditions.items():
        plain = name.removeprefix("exclude_")
        subject = _SUBJECTS.get(plain, "has" if "has " in plain else plain)
        found[subject] = found[subject] & where if subject in found else where
    return found


def _as_sql(
    conditions: SearchConditions, dialect: Dialect, known_sessions: Collection[str]
) -> dict[str, Where]:
    found: dict[str, Where] = {}
    for name, column in (
        ("sources", "s.source"),
        ("roles", "m.role"),
        ("users", "s.user_id"),
        ("conversations", "s.conversation_id"),
    ):
        wanted = getattr(conditions, name)
        if wanted is not None and (wanted or name == "sources"):
            found[name] = _among(column, wanted)
        excluded = getattr(conditions, "exclude_" + name)
        if excluded:
            found["exclude_" + name] = _not_among(column, excluded)
    special: dict[str, Callable[[str], Where]] = {
        "sessions": partial(_session, dialect=dialect, known=known_sessions),
        "titles": _title,
        "tools": partial(_tool, dialect=dialect),
        "models": partial(_model, dialect=dialect),
    }
    for name, condition in special.items():
        if wanted := getattr(conditions, name):
            found[name] = _either([condition(value) for value in wanted])
        if excluded := getattr(conditions, "exclude_" + name):
            found["exclude_" + name] = _either([condition(v) for v in excluded]).negated()
    found |= _moments(conditions)
    for value in conditions.has:
        found[f"has {value}"] = _has(value, dialect)
    for value in conditions.exclude_has:
        found[f"not has {value}"] = _has(value, dialect).negated()
    if not conditions.include_archived:
        found["archived"] = Where("s.archived_at IS NULL")
    return found


_HAS: Final = {
    "tool_calls": Where("m.tool_calls IS NOT NULL"),
    "title": Where("s.title IS NOT NULL"),
}


def _has(value: str, dialect: Dialect) -> Where:
    if value != "error":
        return _HAS[value]
    content = dialect.ascii_lower("m.content")
    return Where(
        f"(m.finish_reason = ? OR (m.role = ? AND {content} LIKE ?))", ("error", "tool", "%error%")
    )


def _moments(conditions: SearchConditions) -> dict[str, Where]:
    found = {}
    if conditions.after is not None:
        found["after"] = Where("m.timestamp >= ?", (conditions.after,))
    if conditions.before is not None:
        found["before"] = Where("m.timestamp < ?", (conditions.before,))
    return found


def _among(column: str, values: Sequence[str]) -> Where:
    if not values:
        return Where("1 = 0")
    return Where(f"{column} IN ({placeholders(len(values))})", tuple(values))


def _not_among(column: str, values: Sequence[str]) -> Where:
    marks = placeholders(len(values))
    return Where(f"({column} IS NULL OR {column} NOT IN ({marks}))", tuple(values))


def _session(name: str, dialect: Dialect, known: Collection[str]) -> Where:
    """The session of this id; if there is none, those whose ids begin so."""
    if name in known:
        return Where("m.session_id = ?", (name,))
    beginning = dialect.ascii_lower("substr(m.session_id, 1, ?)")
    return Where(f"{beginning} = ?", (len(encode_text(name)), ascii_lower(name)))


def _title(title: str) -> Where:
    return Where("s.title_key = ?", (family_key(title),))


def _tool(name: str, dialect: Dialect) -> Where:
    """The tool that answered, or one that was called."""
    # Folded, because LIKE looks at capitals on some databases and not on others.
    name = ascii_lower(name)
    answered, calls = dialect.ascii_lower("m.tool_name"), dialect.ascii_lower("m.tool_calls")
    quoted = like_pattern(to_json(name))
    return Where(
        f"({answered} = ? OR {calls} LIKE ? ESCAPE '!' OR {calls} LIKE ? ESCAPE '!')",
        (name, f'%"name": {quoted}%', f'%"name":{quoted}%'),
    )


def _model(name: str, dialect: Dialect) -> Where:
    """A model, or a part of its name: people say ``claude``, not the whole identifier."""
    model = dialect.ascii_lower("s.model")
    return Where(f"{model} LIKE ? ESCAPE '!'", (f"%{like_pattern(ascii_lower(name))}%",))


def after_key(key: tuple[float, str, int], *, oldest: bool) -> Where:
    """Return what is true of messages that stand behind *key* (time, session, place in it) in a
    list by time.
    """
    sign = ">" if oldest else "<"
    timestamp, session_id, ordinal = key
    return Where(
        f"(m.timestamp {sign} ? OR (m.timestamp = ? AND (m.session_id {sign} ? OR "
        f"(m.session_id = ? AND m.ordinal {sign} ?))))",
        (timestamp, timestamp, session_id, session_id, ordinal),
    )


def like_pattern(text: str) -> str:
    """Return text that LIKE takes literally, with ``!`` as its escape character."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def _either(choices: list[Where]) -> Where:
    if len(choices) == 1:
        return choices[0]
    # In halves: databases limit how deep a chain of ORs may be.
    middle = len(choices) // 2
    first, second = _either(choices[:middle]), _either(choices[middle:])
    return Where(f"({first.sql} OR {second.sql})", first.params + second.params)


def findable(*, include_rewound: bool = False) -> Where:
    """Return what is true of every message that can be found."""
    where = Where("s.trashed_at IS NULL")
    return where if include_rewound else where & Where("m.active = 1")


def scope_as_sql(scope: Scope) -> Where:
    """Return what the session ``s`` must satisfy to be seen by whoever asks."""
    return Where(*scope_condition(scope, lambda name: f"s.{name}"))

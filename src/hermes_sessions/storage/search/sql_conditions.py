"""SQL conditions for filters and scope, over ``messages m`` joined with ``sessions s``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from hermes_sessions.model.ids import ascii_lower
from hermes_sessions.model.scope import Scope
from hermes_sessions.model.title import family_key
from hermes_sessions.storage.codec import encode_text, to_json
from hermes_sessions.storage.provider import Dialect, ReadTransaction, placeholders
from hermes_sessions.storage.repositories.label_conditions import has_metadata, has_tag
from hermes_sessions.storage.repositories.rows import like_pattern, scope_condition
from hermes_sessions.text.query.filters import SearchConditions

#: The most values that one statement looks up.
_CHUNK: Final = 500
NO_WORKSPACES: Final[Mapping[str, Sequence[str]]] = {}


@dataclass(frozen=True, slots=True)
class SQLCondition:
    """An SQL condition and its parameters."""

    sql: str
    params: tuple[Any, ...] = ()

    def __and__(self, other: SQLCondition) -> SQLCondition:
        return SQLCondition(f"{self.sql} AND {other.sql}", self.params + other.params)

    def negated(self) -> SQLCondition:
        """Return the negation, which is true where this is false or NULL (an untitled session)."""
        return SQLCondition(f"COALESCE({self.sql}, 1 = 0) = (1 = 0)", self.params)


def existing_session_ids(
    tx: ReadTransaction, filter_sets: Sequence[SearchConditions], scope: Scope
) -> set[str]:
    """Return the values of session filters that are complete ids of sessions within *scope*.

    Sessions outside the scope do not exist for the caller.
    """
    named = [name for c in filter_sets for name in (*c.sessions, *c.exclude_sessions)]
    where = SQLCondition("s.trashed_at IS NULL") & scope_as_sql(scope)
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
    filter_sets: Sequence[SearchConditions],
    dialect: Dialect,
    known_sessions: Collection[str] = frozenset(),
    workspaces: Mapping[str, Sequence[str]] = NO_WORKSPACES,
) -> dict[str, SQLCondition]:
    """Return the SQL of each filter that is set, by its name, so that a report can count by filter.

    A filter that is set in several sets must hold in each. A value of a session filter that is one
    of the *known_sessions* means only that session; any other value is a prefix. *workspaces* has
    the ids that each value of a workspace filter means.
    """
    found: dict[str, SQLCondition] = {}
    for conditions in filter_sets:
        for name, where in _as_sql(conditions, dialect, known_sessions, workspaces).items():
            found[name] = found[name] & where if name in found else where
    return found


#: The subject of each filter, as notes call it.
_SUBJECTS: Final = {
    "sources": "source",
    "roles": "role",
    "users": "user",
    "conversations": "conversation",
    "sessions": "session",
    "titles": "title",
    "tools": "tool",
    "models": "model",
    "workspaces": "workspace",
    "after": "time",
    "before": "time",
}


def group_by_subject(conditions: dict[str, SQLCondition]) -> dict[str, SQLCondition]:
    """Return the conditions of `as_sql` combined by subject, including the excluding ones."""
    found: dict[str, SQLCondition] = {}
    for name, where in conditions.items():
        plain = name.removeprefix("exclude_").removeprefix("not ")
        subject = _SUBJECTS.get(plain, plain.split(" ")[0])
        found[subject] = found[subject] & where if subject in found else where
    return found


def _as_sql(
    conditions: SearchConditions,
    dialect: Dialect,
    known_sessions: Collection[str],
    workspaces: Mapping[str, Sequence[str]],
) -> dict[str, SQLCondition]:
    found: dict[str, SQLCondition] = {}
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
    special: dict[str, Callable[[str], SQLCondition]] = {
        "sessions": partial(_session, dialect=dialect, known=known_sessions),
        "titles": _title,
        "tools": partial(_tool, dialect=dialect),
        "models": partial(_model, dialect=dialect),
        "workspaces": lambda name: _among("s.workspace_id", workspaces.get(name, ())),
    }
    for name, condition in special.items():
        if wanted := getattr(conditions, name):
            found[name] = _any_of([condition(value) for value in wanted])
        if excluded := getattr(conditions, "exclude_" + name):
            found["exclude_" + name] = _any_of([condition(v) for v in excluded]).negated()
    found |= _time_conditions(conditions)
    found |= _label_conditions(conditions, dialect)
    for value in conditions.has:
        found[f"has {value}"] = _has(value, dialect)
    for value in conditions.exclude_has:
        found[f"not has {value}"] = _has(value, dialect).negated()
    if not conditions.include_archived:
        found["archived"] = SQLCondition("s.archived_at IS NULL")
    return found


_HAS: Final = {
    "tool_calls": SQLCondition("m.tool_calls IS NOT NULL"),
    "title": SQLCondition("s.title IS NOT NULL"),
}


def _has(value: str, dialect: Dialect) -> SQLCondition:
    if value != "error":
        return _HAS[value]
    content = dialect.ascii_lower("m.content")
    return SQLCondition(
        f"(m.finish_reason = ? OR (m.role = ? AND {content} LIKE ?))", ("error", "tool", "%error%")
    )


def _label_conditions(conditions: SearchConditions, dialect: Dialect) -> dict[str, SQLCondition]:
    found = {}
    for tag in conditions.tags:
        found[f"tag {tag}"] = SQLCondition(*has_tag("s.tags", tag))
    for tag in conditions.exclude_tags:
        found[f"not tag {tag}"] = SQLCondition(*has_tag("s.tags", tag)).negated()
    for pairs, prefix in ((conditions.metadata, ""), (conditions.exclude_metadata, "exclude_")):
        for key in dict.fromkeys(key for key, _ in pairs):
            is_any = _any_of(
                [
                    SQLCondition(*has_metadata("s.metadata", key, value, dialect))
                    for name, value in pairs
                    if name == key
                ]
            )
            found[f"{prefix}meta.{key}"] = is_any.negated() if prefix else is_any
    return found


def _time_conditions(conditions: SearchConditions) -> dict[str, SQLCondition]:
    found = {}
    if conditions.after is not None:
        found["after"] = SQLCondition("m.timestamp >= ?", (conditions.after,))
    if conditions.before is not None:
        found["before"] = SQLCondition("m.timestamp < ?", (conditions.before,))
    return found


def _among(column: str, values: Sequence[str]) -> SQLCondition:
    if not values:
        return SQLCondition("1 = 0")
    return SQLCondition(f"{column} IN ({placeholders(len(values))})", tuple(values))


def _not_among(column: str, values: Sequence[str]) -> SQLCondition:
    marks = placeholders(len(values))
    return SQLCondition(f"({column} IS NULL OR {column} NOT IN ({marks}))", tuple(values))


def _session(name: str, dialect: Dialect, known: Collection[str]) -> SQLCondition:
    """Return the condition for the session with this id; without one, for ids with this prefix."""
    if name in known:
        return SQLCondition("m.session_id = ?", (name,))
    beginning = dialect.ascii_lower("substr(m.session_id, 1, ?)")
    return SQLCondition(f"{beginning} = ?", (len(encode_text(name)), ascii_lower(name)))


def _title(title: str) -> SQLCondition:
    return SQLCondition("s.title_key = ?", (family_key(title),))


def _tool(name: str, dialect: Dialect) -> SQLCondition:
    """Return the condition for results of a tool and messages that call it."""
    # In lower case, because LIKE is case-sensitive on some databases only.
    name = ascii_lower(name)
    answered, calls = dialect.ascii_lower("m.tool_name"), dialect.ascii_lower("m.tool_calls")
    quoted = like_pattern(to_json(name))
    return SQLCondition(
        f"({answered} = ? OR {calls} LIKE ? ESCAPE '!' OR {calls} LIKE ? ESCAPE '!')",
        (name, f'%"name": {quoted}%', f'%"name":{quoted}%'),
    )


def _model(name: str, dialect: Dialect) -> SQLCondition:
    """Return the condition for a model by any part of its name, such as ``claude``."""
    model = dialect.ascii_lower("s.model")
    return SQLCondition(f"{model} LIKE ? ESCAPE '!'", (f"%{like_pattern(ascii_lower(name))}%",))


def after_key(key: tuple[float, str, int], *, oldest: bool) -> SQLCondition:
    """Return the condition for messages after *key* (timestamp, session, ordinal) by time."""
    sign = ">" if oldest else "<"
    timestamp, session_id, ordinal = key
    return SQLCondition(
        f"(m.timestamp {sign} ? OR (m.timestamp = ? AND (m.session_id {sign} ? OR "
        f"(m.session_id = ? AND m.ordinal {sign} ?))))",
        (timestamp, timestamp, session_id, session_id, ordinal),
    )


def _any_of(choices: list[SQLCondition]) -> SQLCondition:
    if len(choices) == 1:
        return choices[0]
    # Split in halves, because databases limit the depth of a chain of ORs.
    middle = len(choices) // 2
    first, second = _any_of(choices[:middle]), _any_of(choices[middle:])
    return SQLCondition(f"({first.sql} OR {second.sql})", first.params + second.params)


def searchable_messages(*, include_rewound: bool = False) -> SQLCondition:
    """Return the condition for messages that a search may find."""
    where = SQLCondition("s.trashed_at IS NULL")
    return where if include_rewound else where & SQLCondition("m.active = 1")


def scope_as_sql(scope: Scope) -> SQLCondition:
    """Return the condition for sessions ``s`` that are visible in *scope*."""
    return SQLCondition(*scope_condition(scope, lambda name: f"s.{name}"))

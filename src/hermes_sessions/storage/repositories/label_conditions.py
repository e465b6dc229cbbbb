"""SQL conditions for sessions by their labels, on the text that ``model.labels`` writes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model import labels
from hermes_sessions.model.ids import ascii_lower
from hermes_sessions.storage.provider import Dialect, placeholders
from hermes_sessions.storage.repositories.rows import like_pattern

Condition = tuple[str, tuple[Any, ...]]


class LabelFilter(NamedTuple):
    """The labels that listed sessions must have."""

    #: All of these tags, and none of the next.
    tags: Sequence[str] = ()
    exclude_tags: Sequence[str] = ()
    #: All of these values.
    metadata: Mapping[str, Any] | None = None
    #: The ids of one workspace; None for any.
    workspaces: Sequence[str] | None = None

    def conditions(self, column: Callable[[str], str], dialect: Dialect) -> list[Condition]:
        """Return a condition for each label; *column* returns the SQL of a session's column.

        Raises:
            InvalidInput: a tag is not valid, or a value is not a text, a number or a truth value.
        """
        tags, metadata = column("tags"), column("metadata")
        found = [has_tag(tags, tag) for tag in labels.normalize_tags(self.tags)]
        for tag in labels.normalize_tags(self.exclude_tags):
            condition, params = has_tag(tags, tag)
            found.append((f"({tags} IS NULL OR NOT {condition})", params))
        for key, value in (self.metadata or {}).items():
            found.append(has_metadata(metadata, key, _as_text(key, value), dialect))
        if self.workspaces is not None:
            marks = placeholders(len(self.workspaces))
            of_workspace = f"{column('workspace_id')} IN ({marks})" if marks else "1 = 0"
            found.append((of_workspace, tuple(self.workspaces)))
        return found


def has_tag(column: str, tag: str) -> Condition:
    """Return the condition for sessions with a tag. No session has an invalid tag."""
    try:
        wanted = labels.normalize_tag(tag)
    except InvalidInput:
        return "1 = 0", ()
    # A tag has no quotes, so these are the ends of an item.
    return f"{column} LIKE ? ESCAPE '!'", (f'%"{like_pattern(wanted)}"%',)


def has_metadata(column: str, key: str, value: str, dialect: Dialect) -> Condition:
    """Return the condition for sessions whose metadata has *key* with a value that is written so,
    the case of ASCII letters ignored.
    """
    # In lower case, because LIKE is case-sensitive on some databases only.
    folded = dialect.ascii_lower(column)
    entries = labels.metadata_entries(key, value)
    marks = " OR ".join([f"{folded} LIKE ? ESCAPE '!'"] * len(entries))
    return f"({marks})", tuple(f"%{like_pattern(ascii_lower(entry))}%" for entry in entries)


def _as_text(key: str, value: Any) -> str:
    if value is None or isinstance(value, (bool, int)):
        return labels.json_text(value)
    if isinstance(value, float) and math.isfinite(value):
        return labels.json_text(value)
    if not isinstance(value, str):
        raise InvalidInput(
            f"metadata[{key!r}] must be text, a number, true or false to filter by, not "
            f"{type(value).__name__}."
        )
    return value

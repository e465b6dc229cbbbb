"""A scope as SQL: which rows of ``sessions`` whoever asks may see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.provider import placeholders


def scope_condition(
    scope: Scope, column: Callable[[str], str] = lambda name: name
) -> tuple[str, tuple[Any, ...]]:
    """Return a condition and its parameters; *column* says how a column of the session is written.

    Everything that is set must hold, and a session without the value asked for is not seen.
    """
    parts, params = ["1 = 1"], list[Any]()
    for name, wanted in (("user_id", scope.user_id), ("source", scope.source)):
        if wanted is not None:
            parts.append(f"{column(name)} = ?")
            params.append(wanted)
    if scope.conversation_ids is not None:
        ids = scope.conversation_ids
        marks = placeholders(len(ids))
        parts.append(f"{column('conversation_id')} IN ({marks})" if ids else "1 = 0")
        params.extend(ids)
    return " AND ".join(parts), tuple(params)

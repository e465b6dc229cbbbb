"""The schema that released versions created, kept as text beside this module.

Stores in the field have taken these steps, so the declaration in ``storage/tables.py`` may not
change what they do. ``python -m tests.storage.frozen_schema`` adds the steps that are not frozen
yet; it never changes one that is.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

FOLDER = Path(__file__).parent
#: By name of an object: what ``sqlite_schema`` says of it.
Objects = dict[str, str]


def normalised(sql: str) -> str:
    """Return a statement without quotes, comments, and blanks that mean nothing."""
    text = re.sub(r"\s+", " ", re.sub(r"--[^\n]*", "", sql).replace('"', ""))
    return re.sub(r" ?([(),;]) ?", r"\1", text).strip(" ;")


def objects_in(path: Path) -> Objects:
    """Return the tables, indexes and triggers of a SQLite file."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT type || ' ' || name, COALESCE(sql, '') FROM sqlite_schema "
            "WHERE name NOT LIKE 'search_index_%' ORDER BY 1"
        )
        return {name: normalised(sql) for name, sql in rows}


def server_steps(database: str) -> dict[str, list[str]]:
    """Return the statements of every step on a server, by name of the step."""
    from hermes_sessions.storage.mysql.migrations import MIGRATIONS as MYSQL
    from hermes_sessions.storage.postgresql.migrations import MIGRATIONS as POSTGRESQL

    steps = {"mysql": MYSQL, "postgresql": POSTGRESQL}[database]
    return {step.name: [normalised(sql) for sql in step.statements] for step in steps}


def read(name: str) -> Mapping[str, object]:
    """Return what is frozen under a name."""
    path = FOLDER / f"{name}.json"
    found: dict[str, object] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def write(name: str, found: Mapping[str, object]) -> None:
    """Freeze what is not frozen yet."""
    text = json.dumps({**found, **read(name)}, indent=1, ensure_ascii=False)
    (FOLDER / f"{name}.json").write_text(text + "\n", "utf-8")

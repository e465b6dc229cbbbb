"""Write docs/tables.md from the declaration in storage/tables.py.

Run it after a change of a table, in the environment of the tests:
``.venv/bin/python scripts/tables_page.py``. A test fails while the page is not what this makes.
"""

from __future__ import annotations

from pathlib import Path

from hermes_sessions.storage.tables import (
    SERVER_TABLES,
    TABLES_BY_STEP,
    Column,
    Table,
)

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tables.md"
HEAD = """\
# Tables and columns

Every database has these tables, with the same names and columns. Python programs should use
[the store](store.md), which keeps counters, lists and the search index right. Other programs may
read everything, and may write the columns that are marked *documented*: triggers and the store
complete such rows.

Where `[attachment <id>]` stands in `content`, `api_content`, `payload` or `tool_calls` of a
message, and its column `attachments` lists that id, the store put base64 aside: the blob with that
digest.

Types: *text*; *key* is text of at most 191 characters; *number* is a whole number, *real* one with
a fraction; *time* is seconds since 1970 in UTC; *JSON* is text; *flag* is 0 or 1. Columns marked
*required* are never NULL.

Access, in the tables of sessions: *given* columns are stated by callers and are in records; *shown*
columns are kept by the store and are in records; *exported* columns are only in exports; the others
are the store's own.

Made by `scripts/tables_page.py` from `src/hermes_sessions/storage/tables.py`.
"""
TYPES = {
    "serial": "number",
    "name": "key",
    "text": "text",
    "real": "real",
    "integer": "number",
    "bytes": "bytes",
}
MEANINGS = {"json": "JSON", "value": "JSON", "time": "time", "flag": "flag"}
OF_SESSIONS = ("sessions", "messages", "rewinds", "session_model_usage")


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for step, tables in (*TABLES_BY_STEP.items(), ("", SERVER_TABLES)):
        parts += [section(table, step) for table in tables]
    return "\n".join(parts)


def section(table: Table, step: str) -> str:
    """Return what the page says of one table."""
    notes = [table.doc]
    notes.append(f"Key: {', '.join(f'`{name}`' for name in table.key)}.")
    notes.append(f"Created by `{step}`." if step else "On servers.")
    if table.local:
        notes.append(f"Not in portable backups nor copied: {table.local}.")
    shows_access = table.name in OF_SESSIONS
    head = "| Column | Type | Access | Meaning |" if shows_access else "| Column | Type | Meaning |"
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    for column in table.columns:
        cells = [f"`{column.name}`", type_of(table, column)]
        if shows_access:
            cells.append("" if column.access == "hidden" else column.access)
        cells.append(meaning_of(column))
        lines.append(f"| {' | '.join(cells)} |")
    return f"## {table.name}\n\n{' '.join(notes)}\n\n" + "\n".join(lines) + "\n"


def type_of(table: Table, column: Column) -> str:
    """Return the type, and whether there is always a value."""
    name = MEANINGS.get(column.holds, TYPES[column.kind])
    is_required = column.required or column.kind == "serial" or column.name in table.key
    return f"{name}, required" if is_required else name


def meaning_of(column: Column) -> str:
    """Return the sentence, and what else there is to know."""
    notes = [column.doc]
    if column.references is not None:
        notes.append(f"An id of `{column.references}`.")
    if column.default:
        notes.append(f"Unless given: {column.default}.")
    if column.generated:
        notes.append("The database computes it.")
    if column.since is not None:
        notes.append(f"Since `{column.since}`.")
    if column.documented:
        notes.append("*Documented.*")
    return " ".join(notes)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""Everything that the doctor can find, as data. The list is closed; ``docs/doctor.md`` shows it.

A condition has one next step, which is a command wherever there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from hermes_sessions.storage.care.health import State

#: A problem makes the doctor end with 1; advice is said, and changes nothing else.
Weight = Literal["problem", "advice"]
Database = Literal["sqlite", "servers"]
ALL: Final[tuple[Database, ...]] = ("sqlite", "servers")
SQLITE: Final[tuple[Database, ...]] = ("sqlite",)
SERVERS: Final[tuple[Database, ...]] = ("servers",)


class Condition(NamedTuple):
    """Something that can be wrong."""

    name: str
    #: What it is, as a sentence.
    words: str
    #: The one thing to do next.
    step: str
    #: What it makes of the store.
    state: State = State.DEGRADED
    weight: Weight = "problem"
    #: Whether ``--fix`` does something about it.
    is_fixable: bool = False
    where: tuple[Database, ...] = ALL


_FIX: Final = "hermes doctor --fix"

CONDITIONS: Final = (
    # ── reaching it ───────────────────────────────────────────────────────────────────────────
    Condition(
        "unreachable",
        "The store cannot be opened.",
        "Start the server, or correct sessiondb in config.yaml; then look again: hermes doctor",
        State.DOWN,
    ),
    Condition(
        "foreign-file",
        "The file is another program's, or no database at all.",
        "Choose another file: sessiondb.sqlite.path in config.yaml",
        State.DOWN,
        where=SQLITE,
    ),
    Condition(
        "newer-schema",
        "A newer version wrote the store; this one only reads it.",
        "Update this program: pip install --upgrade hermes-sessions",
        State.READ_ONLY,
    ),
    Condition(
        "unfinished-migration",
        "The tables are those of an older version; some steps are left.",
        "hermes sessiondb upgrade",
        is_fixable=True,
    ),
    Condition(
        "unfinished-write",
        "A program died while it wrote, and its write must be rolled back first.",
        "Open the store once, which does that: hermes sessions list",
        is_fixable=True,
        where=SQLITE,
    ),
    Condition(
        "locked",
        "A process keeps all others from writing.",
        "End the process that is named, or wait for it",
        State.READ_ONLY,
    ),
    # ── damage ────────────────────────────────────────────────────────────────────────────────
    Condition(
        "emptied-store",
        "The file of the store was emptied, from outside: nothing is in it any more.",
        "Put a backup in its place: hermes backup restore latest",
        State.DOWN,
        where=SQLITE,
    ),
    Condition(
        "damaged-page",
        "A part of the database is damaged.",
        "Copy what can be read into a new file: hermes repair",
    ),
    Condition(
        "damaged-index",
        "An index is damaged, or contradicts its table; no message is lost.",
        "Write the store anew from its tables: hermes repair",
        where=SQLITE,
    ),
    Condition(
        "damaged-search-index",
        "The search index is damaged. It is made from the messages, which are not.",
        _FIX,
        is_fixable=True,
    ),
    Condition(
        "index-behind",
        "Many messages are not in the search index yet, so that searches are slow.",
        "hermes sessions optimize",
        weight="advice",
        is_fixable=True,
    ),
    # ── where it lies ─────────────────────────────────────────────────────────────────────────
    Condition(
        "unsafe-file-system",
        "The store is on a network file system, whose locks cannot be relied on.",
        "Move it to a local disk: hermes sessiondb migrate --to FILE",
        where=SQLITE,
    ),
    Condition(
        "foreign-owner",
        "A file of the store belongs to somebody else, so it is not trusted.",
        "Take it over, if it is yours: chown",
        State.DOWN,
        where=SQLITE,
    ),
    Condition(
        "read-only-place",
        "The store, or its directory, cannot be written.",
        "Give yourself the right to write there: chmod u+w",
        State.READ_ONLY,
        where=SQLITE,
    ),
    Condition(
        "open-to-others",
        "Other users of this machine may read or change what is yours.",
        _FIX,
        is_fixable=True,
    ),
    Condition(
        "disk-nearly-full",
        "There is hardly any space left.",
        "Free some space there",
    ),
    Condition(
        "orphaned-files",
        "Files were left behind that belong to nothing any more.",
        _FIX,
        weight="advice",
        is_fixable=True,
    ),
    Condition(
        "orphaned-log",
        "A log without its database: messages may be in it alone.",
        "Put the database back that it belongs to, from a backup; then open it once",
        where=SQLITE,
    ),
    Condition(
        "foreign-writer",
        "Another product writes to the file.",
        "Give that product, or this one, a file of its own: sessiondb.sqlite.path in config.yaml",
        where=SQLITE,
    ),
    Condition(
        "removed-log",
        "The write-ahead log was removed while the store was in use, from outside: what was "
        "written last may be missing.",
        "Have no other program remove files of the store; say that you know: hermes doctor --fix",
        is_fixable=True,
        where=SQLITE,
    ),
    # ── time ──────────────────────────────────────────────────────────────────────────────────
    Condition(
        "clock-jump",
        "There are rows from the future: a clock was wrong when they were written, or is now.",
        "Check this machine's clock: timedatectl",
    ),
    Condition(
        "clock-skew",
        "The clocks of this machine and of others that use the store differ.",
        "Have both set by the network: timedatectl set-ntp true",
    ),
    # ── work that does not go on ──────────────────────────────────────────────────────────────
    Condition(
        "dead-leases",
        "Conversations are still marked as held by processes that are gone.",
        _FIX,
        weight="advice",
        is_fixable=True,
    ),
    Condition(
        "stuck-mailbox",
        "Messages wait for an answer, and nobody works on them.",
        "hermes gateway run",
    ),
    Condition(
        "dead-letters",
        "Replies were given up, because they could not be delivered.",
        "hermes gateway queue --dead",
    ),
    Condition(
        "chat-spool",
        "What was said in a terminal while the store was away is not stored yet.",
        _FIX,
        is_fixable=True,
    ),
    Condition(
        "gateway-spool",
        "What people wrote while the store was away is not stored yet.",
        "hermes gateway run",
    ),
    # ── around it ─────────────────────────────────────────────────────────────────────────────
    Condition(
        "shadowed-module",
        "import hermes_state gives another product's module.",
        "Give the two products an environment each: python -m venv",
    ),
    Condition(
        "shadowed-command",
        "The command hermes is another product's.",
        "Use the second name of this one, which nobody else has: hermes-sessions",
        weight="advice",
    ),
    Condition(
        "no-backup",
        "There is no backup.",
        "hermes backup create",
        weight="advice",
    ),
    Condition(
        "old-backup",
        "The newest backup is old.",
        "hermes backup create",
        weight="advice",
    ),
)

CONDITION: Final[Mapping[str, Condition]] = {each.name: each for each in CONDITIONS}


def table() -> str:
    """Return the list in Markdown, as ``docs/doctor.md`` has it."""
    rows = [
        "| Condition | What it is | Next step | `--fix` | Where |",
        "|---|---|---|---|---|",
    ]
    for each in CONDITIONS:
        name = f"`{each.name}`" + (" (advice)" if each.weight == "advice" else "")
        where = "all" if each.where == ALL else "SQLite" if each.where == SQLITE else "servers"
        fix = "yes" if each.is_fixable else "–"
        rows.append(f"| {name} | {each.words} | {each.step} | {fix} | {where} |")
    return "\n".join(rows) + "\n"

"""Every condition that the doctor can report, as data; ``docs/doctor.md`` shows the list.

Each condition has one next step, a command wherever there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from hermes_sessions.storage.care.health import State

#: A problem makes the doctor exit with 1; advice is only printed.
Weight = Literal["problem", "advice"]
#: Where a store is: in a file of this machine, or on a server.
Place = Literal["files", "servers"]
ALL: Final[tuple[Place, ...]] = ("files", "servers")
FILES: Final[tuple[Place, ...]] = ("files",)


class Condition(NamedTuple):
    """Something that can be wrong."""

    name: str
    #: A sentence that describes it.
    words: str
    #: The one thing to do next.
    step: str
    #: The state of a store that has it.
    state: State = State.DEGRADED
    weight: Weight = "problem"
    #: Whether ``--fix`` fixes it.
    is_fixable: bool = False
    where: tuple[Place, ...] = ALL


_FIX: Final = "hermes doctor --fix"

CONDITIONS: Final = (
    # ── access ────────────────────────────────────────────────────────────────────────────────
    Condition(
        "unreachable",
        "The store cannot be opened.",
        "Start the server or correct sessiondb in config.yaml, then run: hermes doctor",
        State.DOWN,
    ),
    Condition(
        "foreign-file",
        "The file belongs to another program, or is not a database.",
        "Choose another file: set sessiondb.sqlite.path in config.yaml",
        State.DOWN,
        where=FILES,
    ),
    Condition(
        "hermes-file",
        "The file belongs to hermes-agent and is not a store of this product.",
        "hermes sessiondb upgrade, or copy it: hermes sessions import FILE",
        State.READ_ONLY,
        where=FILES,
    ),
    Condition(
        "newer-schema",
        "A newer version wrote the store; this version can only read it.",
        "Upgrade: pip install --upgrade hermes-sessions",
        State.READ_ONLY,
    ),
    Condition(
        "unfinished-migration",
        "The tables are from an older version; migrations are pending.",
        "hermes sessiondb upgrade",
        is_fixable=True,
    ),
    Condition(
        "unfinished-write",
        "A program crashed while writing; its write must be rolled back.",
        "Open the store once to roll it back: hermes sessions list",
        is_fixable=True,
        where=FILES,
    ),
    Condition(
        "locked",
        "A process is blocking all other writers.",
        "Wait for the named process to finish, or stop it",
        State.READ_ONLY,
    ),
    # ── damage ────────────────────────────────────────────────────────────────────────────────
    Condition(
        "emptied-store",
        "Another program emptied the database file; it contains no data.",
        "Restore a backup: hermes backup restore latest",
        State.DOWN,
        where=FILES,
    ),
    Condition(
        "damaged-page",
        "Part of the database is damaged.",
        "Recover the readable data into a new file: hermes repair",
    ),
    Condition(
        "damaged-index",
        "An index is damaged or disagrees with its table; no message is lost.",
        "Rebuild the store from its tables: hermes repair",
        where=FILES,
    ),
    Condition(
        "damaged-search-index",
        "The search index is damaged; the messages are not.",
        _FIX,
        is_fixable=True,
    ),
    Condition(
        "index-behind",
        "Many messages are not indexed yet, which slows searches down.",
        "hermes sessions optimize",
        weight="advice",
        is_fixable=True,
    ),
    Condition(
        "damaged-blob",
        "An attachment, or another blob, is missing or damaged; messages show its id instead.",
        "Send the file again, or restore a backup: hermes backup restore latest",
    ),
    Condition(
        "unneeded-blobs",
        "Attachments and other blobs that nothing needs any more take up space.",
        _FIX,
        weight="advice",
        is_fixable=True,
    ),
    # ── location ──────────────────────────────────────────────────────────────────────────────
    Condition(
        "unsafe-file-system",
        "The store is on a network file system, where file locks are unreliable.",
        "Move it to a local disk: hermes sessiondb migrate --to FILE",
        where=FILES,
    ),
    Condition(
        "foreign-owner",
        "A file of the store belongs to another user and is not trusted.",
        "If it is yours, take ownership: chown",
        State.DOWN,
        where=FILES,
    ),
    Condition(
        "read-only-place",
        "The store or its directory is not writable.",
        "Make it writable: chmod u+w",
        State.READ_ONLY,
        where=FILES,
    ),
    Condition(
        "open-to-others",
        "Other users of this machine can read or change your data.",
        _FIX,
        is_fixable=True,
    ),
    Condition(
        "disk-nearly-full",
        "The disk is almost full.",
        "Free up space on that disk",
    ),
    Condition(
        "orphaned-files",
        "Leftover files are no longer used.",
        _FIX,
        weight="advice",
        is_fixable=True,
    ),
    Condition(
        "orphaned-log",
        "A write-ahead log has no database; it may hold messages stored nowhere else.",
        "Restore its database from a backup, then open it once",
        where=FILES,
    ),
    Condition(
        "foreign-writer",
        "Another product is writing to the file.",
        "Give each product its own file: set sessiondb.sqlite.path in config.yaml",
        where=FILES,
    ),
    Condition(
        "removed-log",
        "Another program removed the write-ahead log while the store was in use; the latest "
        "writes may be missing.",
        "Stop programs from removing the store's files, then acknowledge: hermes doctor --fix",
        is_fixable=True,
        where=FILES,
    ),
    # ── time ──────────────────────────────────────────────────────────────────────────────────
    Condition(
        "clock-jump",
        "Some rows are dated in the future: a clock was wrong then, or is wrong now.",
        "Check this machine's clock: timedatectl",
    ),
    Condition(
        "clock-skew",
        "The clocks of this machine and of another one that uses the store differ.",
        "Synchronize both: timedatectl set-ntp true",
    ),
    # ── stalled work ──────────────────────────────────────────────────────────────────────────
    Condition(
        "dead-leases",
        "Conversations are still locked by processes that no longer run.",
        _FIX,
        weight="advice",
        is_fixable=True,
    ),
    Condition(
        "stuck-mailbox",
        "Messages are waiting for an answer and no process is handling them.",
        "hermes gateway run",
    ),
    Condition(
        "dead-letters",
        "Some replies could not be delivered, and the gateway gave up on them.",
        "hermes gateway queue --dead",
    ),
    Condition(
        "chat-spool",
        "Chat messages typed while the store was unavailable are not stored yet.",
        _FIX,
        is_fixable=True,
    ),
    Condition(
        "gateway-spool",
        "Messages received while the store was unavailable are not stored yet.",
        "hermes gateway run",
    ),
    # ── environment ───────────────────────────────────────────────────────────────────────────
    Condition(
        "shadowed-module",
        "hermes-agent in this environment uses its own store, not this one.",
        "hermes-sessions adopt",
        weight="advice",
    ),
    Condition(
        "shadowed-command",
        "The hermes command belongs to another product.",
        "Use this product's other name: hermes-sessions",
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
        "| Condition | Meaning | Next step | `--fix` | Database |",
        "|---|---|---|---|---|",
    ]
    for each in CONDITIONS:
        name = f"`{each.name}`" + (" (advice)" if each.weight == "advice" else "")
        where = "all" if each.where == ALL else "SQLite" if each.where == FILES else "servers"
        fix = "yes" if each.is_fixable else "–"
        rows.append(f"| {name} | {each.words} | {each.step} | {fix} | {where} |")
    return "\n".join(rows) + "\n"

"""Named migrations of a server's tables, and the level that a program must know to write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from hermes_sessions.errors import SchemaRefused
from hermes_sessions.storage.provider import MigrationSteps
from hermes_sessions.storage.tables import KNOWN_LEVEL

#: The level that a new store requires.
WRITER_LEVEL: Final = 1

#: Backs up a store that has run these steps.
BackUp = Callable[[Collection[str]], None]

#: One that was only started has no time yet.
STEPS_TAKEN: Final = "SELECT name, writer_level FROM store_migrations WHERE applied_at > 0"


class Migration(NamedTuple):
    """One named step. ``finishing`` ones wait until no older version runs any more."""

    name: str
    statements: tuple[str, ...]
    writer_level: int = WRITER_LEVEL
    finishing: bool = False


def require_known_level(level: int) -> None:
    """Refuse to write to a store of a newer version.

    Raises:
        SchemaRefused: the store requires a higher level than this version has.
    """
    if level > KNOWN_LEVEL:
        raise SchemaRefused(
            f"The store was changed by a newer version of Hermes Sessions (level {level}, this one "
            f"knows {KNOWN_LEVEL}). Update this program to write; reading still works."
        )


def steps_of(declared: Iterable[Migration], taken: Collection[str]) -> MigrationSteps:
    """Return the steps that were run, and those that remain."""
    return MigrationSteps.of([(step.name, step.finishing) for step in declared], taken)


def missing(
    declared: Iterable[Migration], taken: Collection[str], *, finishing: bool = False
) -> list[Migration]:
    """Return the steps to run now, in order; finishing steps only with *finishing*."""
    return [step for step in declared if step.name not in taken and step.finishing <= finishing]


def owner_required(steps: Iterable[Migration], who: str, owner: str) -> str:
    """Return the error message for a user who may write rows but not run these steps."""
    names = ", ".join(step.name for step in steps)
    return (
        f"The tables of this store are those of an earlier version ({names} missing), and {who} "
        f"may not change them. Run `hermes sessiondb upgrade` once as {owner}, then start again."
    )

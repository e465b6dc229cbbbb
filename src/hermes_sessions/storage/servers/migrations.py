"""Named steps that lead to a server's tables, and which of them a program must know to write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from hermes_sessions.errors import SchemaRefused
from hermes_sessions.storage.provider import MigrationSteps

#: What this version knows: a store that asks for more is not written to.
WRITER_LEVEL: Final = 1

#: Backs a store up that has taken these steps.
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
    """Refuse to write what a newer version made.

    Raises:
        SchemaRefused: the store asks for more than this version knows.
    """
    if level > WRITER_LEVEL:
        raise SchemaRefused(
            f"The store was changed by a newer version of Hermes Sessions (level {level}, this one "
            f"knows {WRITER_LEVEL}). Update this program to write; reading goes on."
        )


def steps_of(declared: Iterable[Migration], taken: Collection[str]) -> MigrationSteps:
    """Return the steps taken, and what is left."""
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

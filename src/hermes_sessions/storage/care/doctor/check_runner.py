"""A look at a store: every check in its turn, within the time there is, and then what to do.

Nothing here raises because of what a check meets: what cannot be looked at is reported as unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

from hermes_sessions.config.settings import Settings
from hermes_sessions.errors import HermesSessionsError, StoreCorrupt, StoreError
from hermes_sessions.storage.care.doctor.conditions import CONDITION, Condition
from hermes_sessions.storage.care.doctor.report import (
    Finding,
    FixResult,
    Note,
    OpenStore,
    Report,
    UncheckedCondition,
)
from hermes_sessions.storage.provider import MigrationSteps, ReadTransaction
from hermes_sessions.storage.search.index_port import SearchIndex
from hermes_sessions.storage.sqlite.file_kind import FileType
from hermes_sessions.storage.sqlite.inspection import ChangedDuringInspection, FileInspection

# What is looked at, with what is known about its surroundings, and how much time there is.

#: Seconds that a look takes at most, however large the store is, unless all of it is asked for.
DEFAULT_SECONDS: Final = 20.0


class ReadableStore(Protocol):
    """A store that is open for looking."""

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """Lend a consistent look."""

    def steps(self) -> MigrationSteps:
        """Return the steps that were taken and those that are left."""

    def close(self) -> None:
        """Let go of it."""


@dataclass(slots=True)
class ExaminedStore:
    """The configured store, as the checks see it."""

    settings: Settings
    environ: Mapping[str, str]
    #: Seconds since the epoch.
    clock: Callable[[], float] = time.time
    #: Seconds that never go back.
    stopwatch: Callable[[], float] = time.monotonic
    #: When `stopwatch` says this, no further check is begun.
    until: float = float("inf")
    #: Whether everything is checked, however long that takes.
    is_thorough: bool = False
    #: Set when it could be opened; else the failure says why not.
    opened: ReadableStore | None = None
    failure: StoreError | None = None
    #: A file that is open, where the store is one.
    file: FileInspection | None = None
    index: SearchIndex | None = None
    location: str = ""
    #: Whether there is no store yet.
    is_missing: bool = False
    #: Whether somebody came in between, so that it should be looked at again.
    was_disturbed: bool = False

    @property
    def provider(self) -> str:
        """The name of the database."""
        return self.settings.sessiondb.provider

    @property
    def is_file(self) -> bool:
        """Whether the store is a SQLite file."""
        return self.provider == "sqlite"

    @property
    def has_our_tables(self) -> bool:
        """Whether the tables are those of this product, at least the first of them."""
        return self.file is None or self.file.file_kind.kind is FileType.OURS

    @property
    def path(self) -> Path:
        """Where the file is, if it is one."""
        return self.settings.sessiondb.sqlite.path

    @property
    def seconds_left(self) -> float:
        """How much time there is."""
        return max(0.0, self.until - self.stopwatch())

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """Lend a look at the rows.

        Raises:
            StoreError: the store is not open.
        """
        if self.opened is None:
            raise self.failure or StoreError("The store is not open.")
        return self.opened.read()


Outcome = Finding | Note
Look = Callable[[ExaminedStore], Iterable[Outcome]]

_NOT_OPEN: Final = "the store could not be opened"
_OTHER_TABLES: Final = "its tables are not those of this version"
_NO_TIME: Final = "no time was left; hermes doctor --full takes as long as it needs"
_NO_STORE: Final = "There is no store yet; the first conversation makes it."


class Check(NamedTuple):
    """Looks for some conditions."""

    conditions: tuple[str, ...]
    look: Look
    #: What must be there: the tables of this version, a store of any kind, or nothing.
    needs: Literal["tables", "store", "nothing"] = "tables"


def run_checks(subject: ExaminedStore, checks: Sequence[Check]) -> Report:
    """Make all checks that concern the subject; return what was found.

    The subject is open or has failed; it is not closed here.
    """
    findings: list[Finding] = []
    unknown: list[UncheckedCondition] = []
    absent: list[Condition] = []
    notes: list[str] = [_NO_STORE] if subject.is_missing else []
    first_damage: StoreCorrupt | None = None
    for check in checks:
        concerned = [
            condition
            for condition in map(CONDITION.__getitem__, check.conditions)
            if _is_about(condition, subject)
        ]
        if not concerned:
            continue
        why, outcomes, damage = _looked(check, subject)
        first_damage = first_damage or damage
        found = [each for each in outcomes if isinstance(each, Finding)]
        findings += found
        notes += [each.words for each in outcomes if isinstance(each, Note)]
        for condition in concerned:
            if why is not None:
                unknown.append(UncheckedCondition(condition, why))
            else:
                absent.append(condition)
    if first_damage is not None and not any(_is_damage(each) for each in findings):
        # There may be no check of pages, or no time for it; what others met is damage all the same.
        findings.append(Finding.of("damaged-page", str(first_damage)))
    # What stood in the way of one check may have been found by another.
    names = {each.condition.name for each in findings}
    not_known = [each for each in dict.fromkeys(unknown) if each.condition.name not in names]
    names |= {each.condition.name for each in not_known}
    return Report(
        subject.location,
        subject.provider,
        tuple(findings),
        tuple(not_known),
        tuple(each for each in dict.fromkeys(absent) if each.name not in names),
        tuple(notes),
    )


def _is_damage(finding: Finding) -> bool:
    return finding.condition.name in ("damaged-page", "damaged-index")


def _is_about(condition: Condition, subject: ExaminedStore) -> bool:
    return ("sqlite" if subject.is_file else "servers") in condition.where


def _looked(
    check: Check, subject: ExaminedStore
) -> tuple[str | None, list[Outcome], StoreCorrupt | None]:
    """Return what a check found, why it could not find everything out, and the damage it met."""
    why = _in_the_way(check, subject)
    outcomes: list[Outcome] = []
    damage: StoreCorrupt | None = None
    if why is not None or (check.needs != "nothing" and subject.is_missing):
        return why, outcomes, damage
    try:
        outcomes.extend(check.look(subject))
    except HermesSessionsError as error:
        subject.was_disturbed |= isinstance(error, ChangedDuringInspection)
        why = str(error).rstrip(".")
        damage = error if isinstance(error, StoreCorrupt) else None
    except OSError as error:
        why = f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}"
    return why, outcomes, damage


def _in_the_way(check: Check, subject: ExaminedStore) -> str | None:
    """Return why a check cannot be made at all."""
    if check.needs != "nothing" and not subject.is_missing:
        if subject.opened is None:
            return _NOT_OPEN
        if check.needs == "tables" and not subject.has_our_tables:
            return _OTHER_TABLES
    return _NO_TIME if subject.seconds_left <= 0 else None


def apply_fixes(report: Report, open_store: OpenStore) -> tuple[FixResult, ...]:
    """Do what can safely be done about the findings; return what was done and what was not."""
    mended: list[FixResult] = []
    for finding in report.findings:
        if finding.fix is None:
            continue
        try:
            mended.append(FixResult(finding.condition, finding.fix(open_store), is_done=True))
        except HermesSessionsError as error:
            mended.append(FixResult(finding.condition, str(error), is_done=False))
        except OSError as error:
            words = f"{error.filename or ''}: {error.strerror or error}"
            mended.append(FixResult(finding.condition, words, is_done=False))
    return tuple(mended)

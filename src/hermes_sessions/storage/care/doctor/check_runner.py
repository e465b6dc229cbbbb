"""Runs the doctor's checks in turn, within a time limit, and applies fixes.

A check that fails never raises out of here: its conditions are reported as unknown.
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
from hermes_sessions.storage.file_inspection import ChangedDuringInspection, InspectedFile
from hermes_sessions.storage.provider import MigrationSteps, ReadTransaction, ServerChecks
from hermes_sessions.storage.search.index_port import SearchIndex

#: Time limit of all checks in seconds, however large the store is, unless everything is checked.
DEFAULT_SECONDS: Final = 20.0


class ReadableStore(Protocol):
    """A store that is open for reading."""

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """Lend a read transaction."""

    def steps(self) -> MigrationSteps:
        """Return the migration steps that are done and those that are pending."""

    def close(self) -> None:
        """Close it."""


@dataclass(slots=True)
class ExaminedStore:
    """The configured store, as the checks see it."""

    settings: Settings
    environ: Mapping[str, str]
    #: Seconds since the epoch.
    clock: Callable[[], float] = time.time
    #: Monotonic seconds.
    stopwatch: Callable[[], float] = time.monotonic
    #: No check starts after `stopwatch` reaches this.
    until: float = float("inf")
    #: Whether to check everything, however long that takes.
    is_thorough: bool = False
    #: Set if the store could be opened; otherwise `failure` says why not.
    opened: ReadableStore | None = None
    failure: StoreError | None = None
    #: The open file, if the store is a file.
    file: InspectedFile | None = None
    #: How to examine the server, if the store is on one that can be asked.
    server: ServerChecks | None = None
    index: SearchIndex | None = None
    location: str = ""
    #: Whether the store does not exist yet.
    is_missing: bool = False
    #: Whether another process changed the store meanwhile, so that the checks should run again.
    was_disturbed: bool = False

    @property
    def provider(self) -> str:
        """The name of the database."""
        return self.settings.sessiondb.provider

    @property
    def is_file(self) -> bool:
        """Whether the store is a file."""
        return self.settings.sessiondb.store_file is not None

    @property
    def has_our_tables(self) -> bool:
        """Whether the tables belong to this product, in any version."""
        return self.file is None or self.file.is_ours

    @property
    def path(self) -> Path:
        """The configured SQLite file."""
        return self.settings.sessiondb.sqlite.path

    @property
    def seconds_left(self) -> float:
        """How much time is left."""
        return max(0.0, self.until - self.stopwatch())

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """Lend a read transaction.

        Raises:
            StoreError: the store is not open.
        """
        if self.opened is None:
            raise self.failure or StoreError("The store is not open.")
        return self.opened.read()


Outcome = Finding | Note
Look = Callable[[ExaminedStore], Iterable[Outcome]]

_NOT_OPEN: Final = "the store could not be opened"
_OTHER_TABLES: Final = "its tables are from another version or program"
_NO_TIME: Final = "the time limit was reached, which hermes doctor --full lifts"
_NO_STORE: Final = "There is no store yet; the first conversation creates it."


class Check(NamedTuple):
    """A check for one or more conditions."""

    conditions: tuple[str, ...]
    look: Look
    #: What it requires: this version's tables, any open store, or nothing.
    needs: Literal["tables", "store", "nothing"] = "tables"


def run_checks(subject: ExaminedStore, checks: Sequence[Check]) -> Report:
    """Run all checks that apply to *subject* and return the report.

    The subject is already open or has failed to open; the caller closes it.
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
            if _applies_to(condition, subject)
        ]
        if not concerned:
            continue
        why, outcomes, damage = _outcomes(check, subject)
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
        # The page check may be missing or out of time; damage that another check met still counts.
        findings.append(Finding.of("damaged-page", str(first_damage)))
    # A condition that one check could not decide may have been found by another.
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


def _applies_to(condition: Condition, subject: ExaminedStore) -> bool:
    return ("files" if subject.is_file else "servers") in condition.where


def _outcomes(
    check: Check, subject: ExaminedStore
) -> tuple[str | None, list[Outcome], StoreCorrupt | None]:
    """Return the outcomes of a check, why it is incomplete, and the damage it met."""
    why = _obstacle(check, subject)
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


def _obstacle(check: Check, subject: ExaminedStore) -> str | None:
    """Return why a check cannot run, None if it can."""
    if check.needs != "nothing" and not subject.is_missing:
        if subject.opened is None:
            return _NOT_OPEN
        if check.needs == "tables" and not subject.has_our_tables:
            return _OTHER_TABLES
    return _NO_TIME if subject.seconds_left <= 0 else None


def apply_fixes(report: Report, open_store: OpenStore) -> tuple[FixResult, ...]:
    """Apply the safe fixes of all findings; return the outcome of each."""
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

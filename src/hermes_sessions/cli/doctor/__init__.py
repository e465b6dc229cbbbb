"""``hermes doctor`` and ``hermes status``: how the store is, and what to do about it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.store import open_for_writing, show_warnings
from hermes_sessions.config import load_settings
from hermes_sessions.storage.care.doctor.check_runner import DEFAULT_SECONDS, ExaminedStore

if TYPE_CHECKING:
    from hermes_sessions.storage.care.doctor.report import Report
    from hermes_sessions.storage.sessiondb import SessionDB

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.cli.render.safe_text import one_line

if TYPE_CHECKING:
    from hermes_sessions.cli.render.style import Style
    from hermes_sessions.storage.care.doctor.report import Finding, Report


# What the doctor found, for people.


def report_lines(report: Report, style: Style) -> Iterator[str]:
    """Return a report in lines: what was done, what is wrong, what is not known, and the sum."""
    yield f"Store: {one_line(report.location)} ({report.provider})"
    for mended in report.mended:
        sign = "Fixed" if mended.is_done else "Not fixed"
        yield f"{sign}: {one_line(mended.what)}"
    for finding in report.findings:
        yield ""
        yield from _finding_lines(finding, style)
    if report.unknown:
        yield ""
        by_reason = sorted(report.unknown, key=lambda each: each.why)
        for why, together in groupby(by_reason, key=lambda each: each.why):
            names = ", ".join(each.condition.name for each in together)
            yield f"Unknown: {names}: {one_line(why)}."
    if report.findings or report.unknown:
        yield ""
    for note in report.notes:
        yield one_line(note)
    yield _sum(report)


def _finding_lines(finding: Finding, style: Style) -> Iterator[str]:
    condition = finding.condition
    mark = "Advice" if condition.weight == "advice" else "Problem"
    yield f"{style.bold(mark)}: {condition.words} [{condition.name}]"
    yield f"  {one_line(finding.what)}"
    yield f"  Next: {condition.step}"


def _sum(report: Report) -> str:
    looked = f"{counted(len(report.absent), 'condition')} looked for and not there"
    problems = len(report.problems)
    if problems:
        state = f"The store is {report.health.state.value}: {counted(problems, 'problem')}"
    elif report.unknown:
        state = "No problem was found, but not everything could be looked at"
    else:
        state = "The store is healthy"
    return f"{state}; {looked}."


# ``hermes doctor``.

#: A store that others open and close meanwhile is looked at again, so many times in all.
_LOOKS: Final = 3


@click.command(short_help="Look for trouble with the store, and say what to do.")
@click.option("--fix", is_flag=True, help="Do what can safely be done, and say what was done.")
@click.option("--full", is_flag=True, help="Check everything, however long that takes.")
@pass_console
def doctor(console: Console, *, fix: bool, full: bool) -> None:
    """Look for trouble with the store, and say what to do about it.

    Nothing is changed without --fix, nobody is waited for, and it takes 20 seconds at most, however
    large the store is; --full checks all of it.

    Exit codes: 0 healthy, 1 problems were found, 2 something could not be looked at.
    """
    show_warnings(console)
    found = _looked(console, full=full)
    if fix and any(finding.fix for finding in found.findings):
        from hermes_sessions.storage.care.doctor.check_runner import apply_fixes

        def open_store() -> AbstractContextManager[SessionDB]:
            return open_for_writing(console)

        mended = apply_fixes(found, open_store)
        found = replace(_looked(console, full=full), mended=mended)
    if console.as_json:
        console.print_json(document(found))
    else:
        console.print(report_lines(found, console.style))
    if found.exit_code:
        raise click.exceptions.Exit(found.exit_code)


def _looked(console: Console, *, full: bool) -> Report:
    from hermes_sessions.cli.doctor.checks import ALL
    from hermes_sessions.storage.care.doctor.access_checks import opened
    from hermes_sessions.storage.care.doctor.check_runner import run_checks

    first = subject(console, full=full)
    looks = 0
    while True:
        looks += 1
        # Within the same time, however often.
        with opened(replace(first)) as looked_at:
            report = run_checks(looked_at, ALL)
        if not looked_at.was_disturbed or looks == _LOOKS:
            return report


def subject(console: Console, *, full: bool = False) -> ExaminedStore:
    """Return the configured store as the checks see it, with the time they are given."""
    until = float("inf") if full else console.stopwatch() + DEFAULT_SECONDS
    return ExaminedStore(
        load_settings(),
        console.environ,
        console.clock,
        console.stopwatch,
        until,
        is_thorough=full,
    )


def document(found: Report) -> dict[str, object]:
    """Return a report as JSON shows it."""
    return {
        "state": found.health.state.value,
        "why": found.health.why,
        "provider": found.provider,
        "location": found.location,
        "findings": [
            {
                "condition": each.condition.name,
                "weight": each.condition.weight,
                "what": each.what,
                "words": each.condition.words,
                "step": each.condition.step,
                "fixable": each.fix is not None,
            }
            for each in found.findings
        ],
        "unknown": [{"condition": each.condition.name, "why": each.why} for each in found.unknown],
        "absent": [each.name for each in found.absent],
        "notes": list(found.notes),
        "mended": [
            {"condition": each.condition.name, "what": each.what, "done": each.is_done}
            for each in found.mended
        ],
    }

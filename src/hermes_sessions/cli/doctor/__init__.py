"""``hermes doctor``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.store import open_for_writing, show_warnings
from hermes_sessions.config import load_settings
from hermes_sessions.storage.care.doctor.check_runner import DEFAULT_SECONDS, ExaminedStore

if TYPE_CHECKING:
    from hermes_sessions.cli.render.style import Style
    from hermes_sessions.storage.care.doctor.report import Finding, Report
    from hermes_sessions.storage.sessiondb import SessionDB

#: How often a store is checked that other processes keep changing meanwhile.
_ATTEMPTS: Final = 3


def report_lines(report: Report, style: Style) -> Iterator[str]:
    """Yield a report for a terminal: fixes, findings, what could not be checked, and a summary."""
    yield f"Store: {one_line(report.location)} ({report.provider})"
    for mended in report.mended:
        label = "Fixed" if mended.is_done else "Not fixed"
        yield f"{label}: {one_line(mended.what)}"
    for finding in report.findings:
        yield ""
        yield from _finding_lines(finding, style)
    if report.unknown:
        yield ""
        by_reason = sorted(report.unknown, key=lambda each: each.why)
        for why, together in groupby(by_reason, key=lambda each: each.why):
            names = ", ".join(each.condition.name for each in together)
            yield f"Not checked: {names}: {one_line(why)}."
    if report.findings or report.unknown:
        yield ""
    for note in report.notes:
        yield one_line(note)
    yield _summary(report)


def _finding_lines(finding: Finding, style: Style) -> Iterator[str]:
    condition = finding.condition
    label = "Advice" if condition.weight == "advice" else "Problem"
    yield f"{style.bold(label)}: {condition.words} [{condition.name}]"
    yield f"  {one_line(finding.what)}"
    yield f"  Next: {condition.step}"


def _summary(report: Report) -> str:
    passed = f"{counted(len(report.absent), 'check')} passed"
    problems = len(report.problems)
    if problems:
        return (
            f"{report.health.state.value.capitalize()}: {counted(problems, 'problem')}; {passed}."
        )
    if report.unknown:
        return f"No problems found, but {len(report.unknown)} could not be checked; {passed}."
    return f"Healthy: {passed}."


@click.command(short_help="Check the store for problems and say how to fix them.")
@click.option("--fix", is_flag=True, help="Fix what can be fixed safely, and report it.")
@click.option("--full", is_flag=True, help="Check everything, however long it takes.")
@pass_console
def doctor(console: Console, *, fix: bool, full: bool) -> None:
    """Check the store for problems and say how to fix them.

    Without --fix it changes nothing. It never waits for a lock, and takes at most 20 seconds
    however large the store is; --full checks all of it.

    Exit codes: 0 healthy, 1 problems found, 2 something could not be checked.
    """
    show_warnings(console)
    found = _checked(console, full=full)
    if fix and any(finding.fix for finding in found.findings):
        from hermes_sessions.storage.care.doctor.check_runner import apply_fixes

        def open_store() -> AbstractContextManager[SessionDB]:
            return open_for_writing(console)

        mended = apply_fixes(found, open_store)
        found = replace(_checked(console, full=full), mended=mended)
    if console.as_json:
        console.print_json(document(found))
    else:
        console.print(report_lines(found, console.style))
    if found.exit_code:
        raise click.exceptions.Exit(found.exit_code)


def _checked(console: Console, *, full: bool) -> Report:
    """Run all checks, again if another process changed the store meanwhile."""
    from hermes_sessions.cli.doctor.checks import ALL
    from hermes_sessions.storage.care.doctor.access_checks import opened
    from hermes_sessions.storage.care.doctor.check_runner import run_checks

    first = subject(console, full=full)
    attempts = 0
    while True:
        attempts += 1
        # All attempts share one time limit.
        with opened(replace(first)) as examined:
            report = run_checks(examined, ALL)
        if not examined.was_disturbed or attempts == _ATTEMPTS:
            return report


def subject(console: Console, *, full: bool = False) -> ExaminedStore:
    """Return the configured store as the checks see it, with their time limit."""
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
    """Return a report as the JSON that ``--json`` prints."""
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

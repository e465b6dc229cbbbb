"""What the doctor found, for people."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from hermes_sessions.cli.render.quantity import counted
from hermes_sessions.cli.render.safe_text import one_line

if TYPE_CHECKING:
    from hermes_sessions.cli.render.style import Style
    from hermes_sessions.storage.care.doctor.report import Finding, Report


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

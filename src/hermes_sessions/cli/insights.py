"""``hermes insights``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import number_of_days, pass_console, source_option
from hermes_sessions.cli.store import open_for_reading


@click.command(short_help="Show usage: models, tools, activity and cost.")
@click.option(
    "--days",
    metavar="N",
    default="30",
    callback=number_of_days,
    show_default=True,
    help="Include sessions started in the last N days; 0 for all.",
)
@source_option
@pass_console
def insights(console: Console, *, days: float, source: str | None) -> None:
    """Show how the store was used.

    Prints totals, models, platforms, tools, activity by weekday and hour, tokens and cost over
    time, and the top sessions. A cost that is not known is shown as unknown, not as zero.
    """
    with open_for_reading(console) as db:
        report = db.get_insights(days, source)
    if console.as_json:
        console.print_json(report)
    else:
        from hermes_sessions.cli.render.insights import insights_lines

        console.print(insights_lines(report, console.style))

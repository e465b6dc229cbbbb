"""``hermes sessions retention plan``, ``approve``, ``run`` and ``status``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.lazy_group import LazyCommand, LazyGroup, show_help_without_command
from hermes_sessions.cli.options import pass_console, yes_option
from hermes_sessions.cli.render.retention import (
    consent_line,
    limits_lines,
    plan_lines,
    result_lines,
)
from hermes_sessions.cli.sessions.delete import dry_run_option
from hermes_sessions.cli.store import open_for_reading, open_for_writing

_HERE = "hermes_sessions.cli.sessions.retention"

COMMANDS = {
    "plan": LazyCommand(f"{_HERE}:plan", "Show what is over a limit; nothing is changed."),
    "approve": LazyCommand(f"{_HERE}:approve", "See the plan, and agree to the limits."),
    "run": LazyCommand(f"{_HERE}:run", "Move what is over a limit to the trash."),
    "status": LazyCommand(f"{_HERE}:status", "Show the limits, and whether they are approved."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS, invoke_without_command=True)
@click.pass_context
def retention(context: click.Context) -> None:
    """Limit what is kept, by class.

    Classes are human, cron, subagent and api. The limits are in config.yaml, as
    retention.cron.max_age_days, max_count and max_bytes. Nothing is deleted before you saw once
    what they come to, and agreed; changed limits ask again.
    """
    show_help_without_command(context)


@click.command(short_help="Show what is over a limit; nothing is changed.")
@pass_console
def plan(console: Console) -> None:
    """Show what is over a limit now, and why. Nothing is changed."""
    with open_for_reading(console) as db:
        made = db.plan_retention()
    if console.as_json:
        console.print_json(made.document())
    else:
        console.print([*plan_lines(made), consent_line(made)])


@click.command(short_help="See the plan, and agree to the limits.")
@yes_option
@pass_console
def approve(console: Console, *, yes: bool) -> None:
    """Show what is over a limit now, and ask whether you agree to the limits.

    From then on "hermes sessions retention run", and the maintenance that programs run, move what
    is over a limit to the trash. Nothing is moved by this command.
    """
    with open_for_writing(console) as db:
        made = db.plan_retention()
        if not console.as_json:
            console.tell(plan_lines(made))
        if made.policies.has_limits and not yes:
            question = "Do you agree that what is over these limits is moved to the trash?"
            if not console.confirm(question):
                console.tell("Not approved; nothing was changed.")
                raise click.exceptions.Exit(1)
        consent = db.approve_retention(made)
    if console.as_json:
        document = {**made.document(), "approved": True, "approved_at": consent.approved_at}
        console.print_json(document)
    else:
        console.print("Approved. To move what is over a limit now: hermes sessions retention run")


@click.command(short_help="Move what is over a limit to the trash.")
@dry_run_option
@pass_console
def run(console: Console, *, dry_run: bool) -> None:
    """Move what is over a limit to the trash, if the limits were approved.

    Sessions that were never ended, and have not been used for retention.close_after_days, are
    ended first. What is pinned, on hold or in use stays.
    """
    if dry_run:
        with open_for_reading(console) as db:
            made = db.plan_retention()
        if console.as_json:
            console.print_json({"dry_run": True, **made.document()})
        else:
            console.print([*plan_lines(made), "Nothing was changed."])
        return
    with open_for_writing(console) as db:
        total = db.plan_retention().sessions
        with console.progress("Moving", total) as progress:
            result = db.run_retention(on_progress=progress.advance)
        days = db.store.trash_days
    if console.as_json:
        console.print_json(
            {
                "moved": list(result.moved),
                "messages": result.messages,
                "closed": list(result.closed),
                "spared": list(result.spared),
            }
        )
    else:
        console.print(result_lines(result, days))


@click.command(short_help="Show the limits, and whether they are approved.")
@pass_console
def status(console: Console) -> None:
    """Show the limits, whether they are approved, and how much is over them."""
    with open_for_reading(console) as db:
        made = db.plan_retention()
        holds = len(db.list_holds())
    if console.as_json:
        document = made.document()
        del document["departures"], document["closings"]
        console.print_json({**document, "holds": holds})
        return
    console.print(limits_lines(made.policies))
    console.print(f"Over a limit: {made.sessions}")
    console.print(f"On hold: {holds}")
    console.print(consent_line(made))

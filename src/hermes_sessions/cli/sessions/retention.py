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
    "plan": LazyCommand(f"{_HERE}:plan", "Show what exceeds a limit; change nothing."),
    "approve": LazyCommand(f"{_HERE}:approve", "Review the plan and approve the limits."),
    "run": LazyCommand(f"{_HERE}:run", "Move what exceeds a limit to the trash."),
    "status": LazyCommand(f"{_HERE}:status", "Show the limits and whether they are approved."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS, invoke_without_command=True)
@click.pass_context
def retention(context: click.Context) -> None:
    """Limit how much is kept, by session class.

    The classes are human, cron, subagent and api. Set limits in config.yaml, for example
    retention.cron.max_age_days, max_count or max_bytes. Nothing is deleted until you have reviewed
    and approved the limits; changed limits need a new approval.
    """
    show_help_without_command(context)


@click.command(short_help="Show what exceeds a limit; change nothing.")
@pass_console
def plan(console: Console) -> None:
    """Show what exceeds a limit now, and why. Changes nothing."""
    with open_for_reading(console) as db:
        made = db.plan_retention()
    if console.as_json:
        console.print_json(made.document())
    else:
        console.print([*plan_lines(made), consent_line(made)])


@click.command(short_help="Review the plan and approve the limits.")
@yes_option
@pass_console
def approve(console: Console, *, yes: bool) -> None:
    """Show what exceeds a limit now, and ask whether you approve the limits.

    After that, "hermes sessions retention run" and automatic maintenance move what exceeds a limit
    to the trash. This command moves nothing.
    """
    with open_for_writing(console) as db:
        made = db.plan_retention()
        if not console.as_json:
            console.tell(plan_lines(made))
        if made.policies.has_limits and not yes:
            question = "Move what exceeds these limits to the trash from now on?"
            if not console.confirm(question):
                console.tell("Not approved; nothing was changed.")
                raise click.exceptions.Exit(1)
        consent = db.approve_retention(made)
    if console.as_json:
        document = {**made.document(), "approved": True, "approved_at": consent.approved_at}
        console.print_json(document)
    else:
        console.print("Approved. To apply the limits now, run: hermes sessions retention run")


@click.command(short_help="Move what exceeds a limit to the trash.")
@dry_run_option
@pass_console
def run(console: Console, *, dry_run: bool) -> None:
    """Move what exceeds a limit to the trash, if the limits are approved.

    First ends sessions that were never ended and have been inactive for
    retention.close_after_days. Conversations that are pinned, on hold or in use stay.
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


@click.command(short_help="Show the limits and whether they are approved.")
@pass_console
def status(console: Console) -> None:
    """Show the limits, whether they are approved, and how much exceeds them."""
    with open_for_reading(console) as db:
        made = db.plan_retention()
        holds = len(db.list_holds())
    if console.as_json:
        document = made.document()
        del document["departures"], document["closings"]
        console.print_json({**document, "holds": holds})
        return
    console.print(limits_lines(made.policies))
    console.print(f"Exceeding a limit: {made.sessions}")
    console.print(f"On hold: {holds}")
    console.print(consent_line(made))

"""``hermes gateway pair``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.humanize import relative_time
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.store import open_for_reading, open_for_writing
from hermes_sessions.config import load_settings
from hermes_sessions.storage.repositories.senders import Sender, Senders


@click.command(short_help="Let a user talk to the agent.")
@click.argument("code", required=False)
@click.option("--list", "listed", is_flag=True, help="Show allowed, blocked and waiting users.")
@click.option("--allow", nargs=2, metavar="PLATFORM ID", help="Allow a user without a code.")
@click.option("--block", nargs=2, metavar="PLATFORM ID", help="Block a user.")
@click.option("--forget", nargs=2, metavar="PLATFORM ID", help="Forget the decision about a user.")
@pass_console
def pair(
    console: Console,
    *,
    code: str | None,
    listed: bool,
    allow: tuple[str, str] | None,
    block: tuple[str, str] | None,
    forget: tuple[str, str] | None,
) -> None:
    """Allow the user to whom the bot gave this pairing CODE.

    Users who are not in platforms.NAME.allowed_users get a code when they write to the bot in
    private. It expires after an hour. Only approve a code if you know who received it.
    """
    wanted = [each for each in (code, allow, block, forget) if each]
    if len(wanted) + listed != 1:
        raise click.UsageError("Give a code, or one of --list, --allow, --block and --forget.")
    opened = open_for_reading if listed else open_for_writing
    with opened(console) as db:
        senders = Senders(db.store, load_settings().gateway.namespace)
        if listed:
            _show(console, senders.list())
        elif code:
            sender = senders.approve(code)
            _report(console, sender.platform, sender.sender_id, "may talk to the agent now")
        elif allow:
            senders.decide(*allow, "allowed")
            _report(console, *allow, "may talk to the agent now")
        elif block:
            senders.decide(*block, "blocked")
            _report(console, *block, "is kept out", shown="is blocked")
        elif forget:
            known = senders.forget(*forget)
            _report(console, *forget, "is forgotten" if known else "was not known")


def _report(
    console: Console, platform: str, sender_id: str, result: str, *, shown: str | None = None
) -> None:
    """Print the result; *shown* replaces it for people, because scripts compare the JSON value."""
    if console.as_json:
        console.print_json({"platform": platform, "sender_id": sender_id, "result": result})
    else:
        console.print(f"{one_line(sender_id)} on {platform} {shown or result}.")


def _show(console: Console, senders: list[Sender]) -> None:
    if console.as_json:
        console.print_json({"senders": [sender._asdict() for sender in senders]})
        return
    now = console.clock()
    console.print(
        [
            f"{sender.status} {sender.platform} {one_line(sender.sender_id)} "
            f"{one_line(sender.name or '')} {relative_time(sender.created_at, now)}".replace(
                "  ", " "
            )
            for sender in senders
        ]
        or "No users are allowed, blocked or waiting."
    )

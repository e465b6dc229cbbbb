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


@click.command(short_help="Let somebody talk to the agent.")
@click.argument("code", required=False)
@click.option("--list", "listed", is_flag=True, help="Show who was let in, blocked, or waits.")
@click.option(
    "--allow", nargs=2, metavar="PLATFORM ID", help="Let somebody in without a code, by their id."
)
@click.option("--block", nargs=2, metavar="PLATFORM ID", help="Keep somebody out.")
@click.option("--forget", nargs=2, metavar="PLATFORM ID", help="Forget what was decided.")
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
    """Let in somebody who was given a pairing CODE by the bot.

    Whoever is not listed in platforms.NAME.allowed_users and writes to the bot in private gets a
    code, which is good for an hour. Tell nobody in whose code you have not seen them receive.
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
            _say(console, sender.platform, sender.sender_id, "may talk to the agent now")
        elif allow:
            senders.decide(*allow, "allowed")
            _say(console, *allow, "may talk to the agent now")
        elif block:
            senders.decide(*block, "blocked")
            _say(console, *block, "is kept out")
        elif forget:
            known = senders.forget(*forget)
            _say(console, *forget, "is forgotten" if known else "was not known")


def _say(console: Console, platform: str, sender_id: str, what: str) -> None:
    if console.as_json:
        console.print_json({"platform": platform, "sender_id": sender_id, "result": what})
    else:
        console.print(f"{one_line(sender_id)} on {platform} {what}.")


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
        or "Nobody was let in or waits."
    )

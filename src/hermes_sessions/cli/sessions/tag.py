"""``hermes sessions tag``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.session_lookup import find_session
from hermes_sessions.cli.store import open_for_reading, open_for_writing
from hermes_sessions.model.labels import normalize_tags


class _TagCommand(click.Command):
    """A command whose ``-name`` arguments are tags to remove, unless they are options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments."""
        options = {name for parameter in self.get_params(ctx) for name in parameter.opts}
        marked = [
            f"\0{word}" if word.startswith("-") and word != "--" and word not in options else word
            for word in args
        ]
        return super().parse_args(ctx, marked)


@click.command(cls=_TagCommand, short_help="Add and remove tags of a session.")
@click.argument("reference", metavar="ID")
@click.argument("changes", metavar="[+TAG | -TAG]...", nargs=-1)
@pass_console
def tag(console: Console, *, reference: str, changes: tuple[str, ...]) -> None:
    """Add and remove tags of a session, and print its tags.

    +TAG, or just TAG, adds one and -TAG removes one; without any, nothing is changed. Case makes no
    difference. Put a tag of several words in quotes: "+needs review". A conversation that was
    continued under new ids has the same tags everywhere.
    """
    words = [word.removeprefix("\0") for word in changes]
    # Checked first, so that nothing is changed if one of them is invalid.
    removed = normalize_tags([word[1:] for word in words if word.startswith("-")])
    added = normalize_tags([word.removeprefix("+") for word in words if word[:1] != "-"])
    opened = open_for_writing if words else open_for_reading
    with opened(console) as db:
        session = find_session(db, reference.removeprefix("\0"))
        tags = session["tags"]
        if removed:
            tags = db.remove_tags(session["id"], removed)
        if added:
            tags = db.add_tags(session["id"], added)
    if console.as_json:
        console.print_json({"id": session["id"], "tags": tags})
    elif tags:
        console.print(f"Tags of {one_line(session['id'])}: {', '.join(map(one_line, tags))}")
    else:
        console.print(f"Session {one_line(session['id'])} has no tags.")

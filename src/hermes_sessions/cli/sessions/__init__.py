"""The ``hermes sessions`` commands, one file per subject."""

from __future__ import annotations

import click

from hermes_sessions.cli.lazy_group import LazyCommand, LazyGroup, show_help_without_command

# The ``hermes sessions`` group: which commands there are, and where they live.


_HERE = "hermes_sessions.cli.sessions"


COMMANDS = {
    "list": LazyCommand(f"{_HERE}.list:list_sessions", "List sessions, newest activity first."),
    "browse": LazyCommand(f"{_HERE}.browse:browse", "Find a session as you type, and resume it."),
    "show": LazyCommand(f"{_HERE}.show:show", "Show one session and its last messages."),
    "explain": LazyCommand(
        f"{_HERE}.explain:explain", "Say why a conversation is in the session it is in."
    ),
    "search": LazyCommand(f"{_HERE}.search:search", "Find messages by what they say."),
    "rename": LazyCommand(f"{_HERE}.rename:rename", "Set or clear the title of a session."),
    "delete": LazyCommand(f"{_HERE}.delete:delete", "Move sessions to the trash."),
    "restore": LazyCommand(f"{_HERE}.trash:restore", "Bring sessions back from the trash."),
    "trash": LazyCommand(f"{_HERE}.trash:trash", "List what is in the trash, or empty it."),
    "archive": LazyCommand(
        f"{_HERE}.archive_pin:archive", "Take sessions out of the list; nothing is deleted."
    ),
    "unarchive": LazyCommand(
        f"{_HERE}.archive_pin:unarchive", "Put archived sessions back into the list."
    ),
    "pin": LazyCommand(f"{_HERE}.archive_pin:pin", "Keep sessions from ever being pruned."),
    "unpin": LazyCommand(f"{_HERE}.archive_pin:unpin", "Let pinned sessions be pruned again."),
    "hold": LazyCommand(f"{_HERE}.hold:hold", "Let nothing delete a conversation."),
    "unhold": LazyCommand(f"{_HERE}.hold:unhold", "Let a conversation be deleted again."),
    "holds": LazyCommand(f"{_HERE}.hold:holds", "List what is on hold, and why."),
    "export": LazyCommand(
        f"{_HERE}.export:export", "Write sessions to a file: JSONL, Markdown or HTML."
    ),
    "import": LazyCommand(f"{_HERE}.import_:import_", "Read sessions from a file."),
    "prune": LazyCommand(f"{_HERE}.prune:prune", "Move old, ended sessions to the trash."),
    "retention": LazyCommand(f"{_HERE}.retention:retention", "Limit what is kept, by class."),
    "optimize": LazyCommand(f"{_HERE}.optimize:optimize", "Bring the search index up to date."),
    "stats": LazyCommand(f"{_HERE}.stats:stats", "Count sessions and messages."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS, invoke_without_command=True)
@click.pass_context
def sessions(context: click.Context) -> None:
    """List, read and manage stored sessions.

    ID is a session id, the beginning of one, or a title.
    """
    show_help_without_command(context)

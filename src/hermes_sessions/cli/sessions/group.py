"""The ``hermes sessions`` group: which commands there are, and where they live."""

from __future__ import annotations

import click

from hermes_sessions.cli.lazy import LazyCommand, LazyGroup, show_help_without_command

_HERE = "hermes_sessions.cli.sessions"

COMMANDS = {
    "list": LazyCommand(f"{_HERE}.listing:list_sessions", "List sessions, newest activity first."),
    "browse": LazyCommand(f"{_HERE}.browsing:browse", "Find a session as you type, and resume it."),
    "show": LazyCommand(f"{_HERE}.showing:show", "Show one session and its last messages."),
    "explain": LazyCommand(
        f"{_HERE}.explaining:explain", "Say why a conversation is in the session it is in."
    ),
    "search": LazyCommand(f"{_HERE}.searching:search", "Find messages by what they say."),
    "rename": LazyCommand(f"{_HERE}.renaming:rename", "Set or clear the title of a session."),
    "delete": LazyCommand(f"{_HERE}.removal:delete", "Move sessions to the trash."),
    "restore": LazyCommand(f"{_HERE}.trash:restore", "Bring sessions back from the trash."),
    "trash": LazyCommand(f"{_HERE}.trash:trash", "List what is in the trash, or empty it."),
    "archive": LazyCommand(
        f"{_HERE}.marking:archive", "Take sessions out of the list; nothing is deleted."
    ),
    "unarchive": LazyCommand(
        f"{_HERE}.marking:unarchive", "Put archived sessions back into the list."
    ),
    "pin": LazyCommand(f"{_HERE}.marking:pin", "Keep sessions from ever being pruned."),
    "unpin": LazyCommand(f"{_HERE}.marking:unpin", "Let pinned sessions be pruned again."),
    "hold": LazyCommand(f"{_HERE}.holding:hold", "Let nothing delete a conversation."),
    "unhold": LazyCommand(f"{_HERE}.holding:unhold", "Let a conversation be deleted again."),
    "holds": LazyCommand(f"{_HERE}.holding:holds", "List what is on hold, and why."),
    "export": LazyCommand(
        f"{_HERE}.exporting:export", "Write sessions to a file: JSONL, Markdown or HTML."
    ),
    "import": LazyCommand(f"{_HERE}.importing:import_", "Read sessions from a file."),
    "prune": LazyCommand(f"{_HERE}.pruning:prune", "Move old, ended sessions to the trash."),
    "retention": LazyCommand(f"{_HERE}.retention:retention", "Limit what is kept, by class."),
    "optimize": LazyCommand(f"{_HERE}.optimizing:optimize", "Bring the search index up to date."),
    "stats": LazyCommand(f"{_HERE}.statistics:stats", "Count sessions and messages."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS, invoke_without_command=True)
@click.pass_context
def sessions(context: click.Context) -> None:
    """List, read and manage stored sessions.

    ID is a session id, the beginning of one, or a title.
    """
    show_help_without_command(context)

"""The ``hermes sessions`` group: its commands and where they live."""

from __future__ import annotations

import click

from hermes_sessions.cli.lazy_group import LazyCommand, LazyGroup, show_help_without_command

_HERE = "hermes_sessions.cli.sessions"

COMMANDS = {
    "list": LazyCommand(
        f"{_HERE}.list:list_sessions", "List sessions, most recently active first."
    ),
    "browse": LazyCommand(f"{_HERE}.browse:browse", "Search sessions as you type, and resume one."),
    "show": LazyCommand(f"{_HERE}.show:show", "Show one session and its last messages."),
    "explain": LazyCommand(
        f"{_HERE}.explain:explain", "Explain why a conversation uses its current session."
    ),
    "search": LazyCommand(f"{_HERE}.search:search", "Search messages."),
    "rename": LazyCommand(f"{_HERE}.rename:rename", "Set or clear the title of a session."),
    "tag": LazyCommand(f"{_HERE}.tag:tag", "Add and remove tags of a session."),
    "delete": LazyCommand(f"{_HERE}.delete:delete", "Move sessions to the trash."),
    "restore": LazyCommand(f"{_HERE}.restore:restore", "Restore sessions from the trash."),
    "trash": LazyCommand(f"{_HERE}.trash:trash", "List or empty the trash."),
    "archive": LazyCommand(
        f"{_HERE}.archive_pin:archive", "Hide sessions from the list without deleting them."
    ),
    "unarchive": LazyCommand(
        f"{_HERE}.archive_pin:unarchive", "Show archived sessions in the list again."
    ),
    "pin": LazyCommand(f"{_HERE}.archive_pin:pin", "Protect sessions from pruning."),
    "unpin": LazyCommand(f"{_HERE}.archive_pin:unpin", "Allow pinned sessions to be pruned again."),
    "hold": LazyCommand(f"{_HERE}.hold:hold", "Protect conversations from any deletion."),
    "unhold": LazyCommand(f"{_HERE}.hold:unhold", "Lift the holds on conversations."),
    "holds": LazyCommand(f"{_HERE}.hold:holds", "List the conversations on hold, and why."),
    "export": LazyCommand(f"{_HERE}.export:export", "Export sessions as JSONL, Markdown or HTML."),
    "import": LazyCommand(f"{_HERE}.import_:import_", "Import sessions from a file."),
    "prune": LazyCommand(f"{_HERE}.prune:prune", "Move old, ended sessions to the trash."),
    "retention": LazyCommand(
        f"{_HERE}.retention:retention", "Limit how much is kept, by session class."
    ),
    "optimize": LazyCommand(
        f"{_HERE}.optimize:optimize", "Update the search index and free unused space."
    ),
    "stats": LazyCommand(f"{_HERE}.stats:stats", "Count sessions and messages."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS, invoke_without_command=True)
@click.pass_context
def sessions(context: click.Context) -> None:
    """List, read and manage stored sessions.

    ID is a session id, the beginning of an id, or a title.
    """
    show_help_without_command(context)

"""``hermes sessions browse``."""

from __future__ import annotations

import os
import sys
from functools import lru_cache, partial
from itertools import dropwhile

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console, selection_options, source_option
from hermes_sessions.cli.render.humanize import counted, moment
from hermes_sessions.cli.render.picker import (
    LEAST_COLUMNS,
    LEAST_LINES,
    Piece,
    layout,
    picker_lines,
)
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.render.search_results import HitContext, hit_lines
from hermes_sessions.cli.render.shell_commands import resume_line
from hermes_sessions.cli.render.style import Style
from hermes_sessions.cli.render.text_width import wrap
from hermes_sessions.cli.render.transcript import message_lines
from hermes_sessions.cli.selection import SelectionOptions
from hermes_sessions.cli.session_list import HIDDEN_SOURCES
from hermes_sessions.cli.sessions.browse_picker import Picker, Row, rows_for
from hermes_sessions.cli.store import open_for_searching
from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.storage.sessiondb import SessionDB

#: How many messages the preview shows.
_PREVIEWED = 6
#: The exit code of a user who quits without choosing.
_LEFT = 1


class BrowseError(HermesSessionsError):
    """There is no terminal to browse on, or prompt_toolkit is not installed."""


@click.command(short_help="Search sessions as you type, and resume one.")
@source_option
@selection_options
@pass_console
def browse(console: Console, *, source: str | None, selection: SelectionOptions) -> None:
    """Search sessions as you type, preview them, and resume one.

    Typing searches titles and messages. Up and Down move; Enter resumes the session, or with
    --json prints the command that does; Esc clears the search, and quits if it is empty; q quits
    if nothing was typed. Exits with 1 if you quit without choosing.
    """
    _require_terminal()
    try:
        from hermes_sessions.cli.sessions.browse_terminal import pick
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prompt_toolkit":
            raise
        raise BrowseError(
            "Browsing needs prompt_toolkit. Use hermes sessions list or search instead, or install "
            "it: pip install 'hermes-sessions[chat]'"
        ) from error
    with open_for_searching(console) as db:
        selected = selection.read(db)
        picker = Picker(
            partial(rows_for, db, source=source, hidden=HIDDEN_SOURCES, selection=selected)
        )
        colour = console.style.colour
        chosen = pick(picker, Screen(console, db, picker).draw, colour=colour)
    if chosen is None:
        raise click.exceptions.Exit(_LEFT)
    _open(console, chosen)


def _open(console: Console, session_id: str) -> None:
    """Resume the session, or with ``--json`` print the command that does."""
    if console.as_json:
        console.print_json({"id": session_id, "command": resume_line("--resume", session_id)})
        return
    from hermes_sessions.cli.main import run

    raise click.exceptions.Exit(run([f"--resume={session_id}"], console))


def _require_terminal() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BrowseError("Browsing needs a terminal. In scripts, use: hermes sessions list --json")
    size = os.get_terminal_size(sys.stdout.fileno())
    if 0 < size.columns < LEAST_COLUMNS or 0 < size.lines < LEAST_LINES:
        raise BrowseError(
            f"The window is too small for browsing: it needs at least {LEAST_COLUMNS} columns and "
            f"{LEAST_LINES} lines."
        )


class Screen:
    """Draws the picker's state, with a preview read from the store."""

    def __init__(self, console: Console, db: SessionDB, picker: Picker) -> None:
        self._now = console.clock()
        self._ascii_only = console.style.ascii_only
        self._db = db
        self._picker = picker
        self._preview = lru_cache(maxsize=64)(self._read_preview)

    def draw(self, columns: int, lines: int) -> list[list[Piece]]:
        """Return the lines of the screen for a window of this size."""
        picker, size = self._picker, layout(columns, lines)
        picker.page = size.list_lines
        chosen = picker.chosen
        preview = (
            self._preview(chosen.id, picker.text, size.preview_columns)
            if chosen is not None and size.preview_lines
            else []
        )
        return picker_lines(
            picker.text,
            picker.rows,
            picker.selected,
            preview,
            size=size,
            now=self._now,
            style=Style(ascii_only=self._ascii_only),
            more=picker.has_more,
        )

    def _read_preview(self, session_id: str, _text: str, columns: int) -> list[str]:
        row = self._picker.chosen
        style = Style(ascii_only=self._ascii_only, width=columns)
        session = self._db.get_session(session_id)
        if session is None or row is None:
            return ["This session has just been deleted."]
        facts = [
            one_line(row.source),
            one_line(session["model"] or ""),
            counted(session["message_count"] or 0, "message"),
            moment(row.last_active, self._now),
        ]
        return [
            *wrap(one_line(row.name) or style.nothing, columns),
            *wrap(style.separator.join(fact for fact in facts if fact), columns),
            one_line(session_id),
            "",
            *self._messages(row, session["message_count"] or 0, style),
        ]

    def _messages(self, row: Row, stored: int, style: Style) -> list[str]:
        """Return the hit of the search, or without one the last messages."""
        if row.hit is not None:
            found = hit_lines(row.hit, HitContext(name=row.name), now=self._now, style=style)
            # Name, time and place are on the screen already, and the command is Enter.
            return list(dropwhile(lambda line: not line.startswith("> "), found[:-1]))
        start = max(stored - _PREVIEWED, 0)
        messages = self._db.get_messages(row.id, limit=_PREVIEWED, offset=start)
        return [
            line
            for message in reversed(messages)
            for line in (*message_lines(message, style=style, full=False), "")
        ]
